/* Marks for the lab's plug-in: which part of a program is counted and delayed (docs/LAB.md).
 *
 * A mark is one long no-operation with a displacement of its own. Elsewhere than in the lab it does nothing, so a program may
 * keep its marks. */
#ifndef NUMAMMA_LAB_H
#define NUMAMMA_LAB_H

#define NUMAMMA_LAB_START 0x4e4d4c01 /* count and delay from here */
#define NUMAMMA_LAB_STOP 0x4e4d4c02  /* and no longer */
#define NUMAMMA_LAB_RESET 0x4e4d4c03 /* what was counted is forgotten */

#define NUMAMMA_LAB_TEXT_(number) #number
#define NUMAMMA_LAB_TEXT(number) NUMAMMA_LAB_TEXT_(number)

#if defined(__x86_64__)
/* nopl number(%rax) */
#define NUMAMMA_LAB_MARK(number) \
    __asm__ volatile(".byte 0x0f, 0x1f, 0x80\n\t.long " NUMAMMA_LAB_TEXT(number) ::: "memory")
#else
#define NUMAMMA_LAB_MARK(number) ((void)0)
#endif

#endif
