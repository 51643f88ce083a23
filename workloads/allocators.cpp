// Every way to ask for memory, each block used for the same time; and the odd requests that broke other tools.
#include "workload.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <malloc.h>
#include <new>
#include <unistd.h>

enum { N = 1 << 14, BYTES = N * sizeof(double) }; /* 128 KiB */

static void use(void *p, size_t alignment, double seconds)
{
    require(p && reinterpret_cast<uintptr_t>(p) % alignment == 0, "alignment");
    std::memset(p, 0, BYTES);
    sweep_for(static_cast<double *>(p), N, seconds);
}

struct alignas(256) Wide {
    double values[N];
};

static void odd_requests()
{
    volatile size_t huge = static_cast<size_t>(PTRDIFF_MAX) - 4096, half = SIZE_MAX / 2;
    errno = 0;
    require(malloc(huge) == nullptr && errno == ENOMEM, "a huge malloc fails");
    require(calloc(half, 4) == nullptr, "an overflowing calloc fails");
    void *p = nullptr;
    require(posix_memalign(&p, 3, 64) == EINVAL, "an alignment that is no power of two");
    char *empty = static_cast<char *>(calloc(1, 0));
    free(empty);
    for (size_t i = 1; i < 3000; i += 7) {
        unsigned char *odd = static_cast<unsigned char *>(calloc(i, 3));
        require(odd && reinterpret_cast<uintptr_t>(odd) % alignof(max_align_t) == 0, "calloc aligns");
        odd = static_cast<unsigned char *>(realloc(odd, i * 3 + 1000));
        for (size_t k = 0; k < i * 3; k++)
            require(odd[k] == 0, "calloc clears, realloc keeps");
        void *kept = odd;
        require(realloc(kept, huge) == nullptr, "a realloc that fails"); // the block lives on
        odd[0] = 1;
        free(odd);
    }
    free(nullptr);
    void *zero = realloc(nullptr, 10);
    require(malloc_usable_size(zero) >= 10, "usable size");
    free(zero);
}

int main(int argc, char **argv)
{
    double each = seconds_of(argc, argv) / 11;
    void *p = nullptr;

    odd_requests();
    p = malloc(BYTES); // site: malloc
    use(p, 16, each);
    free(p);
    p = calloc(N, sizeof(double)); // site: calloc
    use(p, 16, each);
    p = realloc(p, BYTES + 4096); // site: realloc
    use(p, 16, each);
    p = reallocarray(p, N + 1024, sizeof(double)); // site: reallocarray
    use(p, 16, each);
    free(p);
    require(posix_memalign(&p, 64, BYTES) == 0, "posix_memalign"); // site: posix_memalign
    use(p, 64, each);
    free(p);
    p = aligned_alloc(4096, BYTES); // site: aligned_alloc
    use(p, 4096, each);
    free(p);
    p = memalign(128, BYTES); // site: memalign
    use(p, 128, each);
    free(p);
    p = valloc(BYTES); // site: valloc
    use(p, static_cast<size_t>(sysconf(_SC_PAGESIZE)), each);
    free(p);
    p = pvalloc(BYTES); // site: pvalloc
    use(p, static_cast<size_t>(sysconf(_SC_PAGESIZE)), each);
    free(p);
    double *array = new double[N]; // site: new
    use(array, 16, each);
    delete[] array;
    Wide *wide = new Wide; // site: aligned_new
    use(wide, 256, each);
    delete wide;
    puts("allocators ok");
    return 0;
}
