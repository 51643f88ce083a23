//! Paths and the modules behind them, opened once and only when something needs them.

use std::path::Path;
use std::sync::Arc;

use numamma_symbols::{Module, Modules};
use rustc_hash::FxHashMap;

use crate::space::mappings::PathId;

/// The kernel's name for the code that it maps into every process.
pub const VDSO: &str = "[vdso]";

/// The vdso as we have it ourselves: all 64-bit processes of a machine have the same.
fn own_vdso() -> Option<Arc<Module>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let (start, end) = maps.lines().find(|line| line.ends_with(VDSO))?.split_once(' ')?.0.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    // SAFETY: the kernel mapped this range readable into our own process, and it stays for as long as we live.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, end - start) };
    Module::from_bytes(VDSO, bytes.to_vec()).ok().map(Arc::new)
}

/// Interned paths with their modules.
#[derive(Debug, Default)]
pub struct ModuleStore {
    files: Modules,
    paths: Vec<String>,
    ids: FxHashMap<String, PathId>,
    modules: Vec<Option<Option<Arc<Module>>>>,
}

impl ModuleStore {
    /// Number of a path.
    pub fn intern(&mut self, path: &str) -> PathId {
        if let Some(&id) = self.ids.get(path) {
            return id;
        }
        let id = self.paths.len() as PathId;
        self.paths.push(path.to_owned());
        self.modules.push(None);
        self.ids.insert(path.to_owned(), id);
        id
    }

    /// The path of a number.
    pub fn path(&self, id: PathId) -> &str {
        &self.paths[id as usize]
    }

    /// The module of a path, if it is a readable ELF file.
    pub fn get(&mut self, id: PathId) -> Option<Arc<Module>> {
        let slot = &mut self.modules[id as usize];
        slot.get_or_insert_with(|| {
            let path = &self.paths[id as usize];
            if path == VDSO {
                return own_vdso();
            }
            path.starts_with('/').then(|| self.files.open(Path::new(path)).ok()).flatten()
        })
        .clone()
    }
}
