//! A random program as C or C++, and what both languages and Fortran have in common.

use std::fmt::Write;

use super::kinds::side;
use super::program::{Array, Language, Loop, Program, Schedule};

/// What every program in C begins with.
const HEAD: &str = "#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define NI __attribute__((noinline))
";

/// Functions that bodies call.
const HELPERS: &str = "
static NI num element(num *a, long i) { return a[i]; }
static NI num sweep(num *a, long n) { num s = 0; for (long i = 0; i < n; i++) s += a[i]; return s; }
static NI num halves(num *a, long low, long high, long least) {
  if (high - low > least) return halves(a, low, (low + high) / 2, least) + halves(a, (low + high) / 2, high, least);
  num s = 0; for (long i = low; i < high; i++) s += a[i]; return s;
}
static num sink[64 * 16];
";

impl Program {
    /// Its source; the first argument of the program is the number of rounds. It prints the seconds of CPU time that it took.
    pub fn source(&self) -> String {
        if self.language == Language::Fortran { self.fortran() } else { self.c() }
    }

    fn c(&self) -> String {
        let mut text = format!("// seed {}: {}\n{HEAD}", self.seed, self.title());
        text += match self.openmp {
            true => "#include <omp.h>\n",
            false => "#include <pthread.h>\nstatic pthread_barrier_t barrier;\n",
        };
        if self.language == Language::Cpp {
            text += "#include <vector>\n";
        }
        writeln!(text, "typedef {} num;\nenum {{ T = {} }};", self.number.0, self.threads).unwrap();
        text += HELPERS;
        for array in &self.arrays {
            text += &self.declaration(array);
        }
        for (number, of) in self.loops.iter().enumerate() {
            text += &self.function(number, of);
        }
        text += &self.fill();
        text += &if self.openmp { self.main_openmp() } else { self.main_pthreads() };
        text
    }

    fn declaration(&self, array: &Array) -> String {
        let (name, n, kind) = (&array.name, array.elements, if array.role == 'd' { "num" } else { "int" });
        match (self.is_static, self.language) {
            (true, _) => format!("static {kind} {name}[{n}];\n"),
            (false, Language::Cpp) => format!("static std::vector<{kind}> {name};\n"),
            _ => format!("static {kind} *{name};\n"),
        }
    }

    /// An array as a function's argument.
    fn pointer(&self, array: &Array) -> String {
        let of_vector = self.language == Language::Cpp && !self.is_static;
        if of_vector { format!("{}.data()", array.name) } else { array.name.clone() }
    }

    fn function(&self, number: usize, of: &Loop) -> String {
        let parameters: Vec<String> = placeholders(self, of)
            .map(|(placeholder, array)| format!("{} *{placeholder}", if array.role == 'd' { "num" } else { "int" }))
            .collect();
        let (body, rounds, calls) = (expand(self, of, of.kind.c, |name| name.to_string()), of.rounds(), of.calls);
        let parameters = if parameters.is_empty() { String::new() } else { format!(", {}", parameters.join(", ")) };
        let mut text =
            format!("static long next{number};\nstatic NI void loop{number}(long t{parameters}) {{\n  num s = 0;\n");
        let header = match (self.openmp, of.schedule) {
            (true, schedule) => {
                format!("#pragma omp for {} nowait\n    for (long i = 0; i < {rounds}; i++) {{", clause(schedule))
            }
            (false, Schedule::Ranges) => format!("for (long i = {rounds} * t / T; i < {rounds} * (t + 1) / T; i++) {{"),
            (false, Schedule::Dealt(chunk)) => format!(
                "for (long f = t * {chunk}; f < {rounds}; f += T * {chunk}) for (long i = f; i < f + {chunk} && i < {rounds}; i++) {{"
            ),
            (false, Schedule::Dynamic(chunk)) => format!(
                "for (long f; (f = __atomic_fetch_add(&next{number}, {chunk}, __ATOMIC_RELAXED)) < {rounds};)
      for (long i = f; i < f + {chunk} && i < {rounds}; i++) {{"
            ),
        };
        let counter = match of.schedule {
            Schedule::Dynamic(_) if !self.openmp => format!(
                "    pthread_barrier_wait(&barrier);\n    if (t == 0) next{number} = 0;\n    pthread_barrier_wait(&barrier);\n"
            ),
            _ => String::new(),
        };
        write!(
            text,
            "  for (long call = 0; call < {calls}; call++) {{\n{counter}    {header}\n      {body}\n    }}\n    __asm__ volatile(\"\" ::: \"memory\");\n  }}\n  sink[t * 16] += s;\n}}\n"
        )
        .unwrap();
        text
    }

    fn calls(&self, thread: &str, between: &str) -> String {
        let call = |(number, of): (usize, &Loop)| {
            let arguments: String =
                placeholders(self, of).map(|(_, array)| format!(", {}", self.pointer(array))).collect();
            format!("    loop{number}({thread}{arguments});\n{between}")
        };
        self.loops.iter().enumerate().map(call).collect()
    }

    fn fill(&self) -> String {
        let mut text = String::from("static void fill(void) {\n");
        for array in &self.arrays {
            let (name, n) = (&array.name, array.elements);
            let kind = if array.role == 'd' { "num" } else { "int" };
            match (self.is_static, self.language) {
                (true, _) => {}
                (false, Language::Cpp) => writeln!(text, "  {name}.resize({n});").unwrap(),
                _ => writeln!(text, "  {name} = ({kind} *)malloc({n} * sizeof({kind}));").unwrap(),
            }
            if array.role == 'd' && self.touched_by_all && self.openmp {
                text += "  #pragma omp parallel for num_threads(T)\n";
            }
            writeln!(text, "  for (long i = 0; i < {n}; i++) {name}[i] = {};", content(array)).unwrap();
            if array.role == 'x' {
                writeln!(text, "{SHUFFLE}").unwrap();
            }
        }
        text.replace("{N}", &self.length_of('x').to_string()) + "}\n"
    }

    /// Elements of the array of indices with that letter.
    pub(super) fn length_of(&self, role: char) -> u64 {
        self.arrays.iter().find(|array| array.role == role).map_or(0, |array| array.elements)
    }

    fn main_openmp(&self) -> String {
        format!(
            "int main(int count, char **arguments) {{
  long rounds = count > 1 ? atol(arguments[1]) : 1;
  fill();
  for (long round = 0; round < rounds; round++) {{
    #pragma omp parallel num_threads(T)
    {{ long t = omp_get_thread_num();\n{}    }}
  }}
  printf(\"%f %f\\n\", (double)clock() / CLOCKS_PER_SEC, (double)sink[0]);
}}\n",
            self.calls("t", "    #pragma omp barrier\n")
        )
    }

    fn main_pthreads(&self) -> String {
        format!(
            "static long rounds;
static void *work(void *number) {{
  long t = (long)number;
  for (long round = 0; round < rounds; round++) {{\n{}  }}
  return 0;
}}
int main(int count, char **arguments) {{
  rounds = count > 1 ? atol(arguments[1]) : 1;
  pthread_barrier_init(&barrier, 0, T);
  fill();
  pthread_t threads[T];
  for (long t = 1; t < T; t++) pthread_create(&threads[t], 0, work, (void *)t);
  work(0);
  for (long t = 1; t < T; t++) pthread_join(threads[t], 0);
  printf(\"%f %f\\n\", (double)clock() / CLOCKS_PER_SEC, (double)sink[0]);
}}\n",
            self.calls("t", "    pthread_barrier_wait(&barrier);\n")
        )
    }
}

/// Makes one cycle of all elements of `order` (Sattolo 1986).
const SHUFFLE: &str = "  { unsigned long r = 88172645463325252u;
    for (long i = {N} - 1; i > 0; i--) { r ^= r << 13; r ^= r >> 7; r ^= r << 17; long j = r % i; int v = order[i]; order[i] = order[j]; order[j] = v; } }";

/// First contents of an array's element `i`.
pub(super) fn content(array: &Array) -> &'static str {
    match array.role {
        'w' => "i * 8 + i % 7",
        'o' => "2 * i",
        'x' => "i",
        _ => "i % 100 + 1",
    }
}

/// The arrays of a loop, with their placeholders.
pub(super) fn placeholders<'a>(program: &'a Program, of: &'a Loop) -> impl Iterator<Item = (char, &'a Array)> {
    "abcxwo".chars().filter_map(|placeholder| Some((placeholder, program.array(of, placeholder)?)))
}

/// OpenMP's clause for a schedule.
pub(super) fn clause(schedule: Schedule) -> String {
    match schedule {
        Schedule::Ranges => "schedule(static)".into(),
        Schedule::Dealt(chunk) => format!("schedule(static, {chunk})"),
        Schedule::Dynamic(chunk) => format!("schedule(dynamic, {chunk})"),
    }
}

/// A body with everything filled in.
pub(super) fn expand(program: &Program, of: &Loop, body: &str, name: impl Fn(char) -> String) -> String {
    let mut text = body.to_string();
    let elements = |placeholder| program.array(of, placeholder).map_or(1, |array| array.elements);
    let mask = |placeholder| (1_u64 << elements(placeholder).ilog2()) - 1;
    let numbers = [
        ("{n}", of.n),
        ("{m}", side(of.n)),
        ("{p}", of.p),
        ("{mask_a}", mask('a')),
        ("{mask_b}", mask('b')),
        ("{small}", elements('b') / of.p),
    ];
    for (placeholder, number) in numbers {
        text = text.replace(placeholder, &number.to_string());
    }
    for placeholder in "abcxwo".chars() {
        text = text.replace(&format!("{{{placeholder}}}"), &name(placeholder));
    }
    text
}
