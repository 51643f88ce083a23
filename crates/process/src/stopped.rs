//! A thread of a program that is held for a moment, so that its registers and its memory belong together.
//!
//! Nothing is sent to it: a signal that was on its way is delivered, a stop that somebody else asked for stays. A system call that
//! it was in is begun again by the kernel, or ends with `EINTR` where the kernel never begins that one again (signal(7), "stop
//! signals"), so only threads that run should be held.

use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// `NT_X86_XSTATE`: all that XSAVE saves.
const EXTENDED: usize = 0x202;
/// `PTRACE_EVENT_STOP`, in the upper half of a status.
const EVENT_STOP: i32 = 128;
/// Longest time that a thread may take to stop: it may have to wait for a CPU.
const PATIENCE: Duration = Duration::from_secs(2);
/// For so long it is asked without a pause: a thread that runs stops in some microseconds.
const IMPATIENCE: Duration = Duration::from_micros(200);

/// A thread that is held. It goes on when this is dropped, or when the thread that holds it ends.
#[derive(Debug)]
pub struct Stopped {
    tid: i32,
    /// Delivered when it goes on.
    signal: i32,
    /// Only the thread that stopped it may ask it anything.
    bound: PhantomData<*const ()>,
}

/// Why a thread was not stopped.
#[derive(Debug)]
pub enum NotStopped {
    /// It has ended, or is about to.
    Gone,
    /// It has a signal to take first, is stopped already, or is being debugged.
    Busy,
    /// It does not stop. It will, some time, and goes on at once only if this thread has ended by then.
    Late,
    /// This kernel, or this user, may not.
    Refused(io::Error),
}

impl Stopped {
    /// Stops thread `tid` where it is in user mode. `child`: it is the first thread of a child of this process.
    ///
    /// # Errors
    /// If it is not to be stopped.
    pub fn stop(tid: i32, child: bool) -> Result<Self, NotStopped> {
        request(libc::PTRACE_SEIZE, tid, 0, 0).map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => NotStopped::Gone,
            // Who is traced already answers so too; whoever is not permitted learns it from his own child.
            Some(libc::EPERM) if is_traced(tid) => NotStopped::Busy,
            _ => NotStopped::Refused(error),
        })?;
        let stopped = Self { tid, signal: 0, bound: PhantomData };
        // It may be about to stop for something else; then it says so.
        let _ = request(libc::PTRACE_INTERRUPT, tid, 0, 0);
        stopped.arrived(child)
    }

    /// Waits until it has stopped as it was asked to. If it stopped for something else, it goes on with that.
    fn arrived(mut self, child: bool) -> Result<Self, NotStopped> {
        let why = match wait(self.tid, child) {
            Ok(Some(status)) if libc::WIFSTOPPED(status) => {
                if status >> 16 == EVENT_STOP && libc::WSTOPSIG(status) == libc::SIGTRAP {
                    return Ok(self);
                }
                if status >> 16 == 0 {
                    self.signal = libc::WSTOPSIG(status);
                }
                return Err(NotStopped::Busy);
            }
            Ok(None) => NotStopped::Late,
            Ok(Some(_)) | Err(_) => NotStopped::Gone,
        };
        // There is nothing to let go, or not yet.
        std::mem::forget(self);
        Err(why)
    }

    /// Its registers.
    ///
    /// # Errors
    /// If it was killed meanwhile.
    pub fn registers(&self) -> io::Result<libc::user_regs_struct> {
        // SAFETY: a struct of integers, of which zeros are a value.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS, self.tid, 0, (&raw mut registers) as usize)?;
        Ok(registers)
    }

    /// Its vector and floating-point registers in XSAVE's standard format, as many bytes as this kernel has.
    ///
    /// # Errors
    /// If it was killed meanwhile.
    pub fn extended(&self, into: &mut Vec<u8>) -> io::Result<()> {
        into.resize(16 << 10, 0);
        let mut vector = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        request(libc::PTRACE_GETREGSET, self.tid, EXTENDED, (&raw mut vector) as usize)?;
        into.truncate(vector.iov_len);
        Ok(())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It fails if the thread was killed, and then there is nothing to let go.
        let _ = request(libc::PTRACE_DETACH, self.tid, 0, self.signal as usize);
    }
}

fn request(request: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: `data` is an integer, or the address of memory that the caller has for what the request writes.
    match unsafe { libc::ptrace(request, tid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits for `tid` to stop or end. `None`: it does neither. The end of a child is left for its parent's own wait; of others it
/// must be taken, or their parents wait for ever.
fn wait(tid: i32, child: bool) -> io::Result<Option<i32>> {
    let began = Instant::now();
    let mut pause = Duration::from_micros(20);
    loop {
        let mut status = 0;
        // SAFETY: zeros are a value; it is only written.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        // SAFETY: looks, and writes to a live struct.
        if unsafe { libc::waitid(libc::P_PID, tid as u32, &raw mut info, options) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has filled it in, or left zeros.
        if unsafe { info.si_pid() } != 0 {
            let ended = matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
            if ended && child {
                return Ok(Some(0));
            }
            // SAFETY: takes what was seen, and writes to a live integer.
            let waited = unsafe { libc::waitpid(tid, &raw mut status, libc::WNOHANG | libc::__WALL) };
            if waited == tid {
                return Ok(Some(status));
            }
            if waited < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        match began.elapsed() {
            late if late > PATIENCE => return Ok(None),
            early if early < IMPATIENCE => std::thread::yield_now(),
            _ => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(2));
            }
        }
    }
}

/// Whether somebody traces it.
fn is_traced(tid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A shell that counts without an end.
    fn busy() -> std::process::Child {
        Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell")
    }

    #[test]
    fn who_is_held_stands_still_and_goes_on() {
        let mut child = busy();
        let tid = child.id() as i32;
        std::thread::sleep(Duration::from_millis(20));
        let mut extended = Vec::new();
        for _ in 0..20 {
            let stopped = Stopped::stop(tid, true).expect("a running shell");
            let registers = stopped.registers().expect("its registers");
            assert_eq!(registers.rip, stopped.registers().expect("its registers").rip);
            stopped.extended(&mut extended).expect("its vectors");
            // The legacy region and the header, at least.
            assert!(extended.len() >= 576, "{}", extended.len());
        }
        let ticks = || {
            let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).expect("it runs");
            stat.split(' ').nth(13).and_then(|ticks| ticks.parse::<u64>().ok()).expect("user time")
        };
        let before = ticks();
        std::thread::sleep(Duration::from_millis(100));
        assert!(ticks() > before, "it goes on");
        child.kill().expect("kill it");
        child.wait().expect("its end is its parent's");
    }

    #[test]
    fn who_dies_is_left_to_its_parent() {
        let mut child = busy();
        let tid = child.id() as i32;
        let stopped = Stopped::stop(tid, true).expect("a running shell");
        child.kill().expect("kill it");
        drop(stopped);
        while Stopped::stop(tid, true).is_ok() {}
        assert!(!child.wait().expect("its status").success());
        assert!(matches!(Stopped::stop(tid, true), Err(NotStopped::Gone)));
    }

    #[test]
    fn a_stop_by_others_stays() {
        let mut child = busy();
        let tid = child.id() as i32;
        // SAFETY: stops our own child.
        unsafe { libc::kill(tid, libc::SIGSTOP) };
        std::thread::sleep(Duration::from_millis(20));
        assert!(matches!(Stopped::stop(tid, true), Err(NotStopped::Busy)));
        let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).expect("it is there");
        assert_eq!(stat.split(' ').nth(2), Some("T"), "{stat}");
        child.kill().expect("kill it");
        child.wait().expect("its end");
    }
}
