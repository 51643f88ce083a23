// Containers, members and helpers of the program's own: each array is called as what main holds it by, whichever function has
// allocated it.
#include "workload.h"

#include <vector>

enum { N = 1 << 17 };

template <typename T> __attribute__((noinline)) static T *allocate(size_t n)
{
    return static_cast<T *>(malloc(n * sizeof(T)));
}

template <typename T> __attribute__((noinline)) static T *zeroed(size_t n)
{
    T *p = new T[n];
    for (size_t i = 0; i < n; i++)
        p[i] = 0;
    return p;
}

__attribute__((noinline)) static void make(double **out, size_t n)
{
    *out = new double[n];
}

template <typename T> class Array {
    T *start;
    size_t size;

  public:
    __attribute__((noinline)) explicit Array(size_t n) : start(new T[n]), size(n) {}
    T *data() { return start; }
};

struct Mesh {
    double *x, *y;
    std::vector<double> w;
    __attribute__((noinline)) explicit Mesh(size_t n) : x(new double[n]), y(new double[n]), w(n) {}
};

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv);
    double *left = allocate<double>(N);       // site: left
    double *right = allocate<double>(N);      // site: right
    long *counts = allocate<long>(N);         // site: counts
    double *first = zeroed<double>(N);        // site: first
    double *second = zeroed<double>(N);       // site: second
    double *one, *other;
    make(&one, N);                            // site: one
    make(&other, N);                          // site: other
    Array<double> a(N);                       // site: a
    Array<long> b(N);                         // site: b
    Mesh m(N);                                // site: m
    Mesh n(N);                                // site: n

    double *arrays[] = {left, right, first, second, one, other, a.data(), m.x, m.y, m.w.data(), n.x, n.y, n.w.data()};
    int count = sizeof arrays / sizeof *arrays;
    for (int i = 0; i < count; i++)
        sweep_for(arrays[i], N, seconds / (count + 2));
    sweep_for((double *)counts, N, seconds / (count + 2));
    sweep_for((double *)b.data(), N, seconds / (count + 2));
    puts("members ok");
    return 0;
}
