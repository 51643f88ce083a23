//! The guest's first files, as the kernel unpacks them: an archive in cpio's `newc` format.
//!
//! ```text
//! 070701 inode mode uid gid links mtime size major minor rmajor rminor name-size check   (8 hexadecimal digits each)
//! name, zero, up to a multiple of 4; contents, up to a multiple of 4
//! ```

/// An archive that grows.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a folder.
    pub fn folder(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[]);
    }

    /// Adds a file that can be executed.
    pub fn file(&mut self, name: &str, contents: &[u8]) {
        self.entry(name, 0o100_755, contents);
    }

    /// All of it.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.entries += 1;
        let (size, name_size) = (contents.len() as u32, name.len() as u32 + 1);
        let header = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for number in header {
            self.bytes.extend_from_slice(format!("{number:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(contents);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_begin_at_multiples_of_four() {
        let mut archive = Archive::default();
        archive.folder("d");
        archive.file("d/f", b"hello");
        let bytes = archive.finish();
        let starts: Vec<usize> =
            bytes.windows(6).enumerate().filter(|(_, six)| six == b"070701").map(|(at, _)| at).collect();
        assert_eq!(starts, [0, 112, 112 + 116 + 8]);
        assert!(bytes[112..].starts_with(b"07070100000002000081ed"));
        assert_eq!(&bytes[112 + 110..112 + 116], b"d/f\0\0\0");
        assert_eq!(&bytes[112 + 116..112 + 124], b"hello\0\0\0");
    }
}
