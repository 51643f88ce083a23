/* What is to be known of code before it runs. */
#ifndef NMX_CODE_H
#define NMX_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether an address is in the code of the recording library, whose accesses are not the program's. */
bool nmx_is_library(uint64_t address);

/* In the child of a fork. */
void nmx_code_reborn(void);

/* Whether the library's instruction tells a note: see numamma_note.h. */
bool nmx_is_note(const uint8_t *bytes, size_t size);

/* Whether QEMU may make an access of the instruction in pieces. */
bool nmx_comes_in_pieces(const uint8_t *bytes, size_t size);

/* Whether it is a repeated MOVS or STOS, which processors execute many bytes at a time. */
bool nmx_is_string_move(const uint8_t *bytes, size_t size);

/* Whether the instruction in front of one may be such an instruction. */
bool nmx_may_follow_string_move(const uint8_t *bytes);

/* Whether it is an AVX-512 instruction, which QEMU does not know. */
bool nmx_is_evex(const uint8_t *bytes, size_t size);

#endif
