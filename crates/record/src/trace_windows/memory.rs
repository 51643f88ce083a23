//! The memory of a process, read without a trace of that in the process.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use numamma_emulator::{Memory, PAGE, Rights};
use rustc_hash::FxHashMap;

/// Pages that are read at once, at most: the thread that is held waits for it.
const MOST_AT_ONCE: usize = 128;
/// Pages that are read at all: code that is emulated with registers which do not belong together may go anywhere.
const MOST: u32 = 4096;

/// The memory of a process.
#[derive(Debug, Default)]
pub struct Pages {
    pid: i32,
    /// Which of its pages are there.
    pagemap: Option<File>,
    /// Its mappings, once they are needed.
    mappings: Option<Vec<Mapped>>,
    /// Pages that were read for this trace window.
    read: u32,
    /// Those of them that are there.
    there: Vec<u64>,
    /// As they were when the thread was held, by address.
    ahead: FxHashMap<u64, usize>,
    bytes: Vec<u8>,
    /// One of the first was not there: the thread was stopped while the kernel was about to provide it.
    pub absent: bool,
}

/// What a page that is not there would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Memory that begins as zeros, and is the process's alone.
    Zeros,
    /// Code of a file.
    Code,
    /// Anything else: to read it would put it somewhere.
    Other,
}

/// A range of addresses, and what is in it.
type Mapped = (u64, u64, Content);

/// How things are with a page.
enum Presence {
    There,
    Swapped,
    Absent,
}

impl Pages {
    /// Now it is that process's memory.
    pub fn begin(&mut self, pid: i32) {
        let pagemap = File::open(format!("/proc/{pid}/pagemap")).ok();
        let (mut there, mut ahead, bytes) =
            (std::mem::take(&mut self.there), std::mem::take(&mut self.ahead), std::mem::take(&mut self.bytes));
        there.clear();
        ahead.clear();
        *self = Self { pid, pagemap, there, ahead, bytes, ..Self::default() };
    }

    /// The same process, of which what was read so far is read once more, all at once: that is quicker than page by page.
    pub fn begin_again(&mut self) {
        let there = std::mem::take(&mut self.there);
        self.begin(self.pid);
        let most = there.len().min(MOST_AT_ONCE);
        self.bytes.resize(most * PAGE, 0);
        let local = libc::iovec { iov_base: self.bytes.as_mut_ptr().cast(), iov_len: self.bytes.len() };
        let page = |&address: &u64| libc::iovec { iov_base: address as *mut _, iov_len: PAGE };
        let remote: Vec<libc::iovec> = there[..most].iter().map(page).collect();
        // SAFETY: the kernel writes at most as much as is there; the remote side is only read.
        let read = unsafe {
            libc::process_vm_readv(self.pid, &raw const local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0)
        };
        let whole = usize::try_from(read).unwrap_or(0) / PAGE;
        self.ahead.extend(there[..whole].iter().enumerate().map(|(number, &address)| (address, number)));
    }

    /// Asks for a page, without its being provided for that.
    fn presence(&self, address: u64) -> Presence {
        const PRESENT: u64 = 1 << 63;
        const SWAPPED: u64 = 1 << 62;
        let mut entry = [0; 8];
        let at = address / PAGE as u64 * 8;
        let known = self.pagemap.as_ref().is_some_and(|pagemap| pagemap.read_exact_at(&mut entry, at).is_ok());
        match u64::from_ne_bytes(entry) {
            // Who may not ask takes it for granted.
            _ if !known => Presence::There,
            entry if entry & PRESENT != 0 => Presence::There,
            entry if entry & SWAPPED != 0 => Presence::Swapped,
            _ => Presence::Absent,
        }
    }

    fn content(&mut self, address: u64) -> Content {
        let pid = self.pid;
        let mappings = self.mappings.get_or_insert_with(|| {
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            maps.lines().filter_map(mapped).collect()
        });
        let at = mappings.partition_point(|(_, high, _)| *high <= address);
        mappings.get(at).filter(|(low, _, _)| *low <= address).map_or(Content::Other, |(_, _, content)| *content)
    }
}

/// From a line of `maps` (proc(5)).
fn mapped(line: &str) -> Option<Mapped> {
    let mut words = line.split_ascii_whitespace();
    let (low, high) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let inode = words.nth(2)?;
    let content = match (rights.as_bytes().get(2..4)?, inode) {
        ([_, b'p'], "0") => Content::Zeros,
        ([b'x', b'p'], _) => Content::Code,
        _ => Content::Other,
    };
    Some((u64::from_str_radix(low, 16).ok()?, u64::from_str_radix(high, 16).ok()?, content))
}

impl Memory for Pages {
    fn read(&mut self, address: u64, page: &mut [u8; PAGE]) -> Option<Rights> {
        self.read += 1;
        if self.read > MOST {
            return None;
        }
        if let Some(number) = self.ahead.get(&address) {
            page.copy_from_slice(&self.bytes[number * PAGE..][..PAGE]);
            return Some(Rights::ALL);
        }
        match self.presence(address) {
            Presence::There => {}
            Presence::Swapped => return None,
            Presence::Absent => {
                // That of the code, and that of the first access.
                self.absent |= self.read <= 2;
                match self.content(address) {
                    Content::Zeros => {
                        page.fill(0);
                        return Some(Rights::ALL);
                    }
                    Content::Code => {}
                    // What several share would be put on our node, by our first touch instead of the program's.
                    Content::Other => return None,
                }
            }
        }
        let local = libc::iovec { iov_base: page.as_mut_ptr().cast(), iov_len: page.len() };
        let remote = libc::iovec { iov_base: address as *mut _, iov_len: page.len() };
        // SAFETY: the kernel writes at most a page into `page`; the remote side is only read.
        let read = unsafe { libc::process_vm_readv(self.pid, &raw const local, 1, &raw const remote, 1, 0) };
        if read != page.len() as isize {
            return None;
        }
        self.there.push(address);
        // Whoever writes where he must not gets a signal, and that is not what programs do all day.
        Some(Rights::ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_pages_are_told_from_their_mappings() {
        let of = |line: &str| mapped(line).map(|(_, _, content)| content);
        assert_eq!(mapped("7f00-8f00 rw-p 00000000 00:00 0 [heap]"), Some((0x7f00, 0x8f00, Content::Zeros)));
        assert_eq!(of("7f00-8f00 r-xp 00001000 fe:00 12 /bin/a b"), Some(Content::Code));
        assert_eq!(of("7f00-8f00 rw-p 00001000 fe:00 12 /bin/a"), Some(Content::Other));
        assert_eq!(of("7f00-8f00 rw-s 00000000 00:01 7 /dev/zero (deleted)"), Some(Content::Other));
        assert_eq!(of("cut"), None);
    }

    #[test]
    fn reading_provides_no_pages() {
        let length = 16 * PAGE;
        let map = |flags| {
            // SAFETY: new memory, wherever there is room.
            let at =
                unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            at as u64
        };
        let (own, shared) = (map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS), map(libc::MAP_SHARED | libc::MAP_ANONYMOUS));
        let mut pages = Pages::default();
        pages.begin(std::process::id() as i32);
        let mut page = [1; PAGE];
        assert!(pages.read(own, &mut page).is_some() && page == [0; PAGE]);
        assert!(pages.read(shared, &mut page).is_none());
        assert!(pages.absent);
        assert!(matches!(pages.presence(own), Presence::Absent) && matches!(pages.presence(shared), Presence::Absent));
        // SAFETY: memory of this test.
        unsafe { (shared as *mut u8).write_volatile(7) };
        assert!(pages.read(shared, &mut page).is_some() && page[0] == 7);
    }

    #[test]
    fn what_was_read_is_read_again_at_once() {
        let length = 4 * PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, wherever there is room.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let address = |page: usize| at as u64 + (page * PAGE) as u64;
        let set = |page: usize, value: u8| {
            // SAFETY: memory of this test, that is there.
            unsafe { (address(page) as *mut u8).write_volatile(value) };
        };
        let mut pages = Pages::default();
        pages.begin(std::process::id() as i32);
        let mut page = [0; PAGE];
        (0..3).for_each(|n| set(n, 1));
        (0..3).for_each(|n| assert!(pages.read(address(n), &mut page).is_some() && page[0] == 1));
        // What is not there is not read ahead, and the last one cannot be.
        assert!(pages.read(address(3), &mut page).is_some() && page[0] == 0);
        (0..3).for_each(|n| set(n, 2));
        // SAFETY: of this test, and not used from here on.
        assert_eq!(unsafe { libc::mprotect(address(2) as *mut _, PAGE, libc::PROT_NONE) }, 0);
        pages.begin_again();
        assert_eq!(pages.ahead.len(), 2);
        (0..2).for_each(|n| set(n, 3));
        (0..2).for_each(|n| assert!(pages.read(address(n), &mut page).is_some() && page[0] == 2));
        assert!(pages.read(address(2), &mut page).is_none());
    }
}
