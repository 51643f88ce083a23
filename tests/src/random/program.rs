//! What a random program consists of.

use super::Random;
use super::kinds::{KINDS, Kind, side};

/// A random program.
#[derive(Debug)]
pub struct Program {
    /// It follows from this alone.
    pub seed: u64,
    /// What it is written in.
    pub language: Language,
    /// True if threads are made by OpenMP; else by hand.
    pub openmp: bool,
    /// Threads.
    pub threads: u32,
    /// True if `clang` compiles it.
    pub clang: bool,
    /// How far the compiler optimises.
    pub level: &'static str,
    /// Type of data: of C, and of Fortran.
    pub number: (&'static str, &'static str, u64),
    /// True if data is static; else in the heap.
    pub is_static: bool,
    /// True if all threads touch the data first; else the main thread.
    pub touched_by_all: bool,
    /// Arrays of data by number, then those of indices.
    pub arrays: Vec<Array>,
    /// What a round does, one after the other.
    pub loops: Vec<Loop>,
}

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Language {
    C,
    Cpp,
    Fortran,
}

/// An array.
#[derive(Clone, Debug)]
pub struct Array {
    /// Its variable.
    pub name: String,
    /// `d` for data, else the letter of the index.
    pub role: char,
    /// Its length.
    pub elements: u64,
}

/// A loop of a program.
#[derive(Debug)]
pub struct Loop {
    /// What it does.
    pub kind: &'static Kind,
    /// How it is divided.
    pub schedule: Schedule,
    /// Its arrays of data, by number.
    pub data: Vec<usize>,
    /// Elements that it goes over.
    pub n: u64,
    /// Its parameter.
    pub p: u64,
    /// How often it is done in a round.
    pub calls: u64,
}

/// How a loop is divided among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// One range for each thread.
    Ranges,
    /// Blocks of so many rounds, dealt out in turn.
    Dealt(u64),
    /// Blocks of so many rounds, each for the thread that comes first.
    Dynamic(u64),
}

impl Schedule {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ranges => "ranges",
            Self::Dealt(_) => "dealt out",
            Self::Dynamic(_) => "dynamic",
        }
    }
}

impl Loop {
    /// Rounds of the divided loop.
    pub fn rounds(&self) -> u64 {
        (self.kind.shape)(self.n, self.p).0.max(1)
    }
}

impl Program {
    /// The program of a seed.
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let language = random.of(&[Language::C, Language::C, Language::Cpp, Language::Fortran]);
        let openmp = language == Language::Fortran || random.below(5) < 3;
        let number =
            random.of(&[("unsigned long", "integer(8)", 8), ("double", "real(8)", 8), ("unsigned", "integer(4)", 4)]);
        let kinds = kinds(language, &mut random);
        let data = 2 + random.below(2).max(usize::from(kinds.iter().any(|kind| kind.data > 2)));
        let mut arrays: Vec<Array> = (0..data)
            .map(|n| Array { name: format!("data{n}"), role: 'd', elements: random.scale(2048.0, 2_000_000.0) as u64 })
            .collect();
        for role in "xwo".chars().filter(|role| kinds.iter().any(|kind| kind.indices.contains(*role))) {
            let name = match role {
                'x' => "order",
                'w' => "rows",
                _ => "sorted",
            };
            arrays.push(Array { name: name.into(), role, elements: random.scale(4096.0, 1_000_000.0) as u64 });
        }
        let loops = kinds.into_iter().map(|kind| division(kind, &arrays, data, &mut random)).collect();
        Self {
            seed,
            language,
            openmp,
            threads: random.of(&[1, 2, 2, 4]),
            clang: language != Language::Fortran && random.below(4) == 0,
            level: random.of(&["-O1", "-O2", "-O2", "-O3"]),
            number,
            is_static: random.below(3) == 0,
            touched_by_all: random.below(2) == 0,
            arrays,
            loops,
        }
    }

    /// The array that stands for a placeholder in a loop.
    pub fn array(&self, of: &Loop, placeholder: char) -> Option<&Array> {
        match placeholder {
            'a' | 'b' | 'c' => Some(&self.arrays[*of.data.get(placeholder as usize - 'a' as usize)?]),
            role if of.kind.indices.contains(role) => self.arrays.iter().find(|array| array.role == role),
            _ => None,
        }
    }

    /// The loops that use an array.
    pub fn users(&self, name: &str) -> impl Iterator<Item = &Loop> {
        self.loops.iter().filter(move |of| "abcxwo".chars().any(|c| self.array(of, c).is_some_and(|a| a.name == name)))
    }

    /// What it is, in a few words.
    pub fn title(&self) -> String {
        let language = match self.language {
            Language::C => "C",
            Language::Cpp => "C++",
            Language::Fortran => "Fortran",
        };
        let team = if self.openmp { "OpenMP" } else { "pthreads" };
        let loops: Vec<_> = self.loops.iter().map(|of| format!("{} ({})", of.kind.name, of.schedule.name())).collect();
        let compiler = if self.clang { "clang" } else { "gcc" };
        format!("{language}, {team}, {} threads, {compiler} {}: {}", self.threads, self.level, loops.join(", "))
    }
}

/// Three to five kinds, none twice.
fn kinds(language: Language, random: &mut Random) -> Vec<&'static Kind> {
    let mut left: Vec<&Kind> =
        KINDS.iter().filter(|kind| language != Language::Fortran || kind.fortran.is_some()).collect();
    let count = 3 + random.below(3);
    let mut kinds: Vec<&Kind> = Vec::new();
    while kinds.len() < count {
        let kind = left.swap_remove(random.below(left.len()));
        // Five arrays at most.
        let indices = |role: char| kinds.iter().chain([&kind]).any(|kind| kind.indices.contains(role));
        if "xwo".chars().filter(|role| indices(*role)).count() <= 2 {
            kinds.push(kind);
        }
    }
    kinds
}

/// Divides the work, and gives it arrays and a size.
fn division(kind: &'static Kind, arrays: &[Array], count: usize, random: &mut Random) -> Loop {
    let mut free: Vec<usize> = (0..count).collect();
    let data: Vec<usize> = (0..kind.data).map(|_| free.swap_remove(random.below(free.len()))).collect();
    let indices = arrays.iter().filter(|array| kind.indices.contains(array.role));
    let least = data.iter().map(|&n| &arrays[n]).chain(indices).map(|array| array.elements).min().unwrap_or(2048);
    let p = random.of(kind.parameters);
    // Accesses in a round of the program.
    let wanted = random.scale(1e5, 1.5e6);
    // A loop whose second array is small reads it again and again; the recursion goes over blocks of 2048.
    let mut n = match kind.name {
        "one function, two arrays" => arrays[data[0]].elements,
        _ => least,
    };
    let of = |n: u64| {
        let (rounds, each) = (kind.shape)(n, p);
        rounds.max(1) * each.max(1)
    };
    while of(n) as f64 > 2.0 * wanted && n > 4096 {
        n /= 2;
    }
    if kind.name == "product" {
        n = p * p;
    }
    let calls = (wanted / of(n) as f64).ceil() as u64;
    let rounds = (kind.shape)(n, p).0.max(1);
    let chunk = (random.scale(1.0, 4096.0) as u64).min(rounds / 8).max(1);
    let schedule = match random.below(5) {
        0 if !kind.fixed => Schedule::Dynamic(chunk.max(16).min(rounds)),
        1 | 2 => Schedule::Dealt(chunk),
        _ => Schedule::Ranges,
    };
    debug_assert!(side(n) > 2);
    Loop { kind, schedule, data, n, p, calls: calls.max(1) }
}
