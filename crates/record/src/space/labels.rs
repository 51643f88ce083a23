//! What the program itself calls its memory.

use std::collections::BTreeMap;

/// Memory with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub bytes: u64,
    /// When it got the name, nanoseconds.
    pub start: i64,
    /// Thread that gave it.
    pub thread: i32,
    pub name: String,
    /// Something in it was sampled or first touched.
    pub touched: bool,
}

/// The names in one address space, by first address. They do not overlap.
#[derive(Clone, Debug, Default)]
pub struct Labels(BTreeMap<u64, Label>);

impl Labels {
    /// Gives memory a name; what it overlaps loses its own there, and is returned as it was.
    pub fn insert(&mut self, addr: u64, label: Label) -> Vec<(u64, Label)> {
        let gone = self.remove_range(addr, addr.saturating_add(label.bytes));
        self.0.insert(addr, label);
        gone
    }

    /// Takes the name back that begins there.
    pub fn remove(&mut self, addr: u64) -> Option<Label> {
        self.0.remove(&addr)
    }

    /// Takes back the names of memory in a range. What reaches beyond it keeps its name there. Returns them as they were.
    pub fn remove_range(&mut self, low: u64, high: u64) -> Vec<(u64, Label)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let below = self.0.range(..low).next_back().filter(|(at, label)| **at + label.bytes > low).map(|(at, _)| *at);
        let keys: Vec<u64> = below.into_iter().chain(self.0.range(low..high.max(low)).map(|(at, _)| *at)).collect();
        let gone: Vec<(u64, Label)> = keys.into_iter().filter_map(|at| Some((at, self.0.remove(&at)?))).collect();
        for (at, label) in &gone {
            let end = at + label.bytes;
            if *at < low {
                self.0.insert(*at, Label { bytes: low - at, ..label.clone() });
            }
            if end > high {
                self.0.insert(high, Label { bytes: end - high, ..label.clone() });
            }
        }
        gone
    }

    /// Those of a forked process, which has touched nothing yet.
    pub fn fork(&self) -> Self {
        let untouched = |(at, label): (&u64, &Label)| (*at, Label { touched: false, ..label.clone() });
        Self(self.0.iter().map(untouched).collect())
    }

    /// The name that begins there.
    pub fn get(&self, addr: u64) -> Option<&Label> {
        self.0.get(&addr)
    }

    /// What holds an address.
    pub fn find(&mut self, addr: u64) -> Option<(u64, &mut Label)> {
        let (&at, label) = self.0.range_mut(..=addr).next_back()?;
        (addr - at < label.bytes).then_some((at, label))
    }

    /// The first name that begins above an address.
    pub fn above(&self, addr: u64) -> Option<u64> {
        self.0.range(addr.saturating_add(1)..).next().map(|(at, _)| *at)
    }

    /// All, in the order of addresses.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Label)> {
        self.0.iter().map(|(at, label)| (*at, label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(bytes: u64, name: &str) -> Label {
        Label { bytes, start: 0, thread: 0, name: name.into(), touched: false }
    }

    #[test]
    fn a_name_ends_where_another_begins() {
        let mut labels = Labels::default();
        labels.insert(0x1000, label(0x100, "a"));
        labels.insert(0x1100, label(0x100, "b"));
        labels.insert(0x1200, label(0x100, "c"));
        assert_eq!(labels.find(0x11ff).map(|(at, found)| (at, found.name.clone())), Some((0x1100, "b".into())));
        let gone = labels.insert(0x10f0, label(0x20, "d"));
        assert_eq!(gone.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0x1000, 0x1100]);
        let mut names =
            [0x10ef, 0x10f0, 0x110f, 0x1110].map(|at| labels.find(at).map(|(at, label)| (at, label.name.clone())));
        let expected = [(0x1000, "a"), (0x10f0, "d"), (0x10f0, "d"), (0x1110, "b")];
        assert_eq!(names.each_mut().map(|name| name.take()), expected.map(|(at, name)| Some((at, name.into()))));
        assert_eq!((labels.above(0x1110), labels.above(0x1200)), (Some(0x1200), None));
        // A part of one, and one within another.
        assert_eq!(labels.remove_range(0x1210, 0x1220).len(), 1);
        assert_eq!(
            labels.iter().map(|(at, label)| (at, label.bytes)).skip(3).collect::<Vec<_>>(),
            [(0x1200, 0x10), (0x1220, 0xe0)]
        );
        assert!(labels.remove(0x10f0).is_some() && labels.remove(0x10f0).is_none());
    }
}
