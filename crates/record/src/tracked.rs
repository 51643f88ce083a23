//! What the injected library tells: blocks, mappings, threads. Applied in the order of time; which allocation a release is of
//! follows from versions, not from the clock (see the wire header, "Order").

use numamma_trace::{LossKind, MarkerRow};
use numamma_wire::{Api, Event, is_younger};
use rustc_hash::FxHashMap;

use crate::session::Session;
use crate::sites::{Place, SiteKind};
use crate::space::mappings::{InMemory, Mapping, MappingKind};
use crate::space::{Label, Live, LiveObjects};
use crate::tasks::{ProcessId, ThreadId};

/// Flags of mmap. Where neither is set, it was mremap.
const MAP_SHARED: u64 = libc::MAP_SHARED as u64;
const MAP_PRIVATE: u64 = libc::MAP_PRIVATE as u64;

/// A release that may be taken back, by a word about the same address.
#[derive(Debug, Default)]
pub(crate) struct Tentative {
    address: u64,
    objects: Vec<Released>,
    /// Names that ended with them, and their rows if they were touched.
    names: Vec<(u64, Label, Option<i32>)>,
}

impl Tentative {
    /// What of it is to be taken back by a word about that address. Of another one, words in between were lost.
    fn of(self, address: u64) -> Self {
        if self.address == address { self } else { Self::default() }
    }
}

/// An object that was released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Released {
    kind: SiteKind,
    addr: u64,
    object: Live,
    /// Number of the row that it got, if it was touched.
    row: Option<i32>,
    /// Of the object whose pages it had.
    moved_from: Option<i32>,
    /// What was booked of it.
    bytes: u64,
    lived: Option<i64>,
}

/// Objects that ended because another took their place. The release of some may only be late; of the others it was lost.
#[derive(Debug, Default)]
pub(crate) struct Evicted {
    /// Their versions, by address.
    versions: FxHashMap<(ProcessId, u64), Vec<u32>>,
}

impl Evicted {
    fn add(&mut self, process: ProcessId, addr: u64, version: u32) {
        self.versions.entry((process, addr)).or_default().push(version);
    }

    /// Word of a release came. `of_older`: it may be of any that is not younger; else it bears the version of the one it is of.
    fn explain(&mut self, process: ProcessId, addr: u64, version: u32, of_older: bool) {
        let Some(versions) = self.versions.get_mut(&(process, addr)) else { return };
        let exact = versions.iter().position(|&evicted| evicted == version);
        let older = || versions.iter().rposition(|&evicted| of_older && is_younger(version, evicted));
        if let Some(at) = exact.or_else(older) {
            versions.remove(at);
            if versions.is_empty() {
                self.versions.remove(&(process, addr));
            }
        }
    }

    /// How many of them no release has explained.
    pub fn count(&self) -> u64 {
        self.versions.values().map(|versions| versions.len() as u64).sum()
    }
}

impl Session {
    /// Applies an event of the library in thread `tid` of process `pid`.
    pub fn event(&mut self, time: i64, pid: i32, tid: i32, event: &Event) {
        if self.counted(time, pid, tid, event) {
            return;
        }
        // What a thread's table of recent blocks had outstanding is read when it has ended, perhaps with its process, and
        // perhaps with its image: then another may have the same ids.
        match *event {
            Event::Repeat { stack, size, count } => return self.repeated(pid, stack, size, count, time),
            Event::Free { address, tentative: false, version, .. } => return self.freed(pid, address, version, time),
            _ => {}
        }
        let thread = self.thread_of(pid, tid, time);
        let process = self.tasks.process_of(thread);
        // What the thread's last event released is released for good, unless this one takes it back. A call stack is defined
        // before the event that has it.
        let is_definition = matches!(event, Event::Stack { .. });
        let tentative = match self.tentative.is_empty() || is_definition {
            true => Tentative::default(),
            false => self.tentative.remove(&thread).unwrap_or_default(),
        };
        match *event {
            Event::Process { own_allocator, .. } => {
                self.tasks.processes[process].row.tracked = 1;
                if own_allocator {
                    self.losses.add(LossKind::OwnAllocator, 1);
                }
            }
            Event::ThreadStart { main, stack_low, stack_high, tls_low, thread_pointer, .. } => {
                if stack_high != 0 {
                    if !main {
                        self.stack_begins(process, stack_low, stack_high, time);
                    }
                    self.tasks.set_stack(thread, stack_low, stack_high);
                }
                let row = &mut self.tasks.threads[thread].row;
                row.tls_low = tls_low as i64;
                row.tls_high = thread_pointer as i64;
                self.tasks.threads[thread].pointer = Some(thread_pointer);
                self.tasks.threads[thread].tls_since = time;
            }
            Event::Dlclose => self.tasks.processes[process].closed = time,
            Event::ThreadEnd { .. } => {}
            Event::Stack { hash, ref frames, cut } => {
                if !self.stacks.knows(hash) {
                    let places: Vec<Place> = frames
                        .iter()
                        // A return address may be the first of the next function: look one byte before it.
                        .map(|&ip| Place { ip, image: self.place(process, ip.wrapping_sub(1)) })
                        .collect();
                    self.stacks.define(hash, &places, cut);
                }
            }
            Event::Alloc { api, address, size, stack, version, replaces } => {
                let stack = self.stacks.number(process, SiteKind::Heap, stack);
                let object = Live { bytes: size, start: time, stack, thread: thread as i32, version };
                self.allocate(process, address, object, replaces);
                if matches!(api, Api::Realloc | Api::Reallocarray) {
                    self.moved(process, SiteKind::Heap, address, &tentative);
                }
            }
            Event::Free { address, version, .. } => {
                if let Some(released) = self.release(process, address, version, time) {
                    let names = self.names_end(process, address, released.bytes, time);
                    self.tentative.insert(thread, Tentative { address, objects: vec![released], names });
                }
            }
            // Done with, above.
            Event::Repeat { .. }
            | Event::Counting { .. }
            | Event::Accesses { .. }
            | Event::Counted
            | Event::Touch { .. }
            | Event::Unsupported(_)
            | Event::Access(_)
            | Event::AccessMore(_) => {}
            Event::Label { address, bytes, ref name } => {
                let name = String::from_utf8_lossy(name).into_owned();
                let label = Label { bytes, start: time, thread: thread as i32, name, touched: false };
                // What no program maps, a stray pointer may have named.
                if address.checked_add(bytes).is_some() {
                    let gone = self.tasks.processes[process].space.labels.insert(address, label);
                    gone.iter().for_each(|(at, label)| {
                        self.unlabelled(process, *at, label, time);
                    });
                }
            }
            Event::Unlabel { address } => {
                if let Some(label) = self.tasks.processes[process].space.labels.remove(address) {
                    self.unlabelled(process, address, &label, time);
                }
            }
            Event::Phase { ref name } => {
                let name = String::from_utf8_lossy(name).into_owned();
                self.sink.markers.push(MarkerRow { time, thread: thread as i32, name });
            }
            Event::Wanted(wanted) => {
                self.tasks.processes[process].space.wanted = wanted;
                self.marks |= wanted;
            }
            Event::Unfree { address } => self.take_back(process, tentative.of(address)),
            Event::Map { address, length, file_backed, stack, flags, .. } => {
                self.unmap(process, address, length, time);
                let end = address.saturating_add(length);
                // mremap does not know what it maps, and the kernel does not tell: it is what lay where it comes from.
                let is_remap = flags & (MAP_SHARED | MAP_PRIVATE) == 0;
                let moves = is_remap && self.shared_moves(process, tentative.address, (address, end), time);
                if !moves && !file_backed && flags & MAP_SHARED == 0 {
                    self.nothing_shared_at(process, address, end, time);
                }
                self.map(process, thread, address, length, stack, time);
                // A mapping is shared or private, but of mremap that is not told.
                if flags & (libc::MAP_SHARED | libc::MAP_PRIVATE) as u64 == 0 {
                    self.moved(process, SiteKind::Mmap, address, &tentative);
                }
            }
            Event::Unmap { address, length, tentative: may_fail } => {
                let removed = self.unmap(process, address, length, time);
                let names = self.names_end(process, address, length, time);
                if may_fail && !(removed.is_empty() && names.is_empty()) {
                    self.tentative.insert(thread, Tentative { address, objects: removed, names });
                }
            }
            Event::Ununmap { address, .. } => {
                let tentative = tentative.of(address);
                // Pieces that reached beyond the range are part of what is put back.
                for Released { addr, object, .. } in &tentative.objects {
                    let maps = &mut self.tasks.processes[process].space.maps;
                    maps.remove_range(*addr, addr.saturating_add(object.bytes));
                }
                self.take_back(process, tentative);
            }
            Event::Break { old, new, stack } => {
                if new > old {
                    self.map(process, thread, old, new - old, stack, time);
                } else {
                    self.unmap(process, new, old - new, time);
                }
            }
        }
    }

    fn repeated(&mut self, pid: i32, stack: u64, size: u64, count: u64, time: i64) {
        if let Some(process) = self.tasks.at(pid, time) {
            let stack = self.stacks.number(process, SiteKind::Heap, stack);
            self.stacks.repeated(stack, size, count);
        }
    }

    fn freed(&mut self, pid: i32, address: u64, version: u32, time: i64) {
        if let Some(process) = self.tasks.at(pid, time)
            && let Some(released) = self.release(process, address, version, time)
        {
            self.names_end(process, address, released.bytes, time);
        }
    }

    /// Memory is gone, and with it the names of what was in it. Returns them, and their rows.
    fn names_end(&mut self, process: ProcessId, addr: u64, bytes: u64, time: i64) -> Vec<(u64, Label, Option<i32>)> {
        let gone = self.tasks.processes[process].space.labels.remove_range(addr, addr.saturating_add(bytes.max(1)));
        let with_row = |(at, label): (u64, Label)| {
            let row = self.unlabelled(process, at, &label, time);
            (at, label, row)
        };
        gone.into_iter().map(with_row).collect()
    }

    /// Ends the block at `addr`, unless it is younger than the release.
    fn release(&mut self, process: ProcessId, addr: u64, version: u32, time: i64) -> Option<Released> {
        let heap = self.live(process, SiteKind::Heap);
        let Some(object) = heap.remove_if(addr, |live| !is_younger(live.version, version)) else {
            // A late release: what now lies there has ended it.
            let has_successor = self.live(process, SiteKind::Heap).find(addr).is_some();
            self.evicted.explain(process, addr, version, has_successor);
            return None;
        };
        let (kind, bytes, lived) = (SiteKind::Heap, object.bytes, Some(time.saturating_sub(object.start)));
        self.stacks.released(object.stack, bytes, lived);
        let moved_from = self.moved_from(process, kind, addr);
        let row = self.released(process, kind, addr, object, time);
        Some(Released { kind, addr, object, row, moved_from, bytes, lived })
    }

    fn moved_from(&self, process: ProcessId, kind: SiteKind, addr: u64) -> Option<i32> {
        self.moved_from.get(process)?.get(&(kind, addr)).copied()
    }

    /// The thread that made an object has just released another one, perhaps with the same pages: they stayed in place, or moved. The C
    /// libraries move blocks that are mappings of their own, which all begin 16 bytes behind a page's start. A copy in the allocator's
    /// other memory begins there by chance only.
    fn moved(&mut self, process: ProcessId, kind: SiteKind, address: u64, tentative: &Tentative) {
        const HEADER: u64 = 16;
        let [old] = tentative.objects[..] else { return };
        let is_of_mapping = |addr: u64| kind == SiteKind::Mmap || addr % self.page_bytes == HEADER;
        let stayed = old.addr == address;
        let is_moved = stayed || (is_of_mapping(old.addr) && is_of_mapping(address));
        if old.kind != kind || old.addr != tentative.address || old.object.bytes < self.page_bytes || !is_moved {
            return;
        }
        // Of an object without a row nothing is known but whose pages it had.
        if let Some(row) = old.row.or(old.moved_from) {
            self.moved_from.of(process).insert((kind, address), row);
        }
    }

    /// A new heap block. `replaces`: the one before at its address was released, and this is the only word of it.
    fn allocate(&mut self, process: ProcessId, address: u64, object: Live, replaces: bool) {
        self.stacks.allocated(object.stack, object.bytes);
        let mut announced = replaces;
        while let Some((at, old)) = self.live(process, SiteKind::Heap).place(address, object) {
            if at == address && is_younger(old.version, object.version) {
                // It has come and gone on other threads meanwhile.
                self.stacks.released(object.stack, object.bytes, Some(0));
                return;
            }
            let expected = announced && at == address;
            announced &= !expected;
            self.end_unseen(process, SiteKind::Heap, (at, old), object.start, expected);
        }
        if announced {
            // It had lost its place to another before.
            self.evicted.explain(process, address, object.version, true);
        }
    }

    /// The program mapped memory.
    fn map(&mut self, process: ProcessId, thread: ThreadId, address: u64, bytes: u64, hash: u64, time: i64) {
        let stack = self.stacks.number(process, SiteKind::Mmap, hash);
        self.stacks.allocated(stack, bytes);
        for kind in [SiteKind::Mmap, SiteKind::Heap] {
            while let Some(old) = self.live(process, kind).overlap(address, bytes) {
                self.end_unseen(process, kind, old, time, false);
            }
        }
        let object = Live { bytes, start: time, stack, thread: thread as i32, version: 0 };
        self.live(process, SiteKind::Mmap).insert(address, object);
    }

    /// An object ends because another takes its place. Unless that was `expected`, its release was lost, or comes late.
    fn end_unseen(&mut self, process: ProcessId, kind: SiteKind, (at, old): (u64, Live), time: i64, expected: bool) {
        // Of what a forked process inherited, some had been released just before.
        let inherited = old.start < self.tasks.processes[process].row.start_time;
        if !expected && !inherited {
            self.evicted.add(process, at, old.version);
        }
        self.live(process, kind).remove(at);
        self.stacks.released(old.stack, old.bytes, Some(time.saturating_sub(old.start)));
        self.released(process, kind, at, old, time);
        self.names_end(process, at, old.bytes, time);
    }

    fn live(&mut self, process: ProcessId, kind: SiteKind) -> &mut LiveObjects {
        let space = &mut self.tasks.processes[process].space;
        match kind {
            SiteKind::Heap => &mut space.heap,
            SiteKind::Mmap => &mut space.maps,
        }
    }

    /// Releases what the program unmapped; returns it as it was.
    fn unmap(&mut self, process: ProcessId, address: u64, length: u64, time: i64) -> Vec<Released> {
        // The kernel unmaps whole pages. What no kernel does, a stray pointer of the program may have written.
        let end = address.saturating_add(length).checked_next_multiple_of(self.page_bytes).unwrap_or(u64::MAX);
        let kind = SiteKind::Mmap;
        let mut removed = Vec::new();
        for (addr, object) in self.live(process, kind).remove_range(address, end) {
            let memory = self.in_memory.of(process).get(&addr).copied();
            let moved_from = self.moved_from(process, kind, addr);
            let row = self.released(process, kind, addr, object, time);
            let pieces: Vec<(u64, u64)> = [addr, end]
                .into_iter()
                .filter_map(|at| {
                    let (start, piece) = self.tasks.processes[process].space.maps.find(at)?;
                    (start == at).then_some((start, piece.bytes))
                })
                .collect();
            let left: u64 = pieces.iter().map(|(_, bytes)| bytes).sum();
            // What is left of it is the same object still.
            let lived = pieces.is_empty().then_some(time.saturating_sub(object.start));
            let bytes = object.bytes - left.min(object.bytes);
            self.stacks.released(object.stack, bytes, lived);
            removed.push(Released { kind, addr, object, row, moved_from, bytes, lived });
            if row.is_some() {
                self.touched.of(process).extend(pieces.iter().map(|&(start, _)| (kind, start)));
                let piece = |of: InMemory, at: u64| InMemory { offset: of.offset + (at - addr), ..of };
                let in_memory = pieces.iter().filter_map(|&(start, _)| Some((start, piece(memory?, start))));
                self.in_memory.of(process).extend(in_memory);
            }
        }
        removed
    }

    /// What was mapped at `ranges` has been unmapped by someone who told nobody, as the C library does with its own files.
    pub(crate) fn unmapped_unseen(&mut self, process: ProcessId, ranges: &[(u64, u64)], time: i64) {
        if ranges.is_empty() {
            return;
        }
        for &(low, high) in ranges {
            self.unmap(process, low, high - low, time);
            self.end_blocks(process, low, high, time);
            self.names_end(process, low, high - low, time);
        }
        self.mappings_gone(process, ranges, time);
    }

    /// Blocks that reach into `low..high` end.
    fn end_blocks(&mut self, process: ProcessId, low: u64, high: u64, time: i64) {
        while let Some(old) = self.live(process, SiteKind::Heap).overlap(low, high - low) {
            self.end_unseen(process, SiteKind::Heap, old, time, false);
        }
    }

    /// Memory that processes share was moved by mremap, or has another size. False if it was other memory.
    fn shared_moves(&mut self, process: ProcessId, from: u64, (low, high): (u64, u64), time: i64) -> bool {
        let mappings = &mut self.tasks.processes[process].space.mappings;
        let Some((_, mapping)) = mappings.find(from).filter(|(_, mapping)| mapping.memory.is_some()) else {
            return false;
        };
        let (mapping, offset) = (*mapping, mappings.in_memory(from).map_or(0, |of| of.offset));
        let replaced = mappings.insert(low, Mapping { end: high, offset, from: time, ..mapping });
        self.unmapped_unseen(process, &replaced, time);
        true
    }

    /// Memory that is the process's own, and of no file, lies at `low..high`. Where other was mapped, that has been unmapped.
    fn nothing_shared_at(&mut self, process: ProcessId, low: u64, high: u64, time: i64) {
        let path = self.modules.intern("//anon");
        let mappings = &mut self.tasks.processes[process].space.mappings;
        let is_other = |mapping: &Mapping| mapping.is_file() || mapping.memory.is_some();
        let files = mappings.over(low, high).filter(|(_, mapping)| is_other(mapping));
        let pieces: Vec<(u64, Mapping)> =
            files.map(|(at, mapping)| (at.max(low), Mapping { end: mapping.end.min(high), ..*mapping })).collect();
        let mut replaced = Vec::new();
        for (start, old) in pieces {
            let kind = MappingKind::Anonymous;
            let anonymous = Mapping { kind, path, executable: false, offset: 0, from: time, memory: None, ..old };
            replaced.extend(mappings.insert(start, anonymous));
        }
        self.unmapped_unseen(process, &replaced, time);
    }

    /// A thread begins on a stack. What was there is gone, unless it is the memory that the program gave it for a stack.
    fn stack_begins(&mut self, process: ProcessId, low: u64, high: u64, time: i64) {
        let contains = |(at, object): (u64, Live)| at <= low && at.saturating_add(object.bytes) >= high;
        let space = &self.tasks.processes[process].space;
        if high <= low || [&space.heap, &space.maps].iter().any(|of| of.find(low).is_some_and(contains)) {
            return;
        }
        self.nothing_shared_at(process, low, high, time);
        self.unmap(process, low, high - low, time);
        self.end_blocks(process, low, high, time);
        self.names_end(process, low, high - low, time);
    }

    /// Puts back what was released by a call that failed. The rows that the release made are taken out again.
    fn take_back(&mut self, process: ProcessId, tentative: Tentative) {
        for (addr, label, row) in tentative.names {
            row.into_iter().for_each(|row| self.sink.take_back(row));
            self.tasks.processes[process].space.labels.insert(addr, label);
        }
        for Released { kind, addr, object, row, moved_from, bytes, lived } in tentative.objects {
            self.stacks.revived(object.stack, bytes, lived);
            self.live(process, kind).insert(addr, object);
            if let Some(row) = moved_from {
                self.moved_from.of(process).insert((kind, addr), row);
            }
            if let Some(row) = row {
                match kind {
                    SiteKind::Heap => drop(self.touched.of(process).insert((kind, addr))),
                    SiteKind::Mmap => self.note_mapping(process, addr),
                }
                self.sink.take_back(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use numamma_trace::{DatasetWriter, NONE};
    use numamma_wire::Api;

    use super::*;
    use crate::perf::decode::{Record, SharedMemory};
    use crate::sink::Sink;
    use crate::space::Space;

    /// A session in which a process 7 has begun at time 100.
    fn session(dir: &tempfile::TempDir) -> Session {
        let writer = DatasetWriter::create(&dir.path().join("d"), false).expect("a dataset");
        let mut session = Session::new(Sink::new(writer), 1_000_000, 4096);
        session.tasks.start_process(7, 1, Space::default(), String::new(), 100);
        session
    }

    fn alloc(address: u64, version: u32) -> Event {
        Event::Alloc { api: Api::Malloc, address, size: 64, stack: 5, version, replaces: false }
    }

    /// Count and releases of call stack 5, by process.
    fn counted(session: &Session) -> Vec<(ProcessId, u64, u64)> {
        let stacks = session.stacks.stacks.iter().zip(&session.stacks.accounts);
        stacks.map(|(stack, account)| (stack.process, account.count, account.freed)).collect()
    }

    /// Events in between may have been lost: what was released meanwhile is not what is taken back.
    #[test]
    fn only_what_failed_is_taken_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut session = session(&dir);
        for (address, taken_back, freed) in [(0x1000, 0x1000, 0), (0x2000, 0x3000, 1)] {
            session.event(110, 7, 7, &alloc(address, 1));
            session.event(120, 7, 7, &Event::Free { api: Api::Realloc, address, tentative: true, version: 2 });
            session.event(130, 7, 7, &Event::Unfree { address: taken_back });
            assert_eq!(counted(&session)[0].2, freed, "{address:x} {taken_back:x}");
        }
        let map = |address| Event::Map {
            address,
            length: 4096,
            prot: 3,
            file_backed: false,
            stack: 6,
            offset: 0,
            flags: 0x22,
        };
        for (address, taken_back, freed) in [(0x10_0000, 0x10_0000, 0), (0x20_0000, 0x30_0000, 1)] {
            session.event(140, 7, 7, &map(address));
            session.event(150, 7, 7, &Event::Unmap { address, length: 4096, tentative: true });
            session.event(160, 7, 7, &Event::Ununmap { address: taken_back, length: 4096 });
            assert_eq!(counted(&session)[1].2, freed, "{address:x} {taken_back:x}");
        }
    }

    /// Where each object of the first process lies in memory that processes share: numbers, offsets, and bytes.
    fn shared(session: &mut Session) -> Vec<(i32, i64, i64)> {
        let mut rows = session.present_objects(0, 1000);
        rows.extend(session.sink.objects.clone());
        rows.sort_by_key(|row| (row.start_time, row.addr));
        rows.iter().map(|row| (row.shared, row.shared_offset, row.bytes)).collect()
    }

    fn maps(session: &mut Session, time: i64, address: u64, memory: Option<u64>) {
        let (len, offset, path) = (0x8000, 0x3000, "/dev/zero (deleted)".to_owned());
        let shared = memory.map(|inode| SharedMemory { device: (0, 1), inode, generation: 0 });
        session.record(Record::Map { time, pid: 7, start: address, len, offset, prot: 3, path, shared });
        let flags = if memory.is_some() { MAP_SHARED } else { MAP_PRIVATE };
        let map = Event::Map { address, length: len, prot: 3, file_backed: false, stack: 6, offset, flags };
        session.event(time + 1, 7, 7, &map);
        session.touch(0, 0, address + 0x4000, time + 2);
    }

    /// Also of what is left of a mapping, and of one that has moved; not of what is mapped there afterwards.
    #[test]
    fn an_object_says_where_it_lies_in_shared_memory() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut session = session(&dir);
        maps(&mut session, 110, 0x10_0000, Some(99));
        assert_eq!(shared(&mut session), [(0, 0x3000, 0x8000)]);
        session.event(120, 7, 7, &Event::Unmap { address: 0x10_0000, length: 0x2000, tentative: true });
        assert_eq!(shared(&mut session), [(0, 0x3000, 0x8000), (0, 0x5000, 0x6000)]);
        session.event(130, 7, 7, &Event::Unmap { address: 0x10_2000, length: 0x6000, tentative: true });
        session.event(131, 7, 7, &Event::Stack { hash: 8, frames: Vec::new(), cut: false });
        let (address, length, flags) = (0x20_0000, 0xa000, libc::MAP_ANONYMOUS as u64);
        session.event(
            132,
            7,
            7,
            &Event::Map { address, length, prot: 0, file_backed: false, stack: 8, offset: 0, flags },
        );
        session.touch(0, 0, address, 133);
        assert_eq!(shared(&mut session)[2..], [(0, 0x5000, 0xa000)]);
        maps(&mut session, 140, 0x20_0000, None);
        maps(&mut session, 150, 0x30_0000, Some(98));
        assert_eq!(shared(&mut session)[3..], [(0, 0xd000, 0x2000), (NONE, 0, 0x8000), (1, 0x3000, 0x8000)]);
    }

    /// What a stray pointer of the program may have written.
    #[test]
    fn no_number_is_too_large() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut session = session(&dir);
        for (address, size) in [(u64::MAX, u64::MAX), (u64::MAX - 100, 50), (1, u64::MAX), (0, u64::MAX)] {
            let (api, stack, length) = (Api::Malloc, 5, size);
            for version in 1..4 {
                session.event(i64::MAX, 7, 7, &Event::Alloc { api, address, size, stack, version, replaces: false });
            }
            let (prot, file_backed, offset, flags) = (3, false, 0, 0x22);
            for _ in 0..3 {
                session.event(i64::MIN, 7, 7, &Event::Map { address, length, prot, file_backed, stack, offset, flags });
                session.event(i64::MAX, 7, 7, &Event::Unmap { address, length, tentative: true });
                session.event(i64::MAX, 7, 7, &Event::Ununmap { address, length });
                session.event(i64::MAX, 7, 7, &Event::Free { api, address, tentative: true, version: 9 });
                session.event(i64::MAX, 7, 7, &Event::Unfree { address });
                session.event(i64::MAX, 7, 7, &Event::Repeat { stack, size, count: u64::MAX });
                session.event(i64::MAX, 7, 7, &Event::Break { old: address, new: size, stack });
            }
        }
    }

    /// A thread's table of recent blocks is read when the thread is gone; with exec, its ids live on.
    #[test]
    fn what_an_old_image_had_outstanding_is_not_the_new_ones() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut session = session(&dir);
        session.event(110, 7, 7, &alloc(0x1000, 1));
        session.tasks.end_process(7, 200);
        session.tasks.start_process(7, 1, Space::default(), String::new(), 200);
        session.event(210, 7, 7, &alloc(0x1000, 1));
        session.event(110, 7, 7, &Event::Repeat { stack: 5, size: 64, count: 3 });
        session.event(110, 7, 7, &Event::Free { api: Api::Malloc, address: 0x1000, tentative: false, version: 1 });
        assert_eq!(counted(&session), [(0, 4, 4), (1, 1, 0)]);
        // Of whom nothing is known any more.
        session.event(90, 7, 7, &Event::Repeat { stack: 5, size: 64, count: 3 });
        assert_eq!(counted(&session), [(0, 4, 4), (1, 1, 0)]);
    }
}
