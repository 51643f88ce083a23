//! A program that is stopped, looked at and stepped.
// Not all that use it use all of it.
#![allow(dead_code)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use numamma_emulator::{Access, EXTENDED_BYTES, Emulator, Memory, PAGE, Rights, State};

/// Arithmetic flags and the direction.
const FLAGS: u64 = 0xcd5;

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
    maps: &'a Maps,
}

/// What is mapped, and what may be done with it.
pub struct Maps(Vec<(u64, u64, Rights)>);

impl Memory for Pages<'_> {
    fn read(&mut self, address: u64, page: &mut [u8; PAGE]) -> Option<Rights> {
        let &(_, _, rights) = self.maps.0.iter().find(|(from, to, _)| (*from..*to).contains(&address))?;
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
        let memory = File::options().read(true).write(true).open(format!("/proc/{}/mem", child.id()))?;
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

    /// True if a signal waits for it.
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

    /// Its memory, with what was mapped at some time.
    pub fn pages<'a>(&'a self, maps: &'a Maps) -> Pages<'a> {
        Pages { memory: &self.memory, maps }
    }

    /// What is mapped now.
    pub fn maps(&self) -> Maps {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap_or_default();
        let maps = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let (from, to) = words.next()?.split_once('-')?;
            let rights = words.next()?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            let rights = Rights { write: rights.contains('w'), execute: rights.contains('x') };
            Some((number(from)?, number(to)?, rights))
        });
        Maps(maps.collect())
    }

    /// Takes the flag that makes it step out of flags that it has just pushed.
    pub fn clean_pushed_flags(&self, top: u64) {
        let mut byte = [0];
        if self.read(top + 1, &mut byte) {
            let _ = self.memory.write_all_at(&[byte[0] & !1], top + 1);
        }
    }

    /// Makes its registers those of the state, but for the segments.
    pub fn set_state(&self, state: &State) -> io::Result<()> {
        // SAFETY: all zero is a value of this structure of integers.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        ptrace(libc::PTRACE_GETREGS, self.pid(), 0, &raw mut registers as usize)?;
        let r = &mut registers;
        [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
            r.r15,
        ] = state.general;
        (r.rip, r.eflags, r.orig_rax) = (state.ip, state.flags, u64::MAX);
        ptrace(libc::PTRACE_SETREGS, self.pid(), 0, &raw mut registers as usize)?;
        // All of it, whatever the kernel's is: what we have none of stays.
        let mut xsave = vec![0_u8; 1 << 14];
        let mut part = libc::iovec { iov_base: xsave.as_mut_ptr().cast(), iov_len: xsave.len() };
        ptrace(libc::PTRACE_GETREGSET, self.pid(), NT_X86_XSTATE, &raw mut part as usize)?;
        let length = part.iov_len.min(EXTENDED_BYTES);
        let kept = xsave[512] & !0xe7;
        // What the kernel writes for debuggers is no register.
        xsave[..464].copy_from_slice(&state.extended.0[..464]);
        xsave[512..length].copy_from_slice(&state.extended.0[512..length]);
        xsave[512] = xsave[512] & 0xe7 | kept;
        ptrace(libc::PTRACE_SETREGSET, self.pid(), NT_X86_XSTATE, &raw mut part as usize)
    }

    /// Writes its memory, whatever its rights.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, address)
    }

    /// The signal that it was stopped by, which it does not get.
    pub fn take_signal(&mut self) -> i32 {
        std::mem::take(&mut self.pending)
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

/// What differs, if anything does.
pub fn difference(emulated: &State, real: &State) -> Option<String> {
    const NAMES: [&str; 16] =
        ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
    let (e, r) = (emulated, real);
    if e.ip != r.ip {
        return Some(format!("ip {:#x}, really {:#x}", e.ip, r.ip));
    }
    for (n, name) in NAMES.iter().enumerate() {
        if e.general[n] != r.general[n] {
            return Some(format!("{name} {:#x}, really {:#x}", e.general[n], r.general[n]));
        }
    }
    if (e.flags ^ r.flags) & FLAGS != 0 {
        return Some(format!("flags {:#x}, really {:#x}", e.flags & FLAGS, r.flags & FLAGS));
    }
    if (e.fs_base, e.gs_base) != (r.fs_base, r.gs_base) {
        return Some(format!("segment bases {:#x} {:#x}", e.fs_base, e.gs_base));
    }
    let (e, r) = (&e.extended, &r.extended);
    for n in 0..32 {
        if e.vector(n) != r.vector(n) {
            return Some(format!("vector register {n} {:02x?}, really {:02x?}", e.vector(n), r.vector(n)));
        }
    }
    for n in 0..8 {
        if e.mask(n) != r.mask(n) {
            return Some(format!("mask register {n} {:#x}, really {:#x}", e.mask(n), r.mask(n)));
        }
    }
    if e.mxcsr() != r.mxcsr() {
        return Some(format!("mxcsr {:#x}, really {:#x}", e.mxcsr(), r.mxcsr()));
    }
    // Control, status, which registers are in use; not the last instruction and its operand.
    if e.0[..5] != r.0[..5] {
        return Some(format!("x87 state {:02x?}, really {:02x?}", &e.0[..5], &r.0[..5]));
    }
    for n in 0..8 {
        let at = 32 + 16 * n..32 + 16 * n + 10;
        if e.0[at.clone()] != r.0[at.clone()] {
            return Some(format!("st{n} {:02x?}, really {:02x?}", &e.0[at.clone()], &r.0[at]));
        }
    }
    None
}

/// The first difference between what was written and what is there, if any.
pub fn same_memory(emulator: &mut Emulator, traced: &Traced, writes: &[Access]) -> Option<String> {
    for write in writes {
        let (mut ours, mut real) = (vec![0; write.size as usize], vec![0; write.size as usize]);
        if emulator.memory_after(write.address, &mut ours) && traced.read(write.address, &mut real) && ours != real {
            return Some(format!("memory {:#x}: {ours:02x?}, really {real:02x?}", write.address));
        }
    }
    None
}
