//! The applier lays pages out in C, what reads them back does so in Rust: both must say the same of every page.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use numamma_plan::lay;
use numamma_wire::plan as wire;

const DRIVER: &str = r#"
#include "place/lay.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    static uint64_t memory[4096];
    struct nmm_plan *plan = (struct nmm_plan *)memory;
    plan->runs.at = 1024;
    struct nmm_plan_run *runs = (struct nmm_plan_run *)((char *)plan + plan->runs.at);
    unsigned policy, nodes, repeat, count;
    unsigned long long block, pages, page;
    while (scanf("%u %u %llu %u %llu %llu %u", &policy, &nodes, &block, &repeat, &pages, &page, &count) == 7) {
        for (unsigned i = 0; i < count; i++) {
            unsigned node;
            unsigned long long length;
            if (scanf("%u %llu", &node, &length) != 2)
                return 1;
            runs[i] = (struct nmm_plan_run){length, node, 0};
        }
        struct nmm_plan_rule rule;
        memset(&rule, 0, sizeof rule);
        rule.policy = policy;
        rule.nodes = nodes;
        rule.block_bytes = block;
        rule.repeat = repeat;
        rule.runs = count;
        struct nmm_piece piece = {0};
        unsigned long long next = 0;
        while (nmm_next_piece(plan, &rule, pages, page, &piece)) {
            if (piece.first != next || piece.last <= piece.first)
                return 2;
            for (; next < piece.last; next++)
                printf("%u ", piece.node);
        }
        printf("\n");
    }
    return 0;
}
"#;

/// Random numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

#[test]
fn the_applier_and_the_reader_lay_out_alike() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let preload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../inject/preload");
    let (source, program) = (folder.path().join("driver.c"), folder.path().join("driver"));
    std::fs::write(&source, DRIVER).expect("write the driver");
    let built = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover", "-I"])
        .args([&preload, &source, &preload.join("place/lay.c")])
        .arg("-o")
        .arg(&program)
        .output()
        .expect("run the compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let mut random = Random(88_172_645_463_325_252);
    let (mut input, mut expected) = (String::new(), String::new());
    for _ in 0..3000 {
        let policy = [wire::POLICY_BLOCK, wire::POLICY_CYCLIC, wire::POLICY_MAP][random.below(3) as usize];
        let page = if random.below(4) == 0 { 2 << 20 } else { 4096 };
        let nodes = 1 + random.below(8) as u32;
        let rule = wire::Rule {
            policy,
            nodes,
            block_bytes: (1 + random.below(9)) * page,
            repeat: random.below(2) as u32,
            ..wire::Rule::default()
        };
        let map: Vec<wire::Run> = (0..1 + random.below(6))
            .map(|_| wire::Run {
                pages: 1 + random.below(if page > 4096 { 1500 } else { 12 }),
                node: random.below(nodes.into()) as u32,
                pad: 0,
            })
            .collect();
        let pages = random.below(100);
        write!(input, "{policy} {nodes} {} {} {pages} {page} {}", rule.block_bytes, rule.repeat, map.len())
            .expect("text");
        map.iter().for_each(|run| write!(input, " {} {}", run.node, run.pages).expect("text"));
        input.push('\n');
        for run in lay(&rule, &map, pages, page) {
            (0..run.pages).for_each(|_| write!(expected, "{} ", run.node).expect("text"));
        }
        expected.push('\n');
    }
    let file = folder.path().join("input");
    std::fs::write(&file, input).expect("write the input");
    let output = Command::new(&program).stdin(std::fs::File::open(&file).expect("the input")).output().expect("run it");
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
