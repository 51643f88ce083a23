//! Finds programs that tell of their accesses by themselves: compiled with `-fsanitize=thread`, and the functions that
//! they call for each access can be ours.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use numamma_symbols::{Module, Modules};

/// Begins the name of ThreadSanitizer's runtime as a library; a number follows.
const RUNTIME: &str = "libtsan.so.";

/// What is known of a program's hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hooks {
    /// It has none.
    None,
    /// It calls for them, and takes whichever it finds. The name of the runtime that it needs, if it needs one.
    Offered(Option<String>),
    /// It calls those of a runtime that cannot be replaced, nor be run by an emulator; why.
    Bound(String),
}

/// Looks at an executable and at the libraries that come with it.
///
/// Libraries of the system are not looked at: they are not compiled so.
#[must_use]
pub fn hooks_of(executable: &Path) -> Hooks {
    let modules = Modules::new();
    let (mut offered, mut runtime) = (false, None);
    let mut known = HashSet::new();
    let mut waiting = vec![executable.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(module) = modules.open(&path) else { continue };
        if module.defines("__tsan_func_entry") {
            return Hooks::Bound(
                "it brings ThreadSanitizer's runtime, as clang or -static-libtsan links it: link with -ltsan in place of -fsanitize=thread".into(),
            );
        }
        offered |= module.wanted().iter().any(|name| is_hook(name));
        if let Some(name) = module.wanted().iter().find(|name| is_of_runtime(name) && !numamma_exact::has(name)) {
            return Hooks::Bound(format!(
                "it calls {name} of ThreadSanitizer's runtime, for which there is no substitute"
            ));
        }
        for name in module.needed() {
            if name.starts_with("libclang_rt.tsan") {
                return Hooks::Bound(format!("it needs {name}: link with -ltsan in place of -fsanitize=thread"));
            }
            if name.starts_with(RUNTIME) {
                runtime = Some(name.clone());
            } else if known.insert(name.clone()) {
                waiting.extend(find(name, &path, &module));
            }
        }
    }
    match (offered, runtime) {
        (_, Some(name)) if name.len() != numamma_exact::RUNTIME.len() => {
            Hooks::Bound(format!("it needs {name}, a version of ThreadSanitizer's runtime that is not known"))
        }
        (true, runtime) => Hooks::Offered(runtime),
        (false, _) => Hooks::None,
    }
}

/// True if it is called for accesses.
fn is_hook(name: &str) -> bool {
    const KINDS: [&str; 7] = ["read", "write", "unaligned_", "volatile_", "atomic", "vptr_", "func_entry"];
    name.strip_prefix("__tsan_").is_some_and(|rest| KINDS.iter().any(|kind| rest.starts_with(kind)))
}

fn is_of_runtime(name: &str) -> bool {
    ["__tsan_", "__sanitizer_", "Annotate"].iter().any(|prefix| name.starts_with(prefix))
}

/// Where a library that `module` needs is, if it came with the program.
fn find(name: &str, of: &Path, module: &Module) -> Option<PathBuf> {
    let origin = std::fs::canonicalize(of).ok()?.parent()?.to_string_lossy().into_owned();
    let own = module.search_path().unwrap_or_default().replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
    let of_user = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = own.split(':').chain(of_user.split(':')).filter(|folder| !folder.is_empty());
    folders.map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}
