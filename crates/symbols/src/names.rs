//! From the linker's names to the programmer's.

use std::fmt::{self, Write};

/// The longest name that is written out, in bytes. Mangled names can refer to themselves and double in length with each
/// reference.
const LONGEST: usize = 16 << 10;

/// The programmer's name for `symbol`: C++, Rust and Fortran names demangled, what the compiler appended for its own
/// ends removed, everything else as it is.
///
/// ```
/// # use numamma_symbols::demangle;
/// assert_eq!(demangle("_ZN5space4gridE"), "space::grid");
/// assert_eq!(demangle("__fields_MOD_density"), "fields::density");
/// assert_eq!(demangle("table.lto_priv.0"), "table");
/// ```
#[must_use]
pub fn demangle(symbol: &str) -> String {
    let name = without_clone_suffix(symbol);
    rust(name).or_else(|| cpp(name)).or_else(|| fortran(name)).unwrap_or_else(|| name.to_owned())
}

/// Removes `.lto_priv.0`, `.llvm.123` and the like. `.0` stays: it tells two statics of one name apart.
fn without_clone_suffix(symbol: &str) -> &str {
    [".lto_priv.", ".llvm."]
        .iter()
        .filter_map(|suffix| symbol.find(suffix))
        .filter(|&at| at > 0)
        .min()
        .map_or(symbol, |at| &symbol[..at])
}

/// Splits off what marks a copy or a part of a function that the compiler made: `f.constprop.0` is `f`.
pub(crate) fn without_copy_suffix(symbol: &str) -> (&str, &str) {
    [".constprop.", ".isra.", ".part.", ".cold"]
        .iter()
        .filter_map(|suffix| symbol.find(suffix))
        .filter(|&at| at > 0)
        .min()
        .map_or((symbol, ""), |at| symbol.split_at(at))
}

fn rust(symbol: &str) -> Option<String> {
    // Rust's older form is C++'s, with a hash as the last part.
    let is_rust = symbol.starts_with("_R") || (symbol.starts_with("_ZN") && symbol.contains("17h"));
    if !is_rust {
        return None;
    }
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    let mut out = Bounded::default();
    write!(out, "{name:#}").ok()?;
    Some(out.0)
}

fn cpp(symbol: &str) -> Option<String> {
    if !symbol.starts_with("_Z") && !symbol.starts_with("__Z") {
        return None;
    }
    // A level of nesting takes a few hundred bytes of stack: the bound keeps a hostile name off the end of it.
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(96);
    // `f<int>(int)` and not `int f<int>(int)`: only templates would have it, and lists sorted by name would scatter them.
    let print = cpp_demangle::DemangleOptions::default().no_return_type().recursion_limit(128);
    let Ok(name) = cpp_demangle::Symbol::new_with_options(symbol, &parse) else { return in_std(symbol) };
    let mut out = Bounded::default();
    name.structured_demangle(&mut out, &print).ok()?;
    Some(as_binutils(out.0))
}

/// `std::__fill_a1` of a template whose arguments the library above cannot read: conditions, such as `enable_if` of C++11 has in them.
fn in_std(symbol: &str) -> Option<String> {
    let rest = symbol.strip_prefix("_ZSt")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    let name = rest.get(digits..)?.get(..rest[..digits].parse().ok()?)?;
    Some(format!("std::{name}"))
}

/// What every other tool writes for the tables that the compiler makes, and for namespaces without name.
fn as_binutils(name: String) -> String {
    let table = [("{vtable(", "vtable for "), ("{vtt(", "VTT for ")].iter().find_map(|(before, after)| {
        let of = name.strip_prefix(before)?.strip_suffix(")}")?;
        Some(format!("{after}{of}"))
    });
    table.unwrap_or(name).replace("_GLOBAL__N_1", "(anonymous namespace)")
}

/// Names that Fortran compilers make for what is in a module; `::` stands for `%` and for use association alike.
fn fortran(symbol: &str) -> Option<String> {
    gfortran(symbol).or_else(|| flang(symbol)).or_else(|| ifort(symbol))
}

/// `__mod_MOD_var`; a name of this form is never C's, which keeps two underscores to itself.
fn gfortran(symbol: &str) -> Option<String> {
    if symbol == "__BLNK__" {
        return Some("//".into());
    }
    let (module, name) = symbol.strip_prefix("__")?.split_once("_MOD_")?;
    (!module.is_empty() && !name.is_empty()).then(|| format!("{module}::{name}"))
}

/// `_QMmodEvar`, `_QMmodFsubEvar`, `_QFsubEvar`, `_QMmodPsub`: upper case letters separate, names are lower case.
fn flang(symbol: &str) -> Option<String> {
    let rest = symbol.strip_prefix("_Q")?;
    if !rest.starts_with(['M', 'F', 'P']) {
        return None;
    }
    let mut parts = Vec::new();
    for part in rest.split_inclusive(|c: char| !c.is_ascii_uppercase()).flat_map(|chunk| {
        // Each chunk is at most one upper case letter and one other: begin a new part at the letter.
        let at = chunk.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(chunk.len());
        [(at > 0, &chunk[at..])]
    }) {
        match (part, parts.last_mut()) {
            ((false, text), Some(last)) => String::push_str(last, text),
            ((_, text), _) => parts.push(text.to_owned()),
        }
    }
    (!parts.iter().any(String::is_empty)).then(|| parts.join("::"))
}

/// `mod_mp_var_`.
fn ifort(symbol: &str) -> Option<String> {
    let (module, name) = symbol.strip_suffix('_')?.split_once("_mp_")?;
    (!module.is_empty() && !name.is_empty()).then(|| format!("{module}::{name}"))
}

/// Text that refuses to grow without end.
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_four_languages() {
        for (symbol, name) in [
            ("plain", "plain"),
            ("counter.0", "counter.0"),
            ("_ZN1n1A6memberE", "n::A::member"),
            ("_ZL5local", "local"),
            ("_ZTV4Base", "vtable for Base"),
            ("_ZN12_GLOBAL__N_19anonymousE", "(anonymous namespace)::anonymous"),
            ("__mod_MOD_var", "mod::var"),
            ("__BLNK__", "//"),
            ("_QMmodEvar", "mod::var"),
            ("_QMmodFsubEvar", "mod::sub::var"),
            ("mod_mp_var_", "mod::var"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("big.llvm.99", "big"),
            (
                "_ZSt9__fill_a1IPddEN9__gnu_cxx11__enable_ifIXsrSt11__is_scalarIT0_E7__valueEvE6__typeET_S6_RKS3_",
                "std::__fill_a1",
            ),
            ("_Znonsense", "_Znonsense"),
            ("", ""),
        ] {
            assert_eq!(demangle(symbol), name, "{symbol}");
        }
    }

    #[test]
    fn a_name_that_doubles_stays_short() {
        // Each S_ refers back to a pair made of the one before.
        let mut name = String::from("_Z1f1AIiiE");
        for level in 0..60 {
            let reference = match level {
                0 => "S_".to_owned(),
                n => format!("S{}_", n - 1),
            };
            name.push_str(&format!("1AI{reference}{reference}E"));
        }
        let started = std::time::Instant::now();
        assert!(demangle(&name).len() <= LONGEST);
        assert!(started.elapsed().as_millis() < 500);
    }
}
