//! The cache of modules.

use std::sync::Arc;

use numamma_symbols::{Error, Module, Modules};

use crate::support::{Workshop, have};

#[test]
fn a_file_is_opened_once_until_it_changes() {
    if !have(&["gcc"]) {
        return;
    }
    let workshop = Workshop::new();
    let path = workshop.compile("a.c", "int one[3]; int main(void) { return 0; }", "a", &[]);
    let modules = Modules::new();
    let first = modules.open(&path).unwrap();
    assert!(Arc::ptr_eq(&first, &modules.open(&path).unwrap()));
    let link = workshop.path("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(Arc::ptr_eq(&first, &modules.open(&link).unwrap()));

    std::fs::remove_file(&path).unwrap();
    workshop.compile("a.c", "int two[3]; int main(void) { return 0; }", "a", &[]);
    let second = modules.open(&path).unwrap();
    assert!(second.defines("two") && !second.defines("one"));
    assert_eq!((first.name(), modules.open_as(&path, "other").unwrap().name()), ("a", "a"));
    assert_eq!(Module::open_as(&path, "other").unwrap().name(), "other");
    // The old file is still open, and answers for the processes that still run it.
    assert!(first.defines("one"));
}

#[test]
fn failures_are_remembered() {
    let workshop = Workshop::new();
    let path = workshop.write("data", "no program");
    let modules = Modules::new();
    for _ in 0..2 {
        assert!(matches!(modules.open(&path), Err(Error::NotElf(_))));
    }
    assert!(matches!(modules.open("/no/such/file"), Err(Error::Missing(_))));
}

#[test]
fn threads_share_a_module() {
    let path = std::env::current_exe().unwrap();
    let module = Module::open(path).unwrap();
    let (first, _) = module.extent().unwrap();
    let names: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..200).map(|step| module.frames_at(first + step * 4096)).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(names.windows(2).all(|pair| pair[0] == pair[1]));
    assert!(names[0].iter().any(|frames| !frames.is_empty()));
}
