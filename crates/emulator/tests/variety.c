/* As many kinds of instructions as a compiler makes of plain C: work without end, that nobody looks at. */
#include <math.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define N 997

static double a[N], b[N], c[N];
static float f[N], g[N];
static int32_t i32[N], j32[N];
static int64_t i64[N];
static uint8_t bytes[N], more[N];
static uint16_t words[N];
static uint64_t seed = 88172645463325252u;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void fill(void)
{
    for (int n = 0; n < N; n++) {
        const uint64_t r = next();
        a[n] = (double)(int64_t)r / 1e9;
        b[n] = (double)(r >> 40) + 0.5;
        f[n] = (float)(int32_t)r;
        i32[n] = (int32_t)(r >> 3);
        j32[n] = (int32_t)(r % N);
        i64[n] = (int64_t)r;
        bytes[n] = (uint8_t)(r >> 9);
        words[n] = (uint16_t)(r >> 21);
    }
}

static double vectors(void)
{
    double sum = 0;
    for (int n = 0; n < N; n++)
        c[n] = a[n] * b[n] + c[n];
    for (int n = 0; n < N; n++)
        g[n] = f[n] > 0 ? sqrtf(f[n]) : f[n] / 3;
    for (int n = 0; n < N; n++)
        i64[n] += i32[j32[n]]; /* a gather */
    for (int n = 0; n < N; n++)
        words[n] = (uint16_t)(bytes[n] * 3 + (more[n] >> 1));
    for (int n = 0; n < N; n++)
        if (i32[n] & 4)
            j32[n] = i32[n] ^ j32[n]; /* masks */
    for (int n = 0; n < N; n++)
        more[n] = bytes[n] > 128 ? (uint8_t)(bytes[n] - more[n]) : (uint8_t)(words[n] >> 4);
    for (int n = 0; n < N; n++)
        i32[n] = (int32_t)f[n] + __builtin_popcount((unsigned)i32[n]);
    for (int n = 0; n < N; n++)
        i64[n] = (int64_t)(a[n] * 3);
    for (int n = 0; n < N; n++)
        sum += c[n] * a[N - 1 - n];
    for (int n = 0; n < N; n++)
        j32[n] = (int32_t)((uint32_t)j32[n] % N);
    for (int n = 1; n < N; n += 2)
        i32[j32[n]] = n; /* a scatter */
    return sum;
}

static uint64_t integers(void)
{
    uint64_t sum = 0;
    for (int n = 1; n < N; n++) {
        const uint64_t x = (uint64_t)i64[n] | 1, y = next();
        const int64_t sx = i64[n] | 1;
        sum += y / x + y % x + (uint64_t)((int64_t)y / (sx == -1 ? 1 : sx));
        sum += (uint32_t)y / (uint32_t)x + (uint64_t)((int32_t)y % ((int32_t)x == -1 ? 7 : (int32_t)x));
        sum += (uint64_t)(((unsigned __int128)x * y) >> 64) + (uint64_t)(((__int128)sx * (int64_t)y) >> 60);
        sum += (uint16_t)((uint16_t)y / (uint16_t)x) + (uint8_t)((uint8_t)y / (uint8_t)x);
        sum ^= (uint64_t)(((((unsigned __int128)x << 64) | y) << (y & 127)) >> 64);
        sum += (x << (y & 63)) + (x >> (n & 63)) + (uint64_t)(sx >> (y & 31)) + ((x << 13) | (x >> 51));
        sum += (uint64_t)__builtin_clzll(x) + (uint64_t)__builtin_ctzll(y | 8) + (uint64_t)__builtin_popcountll(y);
        sum += __builtin_bswap64(x) + __builtin_bswap32((uint32_t)y) + __builtin_bswap16((uint16_t)y);
        sum += (uint64_t)__builtin_ffsll((long long)y);
        uint64_t carry = 0;
        if (__builtin_add_overflow(x, y, &carry) || __builtin_mul_overflow(x, y, &carry))
            sum += carry;
        int32_t narrow;
        if (__builtin_sub_overflow((int32_t)x, (int32_t)y, &narrow))
            sum -= (uint64_t)narrow;
        sum += (x & (x - 1)) + (x & -x) + (~x & y) + (x & ((1ull << (y & 31)) - 1));
        words[n] ^= (uint16_t)sum;
        bytes[n] += (uint8_t)(sum >> 8);
    }
    return sum;
}

static long double reals(void)
{
    long double sum = 1;
    for (int n = 1; n < 60; n++) {
        sum += sqrtl(n) * logl(n + 1.5L) - sinl(sum) / n + fmodl(n * 100.0L, 7.25L);
        sum += (long double)i64[n] / 1e18L + floorl(sum) + (long double)lrintl(sum);
        sum = fabsl(sum) > 1e6L ? 1 : sum;
        a[n] = pow(b[n], 0.3) + exp(-b[n] / 1e6) + atan2(a[n], b[n]) + cbrt(b[n]) + floor(a[n]) + fma(a[n], b[n], c[n]);
        f[n] = (float)a[n] + tanf(f[n]) + roundf(f[n]);
        i32[n] = (int32_t)lrint(b[n]) + (int32_t)sum;
    }
    return sum;
}

static int order(const void *x, const void *y)
{
    const int32_t l = *(const int32_t *)x, r = *(const int32_t *)y;
    return (l > r) - (l < r);
}

static jmp_buf back;

static __attribute__((noinline)) void jump(int n)
{
    if (n % 3 == 0)
        longjmp(back, n);
}

static size_t strings(void)
{
    static char text[4096], copy[4096];
    static wchar_t wide[64];
    size_t sum = 0;
    for (int n = 0; n < 40; n++) {
        const size_t length = next() % 2000;
        memset(text, 'a' + n % 20, length);
        text[length] = 0;
        text[length / 2] = '/';
        memcpy(copy + n, text, length + 1);
        memmove(copy + 5, copy, length);
        sum += strlen(text) + (size_t)strcmp(text, copy) + (size_t)memcmp(text, copy + n, length);
        sum += (size_t)(strchr(text, '/') - text) + (strrchr(text, 'b') != NULL) + (strstr(copy, "a/") != NULL);
        sum += strcspn(text, "/x") + strnlen(text, 100) + (memchr(text, 0, sizeof text) != NULL);
        strncpy(copy, text, 77);
        snprintf(copy, sizeof copy, "%d %s %.3f %lx %Lg", n, "text", a[n], (long)sum, (long double)a[n]);
        sum += strtoul(copy, NULL, 0) + (size_t)strtod(copy + 2, NULL);
        wmemset(wide, L'x', 63);
        sum += wcslen(wide);
        if (setjmp(back) == 0)
            jump(n);
        void *volatile block = malloc(length + 1);
        block = realloc(block, length * 2 + 1);
        free(block);
    }
    return sum;
}

static _Atomic uint64_t counter;
static _Atomic uint32_t small;
static _Atomic uint8_t tiny;

static uint64_t atomics(void)
{
    for (int n = 0; n < 50; n++) {
        atomic_fetch_add(&counter, n);
        atomic_fetch_or(&small, 1u << (n & 31));
        atomic_fetch_xor(&tiny, (uint8_t)n);
        uint64_t expected = n & 1 ? counter : 1;
        atomic_compare_exchange_strong(&counter, &expected, expected + 2);
        uint32_t expected_small = n & 1 ? small : 1;
        atomic_compare_exchange_strong(&small, &expected_small, expected_small * 3);
        atomic_exchange(&tiny, (uint8_t)(n * 5));
        atomic_fetch_sub(&counter, 3);
        atomic_thread_fence(memory_order_seq_cst);
    }
    return counter;
}

/* What compilers seldom make. */
static uint64_t assembly(void)
{
    uint64_t x = next(), y = next(), z = 0;
    static uint8_t from[256], to[256];
    static uint64_t field[16];
    for (int n = 0; n < 20; n++) {
        void *s = from + 16, *d = to + 16;
        uint64_t count = next() % 40;
        __asm__ volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(count)::"memory");
        count = next() % 20, s = from, d = to;
        __asm__ volatile("repe cmpsw" : "+S"(s), "+D"(d), "+c"(count)::"memory", "cc");
        count = next() % 20, d = to + 100;
        __asm__ volatile("std; rep stosl; cld" : "+D"(d), "+c"(count) : "a"((uint32_t)x) : "memory");
        count = 30, d = to;
        __asm__ volatile("repne scasb" : "+D"(d), "+c"(count) : "a"((uint32_t)x & 3) : "memory", "cc");
        s = from;
        __asm__ volatile("lodsq; lodsb; stc; adcq %%rax, %2; sbbl $3, %k2; rclq $3, %2; rcrw $2, %w2"
            : "+S"(s), "+&a"(y), "+r"(z)::"memory", "cc");
        __asm__ volatile("btsq %1, %0; btrl %k1, %0; btcw $5, %0; btq %1, %0" : "+m"(field[8]) : "r"((int64_t)(y % 900) - 450) : "memory", "cc");
        __asm__ volatile("shldq $7, %1, %0; shrdl %%cl, %k1, %k0; bsfq %1, %2; bsrl %k1, %k2" : "+r"(x), "+r"(y), "+r"(z) : "c"((uint8_t)y) : "cc");
        __asm__ volatile("xaddl %k0, %k1; xaddq %0, %2; cmpxchgb %b1, %b0" : "+q"(x), "+q"(y), "+m"(field[1])::"rax", "cc");
        __asm__ volatile("movq %0, %%rax; cbw; cwde; cdqe; cqo; cwd; xorl %%eax, %%edx; addq %%rdx, %0; lahf; sahf" : "+r"(x)::"rax", "rdx", "cc");
        __asm__ volatile("movb %%ah, %%bl; addb %%bh, %%cl; movzbl %%ch, %%edx; xchgb %%dh, %%al; imulb %%bl" : "+a"(x), "+b"(y), "+c"(z)::"rdx", "cc");
        __asm__ volatile("pushfq; popq %0; cmc; leaq 5(%1, %2, 8), %0" : "=&r"(z) : "r"(x), "r"(y) : "cc", "memory");
        __asm__ volatile("mov $3, %%ecx; 1: addq %%rcx, %0; loop 1b; jrcxz 2f; nop; 2: enter $16, $0; leave" : "+r"(z)::"rcx", "cc", "memory");
        uint64_t low = field[0], high = field[1];
        __asm__ volatile("lock cmpxchg8b %0" : "+m"(field[2]), "+a"(low), "+d"(high) : "b"(x), "c"(y) : "cc");
        __asm__ volatile("movq %0, %%mm0; paddb %%mm0, %%mm0; pshufw $27, %%mm0, %%mm1; movq2dq %%mm1, %%xmm3; emms" : : "m"(field[3]) : "xmm3", "mm0", "mm1");
        __asm__ volatile("fldl %0; fldpi; fmulp; fsincos; fxch; fcomip %%st(1), %%st; fstpl %0" : "+m"(a[n])::"cc", "st", "st(1)");
        __asm__ volatile("fnstcw %0; fldcw %0; fnstsw %%ax; fildll %1; fistpl %0; fbstp %2" : "+m"(field[4]) : "m"(field[5]), "m"(to[200]) : "rax", "memory");
        __asm__ volatile("crc32q %1, %0; popcntw %w1, %w0" : "+r"(x) : "r"(y) : "cc");
        __asm__ volatile("movdqu %0, %%xmm1; pcmpistri $12, %1, %%xmm1; pcmpestrm $8, %%xmm1, %%xmm2" ::"m"(from[0]), "m"(*(const char(*)[16])(to)) : "xmm0", "xmm1", "xmm2", "rcx", "cc");
        from[next() % 256] = (uint8_t)next();
        field[next() % 16] = next();
    }
    return x + y + z;
}

int main(void)
{
    volatile double sink = 0;
    for (;;) {
        fill();
        sink += vectors();
        sink += (double)integers();
        sink += (double)reals();
        qsort(i32, N, sizeof *i32, order);
        sink += (double)strings();
        sink += (double)atomics();
        sink += (double)assembly();
    }
}
