//! Which object of one recording is which of the other.
//!
//! Addresses change from run to run; where the program lies in its modules does not. So objects are matched by everything
//! that holds for the same build, then, of what is left, by what survives a build, then by what survives an edit. A looser
//! rule never takes an object from a stricter one, and where it leaves a choice it matches nothing.
//!
//! A source file is the same in another checkout: each rule asks for equal paths first, then for equal ends of them.

use numamma_findings::{Identity, Match, Matched, ObjectForComparison};
use rustc_hash::{FxHashMap, FxHashSet};

/// How many components at the end of a path must be equal, in the order in which that is tried.
const TAILS: [usize; 4] = [usize::MAX, 3, 2, 1];

/// What two objects must have in common; what a rule ignores is empty.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct Key<'a> {
    kind: &'a str,
    name: &'a str,
    module: &'a str,
    offset: i64,
    function: &'a str,
    file: &'a str,
    line: u32,
    stack: &'a [String],
}

/// The key of an object under a rule, if the rule can tell it; with so many components of its file's path.
fn key(of: &Identity, rule: Match, components: usize) -> Option<Key<'_>> {
    let Identity { kind, name, module, offset, site } = of;
    let named = Key { kind, name, ..Key::default() };
    let Some(site) = site else {
        return Some(match rule {
            Match::Address => Key { module, offset: *offset, ..named },
            Match::Line => Key { module, ..named },
            Match::Name => named,
            Match::Site => return None,
        });
    };
    let (function, file, line) = (site.function.as_str(), tail(&site.file, components), site.line);
    match rule {
        Match::Address => {
            // Code in no module has no address that lasts: its callers tell it.
            let stack = if module.is_empty() { site.stack.as_slice() } else { &[] };
            Some(Key { module, offset: *offset, function, file, line, stack, ..named })
        }
        Match::Line => (!function.is_empty()).then_some(Key { function, file, line, ..named }),
        Match::Name => (!name.is_empty()).then_some(Key { function, file, ..named }),
        Match::Site => {
            let has_line = !function.is_empty() && !file.is_empty() && line > 0;
            has_line.then_some(Key { kind, function, file, line, ..Key::default() })
        }
    }
}

/// The last components of a path.
fn tail(path: &str, components: usize) -> &str {
    let starts = path.rmatch_indices('/').map(|(at, _)| at + 1);
    starts.take(components).nth(components - 1).map_or(path, |start| &path[start..])
}

/// Pairs of objects, in the order of the first recording; `Matched::a` and `b` are positions.
pub fn pairs(a: &[ObjectForComparison], b: &[ObjectForComparison]) -> Vec<Matched> {
    let mut pairs: Vec<Matched> = Vec::new();
    // What is left, in the order of the recordings.
    let (mut left_a, mut left_b): (Vec<usize>, Vec<usize>) = ((0..a.len()).collect(), (0..b.len()).collect());
    let rules = [Match::Address, Match::Line, Match::Name, Match::Site];
    for (rule, components) in rules.into_iter().flat_map(|rule| TAILS.map(|components| (rule, components))) {
        let (of_a, of_b) = (by_key(a, &left_a, rule, components), by_key(b, &left_b, rule, components));
        for (key, in_a) in &of_a {
            let Some(in_b) = of_b.get(key).filter(|in_b| in_a.len() == in_b.len()) else { continue };
            // As many calls on one line in both builds are in the same order in both. Of names nobody knows that.
            if rule == Match::Name && in_a.len() > 1 {
                continue;
            }
            pairs.extend(in_a.iter().zip(in_b).map(|(&a, &b)| Matched { by: rule, a, b }));
        }
        let (in_a, in_b): (FxHashSet<usize>, FxHashSet<usize>) = pairs.iter().map(|pair| (pair.a, pair.b)).unzip();
        left_a.retain(|object| !in_a.contains(object));
        left_b.retain(|object| !in_b.contains(object));
    }
    pairs.sort_by_key(|pair| pair.a);
    pairs
}

/// The objects of each key, in the order of their addresses in their module.
fn by_key<'a>(
    objects: &'a [ObjectForComparison],
    left: &[usize],
    rule: Match,
    components: usize,
) -> FxHashMap<Key<'a>, Vec<usize>> {
    let mut by_key: FxHashMap<Key<'a>, Vec<usize>> = FxHashMap::default();
    for &object in left {
        if let Some(key) = key(&objects[object].identity, rule, components) {
            by_key.entry(key).or_default().push(object);
        }
    }
    for of_key in by_key.values_mut() {
        of_key.sort_by_key(|&object| (objects[object].identity.offset, object));
    }
    by_key
}

#[cfg(test)]
mod tests {
    use super::*;
    use numamma_findings::{CallSite, NoPages, RemoteSamples};

    fn object(identity: Identity) -> ObjectForComparison {
        ObjectForComparison { identity, remote: RemoteSamples::default(), pages: Err(NoPages::OfThread) }
    }

    fn heap(name: &str, function: &str, line: u32, offset: i64) -> ObjectForComparison {
        let site = CallSite { function: function.into(), file: "/src/solver.c".into(), line, ..CallSite::default() };
        object(Identity { kind: "heap".into(), name: name.into(), module: "solver".into(), offset, site: Some(site) })
    }

    fn variable(name: &str, module: &str, offset: i64) -> ObjectForComparison {
        object(Identity { kind: "static".into(), name: name.into(), module: module.into(), offset, site: None })
    }

    fn found(a: &[ObjectForComparison], b: &[ObjectForComparison]) -> Vec<(usize, usize, Match)> {
        pairs(a, b).iter().map(|pair| (pair.a, pair.b, pair.by)).collect()
    }

    /// An object of a checkout at `root`.
    fn at(root: &str, name: &str, file: &str, line: u32, offset: i64) -> ObjectForComparison {
        let mut object = heap(name, "setup", line, offset);
        object.identity.site.as_mut().expect("a heap object").file = format!("{root}/{file}");
        object
    }

    #[test]
    fn another_checkout_matches_by_the_ends_of_its_paths() {
        let checkout = |root: &str, moved: i64| {
            // Two files of one name, whose folders alone tell them apart.
            let (x, y) =
                (at(root, "", "src/x/util.c", 9, 0x100 + moved), at(root, "", "src/y/util.c", 9, 0x200 - moved));
            vec![x, y, at(root, "grid", "main.c", 20, 0x300 + moved)]
        };
        let (here, there) = (checkout("/home/eve/solver", 0), checkout("/build/7", 0));
        assert_eq!(found(&here, &there), [(0, 0, Match::Address), (1, 1, Match::Address), (2, 2, Match::Address)]);
        // Built again, the files in another order.
        let there = checkout("/build/7", 0x180);
        assert_eq!(found(&here, &there), [(0, 0, Match::Line), (1, 1, Match::Line), (2, 2, Match::Line)]);
    }

    #[test]
    fn a_renamed_variable_is_found_by_its_call_site() {
        let before = [heap("grid", "main", 9, 0x100), heap("x", "main", 12, 0x120)];
        let after = [heap("mesh", "main", 9, 0x180), heap("x", "main", 9, 0x1a0)];
        // `x` moved to another line, where a looser rule must not confuse it with what was renamed there.
        assert_eq!(found(&before, &after), [(0, 0, Match::Site), (1, 1, Match::Name)]);
        let gone = [heap("mesh", "main", 10, 0x180)];
        assert_eq!(found(&before[..1], &gone), []);
    }

    #[test]
    fn a_path_ends_with_its_last_components() {
        assert_eq!([1, 2, 3, usize::MAX].map(|n| tail("/a/b.c", n)), ["b.c", "a/b.c", "/a/b.c", "/a/b.c"]);
        assert_eq!([tail("b.c", 1), tail("", 2)], ["b.c", ""]);
    }

    #[test]
    fn the_same_build_matches_by_address_in_any_order() {
        let a = [heap("grid", "main", 9, 0x100), heap("", "main", 9, 0x120), variable("n", "solver", 0x4000)];
        let b = [variable("n", "solver", 0x4000), heap("", "main", 9, 0x120), heap("grid", "main", 9, 0x100)];
        assert_eq!(found(&a, &b), [(0, 2, Match::Address), (1, 1, Match::Address), (2, 0, Match::Address)]);
    }

    #[test]
    fn another_build_matches_by_line_in_the_order_of_the_calls() {
        let a = [heap("", "main", 9, 0x100), heap("", "main", 9, 0x120), variable("n", "solver", 0x4000)];
        let b = [heap("", "main", 9, 0x350), heap("", "main", 9, 0x300), variable("n", "solver", 0x5000)];
        assert_eq!(found(&a, &b), [(0, 1, Match::Line), (1, 0, Match::Line), (2, 2, Match::Line)]);
    }

    #[test]
    fn an_edited_source_matches_by_the_variable() {
        let a = [heap("grid", "main", 9, 0x100), variable("n", "solver_v1", 0x4000)];
        let b = [heap("grid", "main", 12, 0x180), variable("n", "solver_v2", 0x4010)];
        assert_eq!(found(&a, &b), [(0, 0, Match::Name), (1, 1, Match::Name)]);
        // Without a variable's name another line is another object.
        assert_eq!(found(&[heap("", "main", 9, 0x100)], &[heap("", "main", 12, 0x180)]), []);
    }

    #[test]
    fn a_choice_matches_nothing() {
        let a = [heap("grid", "main", 9, 0x100)];
        let b = [heap("grid", "main", 12, 0x180), heap("grid", "main", 14, 0x1a0)];
        assert_eq!(found(&a, &b), []);
        let b = [heap("grid", "main", 9, 0x180), heap("grid", "main", 9, 0x1a0)];
        assert_eq!(found(&a, &b), []);
    }

    #[test]
    fn other_kinds_functions_and_modules_are_other_objects() {
        let a = [heap("grid", "main", 9, 0x100), variable("n", "solver", 0x4000), variable("n", "libm.so", 0x4000)];
        let b = [heap("grid", "work", 9, 0x100), variable("n", "solver", 0x4000)];
        assert_eq!(found(&a, &b), [(1, 1, Match::Address)]);
        let mut mapped = heap("grid", "main", 9, 0x100);
        mapped.identity.kind = "mmap".into();
        assert_eq!(found(&a[..1], &[mapped]), []);
    }

    #[test]
    fn code_in_no_module_is_told_by_its_callers() {
        let jit = |stack: &str| {
            let mut object = heap("", "", 0, 0);
            object.identity.module.clear();
            let site = CallSite { stack: vec![stack.into()], ..CallSite::default() };
            object.identity.site = Some(site);
            object
        };
        let (a, b) = ([jit("f x.c:1"), jit("g x.c:2")], [jit("g x.c:2"), jit("h x.c:3")]);
        assert_eq!(found(&a, &b), [(1, 0, Match::Address)]);
    }
}
