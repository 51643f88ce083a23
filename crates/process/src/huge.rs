//! Which memory of a process has huge pages.

use std::io;

/// A mapping, and how much of it has huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugeMapping {
    /// First address, and the first behind it.
    pub low: u64,
    /// See there.
    pub high: u64,
    /// Bytes of it in huge pages.
    pub huge: u64,
}

/// The mappings of process `pid` that have huge pages, by address.
///
/// # Errors
/// If the process is gone, or may not be asked about.
pub fn huge_mappings(pid: i32) -> io::Result<Vec<HugeMapping>> {
    Ok(parse(&std::fs::read_to_string(format!("/proc/{pid}/smaps"))?))
}

/// Reads `/proc/PID/smaps`: a line for each mapping, as in `maps`, then its numbers.
fn parse(text: &str) -> Vec<HugeMapping> {
    let mut found = Vec::new();
    let mut current = (0, 0);
    for line in text.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some((low, high)) = first.split_once('-')
            && let (Ok(low), Ok(high)) = (u64::from_str_radix(low, 16), u64::from_str_radix(high, 16))
        {
            current = (low, high);
        } else if matches!(first, "AnonHugePages:" | "ShmemPmdMapped:" | "FilePmdMapped:") {
            let kib: u64 = rest.trim().trim_end_matches(" kB").parse().unwrap_or(0);
            if kib > 0 {
                found.push(HugeMapping { low: current.0, high: current.1, huge: kib << 10 });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read() {
        let text = "7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \nSize:               4096 kB\nAnonHugePages:      2048 kB\n\
                    ShmemPmdMapped:        0 kB\n7f0000400000-7f0000401000 r--p 00000000 fe:00 12   /a b\nAnonHugePages:         0 kB\n\
                    VmFlags: rd wr mr\n7f0000600000-7f0000800000 rw-s 00000000 00:01 7  /memfd:x (deleted)\nShmemPmdMapped:     2048 kB\n";
        let huge = |low, high| HugeMapping { low, high, huge: 2 << 20 };
        let found = [huge(0x7f00_0000_0000, 0x7f00_0040_0000), huge(0x7f00_0060_0000, 0x7f00_0080_0000)];
        assert_eq!(parse(text), found);
        assert_eq!(parse("AnonHugePages: x kB\n\n-\n"), []);
        assert!(huge_mappings(std::process::id() as i32).is_ok());
    }
}
