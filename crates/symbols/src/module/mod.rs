//! One ELF file, and everything that can be asked of it.

mod code;
mod data;
mod identity;

pub use code::{LineRow, NamedFunction};

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use object::elf;

use crate::Error;
use crate::dwarf::{DebugFiles, DebugSections, Lines};
use crate::elf::dynamic::Dynamic;
use crate::elf::functions::Functions;
use crate::elf::image::Image;
use crate::elf::mapping::{self, Access, Mapping};
use crate::elf::notes;
use crate::elf::source::{Source, Stamp};
use crate::elf::symtab::Symbols;
use crate::elf::unwind::Unwind;
use crate::variables::Variables;

/// An executable, a shared library or the vdso. Cheap to open; shared between threads and processes.
///
/// All addresses are the file's own (`vaddr`): a process's address less the bias of its mapping.
#[derive(Debug)]
pub struct Module {
    name: String,
    path: Option<PathBuf>,
    image: Image,
    build_id: Option<Vec<u8>>,
    code: Vec<OnceLock<Option<Arc<[u8]>>>>,
    dynamic: OnceLock<Dynamic>,
    debug_files: OnceLock<DebugFiles>,
    debug_sections: OnceLock<Option<DebugSections>>,
    symbols: OnceLock<Symbols>,
    functions: OnceLock<Functions>,
    unwind: OnceLock<Option<Unwind>>,
    variables: OnceLock<Variables>,
    lines: OnceLock<Option<Lines>>,
}

impl Module {
    /// Opens the ELF file at `path` and reads its headers; the name is the file's.
    ///
    /// # Errors
    /// When there is no such file, it cannot be read, or it is not a 64-bit ELF file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::open_as(path, &file_name(path))
    }

    /// The same under another name: for a deleted file that is reached by `/proc/PID/map_files`.
    ///
    /// # Errors
    /// Those of [`Module::open`].
    pub fn open_as(path: impl AsRef<Path>, name: &str) -> Result<Self, Error> {
        Ok(Self::open_stamped(path.as_ref(), name)?.0)
    }

    /// Also says which version of the file it is.
    pub(crate) fn open_stamped(path: &Path, name: &str) -> Result<(Self, Stamp), Error> {
        let (source, stamp) = Source::open(path)
            .map_err(|error| Error::from_io(path, &error))?
            .ok_or_else(|| Error::NotAFile(path.into()))?;
        Ok((Self::from_source(source, name, Some(path.into()))?, stamp))
    }

    /// A module that is not a file, such as the vdso; `name` is what to show for it.
    ///
    /// # Errors
    /// When `bytes` are not those of a 64-bit ELF file.
    pub fn from_bytes(name: &str, bytes: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        Self::from_source(Source::Bytes(bytes.into()), name, None)
    }

    fn from_source(source: Source, name: &str, path: Option<PathBuf>) -> Result<Self, Error> {
        let image = Image::parse(source, name)?;
        Ok(Self {
            name: name.into(),
            build_id: notes::build_id(&image),
            code: image.segments.iter().map(|_| OnceLock::new()).collect(),
            path,
            image,
            dynamic: OnceLock::new(),
            debug_files: OnceLock::new(),
            debug_sections: OnceLock::new(),
            symbols: OnceLock::new(),
            functions: OnceLock::new(),
            unwind: OnceLock::new(),
            variables: OnceLock::new(),
            lines: OnceLock::new(),
        })
    }

    /// The name to show: the file's name without folders, or what [`Module::from_bytes`] was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path that was opened; none for modules from bytes.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The build id, mostly 20 bytes; none when the linker wrote none.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Address in the process less address in the file, for a memory map entry that begins at `map_start` and shows this
    /// file from `file_offset` on (bytes). An executable entry, or any as it was when it was mapped, tells it for sure;
    /// with a later read-only entry prefer [`Module::bias_for_mappings`]. None when no segment of the file is mapped from
    /// there.
    #[must_use]
    pub fn bias_for_mapping(&self, map_start: u64, file_offset: u64, access: Access) -> Option<u64> {
        self.bias_for_mappings(&[Mapping { start: map_start, file_offset, access }])
    }

    /// The same by all entries of a memory map that show this file. None when none of them fits.
    #[must_use]
    pub fn bias_for_mappings(&self, mappings: &[Mapping]) -> Option<u64> {
        mapping::bias(&self.image, mappings)
    }

    /// The first address and the one after the last that the module takes up, in whole pages of 4 KiB. The end of it may
    /// be anonymous memory in the process (`.bss`).
    #[must_use]
    pub fn extent(&self) -> Option<(u64, u64)> {
        mapping::extent(&self.image)
    }

    /// True if the byte at `address` is one of the file; else it is zero-initialised data, or nothing of the module.
    #[must_use]
    pub fn is_in_file(&self, address: u64) -> bool {
        self.image.loads().any(|segment| address.wrapping_sub(segment.address) < segment.file_size)
    }

    /// True if it is loaded where it was linked (`ET_EXEC`): the bias is 0.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.image.kind == elf::ET_EXEC
    }

    fn dynamic(&self) -> &Dynamic {
        self.dynamic.get_or_init(|| Dynamic::read(&self.image))
    }

    fn debug_files(&self) -> &DebugFiles {
        self.debug_files.get_or_init(|| DebugFiles::find(&self.image, self.build_id(), self.path()))
    }

    fn debug_sections(&self) -> Option<&DebugSections> {
        self.debug_sections.get_or_init(|| DebugSections::load(&self.image, self.debug_files())).as_ref()
    }

    fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| Symbols::read(&self.image, self.debug_files().separate.as_ref()))
    }
}

/// The name to show for a path.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
