//! Names of objects in a plan: names that survive a build anew and another address space.

use numamma_findings::{CallSite, ObjectUse};
use numamma_plan::{Site, Target};

/// An object as plans name it.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Variable or place.
    pub target: Target,
    /// Callers of the place, where it alone means several objects.
    pub callers: Vec<Site>,
    /// Module of a variable.
    pub module: Option<String>,
    /// Function that allocates for others.
    pub wrapper: Option<String>,
    /// Ids of the objects that the name means too: several are allocated on one line by the same callers.
    pub twins: Vec<usize>,
}

/// How a plan names an object; `None` if nothing tells it from all others, or its name is not of one line.
pub fn named(object: &ObjectUse, all: &[ObjectUse]) -> Option<Named> {
    names(object, all).filter(|named| {
        let target = match &named.target {
            Target::Static(name) | Target::Label(name) => name.clone(),
            Target::Heap(site) | Target::Map(site) => site.as_ref().map(ToString::to_string).unwrap_or_default(),
            Target::Any => String::new(),
        };
        let callers = named.callers.iter().map(ToString::to_string);
        let mut texts = callers.chain([target]).chain(named.module.clone()).chain(named.wrapper.clone());
        !texts.any(|text| text.contains(char::is_control))
    })
}

fn names(object: &ObjectUse, all: &[ObjectUse]) -> Option<Named> {
    let alone = |target| Named { target, callers: Vec::new(), module: None, wrapper: None, twins: Vec::new() };
    let others = || all.iter().filter(|other| other.id != object.id && other.kind == object.kind);
    match object.kind.as_str() {
        "static" => {
            let is_twin = |other: &ObjectUse| other.name == object.name && other.module == object.module;
            let named = Named { module: object.module.clone(), ..alone(Target::Static(object.name.clone())) };
            (!others().any(is_twin)).then_some(named)
        }
        "annotated" => Some(alone(Target::Label(object.name.clone()))),
        "heap" | "mmap" => {
            let site = object.site.as_ref()?;
            let place = Some(place(site)?);
            let target = if object.kind == "heap" { Target::Heap(place) } else { Target::Map(place) };
            let at_place = |other: &&ObjectUse| other.site.as_ref().is_some_and(|other| is_same_place(other, site));
            let twins: Vec<&ObjectUse> = others().filter(at_place).collect();
            let sites: Vec<&CallSite> = twins.iter().filter_map(|other| other.site.as_ref()).collect();
            let caller = if sites.is_empty() { None } else { caller(site, &sites) };
            let twins = if caller.is_some() { Vec::new() } else { twins.iter().map(|other| other.id).collect() };
            let wrapper = Some(site.via.clone()).filter(|via| !via.is_empty());
            Some(Named { callers: caller.into_iter().collect(), wrapper, twins, ..alone(target) })
        }
        _ => None,
    }
}

/// A call site as a place of a plan.
fn place(site: &CallSite) -> Option<Site> {
    let line = (site.line > 0 && !site.file.is_empty()).then(|| (file_name(&site.file).to_owned(), site.line));
    let function = Some(site.function.clone()).filter(|function| !function.is_empty());
    match (&line, function.as_deref().and_then(address)) {
        (None, Some(address)) => Some(address),
        (None, None) if function.is_none() => site.stack.first().and_then(|frame| address(frame)),
        _ => Some(Site::Source { function, line }),
    }
}

/// `module+0x1f`.
fn address(text: &str) -> Option<Site> {
    let (module, address) = text.rsplit_once("+0x")?;
    let module = module.rsplit(' ').next().filter(|module| !module.is_empty())?;
    Some(Site::Address(module.to_owned(), u64::from_str_radix(address, 16).ok()?))
}

fn is_same_place(a: &CallSite, b: &CallSite) -> bool {
    (&a.function, &a.file, a.line) == (&b.function, &b.file, b.line)
}

/// The innermost function behind the place that is on this call stack and on none of the others.
fn caller(site: &CallSite, others: &[&CallSite]) -> Option<Site> {
    let own = site.stack.iter().skip_while(|frame| !is_frame_of(frame, site)).skip(1);
    let frame = own.into_iter().find(|frame| !others.iter().any(|other| other.stack.contains(frame)))?;
    match frame.rsplit_once(' ').map(|(function, line)| (function, line.rsplit_once(':'))) {
        Some((function, Some((file, line)))) => {
            let line = line.parse().ok().filter(|&line| line > 0)?;
            Some(Site::Source { function: Some(function.into()), line: Some((file_name(file).into(), line)) })
        }
        _ if frame.contains("+0x") => None,
        _ => Some(Site::Source { function: Some(frame.clone()), line: None }),
    }
}

fn is_frame_of(frame: &str, site: &CallSite) -> bool {
    frame.starts_with(&site.function) && (site.line == 0 || frame.ends_with(&format!(":{}", site.line)))
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
