//! Caches by growing footprints: latency is level as long as a footprint fits into a cache, and rises behind it.

use numamma_topology::Cpu;

use crate::measurement::{CacheStep, Footprint};

const SMALLEST: usize = 4 << 10;
/// Latencies this close to each other are of one level.
const LEVEL: f64 = 1.3;
/// From one footprint to the next, where a new level begins.
const FLAT: f64 = 1.12;
/// The next level is that much slower; a slow end of a rise is none.
const NEXT: f64 = 1.5;
/// A size as found may be that far from what the kernel states, either way.
const SAME: f64 = 2.0;

/// Footprints up to `most` bytes: two for each power of two.
pub(crate) fn footprints(most: usize) -> Vec<usize> {
    let powers = (0..).map(|power| SMALLEST << power).take_while(|&bytes| bytes <= most);
    powers.flat_map(|bytes| [bytes, bytes + bytes / 2]).filter(|&bytes| bytes <= most).collect()
}

/// The caches that the latencies show, beside those that the kernel states for the CPU. The last level is memory, and no cache.
pub(crate) fn steps(points: &[Footprint], cpu: Option<&Cpu>) -> Vec<CacheStep> {
    let mut levels = levels(points);
    levels.pop();
    let data = || cpu.into_iter().flat_map(|cpu| &cpu.caches).filter(|cache| cache.kind != "Instruction");
    let step = |(bytes, latency_ns): (u64, f64)| {
        let distance = |stated: u64| (bytes as f64 / stated as f64).ln().abs();
        let stated = data().filter_map(|cache| Some((cache.level, cache.bytes.filter(|&bytes| bytes > 0)?)));
        let nearest = stated.min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
        let nearest = nearest.filter(|&(_, stated)| distance(stated) <= SAME.ln());
        CacheStep {
            bytes,
            latency_ns,
            level: nearest.map(|(level, _)| level),
            stated_bytes: nearest.map(|(_, bytes)| bytes),
        }
    };
    levels.into_iter().map(step).collect()
}

/// Level stretches of the curve: their last footprint and their latency.
fn levels(points: &[Footprint]) -> Vec<(u64, f64)> {
    let mut levels: Vec<(u64, f64)> = Vec::new();
    let mut index = 0;
    while index < points.len() {
        let first = points[index].latency_ns.median;
        let flat = |point: &&Footprint| point.latency_ns.median <= first * LEVEL;
        let of_level: Vec<&Footprint> = points[index..].iter().take_while(flat).collect();
        if let (Some(last), true) = (of_level.last(), of_level.len() > 1 || index == 0) {
            let mut latencies: Vec<f64> = of_level.iter().map(|point| point.latency_ns.median).collect();
            latencies.sort_by(f64::total_cmp);
            let median = latencies[latencies.len() / 2];
            levels.pop_if(|&mut (_, before)| median < before * NEXT);
            levels.push((last.bytes, median));
        }
        index += of_level.len().max(1);
        // Between two levels a footprint fits in part.
        while index + 1 < points.len() && points[index + 1].latency_ns.median > points[index].latency_ns.median * FLAT {
            index += 1;
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use numamma_topology::Cache;

    use super::*;
    use crate::estimate::Estimate;

    /// Caches of 32 KiB and 1 MiB before memory: 1, 4 and 90 ns.
    fn curve() -> Vec<Footprint> {
        let share = |bytes: usize, cache: f64| (cache / bytes as f64).min(1.0);
        let latency = |bytes: usize| {
            let (first, second) = (share(bytes, 32768.0), share(bytes, 1048576.0));
            first + (second - first).max(0.0) * 4.0 + (1.0 - second) * 90.0
        };
        let point = |bytes| Footprint { bytes: bytes as u64, latency_ns: Estimate::of(&[latency(bytes)]).unwrap() };
        footprints(512 << 20).into_iter().map(point).collect()
    }

    #[test]
    fn footprints_grow() {
        assert_eq!(footprints(17 << 10), [4096, 6144, 8192, 12288, 16384]);
        assert!(footprints(100).is_empty());
    }

    #[test]
    fn levels_are_found() {
        let cache =
            |level, kind: &str, bytes| Cache { level, kind: kind.into(), bytes: Some(bytes), ..Cache::default() };
        let caches = vec![cache(1, "Data", 32 << 10), cache(1, "Instruction", 64 << 10), cache(2, "Unified", 1 << 20)];
        let cpu = Cpu { caches, ..Cpu::default() };
        let steps = steps(&curve(), Some(&cpu));
        let shape: Vec<_> = steps.iter().map(|step| (step.bytes, step.level, step.stated_bytes)).collect();
        assert_eq!(shape[0], (32 << 10, Some(1), Some(32 << 10)), "{steps:?}");
        assert_eq!((shape[1].1, shape.len()), (Some(2), 2), "{steps:?}");
        assert!((768 << 10..=1536 << 10).contains(&shape[1].0), "{steps:?}");
    }

    #[test]
    fn no_caches_are_no_steps() {
        let point = |bytes| Footprint { bytes: bytes as u64, latency_ns: Estimate::of(&[50.0]).unwrap() };
        let flat: Vec<Footprint> = footprints(1 << 20).into_iter().map(point).collect();
        assert!(steps(&flat, None).is_empty());
        assert!(steps(&[], None).is_empty());
    }
}
