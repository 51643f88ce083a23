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

impl Member {
    /// Bytes from the start of the variable to its end.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.size.max(1))
    }
}

/// Members of that many bytes have pages of their own, which can be placed: a structure with several of them is many objects.
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
    /// True if the program may write to it once it runs.
    pub writable: bool,
    /// Source file and line of the definition.
    pub declared: Option<(String, u32)>,
    /// The type as debug information has it, such as `double [1000][8]`.
    pub type_name: Option<String>,
    /// What the array, or the single value, is made of.
    pub element: Option<Element>,
    /// Parts by offset: of a common block, or of a structure. For arrays of structures, those of the first element.
    pub members: Vec<Member>,
    /// True if this is an executable's copy of a library's variable (copy relocation).
    pub copied: bool,
}

impl Variable {
    /// Address after the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }

    /// The parts that are objects of their own: the members of a common block, `/block/ member`, but for those that share their storage
    /// with others; and all members of a structure of which several have pages of their own, `structure.member`.
    pub fn parts(&self) -> impl Iterator<Item = Variable> {
        let divided = self.is_divided();
        (0..self.members.len()).filter_map(move |index| self.part(index, divided))
    }

    /// The one of them that holds the byte at an address.
    #[must_use]
    pub fn part_at(&self, address: u64) -> Option<Variable> {
        let offset = address.checked_sub(self.address)?;
        let index = self.members.iter().rposition(|member| member.offset <= offset)?;
        self.part(index, self.is_divided()).filter(|part| part.end() > address)
    }

    fn part(&self, index: usize, divided: bool) -> Option<Variable> {
        let member = &self.members[index];
        let (separator, end) = match self.kind {
            VariableKind::CommonBlock => {
                let meets = |other: &&Member| other.offset < member.end() && member.offset < other.end();
                let is_apart = member.size > 0 && self.members.iter().filter(meets).count() == 1;
                (' ', Some(member.end()).filter(|&end| is_apart && end <= self.size)?)
            }
            // With what lies between it and the next, so that each byte has one object.
            VariableKind::Object if divided => ('.', self.members.get(index + 1).map_or(self.size, |next| next.offset)),
            _ => return None,
        };
        Some(Variable {
            name: format!("{}{separator}{}", self.name, member.name),
            symbol: String::new(),
            address: self.address.saturating_add(member.offset),
            size: end - member.offset,
            type_name: member.type_name.clone(),
            element: None,
            members: Vec::new(),
            ..self.clone()
        })
    }

    /// True if it is one structure with several members that have pages of their own, and none that share their storage.
    fn is_divided(&self) -> bool {
        let is_array = self.element.as_ref().is_some_and(|element| !element.dimensions.is_empty());
        let apart = self.members.windows(2).all(|pair| pair[0].end() <= pair[1].offset);
        let starts = self.members.first().is_some_and(|member| member.offset == 0);
        let ends = self.members.last().is_some_and(|member| member.end() <= self.size);
        let large = self.members.iter().filter(|member| member.size >= DIVIDED).count();
        !is_array && starts && apart && ends && large > 1
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
