//! The same plan for people who prefer to set an environment, use `numactl`, or change the source.

use std::fmt::Write as _;

use numamma_topology::list;

use crate::compiled::Compiled;
use crate::model::{Nodes, Plan, Policy, Target};

/// Text: `OMP_PLACES`, the command line of `numactl` where one says the same, and C for each object.
pub fn snippet(plan: &Plan, compiled: &Compiled) -> String {
    let mut text = String::new();
    if compiled.pins() {
        let places = places(compiled);
        let _ = writeln!(text, "# OpenMP\nexport OMP_PLACES=\"{places}\" OMP_PROC_BIND=true\n");
    }
    if let [only] = &plan.objects[..]
        && only.target == Target::Any
        && let Some(option) = numactl(&only.policy)
    {
        let _ = writeln!(text, "# the whole process\nnumactl {option} COMMAND\n");
    }
    let _ = writeln!(
        text,
        "/* C: link with -lnuma; before the memory is used first. */\n#include <numa.h>\n#include <numaif.h>\n"
    );
    for (n, object) in plan.objects.iter().enumerate() {
        let nodes = compiled.names.iter().position(|name| name.line == object.line).map(|rule| compiled.nodes_of(rule));
        // A name must not end the comment.
        let _ = writeln!(text, "/* {}: {} */", object.title().replace("*/", "* /"), object.policy.name());
        c_of(&mut text, &object.policy, nodes.unwrap_or_default(), n);
        for own in &object.phases {
            let rule = compiled.names.iter().position(|name| name.line == own.line);
            let nodes = rule.map(|rule| compiled.nodes_of(rule)).unwrap_or_default();
            let _ =
                writeln!(text, "/* the same, when {} begins: {} */", own.phase.replace("*/", "* /"), own.policy.name());
            c_of(&mut text, &own.policy, nodes, n);
        }
    }
    text
}

/// The CPUs of each thread one by one: OMP_PLACES writes ranges in another way than the kernel.
fn places(compiled: &Compiled) -> String {
    let place = |cpus: &Vec<u32>| {
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        format!("{{{}}}", cpus.join(","))
    };
    compiled.threads.iter().map(place).collect::<Vec<_>>().join(",")
}

fn numactl(policy: &Policy) -> Option<String> {
    let nodes = |nodes: &Nodes| match nodes {
        Nodes::All => Some("all".into()),
        Nodes::List(ids) => Some(list::format(ids)),
        _ => None,
    };
    match policy {
        Policy::Interleave(of) => nodes(of).map(|nodes| format!("--interleave={nodes}")),
        Policy::Weighted(of) => nodes(of).map(|nodes| format!("--weighted-interleave={nodes}")),
        Policy::Bind(of) => nodes(of).map(|nodes| format!("--membind={nodes}")),
        Policy::Preferred(of) => nodes(of).map(|nodes| format!("--preferred-many={nodes}")),
        _ => None,
    }
}

fn c_of(text: &mut String, policy: &Policy, nodes: &[u32], n: usize) {
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let list = names.join(", ");
    let mask = format!("numa_parse_nodestring(\"{}\")", names.join(","));
    let _ = match policy {
        Policy::FirstTouch => writeln!(text, "/* nothing to do: each thread uses its part first */\n"),
        Policy::Interleave(_) => writeln!(text, "numa_interleave_memory(p, bytes, {mask});\n"),
        Policy::Weighted(_) => writeln!(
            text,
            "struct bitmask *nodes{n} = {mask};\nmbind(p, bytes, 6 /* MPOL_WEIGHTED_INTERLEAVE, Linux 6.9 */, nodes{n}->maskp, nodes{n}->size, MPOL_MF_MOVE);\n"
        ),
        Policy::Bind(_) | Policy::Preferred(_) | Policy::FollowThread(_) => {
            writeln!(text, "numa_tonodemask_memory(p, bytes, {mask});\n")
        }
        Policy::Block(_) => writeln!(
            text,
            "static const int nodes{n}[] = {{{list}}};\nconst size_t count{n} = sizeof nodes{n} / sizeof *nodes{n}, pages{n} = bytes / 4096;\n\
             for (size_t i = 0; i < count{n}; i++)\n    numa_tonode_memory((char *)p + pages{n} * i / count{n} * 4096, \
             (pages{n} * (i + 1) / count{n} - pages{n} * i / count{n}) * 4096, nodes{n}[i]);\n"
        ),
        Policy::BlockCyclic { bytes, .. } => writeln!(
            text,
            "static const int nodes{n}[] = {{{list}}};\nconst size_t count{n} = sizeof nodes{n} / sizeof *nodes{n};\n\
             for (size_t at = 0; at < bytes; at += {bytes})\n    numa_tonode_memory((char *)p + at, at + {bytes} < bytes ? {bytes} : bytes - at, \
             nodes{n}[at / {bytes} % count{n}]);\n"
        ),
        Policy::Map { runs, .. } => {
            let runs: Vec<String> = runs.iter().map(|(node, pages)| format!("{{{node}, {pages}}}")).collect();
            writeln!(
                text,
                "static const struct {{ int node; size_t pages; }} runs{n}[] = {{{}}};\nsize_t at{n} = 0;\n\
                 for (size_t i = 0; i < sizeof runs{n} / sizeof *runs{n} && at{n} < bytes; at{n} += runs{n}[i++].pages * 4096)\n    \
                 numa_tonode_memory((char *)p + at{n}, runs{n}[i].pages * 4096, runs{n}[i].node);\n",
                runs.join(", ")
            )
        }
    };
}
