//! A clock of a short period that is on for moments, to see how a thread goes on.
//!
//! It is inherited by all threads from the start, as the other events are, and off. An event that is attached to one thread later
//! would make its events unlike those of its siblings for as long as it lives, and the kernel would take all of them off the CPU and
//! put the next thread's on at each switch between the two, some 6 us, where it merely exchanges two lists of events that are alike.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use numamma_perf::attr::{self, Attr};
use numamma_perf::id;
use numamma_perf::ring::Ring;

use super::decode::{Record, Source, decode};
use super::events::clock_attr;

/// Bytes of a ring.
const RING: usize = 4096;
/// Registers, times and threads: no stack.
const UNUSED: u64 = attr::SAMPLE_STACK_USER;

/// The clock, on all CPUs.
#[derive(Debug)]
pub struct Glances {
    rings: HashMap<i32, Ring>,
    sources: HashMap<u64, Source>,
    bytes: Vec<u8>,
    records: Vec<Record>,
}

impl Glances {
    /// Opens it on a process and all that it will start. `period` in nanoseconds.
    ///
    /// # Errors
    /// If the kernel refuses it, or memory for its rings.
    pub fn open(pid: i32, cpus: &[u32], period: u64) -> io::Result<Self> {
        let clock = clock_attr(period);
        let clock = Attr {
            sample_type: clock.sample_type & !UNUSED,
            sample_stack_user: 0,
            flags: clock.flags & !attr::ENABLE_ON_EXEC,
            wakeup: RING as u32 / 2,
            ..clock
        };
        let mut glances =
            Self { rings: HashMap::new(), sources: HashMap::new(), bytes: Vec::new(), records: Vec::new() };
        for &cpu in cpus {
            let event = match attr::open(&clock, pid, cpu as i32) {
                // A CPU that went offline since we looked.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                other => other?,
            };
            glances.sources.insert(id(&event)?, Source::Clock);
            glances.rings.insert(cpu as i32, Ring::map(event, RING).map_err(|(error, _)| error)?);
        }
        Ok(glances)
    }

    /// What a thread does on a CPU in the next moment.
    pub fn take(&mut self, tid: i32, cpu: i32, time: Duration) -> Vec<Record> {
        let Self { rings, sources, bytes, records } = self;
        let Some(ring) = rings.get_mut(&cpu) else { return Vec::new() };
        // What came to a thread that began while the clock was on the last time.
        bytes.clear();
        ring.drain(bytes);
        ring.enable(true);
        std::thread::sleep(time);
        ring.enable(false);
        bytes.clear();
        ring.drain(bytes);
        records.clear();
        decode(bytes, sources, records);
        records.drain(..).filter(|record| matches!(record, Record::Sample { tid: of, .. } if *of == tid)).collect()
    }
}
