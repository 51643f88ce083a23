//! The blocks at addresses that were used a moment ago, beside the ordered table of all.
//!
//! Most blocks live shortly, and allocators give the address that was released last to the next that asks. So an address that
//! was allocated gets a slot here, and what happens at it from then on is noted in the slot alone:
//!
//! ```text
//!   table   ... [ 0x1000, 40 bytes ]  [ 0x1030 ]  [ 0x1060, 24 bytes ] ...     by address: what overlaps, what holds an address
//!                      ^                                  ^
//!   slots      0x1000: released, room for 40        0x1060: another block since, 20 bytes, room for 24
//! ```
//!
//! A slot has room up to where another entry of the table may begin. It has an entry in the table, which keeps others away from
//! that room but may be out of date: where there is a slot, the slot is right. A slot whose place is wanted by another address
//! is written back.

use super::live::Live;

/// Slots at first. Most processes of a shell script need no more.
const FEWEST: usize = 64;
/// Slots at most: what a processor's second level cache holds beside other things.
const MOST: usize = 8192;

/// After so many misses for each slot it is looked at how many blocks found one.
const LOOK: usize = 2;
/// So many hits for a miss are enough; if there are fewer, more slots may help.
const WELL: usize = 8;
/// So many more blocks than have shown that slots do not help go without.
const PAUSE: usize = 16;

/// What a slot says of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is no slot.
    None,
    /// A block lies there, and the table says the same.
    Written,
    /// A block lies there of which the table does not know.
    Unwritten,
    /// The block was released; the table does not know.
    Vacant,
}

/// A block of at most 4 GiB, and how much room it has.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    addr: u64,
    start: i64,
    bytes: u32,
    room: u32,
    stack: u32,
    thread: i32,
    version: u32,
    state: State,
}

const NO_SLOT: Slot =
    Slot { addr: 0, start: 0, bytes: 0, room: 0, stack: 0, thread: 0, version: 0, state: State::None };

impl Slot {
    /// The slot of a block that was just entered into the table, with room for `room` bytes; none for a very large block.
    pub fn new(addr: u64, block: Live, room: u64) -> Option<Self> {
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let bytes = u32::try_from(block.bytes).ok()?;
        let Live { start, stack, thread, version, .. } = block;
        Some(Self { addr, start, bytes, room, stack, thread, version, state: State::Written })
    }

    /// The block that lies there.
    pub fn block(&self) -> Option<Live> {
        let &Self { start, bytes, stack, thread, version, .. } = self;
        let lives = matches!(self.state, State::Written | State::Unwritten);
        lives.then_some(Live { bytes: bytes.into(), start, stack, thread, version })
    }

    /// Bytes that a block there may have without meeting another entry of the table.
    pub fn room(&self) -> u64 {
        self.room.into()
    }

    /// What is behind `room` bytes is another's.
    pub fn limit(&mut self, room: u64) {
        self.room = self.room.min(u32::try_from(room).unwrap_or(u32::MAX));
    }

    /// Another block lies there now; if it needs more room than there was, it is known to have it.
    pub fn set(&mut self, block: Live) {
        let room = self.room().max(block.bytes);
        if let Some(slot) = Self::new(self.addr, block, room) {
            *self = Self { state: State::Unwritten, ..slot };
        }
    }

    /// The block was released.
    pub fn clear(&mut self) {
        self.state = State::Vacant;
    }
}

/// What the table is to be told of an address whose slot is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outdated {
    /// This block is there.
    Is(u64, Live),
    /// Nothing is there.
    Gone(u64),
}

/// The slots, each at the one index that its address allows.
#[derive(Debug, Default)]
pub struct Front {
    slots: Vec<Slot>,
    /// Blocks that found a slot, and that did not, since this was looked at.
    hits: usize,
    misses: usize,
    /// Blocks for which it is not worth the trouble to look again.
    pause: usize,
}

impl Front {
    fn index(&self, addr: u64) -> usize {
        // Neighbouring blocks get slots far from each other; the upper bits of the product depend on all of the address.
        let hash = addr.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 40) as usize & (self.slots.len() - 1)
    }

    /// The slot of an address.
    pub fn get(&self, addr: u64) -> Option<&Slot> {
        if self.slots.is_empty() {
            return None;
        }
        let slot = &self.slots[self.index(addr)];
        (slot.addr == addr && slot.state != State::None).then_some(slot)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, addr: u64) -> Option<&mut Slot> {
        if self.slots.is_empty() {
            return None;
        }
        let at = self.index(addr);
        let slot = &mut self.slots[at];
        (slot.addr == addr && slot.state != State::None).then_some(slot)
    }

    /// Notes that a new block found a slot.
    pub fn hit(&mut self) {
        self.hits += 1;
    }

    /// Notes that a new block found none. Returns whether it should get one: not if that hardly ever helps, as where blocks
    /// live long; then all slots are to be given up for a while.
    pub fn miss(&mut self) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        self.misses += 1;
        if self.slots.is_empty() {
            self.slots = vec![NO_SLOT; FEWEST];
        } else if self.misses > LOOK * self.slots.len() {
            if self.slots.len() < MOST && self.hits < WELL * self.misses {
                self.grow();
            } else if self.hits < self.misses {
                self.pause = PAUSE * self.misses;
            }
            (self.hits, self.misses) = (0, 0);
        }
        self.pause == 0
    }

    /// Adds a slot for an address that has none. Another may have to go for it; the table is to be told of that one.
    pub fn add(&mut self, slot: Slot) -> Option<Outdated> {
        let at = self.index(slot.addr);
        outdated(&std::mem::replace(&mut self.slots[at], slot))
    }

    /// Gives up the slot of an address, of which the table knows already.
    pub fn forget(&mut self, addr: u64) {
        if let Some(slot) = self.get_mut(addr) {
            slot.state = State::None;
        }
    }

    /// True if there was no slot yet.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Gives up all slots: what the table is to be told.
    pub fn give_up(&mut self) -> impl Iterator<Item = Outdated> + use<> {
        std::mem::take(&mut self.slots).into_iter().filter_map(|slot| outdated(&slot))
    }

    fn grow(&mut self) {
        let more = vec![NO_SLOT; (self.slots.len() * 4).min(MOST)];
        let slots = std::mem::replace(&mut self.slots, more);
        // What had different indexes has different ones still: the lower bits stay.
        for slot in slots.into_iter().filter(|slot| slot.state != State::None) {
            let at = self.index(slot.addr);
            self.slots[at] = slot;
        }
    }
}

fn outdated(slot: &Slot) -> Option<Outdated> {
    match slot.state {
        State::None | State::Written => None,
        State::Unwritten => slot.block().map(|block| Outdated::Is(slot.addr, block)),
        State::Vacant => Some(Outdated::Gone(slot.addr)),
    }
}
