//! Code addresses that occur in rows, with the file that held each of them at the time.

use rustc_hash::FxHashMap;

use crate::sites::Image;
use crate::space::mappings::PathId;
use crate::tasks::{PerProcess, ProcessId};

/// The addresses of each process.
#[derive(Debug, Default)]
pub struct CodePlaces {
    of: PerProcess<Places>,
}

#[derive(Debug)]
enum Places {
    Present(FxHashMap<u64, Option<Image>>),
    /// Of a process that has ended, when nothing is added any more: a shell's loop makes thousands of processes.
    Ended(Box<[Ended]>),
}

/// Address, and where it is in which file.
#[derive(Debug)]
struct Ended {
    ip: u64,
    address: u64,
    path: PathId,
}

/// Stands for code in no file.
const NO_FILE: PathId = PathId::MAX;

impl Default for Places {
    fn default() -> Self {
        Self::Present(FxHashMap::default())
    }
}

impl CodePlaces {
    /// Notes an address, unless it is known.
    pub fn note(&mut self, process: ProcessId, ip: u64, image: Option<Image>) {
        if let Places::Present(places) = self.of.of(process) {
            places.entry(ip).or_insert(image);
        }
    }

    /// A process has ended.
    pub fn end(&mut self, process: ProcessId) {
        let ended = self.of(process).map(|(ip, image)| {
            let (path, address) = image.unwrap_or((NO_FILE, 0));
            Ended { ip, address, path }
        });
        *self.of.of(process) = Places::Ended(ended.collect());
    }

    /// The addresses of a process, in no order.
    pub fn of(&self, process: ProcessId) -> impl Iterator<Item = (u64, Option<Image>)> {
        let (present, ended) = match self.of.get(process) {
            Some(Places::Present(places)) => (Some(places), &[][..]),
            Some(Places::Ended(places)) => (None, &**places),
            None => (None, &[][..]),
        };
        let present = present.into_iter().flatten().map(|(&ip, &image)| (ip, image));
        present.chain(ended.iter().map(|at| (at.ip, (at.path != NO_FILE).then_some((at.path, at.address)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_ran_is_known_when_it_has_ended() {
        let mut places = CodePlaces::default();
        places.note(1, 0x1000, Some((7, 0x10)));
        places.note(1, 0x1000, Some((8, 0x20)));
        places.note(1, 0x2000, None);
        places.note(2, 0x3000, None);
        let sorted = |places: &CodePlaces| {
            let mut of: Vec<_> = places.of(1).collect();
            of.sort_unstable();
            of
        };
        assert_eq!(sorted(&places), [(0x1000, Some((7, 0x10))), (0x2000, None)]);
        places.end(1);
        assert_eq!(sorted(&places), [(0x1000, Some((7, 0x10))), (0x2000, None)]);
        assert_eq!(places.of(3).count(), 0);
    }
}
