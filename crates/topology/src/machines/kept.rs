//! Measurements that are kept: one file for each machine, named after what tells machines apart.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::MachineError;
use super::{read, to_toml};
use crate::list;
use crate::machine::{Machine, Node};
use crate::model::MachineModel;

/// The kernel's own share of the memory differs from boot to boot.
const SAME_MEMORY: f64 = 0.1;

/// Where measurements are kept: `numamma/machines` in `$XDG_CACHE_HOME` or `~/.cache`; `None` if there is neither.
pub fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("numamma/machines"))
}

/// What was measured on this machine, if anything was.
///
/// # Errors
/// If there is a measurement that cannot be read.
pub fn current(machine: &Machine) -> Result<Option<MachineModel>, MachineError> {
    folder().map_or(Ok(None), |folder| kept(machine, &folder))
}

/// What was measured on `machine` and is kept in `folder`.
///
/// # Errors
/// If there is a measurement that cannot be read.
pub fn kept(machine: &Machine, folder: &Path) -> Result<Option<MachineModel>, MachineError> {
    let path = folder.join(file_name(machine));
    if !path.exists() {
        return Ok(None);
    }
    let model = read(&path)?;
    let nodes = machine.used_nodes();
    let same = nodes.len() == model.nodes.len()
        && nodes.iter().zip(&model.nodes).all(|(node, kept)| is_close(node.memory_bytes, kept.memory_bytes));
    Ok(same.then_some(model))
}

/// Keeps a measurement of `machine` in `folder`; an earlier one is replaced.
///
/// # Errors
/// If the file cannot be written.
pub fn keep(machine: &Machine, model: &MachineModel, folder: &Path) -> Result<PathBuf, MachineError> {
    let path = folder.join(file_name(machine));
    let unwritable = |source| MachineError::Unwritable { path: path.clone(), source };
    fs::create_dir_all(folder).map_err(unwritable)?;
    // Another process may be reading the old one.
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    fs::write(&fresh, to_toml(model)).and_then(|()| fs::rename(&fresh, &path)).map_err(|source| {
        let _ = fs::remove_file(&fresh);
        unwritable(source)
    })?;
    Ok(path)
}

fn is_close(a: Option<u64>, b: Option<u64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.abs_diff(b) as f64 <= SAME_MEMORY * a.max(b) as f64,
        _ => a == b,
    }
}

/// Of the processor, the nodes and their CPUs. The memory is in the file.
fn file_name(machine: &Machine) -> String {
    let model = machine.model.as_deref().unwrap_or("machine");
    let node = |node: &Node| format!("{}:{}", node.id, list::format(&node.cpus));
    let nodes: Vec<String> = machine.used_nodes().into_iter().map(node).collect();
    let identity = format!("{model}/{}", nodes.join("/"));
    let readable: String =
        model.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let words: Vec<&str> = readable.split('-').filter(|word| !word.is_empty()).take(6).collect();
    format!("{}-{:016x}.toml", words.join("-"), fnv1a(identity.as_bytes()))
}

/// A hash that stays the same in later versions.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
