//! The program's own code behind a page fault in a function of a run-time library, such as `memset`. Such functions call nothing and
//! have no frame: the word at the stack pointer is where they return to.

use numamma_symbols::{FrameRule, origin};
use rustc_hash::FxHashMap;

use crate::session::Session;
use crate::space::mappings::PathId;
use crate::tasks::ProcessId;

/// The frame of a function that has pushed nothing: it ends behind the return address. 7 is DWARF's number of rsp.
const NO_FRAME: FrameRule = FrameRule { register: 7, offset: 8 };

/// True if code at an address of a file is a library's, in a function without a frame there.
pub type Leaves = FxHashMap<(PathId, u64), bool>;

fn is_template(function: String) -> bool {
    origin::is_library("", &function, "")
}

impl Session {
    /// An address in the call by which the program's own code came to an instruction of a library's; none if that is its own code,
    /// or if the caller is not known. `top`: the word at the stack pointer.
    pub(crate) fn caller(&mut self, process: ProcessId, place: Option<(PathId, u64)>, top: u64) -> Option<u64> {
        let (path, address) = place?;
        let is_leaf = match self.leaves.get(&(path, address)) {
            Some(&known) => known,
            None => {
                // The C++ library's templates are in the program's own file.
                let is_library = !self.is_own_code(place)
                    && (self.is_library(path)
                        || self
                            .modules
                            .get(path)
                            .and_then(|module| module.function_name(address))
                            .is_some_and(is_template));
                let rule = self.modules.get(path).filter(|_| is_library).and_then(|module| module.frame_rule(address));
                self.leaves.insert((path, address), rule == Some(NO_FRAME));
                rule == Some(NO_FRAME)
            }
        };
        // The last byte of the call: what is behind it may be another line.
        let call = top.checked_sub(1).filter(|_| is_leaf)?;
        let (path, _) = self.place(process, call)?;
        (!self.is_library(path)).then_some(call)
    }

    fn is_library(&self, path: PathId) -> bool {
        origin::is_library(self.modules.path(path), "", "")
    }
}
