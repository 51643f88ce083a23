//! Separate files with debug information: by build id, by `.gnu_debuglink`, and the part that dwz shares.

use std::path::{Path, PathBuf};

use crate::elf::image::Image;
use crate::elf::notes;
use crate::elf::source::Source;

/// Where distributions install debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// The files beside the module itself. Nothing is fetched from the network.
#[derive(Debug, Default)]
pub(crate) struct DebugFiles {
    /// The file with this module's symbols and debug information.
    pub separate: Option<Image>,
    /// The file with what several debug files share.
    pub shared: Option<Image>,
}

impl DebugFiles {
    /// Looks for the files of the module at `path`.
    pub fn find(image: &Image, build_id: Option<&[u8]>, path: Option<&Path>) -> Self {
        let separate = build_id
            .and_then(|id| open_matching(&by_build_id(id)?, |debug| notes::build_id(debug).as_deref() == Some(id)))
            .or_else(|| by_link(image, build_id, path?));
        let shared = notes::shared_debug_link(separate.as_ref().unwrap_or(image)).and_then(|(name, id)| {
            let beside = path.and_then(Path::parent).map(|folder| folder.join(&name));
            let matches = |debug: &Image| notes::build_id(debug).as_deref() == Some(&id);
            beside.into_iter().chain(by_build_id(&id)).find_map(|path| open_matching(&path, matches))
        });
        Self { separate, shared }
    }
}

fn by_build_id(id: &[u8]) -> Option<PathBuf> {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2)?;
    (!rest.is_empty()).then(|| Path::new(DEBUG_ROOT).join(format!(".build-id/{first}/{rest}.debug")))
}

/// The link names a file without folder; where to look for it is the debuggers' convention.
fn by_link(image: &Image, build_id: Option<&[u8]>, path: &Path) -> Option<Image> {
    let (name, crc) = notes::debug_link(image)?;
    // A name with a folder in it is not what any tool writes, and could lead anywhere.
    if name.contains('/') || name.is_empty() {
        return None;
    }
    let path = path.canonicalize().ok()?;
    let folder = path.parent()?;
    [
        folder.join(&name),
        folder.join(".debug").join(&name),
        Path::new(DEBUG_ROOT).join(folder.strip_prefix("/").ok()?).join(&name),
    ]
    .iter()
    .filter(|candidate| **candidate != path)
    .find_map(|candidate| {
        open_matching(candidate, |debug| {
            match (build_id, notes::build_id(debug)) {
                (Some(wanted), Some(found)) => wanted == found,
                // Without build ids the checksum decides; it costs a read of the whole file.
                _ => debug.source.read(0, debug.source.length()).is_some_and(|bytes| crc32(&bytes) == crc),
            }
        })
    })
}

fn open_matching(path: &Path, matches: impl Fn(&Image) -> bool) -> Option<Image> {
    let (source, _) = Source::open(path).ok()??;
    let image = Image::parse(source, &path.to_string_lossy()).ok()?;
    matches(&image).then_some(image)
}

/// The checksum of `.gnu_debuglink`: that of Ethernet and zip.
fn crc32(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|index| {
        (0..8).fold(index as u32, |crc, _| match crc & 1 {
            1 => (crc >> 1) ^ 0xedb8_8320,
            _ => crc >> 1,
        })
    });
    !bytes.iter().fold(!0, |crc, &byte| table[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    #[test]
    fn crc_of_the_check_string() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
