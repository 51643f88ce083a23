//! A plan for all of a program: one policy, as `numactl` has for a process.

use std::path::Path;

use crate::model::{Nodes, Object, Plan, Policy, Target};
use crate::size::parse_size;

/// Ways to write one.
pub const WHOLE_POLICIES: &str = "first-touch, interleave[=NODES], weighted[=NODES], block[=NODES], block-cyclic=SIZE, bind=NODES or preferred=NODES";

/// Size of the smallest objects that one policy for all places, where the user does not say otherwise.
pub const WHOLE_LEAST_BYTES: u64 = 64 << 10;

impl Plan {
    /// One policy for all static variables, heap blocks and mappings of at least `least` bytes. NODES as in plans: `all`,
    /// `with-cpus`, `memory-only`, `0-3,5`.
    ///
    /// # Errors
    /// The fault in the text.
    pub fn whole(policy: &str, least: u64) -> Result<Self, String> {
        let wrong = || format!("\"{policy}\": one of {WHOLE_POLICIES}");
        let (name, argument) = match policy.split_once('=') {
            Some((name, argument)) => (name, Some(argument)),
            None => (policy, None),
        };
        let nodes = match argument {
            _ if name == "block-cyclic" => Nodes::All,
            None | Some("all") => Nodes::All,
            Some("with-cpus") => Nodes::WithCpus,
            Some("memory-only") => Nodes::MemoryOnly,
            Some(list) => {
                Nodes::List(numamma_topology::list::parse(list).filter(|list| !list.is_empty()).ok_or_else(wrong)?)
            }
        };
        let policy = match (name, argument) {
            ("first-touch", None) => Policy::FirstTouch,
            ("interleave", _) => Policy::Interleave(nodes),
            ("weighted", _) => Policy::Weighted(nodes),
            ("block", _) => Policy::Block(nodes),
            ("block-cyclic", Some(size)) => {
                let bytes = parse_size(size).filter(|&bytes| bytes > 0);
                let bytes = bytes.ok_or_else(|| format!("\"{policy}\": {size} is no size, such as 64KiB or 65536"))?;
                Policy::BlockCyclic { nodes, bytes }
            }
            ("bind", Some(_)) => Policy::Bind(nodes),
            ("preferred", Some(_)) => Policy::Preferred(nodes),
            _ => return Err(wrong()),
        };
        let object = Object {
            line: 0,
            name: None,
            target: Target::Any,
            callers: Vec::new(),
            phases: Vec::new(),
            module: None,
            bytes: least..=u64::MAX,
            instances: 0..=u32::MAX,
            policy,
            page: None,
            gather: None,
        };
        Ok(Self { path: Path::new("--policy").into(), objects: vec![object], ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--min-size` of `apply` and `try`.
    #[test]
    fn objects_below_the_least_size_are_left() {
        let bytes = |least: u64| Plan::whole("interleave", least).map(|mut plan| plan.objects.remove(0).bytes);
        let bytes = bytes(64 << 10).expect("a plan");
        assert!(!bytes.contains(&(60 << 10)) && bytes.contains(&(64 << 10)) && bytes.contains(&(68 << 10)));
    }

    #[test]
    fn policies_are_written_in_short() {
        let policy = |text: &str| Plan::whole(text, 0).map(|mut plan| plan.objects.remove(0).policy);
        assert_eq!(policy("interleave"), Ok(Policy::Interleave(Nodes::All)));
        assert_eq!(policy("bind=1,3"), Ok(Policy::Bind(Nodes::List(vec![1, 3]))));
        assert_eq!(policy("block=with-cpus"), Ok(Policy::Block(Nodes::WithCpus)));
        assert_eq!(policy("block-cyclic=64 KiB"), Ok(Policy::BlockCyclic { nodes: Nodes::All, bytes: 65536 }));
        for text in ["", "bind", "bind=x", "block-cyclic", "block-cyclic=0", "first-touch=1", "blok"] {
            assert!(policy(text).is_err(), "{text}");
        }
    }
}
