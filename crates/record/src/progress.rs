//! How far a long recording is.

use std::time::{Duration, Instant};

use crate::session::Session;

/// When there is something to tell for the first time. Each further time is twice as late.
const FIRST: Duration = Duration::from_secs(30);

/// How far a recording is.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// The program runs.
    Running {
        /// Since its start.
        time: Duration,
        /// Samples until now.
        samples: u64,
    },
    /// The program has ended, and the recording is written.
    Writing,
}

/// The moments at which progress is told.
#[derive(Debug)]
pub struct Milestones {
    tell: Option<fn(Progress)>,
    began: Instant,
    next: Duration,
}

impl Milestones {
    pub fn new(tell: Option<fn(Progress)>) -> Self {
        Self { tell, began: Instant::now(), next: FIRST }
    }

    /// Tells it, if it is time.
    pub fn pass(&mut self, session: &Session) {
        let (Some(tell), time) = (self.tell, self.began.elapsed()) else { return };
        if time >= self.next {
            self.next *= 2;
            let samples = session.tasks.threads.iter().map(|thread| thread.row.samples.unsigned_abs()).sum();
            tell(Progress::Running { time, samples });
        }
    }

    /// The program has ended: after a long run there is more to write.
    pub fn ended(&self) {
        if let Some(tell) = self.tell.filter(|_| self.next > FIRST) {
            tell(Progress::Writing);
        }
    }
}
