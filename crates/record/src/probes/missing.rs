//! Why a function cannot be watched, as far as its file tells.

use numamma_symbols::Module;

use super::find::is_meant;

/// Lines of code that are looked through for an inlined function.
const MOST_LINES: usize = 200_000;

/// The reason, for a file in which no function of that name can be watched; `place` is what was looked through.
pub fn why(module: &Module, name: &str, place: &str) -> String {
    if !module.functions_named(|found| is_meant(found, name)).is_empty() {
        return format!("in {place} it only returns or goes on in another function: name that one");
    }
    if let Some(caller) = inlined_into(module, name) {
        return format!("it is inlined, in {caller} for one: name that, or build with -fno-inline");
    }
    let later = "if it is in a library that the program opens later, name the file: --in /path/to/libx.so:FUNCTION";
    match (module.is_stripped(), module.has_debug_information()) {
        (true, _) => format!("no such function in {place}, whose names were stripped; {later}"),
        (false, true) => format!("no such function in {place}, nor is one inlined there; {later}"),
        (false, false) => {
            format!(
                "no such function in {place}; without debug information (-g) nothing tells whether it is inlined; {later}"
            )
        }
    }
}

/// The function that holds the code of an inlined one.
fn inlined_into(module: &Module, name: &str) -> Option<String> {
    let (low, high) = module.extent()?;
    module.line_rows(low, high).iter().take(MOST_LINES).find_map(|row| {
        let frames = module.frames_at(row.start);
        let at = frames.iter().position(|frame| frame.inlined && is_meant(&frame.function, name))?;
        frames[at..].iter().find(|frame| !frame.inlined).map(|frame| frame.function.clone())
    })
}
