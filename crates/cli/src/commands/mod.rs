//! One file per subcommand.

pub mod apply;
pub mod compare;
pub mod doctor;
pub mod html;
pub mod machine;
mod placement;
pub mod plan;
pub mod predict;
mod question;
pub mod record;
pub mod report;
mod terminal;
pub mod trial;

/// Samplers that this version has.
pub const IMPLEMENTED: &[numamma_topology::Kind] = &[numamma_topology::Kind::Clock];
