//! Names against small programs that the system's compiler builds.

use std::path::PathBuf;
use std::process::Command;

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use numamma_symbols::Module;

use super::{CallSite, CallSites};
use crate::modules::ModuleStore;
use crate::sites::Place;
use crate::space::mappings::PathId;

/// A program with the calls in its code.
struct Program {
    modules: ModuleStore,
    path: PathId,
    module: std::sync::Arc<Module>,
    code: Vec<(u64, String, String)>,
    _folder: tempfile::TempDir,
}

impl Program {
    /// Compiles C; none, and a line that says so, without a compiler.
    fn compile(source: &str, flags: &[&str]) -> Option<Self> {
        Self::compile_with("cc", source, flags)
    }

    fn compile_with(compiler: &str, source: &str, flags: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (file, program): (PathBuf, PathBuf) = (folder.path().join("a.c"), folder.path().join("a"));
        std::fs::write(&file, source).unwrap();
        let compiled = Command::new(compiler).arg("-o").args([&program, &file]).args(flags).output();
        let Ok(output) = compiled else {
            eprintln!("skipped: no {compiler}");
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut modules = ModuleStore::default();
        let path = modules.intern(program.to_str().unwrap());
        let module = modules.get(path).unwrap();
        let mut code = Vec::new();
        let (mut at, end) = module.extent().unwrap();
        while at < end {
            let Some(bounds) = module.function_bounds(at) else {
                at += 1;
                continue;
            };
            let caller = module.function_name(bounds.start).unwrap_or_default();
            let bytes = module.text_at(bounds.start, (bounds.end - bounds.start) as usize).unwrap();
            for i in Decoder::with_ip(64, bytes, bounds.start, DecoderOptions::NONE) {
                if i.flow_control() == FlowControl::Call
                    && let Some(callee) = module.function_name(i.near_branch_target())
                {
                    let callee = callee.trim_end_matches("@plt").to_owned();
                    code.push((i.next_ip(), caller.clone(), callee));
                }
            }
            at = bounds.end;
        }
        Some(Self { modules, path, module, code, _folder: folder })
    }

    /// The calls of one function in another.
    fn calls(&self, caller: &str, callee: &str) -> Vec<u64> {
        let is_it = |(_, by, of): &&(u64, String, String)| by == caller && of == callee;
        let calls: Vec<u64> = self.code.iter().filter(is_it).map(|(back, ..)| *back).collect();
        assert!(!calls.is_empty(), "{caller} does not call {callee}: {:?}", self.code);
        calls
    }

    /// A stack of the calls that return to these addresses.
    fn stack(&self, calls: &[u64]) -> Vec<Place> {
        calls.iter().map(|&ip| Place { ip, image: Some((self.path, ip - 1)) }).collect()
    }

    fn named(&mut self, stacks: &[Vec<Place>]) -> Vec<CallSite> {
        let stacks: Vec<&[Place]> = stacks.iter().map(Vec::as_slice).collect();
        CallSites::default().name(&mut self.modules, &stacks)
    }

    /// Names of the pointers that `function` gets from malloc, in the order of the code.
    fn variables(&mut self, function: &str, allocator: &str) -> Vec<String> {
        let stacks: Vec<_> = self.calls(function, allocator).iter().map(|&call| self.stack(&[call])).collect();
        self.named(&stacks).into_iter().map(|site| site.variable).collect()
    }
}

/// Compilers describe and use the frame in ways of their own.
const BUILDS: [(&str, &str); 6] =
    [("cc", "-O0"), ("cc", "-O1"), ("cc", "-O2"), ("clang", "-O0"), ("clang", "-O1"), ("clang", "-O2")];

const POINTERS: &str = r#"
#include <stdlib.h>
struct pair { long n; double *first, *second; };
void *volatile sink;
double *global;
struct pair statics;
__attribute__((noinline)) int check(void *p) { sink = p; return 1; }

__attribute__((noinline)) void known(struct pair *by_pointer) {
    double *local = malloc(8); check(local);
    global = malloc(16); check(global);
    statics.second = malloc(24); check(statics.second);
    by_pointer->first = malloc(32); check(by_pointer->first);
}
/* Nothing that has a name gets these. */
__attribute__((noinline)) long unknown(double **rows, int i) {
    double *other = rows[0];
    rows[i] = malloc(8);
    check(malloc(16));
    free(malloc(24));
    long is_there = malloc(32) != NULL;
    return is_there + (other == NULL);
}
__attribute__((noinline)) int by_argument(void) {
    double *aligned;
    int error = posix_memalign((void **)&aligned, 64, 640);
    check(aligned);
    return error;
}
int main(int argc, char **argv) {
    struct pair pair = { argc, 0, 0 };
    double *rows[4] = { 0 };
    known(&pair);
    return (int)unknown(rows, argc) + by_argument() + (argv == 0);
}
"#;

#[test]
fn a_pointer_is_called_as_what_it_is_stored_in() {
    for (compiler, optimise) in BUILDS {
        let Some(mut program) = Program::compile_with(compiler, POINTERS, &["-g", optimise]) else { continue };
        let expected = ["local", "global", "statics.second", "by_pointer->first"];
        assert_eq!(program.variables("known", "malloc"), expected, "{compiler} {optimise}");
        assert_eq!(program.variables("by_argument", "posix_memalign"), ["aligned"], "{compiler} {optimise}");
    }
}

#[test]
fn no_name_is_better_than_a_wrong_one() {
    for (compiler, optimise) in BUILDS {
        let flags = ["-g", optimise, "-fno-builtin-malloc"];
        let Some(mut program) = Program::compile_with(compiler, POINTERS, &flags) else { continue };
        assert_eq!(program.variables("unknown", "malloc"), ["", "", "", ""], "{compiler} {optimise}");
    }
}

#[test]
fn without_debug_information_only_global_variables_have_names() {
    let Some(mut program) = Program::compile(POINTERS, &["-O2"]) else { return };
    assert_eq!(program.variables("known", "malloc"), ["", "global", "statics", ""]);
}

const WRAPPERS: &str = r#"
#include <stdlib.h>
struct node { struct node *next; void *data; };
long count;
__attribute__((noinline)) void *inner(size_t n) { void *p = malloc(n); if (!p) abort(); return p; }
__attribute__((noinline)) void *outer(size_t n) { void *p = inner(n); count++; return p; }
__attribute__((noinline)) int into(void **out, size_t n) { void *p = malloc(n); if (!p) return 1; *out = p; return 0; }
/* Typed, filled, kept, not told a size: none of these only allocates. */
__attribute__((noinline)) double *matrix(size_t n) { double *p = malloc(n); p[0] = 1; return p; }
__attribute__((noinline)) void *filled(size_t n) { long *p = malloc(n * 8); for (size_t i = 0; i < n; i++) p[i] = (long)i; return p; }
__attribute__((noinline)) void *node(size_t n) { struct node *p = malloc(sizeof *p); p->data = malloc(n); return p; }
__attribute__((noinline)) void *thread(void *unused) { count += unused != NULL; void *p = malloc(8); return p; }
int main(void) {
    void *volatile p, *q;
    p = outer(1); p = outer(2); p = matrix(1); p = matrix(2); p = filled(1); p = filled(2); p = node(1); p = node(2);
    p = thread(0); p = thread(&p);
    if (into(&q, 1)) return 1;
    p = q;
    if (into(&q, 2)) return 1;
    return p == q;
}
"#;

/// The wrapper of each call in main of `function`, which calls `inner` to malloc.
fn via(program: &mut Program, function: &str, inner: &[&str]) -> Vec<String> {
    let mut calls = Vec::new();
    let chain: Vec<&str> = inner.iter().copied().chain([function]).collect();
    for n in (0..chain.len()).rev() {
        let callee = if n == 0 { "malloc" } else { chain[n - 1] };
        calls.insert(0, program.calls(chain[n], callee)[0]);
    }
    calls.sort_by_key(|&call| {
        let caller = program.module.function_name(call - 1).unwrap();
        chain.iter().position(|name| *name == caller)
    });
    let stacks: Vec<Vec<Place>> =
        program.calls("main", function).iter().map(|&main| program.stack(&[&calls[..], &[main]].concat())).collect();
    assert_eq!(stacks.len(), 2);
    let sites = program.named(&stacks);
    let standing = |site: CallSite| site.frame.and_then(|(_, frame)| frame).unwrap().function;
    sites.into_iter().map(|site| format!("{} {}", site.via.clone(), standing(site)).trim().to_owned()).collect()
}

#[test]
fn a_wrapper_gives_its_caller_the_memory_and_nothing_else() {
    for optimise in ["-O0", "-O2"] {
        let flags = ["-g", optimise, "-fno-optimize-sibling-calls"];
        let Some(mut program) = Program::compile(WRAPPERS, &flags) else { return };
        assert_eq!(via(&mut program, "outer", &["inner"]), ["outer main", "outer main"], "{optimise}");
        assert_eq!(via(&mut program, "into", &[]), ["into main", "into main"], "{optimise}");
        for none in ["matrix", "filled", "thread"] {
            assert_eq!(via(&mut program, none, &[]), [none, none], "{optimise}");
        }
    }
}

const GIVERS: &str = r#"
#include <stdlib.h>
struct vector { long n; double *data; };
void *volatile sink;
__attribute__((noinline)) void use(void *p) { sink = p; }
__attribute__((noinline)) double *zeros(size_t n) { double *p = malloc(n * 8); for (size_t i = 0; i < n; i++) p[i] = 0; return p; }
__attribute__((noinline)) void into(double **out, size_t n) { *out = malloc(n * 8); }
__attribute__((noinline)) void fill(struct vector *v, size_t n) { v->n = n; v->data = malloc(n * 8); }
__attribute__((noinline)) struct vector *node(long n) { struct vector *p = malloc(sizeof *p); p->n = n; return p; }
int main(void) {
    struct vector v, w;
    double *c, *d;
    double *a = zeros(1); use(a);
    double *b = zeros(2); use(b);
    into(&c, 1); use(c);
    into(&d, 2); use(d);
    fill(&v, 1); use(&v);
    fill(&w, 2); use(&w);
    struct vector *first = node(1); use(first);
    struct vector *second = node(2); use(second);
    return sink == 0;
}
"#;

#[test]
fn what_a_function_makes_for_variables_of_its_callers_is_theirs() {
    for compiler in ["cc", "clang"] {
        let Some(mut program) = Program::compile_with(compiler, GIVERS, &["-g", "-O0"]) else { continue };
        for (function, names) in [
            ("zeros", ["zeros main a", "zeros main b"]),
            ("into", ["into main c", "into main d"]),
            ("fill", ["fill main v.data", "fill main w.data"]),
            ("node", [" node p", " node p"]),
        ] {
            let own = program.calls(function, "malloc")[0];
            let calls = program.calls("main", function);
            let stacks: Vec<Vec<Place>> = calls.iter().map(|&main| program.stack(&[own, main])).collect();
            let site = |site: CallSite| {
                let function = site.frame.and_then(|(_, frame)| frame).unwrap().function;
                format!("{} {function} {}", site.via, site.variable)
            };
            let named: Vec<String> = program.named(&stacks).into_iter().map(site).collect();
            assert_eq!(named, names, "{compiler}");
        }
    }
}

const JUMPS: &str = r#"
#include <stdlib.h>
struct vector { long n; double *data; };
struct pair { struct vector left, right; };
__attribute__((noinline)) int fill(struct vector *v, size_t n) { v->data = malloc(n * 8); return v->data != NULL; }
__attribute__((noinline)) int jump(struct pair *p, size_t n) { p->left.n = (long)n; return fill(&p->right, n); }
int main(int argc, char **argv) { struct pair one, two; return jump(&one, (size_t)argc) + jump(&two, 2) + (argv == 0); }
"#;

#[test]
fn arguments_of_a_function_that_is_gone_from_the_stack_name_nothing() {
    for compiler in ["cc", "clang"] {
        let Some(mut program) = Program::compile_with(compiler, JUMPS, &["-g", "-O2"]) else { continue };
        let own = program.calls("fill", "malloc")[0];
        let calls = program.calls("main", "jump");
        let stacks: Vec<Vec<Place>> = calls.iter().map(|&main| program.stack(&[own, main])).collect();
        let names: Vec<String> = program.named(&stacks).into_iter().map(|site| site.variable).collect();
        assert_eq!(names, ["v->data", "v->data"], "{compiler}");
    }
}

#[test]
fn a_function_that_also_keeps_what_it_allocates_is_no_wrapper() {
    let Some(mut program) = Program::compile(WRAPPERS, &["-g", "-O1"]) else { return };
    let (own, calls) = (program.calls("node", "malloc"), program.calls("main", "node"));
    let stacks: Vec<Vec<Place>> =
        own.iter().flat_map(|&own| calls.iter().map(move |&main| [own, main])).map(|s| program.stack(&s)).collect();
    assert_eq!(stacks.len(), 4);
    assert!(program.named(&stacks).iter().all(|site| site.via.is_empty()));
}

#[test]
fn the_user_may_name_a_wrapper() {
    let Some(mut program) = Program::compile(WRAPPERS, &["-g", "-O1"]) else { return };
    let call = program.calls("matrix", "malloc")[0];
    let stacks: Vec<Vec<Place>> =
        program.calls("main", "matrix").iter().map(|&main| program.stack(&[call, main])).collect();
    let stacks: Vec<&[Place]> = stacks.iter().map(Vec::as_slice).collect();
    let mut sites = CallSites { wrappers: vec!["matrix".into()], ..CallSites::default() };
    for site in sites.name(&mut program.modules, &stacks) {
        assert_eq!((site.via.as_str(), site.frame.unwrap().0), ("matrix", 1));
    }
}
