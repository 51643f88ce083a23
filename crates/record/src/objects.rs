//! Which object an address belongs to while the program runs, and the rows of those that were touched.
//!
//! The attribution proper is a later stage that works on the dataset alone; here it is decided only which objects need a
//! row, so that the dataset grows with what was sampled and not with what was allocated.

use numamma_symbols::VariableKind;
use numamma_trace::{ANONYMOUS, BREAK, NONE, ObjectKind, ObjectRow};

use crate::filter::Owner;
use crate::session::Session;
use crate::sites::SiteKind;
use crate::space::mappings::{InMemory, Mapping, MappingKind};
use crate::space::{Label, Live};
use crate::tasks::{ProcessId, ThreadId};

/// Identity of an object that is neither heap nor mmap, within its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A variable or section of an image, by its run-time address and size: a section begins where its first variable does.
    Static(u64, u64),
    /// A thread's instance of a thread-local variable, by its address.
    Tls(ThreadId, u64),
    /// A thread's stack.
    Stack(ThreadId),
    /// Any other mapping, by its first address.
    Region(u64),
    /// What the program gave a name, by its first address.
    Label(u64),
}

/// What lies at an address that was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touched {
    /// A heap or mmap object of the call stack with that number.
    Allocated(u32),
    /// Something else that has a row.
    Other(Key),
    Nothing,
}

/// Bytes above the thread pointer that belong to the C library's own description of the thread (glibc's struct pthread is
/// 2304 bytes).
const THREAD_DESCRIPTOR: u64 = 2304;

/// Longest time that loading one library takes, nanoseconds: where nobody tells when one is closed.
const LOADING: i64 = 1_000_000_000;

/// Name of shared memory of which neither a call nor a file is known.
const SHARED: &str = "[shared memory]";

/// What belongs to the object at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Tells the object from the others in its process, with `since`.
    pub low: u64,
    /// From the address that was asked for up to here all is that object's.
    pub end: u64,
    /// When it was made, if others may have been there before.
    pub since: i64,
    /// True if others may come to lie in it: heap blocks in a mapping or in the allocator's memory.
    pub shared: bool,
}

impl Extent {
    /// Of an object that lasts from `low` to `end`.
    fn lasting(low: u64, end: u64) -> Self {
        Self { low, end, since: 0, shared: false }
    }

    /// What follows may be another's.
    fn word(addr: u64) -> Self {
        Self::lasting(addr, addr.saturating_add(1))
    }

    fn up_to(self, end: Option<u64>) -> Self {
        Self { end: end.map_or(self.end, |end| end.min(self.end)), ..self }
    }
}

/// True if a file is a library that we have put into the program.
pub(crate) fn is_ours(path: &str) -> bool {
    path.ends_with("/libnumamma.so") || path.ends_with("/libnumamma_hooks.so")
}

impl Session {
    /// Notes that `thread` accessed `addr`: its object gets a row, its page is asked about. Says which object it is, and what
    /// is that object's.
    pub(crate) fn touch(&mut self, process: ProcessId, thread: ThreadId, addr: u64, time: i64) -> (Touched, Extent) {
        let page = addr & !(self.page_bytes - 1);
        self.pages.entry(process).or_default().insert(page);
        let labels = &mut self.tasks.processes[process].space.labels;
        if let Some((at, label)) = labels.find(addr) {
            label.touched = true;
            let end = at.saturating_add(label.bytes);
            let extent = Extent { low: at, end, since: label.start, shared: false };
            return (Touched::Other(Key::Label(at)), extent);
        }
        let named = labels.above(addr);
        let (touched, extent) = self.touch_unnamed(process, thread, addr, time);
        (touched, extent.up_to(named))
    }

    fn touch_unnamed(&mut self, process: ProcessId, thread: ThreadId, addr: u64, time: i64) -> (Touched, Extent) {
        let space = &self.tasks.processes[process].space;
        if let Some((at, object)) = space.heap.find(addr) {
            let end = at.saturating_add(object.bytes.max(1));
            let (extent, stack) = (Extent { low: at, end, since: object.start, shared: false }, object.stack);
            self.touched.of(process).insert((SiteKind::Heap, at));
            return (Touched::Allocated(stack), extent);
        }
        let next = space.heap.above(addr);
        if let Some((key, extent)) = self.touch_tls(process, thread, addr, time) {
            return (Touched::Other(key), extent.up_to(next));
        }
        let tls = Some(self.tasks.threads[thread].row.tls_low as u64).filter(|&low| low > addr);
        let maps = &self.tasks.processes[process].space.maps;
        if let Some((at, object)) = maps.find(addr) {
            let end = at.saturating_add(object.bytes.max(1));
            let (extent, stack) = (Extent { low: at, end, since: object.start, shared: true }, object.stack);
            self.note_mapping(process, at);
            return (Touched::Allocated(stack), extent.up_to(next).up_to(tls));
        }
        let map = maps.above(addr);
        let found = self.touch_static(process, addr).or_else(|| self.touch_stack(process, thread, addr));
        let found = found.or_else(|| {
            let stack = self.tasks.stack_above(process, addr);
            let (key, extent) = self.touch_region(process, addr)?;
            Some((key, extent.up_to(stack)))
        });
        let (touched, extent) =
            found.map_or((Touched::Nothing, Extent::word(addr)), |(key, extent)| (Touched::Other(key), extent));
        (touched, extent.up_to(next).up_to(tls).up_to(map))
    }

    /// Who owns what was touched, as names go.
    pub(crate) fn owner(&self, process: ProcessId, touched: Touched) -> Owner<'_> {
        match touched {
            Touched::Allocated(stack) => Owner::Site(stack),
            // As reports call them.
            Touched::Other(Key::Stack(thread)) => {
                let row = &self.tasks.threads[thread].row;
                Owner::Named(if row.pid == row.tid { "stack of the main thread" } else { "stacks of threads" })
            }
            Touched::Other(Key::Label(at)) => {
                let label = self.tasks.processes[process].space.labels.get(at);
                label.map_or(Owner::Nobody, |label| Owner::Named(&label.name))
            }
            Touched::Other(key) => {
                let row = self.named.get(process).and_then(|named| named.get(&key));
                row.map_or(Owner::Nobody, |row| Owner::Named(&row.name))
            }
            Touched::Nothing => Owner::Nobody,
        }
    }

    fn touch_tls(&mut self, process: ProcessId, thread: ThreadId, addr: u64, time: i64) -> Option<(Key, Extent)> {
        let row = &self.tasks.threads[thread].row;
        let (low, pointer) = (row.tls_low as u64, row.tls_high as u64);
        if low == 0 || addr < low || addr >= pointer.saturating_add(THREAD_DESCRIPTOR) {
            return None;
        }
        let (start, tid) = (self.tasks.threads[thread].tls_since.min(time), thread as i32);
        // The executable's block ends at the thread pointer (variant II of the TLS ABI), those of libraries lie below. Rows of one thread
        // do not overlap.
        let block = self.executable(process).and_then(|module| {
            let base = pointer.wrapping_add_signed(module.tls_block()?.executable_offset).max(low);
            (base < pointer).then_some((module, base))
        });
        let (name, at, end, module) = match block {
            _ if addr >= pointer => {
                ("[thread descriptor]".to_owned(), pointer, pointer + THREAD_DESCRIPTOR, String::new())
            }
            Some((module, base)) if addr >= base => match module.tls_variable_at(addr - base) {
                Some(v) => (v.name.clone(), base + v.address, base + v.address + v.size, module.name().to_owned()),
                None => {
                    let (from, to) = module.tls_gap_at(addr - base);
                    let name = format!("[thread-local storage of {}]", module.name());
                    (name, base + from, base.saturating_add(to).min(pointer), module.name().to_owned())
                }
            },
            block => {
                let end = block.map_or(pointer, |(_, base)| base);
                ("[thread-local storage of libraries]".to_owned(), low, end, String::new())
            }
        };
        let (extent, bytes) = (Extent::lasting(at, end), end - at);
        let key = Key::Tls(thread, at);
        self.named.of(process).entry(key).or_insert_with(|| ObjectRow {
            object: 0,
            process: process as i32,
            kind: ObjectKind::Tls.name().into(),
            name,
            site: NONE,
            thread: tid,
            addr: at as i64,
            bytes: bytes as i64,
            start_time: start,
            end_time: i64::MAX,
            module,
            shared: NONE,
            shared_offset: 0,
            moved_from: NONE,
        });
        Some((key, extent))
    }

    fn touch_static(&mut self, process: ProcessId, addr: u64) -> Option<(Key, Extent)> {
        let (low, image) = self.tasks.processes[process].space.images.below(addr)?;
        let (path, offset, from, code, mapped) = (image.path, image.offset, image.from, image.code, image.mapped);
        // The loader maps a library's zero-initialised data right behind its last file mapping. Memory that was mapped
        // much later lies where a library was that has been closed: the kernel reports no unmapping.
        let of = &self.tasks.processes[process];
        let closed = if of.row.tracked != 0 { of.closed } else { mapped + LOADING };
        let later = |m: &Mapping| m.kind == MappingKind::Anonymous && closed > mapped && m.from > closed;
        let mapping = of.space.mappings.find(addr).map(|(_, m)| *m);
        let foreign = mapping.is_some_and(|m| later(&m) || (m.is_file() && m.path != path));
        if !code {
            return None;
        }
        if is_ours(self.modules.path(path)) {
            return None;
        }
        let module = self.modules.get(path)?;
        let bias = module.bias_for_mapping(low, offset, numamma_symbols::Access::Unknown)?;
        if foreign {
            let end = module.extent().map_or(low, |(_, end)| end.wrapping_add(bias));
            if addr < end {
                std::rc::Rc::make_mut(&mut self.tasks.processes[process].space.images).remove(low);
                self.images_gone(process, &[(low, end)], closed);
            }
            return None;
        }
        // Only zero-initialised data has no file behind it: the C library has closed the library by itself.
        let page = (addr & !(self.page_bytes - 1)).wrapping_sub(bias);
        if mapping.is_some_and(|m| !m.is_file()) && module.is_in_file(page) {
            return None;
        }
        let offset = addr.wrapping_sub(bias);
        let whole = module.data_at(offset)?;
        // A common block is many variables in one symbol.
        let part = whole.part_at(offset);
        let variable = part.as_ref().unwrap_or(whole);
        let at = variable.address.wrapping_add(bias);
        // A section has variables in it.
        let extent = match variable.kind {
            VariableKind::Section => Extent::word(addr),
            _ => Extent::lasting(at, at.wrapping_add(variable.size)),
        };
        let path = self.modules.path(path).to_owned();
        let key = Key::Static(at, variable.size);
        self.named.of(process).entry(key).or_insert_with(|| ObjectRow {
            object: 0,
            process: process as i32,
            kind: match variable.kind {
                VariableKind::Section => ObjectKind::Section,
                _ => ObjectKind::Static,
            }
            .name()
            .into(),
            name: variable.name.clone(),
            site: NONE,
            thread: NONE,
            addr: at as i64,
            bytes: variable.size as i64,
            start_time: from,
            end_time: i64::MAX,
            module: path,
            shared: NONE,
            shared_offset: 0,
            moved_from: NONE,
        });
        Some((key, extent))
    }

    /// Finds out where a thread's stack is from its stack pointer, if the library has not said.
    pub(crate) fn learn_stack(&mut self, thread: ThreadId, pointer: u64) {
        let process = self.tasks.process_of(thread);
        let row = &self.tasks.threads[thread].row;
        if row.stack_high != 0 && row.stack_low != 0 {
            return;
        }
        let Some((start, mapping)) = self.tasks.processes[process].space.mappings.find(pointer) else { return };
        let (low, high) = match mapping.kind {
            // It grows without a record: what may ever be its own is its own.
            MappingKind::Stack => (mapping.end.saturating_sub(main_stack_limit()), mapping.end),
            MappingKind::Anonymous => (start, mapping.end),
            _ => return,
        };
        let high = if row.stack_high == 0 { high } else { row.stack_high as u64 };
        self.tasks.set_stack(thread, low, high);
    }

    fn touch_stack(&mut self, process: ProcessId, thread: ThreadId, addr: u64) -> Option<(Key, Extent)> {
        // Its own most often; else a pointer to a local that was passed on.
        let row = &self.tasks.threads[thread].row;
        let own = row.stack_low != 0 && (row.stack_low as u64..row.stack_high as u64).contains(&addr);
        let owner = if own { Some(thread) } else { self.tasks.stack_at(process, addr) };
        let owner = owner?;
        let page = addr & !(self.page_bytes - 1);
        let thread = &mut self.tasks.threads[owner];
        thread.stack_touched = thread.stack_touched.min(page);
        let row = &thread.row;
        let extent = Extent::lasting(row.stack_low as u64, row.stack_high as u64);
        self.named.of(process).entry(Key::Stack(owner)).or_insert_with(|| ObjectRow {
            object: 0,
            process: process as i32,
            kind: ObjectKind::Stack.name().into(),
            name: String::new(),
            site: NONE,
            thread: owner as i32,
            addr: 0,
            bytes: row.stack_high,
            start_time: row.start_time,
            end_time: i64::MAX,
            module: String::new(),
            shared: NONE,
            shared_offset: 0,
            moved_from: NONE,
        });
        Some((Key::Stack(owner), extent))
    }

    /// Memory that is nobody's object: the allocator's own, the C library's, a program's that is not tracked.
    fn touch_region(&mut self, process: ProcessId, addr: u64) -> Option<(Key, Extent)> {
        let (start, mapping) = self.tasks.processes[process].space.mappings.find(addr)?;
        let extent = Extent { shared: true, ..Extent::lasting(start, mapping.end) };
        let path = self.modules.path(mapping.path).to_owned();
        let (kind, name) = match mapping.kind {
            MappingKind::File if is_ours(&path) || path.starts_with("/memfd:numamma") => {
                (ObjectKind::Region, "recorder".to_owned())
            }
            MappingKind::Kernel | MappingKind::Stack => (ObjectKind::Region, path.clone()),
            MappingKind::File => (ObjectKind::Mmap, file_name(&path).to_owned()),
            // Without the library these are all that can be said of the program's memory; with it, they are what the
            // objects leave over (see left_over).
            MappingKind::Break => (ObjectKind::Mmap, BREAK.to_owned()),
            // No allocator has it for itself.
            MappingKind::Anonymous if mapping.memory.is_some() => (ObjectKind::Mmap, shared_name(&path)),
            MappingKind::Anonymous => (ObjectKind::Mmap, ANONYMOUS.to_owned()),
        };
        let (bytes, from) = ((mapping.end - start) as i64, mapping.from);
        let (memory, offset) = (mapping.memory.filter(|_| kind == ObjectKind::Mmap), mapping.offset);
        let row = self.named.of(process).entry(Key::Region(start)).or_insert_with(|| ObjectRow {
            object: 0,
            process: process as i32,
            kind: kind.name().into(),
            name,
            site: NONE,
            thread: NONE,
            addr: start as i64,
            bytes,
            start_time: from,
            end_time: i64::MAX,
            module: String::new(),
            shared: memory.map_or(NONE, |memory| memory as i32),
            shared_offset: memory.map_or(0, |_| offset as i64),
            moved_from: NONE,
        });
        // The break grows in place.
        row.bytes = row.bytes.max(bytes);
        Some((Key::Region(start), extent))
    }

    /// The mapping that the program made at `addr` was touched.
    pub(crate) fn note_mapping(&mut self, process: ProcessId, addr: u64) {
        if self.touched.of(process).insert((SiteKind::Mmap, addr))
            && let Some(memory) = self.tasks.processes[process].space.mappings.in_memory(addr)
        {
            self.in_memory.of(process).insert(addr, memory);
        }
    }

    /// A live object went: if it was touched, it gets its row, whose number is returned.
    pub(crate) fn released(
        &mut self,
        process: ProcessId,
        kind: SiteKind,
        addr: u64,
        object: Live,
        time: i64,
    ) -> Option<i32> {
        let touched = self.touched.of(process).remove(&(kind, addr));
        let memory = match kind {
            SiteKind::Mmap => self.in_memory.of(process).remove(&addr),
            SiteKind::Heap => None,
        };
        let moved_from = self.moved_from.of(process).remove(&(kind, addr)).unwrap_or(NONE);
        let row = || ObjectRow { moved_from, ..live_row(process, kind, addr, object, (time, memory)) };
        touched.then(|| self.sink.object(row()))
    }

    /// Memory lost the name that the program gave it: if it was touched, it gets its row, whose number is returned.
    pub(crate) fn unlabelled(&mut self, process: ProcessId, addr: u64, label: &Label, time: i64) -> Option<i32> {
        let memory = self.tasks.processes[process].space.mappings.in_memory(addr);
        label.touched.then(|| self.sink.object(label_row(process, addr, label, (time, memory))))
    }

    /// Rows of everything that was touched and is still there, as if the process ended at `time`.
    pub(crate) fn present_objects(&self, process: ProcessId, time: i64) -> Vec<ObjectRow> {
        let of = &self.tasks.processes[process];
        let live = self.touched.get(process).into_iter().flatten().filter_map(|&(kind, addr)| {
            let table = match kind {
                SiteKind::Heap => &of.space.heap,
                SiteKind::Mmap => &of.space.maps,
            };
            let (at, object) = table.find(addr)?;
            let memory = self.in_memory.get(process).filter(|_| kind == SiteKind::Mmap).and_then(|of| of.get(&at));
            let moved_from = self.moved_from.get(process).and_then(|of| of.get(&(kind, at)).copied());
            let row = live_row(process, kind, at, object, (i64::MAX, memory.copied()));
            Some(ObjectRow { moved_from: moved_from.unwrap_or(NONE), ..row })
        });
        let named = self.named.get(process).into_iter().flatten().map(|(key, row)| {
            let mut row = ObjectRow { end_time: time, ..row.clone() };
            if of.row.tracked != 0 {
                left_over(&mut row);
            }
            if let Key::Tls(thread, _) = key {
                row.end_time = time.min(self.tasks.threads[*thread].row.end_time);
            }
            if let Key::Stack(thread) = key {
                let thread = &self.tasks.threads[*thread];
                row.end_time = thread.row.end_time;
                // What was used of it, which is what has pages; `bytes` held its end.
                row.addr = thread.stack_touched as i64;
                row.bytes -= row.addr;
            }
            row
        });
        let touched = of.space.labels.iter().filter(|(_, label)| label.touched);
        let labels = touched.map(|(addr, label)| {
            let memory = of.space.mappings.in_memory(addr);
            label_row(process, addr, label, (i64::MAX, memory))
        });
        let mut rows: Vec<ObjectRow> = live.chain(named).chain(labels).collect();
        rows.sort_by_key(|row| (row.addr, row.start_time, row.bytes));
        rows
    }

    /// A process ended: everything that was touched and is still there gets its row.
    pub(crate) fn emit_objects(&mut self, process: ProcessId, time: i64) {
        for row in self.present_objects(process, time) {
            self.sink.object(row);
        }
        self.forget_objects(process);
    }

    /// Images were replaced at `ranges`: the rows of their variables end, since others may lie there now.
    pub(crate) fn images_gone(&mut self, process: ProcessId, ranges: &[(u64, u64)], time: i64) {
        let within = |at: &u64| ranges.iter().any(|(low, high)| (low..high).contains(&at));
        self.end_named(process, time, |key, _| matches!(key, Key::Static(at, _) if within(at)));
    }

    /// The rows end of variables and other mappings that reach into `ranges`.
    pub(crate) fn mappings_gone(&mut self, process: ProcessId, ranges: &[(u64, u64)], time: i64) {
        let reaches = |addr: i64, bytes: i64| {
            let (low, high) = (addr as u64, (addr as u64).saturating_add(bytes as u64));
            ranges.iter().any(|&(start, end)| low < end && start < high)
        };
        self.end_named(process, time, |key, row| {
            matches!(key, Key::Static(..) | Key::Region(_)) && reaches(row.addr, row.bytes)
        });
    }

    fn end_named(&mut self, process: ProcessId, time: i64, ends: impl Fn(&Key, &ObjectRow) -> bool) {
        let tracked = self.tasks.processes[process].row.tracked != 0;
        let named = self.named.of(process);
        let keys: Vec<Key> = named.iter().filter(|(key, row)| ends(key, row)).map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(mut row) = named.remove(&key) {
                if tracked {
                    left_over(&mut row);
                }
                self.sink.object(ObjectRow { end_time: time, ..row });
            }
        }
    }

    fn executable(&mut self, process: ProcessId) -> Option<std::sync::Arc<numamma_symbols::Module>> {
        let command = self.tasks.processes[process].row.command.clone();
        let path = self.modules.intern(&command);
        self.modules.get(path)
    }
}

/// Memory that nobody owns where allocations are seen is what the allocator has for itself.
fn left_over(row: &mut ObjectRow) {
    if row.name == BREAK || row.name == ANONYMOUS {
        (row.kind, row.name) = (ObjectKind::Region.name().into(), "allocator".into());
    }
}

/// The columns that say where an object lies in memory that processes share.
fn shared_columns(memory: Option<InMemory>) -> (i32, i64) {
    memory.map_or((NONE, 0), |of| (of.memory as i32, of.offset as i64))
}

/// Name of shared memory that no known call mapped.
fn shared_name(path: &str) -> String {
    match path.strip_prefix("/SYSV").and_then(|key| key.get(..8)) {
        Some("00000000") => "[System V memory]".to_owned(),
        Some(key) => format!("[System V memory 0x{}]", key.trim_start_matches('0')),
        None => SHARED.to_owned(),
    }
}

/// `end`: when it went, and where it lay in memory that processes share.
fn live_row(
    process: ProcessId,
    kind: SiteKind,
    addr: u64,
    object: Live,
    (end, memory): (i64, Option<InMemory>),
) -> ObjectRow {
    let (shared, shared_offset) = shared_columns(memory);
    let kind = match kind {
        SiteKind::Heap => ObjectKind::Heap,
        SiteKind::Mmap => ObjectKind::Mmap,
    };
    ObjectRow {
        object: 0,
        process: process as i32,
        kind: kind.name().into(),
        name: String::new(),
        site: object.stack as i32,
        thread: object.thread,
        addr: addr as i64,
        bytes: object.bytes as i64,
        start_time: object.start,
        end_time: end,
        module: String::new(),
        shared,
        shared_offset,
        moved_from: NONE,
    }
}

fn label_row(process: ProcessId, addr: u64, label: &Label, (end, memory): (i64, Option<InMemory>)) -> ObjectRow {
    let (shared, shared_offset) = shared_columns(memory);
    ObjectRow {
        object: 0,
        process: process as i32,
        kind: ObjectKind::Annotated.name().into(),
        name: label.name.clone(),
        site: NONE,
        thread: label.thread,
        addr: addr as i64,
        bytes: label.bytes as i64,
        start_time: label.start,
        end_time: end,
        module: String::new(),
        shared,
        shared_offset,
        moved_from: NONE,
    }
}

/// The most that a main thread's stack may grow to, bytes: its limit, or 64 MiB where there is none.
fn main_stack_limit() -> u64 {
    const UNLIMITED: u64 = 64 << 20;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to a live struct.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    limit.rlim_cur.clamp(1 << 20, UNLIMITED)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
