//! The contents of a plan.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::places::Places;

/// A plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Where the text lies; errors name it.
    pub path: PathBuf,
    /// A policy that cannot be had ends the program; else the rest of the plan is applied all the same.
    pub strict: bool,
    /// The executable that objects without a module belong to; none: the one that the command names.
    pub program: Option<PathBuf>,
    /// Functions that allocate for others: a call site is told by their callers.
    pub wrappers: Vec<String>,
    /// Where threads run.
    pub pin: Pin,
    /// Line of it.
    pub pin_line: usize,
    /// In the order of the text: the first that matches decides.
    pub objects: Vec<Object>,
    /// Phases of the program, in the order of the text.
    pub phases: Vec<Phase>,
    /// The prediction for the plan, if it was made from a recording.
    pub predicted: Option<Predicted>,
}

/// The prediction for a plan: it changes nothing, and a comparison holds it against the result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// The machine that it was predicted for.
    pub machine: String,
    /// Seconds of the run without the plan; `None` where times were predicted of accesses to memory alone.
    pub now_s: Option<f64>,
    /// Lower end of the 95 % interval of `now_s`.
    pub now_low_s: Option<f64>,
    /// Upper end of it.
    pub now_high_s: Option<f64>,
    /// Seconds of the run under the plan.
    pub planned_s: Option<f64>,
    /// Lower end of the 95 % interval of `planned_s`.
    pub low_s: Option<f64>,
    /// Upper end of it.
    pub high_s: Option<f64>,
    /// Remote part of the accesses to memory without the plan, 0..1.
    pub remote_now: f64,
    /// The same under the plan.
    pub remote_planned: f64,
}

/// A part of the run in which objects may lie elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Line of the text.
    pub line: usize,
    /// Name by which objects, and the program by itself, refer to it.
    pub name: String,
    /// The function that it begins with; none: the program says so.
    pub function: Option<String>,
    /// File name or path of the module that defines it; none: the program's executable.
    pub module: Option<String>,
}

/// Where threads run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// Wherever the kernel likes.
    #[default]
    Free,
    /// Neighbours next to each other: node by node, core by core.
    Compact,
    /// Neighbours far from each other: one node after the other in turn.
    Scatter,
    /// The places of OpenMP (`OMP_PLACES`), one for each thread.
    Places(Places),
    /// The CPUs of each thread, in order of their creation, and again from the first.
    List(Vec<Vec<u32>>),
}

/// Some of the program's memory, and where it is to lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Line of the text.
    pub line: usize,
    /// Name for people; without one, it is called by its target.
    pub name: Option<String>,
    /// Which memory.
    pub target: Target,
    /// Functions that must have called the place, directly or not, from it outwards.
    pub callers: Vec<Site>,
    /// File name or path of the module that defines it; none: the program's executable.
    pub module: Option<String>,
    /// Bytes that it may have.
    pub bytes: RangeInclusive<u64>,
    /// Which of the objects that match, counted from 0 in each process.
    pub instances: RangeInclusive<u32>,
    /// Where it is to lie.
    pub policy: Policy,
    /// Where it is to lie in phases that have a policy of their own for it.
    pub phases: Vec<InPhase>,
    /// Pages that it is to have.
    pub page: Option<PageSize>,
    /// Small objects that are to lie together.
    pub gather: Option<Gather>,
}

/// Where an object lies in a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct InPhase {
    /// Line of the text.
    pub line: usize,
    /// The phase's name.
    pub phase: String,
    /// See there.
    pub policy: Policy,
}

/// Which memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A static variable, by its name in the source or its symbol.
    Static(String),
    /// Heap blocks, by where they are allocated; none: all.
    Heap(Option<Site>),
    /// Mappings, by the place that makes them; none: all.
    Map(Option<Site>),
    /// Memory to which the program itself gave the name (`numamma_label`).
    Label(String),
    /// All of it: static variables, heap blocks, and mappings that are as large.
    Any,
}

/// A place in the code: the first function on the call stack that the user wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// By name and line: it survives a build anew.
    Source {
        /// The function, with or without namespaces and parameters.
        function: Option<String>,
        /// Source file, or the end of its path, and line.
        line: Option<(String, u32)>,
    },
    /// Module and address in the file, as reports write it where there are no names.
    Address(String, u64),
}

/// A place for pages.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// Where they are used first.
    FirstTouch,
    /// There, and nowhere else.
    Bind(Nodes),
    /// There if there is room.
    Preferred(Nodes),
    /// Page by page in turn.
    Interleave(Nodes),
    /// The same by the weights that the system gives the nodes.
    Weighted(Nodes),
    /// As many equal blocks as nodes, one each.
    Block(Nodes),
    /// Blocks of `bytes` in turn.
    BlockCyclic {
        /// The nodes in their order.
        nodes: Nodes,
        /// Length of a block.
        bytes: u64,
    },
    /// Runs of pages.
    Map {
        /// Node and number of pages of 4 KiB.
        runs: Vec<(u32, u64)>,
        /// From the start again at the end; else the last node has the rest.
        repeat: bool,
    },
    /// Where a thread of the plan runs.
    FollowThread(u32),
}

/// Nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// All that have memory.
    All,
    /// Those with CPUs.
    WithCpus,
    /// Those without.
    MemoryOnly,
    /// These, in this order.
    List(Vec<u32>),
}

/// Size of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Huge,
}

/// How small objects of one place are gathered, so that what one node uses shares no page with others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// With those that the same thread allocates, on its node.
    ByThread,
    /// The first so many objects in equal parts, one part for each node.
    ByInstance(u32),
}

impl Policy {
    /// As plans write it.
    pub fn name(&self) -> &'static str {
        match self {
            Policy::FirstTouch => "first-touch",
            Policy::Bind(_) => "bind",
            Policy::Preferred(_) => "preferred",
            Policy::Interleave(_) => "interleave",
            Policy::Weighted(_) => "weighted-interleave",
            Policy::Block(_) => "block",
            Policy::BlockCyclic { .. } => "block-cyclic",
            Policy::Map { .. } => "map",
            Policy::FollowThread(_) => "follow-thread",
        }
    }
}

impl Object {
    /// Its name.
    pub fn title(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        match &self.target {
            Target::Static(name) | Target::Label(name) => name.clone(),
            Target::Heap(Some(site)) | Target::Map(Some(site)) => {
                let callers = self.callers.iter().map(|caller| format!(" < {caller}"));
                site.to_string() + &callers.collect::<String>()
            }
            Target::Heap(None) => "heap blocks".into(),
            Target::Map(None) => "mappings".into(),
            Target::Any => "all objects".into(),
        }
    }
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Site::Source { function: Some(function), line: Some((file, line)) } => {
                write!(f, "{function} {file}:{line}")
            }
            Site::Source { function: Some(function), line: None } => write!(f, "{function}"),
            Site::Source { function: None, line: Some((file, line)) } => write!(f, "{file}:{line}"),
            Site::Source { function: None, line: None } => write!(f, "anywhere"),
            Site::Address(module, address) => write!(f, "{module}+{address:#x}"),
        }
    }
}
