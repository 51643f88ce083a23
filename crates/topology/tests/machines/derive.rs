//! Models from what firmware and kernel say.

use numamma_topology::{Machine, MachineModel};

use crate::fixture::Fixture;

#[test]
fn distances_are_no_latencies() {
    let machine = Fixture::new().cpus(8, 2, 2).nodes(&[("0-1,4-5", 96, "10 21"), ("2-3,6-7", 96, "21 10")]).machine();
    let reason = MachineModel::from_machine(&machine).unwrap_err().to_string();
    assert!(reason.contains("distances only") && reason.contains("--measure"), "{reason}");
    let model = MachineModel::without_latencies(&machine);
    assert!(model.latency_ns.is_empty());
    assert_eq!(model.nodes.iter().map(|node| (node.cpus, node.threads_per_core)).collect::<Vec<_>>(), [(4, 2), (4, 2)]);
    assert_eq!((model.page_bytes, model.huge_page_bytes), (4096, Some(2 << 20)));
    assert_eq!(model.cache_bytes, Some(32 << 20));
}

#[test]
fn the_firmwares_own_numbers_are_taken() {
    let access = |node: u32, name: &str| format!("sys/devices/system/node/node{node}/access0/initiators/{name}");
    let fixture = Fixture::new()
        .cpus(4, 1, 1)
        .nodes(&[("0-3", 64, "10 14"), ("", 256, "14 10")])
        .put(&access(1, "read_latency"), "250")
        .put(&access(1, "read_bandwidth"), "30000")
        .put(&access(1, "node0/x"), "");
    let reason = MachineModel::from_machine(&fixture.machine()).unwrap_err().to_string();
    assert!(reason.contains("no latency from node 0 to memory of node 0"), "{reason}");
    let fixture = fixture.put(&access(0, "read_latency"), "90").put(&access(0, "node0/x"), "");
    let model = MachineModel::from_machine(&fixture.machine()).unwrap();
    assert_eq!(model.latency_ns, [vec![90.0, 250.0], vec![]]);
    assert_eq!(model.bandwidth_gbs, Vec::<Vec<f64>>::new(), "one of two is not known");
    assert!(model.source.contains("HMAT"), "{}", model.source);
    let model = MachineModel::from_machine(&fixture.put(&access(0, "read_bandwidth"), "80000").machine()).unwrap();
    assert_eq!(model.bandwidth_gbs, [vec![80.0, 30.0], vec![]]);
}

#[test]
fn distances_are_latencies_only_where_that_is_asked_for() {
    let machine = Fixture::new().cpus(4, 2, 1).nodes(&[("0-1", 8, "10 21"), ("2-3", 8, "21 10")]).machine();
    assert!(MachineModel::from_machine(&machine).is_err());
    let model = MachineModel::from_distances(&machine).expect("both have distances");
    assert_eq!(model.latency_ns, [[100.0, 210.0], [210.0, 100.0]]);
    assert!(model.source.contains("distances"));
    assert!(MachineModel::from_distances(&Machine::default()).is_some_and(|model| model.nodes.is_empty()));
}
