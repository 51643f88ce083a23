//! Machine files: models of machines as TOML text (docs/MACHINE.md). Some are shipped, others are the user's.

mod error;
mod kept;
mod read;
mod write;

use std::path::Path;

pub use error::{Fault, MachineError};
pub use kept::{current, folder, keep, kept};
pub use read::parse;
pub use write::to_toml;

use crate::model::MachineModel;

/// The shipped machines: name and text of the file.
const SHIPPED: [(&str, &str); 7] = [
    ("amd-8x6", include_str!("../../machines/amd-8x6.toml")),
    ("intel-2x8", include_str!("../../machines/intel-2x8.toml")),
    ("memaxes-2x16", include_str!("../../machines/memaxes-2x16.toml")),
    ("sgi-altix-4x2", include_str!("../../machines/sgi-altix-4x2.toml")),
    ("xeon-8360y-2s", include_str!("../../machines/xeon-8360y-2s.toml")),
    ("xeon-8468-snc4", include_str!("../../machines/xeon-8468-snc4.toml")),
    ("epyc-9224-cxl", include_str!("../../machines/epyc-9224-cxl.toml")),
];

/// The names of the shipped machines.
pub fn names() -> Vec<&'static str> {
    SHIPPED.iter().map(|&(name, _)| name).collect()
}

/// The model of a shipped machine, or of a machine file.
pub fn load(name_or_path: &str) -> Result<MachineModel, MachineError> {
    let shipped = SHIPPED.iter().find(|(name, _)| *name == name_or_path);
    if let Some((name, text)) = shipped {
        return parse(text).map_err(|faults| MachineError::Faulty { path: format!("{name}.toml").into(), faults });
    }
    let path = Path::new(name_or_path);
    let is_path = name_or_path.contains('/') || name_or_path.ends_with(".toml") || path.exists();
    if !is_path {
        return Err(MachineError::Unknown { name: name_or_path.to_owned(), names: names() });
    }
    read(path)
}

/// The model that a file holds.
pub fn read(path: &Path) -> Result<MachineModel, MachineError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| MachineError::Unreadable { path: path.to_owned(), source })?;
    parse(&text).map_err(|faults| MachineError::Faulty { path: path.to_owned(), faults })
}
