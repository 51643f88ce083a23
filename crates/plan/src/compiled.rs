//! A plan as the applier reads it.

use std::io;
use std::path::PathBuf;

use numamma_wire::{SharedPlan, Tables, plan as wire};

use crate::error::Fault;

/// Objects whose pages are read back; each takes 56 bytes.
const PLACED: u32 = 1 << 16;
/// Processes whose phase is known; others are in none.
const PROCESSES: u32 = 1 << 12;

/// A plan for one machine and the files of one program.
#[derive(Debug, Default)]
pub struct Compiled {
    /// Remarks about it before it is applied.
    pub remarks: Vec<Fault>,
    /// Names of its rules, in their order.
    pub names: Vec<RuleName>,
    pub(crate) strict: bool,
    pub(crate) rules: Vec<wire::Rule>,
    /// Device, inode, and the address of what is mapped of the file's start.
    pub(crate) modules: Vec<(u64, u64, u64)>,
    /// Beginnings of the names of libraries that are skipped.
    pub(crate) whole: Vec<String>,
    pub(crate) places: Vec<wire::Place>,
    pub(crate) statics: Vec<wire::Static>,
    pub(crate) nodes: Vec<u32>,
    pub(crate) runs: Vec<wire::Run>,
    pub(crate) threads: Vec<Vec<u32>>,
    /// Where the main thread's CPUs are, if it is pinned and they are all of one node.
    pub(crate) main_node: Option<u32>,
    /// Names that the program gives to memory, and their rules.
    pub(crate) labels: Vec<(String, u32)>,
    /// Names, whether a function begins them, and lines.
    pub(crate) phases: Vec<(String, bool, usize)>,
    /// By phase, the rule that stands in for each that has targets.
    pub(crate) overrides: Vec<u32>,
    pub(crate) markers: Vec<Marker>,
}

/// Where a phase begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The phase, from 1 on.
    pub phase: u32,
    /// The file that holds the code.
    pub file: PathBuf,
    /// Of the instruction in the file, bytes.
    pub offset: u64,
    /// Of the plan's text.
    pub line: usize,
}

/// Name of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleName {
    /// The object.
    pub title: String,
    /// As plans write it.
    pub policy: &'static str,
    /// Of the plan's text; 0 if there is none.
    pub line: usize,
}

impl Compiled {
    /// True if threads are pinned.
    pub fn pins(&self) -> bool {
        !self.threads.is_empty()
    }

    /// The names of its phases, and the lines of the plan that define them.
    pub fn phases(&self) -> impl Iterator<Item = (&str, usize)> {
        self.phases.iter().map(|(name, _, line)| (name.as_str(), *line))
    }

    /// Where functions begin that begin phases.
    pub fn markers(&self) -> &[Marker] {
        &self.markers
    }

    /// The rule that stands in for `rule` in a phase (from 1 on), or itself.
    pub fn rule_in(&self, phase: u32, rule: usize) -> usize {
        let rules = self.overrides.len() / self.phases.len().max(1);
        let Some(base) = self.rules.get(rule).map(|rule| rule.base as usize) else { return rule };
        let row =
            (phase as usize).checked_sub(1).and_then(|phase| self.overrides.get(phase * rules..(phase + 1) * rules));
        row.map_or(base, |row| row[base] as usize)
    }

    /// The nodes of a rule, in the order of its blocks.
    pub fn nodes_of(&self, rule: usize) -> &[u32] {
        let rule = &self.rules[rule];
        &self.nodes[rule.node as usize..][..rule.nodes as usize]
    }

    /// The runs of a rule's map.
    pub fn runs_of(&self, rule: usize) -> &[wire::Run] {
        let rule = &self.rules[rule];
        &self.runs[rule.run as usize..][..rule.runs as usize]
    }

    /// By module and address, each with how far those before it reach.
    fn places_in_order(&self) -> Vec<wire::Place> {
        let mut places = self.places.clone();
        places.sort_unstable_by_key(|place| (place.module, place.low, place.rule));
        let (mut module, mut reach) = (u32::MAX, 0);
        for place in &mut places {
            reach = if place.module == module { place.high.max(reach) } else { place.high };
            (module, place.reach) = (place.module, reach);
        }
        places
    }

    /// Puts it where the program can map it.
    ///
    /// # Errors
    /// If there is no memory for it, or it names more modules than the applier knows.
    pub fn share(&self) -> io::Result<SharedPlan> {
        let modules = self.modules.len() + self.whole.len();
        if modules > wire::MODULES {
            let message =
                format!("the plan names {} modules, at most {} are possible", self.modules.len(), wire::MODULES);
            return Err(io::Error::other(message));
        }
        let mut image = Image { bytes: vec![0; size_of::<wire::Header>()] };
        let mut texts = Vec::new();
        let mut module_table = Vec::new();
        let places = self.places_in_order();
        for (number, &(device, inode, start)) in self.modules.iter().enumerate() {
            let first = places.partition_point(|place| (place.module as usize) < number);
            let count = places[first..].partition_point(|place| place.module as usize == number);
            module_table.push([device, inode, 0, start, pair(first as u32, count as u32)]);
        }
        for name in &self.whole {
            // `whole` is 1, and `text` says where its name begins.
            module_table.push([0, 0, 1 | (texts.len() as u64) << 32, 0, 0]);
            texts.extend_from_slice(name.as_bytes());
            texts.push(0);
        }
        let mut text = |name: &str| {
            let at = texts.len() as u32;
            texts.extend_from_slice(name.as_bytes());
            texts.push(0);
            at
        };
        let labels: Vec<[u64; 1]> = self.labels.iter().map(|(name, rule)| [pair(text(name), *rule)]).collect();
        let phases: Vec<[u64; 2]> =
            self.phases.iter().map(|(name, by_function, _)| [pair(text(name), u32::from(*by_function)), 0]).collect();
        let least = |target: u32| {
            let of = self.rules.iter().filter(|rule| rule.targets & target != 0 && rule.gather == wire::GATHER_NOT);
            of.map(|rule| rule.least).min().unwrap_or(u64::MAX)
        };

        let rules = image.table(self.rules.iter().map(rule_words));
        let header = wire::Header {
            magic: wire::MAGIC,
            version: wire::VERSION,
            strict: self.strict.into(),
            least_heap: least(wire::TARGET_HEAP),
            least_map: least(wire::TARGET_MAP),
            main_node: self.main_node.map_or(0, |node| node + 1),
            rules,
            modules: image.table(module_table),
            places: image.table(places.iter().map(|p| [p.low, p.high, p.reach, pair(p.module, p.rule)])),
            statics: image.table(self.statics.iter().map(|s| [s.address, s.bytes, pair(s.module, s.rule)])),
            nodes: image.bytes(self.nodes.len(), self.nodes.iter().flat_map(|node| node.to_ne_bytes())),
            runs: image.table(self.runs.iter().map(|run| [run.pages, pair(run.node, 0)])),
            threads: image.table(self.threads.iter().map(|cpus| mask(cpus))),
            labels: image.table(labels),
            phases: image.table(phases),
            overrides: image.bytes(self.overrides.len(), self.overrides.iter().flat_map(|rule| rule.to_ne_bytes())),
            processes: image.table((0..PROCESSES).map(|_| [0_u64])),
            texts: image.bytes(texts.len(), texts.iter().copied()),
            placed: image.table((0..PLACED).map(|_| [0_u64; size_of::<wire::Placed>() / 8])),
            ..wire::Header::default()
        };
        image.set_header(&header);
        let range = |table: wire::Table| (table.at as usize, table.count as usize);
        let tables = Tables {
            rules: range(header.rules),
            phases: range(header.phases),
            processes: range(header.processes),
            placed: range(header.placed),
        };
        SharedPlan::new(&image.bytes, tables)
    }
}

/// Two halves of a word.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn mask(cpus: &[u32]) -> [u64; wire::CPUS as usize / 64] {
    let mut words = [0; wire::CPUS as usize / 64];
    for &cpu in cpus.iter().filter(|cpu| **cpu < wire::CPUS) {
        words[cpu as usize / 64] |= 1 << (cpu % 64);
    }
    words
}

fn rule_words(rule: &wire::Rule) -> [u64; size_of::<wire::Rule>() / 8] {
    let mut words = [0; size_of::<wire::Rule>() / 8];
    words[..9].copy_from_slice(&[
        pair(rule.targets, rule.any_place),
        rule.least,
        rule.most,
        pair(rule.first, rule.last),
        pair(rule.policy, rule.page_bytes),
        pair(rule.node, rule.nodes),
        pair(rule.run, rule.runs),
        pair(rule.repeat, rule.gather),
        rule.block_bytes,
    ]);
    words[9] = pair(rule.instances, rule.caller);
    words[10] = pair(rule.callers, rule.base);
    words[11] = pair(rule.phased, 0);
    words
}

/// The bytes of the file while it is made.
struct Image {
    bytes: Vec<u8>,
}

impl Image {
    fn bytes(&mut self, count: usize, bytes: impl Iterator<Item = u8>) -> wire::Table {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.bytes.len() as u32;
        self.bytes.extend(bytes);
        wire::Table { at, count: count as u32 }
    }

    fn table<const WORDS: usize>(&mut self, rows: impl IntoIterator<Item = [u64; WORDS]>) -> wire::Table {
        let mut table = self.bytes(0, std::iter::empty());
        for row in rows {
            table.count += 1;
            self.bytes.extend(row.iter().flat_map(|word| word.to_ne_bytes()));
        }
        table
    }

    fn set_header(&mut self, header: &wire::Header) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4096), 0);
        let tables = [
            header.rules,
            header.modules,
            header.places,
            header.statics,
            header.nodes,
            header.runs,
            header.threads,
            header.labels,
            header.phases,
            header.overrides,
            header.texts,
            header.processes,
            header.placed,
        ];
        let mut words = vec![
            header.magic,
            pair(header.version, header.strict),
            self.bytes.len() as u64,
            header.least_heap,
            header.least_map,
            pair(header.main_node, 0),
        ];
        words.extend(tables.iter().map(|table| pair(table.at, table.count)));
        for (at, word) in self.bytes.chunks_exact_mut(8).zip(words) {
            at.copy_from_slice(&word.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn what_was_compiled_is_read_as_it_was_meant() {
        let rule = wire::Rule {
            targets: wire::TARGET_HEAP,
            any_place: 1,
            least: 4096,
            most: u64::MAX,
            first: 2,
            last: 5,
            policy: wire::POLICY_CYCLIC,
            page_bytes: 4096,
            node: 0,
            nodes: 2,
            block_bytes: 65536,
            gather: wire::GATHER_BY_INSTANCE,
            instances: 10,
            ..wire::Rule::default()
        };
        let compiled = Compiled {
            strict: true,
            rules: vec![rule],
            nodes: vec![3, 1],
            threads: vec![vec![0, 65]],
            whole: vec!["libc.so".into()],
            modules: vec![(1, 2, 0)],
            ..Compiled::default()
        };
        let shared = compiled.share().expect("memory");
        let header = shared.header();
        assert_eq!((header.magic, header.version, header.strict), (wire::MAGIC, wire::VERSION, 1));
        assert_eq!((header.least_heap, header.least_map), (u64::MAX, u64::MAX));
        assert_eq!((header.modules.count, header.nodes.count, header.threads.count), (2, 2, 1));
        let rule = &shared.rules()[0];
        assert_eq!((rule.targets, rule.any_place, rule.least, rule.most), (wire::TARGET_HEAP, 1, 4096, u64::MAX));
        assert_eq!((rule.first, rule.last, rule.policy, rule.page_bytes), (2, 5, wire::POLICY_CYCLIC, 4096));
        assert_eq!(
            (rule.nodes, rule.block_bytes, rule.gather, rule.instances),
            (2, 65536, wire::GATHER_BY_INSTANCE, 10)
        );
        assert_eq!(rule.matched.load(Relaxed), 0);
        assert_eq!(shared.placed().len(), PLACED as usize);
        assert_eq!(header.bytes % 4096, 0);
    }
}
