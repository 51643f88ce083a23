//! The kinds of loops that random programs are made of.
//!
//! A body is the inside of a loop over `i` from 0 that is divided among threads. Placeholders: `{a}`, `{b}`, `{c}` are arrays of data,
//! `{x}` holds a permutation, `{w}` beginnings of rows, `{o}` ascending numbers; `{n}` is the number of elements, `{m}` the side of a
//! square of them, `{p}` a parameter, `{mask_a}` and `{mask_b}` masks of indices, `{small}` is the number of blocks of `p` in `{b}`. `s` is
//! the thread's own sum.

/// A kind of loop.
#[derive(Debug)]
pub struct Kind {
    /// Its name in tables.
    pub name: &'static str,
    /// Arrays of data.
    pub data: usize,
    /// Arrays of indices that it reads: letters of `xwo`.
    pub indices: &'static str,
    /// What `p` is drawn from.
    pub parameters: &'static [u64],
    /// Rounds of the divided loop, and accesses in each, about: from `n` and `p`.
    pub shape: fn(u64, u64) -> (u64, u64),
    /// Body in C and C++.
    pub c: &'static str,
    /// Body in Fortran, if it has one.
    pub fortran: Option<&'static str>,
    /// True if a part of the work must go to the same thread each time, for counts to be the same each time.
    pub fixed: bool,
}

/// The side of a square with `n` elements.
pub fn side(n: u64) -> u64 {
    n.isqrt()
}

const fn kind(name: &'static str, data: usize, shape: fn(u64, u64) -> (u64, u64), c: &'static str) -> Kind {
    Kind { name, data, indices: "", parameters: &[1], shape, c, fortran: None, fixed: false }
}

impl Kind {
    const fn with(mut self, indices: &'static str, parameters: &'static [u64]) -> Self {
        self.indices = indices;
        self.parameters = parameters;
        self
    }

    const fn fortran(mut self, body: &'static str) -> Self {
        self.fortran = Some(body);
        self
    }

    const fn fixed(mut self) -> Self {
        self.fixed = true;
        self
    }
}

/// All kinds.
pub const KINDS: &[Kind] = &[
    kind("read", 1, |n, _| (n, 1), "s += {a}[i];").fortran("s = s + {a}(i)"),
    kind("copy in a loop", 2, |n, _| (n, 2), "{b}[i] = {a}[i];").fortran("{b}(i) = {a}(i)"),
    kind("triad", 3, |n, _| (n, 3), "{c}[i] = {a}[i] + 3 * {b}[i];").fortran("{c}(i) = {a}(i) + 3 * {b}(i)"),
    kind("update", 1, |n, _| (n, 2), "{a}[i] += 3;").fortran("{a}(i) = {a}(i) + 3"),
    kind("backward", 1, |n, _| (n, 1), "s += {a}[{n} - 1 - i];").fortran("s = s + {a}({n} - 1 - i)"),
    kind("stride", 1, |n, p| (n / p, 1), "s += {a}[i * {p}];").with("", &[2, 3, 8, 17]).fortran("s = s + {a}(i * {p})"),
    kind("column", 1, |n, p| (p, n / p), "for (long j = 0; j < {n} / {p}; j++) s += {a}[j * {p} + i];")
        .with("", &[64, 100, 256])
        .fortran("do j = 0, {n} / {p} - 1\n s = s + {a}(j * {p} + i)\n end do"),
    kind("gather", 1, |n, _| (n, 2), "s += {a}[{x}[i] & {mask_a}];")
        .with("x", &[1])
        .fortran("s = s + {a}(iand({x}(i), {mask_a}))"),
    kind("scatter", 1, |n, _| (n, 2), "{a}[{x}[i] & {mask_a}] = (num)i;")
        .with("x", &[1])
        .fortran("{a}(iand({x}(i), {mask_a})) = i"),
    kind(
        "tiles",
        2,
        |n, p| ((side(n) / p) * (side(n) / p), 2 * p * p),
        "long k = {m} / {p}, r0 = i / k * {p}, c0 = i % k * {p};
        for (long r = r0; r < r0 + {p}; r++) for (long c = c0; c < c0 + {p}; c++) {b}[c * {m} + r] = {a}[r * {m} + c];",
    )
    .with("", &[4, 8, 16])
    .fortran(
        "do j = i / ({m} / {p}) * {p}, i / ({m} / {p}) * {p} + {p} - 1
        do k = mod(i, {m} / {p}) * {p}, mod(i, {m} / {p}) * {p} + {p} - 1
        {b}(k * {m} + j) = {a}(j * {m} + k)
        end do
        end do",
    ),
    kind(
        "triangle",
        2,
        |n, _| (side(n), side(n)),
        "for (long j = 0; j <= i; j++) s += {a}[i * {m} + j] * {b}[j];",
    )
    .fortran("do j = 0, i\n s = s + {a}(i * {m} + j) * {b}(j)\n end do"),
    kind(
        "chase",
        0,
        |n, p| (n / p, p),
        "long q = i * {p}; for (long j = 0; j < {p}; j++) q = {x}[q]; s += (num)q;",
    )
    .with("x", &[64, 512, 2048]),
    kind("histogram", 1, |n, _| (n, 3), "{a}[({x}[i] >> 3) & {p}] += 1;")
        .with("x", &[63, 255, 1023])
        .fortran("j = iand(ishft({x}(i), -3), {p})\n {a}(j) = {a}(j) + 1"),
    kind(
        "sparse rows",
        2,
        |n, _| (n / 17, 26),
        "for (long j = {w}[i]; j < {w}[i + 1]; j++) s += {a}[j] * {b}[{x}[j] & {mask_b}];",
    )
    .with("xw", &[1])
    .fortran("do j = {w}(i), {w}(i + 1) - 1\n s = s + {a}(j) * {b}(iand({x}(j), {mask_b}))\n end do"),
    kind("recursion", 1, |n, _| (n / 2048, 2048), "s += halves({a}, i * 2048, i * 2048 + 2048, {p});")
        .with("", &[4, 32, 512]),
    kind("call", 1, |n, _| (n, 1), "s += element({a}, i);").fortran("s = s + element({a}, {n}, i)"),
    kind(
        "search",
        1,
        |n, _| (n, 18),
        "long low = 0, high = {n}, key = i * 7919 % (2 * {n});
        while (low < high) { long mid = (low + high) / 2; if ({o}[mid] < key) low = mid + 1; else high = mid; }
        s += {a}[low & {mask_a}];",
    )
    .with("o", &[1]),
    kind("memcpy", 2, |n, p| (n / p, p / 2), "memcpy({b} + i * {p}, {a} + i * {p}, {p} * sizeof(num));")
        .with("", &[16, 100, 1024]),
    kind("memset", 1, |n, p| (n / p, p / 4), "memset({a} + i * {p}, 1, {p} * sizeof(num));").with("", &[16, 100, 1024]),
    kind(
        "stencil",
        2,
        |n, _| (side(n) - 2, 6 * side(n)),
        "for (long j = 1; j < {m} - 1; j++) {b}[(i + 1) * {m} + j] = {a}[(i + 1) * {m} + j] * 4 - {a}[i * {m} + j]
            - {a}[(i + 2) * {m} + j] - {a}[(i + 1) * {m} + j - 1] - {a}[(i + 1) * {m} + j + 1];",
    )
    .fortran(
        "do j = 1, {m} - 2
        {b}((i + 1) * {m} + j) = {a}((i + 1) * {m} + j) * 4 - {a}(i * {m} + j) &
            - {a}((i + 2) * {m} + j) - {a}((i + 1) * {m} + j - 1) - {a}((i + 1) * {m} + j + 1)
        end do",
    ),
    kind(
        "product",
        3,
        |_, p| (p, 3 * p * p),
        "for (long j = 0; j < {p}; j++) for (long k = 0; k < {p}; k++) {c}[i * {p} + j] += {a}[i * {p} + k] * {b}[k * {p} + j];",
    )
    .with("", &[24, 32, 45])
    .fortran(
        "do j = 0, {p} - 1
        do k = 0, {p} - 1
        {c}(i * {p} + j) = {c}(i * {p} + j) + {a}(i * {p} + k) * {b}(k * {p} + j)
        end do
        end do",
    ),
    kind(
        "condition",
        2,
        |n, _| (n, 2),
        "if ({x}[i] & 1) s += {a}[i & {mask_a}]; else {b}[i & {mask_b}] = s;",
    )
    .with("x", &[1])
    .fortran("if (iand({x}(i), 1) /= 0) then\n s = s + {a}(i)\n else\n {b}(i) = s\n end if"),
    kind(
        "early end",
        0,
        |n, p| (n / p, p / 2),
        "for (long j = i * {p}; j < i * {p} + {p}; j++) { if ({x}[j] < {n} / {p}) break; s += 1; }",
    )
    .with("x", &[16, 128, 1024]),
    kind(
        "insertion sort",
        1,
        |n, p| (n / p, p * p),
        "for (long j = 0; j < {p}; j++) { num v = {x}[i * {p} + j]; long k = j;
            while (k > 0 && {a}[i * {p} + k - 1] > v) { {a}[i * {p} + k] = {a}[i * {p} + k - 1]; k--; }
            {a}[i * {p} + k] = v; }",
    )
    .with("x", &[8, 16, 48])
    .fixed(),
    kind("bytes", 1, |n, _| (2 * n, 1), "s += ((unsigned char *){a})[i];"),
    kind(
        "one function, two arrays",
        2,
        |n, p| (n / p, 2 * p),
        "s += sweep({a} + i * {p}, {p}); s += sweep({b} + i % {small} * {p}, {p});",
    )
    .with("", &[64, 512, 1024])
    .fortran("s = s + sweep({a}(i * {p}), {p}) + sweep({b}(mod(i, {small}) * {p}), {p})"),
    kind(
        "recurrence",
        2,
        |n, p| (n / p, 2 * p),
        "for (long j = i * {p} + 1; j < i * {p} + {p}; j++) {a}[j] = {a}[j - 1] + {b}[j];",
    )
    .with("", &[32, 256])
    .fortran("do j = i * {p} + 1, i * {p} + {p} - 1\n {a}(j) = {a}(j - 1) + {b}(j)\n end do"),
    kind("queue", 1, |n, _| (n, 2), "{a}[i & {mask_a}] = (num)i; s += {a}[(i * 3) & {mask_a}];"),
    kind("pairs", 1, |n, _| (n / 2, 2), "s += {a}[2 * i]; {a}[2 * i + 1] = s;")
        .fortran("s = s + {a}(2 * i)\n {a}(2 * i + 1) = s"),
    kind("sections", 2, |n, p| (n / p, 2 * p), "for (long j = 0; j < {p}; j++) {b}[i * {p} + j] = {a}[i * {p} + j];")
        .with("", &[16, 100, 1024])
        .fortran("{b}(i * {p}:i * {p} + {p} - 1) = {a}(i * {p}:i * {p} + {p} - 1)\n s = s + sum({b}(i * {p}:i * {p} + {p} - 1))"),
];
