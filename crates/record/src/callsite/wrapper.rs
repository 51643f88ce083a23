//! Functions that allocate for others: `xmalloc`, `Allocate<T>`, the constructor of a container, an interpreter's two layers
//! above malloc.
//!
//! That a function is called from many places and allocates is not enough. A wrapper gives its caller the pointer:
//!
//! - it returns it, or stores it where an argument points, its object included: the code behind its call is followed there,
//! - always: a function that also allocates what it keeps is none,
//! - and at least two calls of it were seen: else its own line says as much as its caller's. All that a template makes is one
//!   function.
//!
//! The more it makes of the memory, the more must tell that it is its caller's:
//!
//! - nothing, if it is told a size, has no loop and either allocates memory for anything (`void *`, or through a `void **`, in
//!   the words of debug information) or does not store to it: an allocator,
//! - nothing, if it is a constructor: each call makes another object,
//! - else the callers must keep the pointer in at least two variables of different names: `a = zeros(n); b = zeros(n);`. One
//!   that allocates less than a page, always as much, makes a node of something larger and is no wrapper.
//!
//! Where there is no debug information, it must return the pointer without a loop, and four calls of it must have been seen, and
//! sixteen if it passes the pointer to another function or stores more than a header: a constructor does so, and an allocator
//! that keeps accounts.

use numamma_symbols::{Returns, origin};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Address, CallSites, DEEPEST_WRAPPER, Exit, Link, flow};
use crate::modules::ModuleStore;
use crate::space::mappings::PathId;

/// Calls that make a function a wrapper if debug information says what it returns.
const CALLS: usize = 2;
/// The same without debug information.
const CALLS_WITHOUT_TYPE: usize = 4;
/// The same if it does something with what it allocated.
const CALLS_OF_BUSY: usize = 16;

/// Names of variables that callers must keep the pointer in, where its type does not tell.
const NAMES: usize = 2;
/// Blocks that always have the same size are parts of something larger, below this many bytes.
const SMALLEST: i64 = 4096;

/// A function: its module and name without the arguments of templates, or the address of its call where it has no name.
type Function = (PathId, String, u64);

#[derive(Debug, Default)]
struct Candidate {
    /// The calls of it: of one that is inlined, its first instruction.
    calls: FxHashSet<(Option<Address>, u64)>,
    calls_needed: usize,
    /// Functions that called it and the variables that they kept the pointer in, by the line that allocates.
    names: FxHashMap<u32, FxHashSet<(String, String)>>,
    needs_names: bool,
    /// It kept what it allocated at least once.
    keeps: bool,
}

impl Candidate {
    fn is_wrapper(&self) -> bool {
        !self.keeps
            && self.calls.len() >= self.calls_needed
            && (!self.needs_names || self.names.values().any(|names| names.len() >= NAMES))
    }
}

/// What a function does with the pointer of a stack.
enum Deed {
    /// Gives it to its caller; so many calls make it a wrapper.
    Gives(usize),
    /// The same, as a constructor: the member that it is stored in has this name there.
    Constructs(Option<String>),
    /// The same, if callers keep it in variables of different names.
    GivesNamed,
    /// Not the same, but this says nothing of what else it allocates.
    Aside,
    Keeps,
}

/// The wrappers of a recording.
#[derive(Debug, Default)]
pub struct Wrappers(FxHashMap<Function, Candidate>);

impl Wrappers {
    /// Looks for wrappers in all stacks.
    pub fn find(sites: &mut CallSites, modules: &mut ModuleStore, chains: &[Vec<Link>]) -> Self {
        let mut candidates: FxHashMap<Function, Candidate> = FxHashMap::default();
        for links in chains {
            for (n, link) in possible(links) {
                let Some(function) = function(modules, link) else { break };
                let deed = deed(sites, modules, links, link);
                let candidate = candidates.entry(function).or_default();
                match deed {
                    Deed::Aside => break,
                    Deed::Keeps => {
                        candidate.keeps = true;
                        break;
                    }
                    Deed::Gives(calls) => candidate.calls_needed = candidate.calls_needed.max(calls),
                    Deed::Constructs(_) => candidate.calls_needed = candidate.calls_needed.max(CALLS),
                    Deed::GivesNamed => {
                        candidate.calls_needed = candidate.calls_needed.max(CALLS);
                        candidate.needs_names = true;
                        let caller = next_user(links, n).filter(|&caller| links[caller].name() != link.name());
                        let name = caller.and_then(|caller| sites.variable(modules, links, caller));
                        let line = link.function().map_or(0, |function| function.line);
                        let names = candidate.names.entry(line).or_default();
                        names.extend(caller.zip(name).map(|(n, name)| (links[n].name().to_owned(), name)));
                    }
                }
                let inlined = sites.scope(link).filter(|_| !link.is_outermost());
                let first = inlined.and_then(|scope| scope.code.first()).map(|range| range.0);
                candidate.calls.extend(links.get(n + 1).map(|caller| match first {
                    Some(first) => (link.call.map(|(path, _)| (path, 0)), first),
                    None => (caller.call, caller.level as u64),
                }));
            }
        }
        Self(candidates)
    }

    /// The link that stands for a stack, the wrapper that it called, if that is one that was found here, and the variable.
    pub fn standing(
        &self,
        sites: &mut CallSites,
        modules: &mut ModuleStore,
        links: &[Link],
    ) -> (Option<usize>, Option<String>, Option<String>) {
        let (mut standing, mut via) = (links.iter().position(|link| link.is_user()), None);
        let mut variable = standing.and_then(|standing| sites.variable(modules, links, standing));
        for (n, link) in possible(links) {
            let known = function(modules, link).and_then(|function| self.0.get(&function));
            let Some(known) = known.filter(|known| !known.keeps) else { break };
            let deed = deed(sites, modules, links, link);
            if matches!(deed, Deed::Aside | Deed::Keeps) {
                break;
            }
            // The outermost function that is called from several places: what it calls itself serves it alone.
            let Some(next) = next_user(links, n).filter(|_| known.is_wrapper()) else { continue };
            let kept_in = sites.variable(modules, links, next);
            // One call may allocate several things: without a name for each they would be one.
            let name = match deed {
                Deed::GivesNamed if kept_in.is_none() => break,
                Deed::Constructs(None) if kept_in.is_none() && link.is_outermost() => break,
                Deed::Constructs(member) => kept_in.or(member),
                _ => kept_in,
            };
            (standing, via, variable) = (Some(next), Some(self::name(modules, link)), name);
        }
        (standing, via, variable)
    }
}

/// The next function of the user's behind link `n`.
fn next_user(links: &[Link], n: usize) -> Option<usize> {
    (n + 1..links.len()).find(|&n| links[n].is_user())
}

/// What a member of an object is called where nothing names the object: `Mesh::x`.
fn member_of(constructor: &str, name: Option<String>) -> Option<String> {
    let member = name?.strip_prefix("this->")?.to_owned();
    let (class, _) = origin::without_parameters(constructor).rsplit_once("::")?;
    Some(format!("{class}::{member}"))
}

/// What a wrapper is called: by its module and place in it if it has no name.
fn name(modules: &mut ModuleStore, link: &Link) -> String {
    match function(modules, link) {
        Some((path, name, start)) if name.is_empty() => {
            let module = modules.path(path).rsplit('/').next().unwrap_or_default();
            format!("{module}+{start:#x}")
        }
        _ => link.name().to_owned(),
    }
}

/// The links of a stack that may be wrappers, innermost first.
fn possible(links: &[Link]) -> impl Iterator<Item = (usize, &Link)> {
    links.iter().enumerate().filter(|(_, link)| link.is_user()).take(DEEPEST_WRAPPER)
}

fn function(modules: &mut ModuleStore, link: &Link) -> Option<Function> {
    let (path, address) = link.call?;
    match link.name() {
        "" => {
            let start = modules.get(path)?.function_bounds(address)?.start;
            Some((path, String::new(), start))
        }
        name => Some((path, origin::without_templates(origin::without_parameters(name)), 0)),
    }
}

fn deed(sites: &mut CallSites, modules: &mut ModuleStore, links: &[Link], link: &Link) -> Deed {
    let is_constructor = origin::is_constructor(link.name());
    let not = if is_constructor { Deed::Aside } else { Deed::Keeps };
    if !sites.is_passed_up(modules, links, link) {
        return not;
    }
    let Some(flow) = sites.flow(modules, links, link) else { return not };
    let has_loop = sites.has_loop(modules, link);
    let Some(scope) = sites.scope(link) else {
        return match () {
            () if !link.is_outermost() || !flow.returned || has_loop => Deed::Keeps,
            () if !flow.passed_on && flow.filled.len() <= 1 => Deed::Gives(CALLS_WITHOUT_TYPE),
            () => Deed::Gives(CALLS_OF_BUSY),
        };
    };
    let own = |pc: u64| scope.code.iter().any(|&(low, high)| (low..high).contains(&pc));
    let (returns, hands_out, takes_size) = (scope.returns, scope.hands_out, scope.takes_size);
    let fills = flow.filled.iter().any(|&pc| own(pc));
    // Inlined: its code is its caller's, which must still have the pointer.
    let inlined_gives = flow.sightings.iter().any(|sighting| !own(sighting.pc));
    let (is_returned, is_handed_out) = match link.is_outermost() {
        true => (flow.returned, flow.handed_out),
        false => (inlined_gives, inlined_gives),
    };
    let gives = if link.is_outermost() { sites.exit(modules, links, link) != Exit::Lost } else { inlined_gives };
    let gives_memory = (is_returned && returns == Returns::Memory) || (is_handed_out && hands_out);
    match () {
        () if takes_size && !has_loop && gives_memory => Deed::Gives(CALLS),
        () if !gives => not,
        () if makes_node(modules, links) => Deed::Aside,
        () if is_constructor => {
            let number = links.iter().position(|other| std::ptr::eq(other, link));
            let name = number.and_then(|number| sites.variable(modules, links, number));
            Deed::Constructs(member_of(link.name(), name))
        }
        () if takes_size && !has_loop && !fills && is_returned && returns == Returns::Pointer => Deed::Gives(CALLS),
        // Each copy of its code allocates one thing for one caller.
        () if !link.is_outermost() => Deed::Gives(CALLS),
        () => Deed::GivesNamed,
    }
}

/// True if the innermost function that is no library's allocates little, and always as much.
fn makes_node(modules: &mut ModuleStore, links: &[Link]) -> bool {
    let calls = links.iter().filter_map(|link| link.call);
    let Some((path, call)) = calls.into_iter().find(|at| !origin::is_library(modules.path(at.0), "", "")) else {
        return false;
    };
    let call = modules.get(path).and_then(|module| flow::before_call(&module, call.wrapping_add(1)));
    let Some((callee, call)) = call.and_then(|call| Some((call.callee.clone()?, call))) else { return false };
    let constant = |value: Option<flow::Value>| match value {
        Some((flow::Base::Image, bytes)) => Some(bytes),
        _ => None,
    };
    let bytes = match callee.trim_end_matches("@plt") {
        "calloc" => {
            constant(call.argument()).zip(constant(call.second_argument())).map(|(n, each)| n.saturating_mul(each))
        }
        name if name == "malloc" || name.starts_with("operator new") => constant(call.argument()),
        _ => None,
    };
    bytes.is_some_and(|bytes| bytes < SMALLEST)
}
