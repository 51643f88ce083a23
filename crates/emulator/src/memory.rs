//! The process's memory as the emulated thread sees it: pages read once, and what the thread wrote since.

use rustc_hash::FxHashMap;

use crate::stop::{Stop, Unsupported};

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// What may be done with a page that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// It may be written.
    pub write: bool,
    /// Code in it may be executed.
    pub execute: bool,
}

impl Rights {
    /// For one who cannot tell: a write or a jump that would fault goes on.
    pub const ALL: Self = Self { write: true, execute: true };
}

/// Gives the process's memory.
pub trait Memory {
    /// Fills the page at `address`, which is a multiple of its size. None: nothing can be read there.
    fn read(&mut self, address: u64, page: &mut [u8; PAGE]) -> Option<Rights>;
}

impl<F: FnMut(u64, &mut [u8; PAGE]) -> Option<Rights>> Memory for F {
    fn read(&mut self, address: u64, page: &mut [u8; PAGE]) -> Option<Rights> {
        self(address, page)
    }
}

#[derive(Clone, Copy)]
struct Known {
    number: u64,
    page: u32,
}

const NOTHING: Known = Known { number: u64::MAX, page: 0 };
const KNOWN: usize = 512;

/// Pages whose memory is kept for the next run: 16 MB.
const KEPT: usize = 4096;

struct Page {
    bytes: [u8; PAGE],
    rights: Rights,
    /// Code in it was executed.
    code: bool,
}

/// The pages of one run.
pub struct Space {
    /// Those from `used` on are left from earlier runs.
    pages: Vec<Page>,
    used: usize,
    by_number: FxHashMap<u64, u32>,
    /// Pages last read, by their numbers' lowest bits.
    reads: Box<[Known; KNOWN]>,
    /// Pages last written: they may be, and no code of theirs was executed.
    writes: Box<[Known; KNOWN]>,
}

impl Space {
    pub fn new() -> Self {
        let nothing = || Box::new([NOTHING; KNOWN]);
        Self { pages: Vec::new(), used: 0, by_number: FxHashMap::default(), reads: nothing(), writes: nothing() }
    }

    /// Forgets all pages.
    pub fn begin(&mut self) {
        self.used = 0;
        if self.pages.len() > KEPT {
            self.pages.truncate(KEPT);
            self.pages.shrink_to_fit();
        }
        self.by_number.clear();
        self.reads.fill(NOTHING);
        self.writes.fill(NOTHING);
    }

    #[cold]
    #[inline(never)]
    fn fetch<M: Memory + ?Sized>(&mut self, memory: &mut M, address: u64) -> Result<u32, Stop> {
        let number = address >> 12;
        if let Some(&page) = self.by_number.get(&number) {
            return Ok(page);
        }
        if self.used == self.pages.len() {
            self.pages.push(Page { bytes: [0; PAGE], rights: Rights::ALL, code: false });
        }
        let page = &mut self.pages[self.used];
        page.rights = memory.read(number << 12, &mut page.bytes).ok_or(Stop::Unreadable(address))?;
        page.code = false;
        let index = self.used as u32;
        self.used += 1;
        self.by_number.insert(number, index);
        Ok(index)
    }

    /// The page of an address that is read.
    #[inline(always)]
    fn readable<M: Memory + ?Sized>(&mut self, memory: &mut M, address: u64) -> Result<usize, Stop> {
        let number = address >> 12;
        let known = &self.reads[number as usize % KNOWN];
        if known.number == number {
            return Ok(known.page as usize);
        }
        let page = self.fetch(memory, address)?;
        self.reads[number as usize % KNOWN] = Known { number, page };
        Ok(page as usize)
    }

    /// The page of an address that is written.
    #[inline(always)]
    fn writable<M: Memory + ?Sized>(&mut self, memory: &mut M, address: u64) -> Result<usize, Stop> {
        let number = address >> 12;
        let known = &self.writes[number as usize % KNOWN];
        if known.number == number {
            return Ok(known.page as usize);
        }
        let page = self.fetch(memory, address)?;
        let there = &self.pages[page as usize];
        if !there.rights.write {
            return Err(Stop::Unwritable(address));
        }
        if there.code {
            return Err(Stop::Unsupported(Unsupported::SelfModifying(address)));
        }
        self.writes[number as usize % KNOWN] = Known { number, page };
        Ok(page as usize)
    }

    /// The bytes of a page of code. From now on it is not written.
    pub fn code<M: Memory + ?Sized>(&mut self, memory: &mut M, address: u64) -> Result<&[u8; PAGE], Stop> {
        let index = self.fetch(memory, address)? as usize;
        let page = &mut self.pages[index];
        if !page.rights.execute {
            return Err(Stop::NotExecutable(address));
        }
        page.code = true;
        let known = &mut self.writes[(address >> 12) as usize % KNOWN];
        if known.number == address >> 12 {
            *known = NOTHING;
        }
        Ok(&page.bytes)
    }

    /// Reads 1, 2, 4 or 8 bytes.
    #[inline(always)]
    pub fn load<M: Memory + ?Sized>(&mut self, memory: &mut M, address: u64, width: u8) -> Result<u64, Stop> {
        let offset = address as usize % PAGE;
        if offset + usize::from(width) > PAGE {
            return self.load_across(memory, address, width);
        }
        let page = self.readable(memory, address)?;
        let bytes = &self.pages[page].bytes[offset..];
        Ok(match width {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_le_bytes(*bytes.first_chunk().expect("checked"))),
            4 => u64::from(u32::from_le_bytes(*bytes.first_chunk().expect("checked"))),
            _ => u64::from_le_bytes(*bytes.first_chunk().expect("checked")),
        })
    }

    #[cold]
    fn load_across<M: Memory + ?Sized>(&mut self, memory: &mut M, address: u64, width: u8) -> Result<u64, Stop> {
        let mut bytes = [0; 8];
        self.copy_in(memory, address, &mut bytes[..usize::from(width)])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes the lowest 1, 2, 4 or 8 bytes of a value.
    #[inline(always)]
    pub fn store<M: Memory + ?Sized>(
        &mut self,
        memory: &mut M,
        address: u64,
        width: u8,
        value: u64,
    ) -> Result<(), Stop> {
        let offset = address as usize % PAGE;
        if offset + usize::from(width) > PAGE {
            return self.store_across(memory, address, width, value);
        }
        let page = self.writable(memory, address)?;
        let bytes = &mut self.pages[page].bytes[offset..];
        match width {
            1 => bytes[0] = value as u8,
            2 => *bytes.first_chunk_mut().expect("checked") = (value as u16).to_le_bytes(),
            4 => *bytes.first_chunk_mut().expect("checked") = (value as u32).to_le_bytes(),
            _ => *bytes.first_chunk_mut().expect("checked") = value.to_le_bytes(),
        }
        Ok(())
    }

    #[cold]
    fn store_across<M: Memory + ?Sized>(
        &mut self,
        memory: &mut M,
        address: u64,
        width: u8,
        value: u64,
    ) -> Result<(), Stop> {
        self.copy_out(memory, address, &value.to_le_bytes()[..usize::from(width)])
    }

    /// Fails unless all of a range may be written; changes nothing.
    #[inline(always)]
    pub fn check_write<M: Memory + ?Sized>(&mut self, memory: &mut M, address: u64, length: usize) -> Result<(), Stop> {
        self.writable(memory, address)?;
        let last = address.wrapping_add(length as u64 - 1);
        if last >> 12 != address >> 12 {
            let mut next = address;
            while next >> 12 != last >> 12 {
                next = (next & !(PAGE as u64 - 1)).wrapping_add(PAGE as u64);
                self.writable(memory, next)?;
            }
        }
        Ok(())
    }

    /// Reads a range.
    #[inline]
    pub fn copy_in<M: Memory + ?Sized>(&mut self, memory: &mut M, address: u64, to: &mut [u8]) -> Result<(), Stop> {
        let offset = address as usize % PAGE;
        if offset + to.len() <= PAGE {
            let page = self.readable(memory, address)?;
            copy(to, &self.pages[page].bytes[offset..offset + to.len()]);
            return Ok(());
        }
        let (mut address, mut rest) = (address, to);
        while !rest.is_empty() {
            let offset = address as usize % PAGE;
            let (now, later) = rest.split_at_mut(rest.len().min(PAGE - offset));
            let page = self.readable(memory, address)?;
            now.copy_from_slice(&self.pages[page].bytes[offset..offset + now.len()]);
            address = address.wrapping_add(now.len() as u64);
            rest = later;
        }
        Ok(())
    }

    /// Writes a range: all of it, or nothing.
    #[inline]
    pub fn copy_out<M: Memory + ?Sized>(&mut self, memory: &mut M, address: u64, from: &[u8]) -> Result<(), Stop> {
        let offset = address as usize % PAGE;
        if offset + from.len() <= PAGE {
            let page = self.writable(memory, address)?;
            copy(&mut self.pages[page].bytes[offset..offset + from.len()], from);
            return Ok(());
        }
        self.check_write(memory, address, from.len())?;
        let (mut address, mut rest) = (address, from);
        while !rest.is_empty() {
            let offset = address as usize % PAGE;
            let (now, later) = rest.split_at(rest.len().min(PAGE - offset));
            let page = self.writable(memory, address)?;
            self.pages[page].bytes[offset..offset + now.len()].copy_from_slice(now);
            address = address.wrapping_add(now.len() as u64);
            rest = later;
        }
        Ok(())
    }
}

/// Copies with a length that the compiler knows where it is one of a vector register: a call would take longer than the copy.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        4 => to[..4].copy_from_slice(&from[..4]),
        8 => to[..8].copy_from_slice(&from[..8]),
        16 => to[..16].copy_from_slice(&from[..16]),
        32 => to[..32].copy_from_slice(&from[..32]),
        64 => to[..64].copy_from_slice(&from[..64]),
        _ => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(address: u64, page: &mut [u8; PAGE]) -> Option<Rights> {
        page.fill((address >> 12) as u8);
        let rights = Rights { write: address != 0x3000, execute: address == 0x5000 };
        (address != 0x2000).then_some(rights)
    }

    #[test]
    fn what_was_written_is_read_also_across_pages() {
        let mut space = Space::new();
        space.begin();
        let memory = &mut pages;
        assert_eq!(space.load(memory, 0x4ffe, 4), Ok(0x0505_0404));
        assert_eq!(space.store(memory, 0x4ffd, 8, 0x0807_0605_0403_0201), Ok(()));
        assert_eq!(space.load(memory, 0x4ffe, 4), Ok(0x0504_0302));
        assert_eq!(space.load(memory, 0x5000, 1), Ok(4));
        space.begin();
        assert_eq!(space.load(memory, 0x5000, 1), Ok(5), "forgotten with the run");
    }

    #[test]
    fn what_is_not_there_stops_before_anything_is_written() {
        let mut space = Space::new();
        space.begin();
        let memory = &mut pages;
        assert_eq!(space.load(memory, 0x1ffe, 4), Err(Stop::Unreadable(0x2000)));
        assert_eq!(space.store(memory, 0x1ffe, 4, 0), Err(Stop::Unreadable(0x2000)));
        assert_eq!(space.load(memory, 0x1ffe, 2), Ok(0x0101));
        assert_eq!(space.store(memory, 0x3008, 4, 0), Err(Stop::Unwritable(0x3008)));
        assert_eq!(space.store(memory, 0x5008, 4, 0), Ok(()));
        assert!(space.code(memory, 0x5000).is_ok());
        let modified = Stop::Unsupported(Unsupported::SelfModifying(0x5008));
        assert_eq!(space.store(memory, 0x5008, 4, 0), Err(modified));
        assert_eq!(space.code(memory, 0x4000).err(), Some(Stop::NotExecutable(0x4000)));
    }
}
