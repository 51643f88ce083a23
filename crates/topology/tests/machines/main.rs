//! Machines that are not here, as directories: what is read, chosen and said.

mod broken;
mod files;
mod fixture;
mod layout;
mod samplers;
