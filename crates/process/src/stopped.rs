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
///
/// What is killed while it is held, or executes another program, may stay traced whatever is asked of the kernel then, and nobody
/// else hears of its end. Only the end of the thread that held it lets go of everything: wherever [`Self::release`] or
/// [`NotStopped::Lost`] says so, that thread must end.
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
    /// It has ended.
    Gone,
    /// It has a signal to take first, is stopped already, or is being debugged.
    Busy,
    /// Nobody knows whether it is traced by now: this thread must end.
    Lost,
    /// This kernel, or this user, may not; or it is about to end.
    Refused(io::Error),
}

impl Stopped {
    /// Stops thread `tid` where it is in user mode.
    ///
    /// # Errors
    /// If it is not to be stopped.
    pub fn stop(tid: i32) -> Result<Self, NotStopped> {
        request(libc::PTRACE_SEIZE, tid, 0, 0).map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => NotStopped::Gone,
            // Who is traced already answers so too; whoever is not permitted learns it from his own child.
            Some(libc::EPERM) if is_traced(tid) => NotStopped::Busy,
            _ => NotStopped::Refused(error),
        })?;
        let mut stopped = Self { tid, signal: 0, bound: PhantomData };
        // It may be about to stop for something else; then it says so.
        let _ = request(libc::PTRACE_INTERRUPT, tid, 0, 0);
        let Some(status) = wait(tid) else { return Err(NotStopped::Lost) };
        if status >> 16 == EVENT_STOP && libc::WSTOPSIG(status) == libc::SIGTRAP {
            return Ok(stopped);
        }
        if status >> 16 == 0 {
            stopped.signal = libc::WSTOPSIG(status);
        }
        Err(if stopped.release() { NotStopped::Busy } else { NotStopped::Lost })
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

    /// Lets it go on. False: it was killed meanwhile, and this thread must end, so that others hear of it.
    #[must_use]
    pub fn release(mut self) -> bool {
        let released = self.detach();
        std::mem::forget(self);
        released
    }

    fn detach(&mut self) -> bool {
        request(libc::PTRACE_DETACH, self.tid, 0, self.signal as usize).is_ok()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.detach();
    }
}

fn request(request: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: `data` is an integer, or the address of memory that the caller has for what the request writes.
    match unsafe { libc::ptrace(request, tid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The status with which `tid` stopped. `None`: it does not, or has ended, which is left for who waits for that.
fn wait(tid: i32) -> Option<i32> {
    let began = Instant::now();
    let mut pause = Duration::from_micros(20);
    loop {
        // SAFETY: zeros are a value; it is only written.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        // SAFETY: looks, and writes to a live struct.
        if unsafe { libc::waitid(libc::P_PID, tid as u32, &raw mut info, options) } < 0 {
            return None;
        }
        // SAFETY: the kernel has filled it in, or left zeros.
        if unsafe { info.si_pid() } != 0 {
            if matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED) {
                return None;
            }
            let mut status = 0;
            // SAFETY: takes what was seen, and writes to a live integer.
            let waited = unsafe { libc::waitpid(tid, &raw mut status, libc::WNOHANG | libc::__WALL) };
            return (waited == tid && libc::WIFSTOPPED(status)).then_some(status);
        }
        match began.elapsed() {
            late if late > PATIENCE => return None,
            early if early < IMPATIENCE => std::thread::yield_now(),
            _ => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(2));
            }
        }
    }
}

/// True if somebody traces it.
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
            let stopped = Stopped::stop(tid).expect("a running shell");
            let registers = stopped.registers().expect("its registers");
            assert_eq!(registers.rip, stopped.registers().expect("its registers").rip);
            stopped.extended(&mut extended).expect("its vectors");
            assert!(stopped.release());
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
        // A thread of its own, whose end lets go.
        let released = std::thread::scope(|scope| {
            let held = scope.spawn(|| {
                let stopped = Stopped::stop(tid).expect("a running shell");
                // SAFETY: kills our own child.
                unsafe { libc::kill(tid, libc::SIGKILL) };
                std::thread::sleep(Duration::from_millis(20));
                stopped.release()
            });
            held.join().expect("no panic")
        });
        assert!(!released);
        assert!(!child.wait().expect("its status").success());
        assert!(matches!(Stopped::stop(tid), Err(NotStopped::Gone)));
    }

    #[test]
    fn a_stop_by_others_stays() {
        let mut child = busy();
        let tid = child.id() as i32;
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).expect("it is there");
            stat.split(' ').nth(2).expect("a state").to_owned()
        };
        let stays = || {
            // It passes through other states on its way back.
            let until = Instant::now() + Duration::from_secs(10);
            while state() != "T" && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            state() == "T"
        };
        // SAFETY: stops our own child.
        unsafe { libc::kill(tid, libc::SIGSTOP) };
        let was = stays();
        let busy = matches!(Stopped::stop(tid), Err(NotStopped::Busy));
        let is = stays();
        child.kill().expect("kill it");
        child.wait().expect("its end");
        assert!(was && busy && is, "{was} {busy} {is}");
    }
}
