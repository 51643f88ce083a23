//! `numamma machine`: every source in every form, and faults in files of the user.

use std::fs;

use numamma_tests::run::OWN_FAILURE;
use numamma_tests::{Place, Run};
use serde_json::Value;

fn machine(args: &[&str]) -> Run {
    // What was measured here must not matter.
    Run::numamma().arg("machine").args(args).env("XDG_CACHE_HOME", "/nonexistent")
}

fn json(args: &[&str]) -> Value {
    let outcome = machine(args).args(["--format", "json"]).run().success();
    serde_json::from_slice(&outcome.stdout).unwrap()
}

#[test]
fn this_machine_is_described() {
    let _place = Place::together();
    let outcome = machine(&[]).run().success();
    assert!(outcome.out().contains("nodes") && outcome.out().contains("CPUs"), "{outcome}");
    let here = json(&[]);
    assert_eq!(here["version"], 1);
    assert!(!here["machine"]["nodes"].as_array().unwrap().is_empty());
    let stated = here["model"]["latency_ns"].as_array().unwrap().is_empty();
    assert_eq!(stated, here["unknown"].is_string(), "latencies, or the reason why there are none");
}

#[test]
fn machine_files_read_back() {
    let place = Place::together();
    for name in ["amd-8x6", "epyc-9224-cxl", "memaxes-2x16"] {
        let file = place.path("machine.toml");
        let written = machine(&["--machine", name, "--format", "toml", "-o"]).arg(&file).run().success();
        assert!(written.stdout.is_empty(), "{written}");
        let again = machine(&["--format", "toml", "--machine"]).arg(&file).run().success();
        assert_eq!(again.out(), fs::read_to_string(&file).unwrap());
    }
}

#[test]
fn files_of_hwloc_read_back() {
    let place = Place::together();
    let file = place.path("machine.xml");
    machine(&["--machine", "epyc-9224-cxl", "--format", "hwloc", "-o"]).arg(&file).run().success();
    let (stated, read) = (json(&["--machine", "epyc-9224-cxl"]), json(&["--hwloc", file.to_str().unwrap()]));
    assert_eq!(read["machine"]["cpus"], stated["machine"]["cpus"]);
    assert_eq!(read["machine"]["nodes"][4]["memory_only"], true);
    assert_eq!(read["model"]["latency_ns"][0][4], 279.0, "whole nanoseconds");
    let again = machine(&["--format", "hwloc", "--hwloc"]).arg(&file).run().success();
    assert_eq!(again.out(), fs::read_to_string(&file).unwrap());
}

#[test]
fn faults_have_lines() {
    let place = Place::together();
    let file = place.path("bad.toml");
    fs::write(&file, "name = \"x\"\nsource = \"y\"\nghz = 0\nnodes = [{ cpus = 1 }]\nlatency_ns = [[1, 2]]\n").unwrap();
    let outcome = machine(&["--machine"]).arg(&file).run().exits(OWN_FAILURE);
    let lines: Vec<String> = outcome.err().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{outcome}");
    assert!(lines[0].contains("bad.toml:3: ghz") && lines[1].contains("bad.toml:5: latency_ns"), "{outcome}");
    let file = place.path("bad.xml");
    fs::write(&file, "<html/>").unwrap();
    machine(&["--hwloc"]).arg(&file).run().exits(OWN_FAILURE).fails_clearly(&["bad.xml:1", "hwloc"]);
    machine(&["--machine", "amd"]).run().exits(OWN_FAILURE).fails_clearly(&["amd", "amd-8x6"]);
    machine(&["--machine", "amd-8x6", "--measure"]).run().exits(OWN_FAILURE).fails_clearly(&["--measure"]);
    machine(&["--root"]).arg(place.path("nothing")).run().exits(OWN_FAILURE).fails_clearly(&["nothing"]);
    let outcome = machine(&["-o", "/nonexistent/x"]).run().exits(OWN_FAILURE);
    outcome.fails_clearly(&["cannot write /nonexistent/x"]);
}
