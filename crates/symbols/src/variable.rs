//! What is told about a static object.

/// What kind of object an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VariableKind {
    /// A variable of the program, or a table that the compiler made and named.
    Object,
    /// A Fortran common block; its parts are the members.
    CommonBlock,
    /// A thread-local variable: one per thread, `address` counts from the start of the module's TLS block.
    ThreadLocal,
    /// No symbol names the address: the whole section (or, without section headers, segment) around it.
    Section,
}

/// How the size is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// The symbol or the type says it.
    Stated,
    /// The symbol has none: up to the next symbol or the end of the section. An upper bound.
    UpToNext,
}

/// A named part of a variable: a field of a structure, a member of a common block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name in the source.
    pub name: String,
    /// Bytes from the start of the variable.
    pub offset: u64,
    /// Size in bytes; 0 when unknown.
    pub size: u64,
    /// Its type, as in [`Variable::type_name`].
    pub type_name: Option<String>,
}

/// Bytes of a member of a structure that is an object of its own: smaller ones share their page with others, and cannot be placed.
const DIVIDED: u64 = 4096;

/// What an array is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The element's type, such as `double` or `point`.
    pub type_name: String,
    /// Size of one element in bytes.
    pub size: u64,
    /// Number of elements in each dimension as declared, outermost first; empty when it is no array.
    pub dimensions: Vec<u64>,
}

/// A static object of a module. Addresses are the file's: add the bias of the mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// The name to show: `grid`, `space::grid`, `f::counter`, `/block/`, `[.bss of libfoo.so]`.
    pub name: String,
    /// The symbol's name as the file has it; empty for sections and for what only debug information names.
    pub symbol: String,
    /// First address, or offset in the TLS block for thread-local ones.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// How the size is known.
    pub extent: Extent,
    /// What it is.
    pub kind: VariableKind,
    /// The section's name, such as `.bss`; empty without section headers.
    pub section: String,
    /// Whether the program may write to it once it runs.
    pub writable: bool,
    /// Source file and line of the definition.
    pub declared: Option<(String, u32)>,
    /// The type as debug information has it, such as `double [1000][8]`.
    pub type_name: Option<String>,
    /// What the array, or the single value, is made of.
    pub element: Option<Element>,
    /// Parts by offset: of a common block, or of a structure. For arrays of structures, those of the first element.
    pub members: Vec<Member>,
    /// Whether this is an executable's copy of a library's variable (copy relocation).
    pub copied: bool,
}

impl Variable {
    /// Address after the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }

    /// The parts that are objects of their own: the members of a common block, `/block/ member`, and those of a structure that have
    /// pages of their own, `structure.member`, if there are several. None of those that share their storage with others.
    pub fn parts(&self) -> impl Iterator<Item = Variable> {
        self.members.iter().filter_map(|member| self.part(member))
    }

    /// The one of them that holds the byte at an address.
    #[must_use]
    pub fn part_at(&self, address: u64) -> Option<Variable> {
        let offset = address.checked_sub(self.address)?;
        let member = self.members.iter().rfind(|member| member.offset <= offset)?;
        self.part(member).filter(|part| part.end() > address)
    }

    fn part(&self, member: &Member) -> Option<Variable> {
        let end = |member: &Member| member.offset.saturating_add(member.size.max(1));
        let meets = |other: &&Member| other.offset < end(member) && member.offset < end(other);
        let is_apart = member.size > 0 && end(member) <= self.size && self.members.iter().filter(meets).count() == 1;
        let separator = match self.kind {
            VariableKind::CommonBlock => ' ',
            VariableKind::Object if self.is_divided() && member.size >= DIVIDED => '.',
            _ => return None,
        };
        is_apart.then(|| Variable {
            name: format!("{}{separator}{}", self.name, member.name),
            symbol: String::new(),
            address: self.address.saturating_add(member.offset),
            size: member.size,
            type_name: member.type_name.clone(),
            element: None,
            members: Vec::new(),
            ..self.clone()
        })
    }

    /// Whether it is one structure with several members that have pages of their own.
    fn is_divided(&self) -> bool {
        let is_array = self.element.as_ref().is_some_and(|element| !element.dimensions.is_empty());
        !is_array && self.members.iter().filter(|member| member.size >= DIVIDED).count() > 1
    }

    /// The member that holds the byte `offset` bytes from the start; for an array of structures, of whichever element.
    #[must_use]
    pub fn member_at(&self, offset: u64) -> Option<&Member> {
        let offset = match &self.element {
            Some(element) if !element.dimensions.is_empty() && element.size > 0 => offset % element.size,
            _ => offset,
        };
        self.members
            .iter()
            .rev()
            .find(|member| member.offset <= offset && (member.size == 0 || offset - member.offset < member.size))
    }
}
