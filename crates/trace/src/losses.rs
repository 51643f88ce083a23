//! The loss ledger: everything that is missing from a recording has a name, a count and a remedy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

macro_rules! loss_kinds {
    ($($variant:ident = $name:literal, $what:literal, $remedy:literal;)+) => {
        /// A kind of loss.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum LossKind { $(#[doc = $what] $variant,)+ }

        impl LossKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// Its name in the dataset and in reports.
            pub fn name(self) -> &'static str { match self { $(Self::$variant => $name,)+ } }
            /// What was lost.
            pub fn describe(self) -> &'static str { match self { $(Self::$variant => $what,)+ } }
            /// What to change so that it does not happen.
            pub fn remedy(self) -> &'static str { match self { $(Self::$variant => $remedy,)+ } }
        }
    };
}

loss_kinds! {
    PerfRing = "perf_ring_full",
        "Samples and mapping records that the kernel dropped because the recorder did not keep up.",
        "lower --rate, or raise kernel.perf_event_mlock_kb or the limit on locked memory (ulimit -l) so that the rings can be larger";
    Throttled = "perf_throttled",
        "Times the kernel paused sampling because it took too long.",
        "lower --rate, or raise kernel.perf_cpu_time_max_percent";
    HeapRing = "heap_ring_full",
        "Allocation events that were dropped because the recorder did not keep up.",
        "leave the recorder a CPU of its own, or record without allocations (--no-heap)";
    LostReleases = "releases_lost",
        "Releases among the dropped allocation events: these objects seem to live on.",
        "a consequence of heap_ring_full; see that";
    NoRing = "heap_no_ring",
        "Allocation events of threads that found no free ring, and threads whose accesses could not be counted for that.",
        "more threads lived at once than there are rings (4096): record without allocations (--no-heap)";
    NoRingMemory = "heap_ring_not_mapped",
        "Allocation events of threads that could not map their ring, and threads that had no memory for counts of accesses.",
        "raise the limit on address space (ulimit -v)";
    Filtered = "heap_filtered",
        "Allocation events of threads and processes that began when their process had put itself under a filter of system calls (seccomp): they could not open a ring.",
        "record without the program's sandbox, if it can be switched off";
    Confined = "confined",
        "Processes that forbade themselves to read the time or nearly all system calls (seccomp strict mode, PR_SET_TSC): not recorded from then on.",
        "record without the program's sandbox, if it can be switched off";
    Overwritten = "objects_overwritten",
        "Objects whose release was not seen, ended when another took their address.",
        "where heap_ring_full stands beside it, follow that; else the program releases memory unseen, as with an allocator of its own: such objects end when another takes their address";
    UntrackedProcess = "untracked_process",
        "Processes whose allocations were not seen because the library was not loaded (static, setuid or 32-bit program, or cleared environment), or because another program put them under a filter of system calls (seccomp) and executed them.",
        "link the program dynamically, keep LD_PRELOAD and NUMAMMA_SEGMENT in its environment, and record without the sandbox";
    OtherUser = "other_user",
        "Processes that were executed under another user than the recorder's (su, setpriv, sudo): such a process must not open the recorder's memory, so its allocations were not seen, nor its plan applied.",
        "record as that user: su USER -c 'numamma record ...'; a process that changes its user without executing another program is recorded";
    OwnAllocator = "own_allocator",
        "Processes that bring their own malloc inside the executable: its objects are not seen.",
        "link the allocator as a shared library";
    Sanitizer = "sanitizer",
        "Programs built with a sanitizer, which must load its own allocator first: allocations were not tracked.",
        "build without -fsanitize to record allocations";
    LeftUnseen = "left_unseen",
        "Times that a thread left a function of --in with no return seen: by longjmp, an exception, or a record that was dropped. Samples may count as inside until its stack shows that it left.",
        "name the function that catches, or one further in; see perf_ring_full if that occurred";
    ShortThread = "thread_without_sample",
        "Threads that ended before their first sample, where they had a part of the run's time that matters (1 %).",
        "raise --rate so that the period is shorter than such a thread's CPU time";
    CutStack = "stack_cut",
        "Distinct call stacks that could not be followed to their end.",
        "build the program with unwind tables (-fasynchronous-unwind-tables) or frame pointers";
    MalformedEvent = "malformed_event",
        "Events of the program's library that made no sense and were skipped.",
        "the program wrote over shared memory that is not its own; check it with a memory checker";
    FirstTouch = "first_touch_off",
        "Page faults were not recorded: the kernel refused the event.",
        "lower kernel.perf_event_paranoid to 2 or less";
    NotWritten = "not_written",
        "Rows that could not be written to the dataset.",
        "free space on the file system of the output directory (-o)";
    DiskFull = "disk_full",
        "Times that the recording ended before its time because the file system had no room for it: names, and rows that came later, may be missing.",
        "free space on the file system of the output directory (-o), and record again";
    UnreadFile = "file_unread",
        "Files of the recording that are missing or damaged: what they held is not in the report.",
        "record again; `numamma report` names the files on standard error";
    LeftRunning = "left_running",
        "Processes that still ran when the command had ended; what they did afterwards is not recorded.",
        "record them in the foreground (no daemon mode, no `&`), or make the command wait for them";
    Incomplete = "recording_cut",
        "The recorder was stopped before the program ended; what came after its last flush is missing.",
        "let numamma record finish";
    WritingCut = "writing_cut",
        "The recorder was told to end while it wrote the dataset: code that it had not looked up has no names.",
        "let numamma record finish after the program has ended";
    PageNodes = "pages_without_node",
        "Pages whose process ended before it could be asked for their nodes.",
        "a consequence of short processes: only what lives longer than 50 ms after it is touched has a node";
    CountsCut = "accesses_cut",
        "Processes that were killed before what they had counted last was sent (exact sampler).",
        "let the program end by itself: what it accessed in its last 0.1 s (longer, if it accesses more pages than the recorder can follow) is not in the counts";
    NotEmulated = "not_emulated",
        "Programs that a recorded process executed, and that ran without the emulator: their accesses are not counted (exact sampler).",
        "record each such program by itself";
    UnknownCode = "code_unreadable",
        "Samples in code whose bytes could not be read.",
        "keep the program's files in place until the recording ends; of code that a just-in-time compiler has changed or dropped since, nothing is left to read";
}

/// Counts by kind of loss; what is zero is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Losses(BTreeMap<String, u64>);

impl FromIterator<(LossKind, u64)> for Losses {
    fn from_iter<I: IntoIterator<Item = (LossKind, u64)>>(losses: I) -> Self {
        let mut ledger = Self::default();
        losses.into_iter().for_each(|(kind, count)| ledger.add(kind, count));
        ledger
    }
}

impl Losses {
    /// Adds `count` losses of one kind.
    pub fn add(&mut self, kind: LossKind, count: u64) {
        if count > 0 {
            *self.0.entry(kind.name().to_owned()).or_default() += count;
        }
    }

    /// How many of that kind.
    pub fn get(&self, kind: LossKind) -> u64 {
        self.0.get(kind.name()).copied().unwrap_or_default()
    }

    /// Name, count and remedy of each kind that occurred. A kind of a newer version has no remedy here.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64, &'static str)> {
        self.0.iter().map(|(name, &count)| {
            let remedy = LossKind::ALL.iter().find(|kind| kind.name() == name).map_or("", |kind| kind.remedy());
            (name.as_str(), count, remedy)
        })
    }
}
