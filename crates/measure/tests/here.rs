//! The machine that the tests run on: everything is measured, and within the mask.

use std::path::Path;

use numamma_measure::{Effort, Measurement, measure, render_measurement};
use numamma_topology::picture::Style;
use numamma_topology::{Machine, machines};

fn here() -> (Machine, Measurement, Vec<f64>) {
    let machine = Machine::read(Path::new("/"));
    let mut progress = Vec::new();
    let measurement = measure(&machine, Effort::Trial, &mut |done, _| progress.push(done)).unwrap();
    (machine, measurement, progress)
}

#[test]
fn everything_is_measured() {
    let (machine, measurement, progress) = here();
    assert_eq!(measurement.nodes.len(), machine.used_nodes().len());
    let positive = |value: f64| value.is_finite() && value > 0.0;
    for matrix in [&measurement.latency_ns, &measurement.read_gbs, &measurement.write_gbs, &measurement.copy_gbs] {
        for (row, cpus) in matrix.iter().zip(&measurement.cpus) {
            assert_eq!(row.len(), if cpus.is_empty() { 0 } else { measurement.nodes.len() });
            for cell in row.iter().map(|cell| cell.unwrap()) {
                assert!(positive(cell.low) && cell.low <= cell.median && cell.median <= cell.high, "{cell:?}");
            }
        }
    }
    assert!(!measurement.on_one_node.is_empty() && measurement.on_one_node.len() == measurement.spread.len());
    assert_eq!(measurement.on_one_node[0].cpus, 1);
    let counts = measurement.on_one_node.windows(2).all(|pair| pair[0].cpus < pair[1].cpus);
    assert!(counts, "{:?}", measurement.on_one_node);
    assert!(progress.windows(2).all(|pair| pair[0] <= pair[1]) && progress.last() == Some(&1.0));
    // 4 KiB are in the first cache; memory is tens of times as far.
    let (cache, memory) = (measurement.footprints[0].latency_ns.median, measurement.latency_ns[0][0].unwrap().median);
    assert!(positive(cache) && cache * 2.0 < memory, "{cache} {memory}");

    let model = measurement.model(&machine).unwrap();
    assert_eq!(machines::parse(&machines::to_toml(&model)).unwrap(), model, "{model:?}");
    for unicode in [true, false] {
        let text = render_measurement(&measurement, Style { width: 80, unicode });
        assert!(text.lines().all(|line| line.chars().count() <= 100 && line.trim_end() == line), "{text}");
        assert_eq!(text.is_ascii(), !unicode, "{text}");
    }
    assert!(serde_json::to_string(&measurement).is_ok());
}

#[test]
fn the_mask_is_respected() {
    let one = std::thread::spawn(|| {
        // SAFETY: a mask of zeros is one; the calls read and write it only.
        let cpu = unsafe {
            let mut mask: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&mask), &raw mut mask);
            let cpu = (0..1024).rfind(|&cpu| libc::CPU_ISSET(cpu, &mask)).unwrap();
            libc::CPU_ZERO(&mut mask);
            libc::CPU_SET(cpu, &mut mask);
            libc::sched_setaffinity(0, size_of_val(&mask), &raw const mask);
            cpu as u32
        };
        (cpu, here())
    });
    let (cpu, (machine, measurement, _)) = one.join().unwrap();
    assert_eq!(measurement.cpus.iter().flatten().collect::<Vec<_>>(), [&cpu]);
    assert_eq!(measurement.on_one_node.len(), 1);
    if machine.online_cpus().count() > 1 {
        assert!(measurement.notes.iter().any(|note| note.contains("this process may use")), "{:?}", measurement.notes);
    }
}
