//! Objects for the addresses that nothing names: `[.rodata of libfoo.so]`.

use super::describe::is_writable;
use crate::elf::image::Image;
use crate::variable::{Extent, Variable, VariableKind};

/// One object for each segment and for each section in it.
pub(crate) fn variables(image: &Image, module: &str) -> Vec<Variable> {
    let object = |name: String, section: &str, address, size| Variable {
        name,
        symbol: String::new(),
        address,
        size,
        extent: Extent::Stated,
        kind: VariableKind::Section,
        section: section.into(),
        writable: is_writable(image, address),
        declared: None,
        type_name: None,
        element: None,
        members: Vec::new(),
        copied: false,
    };
    let segments = image.loads().map(|segment| {
        let what = match (segment.executable, segment.writable) {
            (true, _) => "code",
            (false, true) => "data",
            (false, false) => "constants",
        };
        object(format!("[{what} of {module}]"), "", segment.address, segment.size)
    });
    let sections =
        image.sections.iter().filter(|section| section.is_loaded()).map(|section| {
            object(format!("[{} of {module}]", section.name), &section.name, section.address, section.size)
        });
    segments.chain(sections).collect()
}
