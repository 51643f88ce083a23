//! What a call stack that allocates is called: the frame that stands for it, the wrapper that this frame called, and the
//! variable that the pointer was stored in.
//!
//! - [`frame`]: frames of libraries and of functions that are known to allocate for others, by name
//! - [`wrapper`]: functions that turn out to do so in this recording
//! - [`flow`]: where the code behind a call puts the pointer
//! - [`variable`]: whose place that is
//!
//! All frames stay in the stack.

mod flow;
#[cfg(test)]
mod tests;
mod variable;
mod wrapper;

use std::rc::Rc;
use std::sync::Arc;

use numamma_symbols::{Frame, Module, Scope, origin};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::modules::ModuleStore;
use crate::sites::Place;
use crate::space::mappings::PathId;
use flow::{Call, Flow};

pub use flow::general;

/// Frames above the allocator that may be wrappers in wrappers.
const DEEPEST_WRAPPER: usize = 8;

/// An address of code in its file.
type Address = (PathId, u64);

/// What the name of a variable depends on: call and level of the link that stands, those of the link further in, and how the
/// pointer comes to its place.
type Asked = (Address, usize, Option<(Option<Address>, usize)>, Exit);

/// How the pointer leaves a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Exit {
    Returned,
    /// Stored behind what an argument points to: the argument's number, and how far behind.
    Stored(u8, i64),
    /// It stays there, or is not found again.
    Lost,
}

/// What a call stack is called.
#[derive(Clone, Debug, Default)]
pub struct CallSite {
    /// The frame that stands for it: its number in the stack, and the function in it.
    pub frame: Option<(usize, Option<Frame>)>,
    /// The wrapper that this frame called, if any.
    pub via: String,
    /// The variable that the pointer was stored in, if known.
    pub variable: String,
}

/// One function of a call stack: a place has several where functions are inlined.
#[derive(Clone, Debug)]
struct Link {
    /// Number of its place in the stack.
    place: usize,
    /// Its number among the functions at the place, innermost first.
    level: usize,
    call: Option<Address>,
    /// All functions at the place; empty if nothing names them.
    functions: Rc<[Frame]>,
    kind: Kind,
}

/// What a function is by its name and source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    User,
    Library,
    /// Known as a wrapper, or named as one by the user.
    Wrapper,
}

impl Link {
    fn function(&self) -> Option<&Frame> {
        self.functions.get(self.level)
    }

    fn name(&self) -> &str {
        self.function().map_or("", |function| &function.function)
    }

    fn is_user(&self) -> bool {
        self.kind == Kind::User
    }

    /// True if it is the one that the others at its place are inlined into.
    fn is_outermost(&self) -> bool {
        self.level + 1 >= self.functions.len()
    }
}

/// What was found out about code, for all stacks.
#[derive(Debug, Default)]
pub struct CallSites {
    /// Functions that the user calls wrappers.
    pub wrappers: Vec<String>,
    /// Once it says so, nothing is looked up any more.
    pub stop: Option<fn() -> bool>,
    /// Those of them that were seen.
    seen: FxHashSet<String>,
    /// Functions at code addresses.
    sources: FxHashMap<Address, Rc<[Frame]>>,
    /// What they are; one for an address without a function.
    kinds: FxHashMap<Address, Rc<[Kind]>>,
    scopes: FxHashMap<Address, Rc<[Scope]>>,
    /// By call, and how the pointer leaves what is called; none: it is the allocator.
    flows: FxHashMap<(Address, Option<Exit>), Rc<Flow>>,
    /// How it leaves the caller, by the same.
    exits: FxHashMap<(Address, Option<Exit>), Exit>,
    /// By call, and an address in what is called.
    calls: FxHashMap<(Address, Address), bool>,
    /// By call and level.
    loops: FxHashMap<(Address, usize), bool>,
    variables: FxHashMap<Asked, Option<String>>,
}

impl CallSites {
    /// Functions that the user calls wrappers and that no call stack that was named has.
    pub fn unseen_wrappers(&self) -> impl Iterator<Item = &String> {
        self.wrappers.iter().filter(|wrapper| !self.seen.contains(*wrapper))
    }

    /// Functions at a code address, innermost first.
    pub fn functions(&mut self, modules: &mut ModuleStore, at: Address) -> Rc<[Frame]> {
        if self.stop.is_some_and(|stop| stop()) {
            return self.sources.get(&at).cloned().unwrap_or_default();
        }
        self.sources
            .entry(at)
            .or_insert_with(|| modules.get(at.0).map_or(Vec::new(), |module| module.frames_at(at.1)).into())
            .clone()
    }

    /// Names all stacks by what their functions are called alone: quick, for a look in between.
    pub fn outline(&mut self, modules: &mut ModuleStore, stacks: &[&[Place]]) -> Vec<CallSite> {
        let site = |places: &&[Place]| {
            let links = self.links(modules, places);
            let standing = links.iter().position(|link| link.is_user());
            named(&links, standing, None)
        };
        stacks.iter().map(site).collect()
    }

    /// Names all stacks. Wrappers show only in all of them together.
    pub fn name(&mut self, modules: &mut ModuleStore, stacks: &[&[Place]]) -> Vec<CallSite> {
        let chains: Vec<Vec<Link>> = stacks.iter().map(|places| self.links(modules, places)).collect();
        self.ask_scopes(modules, &chains);
        let wrappers = wrapper::Wrappers::find(self, modules, &chains);
        let site = |links: &Vec<Link>| {
            let (standing, via, variable) = wrappers.standing(self, modules, links);
            let mut site = named(links, standing, via);
            site.variable = variable.unwrap_or_default();
            site
        };
        chains.iter().map(site).collect()
    }

    /// The functions of a stack, as far out as any answer may depend on.
    fn links(&mut self, modules: &mut ModuleStore, places: &[Place]) -> Vec<Link> {
        let (mut links, mut users) = (Vec::new(), 0);
        for (number, place) in places.iter().enumerate() {
            let functions = place.image.map_or_else(Rc::default, |at| self.functions(modules, at));
            let kinds = self.kinds(modules, place.image, &functions);
            for (level, &kind) in kinds.iter().enumerate() {
                let (functions, call) = (Rc::clone(&functions), place.image);
                links.push(Link { place: number, level, call, functions, kind });
                users += usize::from(kind == Kind::User);
            }
            if users > DEEPEST_WRAPPER {
                break;
            }
        }
        links
    }

    fn kinds(&mut self, modules: &mut ModuleStore, at: Option<Address>, functions: &[Frame]) -> Rc<[Kind]> {
        let Some(at) = at else { return [Kind::User].into() };
        let (module, wrappers, seen) = (modules.path(at.0), &self.wrappers, &mut self.seen);
        let mut kind = |name: &str, source: Option<&str>| {
            let by_user = wrappers.iter().find(|wrapper| origin::is_it(name, wrapper));
            seen.extend(by_user.cloned());
            match () {
                () if by_user.is_some() || origin::is_wrapper(name) => Kind::Wrapper,
                () if origin::is_library(module, name, source.unwrap_or_default()) => Kind::Library,
                () => Kind::User,
            }
        };
        let all = || match functions {
            [] => [kind("", None)].into(),
            _ => functions.iter().map(|function| kind(&function.function, function.file.as_deref())).collect(),
        };
        Rc::clone(self.kinds.entry(at).or_insert_with(all))
    }

    /// Asks debug information about all code that the answers may depend on.
    fn ask_scopes(&mut self, modules: &mut ModuleStore, chains: &[Vec<Link>]) {
        let mut questions: FxHashMap<PathId, FxHashSet<u64>> = FxHashMap::default();
        for links in chains {
            if !links.iter().any(Link::is_user) {
                continue;
            }
            let (mut users, mut last) = (0, 0);
            for link in links {
                users += usize::from(link.is_user());
                if users > DEEPEST_WRAPPER && link.place > last {
                    break;
                }
                last = link.place;
                if let Some((path, address)) = link.call.filter(|at| !self.scopes.contains_key(at)) {
                    questions.entry(path).or_default().insert(address);
                }
            }
        }
        for (path, addresses) in questions {
            let addresses: Vec<u64> = addresses.into_iter().collect();
            let mut found = modules.get(path).map(|module| module.scopes_at(&addresses)).unwrap_or_default();
            for address in addresses {
                self.scopes.insert((path, address), found.remove(&address).unwrap_or_default().into());
            }
        }
    }

    /// What debug information says of a function of a stack.
    fn scope(&self, link: &Link) -> Option<&Scope> {
        self.scopes.get(&link.call?)?.get(link.level)
    }

    /// Where the pointer goes behind the call of a place.
    fn flow(&mut self, modules: &mut ModuleStore, links: &[Link], link: &Link) -> Option<Rc<Flow>> {
        let (path, call) = link.call?;
        let exit = self.exit_of_callee(modules, links, link);
        let module = modules.get(path)?;
        let follow = || {
            let back = call.wrapping_add(1);
            let stored = match exit {
                None => flow::before_call(&module, back).filter(stores_itself).map(|call| call.behind_argument(0, 0)),
                Some(Exit::Returned) => None,
                Some(Exit::Stored(number, bytes)) => {
                    let call = flow::before_call(&module, back);
                    Some(call.map(|call| call.behind_argument(number, bytes)).unwrap_or_default())
                }
                Some(Exit::Lost) => Some(Vec::new()),
            };
            Rc::new(match stored {
                Some(places) if places.is_empty() => Flow::default(),
                places => flow::follow(&module, back, places.as_deref()),
            })
        };
        Some(Rc::clone(self.flows.entry(((path, call), exit)).or_insert_with(follow)))
    }

    /// How the pointer leaves what a place calls; none: that is the allocator.
    fn exit_of_callee(&mut self, modules: &mut ModuleStore, links: &[Link], link: &Link) -> Option<Exit> {
        let callee = callee(links, link)?;
        let exit = self.exit(modules, links, callee);
        let is_stored = matches!(exit, Exit::Stored(..));
        Some(if is_stored && !self.calls(modules, link, callee) { Exit::Lost } else { exit })
    }

    /// True if a place calls that function itself.
    fn calls(&mut self, modules: &mut ModuleStore, link: &Link, callee: &Link) -> bool {
        let Some((at, inner)) = link.call.zip(callee.call) else { return false };
        let Some(module) = modules.get(at.0) else { return false };
        let look = || {
            let call = flow::before_call(&module, at.1.wrapping_add(1));
            call.is_some_and(|call| is_of(&call, &module, at.0, Some(callee)))
        };
        *self.calls.entry((at, inner)).or_insert_with(look)
    }

    /// How the pointer leaves a function that is not inlined.
    fn exit(&mut self, modules: &mut ModuleStore, links: &[Link], link: &Link) -> Exit {
        let Some(at) = link.call else { return Exit::Lost };
        let key = (at, self.exit_of_callee(modules, links, link));
        if let Some(known) = self.exits.get(&key) {
            return *known;
        }
        let exit = match self.flow(modules, links, link) {
            None => Exit::Lost,
            Some(flow) if flow.returned => Exit::Returned,
            Some(flow) => {
                let stored = self.scope(link).and_then(|scope| variable::stored_behind(scope, &flow.sightings));
                stored.map_or(Exit::Lost, |(number, bytes)| Exit::Stored(number, bytes))
            }
        };
        self.exits.insert(key, exit);
        exit
    }

    /// True if each function further in than `link`'s place gives its caller the pointer.
    fn is_passed_up(&mut self, modules: &mut ModuleStore, links: &[Link], link: &Link) -> bool {
        self.exit_of_callee(modules, links, link) != Some(Exit::Lost)
    }

    /// True if a function of a stack has a loop; of one that is inlined, the part that is its own.
    fn has_loop(&mut self, modules: &mut ModuleStore, link: &Link) -> bool {
        let Some((at, module)) = link.call.and_then(|at| Some((at, modules.get(at.0)?))) else { return true };
        let scope = self.scopes.get(&at).and_then(|scopes| scopes.get(link.level));
        let parts = scope.filter(|_| !link.is_outermost()).map_or(&[][..], |scope| &scope.code);
        *self.loops.entry((at, link.level)).or_insert_with(|| flow::has_loop(&module, at.1, parts))
    }

    /// The variable that the pointer of a stack was stored in.
    fn variable(&mut self, modules: &mut ModuleStore, links: &[Link], standing: usize) -> Option<String> {
        let link = &links[standing];
        let inner = links[..standing].last().map(|inner| (inner.call, inner.level));
        let exit = self.exit_of_callee(modules, links, link).unwrap_or(Exit::Returned);
        let asked = (link.call?, link.level, inner, exit);
        if let Some(known) = self.variables.get(&asked) {
            return known.clone();
        }
        let name = self.find_variable(modules, links, standing, exit != Exit::Lost);
        self.variables.insert(asked, name.clone());
        name
    }

    fn find_variable(
        &mut self,
        modules: &mut ModuleStore,
        links: &[Link],
        standing: usize,
        is_passed_up: bool,
    ) -> Option<String> {
        let link = &links[standing];
        let (path, call) = link.call?;
        let module = modules.get(path)?;
        if is_passed_up {
            let flow = self.flow(modules, links, link)?;
            let stored = |counted| variable::stored_in(&module, self.scope(link), &flow.sightings, counted);
            let may_be_array = flow.sightings.iter().any(|sighting| flow::COUNT.contains(&sighting.ahead));
            let counted = || stored(may_be_array && makes_array(&module, call));
            if let Some(name) = stored(false).or_else(counted) {
                return Some(without_function(name, link.name()));
            }
        }
        // A container's method was called: what it allocates is the container's.
        let containers = |inner: &&Link| origin::is_container(inner.name());
        let inlined = links[..standing].last().filter(|inner| inner.place == link.place).filter(containers);
        let name = inlined.and_then(|inner| variable::object_of_method(self.scope(link), self.scope(inner)?, call));
        if name.is_some() {
            return name;
        }
        let method = links[..standing].iter().rfind(|inner| inner.place < link.place).filter(containers)?;
        let has_object = |scope: &Scope| scope.locals.first().is_some_and(|local| local.name == "this");
        if !self.scope(method).is_some_and(has_object) {
            return None;
        }
        let call = flow::before_call(&module, call.wrapping_add(1))?;
        is_of(&call, &module, path, Some(method)).then(|| variable::object_of_call(&module, self.scope(link), &call))?
    }
}

/// A function's own static variable is told by its name alone, as its other variables are.
fn without_function(name: String, function: &str) -> String {
    let own = name.strip_prefix(function).and_then(|rest| rest.strip_prefix("::"));
    own.map(str::to_owned).unwrap_or(name)
}

/// The function that a place calls, if that is not the allocator.
fn callee<'l>(links: &'l [Link], link: &Link) -> Option<&'l Link> {
    links.iter().find(|inner| inner.place + 1 == link.place && inner.is_outermost())
}

/// True if a call is of that function itself: one between that ends by jumping to it has no place in the stack, and passes on
/// other arguments.
fn is_of(call: &Call, module: &Module, path: PathId, callee: Option<&Link>) -> bool {
    let Some((callee, at)) = callee.and_then(|callee| Some((callee, callee.call?))) else { return false };
    let same_code = || {
        let start = module.function_bounds(at.1).filter(|_| at.0 == path).map(|bounds| bounds.start);
        start.is_some() && start == call.target
    };
    let name = call.callee.as_deref().map(|name| name.trim_end_matches("@plt"));
    same_code() || name == Some(callee.name())
}

/// True if the allocator stores the pointer where its first argument says, instead of returning it.
fn stores_itself(call: &Call) -> bool {
    call.callee.as_deref().is_some_and(|name| name.trim_end_matches("@plt") == "posix_memalign")
}

/// True if a call is of C++'s `new T[n]`, which may put the count in front.
fn makes_array(module: &Arc<Module>, call: u64) -> bool {
    let call = flow::before_call(module, call.wrapping_add(1));
    call.and_then(|call| call.callee).is_some_and(|callee| callee.starts_with("operator new[]"))
}

/// A site by one of the links, or by the innermost.
fn named(links: &[Link], standing: Option<usize>, via: Option<String>) -> CallSite {
    let by_name = || {
        let inner = links[..standing?].iter().rfind(|link| link.kind == Kind::Wrapper)?;
        Some(inner.name().to_owned())
    };
    CallSite {
        frame: standing.or((!links.is_empty()).then_some(0)).map(|n| (links[n].place, links[n].function().cloned())),
        via: via.or_else(by_name).unwrap_or_default(),
        variable: String::new(),
    }
}
