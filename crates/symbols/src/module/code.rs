//! Questions about instructions.

use object::elf;
use rustc_hash::FxHashMap;

use super::Module;
use crate::dwarf::{Lines, scopes};
use crate::elf::functions::{FunctionRange, Functions};
use crate::elf::headers::Segment;
use crate::elf::unwind::Unwind;
use crate::names::{demangle, without_copy_suffix};
use crate::{Frame, FrameRule, Scope};

/// A function, or the cold part of one, found by its name. Addresses are the file's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFunction {
    /// Its name, demangled, as the source has it.
    pub name: String,
    /// True if it is the part of a function that the compiler put elsewhere since it is rarely reached.
    pub cold: bool,
    /// Address of the first byte.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
}

/// Instructions in a row of one source line. Addresses are the file's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRow {
    /// Address of the first byte.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// The source file as [`Frame::file`] has it; of the innermost function where others are inlined.
    pub file: String,
    /// The line in it, 0 if unknown.
    pub line: u32,
}

impl Module {
    /// The lines of the instructions from `low` up to `high`, in order of the tables. Empty without debug information.
    #[must_use]
    pub fn line_rows(&self, low: u64, high: u64) -> Vec<LineRow> {
        self.lines().map(|lines| lines.rows(low, high)).unwrap_or_default()
    }

    /// The file's bytes at `address`, `length` bytes at most and less at the end of the segment; for the instruction
    /// decoder. None outside executable segments.
    #[must_use]
    pub fn text_at(&self, address: u64, length: usize) -> Option<&[u8]> {
        let (segment, cache) = self.image.segments.iter().zip(&self.code).find(|(segment, _)| {
            segment.kind == elf::PT_LOAD
                && segment.executable
                && (segment.address..segment.address.saturating_add(segment.file_size)).contains(&address)
        })?;
        let code = cache.get_or_init(|| self.image.source.read(segment.offset, segment.file_size)).as_deref()?;
        let start = usize::try_from(address - segment.address).ok()?;
        let tail = code.get(start..)?;
        Some(&tail[..length.min(tail.len())])
    }

    /// The instructions around `address` that are known to belong together. It begins at an instruction, and no other
    /// known function begins inside: a cold part, a linkage table's entry and an assembler's label each are ranges of
    /// their own. Works on stripped files, by the unwind tables. None between functions.
    #[must_use]
    pub fn function_bounds(&self, address: u64) -> Option<FunctionRange> {
        self.functions().range(address)
    }

    /// The name of the function around `address` by symbols alone, demangled; `malloc@plt` for a linkage table's entry.
    #[must_use]
    pub fn function_name(&self, address: u64) -> Option<String> {
        let (name, is_plt) = self.functions().name(self.symbols(), address)?;
        match demangle(name) {
            name if is_plt => Some(format!("{name}@plt")),
            name => Some(name),
        }
    }

    /// The functions that the instruction at `address` belongs to, innermost first: those that were inlined there, and
    /// last the one that contains it. Without debug information the one function, without line. Empty when nothing
    /// names it. For a return address, ask for the byte before.
    #[must_use]
    pub fn frames_at(&self, address: u64) -> Vec<Frame> {
        let mut frames = self.lines().map(|lines| lines.frames(address)).unwrap_or_default();
        match frames.last_mut() {
            Some(outermost) if outermost.function.is_empty() => {
                outermost.function = self.function_name(address).unwrap_or_default();
            }
            Some(_) => {}
            None => frames.extend(self.function_name(address).map(|function| Frame {
                function,
                file: None,
                line: 0,
                inlined: false,
            })),
        }
        frames
    }

    /// The functions that the instructions at `addresses` belong to, innermost first as in [`Module::frames_at`], with
    /// their variables. Those that debug information does not cover are missing. One pass for all: ask once.
    #[must_use]
    pub fn scopes_at(&self, addresses: &[u64]) -> FxHashMap<u64, Vec<Scope>> {
        self.debug_sections().map(|sections| scopes::read(sections, addresses)).unwrap_or_default()
    }

    /// How the unwind tables find the frame's canonical address when the instruction at `address` is the next. None where
    /// they have none, or compute it.
    #[must_use]
    pub fn frame_rule(&self, address: u64) -> Option<FrameRule> {
        self.unwind.get_or_init(|| Unwind::read(&self.image)).as_ref()?.frame_rule(&self.image, address)
    }

    /// The functions that `wanted` accepts by one of their names, in order of their addresses, each once. A copy that the
    /// compiler made of a function (`.constprop`, `.isra`, `.part`) has the function's name.
    #[must_use]
    pub fn functions_named(&self, wanted: impl Fn(&str) -> bool) -> Vec<NamedFunction> {
        let symbols = self.symbols();
        let mut found: Vec<NamedFunction> = Vec::new();
        let is_code = |kind| matches!(kind, elf::STT_FUNC | elf::STT_NOTYPE);
        for symbol in symbols.list.iter().filter(|symbol| is_code(symbol.kind)) {
            let (name, part) = without_copy_suffix(symbols.name(symbol.name));
            let name = demangle(name);
            if wanted(&name)
                && let Some(range) = self.function_bounds(symbol.value).filter(|range| range.start == symbol.value)
            {
                found.push(NamedFunction { name, cold: part.contains(".cold"), start: range.start, end: range.end });
            }
        }
        found.sort_by_key(|function| (function.start, function.name.len()));
        found.dedup_by_key(|function| function.start);
        found
    }

    /// Where in the file the byte of code at `address` lies.
    #[must_use]
    pub fn file_offset(&self, address: u64) -> Option<u64> {
        let holds = |segment: &&Segment| {
            segment.executable
                && (segment.address..segment.address.saturating_add(segment.file_size)).contains(&address)
        };
        self.image.loads().find(holds).map(|segment| address - segment.address + segment.offset)
    }

    /// The address of what is mapped of the file's start.
    pub fn start(&self) -> u64 {
        let first = self.image.loads().find(|segment| segment.offset < 4096);
        first.map_or(0, |segment| (segment.address - segment.offset.min(segment.address)) & !4095)
    }

    fn functions(&self) -> &Functions {
        self.functions.get_or_init(|| Functions::read(&self.image, self.symbols()))
    }

    fn lines(&self) -> Option<&Lines> {
        self.lines.get_or_init(|| Lines::new(self.debug_sections()?)).as_ref()
    }
}
