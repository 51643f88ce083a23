//! Machines that are not here, as directories: what is read, chosen and said.

mod broken;
mod derive;
mod files;
mod fixture;
mod hwloc;
mod layout;
mod samplers;
