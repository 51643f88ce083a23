//! Why the kernel refuses perf events, and what changes that.

use std::io;

use crate::probe::Probe;

/// `perf_event_paranoid` from which kernels of Debian and Ubuntu refuse all events to users. Others know no such level.
const REFUSES_ALL: i32 = 3;

/// `EPERM`, `EACCES` and `ENOSYS`, which are the same on all Linux architectures of ours.
const REFUSALS: [i32; 3] = [1, 13, 38];

/// A refusal in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What refuses.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl Refusal {
    /// Of an error of `perf_event_open`; `None` if that is no refusal.
    pub fn of(probe: &Probe, error: &io::Error) -> Option<Self> {
        let number = error.raw_os_error().filter(|number| REFUSALS.contains(number))?;
        let filtered = probe.seccomp_filter == Some(true);
        let level = probe.paranoid.map_or_else(|| "unknown".to_owned(), |level| level.to_string());
        let may_be_level = !probe.may_sample() && probe.paranoid.is_some_and(|level| level >= REFUSES_ALL);
        let of_filter =
            "start the container with `--cap-add PERFMON`, or with a seccomp profile that allows perf_event_open";
        let of_level = "run `sudo sysctl kernel.perf_event_paranoid=2`, or ask for the capability CAP_PERFMON";
        let (reason, remedy) = match (number, filtered, may_be_level) {
            (38, false, _) => {
                (format!("this kernel has no perf events ({error})"), "use a kernel with CONFIG_PERF_EVENTS".to_owned())
            }
            (38, true, _) | (_, true, false) => {
                (format!("a seccomp filter refuses perf_event_open ({error})"), of_filter.to_owned())
            }
            (_, true, true) => (
                format!("kernel.perf_event_paranoid is {level}, and a seccomp filter is active ({error})"),
                format!("{of_level}; if that does not help, {of_filter}"),
            ),
            (_, false, true) => (format!("kernel.perf_event_paranoid is {level} ({error})"), of_level.to_owned()),
            (_, false, false) => (
                format!(
                    "a security module or the kernel's configuration refuses perf events ({error}), though kernel.perf_event_paranoid is {level}"
                ),
                "ask for the capability CAP_PERFMON, and look into the kernel's log (dmesg, audit)".to_owned(),
            ),
        };
        Some(Self { reason, remedy })
    }
}
