//! Accesses to memory by phase, thread and node: all that the time of a placement depends on.

/// One entry for each phase, thread and node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    threads: usize,
    nodes: usize,
    /// Loads that a thread waits for one after the other.
    pub misses: Vec<f64>,
    /// Seconds that they took in the recording.
    pub recorded_s: Vec<f64>,
    /// Variance of `misses` from sampling, over the square of one miss.
    pub variance: Vec<f64>,
}

/// Traffic of one use of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// As [`Traffic::misses`].
    pub misses: f64,
    /// As [`Traffic::recorded_s`].
    pub recorded_s: f64,
    /// As [`Traffic::variance`].
    pub variance: f64,
}

impl Traffic {
    /// None.
    pub fn new(phases: usize, threads: usize, nodes: usize) -> Self {
        let none = vec![0.0; phases * threads * nodes];
        Self { threads, nodes, misses: none.clone(), recorded_s: none.clone(), variance: none }
    }

    /// Adds one use.
    pub fn add(&mut self, phase: usize, thread: usize, node: usize, share: Share) {
        let at = (phase * self.threads + thread) * self.nodes + node;
        self.misses[at] += share.misses;
        self.recorded_s[at] += share.recorded_s;
        self.variance[at] += share.variance;
    }

    /// Adds `factor` times the other.
    pub fn add_all(&mut self, other: &Self, factor: f64) {
        let add = |to: &mut Vec<f64>, of: &Vec<f64>| to.iter_mut().zip(of).for_each(|(to, of)| *to += factor * of);
        add(&mut self.misses, &other.misses);
        add(&mut self.recorded_s, &other.recorded_s);
        add(&mut self.variance, &other.variance);
    }

    /// The entries of one phase, of each of the three vectors.
    pub fn phase<'a>(&self, of: &'a [f64], phase: usize) -> &'a [f64] {
        let length = self.threads * self.nodes;
        &of[phase * length..][..length]
    }

    /// Misses by node of the CPU and node of the page, over all phases: `[from * nodes + to]`.
    pub fn by_link(&self, thread_nodes: &[usize]) -> Vec<f64> {
        let mut links = vec![0.0; self.nodes * self.nodes];
        for (row, misses) in self.misses.chunks_exact(self.nodes.max(1)).enumerate() {
            let from = thread_nodes[row % self.threads];
            for (to, misses) in misses.iter().enumerate() {
                links[from * self.nodes + to] += misses;
            }
        }
        links
    }

    /// Share of the misses at the thread's own node; 1 if there are none.
    pub fn local_share(&self, thread_nodes: &[usize]) -> f64 {
        let links = self.by_link(thread_nodes);
        let (all, local): (f64, f64) = (links.iter().sum(), links.iter().step_by(self.nodes + 1).sum());
        if all > 0.0 { local / all } else { 1.0 }
    }
}
