// Memory from `new`, in variables, members and containers of main: objects are called as what the program holds them by.
#include "workload.h"

#include <vector>

enum { N = 1 << 17 };

struct Mesh {
    double *weights;
    explicit Mesh(size_t n) : weights(new double[n]) // site: weights
    {
        for (size_t i = 0; i < n; i++)
            weights[i] = 1;
    }
};

struct Block {
    double values[N];
};

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    double *array = new double[N]();       // site: array
    Block *block = new Block();            // site: block
    std::vector<double> prices(N, 1.0);    // site: prices
    Mesh *mesh = new Mesh(N);

    sweep_for(array, N, 0.40 * seconds);
    sweep_for(block->values, N, 0.30 * seconds);
    sweep_for(prices.data(), N, 0.20 * seconds);
    sweep_for(mesh->weights, N, 0.10 * seconds);
    puts("news ok");
    delete[] array;
    delete block;
    return 0;
}
