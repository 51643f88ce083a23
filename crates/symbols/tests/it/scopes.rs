//! Functions around calls, and where their variables are.

use numamma_symbols::{Local, Location, Module, Returns, Scope};

use crate::support::{Workshop, have};

const SOURCE: &str = r#"
#include <stdlib.h>
struct grid { long n; double *cells; };
void *volatile sink;
__attribute__((noinline)) void *my_alloc(size_t n) { void *p = malloc(n); sink = p; return p; }
typedef void *memory;
__attribute__((noinline)) memory named(size_t n) { memory p = malloc(n); sink = p; return p; }
__attribute__((noinline)) int fill(void **out, size_t n) { *out = malloc(n); sink = 0; return 0; }
__attribute__((noinline)) double *matrix(size_t n) { double *m = malloc(n * 8); m[0] = n; return m; }
__attribute__((noinline)) long use(struct grid *g) { g->cells = malloc(g->n); sink = g; return g->n; }
int main(int argc, char **argv) {
    struct grid g = { argc, 0 };
    { char *inner = malloc(7); sink = inner; }
    fill((void **)&g.cells, use(&g));
    sink = my_alloc(1); sink = named(1); sink = matrix(2);
    return argv == 0;
}
"#;

/// [`SOURCE`] at a level of optimisation, and the folder where it lies.
fn compiled(level: &str) -> Option<(Module, Workshop)> {
    if !have(&["gcc", "nm"]) {
        return None;
    }
    let workshop = Workshop::new();
    let program = workshop.compile("a.c", SOURCE, "a", &["-g", level]);
    Some((Module::open(program).unwrap(), workshop))
}

/// The scopes in the middle of a function.
fn scopes(module: &Module, function: &str) -> Vec<Scope> {
    let range = module.function_bounds(address_of(module, function)).unwrap();
    // Any instruction will do; all of it, so that every block is seen.
    let addresses: Vec<u64> = (range.start..range.end).collect();
    let mut found = module.scopes_at(&addresses);
    let mut scopes: Vec<Scope> = addresses.iter().filter_map(|address| found.remove(address)).flatten().collect();
    scopes.sort_by_key(|scope| std::cmp::Reverse(scope.locals.len()));
    scopes
}

fn local<'a>(scope: &'a Scope, name: &str) -> &'a Local {
    scope.locals.iter().find(|local| local.name == name).unwrap_or_else(|| panic!("no {name} in {scope:?}"))
}

#[test]
fn a_function_says_whether_it_returns_memory() {
    let Some((module, _workshop)) = compiled("-O0") else { return };
    let of = |function| scopes(&module, function).remove(0);
    assert_eq!(of("my_alloc").returns, Returns::Memory);
    assert_eq!(of("named").returns, Returns::Memory);
    assert_eq!(of("matrix").returns, Returns::Pointer);
    assert_eq!((of("fill").returns, of("fill").hands_out), (Returns::Value, true));
    assert!(!of("my_alloc").hands_out && !of("main").hands_out);
}

#[test]
fn variables_have_places_in_the_frame() {
    let Some((module, _workshop)) = compiled("-O0") else { return };
    let main = scopes(&module, "main").remove(0);
    let (grid, inner) = (local(&main, "g"), local(&main, "inner"));
    assert!(inner.is_pointer && !grid.is_pointer);
    assert_eq!((grid.size, grid.members[1].name.as_str(), grid.members[1].offset), (16, "cells", 8));
    assert!(matches!(grid.places[0].at, Location::Frame(offset) if offset < 0));
    let user = scopes(&module, "use").remove(0);
    assert_eq!(local(&user, "g").members[1].name, "cells");
    let rule = module.frame_rule(module.function_bounds(address_of(&module, "main")).unwrap().end - 1).unwrap();
    assert_eq!((rule.register, rule.offset), (7, 8), "before the return the address is all that is left");
}

#[test]
fn a_variable_of_optimised_code_is_in_registers_for_a_while() {
    let Some((module, _workshop)) = compiled("-O2") else { return };
    let scope = scopes(&module, "matrix").remove(0);
    let places = &local(&scope, "m").places;
    assert!(places.iter().any(|place| place.at == Location::Register(0) && place.low < place.high), "{places:?}");
}

fn address_of(module: &Module, function: &str) -> u64 {
    let symbols = crate::support::tool("nm", [module.path().unwrap()]);
    let line = symbols.lines().find(|line| line.ends_with(&format!(" {function}"))).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}
