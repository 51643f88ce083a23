//! Starts the program suspended, so that everything is attached before its first instruction.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use crate::error::StartError;

/// A child that waits before its exec.
#[derive(Debug)]
pub struct Suspended {
    pid: i32,
    go: OwnedFd,
    /// Carries the error number of a failed exec; closed by a successful one.
    failed: OwnedFd,
}

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    /// Its process id.
    pub pid: i32,
    status: Option<i32>,
}

/// Forks a child that waits to become `command`, with `environment` added to (or replacing) ours.
///
/// # Errors
/// If the system refuses, or an argument holds a NUL byte.
pub fn suspended(command: &[OsString], environment: &[(OsString, OsString)]) -> io::Result<Suspended> {
    let arguments: Vec<CString> = command.iter().map(|a| c_string(a)).collect::<io::Result<_>>()?;
    let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for (name, value) in environment {
        variables.retain(|(n, _)| n != name);
        variables.push((name.clone(), value.clone()));
    }
    let variables: Vec<CString> = variables
        .iter()
        .map(|(name, value)| c_string(&[name.as_os_str(), OsStr::new("="), value].into_iter().collect::<OsString>()))
        .collect::<io::Result<_>>()?;
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(&arguments), pointers(&variables));
    let (go_read, go) = pipe()?;
    let (failed, failed_write) = pipe()?;

    // SAFETY: the child calls only async-signal-safe functions until exec; everything it uses was made before the fork.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: as above; the descriptors and the argument arrays are copies of the parent's and stay open and alive.
        0 => unsafe {
            // The recorder's dispositions are not the program's: Rust ignores SIGPIPE, and handlers die with exec.
            libc::signal(libc::SIGPIPE, crate::signals::inherited_sigpipe());
            crate::signals::restore_file_limit();
            // The recorder's end of the pipe must not be open here too, or its death would go unnoticed.
            libc::close(go.as_raw_fd());
            let mut byte = 0_u8;
            if libc::read(go_read.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(125);
            }
            for fd in crate::signals::inherited_closed() {
                libc::close(fd);
            }
            libc::execvpe(argv[0], argv.as_ptr(), envp.as_ptr());
            let error = *libc::__errno_location();
            libc::write(failed_write.as_raw_fd(), (&raw const error).cast(), size_of::<i32>());
            libc::_exit(127)
        },
        pid => Ok(Suspended { pid, go, failed }),
    }
}

impl Suspended {
    /// Process id of the child.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets it go.
    ///
    /// # Errors
    /// If the program cannot be executed: not found, or no permission.
    pub fn run(self, command: &OsStr) -> Result<Running, StartError> {
        let mut running = Running { pid: self.pid, status: None };
        // SAFETY: writes one byte from a live buffer to an open descriptor.
        unsafe { libc::write(self.go.as_raw_fd(), b"x".as_ptr().cast(), 1) };
        let mut error = 0_i32;
        // SAFETY: reads at most four bytes into a live i32. Ends at once when exec closes the other end.
        let read = unsafe { libc::read(self.failed.as_raw_fd(), (&raw mut error).cast(), size_of::<i32>()) };
        if read == size_of::<i32>() as isize {
            running.wait();
            let source = io::Error::from_raw_os_error(error);
            return Err(StartError { command: command.into(), source });
        }
        Ok(running)
    }

    /// Ends the child without running anything.
    pub fn cancel(self) {
        let pid = self.pid;
        drop(self.go);
        Running { pid, status: None }.wait();
    }
}

impl Running {
    /// The wait status if the program has ended. Never blocks.
    pub fn ended(&mut self) -> Option<i32> {
        self.poll(libc::WNOHANG)
    }

    /// Waits for the end; the wait status, unless somebody else has waited.
    pub fn wait(&mut self) -> Option<i32> {
        self.poll(0)
    }

    fn poll(&mut self, flags: i32) -> Option<i32> {
        if self.status.is_none() {
            let mut status = 0;
            loop {
                if flags & libc::WNOHANG != 0 && !self.has_ended() {
                    break;
                }
                // SAFETY: waits for our own child and writes its status to a live i32.
                let waited = unsafe { libc::waitpid(self.pid, &raw mut status, flags) };
                if waited == self.pid {
                    self.status = Some(status);
                } else if waited < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                break;
            }
        }
        self.status
    }

    /// Looks without taking: `waitpid` would take a stop that another thread of ours waits for ([`crate::Stopped`]).
    fn has_ended(&self) -> bool {
        // SAFETY: zeros are a value; it is only written.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: looks at our own child, and writes to a live struct.
        let looked = unsafe { libc::waitid(libc::P_PID, self.pid as u32, &raw mut info, options) };
        looked < 0 || matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED)
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two descriptors, which nobody else owns.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "an argument holds a NUL byte"))
}
