//! The Rust mirror against the C header, field by field: a C program prints what the compiler makes of the header.

mod mirror;

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use mirror::Mirror;
use numamma_wire::{Api, layout};

/// What Rust says, by name.
fn mirror() -> BTreeMap<String, u64> {
    let mut facts = BTreeMap::new();
    let mut fact = |name: &str, value: u64| assert!(facts.insert(name.to_owned(), value).is_none(), "{name} twice");
    macro_rules! structure {
        ($c:literal, $rust:ty, $($field:ident $(= $c_field:literal)?),+) => {
            fact(concat!("sizeof ", $c), size_of::<$rust>() as u64);
            $(fact(
                &format!("offsetof {} {}", $c, [$($c_field,)? stringify!($field)][0]),
                offset_of!($rust, $field) as u64,
            );)+
        };
    }
    structure!(
        "nmm_segment",
        layout::SegmentHeader,
        magic,
        version,
        header_bytes,
        ring_count,
        ring_bytes,
        rings_offset,
        recorder_pid,
        max_frames,
        heap,
        closed,
        clock,
        collapse,
        exact,
        vdso_clock,
        sleeping,
        doorbell,
        next_ring,
        rings_used,
        lost_no_ring,
        lost_no_map,
        muted,
        no_ring,
        pad1,
        lost_filtered,
        trace_left,
        caches,
        reserved
    );
    structure!("nmm_caches", layout::Caches, line, prefetch, sockets, pad, sets, ways);
    structure!(
        "nmm_ring",
        layout::RingControl,
        state,
        pid,
        tid,
        pad0,
        pad1,
        head,
        lost_full,
        lost_frees,
        waits,
        pad2,
        tail,
        pad3
    );
    structure!("nmm_recent", layout::RecentBlock, address, stack, size, api, state, version, repeats, carving, pad);
    structure!("nmm_event", layout::EventHeader, aux, kind = "type", words, aux2, time);

    let kinds = [
        ("PROCESS", layout::kind::PROCESS),
        ("THREAD_START", layout::kind::THREAD_START),
        ("THREAD_END", layout::kind::THREAD_END),
        ("STACK", layout::kind::STACK),
        ("ALLOC", layout::kind::ALLOC),
        ("FREE", layout::kind::FREE),
        ("UNFREE", layout::kind::UNFREE),
        ("MAP", layout::kind::MAP),
        ("UNMAP", layout::kind::UNMAP),
        ("UNUNMAP", layout::kind::UNUNMAP),
        ("REPEAT", layout::kind::REPEAT),
        ("BREAK", layout::kind::BREAK),
        ("DLCLOSE", layout::kind::DLCLOSE),
        ("COUNTING", layout::kind::COUNTING),
        ("ACCESSES", layout::kind::ACCESSES),
        ("COUNTED", layout::kind::COUNTED),
        ("TOUCH", layout::kind::TOUCH),
        ("UNSUPPORTED", layout::kind::UNSUPPORTED),
        ("LABEL", layout::kind::LABEL),
        ("UNLABEL", layout::kind::UNLABEL),
        ("PHASE", layout::kind::PHASE),
        ("WANTED", layout::kind::WANTED),
        ("ACCESS", layout::kind::ACCESS),
        ("ACCESS_MORE", layout::kind::ACCESS_MORE),
        ("MALLOC", Api::Malloc as u16),
        ("CALLOC", Api::Calloc as u16),
        ("REALLOC", Api::Realloc as u16),
        ("REALLOCARRAY", Api::Reallocarray as u16),
        ("POSIX_MEMALIGN", Api::PosixMemalign as u16),
        ("ALIGNED_ALLOC", Api::AlignedAlloc as u16),
        ("MEMALIGN", Api::Memalign as u16),
        ("VALLOC", Api::Valloc as u16),
        ("PVALLOC", Api::Pvalloc as u16),
        ("NEW", Api::New as u16),
        ("RECENT_NONE", layout::RECENT_NONE),
        ("RECENT_LIVE", layout::RECENT_LIVE),
        ("RECENT_FREED", layout::RECENT_FREED),
    ];
    for (name, value) in kinds {
        fact(&format!("value NMM_{name}"), value.into());
    }
    fact("value NMM_WIRE_VERSION", layout::WIRE_VERSION.into());
    fact("value NMM_MAGIC", layout::MAGIC);
    fact("value NMM_PAGE", layout::PAGE.into());
    fact("value NMM_MAX_FRAMES", layout::MAX_FRAMES.into());
    fact("value NMM_TEXT_WORDS", layout::TEXT_WORDS.into());
    fact("value NMM_RECENT", layout::RECENT.into());
    fact("value NMM_RING_EXTRA", layout::RING_EXTRA.into());
    fact("value NMM_CLOCK_MONOTONIC", layout::CLOCK_MONOTONIC.into());
    fact("value NMM_CLOCK_TSC", layout::CLOCK_TSC.into());
    fact("value NMM_RING_FREE", layout::RING_FREE.into());
    fact("value NMM_RING_OWNED", layout::RING_OWNED.into());
    fact("value NMM_RING_ENDED", layout::RING_ENDED.into());
    facts
}

#[test]
fn the_mirror_agrees_with_the_header() {
    Mirror::new("numamma_wire.h", mirror()).agrees();
}

#[test]
fn nothing_in_the_header_is_missing_from_the_mirror() {
    let mirror = Mirror::new("numamma_wire.h", mirror());
    mirror.is_whole(&["NUMAMMA_WIRE_H", "NMM_ENV_SEGMENT"]);
    assert!(mirror.header().contains(&format!("\"{}\"", numamma_wire::ENVIRONMENT)));
}

#[test]
fn each_sides_words_have_their_own_cache_line() {
    assert_eq!(offset_of!(layout::SegmentHeader, sleeping), 64);
    assert_eq!(size_of::<layout::SegmentHeader>(), 512);
    assert_eq!(offset_of!(layout::RingControl, head) % 64, 0);
    assert_eq!(offset_of!(layout::RingControl, tail) % 64, 0);
    assert_eq!(size_of::<layout::RingControl>() % 64, 0);
    assert_eq!(size_of::<layout::EventHeader>(), 16);
    assert!(size_of::<layout::RecentBlock>() * layout::RECENT as usize <= layout::PAGE as usize);
}
