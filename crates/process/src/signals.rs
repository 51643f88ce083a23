//! Signals that reach the recorder.
//!
//! ```text
//!   program runs       Ctrl-C: the terminal sends it to the whole foreground group; the program has its own
//!                      kill, a batch system: sent to the recorder alone, passed on
//!   dataset is written the first that would end us: what takes long is left out, the dataset closed, then we end by it
//!                      the second: the end, at once; what is written by then is readable
//! ```

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static PROGRAM: AtomicI32 = AtomicI32::new(NONE);
static CLOSED: AtomicI32 = AtomicI32::new(0);
static FILE_LIMIT_SURVIVED: AtomicBool = AtomicBool::new(false);
static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
/// A signal that would have ended us while there was no program to pass it on to; 0 for none.
static TO_END: AtomicI32 = AtomicI32::new(0);

const PASSED_ON: [i32; 6] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// No program: it has not begun, or it has ended.
const NONE: i32 = 0;

extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to SA_SIGINFO handlers.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    let program = PROGRAM.load(Ordering::Relaxed);
    if program == NONE {
        if matches!(signal, libc::SIGUSR1 | libc::SIGUSR2) {
            return;
        }
        if TO_END.swap(signal, Ordering::Relaxed) != 0 {
            // SAFETY: async-signal-safe calls; the signal is blocked here, and ends us when the handler returns.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
        return;
    }
    // From the kernel (the terminal): the program has its own. From the program itself: not back to it.
    if code != libc::SI_KERNEL && program > 0 && sender != program {
        // SAFETY: kill is async-signal-safe; the program is our child and not yet waited for.
        unsafe { libc::kill(program, signal) };
    }
}

/// From now on, signals are passed on to the program (once [`set_program`] names it) instead of ending the recorder.
/// Signals that are ignored stay ignored (nohup).
pub fn install() {
    for signal in PASSED_ON {
        // SAFETY: a handler that only uses atomics and kill; the structs are zeroed and filled as sigaction(2) asks.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut old);
            if old.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = pass_on as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// From now on a file beyond the limit on its size (`ulimit -f`) is a failure to write, and not our end.
pub fn survive_file_limit() {
    // SAFETY: ignores a signal; there is no handler.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if before == libc::SIG_DFL {
        FILE_LIMIT_SURVIVED.store(true, Ordering::Relaxed);
    }
}

/// In a process that was forked: a file beyond the limit is what it was before. Async-signal-safe.
pub fn restore_file_limit() {
    if FILE_LIMIT_SURVIVED.load(Ordering::Relaxed) {
        // SAFETY: the default of a signal.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
}

/// True if the terminal at standard error shows lines one after the other: programs that draw on all of it switch that off.
pub fn terminal_takes_lines() -> bool {
    // SAFETY: zeros are a valid termios, which the call fills if there is a terminal.
    unsafe {
        let mut terminal: libc::termios = std::mem::zeroed();
        libc::tcgetattr(libc::STDERR_FILENO, &raw mut terminal) == 0 && terminal.c_lflag & libc::ICANON != 0
    }
}

/// The program that signals go to from now on; it gets one that has come already.
pub fn set_program(pid: i32) {
    PROGRAM.store(pid, Ordering::Relaxed);
    let signal = TO_END.swap(0, Ordering::Relaxed);
    if signal != 0 {
        // SAFETY: the program is our child and not yet waited for.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Ends the program that signals go to, for the sake of the user who said that it must not go on.
pub fn end_program() {
    let program = PROGRAM.load(Ordering::Relaxed);
    if program > 0 {
        // SAFETY: the program is our child and not yet waited for.
        unsafe { libc::kill(program, libc::SIGTERM) };
    }
}

/// The program has ended: signals are for us again.
pub fn program_ended() {
    PROGRAM.store(NONE, Ordering::Relaxed);
}

/// The signal that tells us to end, if one has come since the program ended.
pub fn to_end() -> Option<i32> {
    Some(TO_END.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// The handling of SIGPIPE when we were started. Rust's runtime ignores it before main; the program must get what
/// we got, so it is read before the runtime begins.
pub fn inherited_sigpipe() -> usize {
    if SIGPIPE_IGNORED.load(Ordering::Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL }
}

/// Which of standard input, output and error were closed when we were started. Rust's runtime opens `/dev/null` there, and the
/// program must find them as we did.
pub fn inherited_closed() -> impl Iterator<Item = i32> {
    let closed = CLOSED.load(Ordering::Relaxed);
    (0..3).filter(move |fd| closed >> fd & 1 == 1)
}

extern "C" fn read_inherited() {
    for fd in 0..3 {
        // SAFETY: asks about a descriptor, which need not be open.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
    read_sigpipe();
}

fn read_sigpipe() {
    // SAFETY: asks for the present disposition; runs before main, when nothing else does.
    let ignored = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    };
    SIGPIPE_IGNORED.store(ignored, Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array")]
static READ_INHERITED: extern "C" fn() = read_inherited;

/// Ends this process as the program was ended: by the same signal, without a core file of our own.
pub fn die_by(signal: i32) {
    // SAFETY: plain system calls with valid arguments.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::raise(signal);
    }
}
