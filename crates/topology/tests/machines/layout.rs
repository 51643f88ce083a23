//! Nodes, CPUs and memory.

use crate::fixture::Fixture;

#[test]
fn two_sockets_with_smt() {
    let fixture = Fixture::new()
        .cpuinfo("GenuineIntel", "Intel(R)  Xeon(R) Gold 6130", "fpu sse2")
        .cpus(8, 2, 2)
        .nodes(&[("0-1,4-5", 96, "10 21"), ("2-3,6-7", 96, "21 10")]);
    let machine = fixture.machine();
    assert_eq!(machine.model.as_deref(), Some("Intel(R) Xeon(R) Gold 6130"));
    assert_eq!((machine.packages(), machine.cores(), machine.cpus.len()), (2, 4, 8));
    assert_eq!(machine.memory_bytes, Some(192 << 30));
    assert_eq!(machine.page_bytes, Some(4096));
    assert_eq!(machine.huge_page_bytes, [2 << 20, 1 << 30]);
    assert!(machine.is_numa());
    assert_eq!(machine.distance(0, 1), Some(21));
    assert_eq!(machine.distance(1, 1), Some(10));
    assert_eq!(machine.distance(0, 2), None);
    assert_eq!(machine.node_of_cpu(5), Some(0));
    assert_eq!(machine.node_of_cpu(6), Some(1));
    assert_eq!(machine.node_of_cpu(8), None);
    let cpu = &machine.cpus[5];
    assert_eq!((cpu.package, cpu.core, &cpu.siblings[..]), (Some(0), Some(1), &[1, 5][..]));
    let levels: Vec<u32> = cpu.caches.iter().map(|cache| cache.level).collect();
    assert_eq!(levels, [1, 3]);
    assert_eq!(cpu.caches[1].bytes, Some(32 << 20));
    assert_eq!(cpu.caches[1].shared_by, [0, 1, 4, 5]);

    let text = fixture.doctor();
    assert!(text.contains("8 CPUs (2 sockets, 4 cores)"), "{text}");
    assert!(text.contains("192 GiB, pages of 4 KiB (huge 2 MiB, 1 GiB; transparent madvise)"), "{text}");
    assert!(text.contains("   1  2-3,6-7      96 GiB    21  10\n"), "{text}");
}

#[test]
fn memory_without_cpus() {
    let fixture = Fixture::new()
        .cpus(4, 1, 1)
        .nodes(&[("0-3", 64, "10 14"), ("", 256, "14 10")])
        .put("sys/devices/system/node/node1/access0/initiators/read_latency", "250")
        .put("sys/devices/system/node/node1/access0/initiators/read_bandwidth", "30000")
        .put("sys/devices/system/node/node1/access0/initiators/write_latency", "0")
        .put("sys/devices/system/node/node1/access0/initiators/node0/x", "");
    let machine = fixture.machine();
    let (near, far) = (machine.node(0).unwrap(), machine.node(1).unwrap());
    assert!(!near.memory_only && far.memory_only);
    assert!(machine.is_numa());
    assert_eq!(near.performance, None);
    let stated = far.performance.as_ref().unwrap();
    assert_eq!((stated.read_latency_ns, stated.write_latency_ns), (Some(250), None));
    assert_eq!((stated.read_bandwidth_mb, &stated.initiators[..]), (Some(30000), &[0][..]));
    let text = fixture.doctor();
    assert!(text.contains("nodes      2, 1 memory-only"), "{text}");
    assert!(text.contains("   1  none     256 GiB    14  10\n"), "{text}");
}

#[test]
fn offline_cpus_and_nodes() {
    let fixture = Fixture::new()
        .cpus(4, 1, 1)
        .nodes(&[("0,2", 8, "10 20"), ("", 0, ""), ("", 8, "20 10")])
        .put("sys/devices/system/cpu/online", "0,2")
        .put("sys/devices/system/node/online", "0,2")
        .without("sys/devices/system/cpu/cpu1/topology");
    let machine = fixture.machine();
    assert_eq!(machine.online_cpus().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(machine.node_of_cpu(1), None);
    assert_eq!(machine.node_of_cpu(2), Some(0));
    assert_eq!(machine.cpus[1].package, None);
    assert!(!machine.nodes[1].online && machine.nodes[1].distances.is_empty());
    assert_eq!(machine.distance(0, 2), Some(20));
    assert_eq!(machine.distance(0, 1), None);
    let text = fixture.doctor();
    assert!(text.contains("2 CPUs") && text.contains("2 offline"), "{text}");
    assert!(text.contains("nodes      3, 1 memory-only, 1 offline"), "{text}");
}

#[test]
fn a_kernel_without_numa_is_one_node() {
    let fixture = Fixture::new().cpus(2, 1, 1).put("proc/meminfo", "MemTotal: 2097152 kB\n");
    let machine = fixture.machine();
    assert_eq!(machine.nodes.len(), 1);
    assert_eq!(machine.nodes[0].cpus, [0, 1]);
    assert_eq!(machine.nodes[0].memory_bytes, Some(2 << 30));
    assert!(!machine.is_numa() && !machine.nodes[0].memory_only);
    assert_eq!(machine.node_of_cpu(1), Some(0));
}

#[test]
fn page_size_comes_from_the_auxiliary_vector() {
    let pair = |key: u64, value: u64| [key.to_ne_bytes(), value.to_ne_bytes()].concat();
    let auxv = [pair(33, 0x7fff_0000), pair(6, 65536), pair(0, 0)].concat();
    let fixture = Fixture::new().put("proc/self/auxv", &auxv);
    assert_eq!(fixture.machine().page_bytes, Some(65536));
    let cut = Fixture::new().put("proc/self/auxv", &auxv[..20]);
    assert_eq!(cut.machine().page_bytes, Some(4096), "from smaps");
}

#[test]
fn confinement_is_said() {
    let fixture = Fixture::new()
        .cpus(8, 2, 1)
        .nodes(&[("0-3", 4, "10 21"), ("4-7", 4, "21 10")])
        .put("proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t4-5\nMems_allowed_list:\t1\n")
        .put("proc/sys/kernel/numa_balancing", "1");
    let text = fixture.doctor();
    assert!(text.contains("confined   to 2 of 8 CPUs (4-5)\n"), "{text}");
    assert!(text.contains("confined   to the memory of node 1\n"), "{text}");
    assert!(text.contains("AutoNUMA   on"), "{text}");
}

#[test]
fn the_machine_these_tests_run_on() {
    use numamma_topology::Machine;
    let machine = Machine::read("/".as_ref());
    assert!(machine.online_cpus().count() > 0);
    assert!(machine.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
    assert!(machine.page_bytes.is_some());
    for cpu in machine.online_cpus() {
        assert!(machine.node_of_cpu(cpu).is_some(), "CPU {cpu}");
    }
    let json = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Machine>(&json).unwrap(), machine);
}

/// The nodes of some guests have the memory of their host.
#[test]
fn the_memory_is_what_the_kernel_says_it_has() {
    let fixture =
        Fixture::new().cpus(2, 1, 1).nodes(&[("0-1", 96, "10")]).put("proc/meminfo", "MemTotal: 2097152 kB\n");
    assert_eq!(fixture.machine().memory_bytes, Some(2 << 30));
}
