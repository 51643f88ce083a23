//! How a program is run when its accesses are counted: by QEMU's user mode, with our plug-in.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use numamma_process::StartError;

use crate::error::RecordError;

/// The emulator's name, and the package of Debian and Ubuntu that brings it.
pub const EMULATOR: &str = "qemu-x86_64";
/// The package.
pub const PACKAGE: &str = "qemu-user";

/// Where the emulator is, if it is installed.
pub fn emulator() -> Option<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&search).map(|dir| dir.join(EMULATOR)).find(|path| path.is_file())
}

/// A program that the emulator can run: the file itself, or the interpreter of a script.
#[derive(Debug, PartialEq, Eq)]
pub struct Runnable {
    /// The executable.
    pub executable: PathBuf,
    /// Its arguments, its name for itself first.
    arguments: Vec<OsString>,
}

/// Scripts whose interpreters are scripts: as deep as the kernel goes.
const DEEPEST: usize = 4;

impl Runnable {
    /// What is executed for `command`, whose first word stands for the file `executable`.
    pub fn find(executable: &Path, command: &[OsString]) -> Result<Self, RecordError> {
        let mut runnable = Self { executable: executable.to_owned(), arguments: command.to_vec() };
        for _ in 0..DEEPEST {
            let path = &runnable.executable;
            let cannot = |source| RecordError::CannotRun(StartError { command: command[0].clone(), source });
            let info = std::fs::metadata(path).map_err(cannot)?;
            if info.permissions().mode() & 0o111 == 0 {
                return Err(cannot(std::io::ErrorKind::PermissionDenied.into()));
            }
            if info.permissions().mode() & 0o6000 != 0 {
                return Err(refused(command, "it is set-user-id, and would run without its privileges"));
            }
            let mut head = [0; 256];
            let read = File::open(path).and_then(|mut file| file.read(&mut head)).map_err(cannot)?;
            match kind(&head[..read]) {
                Kind::Program => return Ok(runnable),
                Kind::Script { interpreter, argument } => {
                    let script = path.clone().into_os_string();
                    let rest = runnable.arguments.split_off(1);
                    runnable.arguments = [interpreter.clone()].into_iter().chain(argument).chain([script]).collect();
                    runnable.arguments.extend(rest);
                    runnable.executable = interpreter.into();
                }
                Kind::Other(why) => return Err(refused(command, why)),
            }
        }
        Err(refused(command, "its interpreter is a script of a script"))
    }

    /// The command line of the emulator. `preload`: what the program's LD_PRELOAD is to be.
    pub fn command(
        &self,
        emulator: &Path,
        plugin: &Path,
        segment: &str,
        preload: Option<&OsStr>,
    ) -> Result<Vec<OsString>, RecordError> {
        let mut option = plugin_option(plugin, segment);
        option.push(",program=");
        option.push(doubled(&self.executable));
        let mut words: Vec<OsString> = vec![emulator.into(), "-cpu".into(), "max".into()];
        if let Some(preload) = preload {
            // That list is split at commas too, and they cannot be doubled.
            if preload.as_bytes().contains(&b',') {
                return Err(RecordError::Emulation("LD_PRELOAD and TMPDIR must not hold commas".into()));
            }
            let mut variable = OsString::from("LD_PRELOAD=");
            variable.push(preload);
            words.extend(["-E".into(), variable]);
        } else {
            words.extend(["-U".into(), "LD_PRELOAD".into()]);
        }
        words.extend(["-plugin".into(), option, "-0".into(), self.arguments[0].clone()]);
        words.push(self.executable.clone().into_os_string());
        words.extend(self.arguments[1..].iter().cloned());
        Ok(words)
    }
}

/// What names the plug-in and its segment to the emulator. Its option list is split at commas, which are doubled.
pub fn plugin_option(plugin: &Path, segment: &str) -> OsString {
    let mut option = OsString::from("file=");
    option.push(doubled(plugin));
    option.push(",segment=");
    option.push(segment);
    option
}

fn refused(command: &[OsString], why: &str) -> RecordError {
    let program = command[0].to_string_lossy();
    RecordError::Emulation(format!("{program} cannot be run by {EMULATOR}: {why}; leave the option out"))
}

fn doubled(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes().iter();
    OsString::from_vec(bytes.flat_map(|&byte| std::iter::repeat_n(byte, if byte == b',' { 2 } else { 1 })).collect())
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// An ELF program of x86-64.
    Program,
    Script {
        interpreter: OsString,
        argument: Option<OsString>,
    },
    Other(&'static str),
}

/// What a file is that begins with `head`.
fn kind(head: &[u8]) -> Kind {
    const ELF: &[u8] = b"\x7fELF";
    const X86_64: u16 = 62;
    const I386: u16 = 3;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
        let end = line.iter().position(|byte| b" \t".contains(byte)).unwrap_or(line.len());
        let (interpreter, argument) = (&line[..end], line[end..].trim_ascii());
        let word = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        return match interpreter {
            [] => Kind::Other("it is a script that names no interpreter"),
            _ => Kind::Script {
                interpreter: word(interpreter),
                argument: (!argument.is_empty()).then(|| word(argument)),
            },
        };
    }
    if !head.starts_with(ELF) {
        return Kind::Other("it is neither an ELF program nor a script");
    }
    match head.get(18..20).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]])) {
        Some(X86_64) if head[4] == 2 => Kind::Program,
        Some(I386 | X86_64) => Kind::Other("it is a 32-bit program"),
        _ => Kind::Other("it is a program of another processor"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(class: u8, machine: u16) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', class]);
        head[18..20].copy_from_slice(&machine.to_le_bytes());
        head
    }

    #[test]
    fn a_file_is_known_by_its_head() {
        assert_eq!(kind(&elf(2, 62)), Kind::Program);
        assert_eq!(kind(&elf(1, 3)), Kind::Other("it is a 32-bit program"));
        assert_eq!(kind(&elf(2, 183)), Kind::Other("it is a program of another processor"));
        assert!(matches!(kind(b""), Kind::Other(_)));
        assert!(matches!(kind(&elf(2, 62)[..10]), Kind::Other(_)));
        let script = |interpreter: &str, argument: Option<&str>| Kind::Script {
            interpreter: interpreter.into(),
            argument: argument.map(OsString::from),
        };
        assert_eq!(kind(b"#!/bin/sh\necho"), script("/bin/sh", None));
        assert_eq!(kind(b"#! /usr/bin/env  perl -w \nprint"), script("/usr/bin/env", Some("perl -w")));
        assert!(matches!(kind(b"#!\n"), Kind::Other(_)));
    }

    #[test]
    fn a_script_is_run_by_its_interpreter() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/bin/sh -e\ntrue\n").expect("a script");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("executable");
        let command = [OsString::from("script"), "a".into()];
        let runnable = Runnable::find(&script, &command).expect("a shell is a program");
        assert_eq!(runnable.executable, Path::new("/bin/sh"));
        let words = runnable
            .command(Path::new("/q"), Path::new("/a,b.so"), "/proc/1/fd/2", Some(OsStr::new("/l.so")))
            .expect("no commas");
        let script = script.to_str().expect("ASCII");
        let expected = format!(
            "/q -cpu max -E LD_PRELOAD=/l.so -plugin file=/a,,b.so,segment=/proc/1/fd/2,program=/bin/sh -0 /bin/sh /bin/sh -e {script} a"
        );
        assert_eq!(words.join(OsStr::new(" ")), OsString::from(expected));
        assert!(runnable.command(Path::new("/q"), Path::new("/p"), "", Some(OsStr::new("/a,b"))).is_err());
    }
}
