//! What the programs work on, made up from a fixed seed.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Xorshift: enough for data that is neither constant nor incompressible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn create(path: &Path) -> BufWriter<File> {
    BufWriter::new(File::create(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

/// Words of a small vocabulary: compresses about as well as prose.
pub fn text(path: &Path, bytes: usize) {
    let (mut out, mut random, mut written) = (create(path), Random(88172645463325252), 0);
    while written < bytes {
        let r = random.next();
        // The square of a uniform number: some words are much more frequent than others.
        let word = (r % 4096) * (r % 4096) / 4096;
        let line = format!("{}{}", ["alpha", "beta ", "gamma", "delta\n"][(r >> 32) as usize % 4], word * 7919 % 10007);
        written += line.len();
        out.write_all(line.as_bytes()).expect("text");
    }
}

/// Lines of a random key and a running number.
pub fn lines(path: &Path, bytes: usize) {
    let (mut out, mut random) = (create(path), Random(2463534242));
    for i in 0..bytes / 33 {
        writeln!(out, "{:016x} {i:015}", random.next()).expect("lines");
    }
}

/// Raw video, 4:2:0: a gradient that moves, with noise.
pub fn video(path: &Path, width: usize, height: usize, frames: usize) {
    let (mut out, mut random) = (create(path), Random(521288629));
    for frame in 0..frames {
        for y in 0..height {
            let row: Vec<u8> = (0..width).map(|x| (x + y / 2 + 3 * frame) as u8 ^ (random.next() as u8 & 7)).collect();
            out.write_all(&row).expect("luma");
        }
        out.write_all(&vec![128; width * height / 2]).expect("chroma");
    }
}

/// A C file of many functions that the compiler has to think about.
pub fn c_source(path: &Path, functions: usize) {
    let mut out = create(path);
    writeln!(out, "struct s {{ long a[16]; struct s *next; }};").expect("C");
    for i in 0..functions {
        let (a, b, c) = (i % 13, i * 7 % 16, i * 11 % 16);
        writeln!(
            out,
            "long f{i}(struct s *p, long n) {{ long sum = {i};\n for (long k = 0; k < n; k++, p = p->next) {{\n  \
             switch ((p->a[{b}] + k) & 7) {{ case 0: sum += p->a[{c}] * {a}; break; case 1: sum ^= sum >> 3; break;\n  \
             case 2: p->a[{b}] = sum / (k + 1); break; default: for (int j = 0; j < 16; j++) sum += p->a[j] << (j & 3); }} }}\n \
             return sum; }}"
        )
        .expect("C");
    }
}

/// A text file.
pub fn file(path: &Path, contents: &str) {
    fs::write(path, contents).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
