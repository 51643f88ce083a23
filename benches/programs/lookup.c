/* Single-threaded: a chained hash table of single nodes, 32 MiB in all, looked up at random; now and then a node is
 * replaced, so that there are some allocations (one in 256 lookups). */
#include "report_times.h"

#include <stdint.h>

enum { NODES = 1 << 18, BUCKETS = 1 << 17 };

struct node {
    struct node *next;
    uint64_t key, value;
    char rest[72];
};

static struct node *buckets[BUCKETS];

static struct node **place(uint64_t key)
{
    struct node **at = &buckets[(key * 0x9e3779b97f4a7c15ul >> 40) % BUCKETS];
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    return at;
}

static void insert(struct node **at, uint64_t key)
{
    struct node *new = malloc(sizeof *new);
    new->next = *at;
    new->key = key;
    new->value = 1;
    *at = new;
}

int main(int argc, char **argv)
{
    long lookups = count_of(argc, argv, 20000000);
    uint64_t random = 1, sum = 0;
    for (uint64_t key = 0; key < NODES; key++)
        insert(place(key), key);
    work_begins();
    for (long i = 0; i < lookups; i++) {
        random = random * 6364136223846793005ul + 1442695040888963407ul;
        uint64_t key = (random >> 33) % NODES;
        struct node **at = place(key);
        sum += (*at)->value;
        if (i % 256 == 0) {
            struct node *old = *at;
            *at = old->next;
            free(old);
            insert(at, key);
        }
    }
    work_ends();
    return sum == (uint64_t)lookups ? 0 : 3;
}
