/* After each of many accesses, by six threads in turn on two sockets: who may write to a line holds it alone, and who has written
 * is the only one that holds it. Prints how often that was not so. */
#include "../caches/caches.c"

#include <stdio.h>

enum { THREADS = 6, LINES = 300, ACCESSES = 300000 };

uint64_t nmc_guard(void) { return 0; }

void nmc_unguard(uint64_t before) { (void)before; }

/* Whether a thread's caches have a line, and whether it holds that alone. */
static void look(struct nmc_private *of, uint64_t line, int *has, int *alone)
{
    for (unsigned level = 0; level < levels_count; level++) {
        const uint64_t *set = set_of(of, &levels[level], line);
        for (uint32_t way = 0; way < levels[level].ways; way++) {
            if (is_of(set[way], line)) {
                *has = 1;
                *alone |= set[way] & 1;
            }
        }
    }
}

int main(void)
{
    const struct nmm_caches shape = {.line = 64, .sockets = 2, .sets = {4, 8, 16}, .ways = {2, 4, 4}};
    struct nmc_private *of[THREADS];
    if (!nmc_begin(&shape))
        return 1;
    for (int i = 0; i < THREADS; i++)
        of[i] = nmc_new(NMC_IN_TURN);
    uint32_t random = 1;
    long wrong = 0;
    for (int i = 0; i < ACCESSES; i++) {
        random = random * 1664525 + 1013904223;
        const bool write = random >> 28 < 4;
        const uint64_t line = (random >> 10) % LINES;
        nmc_reaches(of[(random >> 3) % THREADS], line * 64, 8, 0, write);
        int holders = 0, owners = 0;
        for (int k = 0; k < THREADS; k++) {
            int has = 0, alone = 0;
            take_mail(of[k]);
            look(of[k], line, &has, &alone);
            holders += has;
            owners += alone;
        }
        wrong += (owners > 0 && holders > 1) || (write && holders != 1);
    }
    printf("%ld\n", wrong);
    return 0;
}
