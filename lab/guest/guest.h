/* The first program of the guest, in parts. */
#ifndef LAB_GUEST_H
#define LAB_GUEST_H

#include <stdbool.h>
#include <stddef.h>

/* Where the guest finds what the lab has written for this command. */
#define LAB_FOLDER "/run/numamma-lab"

/* Tells the lab what keeps the guest from going on, and waits to be switched off. */
void fail(const char *what) __attribute__((noreturn));

/* A file as a whole, with a zero behind it. Fails if it cannot be read. */
char *contents(const char *path, size_t *size);

/* mounts.c: what the kernel offers; drivers that are modules; the host's files with a place to write above them. */
void mount_kernel(void);
void load_modules(void);
void mount_host(void);
void unmount_share(void);

/* check.c: a thousand writes from each CPU to each node, for the lab to find in the plug-in's counters. */
void access_all_nodes(void);

/* command.c: runs the command and all that it leaves behind; its status as a shell has it. */
int run_command(void);

#endif
