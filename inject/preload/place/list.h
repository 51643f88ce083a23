/* The list of what is placed, shared with `numamma apply`, and where to find an object of this process in it. */
#ifndef NMM_LIST_H
#define NMM_LIST_H

#include "place.h"

/* So many of its places have ever been used. */
uint32_t nmm_list_length(void);

/* Holds a live object of this process, to place it anew; false if it is none. One that ends meanwhile is given back by nmm_list_let. */
bool nmm_list_hold(struct nmm_placed *entry);
void nmm_list_let(struct nmm_placed *entry);

/* Notes an object of which the whole pages from `address` on were placed; the object is found by `key`: its address, or an
 * odd number for what is no object of its own (see nmm_label_key). */
void nmm_list_add(uintptr_t key, const struct nmm_placed *what);

/* An object of this process that stays in the table; NULL: it is not there. */
const struct nmm_placed *nmm_list_find(uintptr_t key);

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
