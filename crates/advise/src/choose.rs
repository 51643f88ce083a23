//! The layout of each object with which the run is shortest, all objects together.
//!
//! Objects compete for nodes and for memory, so each is chosen with all others as they are, the most costly first, until nothing
//! changes; once from where all are touched first and once from all interleaved, since two objects on two nodes can be in each
//! other's way. Then each takes the simplest layout that costs the run no more than 1 % in all.

use numamma_findings::{ObjectUse, share_error};

use crate::evidence::memory;
use crate::layout::{Layout, Setting};
use crate::model::Model;
use crate::predict::is_placeable;
use crate::proposals::{Proposal, proposals};
use crate::time::Otherwise;
use crate::traffic::Traffic;

/// Objects with less than this share of the accesses to memory stay as they are.
pub const COLD: f64 = 0.01;
/// An object with fewer bytes of pages fits into a second-level cache (256 KiB on Intel's server cores before Skylake), so that the
/// place of its pages hardly matters.
pub const SMALL_BYTES: u64 = 256 << 10;
/// Fewer samples say nothing of an object's use: a share has an error of 18 points (95 %) at 30.
pub const FEWEST_SAMPLES: u64 = 30;
/// Extra run time that a simpler policy may cost, as a part of the run's time.
pub const SIMPLER: f64 = 0.01;
/// Rounds over all objects: mostly the second changes nothing.
const ROUNDS: usize = 4;
/// Weight of the mean thread's time beside the longest one's, which decides where the longest stays the same.
const MEAN: f64 = 0.01;

/// An object whose layout can be chosen.
#[derive(Debug)]
pub struct Choice {
    /// Index of the object in the recording.
    pub object: usize,
    /// Candidate layouts, simplest first.
    pub proposals: Vec<Proposal>,
    /// Accesses under each.
    pub traffic: Vec<Traffic>,
    /// Bytes on each node under each.
    pub bytes: Vec<Vec<f64>>,
    /// The chosen one.
    pub chosen: usize,
}

/// Why an object has no choice, or that it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has.
    Open,
    /// No plan can place it.
    Unplaceable,
    /// It is accessed too little.
    Cold,
    /// It is too small.
    Small,
    /// It has too few samples.
    FewSamples,
}

/// Weight of an object in the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// Share of all accesses to memory.
    pub share: f64,
    /// Half-width of its 95 % interval, of samples.
    pub error: Option<f64>,
    /// Samples at accesses to memory.
    pub samples: u64,
    /// Why the object has a choice of layouts, or none.
    pub standing: Standing,
}

/// Weight of each object in the run.
pub fn weigh(model: &Model<'_>) -> Vec<Weight> {
    let of = |object: &ObjectUse| object.instances.iter().map(memory).sum::<f64>();
    let all: f64 = model.usage.objects.iter().map(of).sum();
    let uses = |object: &'_ ObjectUse| -> u64 {
        let uses = object.instances.iter().flat_map(|instance| &instance.pages).flat_map(|page| &page.by_thread);
        uses.filter(|of| of.memory > 0.0).map(|of| of.samples).sum()
    };
    let samples_of_all: u64 = model.usage.objects.iter().map(uses).sum();
    let weigh = |object: &ObjectUse| {
        let share = of(object) / all;
        let samples = uses(object);
        let error = share_error(samples, samples_of_all);
        let pages: usize = object.instances.iter().map(|instance| instance.pages.len()).sum();
        let bytes: u64 = object.instances.iter().map(|instance| instance.bytes).sum();
        let standing = match () {
            () if !is_placeable(object) => Standing::Unplaceable,
            () if share < COLD => Standing::Cold,
            () if bytes.min(pages.max(1) as u64 * model.setting(&[]).unit_bytes()) < SMALL_BYTES => Standing::Small,
            () if !model.demand.is_exact() && samples < FEWEST_SAMPLES => Standing::FewSamples,
            () => Standing::Open,
        };
        Weight { share, error: error.filter(|_| !model.demand.is_exact()), samples, standing }
    };
    model.usage.objects.iter().map(weigh).collect()
}

/// All objects, of which some have a choice.
#[derive(Debug)]
pub struct Assignment<'a> {
    model: &'a Model<'a>,
    /// How pages are laid.
    pub setting: Setting<'a>,
    /// Objects with a choice, most accesses first.
    pub choices: Vec<Choice>,
    /// Accesses under what is chosen.
    pub traffic: Traffic,
    /// Bytes on each node under what is chosen.
    bytes: Vec<f64>,
}

impl<'a> Assignment<'a> {
    /// Everything where it is touched first.
    pub fn new(model: &'a Model<'a>, setting: Setting<'a>, weights: &[Weight]) -> Self {
        let (mut traffic, mut bytes) = (model.no_traffic(), vec![0.0; model.latencies.nodes]);
        let mut choices = Vec::new();
        for (n, object) in model.usage.objects.iter().enumerate() {
            let is_open = weights[n].standing == Standing::Open;
            let left = || vec![Proposal { layout: Layout::FirstTouch, rank: 0 }];
            let proposals = if is_open { proposals(model, &setting, object) } else { left() };
            let mut choice = Choice { object: n, proposals, traffic: Vec::new(), bytes: Vec::new(), chosen: 0 };
            for proposal in &choice.proposals {
                let mut own = model.no_traffic();
                model.add_traffic(&mut own, &setting, object, &proposal.layout, 0);
                choice.traffic.push(own);
                choice.bytes.push(placed_bytes(&setting, object, &proposal.layout));
            }
            traffic.add_all(&choice.traffic[0], 1.0);
            bytes.iter_mut().zip(&choice.bytes[0]).for_each(|(sum, bytes)| *sum += bytes);
            if is_open {
                choices.push(choice);
            }
        }
        choices.sort_by(|a, b| weights[b.object].share.total_cmp(&weights[a.object].share));
        Self { model, setting, choices, traffic, bytes }
    }

    /// Chooses for all objects.
    pub fn choose(&mut self) {
        self.improve();
        let (first, first_goal) = (self.chosen(), self.goal(&self.traffic));
        for n in 0..self.choices.len() {
            let is_interleaved = |proposal: &Proposal| matches!(proposal.layout, Layout::Interleave(_));
            let interleaved = self.choices[n].proposals.iter().position(is_interleaved);
            interleaved.filter(|&to| self.fits(n, to)).into_iter().for_each(|to| self.take(n, to));
        }
        self.improve();
        if first_goal <= self.goal(&self.traffic) * (1.0 + 1e-6) {
            first.into_iter().enumerate().for_each(|(n, to)| self.take(n, to));
        }
        self.simplify();
    }

    fn chosen(&self) -> Vec<usize> {
        self.choices.iter().map(|choice| choice.chosen).collect()
    }

    /// Takes the best for each object in turn until nothing changes.
    fn improve(&mut self) {
        for _ in 0..ROUNDS {
            let before = self.chosen();
            for n in 0..self.choices.len() {
                let goals = self.goals(n);
                let fits = (0..goals.len()).filter(|&to| self.fits(n, to));
                let best = fits.min_by(|&a, &b| goals[a].total_cmp(&goals[b])).unwrap_or(0);
                // What costs the same is no reason to change.
                if goals[best] < goals[self.choices[n].chosen] * (1.0 - 1e-6) {
                    self.take(n, best);
                }
            }
            if self.chosen() == before {
                break;
            }
        }
    }

    /// The least costly objects first take the simplest layout that keeps the run within 1 % of the best.
    fn simplify(&mut self) {
        let limit = self.goal(&self.traffic) * (1.0 + SIMPLER);
        for n in (0..self.choices.len()).rev() {
            let goals = self.goals(n);
            let rank = |to: usize| self.choices[n].proposals[to].rank;
            let simple = (0..goals.len()).filter(|&to| goals[to] <= limit && self.fits(n, to));
            let simplest = simple.min_by(|&a, &b| rank(a).cmp(&rank(b)).then(goals[a].total_cmp(&goals[b])));
            if let Some(simplest) = simplest.filter(|&to| rank(to) < rank(self.choices[n].chosen)) {
                self.take(n, simplest);
            }
        }
    }

    /// The time of all objects' accesses.
    pub fn time_s(&self, traffic: &Traffic) -> f64 {
        self.model.cost(self.setting.thread_nodes, traffic, Otherwise::default()).time_s
    }

    /// Objective to minimise: the time, and a little of the threads' mean time.
    pub fn goal(&self, traffic: &Traffic) -> f64 {
        let cost = self.model.cost(self.setting.thread_nodes, traffic, Otherwise::default());
        let threads = self.model.demand.included.iter().filter(|&&is| is).count().max(1);
        cost.time_s + MEAN * cost.waiting_s / threads as f64
    }

    /// The goal under each proposal for one object, all others as chosen.
    pub fn goals(&self, n: usize) -> Vec<f64> {
        let others = self.others(n);
        let with = |own: &Traffic| {
            let mut all = others.clone();
            all.add_all(own, 1.0);
            self.goal(&all)
        };
        self.choices[n].traffic.iter().map(with).collect()
    }

    /// Accesses to all objects but one.
    pub fn others(&self, n: usize) -> Traffic {
        let mut others = self.traffic.clone();
        others.add_all(&self.choices[n].traffic[self.choices[n].chosen], -1.0);
        others
    }

    /// True if the nodes have room.
    fn fits(&self, n: usize, to: usize) -> bool {
        let choice = &self.choices[n];
        let has_room = |node: usize| {
            let bytes = self.bytes[node] - choice.bytes[choice.chosen][node] + choice.bytes[to][node];
            self.model.machine.nodes[node].memory_bytes.is_none_or(|memory| bytes <= memory as f64)
        };
        // The kernel puts what is touched first on another node if one is full.
        to == 0 || (0..self.bytes.len()).all(has_room)
    }

    fn take(&mut self, n: usize, to: usize) {
        let choice = &mut self.choices[n];
        self.traffic.add_all(&choice.traffic[choice.chosen], -1.0);
        self.traffic.add_all(&choice.traffic[to], 1.0);
        for (node, sum) in self.bytes.iter_mut().enumerate() {
            *sum += choice.bytes[to][node] - choice.bytes[choice.chosen][node];
        }
        choice.chosen = to;
    }
}

/// Bytes on each node: those of each instance in the ratio of its listed pages.
fn placed_bytes(setting: &Setting<'_>, object: &ObjectUse, layout: &Layout) -> Vec<f64> {
    let mut bytes = vec![0.0; setting.latencies.nodes];
    for instance in object.instances.iter().filter(|instance| !instance.pages.is_empty()) {
        let each = instance.bytes as f64 / instance.pages.len() as f64;
        for node in setting.nodes(layout, object, instance) {
            bytes[node] += each;
        }
    }
    bytes
}
