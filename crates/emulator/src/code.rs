//! Code as it was decoded: stretches without a branch but the last instruction, kept by where they begin.

use std::io;

use iced_x86::{Decoder, DecoderError, DecoderOptions, Instruction, InstructionInfoFactory};
use rustc_hash::FxHashMap;

use crate::arena::Arena;
use crate::decode::{Decoded, decode};
use crate::features;
use crate::harmless::{Needs, needs, without_stack};
use crate::lanes::Lanes;
use crate::memory::{Memory, PAGE, Space};
use crate::op::{Kind, Op};
use crate::stop::{Fault, Stop};
use crate::stub;

/// No instruction is longer.
const LONGEST: usize = 15;
/// Instructions of a block, at most.
const BLOCK: usize = 64;
const RECENT: usize = 4096;

/// A stretch of code.
pub struct Block {
    pub ops: Box<[Op]>,
    start: u64,
    /// What it was decoded from.
    bytes: Box<[u8]>,
    /// The run in which its bytes were last seen to be the same.
    seen: u64,
}

/// Code that was written for an instruction.
pub struct Stub {
    /// Where in the arena.
    pub at: u32,
    pub needs: Needs,
}

/// All code that was decoded.
pub struct Cache {
    blocks: Vec<Block>,
    by_start: FxHashMap<u64, u32>,
    /// Blocks last entered, by their start's lowest bits.
    recent: Box<[(u64, u32); RECENT]>,
    run: u64,
    stubs: Vec<Stub>,
    by_code: FxHashMap<Box<[u8]>, u32>,
    pub lanes: Vec<Lanes>,
    arena: Arena,
    factory: InstructionInfoFactory,
    options: u32,
    /// Everything that can be is executed natively: how the two ways are compared.
    pub only_native: bool,
}

impl Cache {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            blocks: Vec::new(),
            by_start: FxHashMap::default(),
            recent: Box::new([(u64::MAX, 0); RECENT]),
            run: 0,
            stubs: Vec::new(),
            by_code: FxHashMap::default(),
            lanes: Vec::new(),
            arena: Arena::new()?,
            factory: InstructionInfoFactory::new(),
            options: if features::is_amd() { DecoderOptions::AMD } else { DecoderOptions::NONE },
            only_native: false,
        })
    }

    /// Begins a run: no bytes have been seen yet.
    pub fn begin(&mut self) {
        self.run += 1;
    }

    /// Forgets all code.
    pub fn forget(&mut self) {
        self.blocks.clear();
        self.by_start.clear();
        self.recent.fill((u64::MAX, 0));
        self.stubs.clear();
        self.by_code.clear();
        self.lanes.clear();
        self.arena.clear();
    }

    pub fn block(&self, index: u32) -> &Block {
        &self.blocks[index as usize]
    }

    pub fn stub(&self, index: u32) -> (&Stub, *const u8) {
        let stub = &self.stubs[index as usize];
        (stub, self.arena.entry(stub.at))
    }

    /// The block that begins at `ip`. Its bytes are those that are there.
    #[inline(always)]
    pub fn enter<M: Memory + ?Sized>(&mut self, space: &mut Space, memory: &mut M, ip: u64) -> Result<u32, Stop> {
        let (start, index) = self.recent[(ip ^ ip >> 12) as usize % RECENT];
        if start == ip && self.blocks[index as usize].seen == self.run {
            return Ok(index);
        }
        self.find(space, memory, ip)
    }

    #[inline(never)]
    fn find<M: Memory + ?Sized>(&mut self, space: &mut Space, memory: &mut M, ip: u64) -> Result<u32, Stop> {
        if self.is_full() {
            self.forget();
        }
        let known = self.by_start.get(&ip).copied();
        let index = match known {
            Some(index) if self.is_same(space, memory, index)? => index,
            known => {
                let block = self.decode(space, memory, ip)?;
                match known {
                    Some(index) => {
                        self.blocks[index as usize] = block;
                        index
                    }
                    None => {
                        self.blocks.push(block);
                        self.blocks.len() as u32 - 1
                    }
                }
            }
        };
        self.by_start.insert(ip, index);
        self.blocks[index as usize].seen = self.run;
        self.recent[(ip ^ ip >> 12) as usize % RECENT] = (ip, index);
        Ok(index)
    }

    fn is_same<M: Memory + ?Sized>(&self, space: &mut Space, memory: &mut M, index: u32) -> Result<bool, Stop> {
        let block = &self.blocks[index as usize];
        if block.seen == self.run {
            return Ok(true);
        }
        let offset = block.start as usize % PAGE;
        let here = block.bytes.len().min(PAGE - offset);
        let page = space.code(memory, block.start)?;
        if page[offset..offset + here] != block.bytes[..here] {
            return Ok(false);
        }
        if here == block.bytes.len() {
            return Ok(true);
        }
        let page = space.code(memory, block.start.wrapping_add(here as u64))?;
        Ok(page[..block.bytes.len() - here] == block.bytes[here..])
    }

    /// Decodes to the first branch, the end of the page, or as far as can be read.
    fn decode<M: Memory + ?Sized>(&mut self, space: &mut Space, memory: &mut M, ip: u64) -> Result<Block, Stop> {
        let offset = ip as usize % PAGE;
        let page = space.code(memory, ip)?;
        let mut bytes = page[offset..].to_vec();
        let here = bytes.len();
        let mut ops = Vec::new();
        let mut end = 0;
        while end < here && ops.len() < BLOCK {
            let at = ip.wrapping_add(end as u64);
            let mut window = &bytes[end..bytes.len().min(end + LONGEST)];
            let mut decoder = Decoder::with_ip(64, window, at, self.options);
            let mut instruction = decoder.decode();
            let cut = |decoder: &Decoder<'_>| decoder.last_error() == DecoderError::NoMoreBytes;
            if cut(&decoder) && window.len() < LONGEST {
                // It goes on in the next page, which is touched for no other reason.
                match space.code(memory, ip.wrapping_add(here as u64)) {
                    Ok(next) => bytes.extend_from_slice(&next[..LONGEST]),
                    Err(stop) if ops.is_empty() => return Err(stop),
                    Err(_) => break,
                }
                window = &bytes[end..bytes.len().min(end + LONGEST)];
                decoder = Decoder::with_ip(64, window, at, self.options);
                instruction = decoder.decode();
            }
            if cut(&decoder) {
                // Longer than an instruction may be.
                ops.push(fault(at));
                end += window.len();
                break;
            }
            let op = self.op(&instruction);
            ops.push(op);
            end += instruction.len();
            if op.ends_block() {
                break;
            }
        }
        bytes.truncate(end);
        Ok(Block { ops: ops.into(), start: ip, bytes: bytes.into(), seen: 0 })
    }

    fn op(&mut self, i: &Instruction) -> Op {
        match decode(i) {
            Decoded::Op(op) if self.only_native && !op.ends_block() => self.native(i, op).unwrap_or(op),
            Decoded::Op(op) => op,
            Decoded::Native(op) => {
                let unsupported = Op { kind: Kind::Unsupported, ..op };
                if let Some(lanes) = Lanes::of(i) {
                    self.lanes.push(lanes);
                    return Op { kind: Kind::Lanes, code: self.lanes.len() as u32 - 1, ..op };
                }
                self.native(i, op).unwrap_or(unsupported)
            }
        }
    }

    fn native(&mut self, i: &Instruction, op: Op) -> Option<Op> {
        let (i, stack) = without_stack(i);
        let needs = Needs { stack, ..needs(&i, &mut self.factory)? };
        let code = stub::write(&i, &needs)?;
        if let Some(&index) = self.by_code.get(&*code)
            && self.stubs[index as usize].needs.operand == needs.operand
        {
            return Some(Op { kind: Kind::Native, code: index, ..op });
        }
        let at = self.arena.append(&code)?;
        let index = self.stubs.len() as u32;
        self.stubs.push(Stub { at, needs });
        self.by_code.insert(code.into(), index);
        Some(Op { kind: Kind::Native, code: index, ..op })
    }

    /// True if one more block might be too much.
    fn is_full(&self) -> bool {
        self.arena.is_full() || self.blocks.len() > 1 << 20 || self.lanes.len() > 1 << 20
    }
}

/// An instruction that no processor has.
fn fault(ip: u64) -> Op {
    let invalid = Instruction::default();
    let (Decoded::Op(op) | Decoded::Native(op)) = decode(&invalid);
    Op { ip, next: ip, kind: Kind::Fault(Fault::Instruction), ..op }
}
