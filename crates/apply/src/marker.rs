//! Phases that begin with a function of the program: the kernel reports that a thread comes by, and what is placed already is moved
//! from here, by `move_pages`. The library places what the program allocates from then on.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use numamma_perf::arrivals::Arrivals;
use numamma_plan::Compiled;
use numamma_wire::SharedPlan;

use crate::phases::begin;

/// How often to look whether the program has ended.
const LOOK: Duration = Duration::from_millis(200);
/// Each call of a function that is watched enters the kernel. So many of them in a second are no phases, and it is not watched any more.
const MOST: u64 = 2000;

/// Watches functions.
#[derive(Debug)]
pub(crate) struct Markers {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<String>>>,
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
            let (mut calls, mut since) = (0, Instant::now());
            loop {
                let last = asked.load(Ordering::Acquire);
                let came = arrivals.wait(if last { Duration::ZERO } else { LOOK });
                calls += came.len() as u64 + std::mem::take(&mut arrivals.lost);
                let mut of: BTreeMap<i32, Vec<u32>> = BTreeMap::new();
                for arrival in &came {
                    of.entry(arrival.pid).or_default().push(compiled.markers()[arrival.place].phase);
                }
                of.iter().for_each(|(pid, phases)| begin(&shared, &compiled, *pid, phases));
                if last {
                    return Vec::new();
                }
                if calls > MOST {
                    return vec![format!(
                        "phases are announced {calls} times in {:.1} s by their functions, which is too often: from then on they were not watched",
                        since.elapsed().as_secs_f64()
                    )];
                }
                if since.elapsed() >= Duration::from_secs(1) {
                    (calls, since) = (0, Instant::now());
                }
            }
        });
        Ok(Some(Self { stop, thread: Some(thread) }))
    }

    /// Ends it when all that came by has been seen. Returns what is to be said.
    pub fn end(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Release);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Markers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}
