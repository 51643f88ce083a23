//! Where a module lies in a process: from one line of its memory map to the difference of addresses.

use object::elf;

use super::headers::Segment;
use super::image::Image;

/// Page sizes that Linux uses on the machines this is for, in bytes. The loader rounds segments to the kernel's, and a
/// map entry does not say which one that was.
const PAGE_SIZES: [u64; 3] = [1 << 12, 1 << 14, 1 << 16];

/// What a map entry allows, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Not known: any segment may be meant.
    #[default]
    Unknown,
    /// Read only. The loader also makes the relocated part of a writable segment read-only.
    Read,
    /// Writable.
    Write,
    /// Executable.
    Execute,
}

impl Access {
    fn fits(self, segment: &Segment) -> bool {
        match self {
            Self::Unknown => true,
            Self::Read => !segment.executable,
            Self::Write => segment.writable,
            Self::Execute => segment.executable,
        }
    }
}

/// An entry of a process's memory map, as far as it shows one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// First address in the process.
    pub start: u64,
    /// Where in the file it begins, in bytes.
    pub file_offset: u64,
    /// What the entry allows.
    pub access: Access,
}

/// Address in the process less address in the file, by all entries of one module that are known.
///
/// Segments begin anywhere in a page, and the loader maps whole pages: the last page of one segment and the first of the
/// next can be the same page of the file, mapped twice at different distances. One entry alone can then be either,
/// above all once the loader has made the relocated part of the data read-only; together they fit in one way only.
pub(crate) fn bias(image: &Image, mappings: &[Mapping]) -> Option<u64> {
    let mut votes: Vec<(u64, u32, (bool, bool, u64))> = Vec::new();
    for mapping in mappings {
        for (bias, rank) in candidates(image, mapping) {
            match votes.iter_mut().find(|vote| vote.0 == bias) {
                Some(vote) => {
                    vote.1 += 1;
                    vote.2 = vote.2.min(rank);
                }
                None => votes.push((bias, 1, rank)),
            }
        }
    }
    votes
        .into_iter()
        .min_by_key(|&(_, count, rank)| (std::cmp::Reverse(count), rank))
        .map(|(bias, ..)| if image.kind == elf::ET_EXEC { 0 } else { bias })
}

/// What one entry can mean, with how little it fits (the least is best).
fn candidates(image: &Image, mapping: &Mapping) -> Vec<(u64, (bool, bool, u64))> {
    let mut found: Vec<(u64, (bool, bool, u64))> = Vec::new();
    for segment in image.loads() {
        let Some((page, is_first)) = PAGE_SIZES.iter().find_map(|&page| {
            let first = segment.offset & !(page - 1);
            let end = segment.offset.checked_add(segment.file_size)?.checked_next_multiple_of(page)?;
            (first..end).contains(&mapping.file_offset).then_some((page, first == mapping.file_offset))
        }) else {
            continue;
        };
        let in_file = segment.address.wrapping_sub(segment.offset).wrapping_add(mapping.file_offset);
        let bias = mapping.start.wrapping_sub(in_file);
        // A difference that is not whole pages would mean that the entry is not of this file.
        if bias % PAGE_SIZES[0] == 0 {
            // A later entry of a segment begins inside it: the loader or the program changed its rights.
            found.push((bias, (!mapping.access.fits(segment), !is_first, page)));
        }
    }
    // Two segments at one distance are one candidate, not two votes.
    found.sort_unstable();
    found.dedup_by_key(|candidate| candidate.0);
    found
}

/// The first address and the one after the last that the module's segments take up, whole pages, `.bss` included.
pub(crate) fn extent(image: &Image) -> Option<(u64, u64)> {
    let start = image.loads().map(|segment| segment.address).min()?;
    let end = image.loads().map(|segment| segment.address.saturating_add(segment.size)).max()?;
    let page = PAGE_SIZES[0];
    Some((start & !(page - 1), end.checked_next_multiple_of(page)?))
}

/// A module's thread-local storage: each thread has one block of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsBlock {
    /// Size of a thread's block in bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// Where an executable's block begins, in bytes from the thread pointer (`%fs:0` on x86-64, `TPIDR_EL0` on AArch64).
    /// The loader decides for libraries.
    pub executable_offset: i64,
}

/// The TLS segment, and where the loader puts an executable's block.
pub(crate) fn tls_block(image: &Image) -> Option<TlsBlock> {
    let segment = image.segment(elf::PT_TLS)?;
    let align = segment.align.clamp(1, 1 << 30).next_power_of_two();
    // The block is placed so that its addresses are congruent to the file's, modulo the alignment.
    let skew = segment.address % align;
    let executable_offset = match image.machine {
        elf::EM_AARCH64 => {
            // Above the thread pointer, after a header of two words.
            let header = 16_u64;
            let start = header + (skew.wrapping_sub(header) & (align - 1));
            i64::try_from(start).ok()?
        }
        _ => {
            // Below the thread pointer, which is itself aligned.
            let below = segment.size.checked_add(align - 1)? / align * align;
            let first = (align - skew) % align;
            let below = match segment.size.checked_sub(first) {
                Some(rest) => rest.checked_next_multiple_of(align)? + first,
                None => below,
            };
            -i64::try_from(below).ok()?
        }
    };
    Some(TlsBlock { size: segment.size, align, executable_offset })
}
