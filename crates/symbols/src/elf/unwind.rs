//! Function ranges from the unwind tables, which stripping leaves in place.

use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, Pointer, RunTimeEndian, UnwindSection};
use object::elf;
use rustc_hash::FxHashMap;

use super::image::Image;

/// `(start, end)` of each frame description, unsorted.
pub(crate) fn ranges(image: &Image) -> Vec<(u64, u64)> {
    let Some((address, contents)) = locate(image) else {
        return Vec::new();
    };
    let endian = super::gimli_endian(image.endian);
    let frames = EhFrame::new(&contents, endian);
    let mut bases = BaseAddresses::default().set_eh_frame(address);
    if let Some(text) = image.section(".text") {
        bases = bases.set_text(text.address);
    }
    if let Some(got) = image.section(".got") {
        bases = bases.set_got(got.address);
    }

    let mut ranges = Vec::new();
    // Thousands of descriptions share a handful of common entries.
    let mut common = FxHashMap::default();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let parsed = partial.parse(|frames, bases, offset| {
            if let Some(known) = common.get(&offset.0) {
                return Clone::clone(known);
            }
            let cie = frames.cie_from_offset(bases, offset);
            common.insert(offset.0, cie.clone());
            cie
        });
        if let Ok(description) = parsed {
            ranges.push((description.initial_address(), description.end_address()));
        }
    }
    ranges
}

/// Address and contents of `.eh_frame`; by the segment that the C library uses when there are no section headers.
fn locate(image: &Image) -> Option<(u64, std::sync::Arc<[u8]>)> {
    if let Some(section) = image.section(".eh_frame") {
        return Some((section.address, image.contents(section)?));
    }
    let header = image.segment(elf::PT_GNU_EH_FRAME)?;
    let contents = image.source.read(header.offset, header.file_size)?;
    let parsed = EhFrameHdr::<EndianSlice<RunTimeEndian>>::new(&contents, super::gimli_endian(image.endian))
        .parse(&BaseAddresses::default().set_eh_frame_hdr(header.address), 8)
        .ok()?;
    let Pointer::Direct(address) = parsed.eh_frame_ptr() else {
        return None;
    };
    // Its length is written nowhere: up to the end of its segment, and a zero length word ends it before.
    let segment = image
        .loads()
        .find(|segment| (segment.address..segment.address.saturating_add(segment.file_size)).contains(&address))?;
    let size = segment.file_size - (address - segment.address);
    Some((address, image.read_address(address, size)?))
}
