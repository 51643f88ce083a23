//! Which data accesses a sample stands for.
//!
//! Cost (time) goes to one access: the one that stalled ("before"), else the next one ("forward").
//! Counts go to all accesses of the sampled basic block, evenly ("spread"): whatever stalled, each pass
//! through the block makes each access once. Of a large block some of the accesses stand for all, in turn ([`chosen`]).

use numamma_trace::Rule;
use rustc_hash::FxHashMap;

use super::choice::chosen;
use super::frame::Frame;
use super::lift::{Code, Effect, Op, Operand};
use super::machine::Machine;
use super::spin::Rounds;

/// Instructions that rule "forward" follows before it gives up.
const FORWARD_LIMIT: usize = 96;

/// Instructions of a block before a sample that are undone, and executed once more: of one that goes on and on the last ones tell.
const MOST_REPLAYED: usize = 512;

/// Indices are smaller; pointers to memory of a position-independent program are not.
const LEAST_POINTER: u64 = 1 << 32;

/// An access that a sample shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Index of its instruction.
    pub op: usize,
    pub operand: Operand,
    /// Run-time address.
    pub addr: u64,
    pub rule: Rule,
    /// Estimated accesses, in samples.
    pub accesses: f32,
}

/// How often each operand of a stretch of code could be recovered: what turns "seen" into "made".
#[derive(Debug, Default)]
pub struct Recovery {
    /// Samples in the block, by its first instruction.
    blocks: Vec<u32>,
    /// By operand: samples that chose it, and those of them that recovered it.
    operands: Vec<[Tried; 2]>,
    /// What samples told of loops that wait, by their first instruction.
    spins: FxHashMap<u32, Rounds>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    chosen: u32,
    recovered: u32,
}

/// Finds the accesses of a sample at instruction `at`. Returns the rule by which the one that carries the cost, the first
/// in `found`, was found; or why there is none.
///
/// `stack`: bytes from the stack pointer on.
pub fn accesses(
    code: &Code,
    recovery: &mut Recovery,
    at: usize,
    (machine, stack): (&Machine, &[u8]),
    found: &mut Vec<Found>,
) -> Rule {
    found.clear();
    // The sample stands behind the `pause` that took the time, or at one that begins.
    if code.ops[at].waits || (code.whole && at > 0 && !code.ops[at].leader && code.ops[at - 1].waits) {
        return Rule::SpinWait;
    }
    if let Some(head) = code.ops[at].spin
        && (code.is_run_time || recovery.spins.entry(head).or_default().waits(code, at, machine))
    {
        return Rule::SpinWait;
    }
    if code.whole && at > 0 && code.ops[at - 1].enters_kernel {
        return Rule::None;
    }
    let blamed = match before(code, at, (machine, stack)) {
        Some(blamed) => blamed,
        None => forward(code, at, machine),
    };
    // The block of what stalled is the block that the thread was in.
    let center = match blamed {
        Ok(Found { op, rule: Rule::Before, .. }) => op,
        _ => at,
    };
    found.extend(blamed);
    if code.whole {
        spread(code, recovery, (at, center), (machine, stack), found);
    }
    blamed.map_or_else(|why| why, |found| found.rule)
}

/// The access of the instruction before, or of a repeated string instruction that was interrupted half-way; `None`: these access nothing,
/// or another one may have come before.
///
/// Where that instruction loads and its address is lost, the next access is no substitute: it would take the time of one that took it.
fn before(code: &Code, at: usize, (machine, stack): (&Machine, &[u8])) -> Option<Result<Found, Rule>> {
    let found = |op: usize, addr, operand| Found { op, operand, addr, rule: Rule::Before, accesses: 0.0 };
    let here = &code.ops[at];
    if here.repeats {
        let operand = here.operands[0]?;
        return machine.address(&operand).map(|addr| Ok(found(at, addr, operand)));
    }
    if !code.whole || at == 0 || here.leader {
        return None;
    }
    let operand = code.ops[at - 1].operands[0]?;
    let mut earlier = *machine;
    earlier.unstep(&code.ops[at - 1]);
    let loaded = || replayed(code, at, (machine, stack)).address(&operand);
    if let Some(addr) = earlier.address(&operand).or_else(loaded) {
        return Some(Ok(found(at - 1, addr, operand)));
    }
    let addr = again(code, at, machine).or_else(|| by_base(&operand, &earlier)).ok_or(Rule::AddressUnknown);
    Some(addr.map(|addr| Found { rule: Rule::Forward, ..found(at - 1, addr, operand) }))
}

/// Registers before the instruction in front of `at`, as far as they can be had by executing its block once more. In
/// `and rbx,rdx; mov rcx,rbx; mov rcx,[rdi+rcx]` what rbx was is lost, but it holds what it became.
fn replayed(code: &Code, at: usize, (machine, stack): (&Machine, &[u8])) -> Machine {
    let (first, _) = code.block(at - 1);
    let first = first.max(at.saturating_sub(MOST_REPLAYED));
    let (mut earlier, mut frame) = (*machine, Frame::new(machine, stack));
    let undone = undone(&code.ops[first..at], &mut earlier, &mut frame);
    for (op, at_sample) in code.ops[first..at - 1].iter().zip(&undone[1..]) {
        frame.step(op, &mut earlier);
        earlier.join(at_sample);
    }
    earlier
}

/// Undoes instructions, the last one first. Returns what is known before each of them.
fn undone(ops: &[Op], machine: &mut Machine, frame: &mut Frame<'_>) -> Vec<Machine> {
    let mut before = Vec::with_capacity(ops.len());
    for op in ops.iter().rev() {
        frame.unstep(op, machine);
        before.push(*machine);
    }
    before.reverse();
    before
}

/// Where the instruction before `at` accesses memory in the next round, if it overwrote what its address was made of:
/// `mov rax,[rdi+8*rax]`. The next access of another instruction says nothing of what took the time: two such loads in a loop would
/// change places.
fn again(code: &Code, at: usize, machine: &Machine) -> Option<u64> {
    let mut machine = *machine;
    let mut n = at;
    for _ in 0..FORWARD_LIMIT {
        let op = code.ops.get(n)?;
        if n == at - 1 {
            return machine.address(&op.operands[0]?);
        }
        n = match op.effect {
            Effect::Jump { to } => code.index(to)?,
            Effect::Branch { condition, to } => match machine.taken(condition) {
                Some(true) => code.index(to)?,
                Some(false) => n + 1,
                None => code.index(to).filter(|_| to <= op.ip)?,
            },
            Effect::Leave => return None,
            _ => {
                machine.step(op);
                n + 1
            }
        };
    }
    None
}

/// Where the array begins whose element was accessed, if the index is lost: the object, and not the page. A factor tells the index
/// from the pointer; else its size does.
fn by_base(operand: &Operand, machine: &Machine) -> Option<u64> {
    let base = machine.address(&Operand { index: None, ..*operand });
    match (operand.index, operand.scale) {
        (None, _) => None,
        (Some(_), 2..) => base,
        (Some(index), _) => {
            let other = machine.address(&Operand { base: Some(index), index: None, ..*operand });
            base.into_iter().chain(other).find(|&addr| addr >= LEAST_POINTER)
        }
    }
}

/// The next access in program order, through branches whose direction the flags tell, or behind which it is the same either way.
/// `Err`: why none was found.
fn forward(code: &Code, at: usize, machine: &Machine) -> Result<Found, Rule> {
    next_access(code, at, *machine, &mut { FORWARD_LIMIT })
}

/// The same within so many instructions more.
fn next_access(code: &Code, mut n: usize, mut machine: Machine, left: &mut usize) -> Result<Found, Rule> {
    while *left > 0 {
        *left -= 1;
        let op = code.ops.get(n).ok_or(Rule::None)?;
        if let Some(operand) = op.operands[0] {
            let addr = machine.address(&operand).ok_or(Rule::AddressUnknown)?;
            return Ok(Found { op: n, operand, addr, rule: Rule::Forward, accesses: 0.0 });
        }
        n = match op.effect {
            Effect::Jump { to } => code.index(to).ok_or(Rule::None)?,
            Effect::Branch { condition, to } => match machine.taken(condition) {
                Some(true) => code.index(to).ok_or(Rule::None)?,
                Some(false) => n + 1,
                // Flags unknown: loops go round far more often than they end.
                None if to <= op.ip => code.index(to).ok_or(Rule::None)?,
                None => {
                    let taken = code.index(to).ok_or(Rule::AddressUnknown)?;
                    let either = |arm, left: &mut usize| next_access(code, arm, machine, left).ok();
                    return match (either(n + 1, left), either(taken, left)) {
                        (Some(one), Some(other)) if (one.op, one.addr) == (other.op, other.addr) => Ok(one),
                        _ => Err(Rule::AddressUnknown),
                    };
                }
            },
            Effect::Leave => return Err(Rule::None),
            _ => {
                machine.step(op);
                n + 1
            }
        };
    }
    Err(Rule::None)
}

/// Adds the accesses of the block of `center`, as far as their addresses can be had from the registers and the frame at `at`.
fn spread(
    code: &Code,
    recovery: &mut Recovery,
    (at, center): (usize, usize),
    (machine, stack): (&Machine, &[u8]),
    found: &mut Vec<Found>,
) {
    let (first, last) = code.block(center);
    let count = code.ops[first..=last].iter().flat_map(|op| op.operands.iter().flatten()).count();
    if count == 0 {
        return;
    }
    recovery.blocks.resize(code.ops.len(), 0);
    recovery.operands.resize(code.ops.len(), Default::default());
    recovery.blocks[first] = recovery.blocks[first].wrapping_add(1);

    let mut done = vec![[false; 2]; last + 1 - first];
    let chosen = chosen(count, recovery.blocks[first]);
    let rows = chosen.iter().filter(|&&is| is).count();
    let mut is_chosen = chosen.into_iter();
    for n in first..=last {
        for slot in (0..2).filter(|&slot| code.ops[n].operands[slot].is_some()) {
            let is_chosen = is_chosen.next().unwrap_or(true);
            recovery.operands[n][slot].chosen += u32::from(is_chosen);
            done[n - first][slot] = !is_chosen;
        }
    }
    // True if all addresses of an instruction are known by now.
    let mut add = |n: usize, machine: &Machine| {
        let mut known = true;
        for (slot, operand) in code.ops[n].operands.iter().enumerate().filter_map(|(slot, o)| Some((slot, (*o)?))) {
            if done[n - first][slot] {
                continue;
            }
            let Some(addr) = machine.address(&operand) else {
                known = false;
                continue;
            };
            done[n - first][slot] = true;
            let tried = &mut recovery.operands[n][slot];
            tried.recovered += 1;
            // Each pass makes the access once; it was recovered in some of the samples that chose it. The ratio is kept
            // within reason while there are few. A row stands for the operands that were not chosen, too.
            let missed = (tried.chosen as f32 / tried.recovered as f32).min(8.0);
            let accesses = missed / rows as f32;
            match found.iter_mut().find(|f| f.op == n && f.operand == operand && f.addr == addr) {
                Some(blamed) => blamed.accesses += accesses,
                None => found.push(Found { op: n, operand, addr, rule: Rule::Spread, accesses }),
            }
        }
        known
    };

    // Backward from the sample, undoing what can be undone.
    let (mut earlier, mut frame) = (*machine, Frame::new(machine, stack));
    let from = first.max(at.saturating_sub(MOST_REPLAYED));
    let until = at.min(last + 1);
    let undone = undone(&code.ops[from.min(until)..until], &mut earlier, &mut frame);
    let mut known = true;
    for n in (from..until).rev() {
        known &= add(n, &undone[n - from]);
    }
    // Once more from the beginning: what was made of other registers, or loaded from the frame, and is overwritten by now.
    if !known {
        for n in from..until {
            earlier.join(&undone[n - from]);
            add(n, &earlier);
            frame.step(&code.ops[n], &mut earlier);
        }
    }
    // Forward to the end of the block.
    if at <= last {
        let (mut later, mut frame) = (*machine, Frame::new(machine, stack));
        for n in at.max(first)..=last {
            add(n, &later);
            frame.step(&code.ops[n], &mut later);
        }
        // Once round a loop of one block: the same accesses, one pass later, for what could not be undone.
        if matches!(code.ops[last].effect, Effect::Branch { to, .. } | Effect::Jump { to } if to == code.ops[first].ip)
        {
            for n in first..at.min(last + 1) {
                add(n, &later);
                frame.step(&code.ops[n], &mut later);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: &[u8], sampled: u64, general: [u64; 16]) -> Vec<Found> {
        let code = Code::decode(bytes, 0x1000, true);
        let mut found = Vec::new();
        let at = code.index(sampled).expect("an instruction begins there");
        let machine = Machine::new(general, 0, 0, None);
        accesses(&code, &mut Recovery::default(), at, (&machine, &[]), &mut found);
        found
    }

    fn registers(set: &[(usize, u64)]) -> [u64; 16] {
        let mut general = [0; 16];
        for &(r, value) in set {
            general[r] = value;
        }
        general
    }

    /// mov rax,[rbx+8*rcx]; add rdx,rax; mov [rdi+8*rcx],rdx; inc rcx; jmp -0x11
    const LOOP: &[u8] =
        &[0x48, 0x8b, 0x04, 0xcb, 0x48, 0x01, 0xc2, 0x48, 0x89, 0x14, 0xcf, 0x48, 0xff, 0xc1, 0xeb, 0xf0];

    #[test]
    fn the_stalled_load_is_the_instruction_before() {
        let found = run(LOOP, 0x1004, registers(&[(3, 0x7000), (1, 2), (7, 0x9000)]));
        assert_eq!((found[0].rule, found[0].addr), (Rule::Before, 0x7010));
        // The store of the same pass: counts, no cost.
        assert_eq!((found[1].rule, found[1].addr), (Rule::Spread, 0x9010));
        assert_eq!(found[0].accesses, 0.5);
        assert_eq!(found[1].accesses, 0.5);
    }

    #[test]
    fn an_increment_behind_the_access_is_undone() {
        // Sampled at the jmp: rcx has been incremented already.
        let found = run(LOOP, 0x100e, registers(&[(3, 0x7000), (1, 3), (7, 0x9000)]));
        let addresses: Vec<u64> = found.iter().filter(|f| f.accesses > 0.0).map(|f| f.addr).collect();
        assert_eq!(addresses, [0x9010, 0x7010]);
    }

    #[test]
    fn a_load_that_overwrites_its_own_base_is_found_forward() {
        // mov rax,[rax]; jmp -5: the pointer chase. The sample stands at the jmp, after the load.
        let found = run(&[0x48, 0x8b, 0x00, 0xeb, 0xfb], 0x1003, registers(&[(0, 0x5000)]));
        assert_eq!((found[0].rule, found[0].addr), (Rule::Forward, 0x5000));
        assert_eq!((found.len(), found[0].accesses), (1, 1.0));
    }

    #[test]
    fn a_load_that_overwrites_its_own_index_is_found_by_its_copy() {
        // mov rdx,rcx; mov edx,[rsi+4*rdx]; add eax,[rdi+4*rcx]; inc rcx; jmp -14: the sample stands at the add, which did not wait.
        let code = [0x48, 0x89, 0xca, 0x8b, 0x14, 0x96, 0x03, 0x04, 0x8f, 0x48, 0xff, 0xc1, 0xeb, 0xf2];
        let found = run(&code, 0x1006, registers(&[(6, 0x7000), (7, 0x9000), (1, 2)]));
        assert_eq!((found[0].op, found[0].rule, found[0].addr), (1, Rule::Before, 0x7008));
    }

    #[test]
    fn a_probe_of_a_hash_table_is_found_by_what_its_index_was_made_of() {
        // and rbx,rdx; mov rcx,rbx; shl rcx,4; mov rcx,[rdi+rcx]; cmp rcx,rsi; mov rax,[r8]; ret: the sample stands at the cmp.
        let code = [
            0x48, 0x21, 0xd3, 0x48, 0x89, 0xd9, 0x48, 0xc1, 0xe1, 0x04, 0x48, 0x8b, 0x0c, 0x0f, 0x48, 0x39, 0xf1, 0x49,
            0x8b, 0x00, 0xc3,
        ];
        let found = run(&code, 0x100e, registers(&[(3, 7), (2, 15), (7, 0x9000), (8, 0x5000)]));
        assert_eq!((found[0].op, found[0].rule, found[0].addr), (3, Rule::Before, 0x9070));
    }

    #[test]
    fn an_index_without_a_factor_is_told_from_the_pointer_by_its_size() {
        // imul rcx,rdx; mov rcx,[rdi+rcx]; cmp rcx,rsi; ret
        let code = [0x48, 0x0f, 0xaf, 0xca, 0x48, 0x8b, 0x0c, 0x0f, 0x48, 0x39, 0xf1, 0xc3];
        let found = run(&code, 0x1008, registers(&[(7, 0x7f00_0000_9000)]));
        assert_eq!((found[0].op, found[0].rule, found[0].addr), (1, Rule::Forward, 0x7f00_0000_9000));
    }

    #[test]
    fn the_next_access_does_not_take_the_time_of_a_load_whose_address_is_lost() {
        // mov rcx,[rcx]; cmp rcx,rsi; mov rax,[r8]; ret: the sample stands at the cmp.
        let code = Code::decode(&[0x48, 0x8b, 0x09, 0x48, 0x39, 0xf1, 0x49, 0x8b, 0x00, 0xc3], 0x1000, true);
        let machine = Machine::new(registers(&[(8, 0x5000)]), 0, 0, None);
        let rule = accesses(&code, &mut Recovery::default(), 1, (&machine, &[]), &mut Vec::new());
        assert_eq!(rule, Rule::AddressUnknown);
    }

    #[test]
    fn of_loads_that_wait_for_each_other_the_object_is_known() {
        // mov eax,[rdi+4*rax]; mov eax,[rsi+4*rax]; jmp -8: either address depends on what the other one loads.
        let code = [0x8b, 0x04, 0x87, 0x8b, 0x04, 0x86, 0xeb, 0xf8];
        let blamed = |at| {
            let found = run(&code, at, registers(&[(6, 0x7000), (7, 0x9000), (0, 5)]));
            (found[0].op, found[0].addr)
        };
        assert_eq!([blamed(0x1003), blamed(0x1006)], [(0, 0x9000), (1, 0x7000)]);
    }

    #[test]
    fn a_branch_target_has_no_before() {
        let found = run(LOOP, 0x1000, registers(&[(3, 0x7000), (1, 2), (7, 0x9000)]));
        assert_eq!((found[0].rule, found[0].addr), (Rule::Forward, 0x7010));
    }

    #[test]
    fn an_interrupted_string_instruction_is_its_own_access() {
        // rep stosb at the sampled address: rdi stands where it has got to.
        let found = run(&[0x90, 0xf3, 0xaa, 0xc3], 0x1001, registers(&[(7, 0x8123), (1, 55)]));
        assert_eq!((found[0].rule, found[0].addr), (Rule::Before, 0x8123));
    }

    /// movzx eax, word [rax + rdx * 2]; nop; nop: what the base register holds behind it is what was loaded.
    #[test]
    fn an_overwritten_base_is_no_address() {
        assert!(run(&[0x0f, 0xb7, 0x04, 0x50, 0x90, 0x90], 0x1004, registers(&[(0, 2), (2, 7)])).is_empty());
    }

    /// Elements are where a vector says; the array is where the base register does.
    #[test]
    fn a_gather_is_of_the_object_at_its_base() {
        let general = registers(&[(0, 0x5000), (6, 0x6000), (7, 0x7000)]);
        let gathers: [(&[u8], u64, i32); 7] = [
            // vgatherdpd ymm0, [rax + xmm1 * 8], ymm2
            (&[0xc4, 0xe2, 0xed, 0x92, 0x04, 0xc8], 0x5000, 1),
            // vpgatherqq zmm0{k1}, [rdi + zmm1 * 8 + 64]
            (&[0x62, 0xf2, 0xfd, 0x49, 0x91, 0x44, 0xcf, 0x08], 0x7040, 1),
            // vpgatherdd zmm3{k2}, [rsi + zmm2 * 4]
            (&[0x62, 0xf2, 0x7d, 0x4a, 0x90, 0x1c, 0x96], 0x6000, 1),
            // vpscatterdd [rsi + zmm2 * 4]{k2}, zmm3
            (&[0x62, 0xf2, 0x7d, 0x4a, 0xa0, 0x1c, 0x96], 0x6000, 2),
            // vmovdqu32 zmm1{k1}{z}, [rax]
            (&[0x62, 0xf1, 0x7e, 0xc9, 0x6f, 0x08], 0x5000, 1),
            // vmaskmovps ymm0, ymm2, [rdi]
            (&[0xc4, 0xe2, 0x6d, 0x2c, 0x07], 0x7000, 1),
            // vpcompressd [rdi]{k1}, zmm0
            (&[0x62, 0xf2, 0x7d, 0x49, 0x8b, 0x07], 0x7000, 2),
        ];
        for (bytes, addr, access) in gathers {
            // Behind it: nop; ret.
            let code = [bytes, &[0x90, 0xc3]].concat();
            let found = run(&code, 0x1000 + bytes.len() as u64, general);
            assert_eq!((found[0].rule, found[0].addr), (Rule::Before, addr), "{bytes:02x?}");
            assert_eq!(found[0].operand.access as i32, access, "{bytes:02x?}");
            let ahead = run(&code, 0x1000, general);
            assert_eq!((ahead[0].rule, ahead[0].addr), (Rule::Forward, addr), "{bytes:02x?}");
        }
        // vpgatherqq zmm0{k1}, [zmm1]: pointers of the program's own; with an array of the file's own.
        let pointers = [0x62, 0xf2, 0xfd, 0x49, 0x91, 0x04, 0x0d, 0, 0, 0, 0, 0x90];
        assert!(run(&pointers, 0x100b, general).is_empty());
        let mut array = pointers;
        array[7..11].copy_from_slice(&0x40_4040_u32.to_le_bytes());
        assert_eq!(run(&array, 0x100b, general)[0].addr, 0x40_4040);
    }

    /// mov rax,[rsi]; test rax,rax; jz +4; lea rax,[rax+rdi] (or what the test says); mov [rbp],rax; ret
    const EITHER_WAY: [u8; 17] =
        [0x48, 0x8b, 0x06, 0x48, 0x85, 0xc0, 0x74, 0x04, 0x48, 0x8d, 0x04, 0x38, 0x48, 0x89, 0x45, 0x00, 0xc3];

    #[test]
    fn what_comes_either_way_is_the_next_access() {
        // The sample stands at the test, and rax is lost to what comes: shr rax, cl in the place of the load.
        let mut code = EITHER_WAY;
        code[..3].copy_from_slice(&[0x48, 0xd3, 0xe8]);
        let found = run(&code, 0x1000, registers(&[(5, 0x9000), (7, 8)]));
        assert_eq!((found[0].rule, found[0].addr), (Rule::Forward, 0x9000));
        // An access in one of the arms alone: mov rax,[rdi] and a nop.
        code[8..12].copy_from_slice(&[0x48, 0x8b, 0x07, 0x90]);
        assert!(run(&code, 0x1000, registers(&[(5, 0x9000), (7, 0x8000)])).is_empty());
    }

    #[test]
    fn a_conditional_move_is_followed_where_the_flags_tell() {
        // cmp rcx,5; cmovl rax,rdi; mov rdx,[rax+rbx*1]; ret
        let code = [0x48, 0x83, 0xf9, 0x05, 0x48, 0x0f, 0x4c, 0xc7, 0x48, 0x8b, 0x14, 0x18, 0xc3];
        for (count, addr) in [(4, 0x7010), (5, 0x5010)] {
            let general = registers(&[(1, count), (0, 0x5000), (7, 0x7000), (3, 0x10)]);
            let found = run(&code, 0x1000, general);
            assert_eq!((found[0].rule, found[0].addr), (Rule::Forward, addr));
        }
    }

    #[test]
    fn an_address_relative_to_the_code_moves_with_it() {
        // add qword ptr [rip+0x2000],1; jmp -10: a counter of a position-independent program.
        let bytes = [0x48, 0x83, 0x05, 0x00, 0x20, 0x00, 0x00, 0x01, 0xeb, 0xf6];
        let code = Code::decode(&bytes, 0x1000, true);
        let machine = Machine::new([0; 16], 0, 0x5555_0000_0000, None);
        let mut found = Vec::new();
        accesses(&code, &mut Recovery::default(), 1, (&machine, &[]), &mut found);
        assert_eq!(found[0].addr, 0x5555_0000_0000 + 0x1008 + 0x2000);
    }

    #[test]
    fn arithmetic_on_the_way_to_the_next_access_is_followed() {
        // xor edx,edx; div rcx; imul rdx,rdx,24; movzx esi,dl; mov rax,[rdi+rdx]
        let code = [0x31, 0xd2, 0x48, 0xf7, 0xf1, 0x48, 0x6b, 0xd2, 0x18, 0x0f, 0xb6, 0xf2, 0x48, 0x8b, 0x04, 0x17];
        let found = run(&code, 0x1000, registers(&[(0, 1003), (1, 10), (2, 77), (7, 0x5000)]));
        assert_eq!((found[0].rule, found[0].addr), (Rule::Forward, 0x5000 + 3 * 24));
    }

    #[test]
    fn what_a_system_call_took_is_no_memory_access() {
        // syscall; cmp rax,-4095; mov rbx,[rdi]
        let code = [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x48, 0x8b, 0x1f];
        assert_eq!(run(&code, 0x1002, registers(&[(7, 0x6000)])), []);
    }

    #[test]
    fn code_without_known_bounds_is_followed_round_its_loop() {
        // Sampled at the `inc`, in code of which nothing else is known.
        let code = Code::decode_round(LOOP, 0x1000, 0x100b);
        let machine = Machine::new(registers(&[(3, 0x7000), (1, 2), (7, 0x9000)]), 0, 0, None);
        let mut found = Vec::new();
        let at = code.index(0x100b).expect("it begins there");
        let rule = accesses(&code, &mut Recovery::default(), at, (&machine, &[]), &mut found);
        assert_eq!((rule, found[0].addr), (Rule::Before, 0x9010));
    }

    #[test]
    fn a_spin_loop_waits_for_another_thread_and_not_for_memory() {
        // pause; mov eax,[rdi]; test eax,eax; je -8
        let code = [0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x74, 0xf8];
        assert_eq!(run(&code, 0x1002, registers(&[(7, 0x6000)])), []);
        // What it waits for has come, or not.
        assert_eq!(run(&code, 0x1004, registers(&[(7, 0x6000), (0, 1)]))[0].addr, 0x6000);
        assert_eq!(run(&code, 0x1004, registers(&[(7, 0x6000)])), []);
    }

    /// mov rax,[rbp-16]; lea rdx,[8*rax]; mov rax,[rbp-8]; add rax,rdx; mov eax,[rax]; add qword [rbp-16],1; jmp -29: unoptimised code. All
    /// that an address was made of is overwritten, but the frame has it.
    const UNOPTIMISED: &[u8] = &[
        0x48, 0x8b, 0x45, 0xf0, 0x48, 0x8d, 0x14, 0xc5, 0, 0, 0, 0, 0x48, 0x8b, 0x45, 0xf8, 0x48, 0x01, 0xd0, 0x8b,
        0x00, 0x48, 0x83, 0x45, 0xf0, 0x01, 0xeb, 0xe4,
    ];

    #[test]
    fn what_the_frame_has_is_loaded_once_more() {
        let code = Code::decode(UNOPTIMISED, 0x1000, true);
        // rsp, rbp and rdx; the index, 5 before the `add` and 6 behind it, and the array.
        let machine = Machine::new(registers(&[(4, 0x7fe0), (5, 0x7ff0), (2, 40)]), 0, 0, None);
        let stack = |index: u64| [index, 0x10_0000].map(u64::to_le_bytes).concat();
        let element = |sampled, index| {
            let mut found = Vec::new();
            let at = code.index(sampled).expect("an instruction begins there");
            accesses(&code, &mut Recovery::default(), at, (&machine, &stack(index)), &mut found);
            found.iter().find(|found| found.operand.bytes == 4).map(|found| found.addr)
        };
        assert_eq!([element(0x1015, 5), element(0x101a, 6)], [Some(0x10_0028); 2]);
        // From before it, and from within what makes the address.
        assert_eq!([element(0x1000, 5), element(0x100c, 5)], [Some(0x10_0028); 2]);
        // The load that is waited for is found by the frame, too.
        let mut found = Vec::new();
        accesses(&code, &mut Recovery::default(), 5, (&machine, &stack(5)), &mut found);
        assert_eq!((found[0].rule, found[0].addr), (Rule::Before, 0x10_0028));
        // Nothing is known of a frame that the sample did not bring.
        let mut found = Vec::new();
        accesses(&code, &mut Recovery::default(), 5, (&machine, &[]), &mut found);
        assert!(found.iter().all(|found| found.operand.bytes == 8), "{found:?}");
    }

    #[test]
    fn an_operand_is_counted_once_though_the_other_is_unknown() {
        // mov rax,[rax]; push qword [rax+8]; xor eax,eax; nop: at the `nop` nothing tells of rax.
        let found = run(&[0x48, 0x8b, 0x00, 0xff, 0x70, 0x08, 0x31, 0xc0, 0x90], 0x1008, registers(&[(4, 0x7ff0)]));
        let pushed: Vec<f32> = found.iter().filter(|found| found.addr == 0x7ff0).map(|found| found.accesses).collect();
        assert_eq!(pushed, [1.0 / 3.0], "{found:?}");
    }

    #[test]
    fn another_functions_frame_tells_nothing() {
        // mov rax,[rbp-8]; mov eax,[rax]; leave; ret: at `ret` rbp is the caller's.
        let code = Code::decode(&[0x48, 0x8b, 0x45, 0xf8, 0x8b, 0x00, 0xc9, 0xc3], 0x1000, true);
        let machine = Machine::new(registers(&[(4, 0x7fe8), (5, 0x8000)]), 0, 0, None);
        let stack: Vec<u8> = (0..32).map(|n| n % 8 * 16).collect();
        let mut found = Vec::new();
        accesses(&code, &mut Recovery::default(), 3, (&machine, &stack), &mut found);
        assert!(found.iter().all(|found| found.op > 1), "{found:?}");
        // Nor does a place that was changed: mov rax,[rbp-8]; xor [rbp-8],rdx; mov rbx,[rbp-8]; mov ecx,[rbx]; nop.
        let code =
            [0x48, 0x8b, 0x45, 0xf8, 0x48, 0x31, 0x55, 0xf8, 0x48, 0x8b, 0x5d, 0xf8, 0x8b, 0x0b, 0x90, 0xeb, 0xef];
        let code = Code::decode(&code, 0x1000, true);
        let machine = Machine::new(registers(&[(4, 0x7fe0), (5, 0x7ff0), (2, 1)]), 0, 0, None);
        // Sampled at its beginning, when the `xor` is still to come.
        accesses(&code, &mut Recovery::default(), 0, (&machine, &stack), &mut found);
        assert!(found.iter().all(|found| found.op != 3), "{found:?}");
    }

    /// `add rax,[rdi+8k]` 300 times, then `add rax,[rsi+8k]` 100 times, and back: one block of an unrolled loop.
    #[test]
    fn a_large_block_has_few_rows_a_sample_and_the_same_shares() {
        let add = |register: u8, k: i32| [&[0x48, 0x03, 0x80 | register][..], &(8 * k).to_le_bytes()].concat();
        let mut bytes: Vec<u8> = (0..300).flat_map(|k| add(7, k)).chain((0..100).flat_map(|k| add(6, k))).collect();
        let back = -(bytes.len() as i32 + 5);
        bytes.push(0xe9);
        bytes.extend(back.to_le_bytes());
        let code = Code::decode(&bytes, 0x1000, true);
        let machine = Machine::new(registers(&[(7, 0x10_0000), (6, 0x20_0000)]), 0, 0, None);
        let (mut recovery, mut found) = (Recovery::default(), Vec::new());
        let (mut in_first, mut all, mut times) = (0.0, 0.0, [0_u32; 400]);
        // Every place is sampled, in no order that has to do with what is chosen.
        for sample in 0..800_usize {
            accesses(&code, &mut recovery, 1 + sample * 7 % 399, (&machine, &[]), &mut found);
            assert!(found.len() <= 1 + super::super::choice::MOST_ROWS, "{}", found.len());
            let weight: f32 = found.iter().map(|found| found.accesses).sum();
            assert!((weight - 1.0).abs() < 1e-5, "a sample counts as one: {weight}");
            all += f64::from(weight);
            in_first += found.iter().filter(|of| of.addr < 0x20_0000).map(|of| f64::from(of.accesses)).sum::<f64>();
            found.iter().filter(|of| of.accesses > 0.0).for_each(|of| times[of.op] += 1);
        }
        assert!((in_first / all - 0.75).abs() < 1e-3, "{in_first} of {all}");
        assert!(times.iter().all(|&times| times == 32), "each operand equally often: {times:?}");
    }

    #[test]
    fn push_and_pop_move_the_stack_pointer_back() {
        // push rbx; nop: sampled after the push.
        let found = run(&[0x53, 0x90], 0x1001, registers(&[(4, 0x7ff0)]));
        assert_eq!((found[0].rule, found[0].addr), (Rule::Before, 0x7ff0));
    }
}
