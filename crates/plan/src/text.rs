//! The text of a plan, TOML.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::error::{Fault, PlanError};
use crate::model::{Gather, InPhase, Nodes, Object, PageSize, Phase, Pin, Plan, Policy, Predicted, Site, Target};
use crate::places::Places;
use crate::size::{format_size, parse_size};

/// The version of the format that this program reads and writes.
const VERSION: i64 = 1;
const POLICIES: [&str; 9] = [
    "first-touch",
    "bind",
    "preferred",
    "interleave",
    "weighted-interleave",
    "block",
    "block-cyclic",
    "map",
    "follow-thread",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: Spanned<i64>,
    mode: Option<Spanned<String>>,
    program: Option<PathBuf>,
    #[serde(default)]
    wrappers: Vec<String>,
    threads: Option<Spanned<ThreadsText>>,
    #[serde(default, rename = "object")]
    objects: Vec<Spanned<ObjectText>>,
    #[serde(default, rename = "phase")]
    phases: Vec<Spanned<PhaseText>>,
    predicted: Option<Spanned<PredictedText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PredictedText {
    machine: String,
    now: Option<f64>,
    now_low: Option<f64>,
    now_high: Option<f64>,
    planned: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    remote_now: f64,
    remote_planned: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseText {
    name: Spanned<String>,
    function: Option<Spanned<String>>,
    module: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThreadsText {
    pin: Spanned<PinText>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "pin: \"compact\", \"scatter\", places as OpenMP has them, or the CPUs of each thread as texts, such as [\"0\", \"4-7\"]"
)]
enum PinText {
    Way(String),
    List(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ObjectText {
    name: Option<String>,
    r#static: Option<Spanned<String>>,
    heap: Option<Spanned<String>>,
    map: Option<Spanned<String>>,
    label: Option<Spanned<String>>,
    #[serde(default)]
    callers: Vec<Spanned<String>>,
    any: Option<Spanned<bool>>,
    module: Option<String>,
    min_size: Option<Spanned<SizeText>>,
    max_size: Option<Spanned<SizeText>>,
    instances: Option<Spanned<InstancesText>>,
    policy: Spanned<String>,
    nodes: Option<Spanned<NodesText>>,
    block: Option<Spanned<SizeText>>,
    pages: Option<Spanned<Vec<[u64; 2]>>>,
    repeat: Option<Spanned<bool>>,
    thread: Option<Spanned<u32>>,
    page_size: Option<Spanned<SizeText>>,
    gather: Option<Spanned<GatherText>>,
    #[serde(default)]
    phase: BTreeMap<Spanned<String>, InPhaseText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InPhaseText {
    policy: Spanned<String>,
    nodes: Option<Spanned<NodesText>>,
    block: Option<Spanned<SizeText>>,
    pages: Option<Spanned<Vec<[u64; 2]>>>,
    repeat: Option<Spanned<bool>>,
    thread: Option<Spanned<u32>>,
}

/// Keys of a policy, of an object or of one of its phases.
#[derive(Clone, Copy)]
struct PolicyText<'a> {
    policy: &'a Spanned<String>,
    nodes: Option<&'a Spanned<NodesText>>,
    block: Option<&'a Spanned<SizeText>>,
    pages: Option<&'a Spanned<Vec<[u64; 2]>>>,
    repeat: Option<&'a Spanned<bool>>,
    thread: Option<&'a Spanned<u32>>,
}

macro_rules! policy_text {
    ($text:expr) => {
        PolicyText {
            policy: &$text.policy,
            nodes: $text.nodes.as_ref(),
            block: $text.block.as_ref(),
            pages: $text.pages.as_ref(),
            repeat: $text.repeat.as_ref(),
            thread: $text.thread.as_ref(),
        }
    };
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a size, such as 65536 or \"64 KiB\"")]
enum SizeText {
    Bytes(u64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "instances: a number from 0, \"2-5\", \"3-\" or \"all\"")]
enum InstancesText {
    One(u32),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "nodes: [0, 1], \"0-3\", \"all\", \"with-cpus\" or \"memory-only\"")]
enum NodesText {
    List(Vec<u32>),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "gather: \"by-thread\" or { instances = N }")]
enum GatherText {
    Way(String),
    Count { instances: u32 },
}

impl Plan {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or says what cannot be meant: then all that is wrong, with lines.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| PlanError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Reads a text; errors call it `path`.
    ///
    /// # Errors
    /// As [`Plan::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, PlanError> {
        let faulty = |faults| PlanError::Faulty { path: path.to_owned(), faults };
        let line_of =
            |offset: usize| 1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count();
        let mut reader = Reader { line_of: &line_of, faults: Vec::new() };
        let parsed: Text = toml::from_str(text).map_err(|error| {
            let is_versioned = |line: &str| line.trim_start().starts_with("version");
            if !text.lines().any(is_versioned) {
                let what = "no plan: a plan begins with version = 1, and `numamma plan` writes one";
                return faulty(vec![Fault::new(1, what)]);
            }
            let line = error.span().map_or(0, |span| line_of(span.start));
            faulty(vec![Fault::new(line, error.message().lines().next().unwrap_or_default())])
        })?;
        let plan = reader.plan(parsed, path);
        if reader.faults.is_empty() {
            return Ok(plan);
        }
        reader.faults.sort_by_key(|fault| fault.line);
        Err(faulty(reader.faults))
    }
}

/// Makes a plan of a text and notes what is wrong on the way.
struct Reader<'a> {
    line_of: &'a dyn Fn(usize) -> usize,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn line<T>(&self, of: &Spanned<T>) -> usize {
        (self.line_of)(of.span().start)
    }

    fn fault<T>(&mut self, of: &Spanned<T>, message: impl Into<String>) {
        let line = self.line(of);
        self.faults.push(Fault::new(line, message));
    }

    fn plan(&mut self, text: Text, path: &Path) -> Plan {
        if *text.version.get_ref() != VERSION {
            self.fault(
                &text.version,
                format!("version {}: this program reads version {VERSION}", text.version.get_ref()),
            );
        }
        let strict = match &text.mode {
            None => false,
            Some(mode) => match mode.get_ref().as_str() {
                "strict" => true,
                "best-effort" => false,
                other => {
                    self.fault(mode, format!("mode \"{other}\": \"best-effort\" or \"strict\""));
                    false
                }
            },
        };
        let pin_line = text.threads.as_ref().map_or(0, |threads| self.line(&threads.get_ref().pin));
        let pin = text.threads.map_or(Pin::Free, |threads| self.pin(&threads.into_inner().pin));
        let phases = self.phases(&text.phases);
        let objects = text.objects.into_iter().filter_map(|object| self.object(&object, &phases)).collect();
        let predicted = text.predicted.map(|predicted| self.predicted(predicted));
        Plan {
            path: path.into(),
            strict,
            program: text.program,
            wrappers: text.wrappers,
            pin,
            pin_line,
            objects,
            phases,
            predicted,
        }
    }

    fn predicted(&mut self, text: Spanned<PredictedText>) -> Predicted {
        let of = text.get_ref();
        let is_wrong = |value: &f64| !value.is_finite() || *value < 0.0;
        if [of.now, of.now_low, of.now_high, of.planned, of.low, of.high].iter().flatten().any(is_wrong) {
            self.fault(&text, "predicted: times are seconds, 0 or more");
        }
        if [of.remote_now, of.remote_planned].iter().any(|share| !(0.0..=1.0).contains(share)) {
            self.fault(&text, "predicted: remote shares are between 0 and 1");
        }
        let of = text.into_inner();
        Predicted {
            machine: of.machine,
            now_s: of.now,
            now_low_s: of.now_low,
            now_high_s: of.now_high,
            planned_s: of.planned,
            low_s: of.low,
            high_s: of.high,
            remote_now: of.remote_now,
            remote_planned: of.remote_planned,
        }
    }

    fn phases(&mut self, texts: &[Spanned<PhaseText>]) -> Vec<Phase> {
        let mut phases: Vec<Phase> = Vec::new();
        for spanned in texts {
            let text = spanned.get_ref();
            let name = text.name.get_ref();
            if name.is_empty() || name.chars().any(char::is_control) {
                self.fault(&text.name, "a phase needs a name of one line");
            }
            if let Some(before) = phases.iter().find(|phase| phase.name == *name) {
                self.fault(&text.name, format!("phase \"{name}\" is that of line {}", before.line));
            }
            if let Some(of) = text.function.as_ref().filter(|of| of.get_ref().trim().is_empty()) {
                self.fault(of, "function: a name is missing");
            }
            if let (None, Some(module)) = (&text.function, &text.module) {
                self.fault(module, "module belongs to function");
            }
            phases.push(Phase {
                line: self.line(spanned),
                name: name.clone(),
                function: text.function.as_ref().map(|of| of.get_ref().clone()),
                module: text.module.as_ref().map(|of| of.get_ref().clone()),
            });
        }
        phases
    }

    fn in_phases(&mut self, text: &ObjectText, phases: &[Phase]) -> Vec<InPhase> {
        let mut found = Vec::new();
        for (name, of) in &text.phase {
            if !phases.iter().any(|phase| phase.name == *name.get_ref()) {
                self.fault(name, format!("no [[phase]] is called \"{}\"", name.get_ref()));
            }
            if let Some(policy) = self.policy(policy_text!(of)) {
                found.push(InPhase { line: self.line(&of.policy), phase: name.get_ref().clone(), policy });
            }
        }
        if let (Some(gather), false) = (&text.gather, text.phase.is_empty()) {
            self.fault(gather, "what is gathered lies where it was allocated, in all phases");
        }
        found
    }

    fn pin(&mut self, pin: &Spanned<PinText>) -> Pin {
        match pin.get_ref() {
            PinText::Way(way) => match way.as_str() {
                "compact" => Pin::Compact,
                "scatter" => Pin::Scatter,
                "free" => Pin::Free,
                other if Places::is_meant(other) => match Places::parse(other) {
                    Ok(places) => Pin::Places(places),
                    Err(message) => {
                        self.fault(pin, format!("pin: {message}"));
                        Pin::Free
                    }
                },
                other => {
                    self.fault(
                        pin,
                        format!("pin \"{other}\": \"compact\", \"scatter\", \"free\", places as OpenMP has them (\"cores\", \"{{0:4}},{{4:4}}\"), or a list of CPUs for each thread, as [\"0\", \"1\", \"4-7\"]"),
                    );
                    Pin::Free
                }
            },
            PinText::List(list) => {
                let mut cpus = Vec::new();
                for text in list {
                    match numamma_topology::list::parse(text).filter(|cpus| !cpus.is_empty()) {
                        Some(found) => cpus.push(found),
                        None => self.fault(pin, format!("\"{text}\" is no list of CPUs, such as \"0-3,8\"")),
                    }
                }
                if list.is_empty() {
                    self.fault(pin, "pin: an empty list; leave [threads] out to let threads run anywhere");
                }
                Pin::List(cpus)
            }
        }
    }

    fn object(&mut self, spanned: &Spanned<ObjectText>, phases: &[Phase]) -> Option<Object> {
        let text = spanned.get_ref();
        let before = self.faults.len();
        let target = self.target(spanned);
        let bytes = self.sizes(text);
        let instances = text.instances.as_ref().map_or(0..=u32::MAX, |of| self.instances(of));
        let policy = self.policy(policy_text!(text));
        let phases = self.in_phases(text, phases);
        let page = text.page_size.as_ref().and_then(|of| match self.size(of)? {
            4096 => Some(PageSize::Small),
            HUGE => Some(PageSize::Huge),
            _ => {
                self.fault(of, "page-size: \"4 KiB\" or \"2 MiB\"");
                None
            }
        });
        let gather = text.gather.as_ref().and_then(|of| match of.get_ref() {
            GatherText::Way(way) if way == "by-thread" => Some(Gather::ByThread),
            GatherText::Count { instances: 1.. } => match of.get_ref() {
                GatherText::Count { instances } => Some(Gather::ByInstance(*instances)),
                GatherText::Way(_) => None,
            },
            _ => {
                self.fault(of, "gather: \"by-thread\", or { instances = N } for the first N objects in equal parts");
                None
            }
        });
        if let (Some(of), Some(target)) = (&text.gather, &target) {
            if !matches!(target, Target::Heap(Some(_))) {
                self.fault(of, "gather: only heap blocks of one place (heap = \"...\") can be gathered");
            }
            if !matches!(policy, Some(Policy::Block(_) | Policy::FirstTouch | Policy::Bind(_))) {
                self.fault(of, "gather goes with the policies block, bind and first-touch");
            }
        }
        let texts = [&text.name, &text.module].into_iter().flatten();
        let texts = texts
            .chain([&text.r#static, &text.heap, &text.map, &text.label].into_iter().flatten().map(Spanned::get_ref));
        if texts.into_iter().any(|text| text.chars().any(char::is_control)) {
            self.fault(spanned, "names must be of one line, without control characters");
        }
        let callers = self.callers(text, target.as_ref());
        let line = self.line(spanned);
        let object = Object {
            line,
            name: text.name.clone(),
            target: target?,
            callers,
            module: text.module.clone(),
            bytes: bytes?,
            instances,
            policy: policy?,
            phases,
            page,
            gather,
        };
        (self.faults.len() == before).then_some(object)
    }

    fn callers(&mut self, text: &ObjectText, target: Option<&Target>) -> Vec<Site> {
        let mut callers = Vec::new();
        for of in &text.callers {
            match parse_site(of.get_ref()).filter(|_| !of.get_ref().chars().any(char::is_control)) {
                Some(site @ Site::Source { .. }) => callers.push(site),
                _ => self.fault(of, format!("callers: \"{}\" is neither FUNCTION nor FILE:LINE", of.get_ref())),
            }
        }
        if let (Some(of), Some(target)) = (text.callers.first(), target)
            && !matches!(target, Target::Heap(Some(_)) | Target::Map(Some(_)))
        {
            self.fault(of, "callers belong to a place (heap = \"...\" or map = \"...\")");
        }
        callers
    }

    fn target(&mut self, spanned: &Spanned<ObjectText>) -> Option<Target> {
        let text = spanned.get_ref();
        let site = |reader: &mut Self, of: &Spanned<String>| {
            if of.get_ref() == "*" {
                return Some(None);
            }
            let site = parse_site(of.get_ref());
            if site.is_none() {
                reader.fault(of, format!("\"{}\" is no place in the code: FUNCTION, FILE:LINE, FUNCTION FILE:LINE, MODULE+0xADDRESS, or * for all", of.get_ref()));
            }
            site.map(Some)
        };
        match (&text.r#static, &text.heap, &text.map, &text.label, &text.any) {
            (Some(name), None, None, None, None) => Some(Target::Static(name.get_ref().clone())),
            (None, Some(of), None, None, None) => site(self, of).map(Target::Heap),
            (None, None, Some(of), None, None) => site(self, of).map(Target::Map),
            (None, None, None, Some(name), None) if name.get_ref().is_empty() => {
                self.fault(name, "label: a name is missing");
                None
            }
            (None, None, None, Some(name), None) => Some(Target::Label(name.get_ref().clone())),
            (None, None, None, None, Some(any)) if *any.get_ref() => Some(Target::Any),
            _ => {
                self.fault(
                    spanned,
                    "an object needs one of static = \"VARIABLE\", heap = \"PLACE\", map = \"PLACE\", label = \"NAME\" and any = true",
                );
                None
            }
        }
    }

    fn size(&mut self, of: &Spanned<SizeText>) -> Option<u64> {
        let size = match of.get_ref() {
            SizeText::Bytes(bytes) => Some(*bytes),
            SizeText::Text(text) => parse_size(text),
        };
        if size.is_none() {
            self.fault(of, "not a size, such as 65536 or \"64 KiB\"");
        }
        size
    }

    fn sizes(&mut self, text: &ObjectText) -> Option<RangeInclusive<u64>> {
        let low = text.min_size.as_ref().map_or(Some(0), |of| self.size(of));
        let high = text.max_size.as_ref().map_or(Some(u64::MAX), |of| self.size(of));
        let (low, high) = low.zip(high)?;
        if low > high
            && let Some(of) = &text.max_size
        {
            self.fault(of, "max-size is less than min-size");
        }
        Some(low..=high)
    }

    fn instances(&mut self, of: &Spanned<InstancesText>) -> RangeInclusive<u32> {
        let range = match of.get_ref() {
            InstancesText::One(n) => Some(*n..=*n),
            InstancesText::Text(text) if text == "all" => Some(0..=u32::MAX),
            InstancesText::Text(text) => match text.split_once('-') {
                Some((first, "")) => first.trim().parse().ok().map(|first| first..=u32::MAX),
                Some((first, last)) => first.trim().parse().ok().zip(last.trim().parse().ok()).map(|(a, b)| a..=b),
                None => text.trim().parse().ok().map(|n| n..=n),
            },
        };
        range.filter(|range| !range.is_empty()).unwrap_or_else(|| {
            self.fault(of, "instances: a number from 0, \"2-5\", \"3-\" or \"all\"");
            0..=u32::MAX
        })
    }

    fn nodes(&mut self, of: Option<&Spanned<NodesText>>) -> Nodes {
        let Some(of) = of else { return Nodes::All };
        match of.get_ref() {
            NodesText::List(list) => {
                let mut sorted = list.clone();
                sorted.sort_unstable();
                if list.is_empty() {
                    self.fault(of, "nodes: an empty list");
                } else if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
                    self.fault(of, "nodes: a node twice");
                }
                Nodes::List(list.clone())
            }
            NodesText::Text(text) => match text.as_str() {
                "all" => Nodes::All,
                "with-cpus" => Nodes::WithCpus,
                "memory-only" => Nodes::MemoryOnly,
                other => match numamma_topology::list::parse(other).filter(|list| !list.is_empty()) {
                    Some(list) => Nodes::List(list),
                    None => {
                        self.fault(
                            of,
                            format!("nodes \"{other}\": [0, 1], \"0-3\", \"all\", \"with-cpus\" or \"memory-only\""),
                        );
                        Nodes::All
                    }
                },
            },
        }
    }

    fn policy(&mut self, text: PolicyText<'_>) -> Option<Policy> {
        let name = text.policy.get_ref().as_str();
        // Keys of one policy only.
        for (present, key, of) in [
            (text.block.map(|of| self.line(of)), "block", "block-cyclic"),
            (text.pages.map(|of| self.line(of)), "pages", "map"),
            (text.repeat.map(|of| self.line(of)), "repeat", "map"),
            (text.thread.map(|of| self.line(of)), "thread", "follow-thread"),
        ] {
            if let Some(line) = present.filter(|_| name != of) {
                self.faults.push(Fault::new(line, format!("{key} belongs to the policy {of}, this one is {name}")));
            }
        }
        if let Some(of) = text.nodes.filter(|_| ["first-touch", "map", "follow-thread"].contains(&name)) {
            self.fault(of, format!("the policy {name} takes no nodes"));
        }
        let nodes = self.nodes(text.nodes);
        match name {
            "first-touch" => Some(Policy::FirstTouch),
            "bind" | "preferred" if text.nodes.is_none() => {
                self.fault(text.policy, format!("the policy {name} needs nodes = [...]"));
                None
            }
            "bind" => Some(Policy::Bind(nodes)),
            "preferred" => Some(Policy::Preferred(nodes)),
            "interleave" => Some(Policy::Interleave(nodes)),
            "weighted-interleave" => Some(Policy::Weighted(nodes)),
            "block" => Some(Policy::Block(nodes)),
            "block-cyclic" => match text.block {
                Some(of) => {
                    let bytes = self.size(of)?;
                    if bytes == 0 {
                        self.fault(of, "block: 0 bytes");
                    }
                    Some(Policy::BlockCyclic { nodes, bytes })
                }
                None => {
                    self.fault(text.policy, "the policy block-cyclic needs block = \"SIZE\"");
                    None
                }
            },
            "map" => match text.pages {
                Some(of) => {
                    let runs: Vec<(u32, u64)> = of
                        .get_ref()
                        .iter()
                        .map(|&[node, pages]| (u32::try_from(node).unwrap_or(u32::MAX), pages))
                        .collect();
                    if runs.is_empty() || runs.iter().any(|(_, pages)| *pages == 0 || *pages > 1 << 40) {
                        self.fault(of, "pages: [[NODE, PAGES], ...] with at least one page each");
                    }
                    Some(Policy::Map { runs, repeat: text.repeat.is_some_and(|of| *of.get_ref()) })
                }
                None => {
                    self.fault(text.policy, "the policy map needs pages = [[NODE, PAGES], ...]");
                    None
                }
            },
            "follow-thread" => match text.thread {
                Some(of) => Some(Policy::FollowThread(*of.get_ref())),
                None => {
                    self.fault(text.policy, "the policy follow-thread needs thread = NUMBER");
                    None
                }
            },
            other => {
                self.fault(text.policy, format!("policy \"{other}\": one of {}", POLICIES.join(", ")));
                None
            }
        }
    }
}

const HUGE: u64 = 2 << 20;

/// A place in the code.
fn parse_site(text: &str) -> Option<Site> {
    // Reports write the variable in front of the place.
    let text = text.split_once(" at ").map_or(text, |(_, place)| place).trim();
    if let Some((module, address)) = text.rsplit_once("+0x")
        && let Ok(address) = u64::from_str_radix(address, 16)
        && !module.is_empty()
    {
        // Where there are no lines, reports name the function in front of it.
        let module = module.rsplit_once(' ').map_or(module, |(_, module)| module);
        return Some(Site::Address(module.into(), address));
    }
    // Names of functions may hold spaces and colons; a line ends with a number.
    let (function, place) = match text.rsplit_once(' ') {
        Some((function, place)) if line_of(place).is_some() => (Some(function.trim()), Some(place)),
        _ if line_of(text).is_some() => (None, Some(text)),
        _ => (Some(text), None),
    };
    let function = function.filter(|name| !name.is_empty()).map(String::from);
    let line = place.and_then(line_of);
    (function.is_some() || line.is_some()).then_some(Site::Source { function, line })
}

fn line_of(text: &str) -> Option<(String, u32)> {
    let (file, line) = text.rsplit_once(':')?;
    let line = line.parse().ok().filter(|&line| line > 0)?;
    (!file.is_empty() && !file.ends_with(':')).then(|| (file.into(), line))
}

impl Plan {
    /// As text that reads back as the same plan.
    pub fn to_text(&self) -> String {
        let mut text = format!("version = {VERSION}\n");
        let quoted = |text: &str| toml::Value::from(text).to_string();
        // Writing to a string cannot fail.
        let mode = if self.strict { "strict" } else { "best-effort" };
        let _ = writeln!(text, "mode = \"{mode}\"");
        if let Some(program) = &self.program {
            let _ = writeln!(text, "program = {}", quoted(&program.to_string_lossy()));
        }
        if !self.wrappers.is_empty() {
            let names: Vec<String> = self.wrappers.iter().map(|name| quoted(name)).collect();
            let _ = writeln!(text, "wrappers = [{}]", names.join(", "));
        }
        let pin = match &self.pin {
            Pin::Free => None,
            Pin::Compact => Some("\"compact\"".into()),
            Pin::Scatter => Some("\"scatter\"".into()),
            Pin::Places(places) => Some(quoted(&places.to_string())),
            Pin::List(list) => {
                let lists: Vec<String> =
                    list.iter().map(|cpus| format!("\"{}\"", numamma_topology::list::format(cpus))).collect();
                Some(format!("[{}]", lists.join(", ")))
            }
        };
        if let Some(pin) = pin {
            let _ = writeln!(text, "\n[threads]\npin = {pin}");
        }
        if let Some(predicted) = &self.predicted {
            let _ = writeln!(text, "\n[predicted]\nmachine = {}", quoted(&predicted.machine));
            let times = [
                ("now", predicted.now_s),
                ("now-low", predicted.now_low_s),
                ("now-high", predicted.now_high_s),
                ("planned", predicted.planned_s),
                ("low", predicted.low_s),
                ("high", predicted.high_s),
            ];
            for (key, seconds) in times {
                if let Some(seconds) = seconds {
                    let _ = writeln!(text, "{key} = {seconds:?}");
                }
            }
            let _ = writeln!(text, "remote-now = {:?}", predicted.remote_now);
            let _ = writeln!(text, "remote-planned = {:?}", predicted.remote_planned);
        }
        for phase in &self.phases {
            let _ = writeln!(text, "\n[[phase]]\nname = {}", quoted(&phase.name));
            for (key, value) in [("function", &phase.function), ("module", &phase.module)] {
                if let Some(value) = value {
                    let _ = writeln!(text, "{key} = {}", quoted(value));
                }
            }
        }
        for object in &self.objects {
            text += "\n[[object]]\n";
            object.write(&mut text);
        }
        text
    }
}

impl Object {
    fn write(&self, text: &mut String) {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let site = |site: &Option<Site>| quoted(&site.as_ref().map_or("*".into(), ToString::to_string));
        let mut line = |key: &str, value: String| {
            let _ = writeln!(text, "{key} = {value}");
        };
        if let Some(name) = &self.name {
            line("name", quoted(name));
        }
        match &self.target {
            Target::Static(name) => line("static", quoted(name)),
            Target::Heap(of) => line("heap", site(of)),
            Target::Map(of) => line("map", site(of)),
            Target::Label(name) => line("label", quoted(name)),
            Target::Any => line("any", "true".into()),
        }
        if !self.callers.is_empty() {
            let callers: Vec<String> = self.callers.iter().map(|caller| quoted(&caller.to_string())).collect();
            line("callers", format!("[{}]", callers.join(", ")));
        }
        if let Some(module) = &self.module {
            line("module", quoted(module));
        }
        if *self.bytes.start() > 0 {
            line("min-size", quoted(&format_size(*self.bytes.start())));
        }
        if *self.bytes.end() < u64::MAX {
            line("max-size", quoted(&format_size(*self.bytes.end())));
        }
        match (*self.instances.start(), *self.instances.end()) {
            (0, u32::MAX) => {}
            (first, u32::MAX) => line("instances", format!("\"{first}-\"")),
            (first, last) if first == last => line("instances", first.to_string()),
            (first, last) => line("instances", format!("\"{first}-{last}\"")),
        }
        self.policy.write(&mut line);
        match self.page {
            Some(PageSize::Small) => line("page-size", "\"4 KiB\"".into()),
            Some(PageSize::Huge) => line("page-size", "\"2 MiB\"".into()),
            None => {}
        }
        match self.gather {
            Some(Gather::ByThread) => line("gather", "\"by-thread\"".into()),
            Some(Gather::ByInstance(count)) => line("gather", format!("{{ instances = {count} }}")),
            None => {}
        }
        for phase in &self.phases {
            let _ = writeln!(text, "[object.phase.{}]", quoted(&phase.phase));
            phase.policy.write(&mut |key, value| {
                let _ = writeln!(text, "{key} = {value}");
            });
        }
    }
}

impl Policy {
    /// Its lines: key and value.
    fn write(&self, line: &mut impl FnMut(&str, String)) {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        line("policy", quoted(self.name()));
        let nodes = match self {
            Policy::Bind(nodes)
            | Policy::Preferred(nodes)
            | Policy::Interleave(nodes)
            | Policy::Weighted(nodes)
            | Policy::Block(nodes)
            | Policy::BlockCyclic { nodes, .. } => Some(nodes),
            _ => None,
        };
        match nodes {
            Some(Nodes::WithCpus) => line("nodes", "\"with-cpus\"".into()),
            Some(Nodes::MemoryOnly) => line("nodes", "\"memory-only\"".into()),
            Some(Nodes::List(list)) => line("nodes", format!("{list:?}")),
            Some(Nodes::All) | None => {}
        }
        match self {
            Policy::BlockCyclic { bytes, .. } => line("block", quoted(&format_size(*bytes))),
            Policy::Map { runs, repeat } => {
                let runs: Vec<String> = runs.iter().map(|(node, pages)| format!("[{node}, {pages}]")).collect();
                line("pages", format!("[{}]", runs.join(", ")));
                if *repeat {
                    line("repeat", "true".into());
                }
            }
            Policy::FollowThread(thread) => line("thread", thread.to_string()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
