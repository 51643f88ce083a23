//! Machine files: what is read, what is refused, and that what is written reads back.

use numamma_topology::machines::{self, MachineError, parse, to_toml};
use numamma_topology::{Contention, MachineModel, ModelNode};

use crate::fixture::Fixture;

/// A file of two nodes with CPUs and one without.
const WHOLE: &str = r#"
name = "three"
source = "a test"
page_bytes = 4096
huge_page_bytes = "2 MiB"
ghz = 2.0
cache_bytes = "32 MiB"
nodes = [
  { cpus = 4, threads_per_core = 2, memory_bytes = "16 GiB", bandwidth_gbs = 100 },
  { cpus = 4, memory_bytes = 1000 },
  { cpus = 0, memory_bytes = "1 TiB" },
]
latency_ns = [
  [80, 130.5, 300],
  [130.5, 80, 350],
  [],
]
bandwidth_gbs = [
  [100, 40, 20],
  [40, 100, 15],
  [],
]
contention = [
  { cpus = 1, latency_ns = 80 },
  { cpus = 8, latency_cycles = 400 },
]
"#;

fn three() -> MachineModel {
    MachineModel {
        name: "three".into(),
        source: "a test".into(),
        page_bytes: 4096,
        huge_page_bytes: Some(2 << 20),
        ghz: Some(2.0),
        cache_bytes: Some(32 << 20),
        nodes: vec![
            ModelNode { cpus: 4, threads_per_core: 2, memory_bytes: Some(16 << 30), bandwidth_gbs: Some(100.0) },
            ModelNode { cpus: 4, threads_per_core: 1, memory_bytes: Some(1000), bandwidth_gbs: None },
            ModelNode { cpus: 0, threads_per_core: 1, memory_bytes: Some(1 << 40), bandwidth_gbs: None },
        ],
        latency_ns: vec![vec![80.0, 130.5, 300.0], vec![130.5, 80.0, 350.0], vec![]],
        bandwidth_gbs: vec![vec![100.0, 40.0, 20.0], vec![40.0, 100.0, 15.0], vec![]],
        contention: vec![Contention { cpus: 1, latency_ns: 80.0 }, Contention { cpus: 8, latency_ns: 200.0 }],
    }
}

/// `LINE: MESSAGE` for each fault of the whole file with one part replaced.
fn faults(from: &str, to: &str) -> Vec<String> {
    assert!(WHOLE.contains(from), "{from}");
    let faults = parse(&WHOLE.replacen(from, to, 1)).unwrap_err();
    faults.iter().map(|fault| format!("{}: {}", fault.line, fault.message)).collect()
}

#[test]
fn a_file_is_a_model() {
    assert_eq!(parse(WHOLE).unwrap(), three());
}

#[test]
fn a_model_survives_a_round_trip() {
    assert_eq!(parse(&to_toml(&three())).unwrap(), three());
    let odd = MachineModel { name: r#"a "b" \c"#.into(), huge_page_bytes: None, ghz: None, ..three() };
    assert_eq!(parse(&to_toml(&odd)).unwrap(), odd);
    let empty = MachineModel { latency_ns: vec![], bandwidth_gbs: vec![], contention: vec![], ..three() };
    assert_eq!(parse(&to_toml(&empty)).unwrap(), empty);
}

#[test]
fn every_fault_has_a_line() {
    let cases = [
        ("name = \"three\"", "name = \"\"", "2: name: is empty"),
        ("page_bytes = 4096", "page_bytes = 4095", "4: page_bytes: pages have a power of two"),
        ("\"2 MiB\"", "\"2 parsecs\"", "5: huge_page_bytes: must be a size"),
        ("\"2 MiB\"", "4096", "5: huge_page_bytes: must be more than the base page"),
        ("ghz = 2.0", "ghz = -2.0", "6: ghz: is -2, must be above 0"),
        ("ghz = 2.0", "gigahertz = 2.0", "6: unknown field `gigahertz`"),
        ("cpus = 4, memory", "cpu = 4, memory", "10: unknown field `cpu`"),
        ("threads_per_core = 2", "threads_per_core = 3", "9: threads_per_core: 4 CPUs are no cores of 3"),
        ("threads_per_core = 2", "threads_per_core = 0", "9: threads_per_core: 4 CPUs are no cores of 0"),
        ("bandwidth_gbs = 100 }", "bandwidth_gbs = 0 }", "9: bandwidth_gbs: is 0, must be above 0"),
        ("memory_bytes = \"1 TiB\"", "memory_bytes = 0", "11: nodes: one has neither CPUs nor memory"),
        ("[80, 130.5, 300]", "[80, 130.5]", "14: latency_ns: the row of node 0 has 2 numbers"),
        ("[80, 130.5, 300]", "[]", "14: latency_ns: the row of node 0 has 0 numbers"),
        ("[80, 130.5, 300]", "[80, 0, 300]", "14: latency_ns: is 0, must be above 0"),
        ("[80, 130.5, 300]", "[80, nan, 300]", "14: latency_ns: is NaN, must be above 0"),
        ("  [130.5, 80, 350],\n", "", "13: latency_ns: has 2 rows, but there are 3 nodes"),
        ("350],\n  []", "350],\n  [300, 350, 90]", "16: latency_ns: node 2 has no CPUs, its row must be empty"),
        ("[40, 100, 15]", "[40, -100, 15]", "20: bandwidth_gbs: is -100, must be above 0"),
        (
            "latency_ns = [\n",
            "latency_cycles = [[1]]\nlatency_ns = [\n",
            "13: latency_cycles: latency_ns says the same",
        ),
        ("{ cpus = 8, lat", "{ cpus = 1, lat", "25: contention: 1 CPUs after 1; must be in ascending order"),
        ("{ cpus = 8, lat", "{ cpus = 9, lat", "25: contention: 9 CPUs, but the nodes have 8"),
        ("{ cpus = 1, lat", "{ cpus = 0, lat", "24: contention: at least one CPU"),
        (", latency_cycles = 400", "", "25: contention: each point has one of latency_ns and latency_cycles"),
        ("ghz = 2.0", "", "25: latency_cycles: needs ghz"),
        ("source = \"a test\"", "", "0: missing field `source`"),
        ("latency_ns = [\n", "latency_ns = [[\n", "13: "),
    ];
    for (from, to, expected) in cases {
        let found = faults(from, to);
        let fits =
            |line: &String| line.starts_with(expected) || expected.starts_with("0: ") && line.ends_with(&expected[3..]);
        assert!(found.len() == 1 && fits(&found[0]) || expected == "13: ", "{from} -> {to}: {found:?}");
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let text =
        WHOLE.replace("ghz = 2.0", "ghz = 0").replace("[40, 100, 15]", "[40, 100]").replace("\"32 MiB\"", "\"\"");
    let lines: Vec<usize> = parse(&text).unwrap_err().iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [6, 7, 20]);
}

#[test]
fn machines_without_cpus_are_refused() {
    for nodes in ["[]", "[{ cpus = 0 }]"] {
        let text = format!("name = \"x\"\nsource = \"y\"\nnodes = {nodes}\n");
        assert_eq!(parse(&text).unwrap_err()[0].line, 3);
    }
}

#[test]
fn shipped_machines_are_sound() {
    assert!(machines::names().contains(&"amd-8x6"));
    for name in machines::names() {
        let model = machines::load(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(model.name, name);
        assert!(model.source.len() > 10, "{name} has a source");
        assert_eq!(parse(&to_toml(&model)).unwrap(), model, "{name}");
    }
}

#[test]
fn the_courses_machine_has_its_numbers() {
    let model = machines::load("amd-8x6").unwrap();
    assert_eq!(model.nodes.iter().map(|node| node.cpus).collect::<Vec<_>>(), [6; 8]);
    let cycles = |from: usize, to: usize| (model.latency_ns[from][to] * 2.2).round();
    // The pairs of cores that the course names.
    assert_eq!((cycles(0, 0), cycles(0, 15 / 6), cycles(0, 20 / 6)), (155.0, 275.0, 380.0));
    for from in 0..8 {
        for to in 0..8 {
            assert_eq!(cycles(from, to), cycles(to, from));
            assert_eq!(cycles(from, to) == 155.0, from == to);
        }
    }
    assert_eq!((model.contention[1].cpus, (model.contention[1].latency_ns * 2.2).round()), (48, 870.0));
}

#[test]
fn unknown_machines_are_told_the_known_ones() {
    let error = machines::load("amd").unwrap_err();
    assert!(matches!(error, MachineError::Unknown { .. }));
    assert!(error.to_string().contains("amd-8x6"), "{error}");
    let error = machines::load("/nowhere/x.toml").unwrap_err();
    assert!(error.to_string().starts_with("cannot read the machine file /nowhere/x.toml: "), "{error}");
    let file = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    std::fs::write(file.path(), WHOLE.replace("ghz = 2.0", "ghz = 2.0\nspeed = 3")).unwrap();
    let error = machines::load(file.path().to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains(".toml:7: unknown field `speed`"), "{error}");
    std::fs::write(file.path(), WHOLE).unwrap();
    assert_eq!(machines::load(file.path().to_str().unwrap()).unwrap(), three());
}

#[test]
fn a_measurement_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("machines");
    let machine = Fixture::new().cpus(4, 1, 1).nodes(&[("0-1", 64, "10 21"), ("2-3", 64, "21 10")]).machine();
    assert_eq!(machines::kept(&machine, &folder).unwrap(), None);
    let model = MachineModel::without_latencies(&machine);
    let model = MachineModel { latency_ns: vec![vec![80.0, 130.0], vec![131.0, 80.5]], ..model };
    let path = machines::keep(&machine, &model, &folder).unwrap();
    assert_eq!(machines::kept(&machine, &folder).unwrap().as_ref(), Some(&model));
    let again = MachineModel { ghz: Some(3.0), ..model.clone() };
    assert_eq!(machines::keep(&machine, &again, &folder).unwrap(), path, "a later one replaces it");
    assert_eq!(machines::kept(&machine, &folder).unwrap(), Some(again));
    // Other memory, other CPUs: another machine. The kernel's share of the memory may differ.
    let mut other = machine.clone();
    other.nodes[1].memory_bytes = Some(63 << 30);
    assert!(machines::kept(&other, &folder).unwrap().is_some());
    other.nodes[1].memory_bytes = Some(32 << 30);
    assert_eq!(machines::kept(&other, &folder).unwrap(), None);
    let other = Fixture::new().cpus(2, 1, 1).nodes(&[("0", 64, "10 21"), ("1", 64, "21 10")]).machine();
    assert_eq!(machines::kept(&other, &folder).unwrap(), None);
    std::fs::write(&path, "name = 3").unwrap();
    assert!(machines::kept(&machine, &folder).is_err(), "a damaged file is said");
}
