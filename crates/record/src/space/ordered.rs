//! An ordered map whose copies share what they have in common: what a fork copies.
//!
//! ```text
//!   parent ──> [ | | ]          child ──> [ | | ]      after the child has changed one entry: the nodes on the way to it
//!               │ │ └───────────────────────│─│─┘      are its own, all others are shared
//!               │ └─────────────────────────┘ │
//!               └──> leaf (parent's)          └──> leaf (child's)
//! ```
//!
//! A B+ tree whose nodes grow by a few entries at a time, so that they hold hardly more memory than entries: the standard
//! library's tree, made in ascending order, leaves its nodes half empty (80 bytes for an entry of 40; here 43).

use std::rc::Rc;

/// Most entries of a node. More make changes dearer, after a fork above all; fewer make the tree deeper.
const MOST: usize = 64;
/// A node with fewer is joined with a neighbour if that gives no more than [`JOINED`].
const FEWEST: usize = MOST * 3 / 8;
/// Room is left, or the next entry would split the node again.
const JOINED: usize = MOST * 7 / 8;
/// Entries by which a node's memory grows. More leave more of it unused, fewer copy it more often.
const STEP: usize = 4;

/// A map from addresses.
#[derive(Clone, Debug)]
pub struct OrderedMap<V> {
    root: Rc<Node<V>>,
}

/// Keys apart from what they lead to: a search reads few cache lines.
#[derive(Clone, Debug)]
struct Node<V> {
    /// Of a leaf the keys; else for each child a number that is not above its first key.
    keys: Vec<u64>,
    below: Below<V>,
}

#[derive(Clone, Debug)]
enum Below<V> {
    Values(Vec<V>),
    /// None of them empty.
    Children(Vec<Rc<Node<V>>>),
}

impl<V> Default for OrderedMap<V> {
    fn default() -> Self {
        Self { root: Rc::new(Node { keys: Vec::new(), below: Below::Values(Vec::new()) }) }
    }
}

impl<V: Copy> OrderedMap<V> {
    /// Puts `value` at `key`; returns what was there.
    pub fn insert(&mut self, key: u64, value: V) -> Option<V> {
        let (old, split) = Rc::make_mut(&mut self.root).insert(key, value);
        self.rise(split);
        old
    }

    /// Puts `value` at `key` if `key..end` can be seen to be free on the way there: no entry begins in it, and the one before
    /// does not reach into it, which `reaches` says. Returns where the next entry begins at the earliest. `None`, and nothing
    /// done: it is not free, or a neighbour lies in another node.
    pub fn insert_free(&mut self, key: u64, end: u64, value: V, reaches: impl Fn(u64, &V) -> bool) -> Option<u64> {
        let (next, split) = Rc::make_mut(&mut self.root).insert_free(key, end, u64::MAX, value, &reaches)?;
        self.rise(split);
        Some(next)
    }

    /// The root was split: there is a new one above it.
    fn rise(&mut self, split: Option<Rc<Node<V>>>) {
        if let Some(right) = split {
            let left = std::mem::take(self).root;
            let keys = vec![0, right.keys[0]];
            self.root = Rc::new(Node { keys, below: Below::Children(vec![left, right]) });
        }
    }

    /// Takes out what is at `key`.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        self.remove_if(key, |_| true)
    }

    /// Takes out what is at `key` if it is the one that is meant.
    pub fn remove_if(&mut self, key: u64, is_meant: impl Fn(&V) -> bool) -> Option<V> {
        let old = Rc::make_mut(&mut self.root).remove_if(key, &is_meant);
        while let Below::Children(children) = &self.root.below
            && let [only] = children.as_slice()
        {
            self.root = Rc::clone(only);
        }
        old
    }

    /// The entry with the greatest key that is not above `key`.
    pub fn at_or_below(&self, key: u64) -> Option<(u64, &V)> {
        self.root.at_or_below(key)
    }

    /// The entry with the greatest key below `key`.
    pub fn below(&self, key: u64) -> Option<(u64, &V)> {
        self.at_or_below(key.checked_sub(1)?)
    }

    /// The least key above `key`.
    pub fn above(&self, key: u64) -> Option<u64> {
        self.root.above(key)
    }

    /// All entries, the last one first.
    pub fn descending(&self) -> impl Iterator<Item = (u64, &V)> {
        std::iter::successors(self.at_or_below(u64::MAX), |(key, _)| self.below(*key))
    }
}

impl<V: Copy> Node<V> {
    /// Returns what was at `key`, and a new right neighbour if the node had to be split.
    fn insert(&mut self, key: u64, value: V) -> (Option<V>, Option<Rc<Self>>) {
        match &mut self.below {
            Below::Values(values) => match self.keys.binary_search(&key) {
                Ok(at) => (Some(std::mem::replace(&mut values[at], value)), None),
                Err(at) => {
                    let right = add(&mut self.keys, values, at, key, value);
                    (None, right.map(|(keys, values)| Rc::new(Self { keys, below: Below::Values(values) })))
                }
            },
            Below::Children(children) => {
                let at = child_for(&self.keys, key);
                self.keys[at] = self.keys[at].min(key);
                let (old, split) = Rc::make_mut(&mut children[at]).insert(key, value);
                let right = split.and_then(|new| add(&mut self.keys, children, at + 1, new.keys[0], new));
                (old, right.map(|(keys, children)| Rc::new(Self { keys, below: Below::Children(children) })))
            }
        }
    }

    /// `bound`: no neighbour to the right has an entry below it. Returns where the next entry begins at the earliest, and a new
    /// right neighbour if the node had to be split.
    fn insert_free(
        &mut self,
        key: u64,
        end: u64,
        bound: u64,
        value: V,
        reaches: &impl Fn(u64, &V) -> bool,
    ) -> Option<(u64, Option<Rc<Self>>)> {
        match &mut self.below {
            Below::Values(values) => {
                let at = self.keys.partition_point(|&at| at < end);
                let before = at.checked_sub(1)?;
                let next = self.keys.get(at).copied().unwrap_or(bound);
                if self.keys[before] >= key || next < end || reaches(self.keys[before], &values[before]) {
                    return None;
                }
                let right = add(&mut self.keys, values, at, key, value);
                Some((next, right.map(|(keys, values)| Rc::new(Self { keys, below: Below::Values(values) }))))
            }
            Below::Children(children) => {
                let at = child_for(&self.keys, key);
                let bound = self.keys.get(at + 1).copied().unwrap_or(bound);
                let (next, split) = Rc::make_mut(&mut children[at]).insert_free(key, end, bound, value, reaches)?;
                let right = split.and_then(|new| add(&mut self.keys, children, at + 1, new.keys[0], new));
                Some((next, right.map(|(keys, children)| Rc::new(Self { keys, below: Below::Children(children) }))))
            }
        }
    }

    fn remove_if(&mut self, key: u64, is_meant: &impl Fn(&V) -> bool) -> Option<V> {
        match &mut self.below {
            Below::Values(values) => {
                let at = self.keys.binary_search(&key).ok()?;
                is_meant(&values[at]).then(|| take(&mut self.keys, values, at))
            }
            Below::Children(children) => {
                let at = child_for(&self.keys, key);
                let old = Rc::make_mut(&mut children[at]).remove_if(key, is_meant);
                join(&mut self.keys, children, at);
                old
            }
        }
    }

    fn above(&self, key: u64) -> Option<u64> {
        match &self.below {
            Below::Values(_) => self.keys.get(self.keys.partition_point(|&at| at <= key)).copied(),
            Below::Children(children) => {
                children[child_for(&self.keys, key)..].iter().find_map(|child| child.above(key))
            }
        }
    }

    fn at_or_below(&self, key: u64) -> Option<(u64, &V)> {
        let end = self.keys.partition_point(|&at| at <= key);
        match &self.below {
            Below::Values(values) => Some((self.keys[..end].last().copied()?, &values[end - 1])),
            // The last may begin above `key`, since its number is only a bound; the one before it does not.
            Below::Children(children) => children[..end].iter().rev().find_map(|child| child.at_or_below(key)),
        }
    }
}

/// The child where `key` belongs.
fn child_for(keys: &[u64], key: u64) -> usize {
    keys.partition_point(|&at| at <= key).saturating_sub(1)
}

/// Puts an item at index `at`. A full node is split: its right part is returned.
fn add<T>(keys: &mut Vec<u64>, items: &mut Vec<T>, at: usize, key: u64, item: T) -> Option<(Vec<u64>, Vec<T>)> {
    if keys.len() < MOST {
        insert_at(keys, at, key);
        insert_at(items, at, item);
        return None;
    }
    if at == MOST {
        // Ascending keys, as a growing heap gives them: what is left behind stays full.
        return Some((vec![key], vec![item]));
    }
    let mut right = (keys.split_off(MOST / 2), items.split_off(MOST / 2));
    let (keys_of, items_of, at) = match at.checked_sub(MOST / 2) {
        None => (&mut *keys, &mut *items, at),
        Some(at) => (&mut right.0, &mut right.1, at),
    };
    insert_at(keys_of, at, key);
    insert_at(items_of, at, item);
    trim(keys);
    trim(items);
    Some(right)
}

fn insert_at<T>(items: &mut Vec<T>, at: usize, item: T) {
    if items.len() == items.capacity() {
        items.reserve_exact(STEP);
    }
    items.insert(at, item);
}

/// Takes out the item at index `at`.
fn take<T>(keys: &mut Vec<u64>, items: &mut Vec<T>, at: usize) -> T {
    keys.remove(at);
    let item = items.remove(at);
    trim(keys);
    trim(items);
    item
}

/// Gives back memory that a node no longer needs.
fn trim<T>(items: &mut Vec<T>) {
    if items.capacity() - items.len() > 2 * STEP {
        items.shrink_to(items.len() + STEP);
    }
}

/// Sees to it that the child at `at`, which has lost an entry, is neither empty nor small beside a small neighbour.
fn join<V: Copy>(keys: &mut Vec<u64>, children: &mut Vec<Rc<Node<V>>>, at: usize) {
    let len = |n: usize| children.get(n).map_or(MOST, |child| child.keys.len());
    if len(at) >= FEWEST {
        return;
    }
    if len(at) == 0 {
        take(keys, children, at);
        return;
    }
    let fits = |&n: &usize| len(n) + len(n + 1) <= JOINED;
    let Some(left) = [Some(at), at.checked_sub(1)].into_iter().flatten().find(fits) else { return };
    let right = take(keys, children, left + 1);
    let right = Rc::try_unwrap(right).unwrap_or_else(|shared| Node::clone(&shared));
    let left = Rc::make_mut(&mut children[left]);
    append(&mut left.keys, right.keys);
    match (&mut left.below, right.below) {
        (Below::Values(values), Below::Values(more)) => append(values, more),
        (Below::Children(children), Below::Children(more)) => append(children, more),
        _ => unreachable!("neighbours are of one level"),
    }
}

fn append<T>(items: &mut Vec<T>, more: Vec<T>) {
    items.reserve_exact(more.len());
    items.extend(more);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Numbers without a pattern, always the same ones.
    fn numbers() -> impl Iterator<Item = u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
    }

    fn entries(map: &OrderedMap<u64>) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = map.descending().map(|(key, value)| (key, *value)).collect();
        all.reverse();
        all
    }

    /// Entries that nodes have memory for, and nodes.
    fn capacity(node: &Node<u64>) -> (usize, usize) {
        match &node.below {
            Below::Values(values) => (values.capacity(), 1),
            Below::Children(children) => children
                .iter()
                .map(|child| capacity(child))
                .fold((children.capacity(), 1), |sum, more| (sum.0 + more.0, sum.1 + more.1)),
        }
    }

    #[test]
    fn it_answers_as_the_standard_librarys_map() {
        let (mut map, mut model) = (OrderedMap::default(), BTreeMap::new());
        // It grows, stays, shrinks to nothing, and grows again.
        for (step, number) in numbers().take(200_000).enumerate() {
            let key = number % 30_000;
            let grow = match step * 4 / 200_000 {
                0 | 3 => 4,
                1 => 2,
                _ => 0,
            };
            if (number >> 32) % 4 < grow {
                assert_eq!(map.insert(key, number), model.insert(key, number));
            } else {
                assert_eq!(map.remove(key), model.remove(&key));
            }
            let asked = number >> 40 & 0x7fff;
            let expected = model.range(..=asked).next_back().map(|(key, value)| (*key, *value));
            assert_eq!(map.at_or_below(asked).map(|(key, value)| (key, *value)), expected);
        }
        assert_eq!(entries(&map), model.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>());
        for key in 0..30_000 {
            assert_eq!(map.remove(key), model.remove(&key));
        }
        assert_eq!((entries(&map), capacity(&map.root).1), (vec![], 1));
    }

    #[test]
    fn the_ends_of_the_address_space_are_keys() {
        let mut map = OrderedMap::default();
        for key in [0, u64::MAX, 5] {
            map.insert(key, key);
        }
        assert_eq!(map.at_or_below(u64::MAX), Some((u64::MAX, &u64::MAX)));
        assert_eq!(map.below(u64::MAX), Some((5, &5)));
        assert_eq!(map.below(0), None);
        assert_eq!(map.remove(0), Some(0));
    }

    #[test]
    fn a_copy_costs_what_is_changed_in_it() {
        let mut parent = OrderedMap::default();
        (0..100_000).for_each(|key| {
            parent.insert(key * 16, key);
        });
        let before = entries(&parent);
        let mut child = parent.clone();
        child.remove(16 * 5000);
        child.insert(3, 3);
        assert_eq!(entries(&parent), before);
        assert_eq!(child.at_or_below(16 * 5000).map(|(key, _)| key), Some(16 * 4999));
        fn own(node: &Rc<Node<u64>>) -> usize {
            match &node.below {
                _ if Rc::strong_count(node) > 1 => 0,
                Below::Values(_) => 1,
                Below::Children(children) => 1 + children.iter().map(own).sum::<usize>(),
            }
        }
        assert!(own(&child.root) <= 7, "{} nodes of its own", own(&child.root));
    }

    #[test]
    fn nodes_hold_little_more_than_their_entries() {
        let fill = |keys: &mut dyn Iterator<Item = u64>| {
            let mut map = OrderedMap::default();
            keys.for_each(|key| {
                map.insert(key, key);
            });
            map
        };
        let of = |map: &OrderedMap<u64>| capacity(&map.root).0 as f64 / entries(map).len() as f64;
        // Entries come and go for long: nodes split, shrink and are joined.
        let mut churned = fill(&mut (0..20_000));
        let mut keys: Vec<u64> = (0..20_000).collect();
        for (number, key) in numbers().zip(numbers().skip(1)).take(100_000) {
            let at = number as usize % keys.len();
            churned.remove(std::mem::replace(&mut keys[at], key));
            churned.insert(key, key);
        }
        let left = of(&churned);
        assert!(left < 1.18, "after many came and went: {left:.2}");
        let ascending = fill(&mut (0..100_000));
        let mut random = fill(&mut numbers().take(100_000));
        let (a, r) = (of(&ascending), of(&random));
        assert!(a < 1.05 && r < 1.1, "ascending {a:.2}, random {r:.2}");
        // Nine of ten entries go, at random.
        let keys: Vec<u64> = entries(&random).iter().map(|(key, _)| *key).collect();
        keys.iter().filter(|key| *key % 10 != 0).for_each(|key| {
            random.remove(*key);
        });
        let left = of(&random);
        assert!(left < 1.2, "after most went: {left:.2}");
    }
}
