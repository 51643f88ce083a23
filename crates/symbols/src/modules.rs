//! Modules that many processes share.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use crate::elf::source::Stamp;
use crate::module::file_name;
use crate::{Error, Module};

/// Modules by path, each opened once. A file that was replaced under its path (an upgrade, a rebuild) is a new module;
/// one file under several paths is one module.
#[derive(Debug, Default)]
pub struct Modules(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_path: FxHashMap<PathBuf, (Stamp, Result<Arc<Module>, Error>)>,
    by_stamp: FxHashMap<Stamp, Arc<Module>>,
}

impl Modules {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The module at `path`. Failures are kept too, until the file changes: a data file that is mapped in a thousand
    /// processes is looked at once.
    ///
    /// # Errors
    /// Those of [`Module::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Arc<Module>, Error> {
        let path = path.as_ref();
        self.open_as(path, &file_name(path))
    }

    /// The same under another name, if it was not opened before.
    ///
    /// # Errors
    /// Those of [`Module::open`].
    pub fn open_as(&self, path: impl AsRef<Path>, name: &str) -> Result<Arc<Module>, Error> {
        let path = path.as_ref();
        let now = Stamp::of(path).map_err(|error| Error::from_io(path, &error))?;
        // Opening reads headers only: holding the lock meanwhile keeps two threads from opening one file twice.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((stamp, result)) = known.by_path.get(path)
            && *stamp == now
        {
            return result.clone();
        }
        let (stamp, result) = match known.by_stamp.get(&now) {
            Some(module) => (now, Ok(Arc::clone(module))),
            // The file may have been replaced since: what was opened counts.
            None => match Module::open_stamped(path, name) {
                Ok((module, stamp)) => (stamp, Ok(Arc::new(module))),
                Err(error) => (now, Err(error)),
            },
        };
        if let Ok(module) = &result {
            known.by_stamp.insert(stamp, Arc::clone(module));
        }
        known.by_path.insert(path.into(), (stamp, result.clone()));
        result
    }
}
