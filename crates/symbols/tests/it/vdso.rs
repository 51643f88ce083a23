//! The vdso: a module that is no file.

use std::fs::File;
use std::os::unix::fs::FileExt;

use numamma_symbols::{Access, Error, Module};

#[test]
fn the_vdso_has_functions() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else {
        return;
    };
    let (start, rest) = line.split_once('-').unwrap();
    let start = u64::from_str_radix(start, 16).unwrap();
    let end = u64::from_str_radix(rest.split_once(' ').unwrap().0, 16).unwrap();
    let mut bytes = vec![0; (end - start) as usize];
    File::open("/proc/self/mem").unwrap().read_exact_at(&mut bytes, start).unwrap();

    let module = Module::from_bytes("[vdso]", bytes).unwrap();
    assert_eq!((module.name(), module.path()), ("[vdso]", None));
    assert!(module.defines("__vdso_clock_gettime") || module.defines("__kernel_clock_gettime"));
    assert!(module.bias_for_mapping(start, 0, Access::Execute).is_some());
    assert!(!module.is_static_executable());
}

#[test]
fn what_is_no_module_says_why() {
    assert_eq!(Module::from_bytes("x", *b"not ELF").unwrap_err(), Error::NotElf("x".into()));
    assert!(matches!(Module::open("/proc/self/maps").unwrap_err(), Error::NotElf(_)));
    assert!(matches!(Module::open("/no/such/file").unwrap_err(), Error::Missing(_)));
    assert!(matches!(Module::open("/dev/zero").unwrap_err(), Error::NotAFile(_)));
    assert!(matches!(Module::open("/tmp").unwrap_err(), Error::NotAFile(_)));
    let mut short = *b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0";
    assert!(matches!(Module::from_bytes("x", short).unwrap_err(), Error::Unsupported { form: "32-bit", .. }));
    short[4] = 2;
    assert!(matches!(Module::from_bytes("x", short).unwrap_err(), Error::Damaged { .. }));
}
