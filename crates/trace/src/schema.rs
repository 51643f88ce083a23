//! The tables. Documented columns keep their meaning; columns may be added.

use crate::table::{Column, Table, table};

/// Name of the objects that stand for the break of a process whose allocations were not seen.
pub const BREAK: &str = "[heap]";
/// Name of those that stand for its anonymous mappings.
pub const ANONYMOUS: &str = "[anonymous memory]";

/// Stands for "no such row" in columns that refer to another table.
pub const NONE: i32 = -1;
/// Stands for a number of accesses that is not known (`samples.memory`).
pub const UNKNOWN: f32 = -1.0;

table! {
    /// A data access that a sample shows. A sample is one row that carries its cost, and any number of rows with `rule` =
    /// spread that carry the estimated access counts of the rest of its basic block.
    SampleRow = "samples" {
        time: i64 = "Nanoseconds of the recording's clock (meta.json: clock).",
        thread: i32 = "Thread that ran: threads.thread.",
        cpu: i32 = "CPU that it ran on; -1 for rule exact.",
        ip: i64 = "Address of the instruction that accessed memory (rule none: of the sample, or of the loop that it waited in); 0 for rule exact.",
        addr: i64 = "Data address; 0 when there is none (rules 0, 5, 6, 7 and 10).",
        bytes: i32 = "Width of the access in bytes; for rule exact of the range in which the accesses began.",
        access: i32 = "1 read, 2 write, 3 read and write, 0 unknown.",
        rule: i32 = "How the access was found: 0 none, 1 before (the instruction that stalled), 2 forward (the next access), 3 spread (another access of the block), 4 hardware, 5 none because the code could not be read, 6 none because the address could not be computed, 7 none because it was waiting in a spin loop, 8 exact (a count), 9 trace window (accesses of an instruction to a page while a thread was followed), 10 none because it was in the library that NumaMMA puts into the program.",
        cost: i64 = "Nanoseconds of thread time that the row stands for; 0 for rules spread and exact.",
        accesses: f32 = "Estimated accesses that the row stands for (clock sampler; in units of samples if meta.json: sampler.counted is absent); how many there were (rule exact).",
        basis: i32 = "Basis of the estimate: bases.basis; -1 if nothing but the time that was spent." or -1,
        memory: f32 = "Accesses of the row that reach memory, by a model of caches (meta.json: sampler.caches); -1 where that is not known." or -1.0,
    }
}

table! {
    /// Evidence for how often some code ran in a thread: an induction variable that moved on between samples, or a trace window.
    BasisRow = "bases" {
        basis: i32 = "Number of the basis.",
        thread: i32 = "Thread: threads.thread.",
        ip: i64 = "Run-time address of the first instruction of the innermost loop whose code it is of; -1 for a trace window.",
        samples: i64 = "Samples of the thread in that code; 0 for a trace window.",
        error: f64 = "Relative standard error of the number of runs, the same for all rows with this basis.",
        region_group: i32 = "Of a trace window: id of the group of code regions in which it started; -1 if none." or -1,
        region_group_error: f64 = "Standard error of the logarithm of the peak rate of that group, the same for all bases of the group." or 0.0,
    }
}

table! {
    /// A row of `samples` as it stands in a part, with what decides at the end of the recording whether it stays. Readers of
    /// the table take the columns that they know.
    PartSampleRow = "samples" {
        time: i64 = "As in samples.",
        thread: i32 = "As in samples.",
        cpu: i32 = "As in samples.",
        ip: i64 = "As in samples.",
        addr: i64 = "As in samples.",
        bytes: i32 = "As in samples.",
        access: i32 = "As in samples.",
        rule: i32 = "As in samples.",
        cost: i64 = "As in samples: of a sample that stands for as many as the recording was thinned by at the time.",
        accesses: f32 = "As in samples, likewise.",
        survives: i32 = "Number of halvings of the recording that the sample survives.",
        thinned: i32 = "Number of halvings of the recording until then: cost and accesses are doubled as often.",
        site: i32 = "Call site of the object: sites.site, where its name decides whether the row stays (--object); else -1.",
        trace_window: i32 = "Trace window that the row is of: accesses are those in it; else -1.",
        owner: i32 = "Number of what the address belongs to, an object or all of a call site; -1 if nobody asks.",
        memory: f32 = "As in samples.",
    }
}

impl PartSampleRow {
    /// The row as it is in the finished table after `halvings` of the recording, of which it survives all; its basis, if it is of a
    /// trace window, is that trace window until the bases are numbered.
    pub fn settled(self, halvings: i32) -> SampleRow {
        let factor = 1_i64 << (halvings - self.thinned).clamp(0, 62);
        SampleRow {
            time: self.time,
            thread: self.thread,
            cpu: self.cpu,
            ip: self.ip,
            addr: self.addr,
            bytes: self.bytes,
            access: self.access,
            rule: self.rule,
            cost: self.cost.saturating_mul(factor),
            accesses: self.accesses * factor as f32,
            basis: self.trace_window,
            // Counts, which are known, are not thinned out.
            memory: self.memory,
        }
    }
}

table! {
    /// An object: a range of addresses for a span of time. Only those that were sampled or first touched have a row.
    ObjectRow = "objects" {
        object: i32 = "Number of the object.",
        process: i32 = "Process whose address space it is in: processes.process.",
        kind: String = "heap, static, section (what no variable names in a section of a module), mmap, stack, tls, annotated, or region (memory that is nobody's object, such as the allocator's own).",
        name: String = "Name of the variable or region; empty for heap and mmap objects, which their site names.",
        site: i32 = "Call site that made it: sites.site; -1 if none.",
        thread: i32 = "Thread that made it or whose stack or TLS it is: threads.thread; -1 if none.",
        addr: i64 = "First address.",
        bytes: i64 = "Size in bytes.",
        start_time: i64 = "Time of the allocation, nanoseconds.",
        end_time: i64 = "Time of the release, nanoseconds; the greatest integer if it was never released.",
        module: String = "Path of the module that holds a static object; empty otherwise.",
        shared: i32 = "Memory that several processes can map and write to: the same number is the same memory; -1 if the pages belong to the process alone." or -1,
        shared_offset: i64 = "Bytes from the start of that memory to addr; 0 if there is none." or 0,
        moved_from: i32 = "Object whose pages realloc or mremap moved here, or that it left in place: objects.object; -1 if none." or NONE,
    }
}

table! {
    /// A place in the program that made heap or mmap objects, with what it made over the whole run.
    SiteRow = "sites" {
        site: i32 = "Number of the site.",
        process: i32 = "Process: processes.process.",
        kind: String = "heap or mmap.",
        function: String = "Function of the frame that stands for the site.",
        file: String = "Source file of that frame, empty if unknown.",
        line: i32 = "Source line of that frame, 0 if unknown.",
        ip: i64 = "An address in that frame's call: code.ip; 0 if no frame is known." or 0,
        depth: i32 = "That frame in the call stack: frames.depth; -1 if no frame is known." or -1,
        via: String = "Allocator wrapper that it called, which is why no frame further in stands for the site; empty if none." or String::new(),
        name: String = "Variable of that frame, or global one, that the pointer was stored in; empty if unknown." or String::new(),
        count: i64 = "Allocations.",
        bytes: i64 = "Bytes of all allocations.",
        freed: i64 = "Allocations that were released.",
        peak_bytes: i64 = "Most bytes live at once.",
        lifetime_min: i64 = "Shortest time from allocation to release, nanoseconds, of those that were released; 0 if none was." or 0,
        lifetime_max: i64 = "Longest such time, nanoseconds." or 0,
        lifetime_total: i64 = "Sum of these times, nanoseconds: divided by freed, their mean." or 0,
    }
}

table! {
    /// The call stacks of sites; `code` has the functions and lines.
    FrameRow = "frames" {
        site: i32 = "Site: sites.site.",
        depth: i32 = "0 is the innermost frame.",
        ip: i64 = "An address in the call (the return address less one): code.ip.",
    }
}

table! {
    /// A thread.
    ThreadRow = "threads" {
        thread: i32 = "Number, in creation order; 0 is the first thread of the first process.",
        process: i32 = "Process: processes.process.",
        pid: i32 = "Kernel's process id.",
        tid: i32 = "Kernel's thread id.",
        name: String = "Name.",
        start_time: i64 = "Time of its start, nanoseconds.",
        end_time: i64 = "Time of its end, nanoseconds; the greatest integer if it outlived the recording.",
        stack_low: i64 = "Lowest address of its stack, 0 if unknown.",
        stack_high: i64 = "End of its stack, 0 if unknown.",
        tls_low: i64 = "Lowest address of its thread-local storage, 0 if unknown.",
        tls_high: i64 = "End of its thread-local storage, 0 if unknown.",
        samples: i64 = "Samples taken in it, also those that were left out or thinned out later.",
    }
}

table! {
    /// A process: one address space from its start or exec to its exec or end.
    ProcessRow = "processes" {
        process: i32 = "Number, in order of appearance.",
        pid: i32 = "Kernel's process id.",
        parent: i32 = "Kernel's process id of its parent, 0 if unknown.",
        command: String = "Path of the executable.",
        start_time: i64 = "Time of its start, nanoseconds.",
        end_time: i64 = "Time of its end, nanoseconds; the greatest integer if it outlived the recording.",
        tracked: i32 = "1 if the library was loaded, so that its allocations were seen.",
        samples: i64 = "Samples taken in it, also those that were left out or thinned out later.",
    }
}

table! {
    /// A mapping of a process while it lasted.
    ModuleRow = "modules" {
        process: i32 = "Process: processes.process.",
        path: String = "File, or the kernel's name such as [heap], [stack], [vdso], //anon; [jit] for code that is in no file.",
        build_id: String = "Build id of the file in hexadecimal, empty if unknown.",
        start_addr: i64 = "First address.",
        end_addr: i64 = "End address.",
        file_offset: i64 = "Offset in the file.",
        executable: i32 = "1 if it holds code.",
        map_time: i64 = "Time it appeared, nanoseconds.",
        unmap_time: i64 = "Time it went, nanoseconds; the greatest integer if it stayed.",
    }
}

table! {
    /// The first touch of a page: the page fault that gave it memory.
    FirstTouchRow = "first_touch" {
        time: i64 = "Nanoseconds of the recording's clock.",
        thread: i32 = "Thread that touched: threads.thread.",
        cpu: i32 = "CPU that it ran on.",
        ip: i64 = "Address of the instruction that touched.",
        addr: i64 = "Address that was touched.",
        access: i32 = "1 read (the page is the kernel's page of zeros until it is written, but in memory that processes share), 2 write, 0 unknown." or 0,
        caller: i64 = "Address in the call by which the program's own code came to the instruction, if that is in the C library or another run-time library; 0 if it is not, or if the caller is unknown." or 0,
    }
}

table! {
    /// An access by itself, of those that were traced (`record --sampler exact --trace`).
    TraceRow = "trace" {
        time: i64 = "Nanoseconds of the recording's clock: in the emulator just after the access, by hooks just before it.",
        thread: i32 = "Thread: threads.thread.",
        ip: i64 = "Address of the instruction; where the program counted by its own hooks, of the one that comes after the call of the hook.",
        addr: i64 = "First address that was accessed.",
        bytes: i32 = "Width of the access in bytes.",
        access: i32 = "1 read, 2 write.",
    }
}

table! {
    /// The node of a page at a moment.
    PageNodeRow = "page_nodes" {
        process: i32 = "Process: processes.process.",
        page: i64 = "Address of the page.",
        node: i32 = "Node.",
        time: i64 = "Time of the question, nanoseconds.",
    }
}

table! {
    /// Phases that the program announced.
    MarkerRow = "markers" {
        time: i64 = "Nanoseconds of the recording's clock.",
        thread: i32 = "Thread: threads.thread.",
        name: String = "Name; empty where a phase ended without another.",
    }
}

table! {
    /// Source of each code address that occurs in samples, first_touch or frames: one row for each function that is
    /// inlined there.
    CodeRow = "code" {
        process: i32 = "Process: processes.process.",
        ip: i64 = "Address.",
        depth: i32 = "0 for the innermost function, 1 for the one that it is inlined into, and so on.",
        module: String = "Path of the module, empty if unknown.",
        module_offset: i64 = "Address in the module's own address space.",
        function: String = "Function, empty if unknown.",
        file: String = "Source file, empty if unknown.",
        line: i32 = "Source line, 0 if unknown.",
    }
}

/// Name and columns of one table.
#[derive(Clone, Copy, Debug)]
pub struct TableInfo {
    /// Name of the table.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
}

const fn info<T: Table>() -> TableInfo {
    TableInfo { name: T::NAME, columns: T::COLUMNS }
}

/// Every table of the dataset.
pub const ALL_TABLES: &[TableInfo] = &[
    info::<SampleRow>(),
    info::<ObjectRow>(),
    info::<SiteRow>(),
    info::<FrameRow>(),
    info::<ThreadRow>(),
    info::<ProcessRow>(),
    info::<ModuleRow>(),
    info::<FirstTouchRow>(),
    info::<TraceRow>(),
    info::<PageNodeRow>(),
    info::<BasisRow>(),
    info::<MarkerRow>(),
    info::<CodeRow>(),
];

/// What an access does to memory: `samples.access`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Access {
    /// Not known.
    #[default]
    Unknown = 0,
    /// Load.
    Read = 1,
    /// Store.
    Write = 2,
    /// Load and store of one instruction.
    ReadWrite = 3,
}

/// How an access was found from a sample: `samples.rule`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Rule {
    /// No access was found.
    #[default]
    None = 0,
    /// The instruction before the sampled one: the one that stalled.
    Before = 1,
    /// The next access in program order.
    Forward = 2,
    /// Another access of the sampled basic block; carries counts, not cost.
    Spread = 3,
    /// The hardware said so.
    Hardware = 4,
    /// The code at the sample could not be read or decoded.
    Unreadable = 5,
    /// The next access is known, but its address depends on a register whose value at that point is not.
    AddressUnknown = 6,
    /// The thread was waiting in a spin loop (`pause`): no access stalled it, another thread kept it waiting.
    SpinWait = 7,
    /// No sample: all accesses of a thread to a page of an object were counted.
    Exact = 8,
    /// No sample: accesses of an instruction to a page, while the thread was followed for a moment (`record --windows`).
    TraceWindow = 9,
    /// The thread was in the library that the recorder puts into the program: no access of the program's.
    Recorder = 10,
}

/// Kinds of objects: `objects.kind`. The order is the order in which they win where they overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// Named by the program through the annotation library.
    Annotated,
    /// From an allocation function.
    Heap,
    /// A thread-local variable or block.
    Tls,
    /// Mapped by the program.
    Mmap,
    /// A variable of a module.
    Static,
    /// What no variable names in a section of a module.
    Section,
    /// A thread's stack.
    Stack,
    /// Memory that is nobody's object.
    Region,
}

impl ObjectKind {
    /// Every kind.
    pub const ALL: [Self; 8] =
        [Self::Annotated, Self::Heap, Self::Tls, Self::Mmap, Self::Static, Self::Section, Self::Stack, Self::Region];

    /// Its name in the dataset and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Annotated => "annotated",
            Self::Heap => "heap",
            Self::Tls => "tls",
            Self::Mmap => "mmap",
            Self::Static => "static",
            Self::Section => "section",
            Self::Stack => "stack",
            Self::Region => "region",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
