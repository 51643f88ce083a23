//! The lab: a guest with the nodes that were asked for, and counts of accesses that are those of the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use numamma_tests::guest::{FOUR, applies, lab, matrix};
use numamma_tests::report::Report;
use numamma_tests::run::{alive, children, signal, until};
use numamma_tests::{Outcome, Place, Run, build};

fn four() -> Run {
    lab().args(FOUR)
}

fn in_guest(run: Run, command: &str) -> Outcome {
    run.args(["--", "sh", "-c", command]).run()
}

fn probe() -> PathBuf {
    build::helper("lab_probe")
}

fn nanoseconds(outcome: &Outcome) -> f64 {
    outcome.out().trim().parse().unwrap_or_else(|_| panic!("no number: {outcome}"))
}

/// What the kernel says of each node: distances, CPUs, memory in MiB.
fn nodes(run: Run) -> Vec<(String, String, u64)> {
    let command = "cd /sys/devices/system/node; for n in $(ls -d node[0-9]* | sort -V); do
        echo \"$(cat $n/distance);$(cat $n/cpulist);$(sed -n 's/.*MemTotal: *\\([0-9]*\\).*/\\1/p' $n/meminfo)\"; done";
    let outcome = in_guest(run, command).success();
    let node = |line: &str| {
        let parts: Vec<&str> = line.split(';').collect();
        (parts[0].to_owned(), parts[1].to_owned(), parts[2].parse::<u64>().expect("a size") >> 10)
    };
    outcome.out().lines().map(node).collect()
}

// ---- The machine

#[test]
fn four_nodes_in_a_ring() {
    if !applies("four_nodes_in_a_ring") {
        return;
    }
    let nodes = nodes(four());
    let distances: Vec<&str> = nodes.iter().map(|node| node.0.as_str()).collect();
    assert_eq!(distances, ["10 20 30 20", "20 10 20 30", "30 20 10 20", "20 30 20 10"]);
    assert!(nodes.iter().enumerate().all(|(number, node)| node.1 == number.to_string()), "{nodes:?}");
    // Node 0 has the kernel and what it set aside.
    assert!(nodes.iter().all(|node| (160..=256).contains(&node.2)), "{nodes:?}");
}

#[test]
fn eight_nodes_with_distances_of_one_direction() {
    if !applies("eight_nodes_with_distances_of_one_direction") {
        return;
    }
    let place = Place::together();
    let file = place.path("matrix.json");
    let asked = || lab().args(["--nodes", "8", "--dist", "asym"]);
    let nodes = nodes(asked());
    assert_eq!(nodes.len(), 8);
    assert_eq!((nodes[0].0.as_str(), nodes[0].1.as_str()), ("10 20 30 40 50 60 70 80", "0"));
    assert_eq!((nodes[7].0.as_str(), nodes[7].1.as_str()), ("20 30 40 50 60 70 80 10", "7"));
    // Threads that run at the same time do not take counts from each other.
    let parts = (0..8).map(|cpu| format!("{cpu}:{}:{}", (cpu * 3 + 1) % 8, 50_000 + cpu * 1000));
    asked().arg("--matrix").arg(&file).arg("--").arg(probe()).arg("split").args(parts).run().success();
    let matrix = matrix(&file);
    for cpu in 0..8 {
        let (node, expected) = ((cpu * 3 + 1) % 8, (50_000 + cpu * 1000) as u64);
        let found = matrix["cpus"][cpu]["writes"][node].as_u64().expect("a count");
        assert!((expected..expected + expected / 50).contains(&found), "CPU {cpu}: {found} of {expected}");
    }
}

#[test]
fn nodes_of_memory_alone() {
    if !applies("nodes_of_memory_alone") {
        return;
    }
    let two = ["--nodes", "2", "--cpus", "4", "--mem-nodes", "1", "--dist", "line", "--hmat", "--memory", "512M"];
    let nodes = nodes(lab().args(two));
    let expected = [("10 20 30", "0-1"), ("20 10 20", "2-3"), ("30 20 10", "")];
    assert_eq!(nodes.iter().map(|node| (node.0.as_str(), node.1.as_str())).collect::<Vec<_>>(), expected);
    assert!(nodes[2].2 > 400, "{nodes:?}");
}

#[test]
fn the_older_kernel_has_no_weighted_interleaving() {
    if !applies("the_older_kernel_has_no_weighted_interleaving") {
        return;
    }
    let answer = |run: Run| run.arg("--").arg(probe()).arg("weighted").run().success().out();
    assert_eq!(answer(four()), "taken\n");
    assert_eq!(answer(four().args(["--kernel", "6.1"])), "Invalid argument\n");
}

// ---- The command

#[test]
fn output_and_status_pass_through() {
    if !applies("output_and_status_pass_through") {
        return;
    }
    let place = Place::together();
    let run = || four().dir(place.dir()).env("GREETING", "it's  me");
    let script = "echo \"$GREETING\"; pwd; id -u; echo oops >&2; head -c 3000000 /dev/zero | tr '\\0' x; exit 7";
    let outcome = in_guest(run(), script).exits(7);
    let expected = format!("it's  me\n{}\n0\n{}", place.dir().display(), "x".repeat(3_000_000));
    assert!(outcome.out() == expected, "{outcome}");
    assert_eq!(outcome.err(), "oops\n");
    in_guest(run(), "kill -TERM $$").exits(128 + libc::SIGTERM);
    let outcome = run().args(["--", "no-such-command"]).run().exits(127);
    assert!(outcome.err().contains("no-such-command"), "{outcome}");
}

#[test]
fn only_the_share_is_written_to() {
    if !applies("only_the_share_is_written_to") {
        return;
    }
    let place = Place::together();
    let share = place.path("a share, with a comma");
    let script = "echo kept > \"$LAB_SHARE/kept\" && echo gone > gone && cat gone";
    assert_eq!(in_guest(four().dir(place.dir()).arg("--share").arg(&share), script).success().out(), "gone\n");
    assert_eq!(fs::read_to_string(share.join("kept")).expect("the file"), "kept\n");
    assert!(!place.path("gone").exists());
}

#[test]
fn programs_are_recorded_inside() {
    if !applies("programs_are_recorded_inside") {
        return;
    }
    let place = Place::together();
    let source = r"
        #include <omp.h>
        #include <stdlib.h>
        int main(void) {
            enum { N = 1 << 20 };
            double *field = malloc(N * sizeof *field), sum = 0;
            for (double end = omp_get_wtime() + 2; omp_get_wtime() < end;) {
                #pragma omp parallel for schedule(static) reduction(+:sum)
                for (int i = 0; i < N; i++) { field[i] = i; sum += field[i]; }
            }
            return sum < 0;
        }";
    let program = place.compile("gcc", "program", source, &["-O1", "-g", "-fopenmp"]);
    let run = four().env("OMP_PROC_BIND", "true").env("OMP_NUM_THREADS", "4").env("OMP_WAIT_POLICY", "passive");
    let run = run.arg("--share").arg(place.dir()).arg("--").arg(build::numamma());
    run.args(["record", "-o"]).arg(place.dataset()).arg(&program).run().success();
    let text = Run::report(&place.dataset()).run().success().out();
    assert!(text.contains("4 nodes, 4 CPUs"), "{text}");
    let field = Report::object_of(&place.dataset(), "field");
    assert!(field.samples > 100, "{text}");
    let owners: BTreeSet<usize> = field.first_touch.iter().map(|touch| touch.thread).collect();
    assert_eq!(owners.len(), 4, "{:?}", field.first_touch);
}

// ---- Counts and delays

#[test]
fn each_access_is_in_its_cell() {
    if !applies("each_access_is_in_its_cell") {
        return;
    }
    let place = Place::together();
    let file = place.path("matrix.json");
    let counted = |what: &str, cpu: usize, node: usize| {
        let words = [what, &cpu.to_string(), &node.to_string(), "4000000"];
        four().arg("--matrix").arg(&file).arg("--").arg(probe()).args(words).run().success();
        let matrix = matrix(&file);
        assert_eq!((matrix["complete"].as_bool(), matrix["astray"].as_u64()), (Some(true), Some(0)), "{matrix}");
        assert_eq!(matrix["distance"][0][2], 30);
        (matrix["cpus"][cpu]["reads"][node].as_u64().expect("a count"), matrix)
    };
    for (cpu, node) in [(2, 3), (0, 2)] {
        let (reads, matrix) = counted("read", cpu, node);
        assert!((4_000_000..4_040_000).contains(&reads), "{reads} from CPU {cpu} to node {node}: {matrix}");
    }
    let (reads, matrix) = counted("marked", 3, 1);
    assert_eq!(reads, 4_000_000, "{matrix}");
    assert_eq!(matrix["nodes"][1]["remote"], 4_000_000);
    // And next to nothing else: one process, and marks at both ends of its loop.
    assert!(matrix["local"].as_u64() < Some(1000) && matrix["remote_share"].as_f64() > Some(0.99), "{matrix}");
    assert!(matrix["imbalance"].as_f64() > Some(190.0), "{matrix}");
}

#[test]
fn remote_accesses_take_longer_by_their_distance() {
    if !applies("remote_accesses_take_longer_by_their_distance") {
        return;
    }
    let place = Place::alone();
    let delayed = |node: &str| {
        let run = four().args(["--delay", "1000", "--"]).arg(probe()).args(["read", "0", node, "200000"]);
        nanoseconds(&run.run().success())
    };
    let (local, near, far) = (delayed("0"), delayed("1"), delayed("2"));
    drop(place);
    // It is only ever made to wait; other guests of this machine may make it wait longer.
    assert!(local < 700.0, "{local}");
    assert!(near - local > 900.0 && far - local > 1900.0, "{local} {near} {far}");
    assert!(far / near > 1.3, "{local} {near} {far}");
}

#[test]
fn with_caches_only_what_reaches_memory_counts() {
    if !applies("with_caches_only_what_reaches_memory_counts") {
        return;
    }
    let place = Place::together();
    let file = place.path("matrix.json");
    // Line after line of 1 MiB, again and again.
    let counted = |caches: &str| {
        let run = four().arg("--matrix").arg(&file).args(["--caches", caches, "--"]).arg(probe());
        run.args(["marked", "1", "3", "200000"]).run().success();
        let matrix = matrix(&file);
        assert_eq!((matrix["counts"].as_str(), matrix["astray"].as_u64()), (Some("memory"), Some(0)), "{matrix}");
        assert!(matrix["caches"].as_str().is_some_and(|of| of.contains("sockets=4")), "{matrix}");
        matrix["cpus"][1]["reads"][3].as_u64().expect("a count")
    };
    // They never stay, or from the first time on. A few lines that set the memory up may be there still: it depends on where the kernel's
    // pages lie.
    let never = counted("l1=16K:4,llc=256K:16");
    assert!((199_900..=200_000).contains(&never), "{never}");
    let kept = counted("l1=16K:4,l2=128K:8,llc=8M:16");
    assert!((16_000..=16_384).contains(&kept), "{kept}");
    // All but the first line of each page, and only that, is there before.
    let ahead = counted("l1=16K:4,l2=128K:8,llc=256K:16,prefetch=next");
    assert!((200_000 / 64..200_000 / 60).contains(&ahead), "{ahead}");
}

#[test]
fn a_node_that_serves_many_is_slower() {
    if !applies("a_node_that_serves_many_is_slower") {
        return;
    }
    let place = Place::alone();
    const WRITES: f64 = 2_000.0;
    const SERVICE: f64 = 200_000.0;
    let took = |parts: [&str; 4]| {
        let run = four().args(["--queue", "200000", "--"]).arg(probe()).arg("split");
        nanoseconds(&run.args(parts).run().success())
    };
    let one = took(["0:0:2000", "1:0:2000", "2:0:2000", "3:0:2000"]);
    // A busy host makes it longer.
    let each = (0..3).map(|_| took(["0:0:2000", "1:1:2000", "2:2:2000", "3:3:2000"])).fold(f64::INFINITY, f64::min);
    drop(place);
    assert!(one > 0.98 * 4.0 * WRITES * SERVICE, "{one}");
    assert!(each > 0.98 * WRITES * SERVICE && each < 0.8 * one, "{each} {one}");
}

// ---- The end

/// Whatever runs for a lab with that process id: its folder is on every command line.
fn left_of(lab: i32) -> Vec<i32> {
    let folder = format!("/numamma-lab-{lab}/");
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_its = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        alive(*pid) && String::from_utf8_lossy(&line).contains(&folder)
    };
    numbers.filter(is_its).collect()
}

fn folder_of(lab: i32) -> PathBuf {
    std::env::temp_dir().join(format!("numamma-lab-{lab}"))
}

#[test]
fn a_late_command_is_stopped() {
    if !applies("a_late_command_is_stopped") {
        return;
    }
    let place = Place::together();
    let file = place.path("matrix.json");
    let run = four().args(["--timeout", "3", "--matrix"]).arg(&file);
    let running = run.args(["--", "sh", "-c", "echo begun; sleep 1000"]).start();
    let pid = running.pid();
    let outcome = running.wait().exits(124);
    assert_eq!(outcome.out(), "begun\n");
    assert!(outcome.err().contains("--timeout"), "{outcome}");
    assert_eq!(left_of(pid), Vec::<i32>::new());
    assert!(!folder_of(pid).exists());
    assert_eq!(matrix(&file)["complete"], false);
}

#[test]
fn nothing_is_left_after_a_signal() {
    if !applies("nothing_is_left_after_a_signal") {
        return;
    }
    for (number, status) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGKILL, 137)] {
        let running = four().args(["--", "sh", "-c", "echo begun; sleep 1000"]).start();
        let pid = running.pid();
        running.wait_for_output("begun");
        assert!(!left_of(pid).is_empty() && !children(pid).is_empty());
        signal(pid, number);
        running.wait().exits(status);
        until("the guest to end", Duration::from_secs(10), || left_of(pid).is_empty());
        // Nobody removes a folder after SIGKILL; the next run does.
        assert_eq!(folder_of(pid).exists(), number == libc::SIGKILL);
    }
    in_guest(four(), "exit 0").success();
    let stale = fs::read_dir(std::env::temp_dir()).expect("a folder").flatten().filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.strip_prefix("numamma-lab-").and_then(|pid| pid.parse().ok()).is_some_and(|pid| !alive(pid))
    });
    assert_eq!(stale.count(), 0);
}

#[test]
fn a_guest_boots_without_a_snapshot() {
    if !applies("a_guest_boots_without_a_snapshot") {
        return;
    }
    let place = Place::together();
    let run = four().args(["--no-snapshot", "--matrix"]).arg(place.path("matrix.json"));
    run.arg("--").arg(probe()).args(["marked", "1", "2", "5000"]).run().success();
    assert_eq!(matrix(&place.path("matrix.json"))["cpus"][1]["reads"][2], 5000);
}

#[test]
fn what_cannot_be_had_is_said_in_one_line() {
    if !applies("what_cannot_be_had_is_said_in_one_line") {
        return;
    }
    let refused = |words: &[&str], named: &[&str]| {
        let outcome = lab().args(words).run().exits(125);
        outcome.fails_clearly(named);
    };
    refused(&["--nodes", "0", "--", "true"], &["--nodes", "--help"]);
    refused(&["--nodes", "4"], &["CMD", "--help"]);
    refused(&["--kernel", "2.6", "--", "true"], &["6.1", "6.12"]);
    refused(&["--cpus", "6", "--", "true"], &["--cpus 6", "multiple"]);
    refused(&["--dist", "10,20/20,10", "--", "true"], &["--dist", "2 rows for 4 nodes"]);
    refused(&["--dist", "10,5/20,10", "--", "true"], &["--dist", "11 to 254"]);
    refused(&["--memory", "100", "--", "true"], &["--memory", "128M"]);
    refused(&["--matrix", "/no/such/file", "--", "true"], &["/no/such/file"]);
    refused(&["--caches", "auto", "--", "true"], &["--caches", "--matrix"]);
    refused(&["--caches", "l1=1K:2", "--delay", "1", "--", "true"], &["--caches", "llc"]);
}
