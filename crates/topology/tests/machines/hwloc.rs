//! Files of hwloc: three versions of one machine, and that what is written reads back.

use numamma_topology::hwloc::{self, Described};
use numamma_topology::{Machine, MachineModel, machines};

use crate::fixture::Fixture;

/// Two nodes of a core with two threads each; as hwloc 1 wrote it.
const V1: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc.dtd">
<topology>
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000001f" online_cpuset="0x0000000f">
    <page_type size="4096" count="0"/>
    <info name="Backend" value="Linux"/>
    <distances nbobjs="2" relative_depth="2" latency_base="10.000000">
      <latency value="1.000000"/><latency value="2.100000"/>
      <latency value="2.100000"/><latency value="1.000000"/>
    </distances>
    <object type="Socket" os_index="0" cpuset="0x0000000f">
      <info name="CPUModel" value="Some  Processor"/>
      <object type="NUMANode" os_index="0" cpuset="0x00000003" nodeset="0x00000001" local_memory="1073741824">
        <page_type size="4096" count="262144"/>
        <page_type size="2097152" count="0"/>
        <object type="Cache" cpuset="0x00000003" cache_size="1048576" depth="2" cache_linesize="64" cache_type="0">
          <object type="Cache" cpuset="0x00000003" cache_size="32768" depth="1" cache_linesize="64" cache_type="1">
            <object type="Core" os_index="0" cpuset="0x00000003">
              <object type="PU" os_index="0" cpuset="0x00000001"/>
              <object type="PU" os_index="1" cpuset="0x00000002"/>
            </object>
          </object>
        </object>
      </object>
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" nodeset="0x00000002" local_memory="1073741824">
        <object type="Cache" cpuset="0x0000000c" cache_size="1048576" depth="2" cache_linesize="64" cache_type="0">
          <object type="Cache" cpuset="0x0000000c" cache_size="32768" depth="1" cache_linesize="64" cache_type="1">
            <object type="Core" os_index="1" cpuset="0x0000000c">
              <object type="PU" os_index="2" cpuset="0x00000004"/>
              <object type="PU" os_index="3" cpuset="0x00000008"/>
            </object>
          </object>
        </object>
      </object>
    </object>
  </object>
</topology>
"#;

/// The same with memory children. `VERSION` and `END` differ between 2 and 3.
const V2: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="VERSION">
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000001f" nodeset="0x00000003" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x0000000f" gp_index="2">
      <info name="CPUModel" value="Some Processor"/>
      <object type="Group" cpuset="0x00000003" gp_index="3">
        <object type="NUMANode" os_index="0" cpuset="0x00000003" gp_index="20" local_memory="1073741824">
          <page_type size="4096" count="262144"/>
          <page_type size="2097152" count="0"/>
        </object>
        <object type="L2Cache" cpuset="0x00000003" gp_index="4" cache_size="1048576" depth="2" cache_linesize="64" cache_type="0">
          <object type="L1Cache" cpuset="0x00000003" gp_index="5" cache_size="32768" depth="1" cache_linesize="64" cache_type="1">
            <object type="Core" os_index="0" cpuset="0x00000003" gp_index="6">
              <object type="PU" os_index="0" cpuset="0x00000001" gp_index="7"/>
              <object type="PU" os_index="1" cpuset="0x00000002" gp_index="8"/>
            </object>
          </object>
        </object>
      </object>
      <object type="Group" cpuset="0x0000000c" gp_index="9">
        <object type="NUMANode" os_index="1" cpuset="0x0000000c" gp_index="21" local_memory="1073741824"/>
        <object type="L2Cache" cpuset="0x0000000c" gp_index="10" cache_size="1048576" depth="2" cache_linesize="64" cache_type="0">
          <object type="L1Cache" cpuset="0x0000000c" gp_index="11" cache_size="32768" depth="1" cache_linesize="64" cache_type="1">
            <object type="Core" os_index="1" cpuset="0x0000000c" gp_index="12">
              <object type="PU" os_index="2" cpuset="0x00000004" gp_index="13"/>
              <object type="PU" os_index="3" cpuset="0x00000008" gp_index="14"/>
            </object>
          </object>
        </object>
      </object>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="INDEXING">
    <indexes length="4">INDEXES</indexes>
    <u64values length="6">10 21 </u64values>
    <u64values length="6">21 10 </u64values>
  </distances2>
END</topology>
"#;

fn v2() -> String {
    let text = V2.replace("VERSION", "2.0").replace("INDEXING", "os").replace("INDEXES", "0 1 ");
    text.replace("END", "  <support name=\"discovery.pu\"/>\n")
}

fn v3() -> String {
    let text = V2.replace("VERSION", "3.0").replace("INDEXING", "gp").replace("INDEXES", "20 21 ");
    text.replace("END", "  <info name=\"Backend\" value=\"Linux\"/>\n")
}

fn machine(text: &str) -> Machine {
    let Described { machine, model } = hwloc::parse(text).unwrap();
    assert_eq!(model, None);
    machine
}

#[test]
fn three_versions_say_the_same() {
    let (v1, v2, v3) = (machine(V1), machine(&v2()), machine(&v3()));
    assert_eq!(v1, v2);
    assert_eq!(v2, v3);
    assert_eq!(v2.model.as_deref(), Some("Some Processor"));
    assert_eq!((v2.packages(), v2.cores(), v2.online_cpus().count(), v2.cpus.len()), (1, 2, 4, 5));
    assert_eq!((v2.distance(0, 0), v2.distance(1, 0)), (Some(10), Some(21)));
    assert_eq!((v2.page_bytes, &v2.huge_page_bytes[..]), (Some(4096), &[2 << 20][..]));
    assert_eq!(v2.memory_bytes, Some(2 << 30));
    let cpu = &v2.cpus[3];
    assert_eq!((cpu.node, cpu.package, cpu.core, &cpu.siblings[..]), (Some(1), Some(0), Some(1), &[2, 3][..]));
    let caches: Vec<_> = cpu.caches.iter().map(|cache| (cache.level, cache.kind.as_str(), cache.bytes)).collect();
    assert_eq!(caches, [(1, "Data", Some(32 << 10)), (2, "Unified", Some(1 << 20))]);
    assert!(!v2.cpus[4].online);
}

#[test]
fn memory_beside_memory_has_no_cpus() {
    let text = v2().replace(
        "    <object type=\"Package\"",
        "    <object type=\"NUMANode\" os_index=\"4\" cpuset=\"0x0000000f\" gp_index=\"30\" local_memory=\"4294967296\"/>\n    <object type=\"Package\"",
    );
    let machine = machine(&text);
    assert_eq!(machine.nodes.iter().map(|node| node.cpus.len()).collect::<Vec<_>>(), [2, 2, 0]);
    assert!(machine.nodes[2].memory_only);
    assert_eq!(machine.nodes[2].id, 4);
}

/// What is written reads as the same machine.
fn survives(machine: &Machine) {
    let text = hwloc::to_xml(machine, None);
    let read = hwloc::parse(&text).unwrap_or_else(|fault| panic!("{fault:?}\n{text}"));
    assert_eq!(&read.machine, machine, "{text}");
}

#[test]
fn machines_survive_a_round_trip() {
    survives(&machine(V1));
    survives(&machine(&v3()));
    let node = "sys/devices/system/node/node1";
    let fixture = Fixture::new()
        .cpuinfo("GenuineIntel", "A <\"quoted\"> & odd name", "fpu")
        .cpus(8, 2, 2)
        .nodes(&[("0-1,4-5", 96, "10 21"), ("2-3,6-7", 96, "21 10")])
        .put(&format!("{node}/access0/initiators/read_latency"), "110")
        .put(&format!("{node}/access0/initiators/read_bandwidth"), "90000")
        .put(&format!("{node}/access0/initiators/node1/x"), "");
    survives(&fixture.machine());
    let cxl = Fixture::new().cpus(4, 1, 1).nodes(&[("0-3", 64, "10 14"), ("", 256, "14 10")]);
    survives(&cxl.machine());
    survives(&Fixture::new().cpus(40, 1, 1).nodes(&[("0-39", 64, "10")]).machine());
    let offline = Fixture::new()
        .cpus(4, 1, 1)
        .nodes(&[("0-2", 64, "10"), ("", 0, "")])
        .put("sys/devices/system/node/online", "0")
        .put("sys/devices/system/cpu/online", "0-2");
    let mut offline = offline.machine();
    offline.nodes[1].memory_bytes = None;
    offline.cpus[3] = numamma_topology::Cpu { id: 3, ..Default::default() };
    offline.cpus.iter_mut().flat_map(|cpu| &mut cpu.caches).for_each(|cache| cache.shared_by.retain(|&cpu| cpu < 3));
    survives(&offline);
}

#[test]
fn this_machine_survives_a_round_trip() {
    let here = Machine::read(std::path::Path::new("/"));
    let again = hwloc::parse(&hwloc::to_xml(&here, None)).unwrap().machine;
    let shape = |machine: &Machine| {
        let nodes =
            machine.nodes.iter().map(|node| (node.id, node.cpus.clone(), node.memory_bytes, node.distances.clone()));
        (nodes.collect::<Vec<_>>(), machine.online_cpus().collect::<Vec<_>>(), machine.memory_bytes, machine.page_bytes)
    };
    assert_eq!(shape(&again), shape(&here));
}

#[test]
fn latencies_of_a_model_are_written_too() {
    for name in machines::names() {
        let model = machines::load(name).unwrap();
        let machine = model.to_machine();
        let read = hwloc::parse(&hwloc::to_xml(&machine, Some(&model))).unwrap();
        let shape = |machine: &Machine| {
            let nodes = machine.nodes.iter().map(|node| (node.cpus.clone(), node.memory_bytes, node.memory_only));
            (nodes.collect::<Vec<_>>(), machine.cpus.clone())
        };
        assert_eq!(shape(&read.machine), shape(&machine), "{name}");
        let rounded = |matrix: &[Vec<f64>]| -> Vec<Vec<f64>> {
            matrix.iter().map(|row| row.iter().map(|value| value.round()).collect()).collect()
        };
        let again: MachineModel = read.model.unwrap_or_default();
        assert_eq!(again.latency_ns, rounded(&model.latency_ns), "{name}");
        assert_eq!(again.bandwidth_gbs.len(), model.bandwidth_gbs.len(), "{name}");
        let pairs = again.bandwidth_gbs.iter().flatten().zip(model.bandwidth_gbs.iter().flatten());
        assert!(pairs.into_iter().all(|(again, stated)| (again - stated).abs() < 1e-3), "{name}");
    }
}

#[test]
fn other_files_are_refused_with_a_line() {
    let cases = [
        ("", 1, "is no XML"),
        ("<topology>\n<object></topology>\n", 2, "is no XML"),
        ("\n<html/>", 2, "is no file of hwloc: begins with <html>"),
        ("<topology version=\"9.1\"/>", 1, "version \"9.1\" of hwloc's format"),
        ("<topology version=\"2.0\"/>", 1, "has no object"),
        ("<topology version=\"2.0\">\n<object type=\"Machine\"/></topology>", 2, "has no CPU"),
        (
            "<topology version=\"2.0\">\n<object type=\"Machine\">\n<object type=\"PU\"/></object></topology>",
            3,
            "PU: os_index",
        ),
    ];
    for (text, line, message) in cases {
        let fault = hwloc::parse(text).unwrap_err();
        assert!(fault.line == line && fault.message.contains(message), "{text}: {fault:?}");
    }
    let deep = "<object type=\"Group\">".repeat(200) + &"</object>".repeat(200);
    let fault = hwloc::parse(&format!("<topology version=\"2.0\">{deep}</topology>")).unwrap_err();
    assert!(fault.message.contains("levels deep"), "{fault:?}");
    let error = hwloc::read(std::path::Path::new("/nowhere.xml")).unwrap_err();
    assert!(error.to_string().contains("/nowhere.xml"), "{error}");
}
