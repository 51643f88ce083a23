//! What is told about an instruction.

/// A function that an instruction belongs to, by inlining or by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function's name, demangled; empty when only the line is known.
    pub function: String,
    /// The source file as the compiler was given it, made absolute with the compilation directory.
    pub file: Option<String>,
    /// The line, from 1; 0 when unknown.
    pub line: u32,
    /// True if the function was inlined into the next frame's.
    pub inlined: bool,
}
