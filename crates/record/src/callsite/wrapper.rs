//! Functions that allocate for others: `xmalloc`, `my_alloc`, an interpreter's two layers above malloc.
//!
//! That a function is called from many places and allocates is not enough: so does `init_matrix`. A wrapper gives its
//! caller the memory and nothing else:
//!
//! - it returns the pointer itself: the code behind its call is followed to the return,
//! - as memory for anything, of a size that it is told: `void *`, or through a `void **`, and an integer, in the words of
//!   debug information,
//! - without a loop, in which it might make something of the memory,
//! - always: a function that also allocates what it keeps is none,
//! - and at least two calls of it were seen: else its own line says as much as its caller's.
//!
//! Where there is no debug information, four calls of it must have been seen, and sixteen if it passes the pointer to
//! another function or stores more than a header: a constructor does so, and an allocator that keeps accounts.

use numamma_symbols::{Returns, Scope};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Address, CallSites, DEEPEST_WRAPPER, Link};
use crate::modules::ModuleStore;
use crate::space::mappings::PathId;

/// Calls that make a function a wrapper if debug information says what it returns.
const CALLS: usize = 2;
/// The same without debug information.
const CALLS_WITHOUT_TYPE: usize = 4;
/// The same if it does something with what it allocated.
const CALLS_OF_BUSY: usize = 16;

/// A function: its module and name, or the address of its call where it has no name.
type Function = (PathId, String, u64);

#[derive(Debug, Default)]
struct Candidate {
    /// The calls of it.
    calls: FxHashSet<(Option<Address>, usize)>,
    calls_needed: usize,
    /// It kept what it allocated at least once.
    keeps: bool,
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
                let calls_needed = calls_needed(sites, modules, links, link);
                let candidate = candidates.entry(function).or_default();
                let Some(calls_needed) = calls_needed else {
                    candidate.keeps = true;
                    break;
                };
                candidate.calls_needed = candidate.calls_needed.max(calls_needed);
                candidate.calls.extend(links.get(n + 1).map(|caller| (caller.call, caller.level)));
            }
        }
        Self(candidates)
    }

    /// The link that stands for a stack, and the wrapper that it called, if that is one that was found here.
    pub fn standing(
        &self,
        sites: &mut CallSites,
        modules: &mut ModuleStore,
        links: &[Link],
    ) -> (Option<usize>, Option<String>) {
        let (mut standing, mut via) = (links.iter().position(|link| link.is_user()), None);
        for (n, link) in possible(links) {
            let known = function(modules, link).and_then(|function| self.0.get(&function));
            let Some(known) = known.filter(|known| !known.keeps) else { break };
            if calls_needed(sites, modules, links, link).is_none() {
                break;
            }
            let next = links[n + 1..].iter().position(|link| link.is_user());
            // The outermost function that is called from several places: what it calls itself serves it alone.
            if let Some(next) = next.filter(|_| known.calls.len() >= known.calls_needed) {
                standing = Some(n + 1 + next);
                via = Some(name(modules, link));
            }
        }
        (standing, via)
    }
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
        name => Some((path, name.to_owned(), 0)),
    }
}

/// How many calls of a function must be seen for it to be a wrapper; none if it is more than one in this stack.
fn calls_needed(sites: &mut CallSites, modules: &mut ModuleStore, links: &[Link], link: &Link) -> Option<usize> {
    let may_be = |scope: &Scope| scope.takes_size && (scope.returns == Returns::Memory || scope.hands_out);
    if sites.scope(link).is_some_and(|scope| !may_be(scope))
        || !sites.is_passed_up(modules, links, link)
        || sites.has_loop(modules, link)
    {
        return None;
    }
    let flow = sites.flow(modules, link)?;
    match sites.scope(link) {
        // Inlined: its code is its caller's, which must still have the pointer.
        Some(scope) if !link.is_outermost() => {
            let own = |pc: u64| scope.code.iter().any(|&(low, high)| (low..high).contains(&pc));
            flow.sightings.iter().any(|sighting| !own(sighting.pc)).then_some(CALLS)
        }
        Some(scope) if flow.returned && scope.returns == Returns::Memory => Some(CALLS),
        Some(scope) if flow.handed_out && scope.hands_out => Some(CALLS),
        None if link.is_outermost() && flow.returned && !flow.passed_on && flow.filled <= 1 => Some(CALLS_WITHOUT_TYPE),
        None if link.is_outermost() && flow.returned => Some(CALLS_OF_BUSY),
        _ => None,
    }
}
