/* The list of what is placed, shared with `numamma apply`, and where to find an object of this process in it. */
#ifndef NMM_LIST_H
#define NMM_LIST_H

#include "place.h"

/* Notes an object of which the whole pages from `address` on were placed; the object is found by `key`. */
void nmm_list_add(uintptr_t key, const struct nmm_placed *what);

/* Takes the object out of this process' table: its place in the list, or NULL. The caller owns it, and gives it back. */
struct nmm_placed *nmm_list_take(uintptr_t key);
void nmm_list_give(struct nmm_placed *placed);

/* Notes memory that belongs to no one object and stays until the end; NULL if there is no room. Its length may grow. */
struct nmm_placed *nmm_list_open(const struct nmm_placed *what);

/* Calls `each` for every mapping of this process that begins in a range of addresses, taken as above; whether there was one. */
bool nmm_list_take_range(uintptr_t low, uintptr_t high, void (*each)(struct nmm_placed *));

/* For everything of this process that is in the list. */
void nmm_list_take_all(void (*each)(struct nmm_placed *));

#endif
