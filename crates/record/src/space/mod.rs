//! The address space of one process as it changes: mappings, images, live objects.
//!
//! What is at an address is asked for each sample, in this order (the innermost owner first):
//!
//! ```text
//!   name that the program gave -> heap object -> thread-local storage -> mmap'ed object -> variable of an image -> stack -> any other mapping
//! ```

mod front;
pub mod images;
pub mod labels;
pub mod live;
pub mod mappings;
mod ordered;

use std::rc::Rc;

pub use images::Images;
pub use labels::{Label, Labels};
pub use live::{Live, LiveObjects};
pub use mappings::{Mapping, Mappings};

/// First and end addresses.
pub type Ranges = Vec<(u64, u64)>;

/// One address space. A fork shares the tables, and most of them even when one side changes them.
#[derive(Debug, Default)]
pub struct Space {
    /// What is mapped.
    pub mappings: Mappings,
    /// Executables and libraries.
    pub images: Rc<Images>,
    /// Objects of allocation functions.
    pub heap: LiveObjects,
    /// Objects that the program mapped.
    pub maps: LiveObjects,
    /// What the program calls its memory.
    pub labels: Labels,
    /// True if it has said that samples are wanted.
    pub wanted: bool,
}

impl Space {
    /// That of a forked process.
    pub fn fork(&mut self) -> Self {
        Self {
            mappings: self.mappings.clone(),
            images: Rc::clone(&self.images),
            heap: self.heap.fork(),
            maps: self.maps.fork(),
            labels: self.labels.fork(),
            wanted: self.wanted,
        }
    }

    /// A new mapping, as the kernel reports it. Returns the address ranges of images that it replaced, and those in which
    /// something else was mapped.
    pub fn map(&mut self, start: u64, mapping: Mapping) -> (Ranges, Ranges) {
        let gone = if mapping.is_file() {
            Rc::make_mut(&mut self.images).map(start, &mapping)
        } else if self.images.below(mapping.end - 1).is_some_and(|(low, _)| low >= start) {
            Rc::make_mut(&mut self.images).covered(start, mapping.end)
        } else {
            Vec::new()
        };
        (gone, self.mappings.insert(start, mapping))
    }
}
