// The containers that C++ programs are made of, filled and emptied: containers ROUNDS.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

static uint64_t fill_and_empty(uint32_t seed)
{
    std::map<uint32_t, std::string> tree;
    std::unordered_map<std::string, std::vector<int>> table;
    std::vector<std::string> lines;
    uint32_t random = seed;
    for (int i = 0; i < 20000; i++) {
        random = random * 1664525u + 1013904223u;
        std::string key = "key number " + std::to_string(random % 5000);
        tree[random >> 8] = key;
        table[key].push_back(i);
        lines.push_back(key + " and what belongs to it");
        if (i % 3 == 0)
            tree.erase(tree.begin());
    }
    uint64_t sum = tree.size() + lines.size();
    for (const auto &entry : table)
        sum += entry.first.size() * entry.second.size();
    return sum;
}

int main(int argc, char **argv)
{
    int rounds = argc == 2 ? std::atoi(argv[1]) : 1;
    uint64_t sum = 0;
    for (int i = 0; i < rounds; i++)
        sum += fill_and_empty(static_cast<uint32_t>(i));
    std::printf("sum %llu\n", static_cast<unsigned long long>(sum));
    return 0;
}
