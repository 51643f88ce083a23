//! Questions about static objects.

use super::Module;
use crate::dwarf::Statics;
use crate::elf::mapping;
use crate::variables::Variables;
use crate::{TlsBlock, Variable};

impl Module {
    /// The static object at `address`; where nothing names it, the section. None outside the module.
    #[must_use]
    pub fn data_at(&self, address: u64) -> Option<&Variable> {
        self.variable_table().at(&self.image, self.symbols(), address)
    }

    /// All named static objects by address, and after them the thread-local ones by offset. Sections are not among them.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.variable_table().all(&self.image, self.symbols())
    }

    /// The thread-local variable `offset` bytes from the start of the module's TLS block.
    #[must_use]
    pub fn tls_variable_at(&self, offset: u64) -> Option<&Variable> {
        self.variable_table().thread_local_at(&self.image, self.symbols(), offset)
    }

    /// Offsets around one in the module's TLS block that is of no variable: from the end of one to the start of the next, as far as the
    /// block goes.
    #[must_use]
    pub fn tls_gap_at(&self, offset: u64) -> (u64, u64) {
        self.variable_table().thread_local_gap(offset)
    }

    /// The module's thread-local storage; none when it has none.
    #[must_use]
    pub fn tls_block(&self) -> Option<TlsBlock> {
        mapping::tls_block(&self.image)
    }

    fn variable_table(&self) -> &Variables {
        self.variables.get_or_init(|| {
            let statics = self.debug_sections().map(Statics::read).unwrap_or_default();
            Variables::new(&self.image, self.symbols(), statics, self.copied_variables(), &self.name)
        })
    }
}
