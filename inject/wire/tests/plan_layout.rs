//! The Rust mirror of the compiled plan against its C header, field by field.

mod mirror;

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use mirror::Mirror;
use numamma_wire::plan;

fn facts() -> BTreeMap<String, u64> {
    let mut facts = BTreeMap::new();
    let mut fact = |name: String, value: u64| assert!(facts.insert(name.clone(), value).is_none(), "{name} twice");
    macro_rules! structure {
        ($c:literal, $rust:ty, $($field:ident),+) => {
            fact(concat!("sizeof ", $c).into(), size_of::<$rust>() as u64);
            $(fact(format!("offsetof {} {}", $c, stringify!($field)), offset_of!($rust, $field) as u64);)+
        };
    }
    structure!(
        "nmm_plan_rule",
        plan::Rule,
        targets,
        any_place,
        least,
        most,
        first,
        last,
        policy,
        page_bytes,
        node,
        nodes,
        run,
        runs,
        repeat,
        gather,
        block_bytes,
        instances,
        caller,
        callers,
        base,
        phased,
        last_error,
        matched,
        bytes,
        too_small,
        failed,
        fell_back,
        unlisted,
        right,
        elsewhere,
        absent,
        unread,
        by_node
    );
    structure!("nmm_plan_module", plan::Module, device, inode, whole, text, start, place, places);
    structure!("nmm_plan_place", plan::Place, low, high, reach, module, rule);
    structure!("nmm_plan_static", plan::Static, address, bytes, module, rule);
    structure!("nmm_plan_run", plan::Run, pages, node, pad);
    structure!("nmm_plan_thread", plan::Thread, cpus);
    structure!("nmm_plan_label", plan::Label, text, rule);
    structure!("nmm_plan_phase", plan::Phase, text, by_function, begun);
    structure!("nmm_plan_process", plan::Process, pid, phase);
    structure!("nmm_placed", plan::Placed, address, bytes, base, length, rule, pid, state, node, pieces, pad);
    structure!("nmm_plan_table", plan::Table, at, count);
    structure!(
        "nmm_plan",
        plan::Header,
        magic,
        version,
        strict,
        bytes,
        least_heap,
        least_map,
        main_node,
        pad1,
        rules,
        modules,
        places,
        statics,
        nodes,
        runs,
        threads,
        labels,
        phases,
        overrides,
        texts,
        processes,
        placed,
        joined,
        stopped,
        next_placed,
        no_phase,
        pinned,
        not_pinned,
        pad2
    );
    for (name, value) in [
        ("NMM_PLAN_VERSION", u64::from(plan::VERSION)),
        ("NMM_PLAN_MAGIC", plan::MAGIC),
        ("NMM_PLAN_NODES", plan::NODES.into()),
        ("NMM_PLAN_COUNTED", plan::COUNTED as u64),
        ("NMM_PLAN_CPUS", plan::CPUS.into()),
        ("NMM_PLAN_MODULES", plan::MODULES as u64),
        ("NMM_TARGET_HEAP", plan::TARGET_HEAP.into()),
        ("NMM_TARGET_MAP", plan::TARGET_MAP.into()),
        ("NMM_TARGET_STATIC", plan::TARGET_STATIC.into()),
        ("NMM_TARGET_LABEL", plan::TARGET_LABEL.into()),
        ("NMM_POLICY_FIRST_TOUCH", plan::POLICY_FIRST_TOUCH.into()),
        ("NMM_POLICY_BIND", plan::POLICY_BIND.into()),
        ("NMM_POLICY_PREFERRED", plan::POLICY_PREFERRED.into()),
        ("NMM_POLICY_INTERLEAVE", plan::POLICY_INTERLEAVE.into()),
        ("NMM_POLICY_WEIGHTED", plan::POLICY_WEIGHTED.into()),
        ("NMM_POLICY_BLOCK", plan::POLICY_BLOCK.into()),
        ("NMM_POLICY_CYCLIC", plan::POLICY_CYCLIC.into()),
        ("NMM_POLICY_MAP", plan::POLICY_MAP.into()),
        ("NMM_GATHER_NOT", plan::GATHER_NOT.into()),
        ("NMM_GATHER_BY_THREAD", plan::GATHER_BY_THREAD.into()),
        ("NMM_GATHER_BY_INSTANCE", plan::GATHER_BY_INSTANCE.into()),
        ("NMM_PLAN_SKIPPED", plan::SKIPPED.into()),
        ("NMM_PLAN_CALLER", plan::CALLER.into()),
        ("NMM_PLACED_FREE", plan::PLACED_FREE.into()),
        ("NMM_PLACED_LIVE", plan::PLACED_LIVE.into()),
        ("NMM_PLACED_BUSY", plan::PLACED_BUSY.into()),
        ("NMM_PLACED_LEFT", plan::PLACED_LEFT.into()),
        ("NMM_PLACED_MOVING", plan::PLACED_MOVING.into()),
        ("NMM_PLACED_ENDED", plan::PLACED_ENDED.into()),
        ("NMM_PLACED_TRIES", plan::PLACED_TRIES.into()),
    ] {
        fact(format!("value {name}"), value);
    }
    facts
}

#[test]
fn the_mirror_of_the_plan_agrees_with_the_header() {
    Mirror::new("numamma_plan.h", facts()).agrees();
}

#[test]
fn nothing_in_the_plans_header_is_missing_from_the_mirror() {
    Mirror::new("numamma_plan.h", facts()).is_whole(&["NUMAMMA_PLAN_H", "NMM_ENV_PLAN"]);
    assert!(Mirror::new("numamma_plan.h", facts()).header().contains(&format!("\"{}\"", plan::ENVIRONMENT)));
}
