//! The file that is executed.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use numamma_symbols::Modules;

use crate::error::StartError;

/// Why the library is not put into a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A sanitizer must be loaded first; which.
    Sanitizer(String),
    /// There is nothing that could load it.
    Static,
}

/// Looks at the executable for what makes the library harmful or useless.
pub fn library_refused(executable: &Path) -> Option<Refused> {
    let module = Modules::new().open(executable).ok()?;
    if module.is_static_executable() {
        return Some(Refused::Static);
    }
    let sanitizer = module
        .needed()
        .iter()
        .find(|n| ["libasan", "libtsan", "liblsan", "libhwasan", "libmsan"].iter().any(|s| n.starts_with(s)))?;
    Some(Refused::Sanitizer(format!("the program is built with a sanitizer ({sanitizer}), which must be loaded first")))
}

/// The file that will be executed, found as execvp finds it.
///
/// # Errors
/// If there is none.
pub fn find_executable(program: &OsString) -> Result<PathBuf, StartError> {
    use std::os::unix::ffi::OsStrExt;
    let cannot = |kind: io::ErrorKind| StartError { command: program.clone(), source: kind.into() };
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return match std::fs::metadata(&path) {
            Ok(info) if info.is_dir() => Err(cannot(io::ErrorKind::PermissionDenied)),
            Ok(_) => Ok(path),
            Err(error) => Err(StartError { command: program.clone(), source: error }),
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&search)
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
        .ok_or_else(|| cannot(io::ErrorKind::NotFound))
}
