//! What became of a plan.

use serde::Serialize;

/// Where pages lie that the plan says something about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pages {
    /// Where the plan wants them.
    pub right: u64,
    /// On another node.
    pub elsewhere: u64,
    /// Never used: they lie nowhere.
    pub unused: u64,
    /// Not asked about.
    pub unread: u64,
}

impl Pages {
    /// Those that lie somewhere.
    pub fn present(&self) -> u64 {
        self.right + self.elsewhere
    }

    /// The part of them that is right (0..1); none if there are none.
    pub fn achieved(&self) -> Option<f64> {
        (self.present() > 0).then(|| self.right as f64 / self.present() as f64)
    }

    pub(crate) fn add(&mut self, other: Pages) {
        self.right += other.right;
        self.elsewhere += other.elsewhere;
        self.unused += other.unused;
        self.unread += other.unread;
    }
}

/// Sizes of the pages of objects whose plan asks for large ones, as last seen while the program ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageSizes {
    /// Pages of 4 KiB that lay somewhere.
    pub used: u64,
    /// Those of them that were part of one of 2 MiB.
    pub huge: u64,
}

/// What became of one object of the plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleAchieved {
    /// What the plan calls it.
    pub object: String,
    /// As plans write it.
    pub policy: String,
    /// Of the plan; 0 without a text.
    pub line: usize,
    /// Nodes, in the order of the policy.
    pub nodes: Vec<u32>,
    /// Objects of the program that it matched.
    pub objects: u64,
    /// Their size.
    pub bytes: u64,
    /// Those of them without a whole page of their own.
    pub too_small: u64,
    /// Those of them that are placed but were not read back, for there were too many.
    pub unlisted: u64,
    /// Times that the system refused a policy, and why the last time.
    pub refused: u64,
    /// See there.
    pub refusal: Option<String>,
    /// Times that it took the next best policy instead: this kernel is too old for the one that was asked for.
    pub fell_back: u64,
    /// Where the pages lie.
    pub pages: Pages,
    /// Where the plan asks for pages of 2 MiB; none, too, if the program ended before anybody looked.
    pub page_sizes: Option<PageSizes>,
    /// Pages on each node: node and number.
    pub by_node: Vec<(u32, u64)>,
}

/// What became of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Achieved {
    /// Version of this format.
    pub version: u32,
    /// Where the plan's text lies; `--policy` without one.
    pub plan: String,
    /// Processes that took the plan.
    pub processes: u32,
    /// Threads that run where the plan wants them.
    pub pinned: u64,
    /// Threads that the system did not let run there.
    pub not_pinned: u64,
    /// The rule that failed, if the program was ended because the plan is strict.
    pub stopped: Option<String>,
    /// In the plan's order.
    pub rules: Vec<RuleAchieved>,
    /// What to know besides.
    pub remarks: Vec<String>,
}

impl Achieved {
    /// All pages.
    pub fn pages(&self) -> Pages {
        let mut all = Pages::default();
        self.rules.iter().for_each(|rule| all.add(rule.pages));
        all
    }
}
