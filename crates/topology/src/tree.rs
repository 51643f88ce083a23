//! Small files below a root directory, each read to what it says or to nothing.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// `/proc/cpuinfo` of a machine with thousands of CPUs stays below this.
const LONGEST: u64 = 16 << 20;

/// A file system as seen from `root`.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// True if this is the running machine, not a copy of another one.
    pub(crate) fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(self.root.join(path)).ok()?;
        file.take(LONGEST).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The text of a file without the white space round it; `None` also when it is empty.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.bytes(path)?).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    pub(crate) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// A list of CPUs or nodes. An empty file is an empty list, not a missing one.
    pub(crate) fn list(&self, path: &str) -> Option<Vec<u32>> {
        crate::list::parse(&String::from_utf8_lossy(&self.bytes(path)?))
    }

    /// The names in a directory, sorted; none if it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path));
        let mut names: Vec<String> =
            entries.into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// The numbers N of the entries `{prefix}N` of a directory, ascending.
    pub(crate) fn numbered(&self, path: &str, prefix: &str) -> Vec<u32> {
        let mut ids: Vec<u32> =
            self.names(path).iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        ids.sort_unstable();
        ids
    }
}

/// The value after `key` and a colon in a text of `key : value` lines.
pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

/// The bytes of `32768 kB`, `48K`, `2M`, `16 GiB` or `512`.
pub(crate) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match text[end..].trim() {
        "" | "B" => 1,
        "K" | "kB" | "KB" | "KiB" => 1 << 10,
        "M" | "MB" | "MiB" => 1 << 20,
        "G" | "GB" | "GiB" => 1 << 30,
        "T" | "TB" | "TiB" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("48K"), Some(48 << 10));
        assert_eq!(size("  6514432 kB"), Some(6514432 << 10));
        assert_eq!(size("2M"), Some(2 << 20));
        assert_eq!((size("16 GiB"), size("6 TiB")), (Some(16 << 30), Some(6 << 40)));
        assert_eq!(size("64"), Some(64));
        for text in ["", "K", "-1K", "1 parsec", "99999999999999999999", "18446744073709551615 kB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "CapInh:\t0\nCapEff:\t1f\nmodel name : A: B\n";
        assert_eq!(field(text, "CapEff"), Some("1f"));
        assert_eq!(field(text, "model name"), Some("A: B"));
        assert_eq!(field(text, "Cap"), None);
    }
}
