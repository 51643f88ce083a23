//! Decoded code, found by address: whole functions of files, or a window of code that is in no file (JIT, vdso).

use std::cell::RefCell;
use std::rc::Rc;

use numamma_trace::Access;
use rustc_hash::FxHashMap;

use super::counts::{Factors, Learnt};
use super::lift::{Code, Op};
use super::rules::Recovery;
use super::run_time;
use crate::modules::{ModuleStore, VDSO};
use crate::space::mappings::PathId;

/// Functions longer than this are decoded in a window (generated tables, bad symbols).
const MAX_FUNCTION: u64 = 1 << 20;
/// Bytes of code read where nothing is known of it.
const WINDOW: usize = 256;
/// Bytes before it that are read as well.
const BEFORE: u64 = 512;

/// A function of a file: the file and the function's address there.
pub type Function = (PathId, u64);

/// A stretch of code with what has been learnt of it.
#[derive(Debug)]
pub struct Unit {
    code: Code,
    recovery: Recovery,
    learnt: Learnt,
}

impl Unit {
    fn new(code: Code) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { code, recovery: Recovery::default(), learnt: Learnt::default() }))
    }

    /// True for a function of a run time of OpenMP that loops which wait may call in each round.
    pub fn is_a_question(&self) -> bool {
        self.code.is_run_time && run_time::is_a_question(&self.code)
    }

    /// The code, the account of its operands, and what has been learnt of it.
    pub fn parts(&mut self) -> (&Code, &mut Recovery, &mut Learnt) {
        (&self.code, &mut self.recovery, &mut self.learnt)
    }
}

/// Where a sample stands.
#[derive(Debug)]
pub struct Located {
    pub unit: Rc<RefCell<Unit>>,
    /// Index of the sampled instruction in the unit's code.
    pub index: usize,
    /// Run-time address of code minus its address in the unit.
    pub bias: u64,
}

/// What holds an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSite {
    pub function: Function,
    /// Which of its instructions it is.
    pub index: Option<usize>,
    /// The innermost loop that this is in.
    pub innermost: Option<usize>,
}

/// Code from memory, with the bytes that it was.
type Window = (Vec<u8>, Rc<RefCell<Unit>>);

/// All code that was sampled.
#[derive(Debug, Default)]
pub struct CodeCache {
    functions: FxHashMap<Function, Rc<RefCell<Unit>>>,
    /// Windows in files, by sampled address: code of no known function.
    file_windows: FxHashMap<(PathId, u64), Rc<RefCell<Unit>>>,
    /// Windows in memory, by process and sampled address, with the bytes they were made from: such code changes.
    memory_windows: FxHashMap<(i32, u64), Window>,
    /// What such code was before it changed.
    former: Vec<Rc<RefCell<Unit>>>,
}

impl CodeCache {
    /// The code round `ip` of process `pid`; `place` is the file and the address in it, if there is one. `None` if the
    /// bytes cannot be read or no instruction of the function begins there.
    pub fn locate(
        &mut self,
        modules: &mut ModuleStore,
        pid: i32,
        ip: u64,
        place: Option<(PathId, u64)>,
    ) -> Option<Located> {
        if let Some((path, vaddr)) = place
            && let Some(located) = self.in_file(modules, path, vaddr, ip.wrapping_sub(vaddr))
        {
            return Some(located);
        }
        self.in_memory(pid, ip)
    }

    /// The first instruction of the loop that waits and that makes the call before an address, as an address of the file.
    pub fn waiting_loop(&mut self, modules: &mut ModuleStore, (path, back): (PathId, u64)) -> Option<u64> {
        let located = self.in_file(modules, path, back, 0)?;
        let code = &located.unit.borrow().code;
        code.ops[located.index.checked_sub(1)?].spin.map(|head| code.ops[head as usize].ip)
    }

    /// What the instruction at `ip` does to memory; writing, if it does both. Its function is not decoded: most pages are
    /// touched first by code that no sample is in.
    pub fn access(&mut self, modules: &mut ModuleStore, pid: i32, ip: u64, place: Option<(PathId, u64)>) -> Access {
        /// No instruction is longer.
        const LONGEST: usize = 15;
        if let Some((path, vaddr)) = place
            && let Some(module) = modules.get(path)
            && let Some(bytes) = module.text_at(vaddr, LONGEST)
        {
            return Code::decode(bytes, vaddr, false).ops.first().map_or(Access::Unknown, access);
        }
        self.in_memory(pid, ip)
            .map_or(Access::Unknown, |located| access(&located.unit.borrow().code.ops[located.index]))
    }

    /// What holds an address of a file; `None` if the bounds of its function are not known.
    pub fn site(&mut self, modules: &mut ModuleStore, (path, vaddr): (PathId, u64)) -> Option<CodeSite> {
        let bounds = modules.get(path)?.function_bounds(vaddr).filter(|f| f.end - f.start <= MAX_FUNCTION)?;
        let unit = self.unit(modules, path, bounds.start, bounds.end)?;
        let mut unit = unit.borrow_mut();
        let (code, _, learnt) = unit.parts();
        let index = code.index(vaddr);
        let innermost = index.and_then(|index| learnt.innermost_loop(code, index));
        Some(CodeSite { function: (path, bounds.start), index, innermost })
    }

    /// What turns the weights of samples' rows into counts of accesses. `period`: nanoseconds of the program's
    /// that a sample stands for.
    pub fn factors(&self, period: i64) -> Factors {
        let windows = self.memory_windows.values().map(|(_, unit)| unit);
        let others = self.file_windows.values().chain(windows).chain(&self.former).map(|unit| (None, unit));
        let functions = self.functions.iter().map(|(function, unit)| (Some(*function), unit));
        let units: Vec<_> = functions.chain(others).map(|(function, unit)| (function, unit.borrow())).collect();
        Factors::find(units.iter().map(|(function, unit)| (*function, &unit.code, &unit.learnt)), period as f64)
    }

    fn unit(&mut self, modules: &mut ModuleStore, path: PathId, start: u64, end: u64) -> Option<Rc<RefCell<Unit>>> {
        if let Some(unit) = self.functions.get(&(path, start)) {
            return Some(unit.clone());
        }
        let module = modules.get(path)?;
        let bytes = module.text_at(start, (end - start) as usize)?;
        let mut code = Code::decode(bytes, start, true);
        if run_time::is_run_time(modules.path(path)) {
            run_time::mark(&mut code);
        }
        if modules.path(path) == VDSO {
            // The clock reads its data again while the kernel writes it, which it hardly ever does.
            code.ops.iter_mut().for_each(|op| op.spin = None);
        }
        let unit = Unit::new(code);
        self.functions.insert((path, start), unit.clone());
        Some(unit)
    }

    fn in_file(&mut self, modules: &mut ModuleStore, path: PathId, vaddr: u64, bias: u64) -> Option<Located> {
        if let Some(bounds) = modules.get(path)?.function_bounds(vaddr).filter(|f| f.end - f.start <= MAX_FUNCTION) {
            let unit = self.unit(modules, path, bounds.start, bounds.end)?;
            let index = unit.borrow().code.index(vaddr);
            // Data between instructions can put the decoder out of step; the window begins at a true boundary.
            if let Some(index) = index {
                return Some(Located { unit, index, bias });
            }
        }
        let unit = match self.file_windows.get(&(path, vaddr)) {
            Some(unit) => unit.clone(),
            None => {
                let unit = {
                    let module = modules.get(path)?;
                    Unit::new(Code::decode(module.text_at(vaddr, WINDOW)?, vaddr, false))
                };
                self.file_windows.insert((path, vaddr), unit.clone());
                unit
            }
        };
        let index = unit.borrow().code.index(vaddr)?;
        Some(Located { unit, index, bias })
    }

    fn in_memory(&mut self, pid: i32, ip: u64) -> Option<Located> {
        if !self.memory_windows.contains_key(&(pid, ip)) {
            self.save(pid, ip);
        }
        let (_, unit) = self.memory_windows.get(&(pid, ip))?;
        let index = unit.borrow().code.index(ip)?;
        Some(Located { unit: unit.clone(), index, bias: 0 })
    }

    /// Reads and decodes the code round `ip` in the memory of process `pid`, if it is not known as it is now.
    pub fn save(&mut self, pid: i32, ip: u64) {
        // Some of what lies before, if it is mapped: a loop's head may be there.
        let read = |start: u64| {
            let before = (ip - start) as usize;
            Some((start, read_memory(pid, start, before + WINDOW, before + 1)?))
        };
        let Some((start, bytes)) = read(ip.saturating_sub(BEFORE)).or_else(|| read(ip)) else { return };
        if self.memory_windows.get(&(pid, ip)).is_none_or(|(old, _)| *old != bytes) {
            let unit = Unit::new(Code::decode_round(&bytes, start, ip));
            let former = self.memory_windows.insert((pid, ip), (bytes, unit));
            self.former.extend(former.map(|(_, unit)| unit));
        }
    }
}

fn access(op: &Op) -> Access {
    let mut operands = op.operands.iter().flatten();
    match operands.clone().next() {
        None => Access::Unknown,
        Some(_) if operands.all(|operand| operand.access == Access::Read) => Access::Read,
        Some(_) => Access::Write,
    }
}

/// Up to `len` bytes of another process's memory; fewer, but `least`, at the end of a mapping.
fn read_memory(pid: i32, addr: u64, len: usize, least: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0_u8; len];
    let read = |len: usize, bytes: &mut [u8]| {
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
        let remote = libc::iovec { iov_base: addr as *mut _, iov_len: len };
        // SAFETY: the kernel writes at most `len` bytes into `bytes`, which is that long; the remote side is only read.
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) }
    };
    let mut got = read(len, &mut bytes);
    let page_rest = 4096 - (addr & 4095) as usize;
    if got < 0 && page_rest < len {
        got = read(page_rest, &mut bytes);
    }
    let got = usize::try_from(got).ok().filter(|&n| n >= least)?;
    bytes.truncate(got);
    Some(bytes)
}
