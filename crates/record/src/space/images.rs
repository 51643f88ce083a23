//! Executables and libraries of an address space: a file's mappings taken together, with its bias.

use std::collections::BTreeMap;

use super::mappings::{Mapping, PathId};

/// A loaded file. Its first address is its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    pub path: PathId,
    /// File offset that its first address shows: what the bias is computed from.
    pub offset: u64,
    /// End of its mappings so far. Zero-initialised data may lie behind it.
    pub end: u64,
    /// Time of its newest mapping: what is mapped into its range later is not its own.
    pub mapped: i64,
    /// True if any of it is executable: files that are only read are no images.
    pub code: bool,
    pub from: i64,
}

/// The images of one address space.
#[derive(Clone, Debug, Default)]
pub struct Images {
    by_start: BTreeMap<u64, Image>,
}

impl Images {
    /// Room between the last mapping of a file and its zero-initialised data that still counts as the same image: the
    /// loader reserves the whole span at once, so there is none; the data itself may be large.
    const ZERO_DATA: u64 = 64 << 30;

    /// Notes that a file was mapped. Returns the address ranges of images that were there before and are gone.
    pub fn map(&mut self, start: u64, mapping: &Mapping) -> Vec<(u64, u64)> {
        // Part of the image below it: same file, and the loader keeps address and offset in step (segments may be
        // shifted against each other by pages, never by much).
        if let Some((&low, image)) = self.by_start.range_mut(..=start).next_back()
            && image.path == mapping.path
            && (mapping.offset > image.offset || start < image.end)
            && start - low < Self::ZERO_DATA
        {
            image.end = image.end.max(mapping.end);
            image.code |= mapping.executable;
            image.mapped = image.mapped.max(mapping.from);
            return Vec::new();
        }
        // What was loaded here before is gone.
        let gone: Vec<(u64, u64)> =
            self.by_start.range(start..mapping.end).map(|(&low, image)| (low, image.end)).collect();
        for (low, _) in &gone {
            self.by_start.remove(low);
        }
        let image = Image {
            path: mapping.path,
            offset: mapping.offset,
            end: mapping.end,
            code: mapping.executable,
            mapped: mapping.from,
            from: mapping.from,
        };
        self.by_start.insert(start, image);
        gone
    }

    /// Anonymous memory was mapped over `start..end`: images that began there have been unloaded. Returns their ranges.
    pub fn covered(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let gone: Vec<(u64, u64)> = self.by_start.range(start..end).map(|(&low, image)| (low, image.end)).collect();
        for (low, _) in &gone {
            self.by_start.remove(low);
        }
        gone
    }

    /// The image that begins at `low` has been unloaded.
    pub fn remove(&mut self, low: u64) {
        self.by_start.remove(&low);
    }

    /// The image that begins at or below `addr`, with its first address. Only its file can tell if it reaches to `addr`.
    pub fn below(&self, addr: u64) -> Option<(u64, &Image)> {
        self.by_start.range(..=addr).next_back().map(|(&low, image)| (low, image))
    }
}

#[cfg(test)]
mod tests {
    use super::super::mappings::MappingKind;
    use super::*;

    fn file(path: PathId, end: u64, offset: u64, executable: bool) -> Mapping {
        Mapping { end, offset, path, kind: MappingKind::File, executable, from: 0, memory: None }
    }

    #[test]
    fn the_segments_of_a_library_are_one_image() {
        let mut images = Images::default();
        images.map(0x10000, &file(1, 0x20000, 0, false));
        images.map(0x12000, &file(1, 0x18000, 0x2000, true));
        images.map(0x19000, &file(1, 0x1a000, 0x8000, false));
        let (low, image) = images.below(0x1abcd).unwrap();
        assert_eq!((low, image.end, image.code), (0x10000, 0x20000, true));
    }

    #[test]
    fn a_library_loaded_where_another_was_replaces_it() {
        let mut images = Images::default();
        images.map(0x10000, &file(1, 0x20000, 0, true));
        let gone = images.map(0x10000, &file(2, 0x18000, 0, true));
        assert_eq!(gone, [(0x10000, 0x20000)]);
        assert_eq!(images.below(0x10500).unwrap().1.path, 2);
    }
}
