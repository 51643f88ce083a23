//! Loops that wait for another thread: nothing that a round does changes what the next one does.
//!
//! ```text
//!   wait: mov eax,[flag]      reads memory, which decides whether it goes on,
//!         test eax,eax        keeps nothing for the next round but perhaps the number of rounds,
//!         jne  done           and stores nothing but a fence, or an exchange that tries to take a lock.
//!         lock or [rsp],0
//!         jmp  wait
//! ```
//!
//! A round of such a loop is a wait if another one follows: a lock that is taken at the first try, and data that is read once,
//! are accesses like any other. A round may have loops in it, as one that adds several flags up. What a round loads at the same address each
//! time, for the next one as well, is no work of the round: if nobody else writes, all rounds are alike.

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use numamma_trace::Access;

use super::lift::{Code, Effect, Leaves, Op};
use super::machine::Machine;

/// Instructions of the longest loop that is looked at.
const MOST: usize = 64;

/// Registers as a mask: general ones, the flags, vectors and masks.
type Mask = u64;
const FLAGS: Mask = 1 << 16;

/// What an instruction does to registers.
#[derive(Clone, Copy, Default)]
struct Uses {
    reads: Mask,
    /// Written, perhaps not always or not as a whole.
    writes: Mask,
    /// Written whole and always.
    kills: Mask,
    loads: bool,
    /// A register goes up or down by a constant.
    counts: Mask,
    /// Compares registers, and changes none.
    compares: bool,
    /// Registers whose value an exchange stores.
    stores: Mask,
    /// Registers of the address, of an instruction that does nothing but load.
    loads_from: Option<Mask>,
}

/// Marks the instructions of such loops with the index of the first one. `bytes` are the code that begins at `start`.
pub fn mark(ops: &mut [Op], bytes: &[u8], start: u64) {
    for tail in 0..ops.len() {
        let (Effect::Jump { to } | Effect::Branch { to, .. }) = ops[tail].effect else { continue };
        if to > ops[tail].ip {
            continue;
        }
        let Ok(head) = ops[..=tail].binary_search_by_key(&to, |op| op.ip) else { continue };
        if tail - head >= MOST {
            continue;
        }
        let members = members(&ops[head..=tail]);
        if waits(&ops[head..=tail], &members, bytes, start) {
            for (op, _) in ops[head..=tail].iter_mut().zip(&members).filter(|(_, member)| **member) {
                op.spin = Some(head as u32);
            }
        }
    }
}

/// Where an instruction of a window goes on inside it.
fn successors(window: &[Op], n: usize) -> [Option<usize>; 2] {
    let index = |to: u64| window.binary_search_by_key(&to, |op| op.ip).ok();
    let next = (n + 1 < window.len()).then_some(n + 1);
    match window[n].effect {
        Effect::Jump { to } => [index(to), None],
        Effect::Branch { to, .. } => [index(to), next],
        Effect::Leave => [next.filter(|_| matches!(window[n].leaves, Leaves::Call(_))), None],
        _ => [next, None],
    }
}

/// The instructions that are on a way from the first of a window to its last.
pub fn members(window: &[Op]) -> Vec<bool> {
    let (mut ahead, mut back) = (vec![false; window.len()], vec![false; window.len()]);
    (ahead[0], back[window.len() - 1]) = (true, true);
    let mut changed = true;
    while changed {
        changed = false;
        for n in 0..window.len() {
            for to in successors(window, n).into_iter().flatten() {
                changed |= ahead[n] && !ahead[to];
                ahead[to] |= ahead[n];
                changed |= back[to] && !back[n];
                back[n] |= back[to];
            }
        }
    }
    ahead.iter().zip(&back).map(|(ahead, back)| *ahead && *back).collect()
}

fn waits(window: &[Op], members: &[bool], bytes: &[u8], start: u64) -> bool {
    let of_loop = || window.iter().zip(members).filter(|(_, member)| **member).map(|(op, _)| op);
    if !members[0] || !members[window.len() - 1] || !of_loop().all(may_wait) {
        return false;
    }
    let pauses = of_loop().any(|op| op.waits);
    if !pauses && !of_loop().any(|op| op.operands[0].is_some()) {
        return false;
    }
    let mut factory = InstructionInfoFactory::new();
    let mut uses = vec![Uses::default(); window.len()];
    for (n, op) in window.iter().enumerate().filter(|(n, _)| members[*n]) {
        let at = (op.ip - start) as usize;
        let Some(bytes) = bytes.get(at..) else { return false };
        let instruction = Decoder::with_ip(64, bytes, op.ip, DecoderOptions::NONE).decode();
        let Some(of) = uses_of(&instruction, &mut factory) else { return false };
        uses[n] = of;
    }
    let may_count = pauses || !has_loops(window, members);
    if !keeps_nothing(window, members, &uses, may_count) {
        return false;
    }
    match loaded(window, members, &uses) {
        Some(exits) => exits || pauses,
        None => false,
    }
}

/// True if an instruction may be in such a loop, as far as can be seen at a glance.
fn may_wait(op: &Op) -> bool {
    let stores = op.operands.iter().flatten().any(|operand| operand.access == Access::Write);
    !stores && !op.repeats && !op.enters_kernel && !matches!(op.effect, Effect::Leave | Effect::Stack { .. })
}

/// True if there are loops in a round.
fn has_loops(window: &[Op], members: &[bool]) -> bool {
    let goes_back = |op: &Op| matches!(op.effect, Effect::Jump { to } | Effect::Branch { to, .. } if to <= op.ip && to > window[0].ip);
    window.iter().zip(members).any(|(op, member)| *member && goes_back(op))
}

/// True if a round leaves nothing in registers for the next one but how many there were, if it `may_count`: an array that is searched again and
/// again, so many times, is no wait.
fn keeps_nothing(window: &[Op], members: &[bool], uses: &[Uses], may_count: bool) -> bool {
    // What is read before it is written, by the usual analysis of liveness.
    let mut live = vec![0; window.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for n in (0..window.len()).rev().filter(|n| members[*n]) {
            let inside = successors(window, n).into_iter().flatten().filter(|to| members[*to]);
            let after = inside.fold(if n + 1 == window.len() { live[0] } else { 0 }, |all, to| all | live[to]);
            let before = uses[n].reads | (after & !uses[n].kills);
            changed |= before != live[n];
            live[n] = before;
        }
    }
    let kept = live[0] & worked_out(window, members, uses);
    if kept != 0 && !may_count {
        return false;
    }
    // A counter is counted and compared, and nothing else.
    uses.iter().all(|of| {
        let touched = (of.reads | of.writes) & kept;
        touched == 0 || (of.counts & touched == touched && !of.loads) || (of.compares && !of.loads)
    }) && kept & FLAGS == 0
}

/// Registers that hold at the end of a round what it has written, but for what it has loaded from where each round does.
fn worked_out(window: &[Op], members: &[bool], uses: &[Uses]) -> Mask {
    let written = uses.iter().fold(0, |all, of| all | of.writes);
    let (mut before, mut changed, mut end) = (vec![0; window.len()], true, 0);
    while changed {
        changed = false;
        for n in (0..window.len()).filter(|n| members[*n]) {
            let of = &uses[n];
            let is_again = of.loads_from.is_some_and(|address| address & written == 0);
            let after = (before[n] & !of.kills) | if is_again { of.writes & !of.kills } else { of.writes };
            if n + 1 == window.len() {
                end = after;
            }
            // The next round begins with what this one leaves, which is judged by itself.
            for to in successors(window, n).into_iter().flatten().filter(|to| members[*to] && *to != 0) {
                changed |= after & !before[to] != 0;
                before[to] |= after;
            }
        }
    }
    // Other ways back to the beginning leave what they have written.
    let goes_back = |n: &usize| members[*n] && *n + 1 < window.len() && successors(window, *n).contains(&Some(0));
    (0..window.len()).filter(goes_back).fold(end, |all, _| all | written)
}

/// True if what is loaded decides if the loop ends; none if an exchange stores what depends on something loaded.
fn loaded(window: &[Op], members: &[bool], uses: &[Uses]) -> Option<bool> {
    let mut before: Vec<Mask> = vec![0; window.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for n in (0..window.len()).filter(|n| members[*n]) {
            let of = &uses[n];
            let depends = of.loads || of.reads & before[n] != 0;
            let after = if depends { before[n] | of.writes } else { before[n] & !of.kills };
            for to in successors(window, n).into_iter().flatten().filter(|to| members[*to]) {
                changed |= after & !before[to] != 0;
                before[to] |= after;
            }
        }
    }
    let mut exits = false;
    for n in (0..window.len()).filter(|n| members[*n]) {
        if uses[n].stores & before[n] != 0 {
            return None;
        }
        if let Effect::Branch { to, .. } = window[n].effect {
            let inside = |at: Option<usize>| at.is_some_and(|at| members[at]);
            let taken = window.binary_search_by_key(&to, |op| op.ip).ok();
            let next = (n + 1 < window.len()).then_some(n + 1);
            exits |= (!inside(taken) || !inside(next)) && before[n] & FLAGS != 0;
        }
    }
    Some(exits)
}

fn bit(register: Register) -> Option<Mask> {
    let full = register.full_register();
    let number = if full.is_gpr64() {
        full.number()
    } else if full.is_zmm() {
        17 + full.number()
    } else if full.is_k() {
        49 + full.number()
    } else {
        return None;
    };
    Some(1 << number)
}

/// What an instruction does; none if it is no part of a loop that waits.
fn uses_of(i: &Instruction, factory: &mut InstructionInfoFactory) -> Option<Uses> {
    use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
    let info = factory.info(i);
    let mut of = Uses::default();
    for used in info.used_registers() {
        if used.register() == Register::RIP || used.register().is_segment_register() {
            continue;
        }
        let bit = bit(used.register())?;
        if matches!(used.access(), Read | CondRead | ReadWrite | ReadCondWrite) {
            of.reads |= bit;
        }
        if matches!(used.access(), Write | CondWrite | ReadWrite | ReadCondWrite) {
            of.writes |= bit;
        }
        let whole = !used.register().is_gpr() || used.register().size() >= 4;
        match used.access() {
            Write if whole => of.kills |= bit,
            // What is written in part keeps the rest, of which only the part is looked at.
            Write => of.kills |= if of.reads & bit == 0 { bit } else { 0 },
            _ => {}
        }
    }
    if i.rflags_read() != 0 {
        of.reads |= FLAGS;
    }
    if i.rflags_modified() != 0 {
        of.writes |= FLAGS;
        of.kills |= FLAGS;
    }
    let mut stores = false;
    for used in info.used_memory() {
        of.loads |= matches!(used.access(), Read | CondRead | ReadWrite | ReadCondWrite);
        stores |= matches!(used.access(), Write | CondWrite | ReadWrite | ReadCondWrite);
    }
    if stores {
        let source = || (i.op1_kind() == OpKind::Register).then(|| bit(i.op1_register())).flatten();
        let is_zero = || i.try_immediate(1).is_ok_and(|value| value == 0);
        match i.mnemonic() {
            // A fence loads nothing that matters.
            Mnemonic::Or | Mnemonic::Add if i.has_lock_prefix() && is_zero() => of.loads = false,
            Mnemonic::Xchg if i.op0_kind() == OpKind::Memory => of.stores = source()?,
            Mnemonic::Cmpxchg if i.has_lock_prefix() => of.stores = source()?,
            Mnemonic::Bts if i.has_lock_prefix() => of.stores = source().unwrap_or(0),
            _ => return None,
        }
    }
    if matches!(i.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd) && of.loads {
        of.loads_from = Some(of.reads);
    }
    let register = |n: u32| (i.op_kind(n) == OpKind::Register).then(|| bit(i.op_register(n))).flatten();
    match i.mnemonic() {
        Mnemonic::Inc | Mnemonic::Dec => of.counts = register(0).unwrap_or(0),
        Mnemonic::Add | Mnemonic::Sub if i.try_immediate(1).is_ok() => of.counts = register(0).unwrap_or(0),
        Mnemonic::Lea if i.memory_index() == Register::None => {
            of.counts = bit(i.memory_base()).unwrap_or(0) & of.writes
        }
        Mnemonic::Cmp | Mnemonic::Test => of.compares = true,
        _ => {}
    }
    Some(of)
}

/// How often rounds of a loop were seen to be followed by another one, and not to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    again: u32,
    last: u32,
}

impl Rounds {
    /// True if a sample at `at` shows a thread that waits. Where registers do not tell, others of this loop's samples do.
    pub fn waits(&mut self, code: &Code, at: usize, machine: &Machine) -> bool {
        let again = goes_round(code, at, machine);
        match again {
            Some(true) => self.again += 1,
            Some(false) => self.last += 1,
            None => {}
        }
        // A round with loops in it may be the only one, and much work.
        again.unwrap_or_else(|| self.again > self.last || (self.again == self.last && !has_loops_at(code, at)))
    }
}

/// True if there are loops in a round of the loop around `at`.
fn has_loops_at(code: &Code, at: usize) -> bool {
    let spin = code.ops[at].spin;
    let Some(head) = spin.map(|head| head as usize) else { return false };
    let round = &code.ops[head..code.ops.len().min(head + MOST)];
    let members: Vec<bool> = round.iter().map(|op| op.spin == spin).collect();
    has_loops(round, &members)
}

/// True if another round follows; none if something is yet to be loaded that decides.
fn goes_round(code: &Code, at: usize, machine: &Machine) -> Option<bool> {
    let spin = code.ops[at].spin;
    let (mut machine, mut n) = (*machine, at);
    for _ in 0..MOST {
        let Some(op) = code.ops.get(n).filter(|op| op.spin == spin) else { return Some(false) };
        if op.operands[0].is_some() {
            return None;
        }
        let (taken, to) = match op.effect {
            Effect::Jump { to } => (true, to),
            Effect::Branch { condition, to } => (machine.taken(condition)?, to),
            _ => (false, 0),
        };
        if taken && to <= op.ip {
            let to = code.index(to);
            // Another turn of a loop in the round says nothing of the next round.
            return match to.filter(|&to| code.ops[to].spin == spin) {
                Some(to) if spin != Some(to as u32) => None,
                to => Some(to.is_some()),
            };
        }
        machine.step(op);
        n = if taken { code.index(to)? } else { n + 1 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instructions of code that are in loops that wait.
    fn marked(bytes: &[u8]) -> Vec<bool> {
        Code::decode(bytes, 0x1000, true).ops.iter().map(|op| op.spin.is_some()).collect()
    }

    fn is_wait(bytes: &[u8]) -> bool {
        marked(bytes).contains(&true)
    }

    #[test]
    fn loops_that_wait() {
        // mov eax,[rdi]; test eax,eax; jne +7; lock or qword [rsp],0; jmp
        let fence = [0x8b, 0x07, 0x85, 0xc0, 0x75, 0x08, 0xf0, 0x48, 0x83, 0x0c, 0x24, 0x00, 0xeb, 0xf2, 0xc3];
        assert_eq!(marked(&fence), [true, true, true, true, true, false]);
        // mov eax,1; xchg [rdi],eax; test eax,eax; jne: a lock that is tried again and again.
        assert!(is_wait(&[0xb8, 1, 0, 0, 0, 0x87, 0x07, 0x85, 0xc0, 0x75, 0xf5]));
        // xor eax,eax; lock cmpxchg [rdi],esi; jne
        assert!(is_wait(&[0x31, 0xc0, 0xf0, 0x0f, 0xb1, 0x37, 0x75, 0xf8]));
        // mov eax,[rdi]; cmp eax,esi; jne: a ticket.
        assert!(is_wait(&[0x8b, 0x07, 0x39, 0xf0, 0x75, 0xfa]));
        // mov rax,[rbp-8]; mov eax,[rax]; test eax,eax; je: not optimised.
        assert!(is_wait(&[0x48, 0x8b, 0x45, 0xf8, 0x8b, 0x00, 0x85, 0xc0, 0x74, 0xf6]));
        // cmp [rdi],esi; jne +8; pause; add rax,1; cmp rax,rdx; jb: so many times at most.
        assert!(is_wait(&[0x39, 0x37, 0x75, 0x0b, 0xf3, 0x90, 0x48, 0x83, 0xc0, 1, 0x48, 0x39, 0xd0, 0x72, 0xf1]));
        // The same without pause.
        assert!(is_wait(&[0x39, 0x37, 0x75, 0x09, 0x48, 0x83, 0xc0, 1, 0x48, 0x39, 0xd0, 0x72, 0xf3]));
    }

    /// cmp esi,1; jle +42; lea rdx,[rip+0x3004]; mov eax,1; xor ecx,ecx; then a turn for each flag: add eax,1; add rdx,64; mov rsi,[rdx-64];
    /// add rcx,rsi; mov esi,[rip+0x2f4c]; cmp esi,eax; jg; after them test rcx,rcx; jne: the next round has their number already.
    const FLAGS_IN_TURN: &[u8] = &[
        0x83, 0xfe, 0x01, 0x7e, 0x2e, 0x48, 0x8d, 0x15, 0x04, 0x30, 0, 0, 0xb8, 1, 0, 0, 0, 0x31, 0xc9, 0x83, 0xc0,
        0x01, 0x48, 0x83, 0xc2, 0x40, 0x48, 0x8b, 0x72, 0xc0, 0x48, 0x01, 0xf1, 0x8b, 0x35, 0x4c, 0x2f, 0, 0, 0x39,
        0xc6, 0x7f, 0xe8, 0x48, 0x85, 0xc9, 0x75, 0xd0, 0xc3, 0xc3, 0xc3, 0xc3,
    ];

    #[test]
    fn a_round_may_look_at_several_flags() {
        let code = Code::decode(FLAGS_IN_TURN, 0x1000, true);
        assert!(code.ops.iter().take(14).all(|op| op.spin == Some(0)), "{:?}", marked(FLAGS_IN_TURN));
        let at = |ip: u64, (rax, rcx, rsi): (u64, u64, u64)| {
            let mut general = [0; 16];
            (general[0], general[1], general[6]) = (rax, rcx, rsi);
            (code.index(ip).expect("an instruction"), Machine::new(general, 0, 0, None))
        };
        // At the comparison behind the last flag, and behind one before it.
        let (index, last_flag) = at(0x1027, (2, 1, 2));
        assert_eq!(goes_round(&code, index, &last_flag), Some(true));
        assert_eq!(goes_round(&code, index, &at(0x1027, (2, 0, 2)).1), Some(false));
        let one_of_many = at(0x1027, (2, 1, 9)).1;
        assert_eq!(goes_round(&code, index, &one_of_many), None);
        // An array that is summed up once is work: nothing has been seen of another round.
        let mut rounds = Rounds::default();
        assert!(!rounds.waits(&code, index, &one_of_many));
        assert!(rounds.waits(&code, index, &last_flag) && rounds.waits(&code, index, &one_of_many));
    }

    #[test]
    fn loops_that_work() {
        // xor eax,eax; cmp [rdi+8*rax],rsi; je +11; inc rax; cmp rax,rdx; jb; dec ecx; jne: an array that is searched again and again.
        let searches = [
            0x31, 0xc0, 0x48, 0x39, 0x34, 0xc7, 0x74, 0x0c, 0x48, 0xff, 0xc0, 0x48, 0x39, 0xd0, 0x72, 0xf3, 0xff, 0xc9,
            0x75, 0xec, 0xc3,
        ];
        assert!(!is_wait(&searches));
        // The same with a sum: xor eax,eax; xor ebx,ebx; add rbx,[rdi+8*rax]; inc rax; cmp rax,rdx; jb; cmp rbx,rsi; je +4; dec ecx; jne.
        let sums = [
            0x31, 0xc0, 0x31, 0xdb, 0x48, 0x03, 0x1c, 0xc7, 0x48, 0xff, 0xc0, 0x48, 0x39, 0xd0, 0x72, 0xf4, 0x48, 0x39,
            0xf3, 0x74, 0x04, 0xff, 0xc9, 0x75, 0xe7, 0xc3,
        ];
        assert!(!is_wait(&sums));
        // mov rax,[rbx]; mov rbx,rax; test rax,rax; jne: a list; the address of what is loaded changes.
        assert!(!is_wait(&[0x48, 0x8b, 0x03, 0x48, 0x89, 0xc3, 0x48, 0x85, 0xc0, 0x75, 0xf5]));
        // mov rax,[rax]; test rax,rax; jne: a list.
        assert!(!is_wait(&[0x48, 0x8b, 0x00, 0x48, 0x85, 0xc0, 0x75, 0xf8]));
        // cmp byte [rax],0; lea rax,[rax+1]; jne: a search.
        assert!(!is_wait(&[0x80, 0x38, 0, 0x48, 0x8d, 0x40, 1, 0x75, 0xf7]));
        // cmp [rdi+8*rax],rsi; je +6; inc rax; jmp: a search by index.
        assert!(!is_wait(&[0x48, 0x39, 0x34, 0xc7, 0x74, 0x05, 0x48, 0xff, 0xc0, 0xeb, 0xf5]));
        // mov rax,[rdi]; add rbx,rax; dec ecx; jne: a sum of what changes.
        assert!(!is_wait(&[0x48, 0x8b, 0x07, 0x48, 0x01, 0xc3, 0xff, 0xc9, 0x75, 0xf6]));
        // mov rax,[rdi]; dec ecx; jne: so many reads.
        assert!(!is_wait(&[0x48, 0x8b, 0x07, 0xff, 0xc9, 0x75, 0xf9]));
        // mov rax,[rdi]; lea rdx,[rax+1]; lock cmpxchg [rdi],rdx; jne: an addition.
        let add = [0x48, 0x8b, 0x07, 0x48, 0x8d, 0x50, 1, 0xf0, 0x48, 0x0f, 0xb1, 0x17, 0x75, 0xf2];
        assert!(!is_wait(&add));
        // mov eax,[rdi]; mov [rsi],eax; test eax,eax; je: it stores.
        assert!(!is_wait(&[0x8b, 0x07, 0x89, 0x06, 0x85, 0xc0, 0x74, 0xf8]));
        // mov eax,[rdi]; call; test eax,eax; je: it calls.
        assert!(!is_wait(&[0x8b, 0x07, 0xe8, 0, 0, 0, 0, 0x85, 0xc0, 0x74, 0xf5]));
        // lock xadd [rdi],eax; test eax,eax; jne: it counts.
        assert!(!is_wait(&[0xf0, 0x0f, 0xc1, 0x07, 0x85, 0xc0, 0x75, 0xf8]));
    }

    #[test]
    fn a_lock_that_is_taken_at_once_is_no_wait() {
        // mov eax,1; xchg [rdi],eax; test eax,eax; jne
        let code = Code::decode(&[0xb8, 1, 0, 0, 0, 0x87, 0x07, 0x85, 0xc0, 0x75, 0xf5, 0xc3], 0x1000, true);
        let machine = |eax: u64| {
            let mut general = [0; 16];
            general[0] = eax;
            Machine::new(general, 0, 0, None)
        };
        assert_eq!([0, 1].map(|eax| goes_round(&code, 2, &machine(eax))), [Some(false), Some(true)]);
        // mov eax,1; xchg [rdi],al; test al,al; jne
        let bytes = Code::decode(&[0xb8, 1, 0, 0, 0, 0x86, 0x07, 0x84, 0xc0, 0x75, 0xf5, 0xc3], 0x1000, true);
        assert_eq!([0x100, 1].map(|eax| goes_round(&bytes, 2, &machine(eax))), [Some(false), Some(true)]);
        let mut rounds = Rounds::default();
        // At the exchange nobody knows yet: it is as the others were.
        assert!(!rounds.waits(&code, 2, &machine(0)) && !rounds.waits(&code, 1, &machine(1)));
        assert!(rounds.waits(&code, 2, &machine(1)) && rounds.waits(&code, 2, &machine(1)));
        assert!(rounds.waits(&code, 1, &machine(1)));
    }
}
