//! Phases that begin with a function of the program: the kernel reports that a thread comes by, and what is placed already is moved
//! from here, by `move_pages`. The library places what the program allocates from then on.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use numamma_perf::arrivals::Arrivals;
use numamma_plan::Compiled;
use numamma_wire::SharedPlan;

use crate::phases::begin;

/// How often to look whether the program has ended.
const LOOK: Duration = Duration::from_millis(200);

/// Watches functions.
#[derive(Debug)]
pub(crate) struct Markers {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Markers {
    /// Begins to watch, before the program does; nothing if the plan has no such phase.
    ///
    /// # Errors
    /// If the kernel does not let us.
    pub fn begin(shared: Arc<SharedPlan>, compiled: Arc<Compiled>, cpus: &[u32]) -> io::Result<Option<Self>> {
        if compiled.markers().is_empty() {
            return Ok(None);
        }
        let places: Vec<(&Path, u64)> =
            compiled.markers().iter().map(|marker| (marker.file.as_path(), marker.offset)).collect();
        let mut arrivals = Arrivals::watch(&places, cpus)?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Acquire) {
                for arrival in arrivals.wait(LOOK) {
                    begin(&shared, &compiled, arrival.pid, compiled.markers()[arrival.place].phase);
                }
            }
        });
        Ok(Some(Self { stop, thread: Some(thread) }))
    }
}

impl Drop for Markers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It ends by itself; if it panicked, that has been said.
            let _ = thread.join();
        }
    }
}
