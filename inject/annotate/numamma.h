/* Annotations for NumaMMA: names of memory, phases, and the part of a run that is to be sampled.
 *
 * This header is all there is: nothing is to be linked. Where the program is not recorded and no plan is applied to it, each of these
 * functions is a load and a test; in a statically linked program, too. C and C++. Safe in every thread and in signal handlers.
 *
 *     double *grid = my_pool_allocate(n);
 *     numamma_label(grid, n * sizeof *grid, "grid");     what the recording calls these bytes
 *     numamma_phase("solve");                            what happens from here on
 *
 * -DNUMAMMA_OFF makes all of it nothing. */
#ifndef NUMAMMA_H
#define NUMAMMA_H

#include <stddef.h>

#if !defined(NUMAMMA_OFF) && defined(__GNUC__) && defined(__ELF__) \
    && ((defined(__x86_64__) && !defined(__ILP32__)) || (defined(__aarch64__) && !defined(__ILP32__)))

/* The address of a function of the library that `numamma` puts into the program; NULL where it is not there. By way of the global
 * offset table, for the linker takes a weak reference of code that is not position-independent for one that nothing will ever
 * answer. */
#if defined(__x86_64__)
#define NUMAMMA_FIND_(name, into) __asm__(".weak " name "\n\tmov{q " name "@GOTPCREL(%%rip), %0| %0, QWORD PTR " name "@GOTPCREL[rip]}" : "=r"(into))
#else
#define NUMAMMA_FIND_(name, into) \
    __asm__(".weak " name "\n\tadrp %0, :got:" name "\n\tldr %0, [%0, :got_lo12:" name "]" : "=r"(into))
#endif

#define NUMAMMA_CALL_(name, type, arguments)  \
    do {                                      \
        type numamma_function_;               \
        NUMAMMA_FIND_(name, numamma_function_); \
        if (numamma_function_)                \
            numamma_function_ arguments;      \
    } while (0)

#else
#define NUMAMMA_CALL_(name, type, arguments) ((void)0)
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*numamma_label_type_)(const void *, size_t, const char *);
typedef void (*numamma_text_type_)(const char *);
typedef void (*numamma_address_type_)(const void *);
typedef void (*numamma_flag_type_)(int);

/* From now on these bytes are the object `name`: until the name is taken back, another takes its place, or the memory that they are
 * in is freed or unmapped. Text of up to 256 bytes; it may go afterwards. */
static __inline__ void numamma_label(const void *address, size_t bytes, const char *name)
{
    NUMAMMA_CALL_("numamma_v1_label", numamma_label_type_, (address, bytes, name));
    (void)address, (void)bytes, (void)name;
}

/* Takes the name back that begins at this address. */
static __inline__ void numamma_unlabel(const void *address)
{
    NUMAMMA_CALL_("numamma_v1_unlabel", numamma_address_type_, (address));
    (void)address;
}

/* A phase of the program begins, in all its threads; NULL: none. A plan may place objects anew here, which takes its time. */
static __inline__ void numamma_phase(const char *name)
{
    NUMAMMA_CALL_("numamma_v1_phase", numamma_text_type_, (name));
    (void)name;
}

/* The part of the run to be sampled, in all threads: `numamma record --marked` keeps what lies between these two. */
static __inline__ void numamma_begin(void) { NUMAMMA_CALL_("numamma_v1_wanted", numamma_flag_type_, (1)); }
static __inline__ void numamma_end(void) { NUMAMMA_CALL_("numamma_v1_wanted", numamma_flag_type_, (0)); }

#ifdef __cplusplus
}
#endif

#endif
