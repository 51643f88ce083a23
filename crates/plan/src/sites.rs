//! The places of a module's code as reports name them: for each instruction the first function that the user wrote, inlined or not,
//! and its line.

use std::collections::BTreeMap;

use numamma_symbols::origin::is_it;
use numamma_symbols::{Frame, Module};

/// Instructions of one line.
#[derive(Debug)]
struct Code {
    file: Option<String>,
    line: u32,
    low: u64,
    high: u64,
}

/// All code of a module that has lines, by function.
#[derive(Debug, Default)]
pub struct Sites {
    by_function: BTreeMap<String, Vec<Code>>,
}

impl Sites {
    /// Reads a module; `is_users` says of a frame whether the user wrote it.
    pub fn of(module: &Module, is_users: impl Fn(&Frame) -> bool) -> Self {
        let mut sites = Self::default();
        for row in module.line_rows(0, u64::MAX) {
            // The rows of one address are told apart by their lengths.
            let Some(frame) = module.frames_at(row.start).into_iter().find(&is_users) else { continue };
            let code = Code { file: frame.file, line: frame.line, low: row.start, high: row.end };
            sites.by_function.entry(frame.function).or_default().push(code);
        }
        sites
    }

    /// The code of a function, a line, or a line of a function: ranges in ascending order.
    pub fn ranges(&self, function: Option<&str>, line: Option<&(String, u32)>) -> Vec<(u64, u64)> {
        let is_there = |code: &&Code| {
            line.is_none_or(|(file, number)| {
                code.line == *number && code.file.as_deref().is_some_and(|name| is_file(name, file))
            })
        };
        let named = self.by_function.iter().filter(|(name, _)| function.is_none_or(|function| means(name, function)));
        let here = named.flat_map(|(_, code)| code.iter().filter(is_there));
        joined(here.map(|code| (code.low, code.high)).collect())
    }
}

/// Sorted, without overlaps: one statement often has many rows.
pub fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (low, high) in ranges {
        match joined.last_mut() {
            Some(last) if low <= last.1 => last.1 = last.1.max(high),
            _ => joined.push((low, high)),
        }
    }
    joined
}

/// True if a file of the debug information is the one that is meant: it or the end of its path.
pub fn is_file(path: &str, meant: &str) -> bool {
    path.strip_suffix(meant).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// True if a function is the one that a plan calls `name`: as debug information has it, without parameters, namespaces or template
/// arguments, or as a report has shortened it, with an ellipsis.
pub fn means(function: &str, name: &str) -> bool {
    if is_it(function, name) {
        return true;
    }
    let plain = without_parameters(function);
    let parts: Vec<&str> = name.split('…').flat_map(|part| part.split("..")).collect();
    if parts.len() > 1 {
        return has_parts(plain, &parts);
    }
    !name.contains('<') && ends_with_name(&without_arguments(plain), name)
}

/// A name of which an ellipsis has replaced parts; what is before the first may lack namespaces and the type that is returned.
fn has_parts(plain: &str, parts: &[&str]) -> bool {
    let (first, rest) = (parts[0], &parts[1..]);
    let starts = plain.match_indices(first).map(|(at, _)| at);
    starts.filter(|&at| at == 0 || first.is_empty() || ends_a_qualifier(&plain[..at])).any(|at| {
        let mut left = &plain[at + first.len()..];
        let inner = &rest[..rest.len() - 1];
        let in_order = inner.iter().all(|part| match left.find(part) {
            Some(found) => {
                left = &left[found + part.len()..];
                true
            }
            None => false,
        });
        in_order && left.ends_with(rest[rest.len() - 1])
    })
}

fn ends_a_qualifier(before: &str) -> bool {
    before.is_empty() || before.ends_with("::") || before.ends_with([' ', '*', '&'])
}

fn ends_with_name(function: &str, name: &str) -> bool {
    function.strip_suffix(name).is_some_and(ends_a_qualifier)
}

/// The text before the brackets of the parameters.
fn without_parameters(function: &str) -> &str {
    let mut depth = 0_i32;
    for (at, c) in function.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0
                && at > 0
                && !function[..at].ends_with("operator")
                && !function[..at].ends_with("{lambda") =>
            {
                return &function[..at];
            }
            _ => {}
        }
    }
    function
}

/// A name without what stands between `<` and `>`.
fn without_arguments(name: &str) -> String {
    let mut depth = 0_i32;
    let keep = |c: &char| {
        depth += i32::from(*c == '<');
        let kept = depth <= 0;
        depth -= i32::from(*c == '>');
        kept
    };
    name.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_meant_by_what_reports_call_it() {
        let function = "CSRGraph<int, int, true>::GenIndex(pvector<long, long*> const&, int*)";
        for name in [
            "GenIndex",
            "CSRGraph::GenIndex",
            "CSRGraph<int, int, true>::GenIndex",
            "CSRGraph<…>::GenIndex",
            "CSRGraph<..>::GenIndex",
            "CSRGr…enIndex",
            "…::GenIndex",
        ] {
            assert!(means(function, name), "{name}");
        }
        for name in ["Index", "CSRGraph", "CSRGraph<…>::Gen", "Graph<…>::GenIndex", "CSRGraph<bool>::GenIndex"] {
            assert!(!means(function, name), "{name}");
        }
        let returns = "double* lulesh::Allocate<double>(unsigned long)";
        for name in
            ["Allocate", "Allocate<double>", "lulesh::Allocate", "Allocate<…>", "double* lulesh::Allocate<double>"]
        {
            assert!(means(returns, name), "{name}");
        }
        assert!(!means(returns, "Allocate<int>"));
        assert!(means("Domain::AllocateElemPersistent(int)", "Domain::AllocateElemPersistent"));
    }

    #[test]
    fn ranges_that_meet_are_one() {
        assert_eq!(joined(vec![(8, 12), (0, 4), (4, 6), (9, 10)]), [(0, 6), (8, 12)]);
    }
}
