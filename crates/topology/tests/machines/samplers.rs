//! PMUs, permissions, and the sampler that follows from them.

use numamma_topology::{Doctor, Kind, Refusal, State, TickCost, Trial, choose_sampler, render_doctor};

use crate::fixture::Fixture;

const ALL: [Kind; 4] = [Kind::Pebs, Kind::Ibs, Kind::Spe, Kind::Clock];
const NOW: [Kind; 1] = [Kind::Clock];
const CAP_PERFMON: u64 = 1 << 38;

const PEBS: [&str; 5] = [
    "events/mem-loads=event=0xcd,umask=0x1,ldlat=3",
    "events/mem-stores=event=0xd0,umask=0x82",
    "format/ldlat=config1:0-15",
    "caps/max_precise=3",
    "cpus=0-3",
];

/// A small virtual machine without a PMU, as root.
fn vm() -> Fixture {
    Fixture::new()
        .cpuinfo("AuthenticAMD", "AMD EPYC", "fpu hypervisor")
        .cpus(2, 1, 1)
        .nodes(&[("0-1", 6, "10")])
        .pmu("software", 1, &[])
        .pmu("msr", 8, &["events/tsc=event=0x00"])
}

fn intel() -> Fixture {
    Fixture::new()
        .cpuinfo("GenuineIntel", "Intel(R) Xeon(R) Gold 6130", "fpu sse2")
        .cpus(8, 2, 2)
        .nodes(&[("0-1,4-5", 96, "10 21"), ("2-3,6-7", 96, "21 10")])
        .pmu("cpu", 4, &PEBS)
}

fn amd(files: &[&str]) -> Fixture {
    Fixture::new()
        .cpuinfo("AuthenticAMD", "AMD EPYC 9654", "fpu sse2")
        .cpus(4, 1, 1)
        .nodes(&[("0-3", 96, "10")])
        .pmu("cpu", 4, &["caps/max_precise=2", "events/cpu-cycles=event=0x76"])
        .pmu("ibs_op", 11, files)
}

fn state(fixture: &Fixture, kind: Kind, implemented: &[Kind]) -> State {
    let choice = fixture.choose(implemented);
    choice.samplers.iter().find(|sampler| sampler.kind == kind).unwrap().state
}

#[test]
fn counting_needs_the_emulator() {
    assert!(vm().doctor().contains("[ ] exact  programs built with -fsanitize=thread only: others need qemu-user"));
    let with = vm().put("usr/bin/qemu-x86_64", "ELF");
    assert!(with.probe().emulator);
    assert!(with.doctor().contains("[+] exact  works"));
    // It is not chosen by itself.
    assert_eq!(with.choose(&NOW).kind, Kind::Clock);
}

#[test]
fn counting_needs_perf_events_for_mappings() {
    let machine = vm().put("usr/bin/qemu-x86_64", "ELF");
    let mut probe = machine.probe();
    probe.trial = Some(Trial { opened: false, reason: "a seccomp filter refuses them".into(), remedy: String::new() });
    let choice = choose_sampler(&probe, &NOW);
    let text = render_doctor(&machine.machine(), &probe, &choice, None);
    assert!(text.contains("[!] exact  needs perf events too"), "{text}");
    assert!(text.contains("Nothing can be recorded here"), "{text}");
}

#[test]
fn a_virtual_machine_without_pmu_uses_the_clock() {
    let fixture = vm().capabilities(0x1ff_feff_ffff);
    let probe = fixture.probe();
    assert_eq!(probe.hypervisor.as_deref(), Some("unknown hypervisor"));
    assert_eq!(probe.memlock_bytes, Some(8 << 20));
    assert!(probe.capabilities.unwrap().perfmon && probe.may_watch_cpus());
    assert_eq!(probe.ring_budget(2), None);
    let choice = fixture.choose(&NOW);
    assert_eq!((choice.kind, choice.hardware), (Kind::Clock, None));
    assert!(choice.enable.is_empty(), "{:?}", choice.enable);
    let text = fixture.doctor();
    assert!(text.contains("Linux 6.1.0-18-amd64, x86_64, in a virtual machine\n"), "{text}");
    assert!(text.contains("[x] clock"), "{text}");
    assert!(text.contains("A recording would use: clock"), "{text}");
    assert!(text.contains("1, so that no access can be remote"), "{text}");
}

#[test]
fn an_ordinary_user_is_told_about_ring_memory() {
    let fixture = vm().put("proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t0-15\n");
    assert_eq!(fixture.probe().ring_budget(16), Some(16 * 516 * 1024 + (8 << 20)));
    let choice = fixture.choose(&NOW);
    assert_eq!(choice.enable.len(), 1);
    assert_eq!(choice.enable[0].command, "sudo sysctl kernel.perf_event_mlock_kb=4096");
    let enough = fixture.put("proc/self/limits", "Max locked memory  unlimited  unlimited  bytes\n");
    assert_eq!(enough.probe().memlock_bytes, Some(u64::MAX));
    assert!(enough.choose(&NOW).enable.is_empty());
}

#[test]
fn pebs_is_used_where_it_can_be_and_admitted_where_not() {
    let fixture = intel();
    let pmu = fixture.probe().pmu("cpu").cloned().unwrap();
    assert_eq!((pmu.kind, pmu.cpus), (Some(4), Some(vec![0, 1, 2, 3])));
    assert_eq!(pmu.format["ldlat"], "config1:0-15");
    assert_eq!(fixture.choose(&ALL).kind, Kind::Pebs);

    let now = fixture.choose(&NOW);
    assert_eq!((now.kind, now.hardware), (Kind::Clock, Some(Kind::Pebs)));
    assert!(now.why[0].contains("Intel PEBS, but this version"), "{:?}", now.why);
    assert_eq!(state(&fixture, Kind::Pebs, &NOW), State::Unsupported);
    assert!(fixture.doctor().contains("[!] pebs   there, but not usable by this version"));
}

#[test]
fn a_guest_that_lists_events_without_precision_has_no_pebs() {
    let fixture = intel().put("sys/bus/event_source/devices/cpu/caps/max_precise", "0");
    assert_eq!(fixture.choose(&ALL).kind, Kind::Clock);
}

#[test]
fn hybrids_have_pebs_on_their_large_cores() {
    let fixture = Fixture::new().pmu("cpu_core", 4, &PEBS).pmu("cpu_atom", 10, &["cpus=4-7"]);
    let choice = fixture.choose(&ALL);
    assert_eq!(choice.kind, Kind::Pebs);
    assert!(choice.why.iter().any(|why| why.contains("hybrid")), "{:?}", choice.why);
}

#[test]
fn ibs_needs_the_kernel_unless_that_filters() {
    let plain = amd(&["format/cnt_ctl=config:19"]);
    assert_eq!(state(&plain, Kind::Ibs, &ALL), State::Forbidden);
    let choice = plain.choose(&ALL);
    assert_eq!(choice.kind, Kind::Clock);
    assert_eq!(choice.enable[0].command, "sudo setcap cap_perfmon+ep \"$(command -v numamma)\"");
    assert!(choice.enable[0].gain.starts_with("AMD IBS"));
    let old = plain.put("proc/sys/kernel/osrelease", "5.4.0-150-generic");
    assert_eq!(old.choose(&ALL).enable[0].command, "sudo sysctl kernel.perf_event_paranoid=1");
    assert_eq!(old.paranoid(1).choose(&ALL).kind, Kind::Ibs);

    let zen5 = amd(&[
        "format/cnt_ctl=config:19",
        "format/l3missonly=config:16",
        "format/ldlat=config1:0-11",
        "format/swfilt=config2:0",
        "caps/zen4_ibs_extensions=1",
    ]);
    assert_eq!(zen5.choose(&ALL).kind, Kind::Ibs);
    assert_eq!(zen5.probe().pmu("ibs_op").unwrap().caps["zen4_ibs_extensions"], "1");
}

#[test]
fn arm_has_spe() {
    let fixture = Fixture::new()
        .put("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n")
        .without("proc/sys/kernel/arch")
        .cpus(4, 1, 1)
        .nodes(&[("0-3", 16, "10")])
        .pmu("arm_spe_0", 9, &["format/load_filter=config:33", "cpumask=0-3", "caps/count_size=12"]);
    let probe = fixture.probe();
    assert_eq!(probe.arch.as_deref(), Some("aarch64"));
    assert_eq!(probe.hypervisor, None);
    assert_eq!(probe.pmu("arm_spe_0").unwrap().cpus.as_deref(), Some(&[0, 1, 2, 3][..]));
    assert_eq!(fixture.choose(&ALL).kind, Kind::Spe);
    assert_eq!(fixture.choose(&[]).kind, Kind::None);
    assert_eq!(fixture.choose(&[]).hardware, Some(Kind::Spe));
}

#[test]
fn high_paranoia_forbids_everything_and_names_the_cure() {
    for level in [3, 4] {
        let fixture = vm().paranoid(level);
        let choice = fixture.choose(&NOW);
        assert_eq!(choice.kind, Kind::None);
        assert_eq!(choice.enable[0].command, "sudo sysctl kernel.perf_event_paranoid=2");
        let text = fixture.doctor();
        assert!(text.contains("Nothing can be recorded here"), "{text}");
        assert!(text.contains(&format!("perf_event_paranoid is {level}")), "{text}");
        assert_eq!(fixture.capabilities(CAP_PERFMON).choose(&NOW).kind, Kind::Clock);
    }
}

#[test]
fn capabilities_of_a_container_do_not_count() {
    let fixture = vm().paranoid(3).capabilities(u64::MAX >> 24);
    assert_eq!(fixture.choose(&NOW).kind, Kind::Clock);
    let inside = fixture.put("proc/self/uid_map", "         0     100000      65536");
    assert_eq!(inside.probe().initial_user_namespace, Some(false));
    assert_eq!(inside.choose(&NOW).kind, Kind::None);
    let filtered = inside.put("proc/self/status", "CapEff:\t0\nSeccomp:\t2\n");
    assert!(filtered.doctor().contains("--cap-add PERFMON"));
}

#[test]
fn a_kernel_without_perf_events() {
    let fixture = vm().without("proc/sys/kernel/perf_event_paranoid");
    let choice = fixture.choose(&ALL);
    assert_eq!(choice.kind, Kind::None);
    assert!(choice.enable.is_empty());
    assert!(choice.why.iter().any(|why| why.contains("no perf events")), "{:?}", choice.why);
}

#[test]
fn hypervisors_have_names() {
    let named = |vendor: &str, flags: &str| {
        let fixture = vm().cpuinfo("GenuineIntel", "x", flags).put("sys/class/dmi/id/sys_vendor", vendor);
        fixture.probe().hypervisor
    };
    assert_eq!(named("QEMU", "fpu hypervisor").as_deref(), Some("QEMU"));
    assert_eq!(named("VMware, Inc.", "hypervisor").as_deref(), Some("VMware"));
    assert_eq!(named("Amazon EC2", "fpu"), None, "bare metal of a cloud");
    let xen = vm().put("sys/hypervisor/type", "xen\n").probe();
    assert_eq!(xen.hypervisor.as_deref(), Some("Xen"));
}

#[test]
fn the_measured_cost_is_said_and_all_of_it_serialises() {
    let fixture = vm().capabilities(CAP_PERFMON);
    let (machine, probe, choice) = (fixture.machine(), fixture.probe(), fixture.choose(&NOW));
    let cost = Some(TickCost { ns: 18_340.0, rate_hz: 1000.0, overhead: 0.01834 });
    let text = render_doctor(&machine, &probe, &choice, cost);
    assert!(text.contains("18.3 us a sample as measured: 1000 Hz takes 1.8 % of the time"), "{text}");
    let json = serde_json::to_value(Doctor::new(&machine, &probe, &choice, cost)).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["choice"]["kind"], "clock");
    assert_eq!(json["probe"]["capabilities"]["perfmon"], true);
    assert_eq!(json["measured"]["rate_hz"], 1000.0);
}

#[test]
fn who_may_watch_functions_is_told_so() {
    let with = vm().pmu("uprobe", 8, &[]);
    assert_eq!(vm().probe().may_watch_functions(), None);
    assert_eq!(with.probe().may_watch_functions(), Some(false));
    assert!(with.doctor().contains("functions  cannot be watched (record --in): only root"), "{}", with.doctor());
    let with = with.capabilities(CAP_PERFMON);
    assert_eq!(with.probe().may_watch_functions(), Some(true));
    assert!(with.doctor().contains("functions  can be watched"), "{}", with.doctor());
    assert!(vm().doctor().contains("no uprobes"), "{}", vm().doctor());
}

/// A kernel without Debian's patch takes levels 3 and 4 for 2: what was tried says more than the number.
#[test]
fn a_trial_outweighs_the_level() {
    for level in [3, 4] {
        let mut probe = vm().paranoid(level).probe();
        probe.trial = Some(Trial { opened: true, ..Trial::default() });
        let choice = choose_sampler(&probe, &NOW);
        assert_eq!(choice.kind, Kind::Clock);
        let text = render_doctor(&vm().machine(), &probe, &choice, None);
        assert!(text.contains("[x] clock  works") && text.contains("user mode, which is enough"), "{text}");
    }
}

/// A refusal is not blamed on a level that does not refuse.
#[test]
fn refusals_have_their_causes() {
    let of = |fixture: &Fixture, number: i32| {
        Refusal::of(&fixture.probe(), &std::io::Error::from_raw_os_error(number)).expect("a refusal")
    };
    let (eperm, eacces, enosys) = (1, 13, 38);
    let filtered = vm().paranoid(2).put("proc/self/status", "CapEff:\t0\nSeccomp:\t2\n");
    for number in [eperm, eacces, enosys] {
        let refusal = of(&filtered, number);
        assert!(refusal.reason.contains("seccomp") && refusal.remedy.contains("--cap-add PERFMON"), "{refusal:?}");
        let mut probe = filtered.probe();
        probe.trial = Some(Trial { opened: false, reason: refusal.reason, remedy: refusal.remedy });
        let choice = choose_sampler(&probe, &NOW);
        assert_eq!((choice.kind, choice.enable.len()), (Kind::None, 1));
        let text = render_doctor(&filtered.machine(), &probe, &choice, None);
        assert!(!text.contains("works") && text.contains("seccomp"), "{text}");
    }
    let level = of(&vm().paranoid(4), eacces);
    assert!(level.reason.contains("is 4") && level.remedy.contains("sysctl"), "{level:?}");
    let both = of(&vm().paranoid(3).put("proc/self/status", "CapEff:\t0\nSeccomp:\t2\n"), eacces);
    assert!(both.remedy.contains("sysctl") && both.remedy.contains("--cap-add"), "{both:?}");
    let module = of(&vm().paranoid(1), eacces);
    assert!(module.reason.contains("security module") && !module.remedy.contains("sysctl"), "{module:?}");
    assert!(of(&vm(), enosys).reason.contains("no perf events"));
    assert!(Refusal::of(&vm().probe(), &std::io::Error::from_raw_os_error(22)).is_none());
}
