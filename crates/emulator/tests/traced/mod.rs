//! A program that is stopped, looked at and stepped.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use numamma_emulator::{EXTENDED_BYTES, Memory, PAGE, Rights, State};

const NT_X86_XSTATE: usize = 0x202;

/// A program under ptrace. The thread that started it must do everything with it.
pub struct Traced {
    child: Child,
    memory: File,
    /// A signal that stopped it and is still to be delivered.
    pending: i32,
}

/// The process's memory as of one stop.
pub struct Pages<'a> {
    memory: &'a File,
    maps: Vec<(u64, u64, Rights)>,
}

impl Memory for Pages<'_> {
    fn read(&mut self, address: u64, page: &mut [u8; PAGE]) -> Option<Rights> {
        let &(_, _, rights) = self.maps.iter().find(|(from, to, _)| (*from..*to).contains(&address))?;
        self.memory.read_exact_at(page, address).ok()?;
        Some(rights)
    }
}

fn ptrace(request: libc::c_uint, pid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: `data` is an address of live memory of the size that the request needs, or a number.
    let done = unsafe { libc::ptrace(request, pid, address, data) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Traced {
    /// Starts a program; it stands at its very first instruction.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        // SAFETY: ptrace is a bare system call, which may be made between fork and exec.
        unsafe { command.pre_exec(|| ptrace(libc::PTRACE_TRACEME, 0, 0, 0)) };
        let child = command.spawn()?;
        let memory = File::open(format!("/proc/{}/mem", child.id()))?;
        let mut traced = Self { child, memory, pending: 0 };
        assert!(traced.wait(), "it ends before its first instruction");
        traced.pending = 0;
        Ok(traced)
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits for it to stop; false if it has ended.
    fn wait(&mut self) -> bool {
        let mut status = 0;
        // SAFETY: the status is written to a live integer.
        let pid = unsafe { libc::waitpid(self.pid(), &raw mut status, libc::__WALL) };
        if pid != self.pid() || !libc::WIFSTOPPED(status) {
            return false;
        }
        let signal = libc::WSTOPSIG(status);
        self.pending = if signal == libc::SIGTRAP || signal == libc::SIGSTOP { 0 } else { signal };
        true
    }

    /// Whether a signal waits for it.
    pub fn is_signalled(&self) -> bool {
        self.pending != 0
    }

    /// Lets it go on, and stops it after that time; false if it has ended.
    pub fn go_on(&mut self, time: std::time::Duration) -> bool {
        if ptrace(libc::PTRACE_CONT, self.pid(), 0, self.pending as usize).is_err() {
            return false;
        }
        std::thread::sleep(time);
        // SAFETY: a system call without pointers, to a child that is not reaped yet.
        unsafe { libc::kill(self.pid(), libc::SIGSTOP) };
        self.wait()
    }

    /// Executes one instruction; false if it has ended.
    pub fn step(&mut self) -> bool {
        ptrace(libc::PTRACE_SINGLESTEP, self.pid(), 0, self.pending as usize).is_ok() && self.wait()
    }

    /// Its registers.
    pub fn state(&self) -> io::Result<State> {
        // SAFETY: all zero is a value of this structure of integers.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        ptrace(libc::PTRACE_GETREGS, self.pid(), 0, &raw mut registers as usize)?;
        let mut xsave = [0_u8; EXTENDED_BYTES];
        let mut part = libc::iovec { iov_base: xsave.as_mut_ptr().cast(), iov_len: xsave.len() };
        ptrace(libc::PTRACE_GETREGSET, self.pid(), NT_X86_XSTATE, &raw mut part as usize)?;
        Ok(State::from_ptrace(&registers, &xsave[..part.iov_len]))
    }

    /// Its memory.
    pub fn pages(&self) -> Pages<'_> {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap_or_default();
        let maps = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let (from, to) = words.next()?.split_once('-')?;
            let rights = words.next()?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            let rights = Rights { write: rights.contains('w'), execute: rights.contains('x') };
            Some((number(from)?, number(to)?, rights))
        });
        Pages { memory: &self.memory, maps: maps.collect() }
    }

    pub fn read(&self, address: u64, to: &mut [u8]) -> bool {
        self.memory.read_exact_at(to, address).is_ok()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
