/* What numamma.f90 calls: Fortran has no weak references. */
#include <ISO_Fortran_binding.h>

#include "numamma.h"

#define MOST 256

/* A text without the blanks behind it, with an end. */
static const char *text(const CFI_cdesc_t *name, char *into)
{
    const char *from = name->base_addr;
    size_t length = name->elem_len < MOST ? name->elem_len : MOST;
    while (length > 0 && from[length - 1] == ' ')
        length--;
    for (size_t i = 0; i < length; i++)
        into[i] = from[i];
    into[length] = 0;
    return into;
}

/* The lowest byte of an array, and how many there are from there to its last: strides may be negative. Of an array that is passed
 * without its size (a(*)) nothing is known. */
static const char *extent(const CFI_cdesc_t *array, size_t *bytes)
{
    const char *low = array->base_addr;
    *bytes = array->elem_len;
    for (int i = 0; i < array->rank; i++) {
        const CFI_index_t last = array->dim[i].extent - 1, stride = array->dim[i].sm;
        if (last < 0) {
            *bytes = 0;
            return low;
        }
        if (stride < 0)
            low += last * stride;
        *bytes += (size_t)(last * (stride < 0 ? -stride : stride));
    }
    return low;
}

void numamma_fortran_label(const CFI_cdesc_t *array, const CFI_cdesc_t *name)
{
    char copy[MOST + 1];
    size_t bytes;
    const char *low = extent(array, &bytes);
    numamma_label(low, bytes, text(name, copy));
}

void numamma_fortran_unlabel(const CFI_cdesc_t *array)
{
    size_t bytes;
    numamma_unlabel(extent(array, &bytes));
}

void numamma_fortran_phase(const CFI_cdesc_t *name)
{
    char copy[MOST + 1];
    numamma_phase(text(name, copy)[0] ? copy : NULL);
}

void numamma_fortran_begin(void) { numamma_begin(); }
void numamma_fortran_end(void) { numamma_end(); }
