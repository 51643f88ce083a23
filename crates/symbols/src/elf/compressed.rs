//! Compressed debug sections (`SHF_COMPRESSED`, zlib or zstd).

use std::sync::Arc;

use object::elf::{self, CompressionHeader64};
use object::read::{CompressedData, CompressionFormat};
use object::{Endianness, pod};

/// Neither format packs tighter than this in a debug section; a header that claims more is damaged, and believing it
/// would allocate whatever it says.
const MOST_GROWTH: u64 = 4096;

/// The contents of a compressed section; none when the format is unknown or the data is damaged.
pub(crate) fn decompress(section: &[u8], endian: Endianness) -> Option<Arc<[u8]>> {
    let (header, data) = pod::from_bytes::<CompressionHeader64<Endianness>>(section).ok()?;
    let format = match header.ch_type.get(endian) {
        elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        _ => return None,
    };
    let uncompressed_size = header.ch_size.get(endian);
    if uncompressed_size / MOST_GROWTH > data.len() as u64 {
        return None;
    }
    let data = CompressedData { format, data, uncompressed_size };
    data.decompress().ok().map(|bytes| Arc::from(&*bytes))
}
