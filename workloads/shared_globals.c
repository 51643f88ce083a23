/* The library that `globals` is linked with. In a program that is not position-independent, `equal_shared` is copied into
 * the program's own data (copy relocation) and the library's is never used. */
double equal_shared[1 << 15];
