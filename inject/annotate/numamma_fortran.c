/* What numamma.f90 calls: Fortran has no weak references. */
#include <ISO_Fortran_binding.h>

#include "numamma.h"

static size_t size(const CFI_cdesc_t *array)
{
    size_t bytes = array->elem_len;
    for (int i = 0; i < array->rank; i++) {
        if (array->dim[i].extent == 0)
            return 0;
        bytes += (size_t)(array->dim[i].extent - 1) * (size_t)array->dim[i].sm;
    }
    return bytes;
}

void numamma_fortran_label(const CFI_cdesc_t *array, const char *name) { numamma_label(array->base_addr, size(array), name); }
void numamma_fortran_unlabel(const CFI_cdesc_t *array) { numamma_unlabel(array->base_addr); }
void numamma_fortran_phase(const char *name) { numamma_phase(name[0] ? name : NULL); }
void numamma_fortran_begin(void) { numamma_begin(); }
void numamma_fortran_end(void) { numamma_end(); }
