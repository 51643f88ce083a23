//! Files that say nothing sensible.

use numamma_topology::Kind;

use crate::fixture::Fixture;

#[test]
fn an_empty_directory_gives_an_empty_machine() {
    let root = tempfile::TempDir::new().unwrap();
    let machine = numamma_topology::Machine::read(root.path());
    assert_eq!(machine, numamma_topology::Machine::default());
    let probe = numamma_topology::Probe::read(root.path());
    assert_eq!(probe, numamma_topology::Probe::default());
    let choice = numamma_topology::choose_sampler(&probe, &[Kind::Clock]);
    assert_eq!(choice.kind, Kind::None);
    let text = numamma_topology::render_doctor(&machine, &probe, &choice, None);
    assert!(text.contains("Nothing can be recorded here"), "{text}");
}

/// Every file of a fixture replaced in turn by every kind of nonsense.
#[test]
fn nonsense_in_any_file_breaks_nothing() {
    let fixture = || {
        Fixture::new()
            .cpuinfo("GenuineIntel", "x", "fpu hypervisor")
            .cpus(4, 2, 2)
            .nodes(&[("0,2", 4, "10 21"), ("1,3", 4, "21 10")])
            .pmu("cpu", 4, &["events/mem-loads=event=0xcd", "caps/max_precise=3"])
            .pmu("ibs_op", 11, &["format/ldlat=config1:0-11"])
    };
    let original = fixture();
    let files = files(original.root());
    assert!(files.len() > 60, "{}", files.len());
    let nonsense: [&[u8]; 8] = [
        b"",
        b"\n\n",
        b"-1",
        b"99999999999999999999999",
        b"0-4294967295",
        b"\xff\xfe\x00\x01",
        b"[",
        b": : :\nNode 0 MemTotal: x kB\nCapEff: zz\nflags",
    ];
    for path in &files {
        for bytes in nonsense {
            let kept = std::fs::read(path).unwrap();
            std::fs::write(path, bytes).unwrap();
            original.doctor();
            std::fs::write(path, kept).unwrap();
        }
        // A directory where a file should be.
        let kept = std::fs::read(path).unwrap();
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
        original.doctor();
        std::fs::remove_dir(path).unwrap();
        std::fs::write(path, kept).unwrap();
    }
    assert_eq!(original.machine(), fixture().machine());
}

#[test]
fn nonsense_empties_only_its_own_field() {
    let fixture = Fixture::new()
        .cpus(2, 1, 1)
        .nodes(&[("0-1", 4, "10")])
        .put("sys/devices/system/node/node0/distance", "ten")
        .put("sys/devices/system/cpu/cpu1/topology/core_id", "?");
    let machine = fixture.machine();
    assert!(machine.nodes[0].distances.is_empty());
    assert_eq!(machine.nodes[0].memory_bytes, Some(4 << 30));
    assert_eq!(machine.cpus[1].core, None);
    assert_eq!(machine.node_of_cpu(1), Some(0));
}

fn files(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}
