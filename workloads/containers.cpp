// Containers of the C++ library from several call sites, each used for a known share of the time.
#include "workload.h"

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

using std::size_t;

static volatile uint64_t sink;

/* `use` until the part has had its CPU time, the making of its container included. */
template <class Use> static void until(double end, Use use)
{
    do
        use();
    while (cpu_now() < end);
}

__attribute__((noinline)) static std::vector<double> make_prices(size_t n)
{
    return std::vector<double>(n, 2.0); // site: prices
}

__attribute__((noinline)) static std::vector<double> make_volumes(size_t n)
{
    std::vector<double> v;
    v.resize(n, 2.0); // site: volumes
    return v;
}

__attribute__((noinline)) static std::map<uint32_t, uint64_t> make_tree(uint32_t n)
{
    std::map<uint32_t, uint64_t> tree;
    for (uint32_t i = 0; i < n; i++)
        tree.emplace(i * 2654435761u, i); // site: tree
    return tree;
}

__attribute__((noinline)) static std::unordered_map<uint32_t, uint64_t> make_hash(uint32_t n)
{
    std::unordered_map<uint32_t, uint64_t> hash;
    for (uint32_t i = 0; i < n; i++)
        hash[i * 2654435761u] = i; // site: hash
    return hash;
}

__attribute__((noinline)) static std::string make_text(size_t n)
{
    return std::string(n, 'a'); // site: text
}

int main(int argc, char **argv)
{
    double seconds = seconds_of(argc, argv), end = cpu_now();

    end += 0.30 * seconds;
    auto prices = make_prices(1 << 18);
    until(end, [&] { sweep(prices.data(), prices.size()); });

    end += 0.20 * seconds;
    auto volumes = make_volumes(1 << 18);
    until(end, [&] { sweep(volumes.data(), volumes.size()); });

    end += 0.25 * seconds;
    auto tree = make_tree(1 << 15);
    until(end, [&] {
        uint64_t sum = 0;
        for (auto &entry : tree)
            sum += entry.second;
        require(sum == (uint64_t(1 << 15) - 1) * (1 << 15) / 2, "sum over the map");
    });

    end += 0.10 * seconds;
    auto hash = make_hash(1 << 15);
    until(end, [&] {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < 1 << 15; i++)
            sum += hash.find(i * 2654435761u)->second;
        require(sum == (uint64_t(1 << 15) - 1) * (1 << 15) / 2, "sum over the hash");
    });

    end += 0.15 * seconds;
    auto text = make_text(4 << 20);
    until(end, [&] {
        uint64_t sum = 0;
        for (char c : text)
            sum += c == 'a';
        require(sum == text.size(), "letters of the text");
        sink = sum;
    });
    puts("containers ok");
    return 0;
}
