//! Which objects are one line of the report: all objects of a call site, all instances of a variable.

use std::collections::HashSet;

use numamma_attribute::Index;
use numamma_trace::{ANONYMOUS, BREAK, CodeRow, NONE, ObjectKind, ObjectRow};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::shared_memory::{Extent, SharedMemory};
use crate::summary::Tables;

/// Number of a group.
pub type GroupId = u32;

/// Objects that belong together.
#[derive(Debug)]
pub struct Group {
    pub kind: ObjectKind,
    pub name: String,
    /// Where it was allocated, if `name` is the variable's that the pointer was stored in.
    pub allocated: Option<String>,
    pub module: Option<String>,
    /// A site of the dataset that made its objects; all of them share the site's frame.
    pub site: Option<i32>,
    /// All sites of the dataset in the group.
    pub sites: Vec<i32>,
    /// Instances made during the run.
    pub instances: u64,
    /// Largest instance.
    pub bytes: u64,
    /// Address of a variable from the start of its module; 0 if it has none.
    pub module_offset: i64,
    /// Instances that were touched: those with a row in the objects table.
    pub touched: u32,
}

impl Group {
    /// Kind as reports name it: what lies in a section is static data.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            ObjectKind::Section => ObjectKind::Static.name(),
            kind => kind.name(),
        }
    }

    /// True if it is memory of many objects that nobody can tell apart, since allocations were not seen.
    pub fn is_unknown_objects(&self) -> bool {
        self.kind == ObjectKind::Mmap && self.site.is_none() && matches!(self.name.as_str(), BREAK | ANONYMOUS)
    }
}

/// All groups, and which object is in which.
#[derive(Debug)]
pub struct Groups {
    pub groups: Vec<Group>,
    /// Group of each row of the objects table; `None` for memory that is nobody's object.
    pub of_object: Vec<Option<GroupId>>,
    /// Number of each row of the objects table among the touched instances of its group, oldest first.
    pub instance: Vec<u32>,
    /// Rows that are the same memory.
    pub shared: SharedMemory,
    /// Finds objects.
    pub index: Index,
}

/// The key that makes objects one group.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    /// Kind, module and address of the call and the variable that holds the pointer, or the whole stack where there is no frame.
    Site(ObjectKind, String, i64, String, i32),
    /// Kind, module, name, and bytes: static variables of equal name in different files of a module differ in address.
    Variable(ObjectKind, String, String, i64),
    MainStack,
    ThreadStacks,
}

impl Groups {
    /// Groups the objects of a recording.
    pub fn new(tables: &Tables) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut ids: FxHashMap<Key, GroupId> = FxHashMap::default();
        let mut of_object = Vec::with_capacity(tables.objects.len());
        let mut listed: FxHashSet<(GroupId, i32)> = FxHashSet::default();
        let kind_of = |row: &ObjectRow| ObjectKind::from_name(&row.kind).filter(|&kind| kind != ObjectKind::Region);
        let start = |process: i32| tables.process(process).map_or(i64::MIN, |row| row.start_time);
        let shared = SharedMemory::new(&tables.objects, |object| kind_of(&tables.objects[object]).is_some(), start);
        for (object, row) in tables.objects.iter().enumerate() {
            let Some(kind) = kind_of(row) else {
                of_object.push(None);
                continue;
            };
            // Memory that processes share is what the first of them calls it.
            let first = shared.instance(object).map_or(object, |of| of.first);
            let named = &tables.objects[first];
            let key = key(tables, kind, named);
            let id = *ids.entry(key).or_insert_with(|| {
                groups.push(new_group(tables, kind, named));
                groups.len() as GroupId - 1
            });
            let group = &mut groups[id as usize];
            let bytes = shared.instance(object).map_or(row.bytes as u64, |of| of.extent.bytes);
            group.touched += u32::from(first == object);
            group.bytes = group.bytes.max(bytes);
            if row.site != NONE && listed.insert((id, row.site)) {
                group.sites.push(row.site);
            }
            of_object.push(Some(id));
        }
        let mut repeated = vec![0; groups.len()];
        for of in shared.instances() {
            let group = of_object[of.first].map(|group| &mut repeated[group as usize]);
            group.into_iter().for_each(|count| *count += of.calls.saturating_sub(1));
        }
        for (group, repeated) in groups.iter_mut().zip(repeated) {
            // Only instances that were touched have rows; the sites know of all.
            let made = group.site.map_or(0, |site| tables.allocations(site)) as u64;
            group.instances = u64::from(group.touched).max(made.saturating_sub(repeated));
        }
        let instance = numbered(&tables.objects, &of_object, groups.len(), &shared);
        let index = Index::new(&tables.objects);
        Self { groups, of_object, instance, shared, index }
    }

    /// The instances of a group that were touched: the oldest row of each.
    pub fn instances_of(&self, group: GroupId) -> impl Iterator<Item = usize> {
        let is_first = |object: &usize| self.shared.instance(*object).is_none_or(|of| of.first == *object);
        (0..self.of_object.len()).filter(move |&object| self.of_object[object] == Some(group)).filter(is_first)
    }

    /// Where the instance lies that an object is, in the address space of [`crate::shared_memory::place`].
    pub fn extent(&self, tables: &Tables, object: usize) -> Extent {
        let row = &tables.objects[object];
        let own = Extent { addr: row.addr as u64, bytes: row.bytes.max(0) as u64 };
        self.shared.instance(object).map_or(own, |of| of.extent)
    }
}

/// The number of each object among those of its group, by age and then by address; what is the same memory has the same number.
fn numbered(objects: &[ObjectRow], of_object: &[Option<GroupId>], groups: usize, shared: &SharedMemory) -> Vec<u32> {
    let first = |object: usize| shared.instance(object).map_or(object, |of| of.first);
    let mut by_age: Vec<usize> = (0..objects.len()).filter(|&object| of_object[object].is_some()).collect();
    by_age.sort_by_key(|&object| (objects[object].start_time, objects[object].process, objects[object].addr));
    let mut next = vec![0; groups];
    let mut numbers = vec![0; objects.len()];
    for object in by_age {
        let Some(group) = of_object[object].filter(|_| first(object) == object) else { continue };
        numbers[object] = next[group as usize];
        next[group as usize] += 1;
    }
    (0..objects.len()).for_each(|object| numbers[object] = numbers[first(object)]);
    numbers
}

fn key(tables: &Tables, kind: ObjectKind, row: &ObjectRow) -> Key {
    match kind {
        ObjectKind::Stack => {
            if tables.is_main(row.thread) {
                Key::MainStack
            } else {
                Key::ThreadStacks
            }
        }
        _ if row.site != NONE => match tables.site_frame(row.site) {
            // One call of a constructor may allocate several members.
            Some(frame) if !frame.module.is_empty() => {
                let variable = tables.variable(row.site).unwrap_or_default().to_owned();
                Key::Site(kind, frame.module.clone(), frame.module_offset, variable, 0)
            }
            _ => Key::Site(kind, String::new(), 0, String::new(), row.site),
        },
        ObjectKind::Static | ObjectKind::Section => {
            // The address tells variables of one name apart; in another process the module may lie elsewhere.
            let place = tables.module_offset(row);
            Key::Variable(kind, row.module.clone(), row.name.clone(), place)
        }
        _ => Key::Variable(kind, row.module.clone(), row.name.clone(), 0),
    }
}

fn new_group(tables: &Tables, kind: ObjectKind, row: &ObjectRow) -> Group {
    let site = (row.site != NONE).then_some(row.site);
    let variable = site.and_then(|site| tables.variable(site));
    let name = match kind {
        ObjectKind::Stack if tables.is_main(row.thread) => "stack of the main thread".to_owned(),
        ObjectKind::Stack => "stacks of threads".to_owned(),
        _ => match (variable, site) {
            (Some(variable), _) => variable.to_owned(),
            (None, Some(site)) => site_name(tables, site),
            (None, None) => row.name.clone(),
        },
    };
    Group {
        kind,
        name,
        allocated: variable.and(site).map(|site| site_name(tables, site)),
        module: (!row.module.is_empty()).then(|| file_name(&row.module).to_owned()),
        site,
        sites: Vec::new(),
        instances: 0,
        bytes: 0,
        module_offset: match kind {
            ObjectKind::Static | ObjectKind::Section => tables.module_offset(row),
            _ => 0,
        },
        touched: 0,
    }
}

fn site_name(tables: &Tables, site: i32) -> String {
    match tables.site_frame(site) {
        Some(frame) => frame_name(frame),
        None => "unknown call site".to_owned(),
    }
}

/// `function file:line`, or as much of it as is known.
pub fn frame_name(frame: &CodeRow) -> String {
    let place = match (frame.file.as_str(), frame.line) {
        ("", _) => String::new(),
        (file, 0) => file_name(file).to_owned(),
        (file, line) => format!("{}:{line}", file_name(file)),
    };
    match (short_function(&frame.function), place.as_str(), frame.module.as_str()) {
        ("", "", "") => format!("{:#x}", frame.ip),
        ("", "", module) => format!("{}+{:#x}", file_name(module), frame.module_offset),
        ("", place, _) => place.to_owned(),
        // A function without lines: the module says where, the offset tells calls apart.
        (function, "", module) => format!("{function} {}+{:#x}", file_name(module), frame.module_offset),
        (function, place, _) => format!("{function} {place}"),
    }
}

/// A function without its parameters.
pub fn short_function(function: &str) -> &str {
    let mut depth = 0;
    for (at, c) in function.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            // `operator()` and lambdas `{lambda(int)#1}` have brackets in their names.
            '(' if depth == 0
                && at > 0
                && !function[..at].ends_with("operator")
                && !function[..at].ends_with("{lambda") =>
            {
                return &function[..at];
            }
            _ => {}
        }
    }
    function
}

/// Last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Names for groups in the order of the report. Where a variable's name is not enough (`buffer` in two functions), where
/// it was allocated is part of it. Of several with one name still (calls on one line, variables of several modules) the
/// first keeps it, the others are told apart by module or number.
pub fn distinct_names<'a>(groups: impl Iterator<Item = &'a Group>) -> Vec<String> {
    let groups: Vec<&Group> = groups.collect();
    let mut uses: FxHashMap<&str, usize> = FxHashMap::default();
    for group in &groups {
        *uses.entry(&group.name).or_default() += 1;
    }
    let mut seen: FxHashMap<String, usize> = FxHashMap::default();
    let mut taken: HashSet<String> = HashSet::new();
    groups
        .iter()
        .map(|group| {
            let plain = match &group.allocated {
                Some(place) if uses[group.name.as_str()] > 1 => format!("{} at {place}", group.name),
                _ => group.name.clone(),
            };
            let number = seen.entry(plain.clone()).or_default();
            *number += 1;
            let with_module = || Some(format!("{plain} ({})", group.module.as_deref()?));
            let name = match *number {
                1 => plain.clone(),
                n => with_module().filter(|name| !taken.contains(name)).unwrap_or_else(|| format!("{plain} #{n}")),
            };
            taken.insert(name.clone());
            name
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, allocated: Option<&str>, module: Option<&str>) -> Group {
        Group {
            kind: ObjectKind::Heap,
            name: name.into(),
            allocated: allocated.map(str::to_owned),
            module: module.map(str::to_owned),
            site: None,
            sites: Vec::new(),
            instances: 1,
            bytes: 1,
            module_offset: 0,
            touched: 1,
        }
    }

    #[test]
    fn no_two_objects_share_a_name() {
        let groups = [
            group("matrix", Some("main t.c:1"), None),
            group("buffer", Some("read t.c:2"), None),
            group("buffer", Some("write t.c:3"), None),
            group("buffer", Some("write t.c:3"), None),
            group("grid", None, Some("a.out")),
            group("grid", None, Some("lib.so")),
            group("main t.c:9", None, None),
            group("main t.c:9", None, None),
        ];
        let expected = [
            "matrix",
            "buffer at read t.c:2",
            "buffer at write t.c:3",
            "buffer at write t.c:3 #2",
            "grid",
            "grid (lib.so)",
            "main t.c:9",
            "main t.c:9 #2",
        ];
        assert_eq!(distinct_names(groups.iter()), expected);
    }

    #[test]
    fn a_function_is_shown_without_its_parameters() {
        assert_eq!(short_function("work(int, char**)"), "work");
        assert_eq!(short_function("A<int(*)(int)>::f(int)"), "A<int(*)(int)>::f");
        assert_eq!(short_function("main"), "main");
        assert_eq!(short_function("Foo::operator()(int) const"), "Foo::operator()");
    }
}
