//! The build id and the names of debug files.

use object::elf::{self, NoteHeader64};
use object::{Endianness, pod};

use super::headers::string_at;
use super::image::Image;

/// The build id, of any length; none when the linker wrote none.
pub(crate) fn build_id(image: &Image) -> Option<Vec<u8>> {
    let from_sections = image
        .sections
        .iter()
        .filter(|section| section.kind == elf::SHT_NOTE)
        .find_map(|section| find_build_id(image, &image.contents(section)?));
    from_sections.or_else(|| {
        image
            .segments
            .iter()
            .filter(|segment| segment.kind == elf::PT_NOTE && segment.file_size < 1 << 20)
            .find_map(|segment| find_build_id(image, &image.source.read(segment.offset, segment.file_size)?))
    })
}

fn find_build_id(image: &Image, mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let (header, rest) = pod::from_bytes::<NoteHeader64<Endianness>>(notes).ok()?;
        let padded = |size: u32| (size as usize).checked_next_multiple_of(4);
        let name_size = header.n_namesz.get(image.endian);
        let content_size = header.n_descsz.get(image.endian);
        let name = rest.get(..name_size as usize)?;
        let content = rest.get(padded(name_size)?..)?;
        if name == b"GNU\0" && header.n_type.get(image.endian) == elf::NT_GNU_BUILD_ID {
            let id = content.get(..content_size as usize)?;
            return (!id.is_empty()).then(|| id.to_vec());
        }
        notes = content.get(padded(content_size)?..)?;
    }
}

/// File name and CRC of the separate debug file (`.gnu_debuglink`).
pub(crate) fn debug_link(image: &Image) -> Option<(String, u32)> {
    let contents = image.contents(image.section(".gnu_debuglink")?)?;
    let name = string_at(&contents, 0)?;
    let crc = contents.get((name.len() + 1).checked_next_multiple_of(4)?..)?;
    let crc: [u8; 4] = crc.get(..4)?.try_into().ok()?;
    let crc = match image.endian {
        Endianness::Little => u32::from_le_bytes(crc),
        Endianness::Big => u32::from_be_bytes(crc),
    };
    Some((String::from_utf8(name.to_vec()).ok()?, crc))
}

/// File name and build id of the file with debug information that several files share (`.gnu_debugaltlink`, from dwz).
pub(crate) fn shared_debug_link(image: &Image) -> Option<(String, Vec<u8>)> {
    let contents = image.contents(image.section(".gnu_debugaltlink")?)?;
    let name = string_at(&contents, 0)?;
    let id = contents.get(name.len() + 1..)?;
    Some((String::from_utf8(name.to_vec()).ok()?, id.to_vec()))
}
