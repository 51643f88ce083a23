//! Every access counted: an emulator runs the program, and its plug-in (`inject/exact`) tells how often which words were accessed; or
//! the program, compiled with `-fsanitize=thread`, calls a library of ours for each access, which tells the same.
//!
//! ```text
//!   program in QEMU's user mode --- allocations ---> segment of the library --.
//!     plug-in: counters by thread and 4 bytes -----> segment of the plug-in --+--> Session: whose words they are at
//!     what QEMU maps and starts ----- perf --------------------------------->-'    that moment -> Counts -> SampleRow
//! ```
//!
//! Addresses, processes and threads of the program are those of the emulator, so all that is known of objects comes as it does
//! when the program runs by itself. Before the meaning of addresses changes, the plug-in sends what it has counted there
//! (`inject/wire/include/numamma_note.h`).

pub mod command;
mod counts;
mod process;
mod trace;

pub use counts::{Count, Counts};
pub use process::Emulated;
pub use trace::{Traced, Tracing};

use numamma_trace::{Access, FirstTouchRow};
use numamma_wire::{Accessed, Event, Unsupported};

use crate::session::Session;
use crate::space::Space;
use crate::tasks::ThreadId;

impl Session {
    /// Applies what the plug-in tells; returns whether the event was that.
    pub(crate) fn counted(&mut self, time: i64, pid: i32, tid: i32, event: &Event) -> bool {
        match *event {
            Event::Counting { ref executable, by_hooks } => self.counting(time, pid, executable, by_hooks),
            Event::Accesses { address, tid, ref counts, ref memory } => {
                self.accessed((time, pid, tid), address, counts, memory);
            }
            Event::Counted => self.emulated().all_sent(pid),
            Event::Touch { address, ip, write } => self.touched_first(time, pid, tid, address, ip, write),
            Event::Access(at) => self.traced(time, pid, tid, at),
            Event::AccessMore(at) => self.traced_more(time, pid, tid, at),
            Event::Unsupported(what) => match what {
                Unsupported::Instruction(ip) => self.emulated().unknown_instruction = Some((pid, ip)),
                Unsupported::Call(number) => self.emulated().lacks(number),
            },
            _ => return false,
        }
        true
    }

    fn emulated(&mut self) -> &mut Emulated {
        self.emulated.get_or_insert_default()
    }

    /// A process in which accesses are counted. In the emulator, what is mapped until now is its own.
    fn counting(&mut self, time: i64, pid: i32, executable: &[u8], by_hooks: bool) {
        self.emulated().has_hooks |= by_hooks;
        self.emulated().counts(pid);
        if executable.is_empty() {
            return;
        }
        let path = String::from_utf8_lossy(executable).into_owned();
        let path = std::fs::canonicalize(&path).map_or(path, |path| path.to_string_lossy().into_owned());
        let process = self.tasks.process(pid, time);
        let of = &mut self.tasks.processes[process];
        of.space = Space::default();
        // As the kernel names a process.
        let name = path.rsplit('/').next().unwrap_or_default().chars().take(15).collect();
        of.row.command = path;
        let main = of.main;
        self.tasks.threads[main].row.name = name;
    }

    /// The thread of an event. One of the emulator's own is never asked for.
    pub(crate) fn thread_of(&mut self, pid: i32, tid: i32, time: i64) -> ThreadId {
        match self.emulated.as_mut().and_then(|emulated| emulated.started.remove(&tid)) {
            Some(start) => self.tasks.start_thread(pid, tid, start),
            None => self.tasks.thread(pid, tid, time),
        }
    }

    /// `memory`: those of them that reach memory, if that is known.
    fn accessed(&mut self, (time, pid, tid): (i64, i32, i32), address: u64, counts: &[Accessed], memory: &[Accessed]) {
        self.emulated().counts(pid);
        let thread = self.thread_of(pid, tid, time);
        let process = self.tasks.process_of(thread);
        // They came before the event whose note has sent them, which may bear the same nanosecond.
        let time = time - 1;
        let wanted = |access: Access| self.only.is_none_or(|only| only == access);
        let (reads_wanted, writes_wanted) = (wanted(Access::Read), wanted(Access::Write));
        let count = |wanted: bool, all: u32, memory: u32| match wanted {
            true => Count { all: all.into(), memory: memory.into() },
            false => Count::default(),
        };
        let mut extent: Option<(u64, crate::objects::Extent)> = None;
        for (n, counter) in counts.iter().enumerate() {
            let memory = memory.get(n).copied().unwrap_or_default();
            let reads = count(reads_wanted, counter.reads, memory.reads);
            let writes = count(writes_wanted, counter.writes, memory.writes);
            let accesses = (reads.all + writes.all) as i64;
            if accesses == 0 {
                continue;
            }
            let addr = address.wrapping_add(4 * n as u64);
            let of = match extent {
                Some((from, known)) if addr >= from && addr < known.end => known,
                _ => self.touch(process, thread, addr, time).1,
            };
            extent = Some((addr, of));
            self.tasks.threads[thread].row.samples += accesses;
            self.tasks.processes[process].row.samples += accesses;
            let page = addr & !(self.page_bytes - 1);
            let place = counts::Place { thread, page, object: of.low, since: of.since, shared: of.shared };
            self.counts.add(place, addr, time, reads, writes);
        }
        if self.counts.are_many() {
            self.write_counts();
        }
    }

    fn touched_first(&mut self, time: i64, pid: i32, tid: i32, addr: u64, ip: u64, write: bool) {
        let thread = self.thread_of(pid, tid, time);
        let process = self.tasks.process_of(thread);
        let place = self.place(process, ip);
        self.code_places.note(process, ip, place);
        let access = if write { Access::Write } else { Access::Read };
        self.sink.touches.push(FirstTouchRow {
            time,
            thread: thread as i32,
            cpu: crate::exact::counts::NO_CPU,
            ip: ip as i64,
            addr: addr as i64,
            access: access as i32,
            caller: 0,
        });
        self.touch(process, thread, addr, time);
    }

    /// Makes rows of what was counted.
    pub(crate) fn write_counts(&mut self) {
        self.counts.write(&mut self.sink.samples);
    }
}
