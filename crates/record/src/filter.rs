//! Which accesses are kept: those of objects with certain names, and those in certain ranges of addresses.
//!
//! What a variable is called is known at once. What stands for a call site is known at the end only: until then accesses to
//! heap and mmap objects are kept with their site, and it is decided when the parts are merged.

use std::ops::RangeInclusive;

use numamma_symbols::origin::is_it;

/// What the user asked for.
#[derive(Debug, Default)]
pub struct Filter {
    names: Vec<String>,
    ranges: Vec<RangeInclusive<u64>>,
    /// Names of `names` that something had.
    seen: Vec<bool>,
}

/// What owns an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// An object of the call stack with that number.
    Site(u32),
    /// Something with a name of its own.
    Named(&'a str),
    /// Nothing that has a name.
    Nobody,
}

/// What becomes of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Keep,
    LeaveOut,
    /// It depends on what the call stack with that number is called.
    AskSite(u32),
}

impl Filter {
    /// Keeps accesses to objects of those names and in those ranges, or all if there are neither.
    pub fn new(names: &[String], ranges: &[RangeInclusive<u64>]) -> Self {
        Self { names: names.to_vec(), ranges: ranges.to_vec(), seen: vec![false; names.len()] }
    }

    /// True if everything is kept.
    pub fn keeps_all(&self) -> bool {
        self.names.is_empty() && self.ranges.is_empty()
    }

    /// Judges an access.
    pub fn judge(&mut self, addr: u64, owner: Owner<'_>) -> Verdict {
        if self.keeps_all() || self.ranges.iter().any(|range| range.contains(&addr)) {
            return Verdict::Keep;
        }
        match owner {
            Owner::Site(stack) if !self.names.is_empty() => Verdict::AskSite(stack),
            Owner::Named(name) if self.wants(&[name]) => Verdict::Keep,
            _ => Verdict::LeaveOut,
        }
    }

    /// True if something that goes by all these names was asked for.
    pub fn wants(&mut self, names: &[&str]) -> bool {
        let mut wanted = false;
        for (asked, seen) in self.names.iter().zip(&mut self.seen) {
            if names.iter().any(|name| !name.is_empty() && is_it(name, asked)) {
                (wanted, *seen) = (true, true);
            }
        }
        wanted
    }

    /// Names that nothing had which was accessed or allocated.
    pub fn unseen(&self) -> impl Iterator<Item = &String> {
        self.names.iter().zip(&self.seen).filter_map(|(name, seen)| (!seen).then_some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(names: &[&str], ranges: &[RangeInclusive<u64>]) -> Filter {
        Filter::new(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), ranges)
    }

    #[test]
    fn without_a_filter_everything_is_kept() {
        let mut all = filter(&[], &[]);
        for owner in [Owner::Site(1), Owner::Named("a"), Owner::Nobody] {
            assert_eq!(all.judge(0x1000, owner), Verdict::Keep);
        }
    }

    #[test]
    fn a_variable_is_judged_at_once_and_a_call_site_later() {
        let mut filter = filter(&["grid", "table"], &[]);
        assert_eq!(filter.judge(1, Owner::Named("grid")), Verdict::Keep);
        assert_eq!(filter.judge(1, Owner::Named("space::grid")), Verdict::Keep);
        assert_eq!(filter.judge(1, Owner::Named("grids")), Verdict::LeaveOut);
        assert_eq!(filter.judge(1, Owner::Nobody), Verdict::LeaveOut);
        assert_eq!(filter.judge(1, Owner::Site(7)), Verdict::AskSite(7));
        assert_eq!(filter.unseen().collect::<Vec<_>>(), ["table"]);
        assert!(filter.wants(&["main", "", "table"]));
        assert_eq!(filter.unseen().count(), 0);
    }

    #[test]
    fn a_range_needs_no_name_and_includes_both_ends() {
        let mut filter = filter(&[], &[0x1000..=0x1fff]);
        assert_eq!(filter.judge(0x1000, Owner::Site(1)), Verdict::Keep);
        assert_eq!(filter.judge(0x1fff, Owner::Nobody), Verdict::Keep);
        assert_eq!(filter.judge(0x2000, Owner::Site(1)), Verdict::LeaveOut);
    }
}
