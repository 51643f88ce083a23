//! Who comes by places in the code, in any process.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use crate::attr::{self, Attr};
use crate::ring::Ring;
use crate::{id, probe};

/// Bytes of a CPU's ring. What does not fit is lost.
const RING: usize = 64 << 10;

/// So many descriptors are within every limit.
const FEW: usize = 128;

/// Places that are watched.
#[derive(Debug)]
pub struct Arrivals {
    rings: Vec<(u32, Ring)>,
    /// Events without a ring of their own.
    redirected: Vec<OwnedFd>,
    /// The number of the place, by event.
    places: HashMap<u64, usize>,
    /// So many were not told of, since nobody read fast enough. Whoever counts them sets it back.
    pub lost: u64,
}

/// A thread came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Number of the place, in the order in which they were given.
    pub place: usize,
    /// Its process.
    pub pid: i32,
}

impl Arrivals {
    /// Watches places, each an offset in a file, on these CPUs.
    ///
    /// # Errors
    /// If the kernel has no probes, or does not let us have them.
    pub fn watch(places: &[(&Path, u64)], cpus: &[u32]) -> io::Result<Self> {
        let kind = probe::pmu_type()?;
        if places.len() * cpus.len() > FEW {
            probe::raise_file_limit();
        }
        let mut arrivals = Self { rings: Vec::new(), redirected: Vec::new(), places: HashMap::new(), lost: 0 };
        for (number, (file, offset)) in places.iter().enumerate() {
            let file = CString::new(file.as_os_str().as_bytes())?;
            for &cpu in cpus {
                let rest = Attr {
                    sample_type: attr::SAMPLE_IDENTIFIER | attr::SAMPLE_TID | attr::SAMPLE_TIME,
                    flags: attr::EXCLUDE_HV | attr::USE_CLOCKID,
                    clockid: libc::CLOCK_MONOTONIC,
                    wakeup: 1,
                    ..Attr::default()
                };
                let event = match probe::open(kind, &file, *offset, cpu, rest) {
                    // A CPU that went offline since we looked.
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                    other => other?,
                };
                arrivals.places.insert(id(&event)?, number);
                match arrivals.rings.iter().find(|(of, _)| *of == cpu) {
                    Some((_, ring)) => {
                        ring.redirect(&event)?;
                        arrivals.redirected.push(event);
                    }
                    None => arrivals.rings.push((cpu, Ring::map(event, RING).map_err(|(error, _)| error)?)),
                }
            }
        }
        Ok(arrivals)
    }

    /// Waits for somebody to come by, at most so long. Returns who did since the last call, in the order of time.
    pub fn wait(&mut self, most: Duration) -> Vec<Arrival> {
        let poll = |(_, ring): &(u32, Ring)| libc::pollfd { fd: ring.fd(), events: libc::POLLIN, revents: 0 };
        let mut fds: Vec<libc::pollfd> = self.rings.iter().map(poll).collect();
        let most = i32::try_from(most.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: a live array of that length.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as _, most) };
        let mut came = Vec::new();
        let mut bytes = Vec::new();
        for (_, ring) in &mut self.rings {
            bytes.clear();
            ring.drain(&mut bytes);
            let known = |(time, event, pid)| Some(Arrival { time, place: *self.places.get(&event)?, pid });
            came.extend(decode(&bytes, &mut self.lost).filter_map(known));
        }
        came.sort_unstable();
        came
    }
}

impl Drop for Arrivals {
    /// The kernel takes a tenth of a second to close each such event, but many at once.
    fn drop(&mut self) {
        const AT_ONCE: usize = 64;
        let mut events: Vec<OwnedFd> = std::mem::take(&mut self.redirected);
        let each = events.len().div_ceil(AT_ONCE).max(1);
        let mut threads = Vec::new();
        while !events.is_empty() {
            let some = events.split_off(events.len().saturating_sub(each));
            threads.push(std::thread::spawn(|| drop(some)));
        }
        for (_, ring) in self.rings.drain(..) {
            threads.push(std::thread::spawn(|| drop(ring)));
        }
        // They close files, and cannot fail.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// Time, event and process of each sample: `struct perf_event_header`, then id, pid and tid, time. `lost` is told how many are missing.
fn decode<'a>(mut bytes: &'a [u8], lost: &'a mut u64) -> impl Iterator<Item = (u64, u64, i32)> + 'a {
    const SAMPLE: u32 = 9;
    const LOST: u32 = 2;
    let word = |record: &[u8], at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
    std::iter::from_fn(move || {
        loop {
            let head = word(bytes, 0)?;
            let record = bytes.get(..(head >> 48) as usize).filter(|record| record.len() >= 8)?;
            bytes = &bytes[record.len()..];
            if head as u32 == SAMPLE {
                return Some((word(record, 24)?, word(record, 8)?, word(record, 16)? as i32));
            }
            if head as u32 == LOST {
                *lost += word(record, 16).unwrap_or(1);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_others_skipped() {
        let mut bytes = Vec::new();
        let mut put = |kind: u32, words: &[u64]| {
            let head = u64::from(kind) | ((words.len() as u64 + 1) * 8) << 48;
            bytes.extend([&[head], words].concat().iter().flat_map(|word| word.to_ne_bytes()));
        };
        put(9, &[77, 5 | 6 << 32, 1000]);
        put(2, &[1, 2]);
        put(9, &[78, 8 | 9 << 32, 900]);
        put(9, &[78]);
        let mut lost = 0;
        assert_eq!(decode(&bytes, &mut lost).collect::<Vec<_>>(), [(1000, 77, 5), (900, 78, 8)]);
        assert_eq!(lost, 2);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length], &mut 0).count() <= 2);
        }
        assert_eq!(decode(&[0; 64], &mut 0).count(), 0);
    }
}
