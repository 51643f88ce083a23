//! Function ranges and frame addresses from the unwind tables, which stripping leaves in place.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, Pointer, RunTimeEndian, UnwindContext,
    UnwindSection,
};
use object::elf;
use rustc_hash::FxHashMap;

use super::image::Image;
use crate::FrameRule;

/// The unwind tables with an index of their frame descriptions.
#[derive(Debug)]
pub(crate) struct Unwind {
    address: u64,
    contents: std::sync::Arc<[u8]>,
    /// Start, end and offset of each description, by start.
    descriptions: Vec<(u64, u64, usize)>,
}

impl Unwind {
    /// Reads the index; none when the file has no tables.
    pub fn read(image: &Image) -> Option<Self> {
        let (address, contents) = locate(image)?;
        let frames = EhFrame::new(&contents, super::gimli_endian(image.endian));
        let bases = bases(image, address);
        let mut descriptions = Vec::new();
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
                descriptions.push((description.initial_address(), description.end_address(), description.offset()));
            }
        }
        descriptions.sort_unstable();
        Some(Self { address, contents, descriptions })
    }

    /// How the frame's canonical address is found at an instruction; none where it is computed.
    pub fn frame_rule(&self, image: &Image, address: u64) -> Option<FrameRule> {
        let after = self.descriptions.partition_point(|&(start, ..)| start <= address);
        let &(_, end, offset) = self.descriptions.get(after.checked_sub(1)?)?;
        if address >= end {
            return None;
        }
        let frames = EhFrame::new(&self.contents, super::gimli_endian(image.endian));
        let bases = bases(image, self.address);
        let description = frames
            .fde_from_offset(&bases, offset.into(), |frames, bases, at| frames.cie_from_offset(bases, at))
            .ok()?;
        let mut context = UnwindContext::new();
        let row = description.unwind_info_for_address(&frames, &bases, &mut context, address).ok()?;
        match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Some(FrameRule { register: register.0, offset: *offset })
            }
            CfaRule::Expression(_) => None,
        }
    }
}

/// `(start, end)` of each frame description, unsorted.
pub(crate) fn ranges(image: &Image) -> Vec<(u64, u64)> {
    let unwind = Unwind::read(image);
    unwind.iter().flat_map(|unwind| &unwind.descriptions).map(|&(start, end, _)| (start, end)).collect()
}

fn bases(image: &Image, address: u64) -> BaseAddresses {
    let mut bases = BaseAddresses::default().set_eh_frame(address);
    if let Some(text) = image.section(".text") {
        bases = bases.set_text(text.address);
    }
    if let Some(got) = image.section(".got") {
        bases = bases.set_got(got.address);
    }
    bases
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
