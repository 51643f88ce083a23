//! The machine in words that say what matters and name nobody.

use std::fs;

/// `2-core VM, AMD EPYC (Zen 5), Linux 6.18`
pub fn describe() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
    };
    let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let virtual_ = field("flags").split_whitespace().any(|flag| flag == "hypervisor");
    let generation = match (field("vendor_id"), field("cpu family")) {
        ("AuthenticAMD", "23") => " (Zen 1 or 2)",
        ("AuthenticAMD", "25") => " (Zen 3 or 4)",
        ("AuthenticAMD", "26") => " (Zen 5)",
        _ => "",
    };
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel: Vec<&str> = kernel.trim().split('.').take(2).collect();
    let kind = if virtual_ { "VM" } else { "machine" };
    format!("{cpus}-core {kind}, {}{generation}, Linux {}", field("model name"), kernel.join("."))
}

/// Caches and memory, a line each.
pub fn details() -> Vec<String> {
    let mut lines = Vec::new();
    for index in 0..4 {
        let read = |what: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
            fs::read_to_string(path).map(|text| text.trim().to_owned())
        };
        if let (Ok(level), Ok(kind), Ok(size)) = (read("level"), read("type"), read("size")) {
            lines.push(format!("L{level} {}: {size}", kind.to_lowercase()));
        }
    }
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    lines.extend(total.map(|kib| format!("memory: {:.0} GiB", kib as f64 / f64::from(1 << 20))));
    lines
}

/// Mean number of running threads of the last minute.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}
