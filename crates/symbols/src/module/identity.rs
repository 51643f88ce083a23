//! What a module is, and what it has to do with others.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use object::elf;

use super::Module;
use crate::elf::dynamic::CopiedVariable;
use crate::elf::image::Image;
use crate::{Variable, VariableKind};

impl Module {
    /// True if it is an executable that no dynamic linker starts: nothing can be preloaded into it. Static
    /// position-independent executables count; shared libraries do not.
    #[must_use]
    pub fn is_static_executable(&self) -> bool {
        let dynamic = self.dynamic();
        let is_program = match self.image.kind {
            elf::ET_EXEC => true,
            elf::ET_DYN => dynamic.is_pie,
            _ => false,
        };
        is_program && !dynamic.has_interpreter
    }

    /// The libraries that it names as needed (`DT_NEEDED`), such as `libm.so.6`, in order.
    #[must_use]
    pub fn needed(&self) -> &[String] {
        &self.dynamic().needed
    }

    /// The dynamic linker that starts it (`PT_INTERP`), if one does.
    #[must_use]
    pub fn interpreter(&self) -> Option<PathBuf> {
        /// No path is longer.
        const LONGEST: u64 = 4096;
        let segment = self.image.segment(elf::PT_INTERP).filter(|segment| segment.file_size <= LONGEST)?;
        let bytes = self.image.source.read(segment.offset, segment.file_size)?;
        let path = bytes.split(|&byte| byte == 0).next().filter(|path| !path.is_empty())?;
        Some(PathBuf::from(OsStr::from_bytes(path)))
    }

    /// The name that it asks others to use (`DT_SONAME`).
    #[must_use]
    pub fn soname(&self) -> Option<&str> {
        self.dynamic().soname.as_deref()
    }

    /// Where its libraries are looked for first (`DT_RUNPATH`, else `DT_RPATH`): folders with colons in between, `$ORIGIN` for its
    /// own.
    #[must_use]
    pub fn search_path(&self) -> Option<&str> {
        self.dynamic().search.as_deref()
    }

    /// The functions and variables of other modules that it cannot do without, by their (mangled) names.
    #[must_use]
    pub fn wanted(&self) -> &[String] {
        &self.dynamic().wanted
    }

    /// True if it defines a function or a variable that others can see with this exact (mangled) name, such as `malloc`.
    #[must_use]
    pub fn defines(&self, name: &str) -> bool {
        let symbols = self.symbols();
        symbols.list.iter().any(|symbol| symbol.bind != elf::STB_LOCAL && symbols.name(symbol.name) == name)
    }

    /// The variables of libraries that live in this executable instead (copy relocations).
    #[must_use]
    pub fn copied_variables(&self) -> &[CopiedVariable] {
        &self.dynamic().copied
    }

    /// True if the storage that this library has for `variable` is unused, because `executable` has the copy that all
    /// modules use.
    #[must_use]
    pub fn is_copied_away(&self, variable: &Variable, executable: &Self) -> bool {
        if std::ptr::eq(self, executable) || variable.kind == VariableKind::ThreadLocal {
            return false;
        }
        // By address: the copy may go by another of the variable's names.
        let symbols = self.symbols();
        executable.copied_variables().iter().any(|copy| {
            symbols.list.iter().any(|symbol| {
                symbol.value == variable.address
                    && symbol.bind != elf::STB_LOCAL
                    && symbols.name(symbol.name) == copy.name
            })
        })
    }

    /// True if debug information was found, here or in a separate file: without, nothing has a line.
    #[must_use]
    pub fn has_debug_information(&self) -> bool {
        self.debug_sections().is_some()
    }

    /// True if the file's own symbols were removed and no separate file has them: only what other modules use has a
    /// name.
    #[must_use]
    pub fn is_stripped(&self) -> bool {
        let has_symbols = |image: &Image| {
            image.sections.iter().any(|section| section.kind == elf::SHT_SYMTAB && section.has_contents())
        };
        !has_symbols(&self.image) && !self.debug_files().separate.as_ref().is_some_and(has_symbols)
    }
}
