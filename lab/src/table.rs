//! The file that is shared with the plug-in; `plugin/table.h` is the truth.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use numamma_topology::{CacheModel, Prefetch};

use crate::distance::LOCAL;
use crate::failure::{self, Failure, lab};
use crate::machine::Machine;
use crate::options::Options;

const MAGIC: u64 = 0x33_4241_544c_4d4e;
const CPUS: usize = 64;
const NODES: usize = 64;

/// In words of 64 bits.
const HEADER: usize = 16;
const ASTRAY: usize = 5;
const QUEUE: usize = 6;
const CACHING: usize = 7;
const CACHES: usize = 8;
const COUNTED: usize = HEADER + CPUS * NODES;
const BEFORE: usize = COUNTED + 2 * CPUS * NODES;
const SIZE: usize = BEFORE + 2 * CPUS * NODES;

/// What `guest/check.c` writes from each CPU to each node.
const CHECK_WRITES: u64 = 1000;

/// Accesses of one CPU to one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
}

/// What was counted.
#[derive(Debug, PartialEq, Eq)]
pub struct Counted {
    /// `[cpu][node]`
    pub cells: Vec<Vec<Cell>>,
    /// Accesses to memory of no node.
    pub astray: u64,
}

/// Writes the table of a machine where nothing was counted yet.
pub fn write(path: &Path, machine: &Machine, options: &Options) -> Result<(), Failure> {
    let mut words = vec![0u64; SIZE];
    // QEMU 7.2 adds up where the memory of a node begins among all memory, once as its own block and once in the machine.
    let span = 2 * (machine.mebibytes << 20);
    words[..4].copy_from_slice(&[MAGIC, machine.cpus() as u64, machine.nodes() as u64, span]);
    for cpu in 0..machine.cpus() {
        for (node, distance) in machine.distance[machine.node_of(cpu)].iter().enumerate() {
            words[HEADER + cpu * NODES + node] = options.delay * (distance - LOCAL) / LOCAL;
        }
    }
    words[QUEUE] = options.queue;
    if let Some(caches) = &options.caches {
        words[CACHES..CACHES + 5].copy_from_slice(&compiled(&machine.caches(caches)));
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(path, bytes).map_err(failure::file("write", path))
}

/// `struct nmm_caches`.
fn compiled(caches: &CacheModel) -> [u64; 5] {
    let prefetch = match caches.prefetch {
        Prefetch::None => 0,
        Prefetch::Next => 1,
        Prefetch::Stride => 2,
    };
    let (sets, ways) = (caches.sets(), caches.ways());
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    [
        pair(caches.line, prefetch),
        pair(caches.sockets, 0),
        pair(sets[0], sets[1]),
        pair(sets[2], ways[0]),
        pair(ways[1], ways[2]),
    ]
}

/// From now on accesses go through the caches.
pub fn begin_caching(path: &Path) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).open(path);
    let written = file.and_then(|file| file.write_all_at(&1u64.to_le_bytes(), (CACHING * 8) as u64));
    written.map_err(failure::file("write", path))
}

/// Reads what was counted until now.
pub fn read(path: &Path, machine: &Machine) -> Result<Counted, Failure> {
    let bytes = fs::read(path).map_err(failure::file("read", path))?;
    let word = |at: usize| {
        bytes.get(at * 8..at * 8 + 8).map_or(0, |eight| u64::from_le_bytes(eight.try_into().unwrap_or_default()))
    };
    let since = |cell: usize| word(COUNTED + cell).wrapping_sub(word(BEFORE + cell));
    let cell = |cpu: usize, node: usize| {
        let at = 2 * (cpu * NODES + node);
        Cell { reads: since(at), writes: since(at + 1) }
    };
    let cells = (0..machine.cpus()).map(|cpu| (0..machine.nodes()).map(|node| cell(cpu, node)).collect()).collect();
    Ok(Counted { cells, astray: word(ASTRAY) })
}

/// Fails unless the guest's known accesses were counted where they belong.
pub fn check(path: &Path, machine: &Machine) -> Result<(), Failure> {
    let bytes = fs::read(path).map_err(failure::file("read", path))?;
    let word = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap_or_default());
    for cpu in 0..machine.cpus() {
        for node in 0..machine.nodes() {
            let writes = word(COUNTED + 2 * (cpu * NODES + node) + 1);
            if !(CHECK_WRITES..=CHECK_WRITES + CHECK_WRITES / 50).contains(&writes) {
                return lab(format!(
                    "the plug-in counted {writes} of {CHECK_WRITES} writes from CPU {cpu} to node {node}: it does not know how this \
                     QEMU numbers memory; Debian 12's QEMU 7.2 is known to work"
                ));
            }
        }
    }
    Ok(())
}
