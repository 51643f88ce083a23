//! Every way to allocate and release.

mod common;

use std::process::Command;

use common::{Bench, replay};
use numamma_wire::{Api, Event, is_younger};

/// One program makes each call with a size of its own; the test finds the event by that size.
const APIS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void show(const char *name, void *p) { printf("%s %p\n", name, p); }
int main(void)
{
    void *p, *q;
    p = malloc(10001); show("malloc", p); free(p);
    p = calloc(3, 3337); show("calloc", p); for (int i = 0; i < 3 * 3337; i++) if (((char *)p)[i]) return 1; free(p);
    p = calloc(1, 0); show("calloc0", p); free(p);
    p = malloc(0); free(p);
    p = malloc(20001); memset(p, 7, 20001); q = realloc(p, 200003); if (((char *)q)[20000] != 7) return 2;
    show("old", p); show("new", q); free(q);
    p = realloc(NULL, 30001); show("realloc_null", p); if (realloc(p, 0) != NULL) return 3;
    p = reallocarray(NULL, 7, 5003); show("reallocarray", p); free(p);
    if (posix_memalign(&p, 256, 40003)) return 4;
    show("posix_memalign", p); if ((size_t)p % 256) return 5; free(p);
    p = aligned_alloc(4096, 40960); show("aligned_alloc", p); if ((size_t)p % 4096) return 6; free(p);
    p = memalign(64, 50021); show("memalign", p); free(p);
    p = valloc(60013); show("valloc", p); free(p);
    p = pvalloc(70001); show("pvalloc", p); free(p);
    for (size_t size = 1; size < 70; size += 2) { p = malloc(size); if (malloc_usable_size(p) < size) return 7; free(p); }
    free(NULL);

    errno = 0; p = malloc((size_t)1 << 62); if (p || errno != ENOMEM) return 8;
    errno = 0; p = calloc((size_t)1 << 40, (size_t)1 << 40); if (p || errno != ENOMEM) return 9;
    q = malloc(80021); show("survivor", q);
    errno = 0; p = realloc(q, (size_t)1 << 61); if (p || errno != ENOMEM) return 10;
    errno = 0; p = reallocarray(q, (size_t)1 << 40, (size_t)1 << 40); if (p || errno != ENOMEM) return 11;
    free(q);
    p = (void *)1; errno = 4711; if (posix_memalign(&p, 3, 8) != EINVAL || p != (void *)1 || errno != 4711) return 12;
    errno = 4711; p = malloc(123); free(p); if (errno != 4711) return 13;
    return 0;
}
"#;

#[test]
fn every_function_is_seen_once() {
    let recording = Bench::new().run(APIS, &["-O1", "-Wno-all"]).check();
    let cases = [
        ("malloc", Api::Malloc, 10001),
        ("calloc", Api::Calloc, 3 * 3337),
        ("calloc0", Api::Calloc, 0),
        ("realloc_null", Api::Realloc, 30001),
        ("reallocarray", Api::Reallocarray, 7 * 5003),
        ("posix_memalign", Api::PosixMemalign, 40003),
        ("aligned_alloc", Api::AlignedAlloc, 40960),
        ("memalign", Api::Memalign, 50021),
        ("valloc", Api::Valloc, 60013),
        ("pvalloc", Api::Pvalloc, 70001),
    ];
    let events = recording.events();
    for (name, wanted, bytes) in cases {
        let address = recording.printed(name);
        let matching: Vec<usize> = (0..events.len())
            .filter(|i| matches!(events[*i], Event::Alloc { api, address: a, size, .. } if (api, a, size) == (wanted, address, bytes)))
            .collect();
        assert_eq!(matching.len(), 1, "{name} of {bytes} at {address:#x}: {events:?}");
        // The same address may have been someone else's before and after: the next event about it is its release.
        let next = events[matching[0] + 1..].iter().find(|event| match event {
            Event::Alloc { address: a, .. } | Event::Free { address: a, .. } => *a == address,
            _ => false,
        });
        assert!(matches!(next, Some(Event::Free { .. })), "{name} is released: {next:?}");
    }
    assert!(!events.iter().any(|event| matches!(event, Event::Free { address: 0, .. })), "free(NULL) is nothing");
    assert!(!events.iter().any(|event| matches!(event, Event::Alloc { address: 0, .. })), "a failure is no object");
    assert!(!events.iter().any(|event| matches!(event, Event::Alloc { size, .. } if *size > 1 << 40)));
}

#[test]
fn realloc_is_a_release_and_an_acquisition() {
    let recording = Bench::new().run(APIS, &["-O1", "-Wno-all"]).check();
    let (old, new) = (recording.printed("old"), recording.printed("new"));
    let events = recording.events();
    let acquired = events
        .iter()
        .position(
            |event| matches!(event, Event::Alloc { api: Api::Realloc, address, size: 200003, .. } if *address == new),
        )
        .expect("the new block");
    let before = events[..acquired].iter().rev().find(|event| !matches!(event, Event::Stack { .. }));
    assert!(
        matches!(before, Some(Event::Free { api: Api::Realloc, address, tentative: true, .. }) if *address == old),
        "{before:?}"
    );

    // The failed one is taken back, so that the object lives until its free.
    let survivor = recording.printed("survivor");
    let born = events
        .iter()
        .position(|event| matches!(event, Event::Alloc { size: 80021, .. }))
        .expect("the block that realloc could not grow");
    let life: Vec<&Event> = events[born + 1..]
        .iter()
        .filter(
            |event| matches!(event, Event::Free { address, .. } | Event::Unfree { address } if *address == survivor),
        )
        .take(3)
        .collect();
    let [
        Event::Free { api: Api::Realloc, tentative: true, version: first, .. },
        Event::Unfree { .. },
        Event::Free { api: Api::Malloc, tentative: false, version: second, .. },
    ] = life[..]
    else {
        panic!("{life:?}")
    };
    assert!(is_younger(*second, *first), "{life:?}");
}

#[test]
fn cpp_operators_and_exceptions() {
    let source = r#"// C++
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>
struct alignas(128) Wide { char bytes[128 * 91]; };
static int depth(int n) { std::string s(100 + n, 'x'); if (n == 0) throw std::runtime_error(s); return depth(n - 1) + (int)s.size(); }
int main()
{
    Wide *w = new Wide; std::printf("wide %p\n", (void *)w); if ((unsigned long)w % 128) return 1; delete w;
    int *a = new int[12347]; std::printf("array %p\n", (void *)a); delete[] a;
    int caught = 0;
    for (int i = 0; i < 100; i++) try { depth(20); } catch (const std::runtime_error &e) { caught += std::string(e.what()).size() == 100; }
    try { volatile size_t huge = (size_t)1 << 62; char *volatile kept = new char[huge]; delete[] kept; } catch (const std::bad_alloc &) { caught++; }
    return caught == 101 ? 0 : 2;
}
"#;
    let recording = Bench::new().run(source, &["-O2", "-std=c++17", "-Wno-all"]).check();
    for (name, size) in [("wide", 128 * 91), ("array", 4 * 12347)] {
        let address = recording.printed(name);
        assert_eq!(recording.addresses(size), [address], "{name}");
        assert!(recording.frees(address) >= 1, "{name} is released");
    }
}

/// Allocators that define the operators of C++ beside malloc, and never call that from them.
#[test]
fn operators_of_a_shared_allocator() {
    let source = r#"// C++
#include <cstdio>
#include <cstdlib>
#include <new>
#include <sys/mman.h>
struct alignas(128) Wide { char bytes[128 * 91]; };
static __attribute__((noinline)) void deep(int n) { if (n) { deep(n - 1); __asm__ volatile("" : : : "memory"); } else { char *p = new char[30017]; __asm__ volatile("" : : "r"(p) : "memory"); delete[] p; mmap(nullptr, 77 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); } }
static int caught;
static __attribute__((noinline)) int fails(void) { try { volatile size_t huge = (size_t)1 << 62; char *volatile kept = new char[huge]; delete[] kept; } catch (const std::bad_alloc &) { if (!caught++) deep(20); return 1; } return 0; }
int main()
{
    Wide *w = new Wide; std::printf("wide %p\n", (void *)w); if ((unsigned long)w % 128) return 1; delete w;
    w = new (std::nothrow) Wide[2]; std::printf("wides %p\n", (void *)w); delete[] w;
    int *a = new int[12347]; std::printf("array %p\n", (void *)a); delete[] a;
    struct Plain { char bytes[20011]; } *p = new Plain; std::printf("plain %p\n", (void *)p); delete p;
    p = new (std::nothrow) Plain; std::printf("nothrow %p\n", (void *)p); operator delete(p, std::nothrow);
    delete (int *)nullptr;
    void *freed = std::malloc(500); std::free(freed);
    for (int i = 0; i < FAILURES; i++) if (!fails()) return 2;
    if (!caught) deep(20);
    return 0;
}
"#;
    for allocator in ["jemalloc", "tcmalloc", "tcmalloc_minimal", "mimalloc"] {
        let (link, library) = (format!("-l{allocator}"), format!("/usr/lib/x86_64-linux-gnu/lib{allocator}.so"));
        if !std::path::Path::new(&library).exists() {
            eprintln!("skipped: no {library}");
            continue;
        }
        // Debian's mimalloc is one for C, which does not throw but aborts.
        let failures = if allocator == "mimalloc" { "-DFAILURES=0" } else { "-DFAILURES=100" };
        let flags = ["-O1", "-std=c++17", "-Wno-all", failures, "-Wl,--no-as-needed", &link];
        for bench in [Bench::new(), Bench::collapsing()] {
            let collapses = bench.options.collapse;
            let recording = bench.run(source, &flags).check();
            let sizes = [("wide", 128 * 91), ("wides", 2 * 128 * 91), ("array", 4 * 12347), ("plain", 20011)];
            for (name, size) in sizes {
                let address = recording.printed(name);
                let made = recording.allocs(size);
                assert!(!made.is_empty(), "{allocator}: {name}, collapsing: {collapses}");
                assert!(matches!(made[0], Event::Alloc { api: Api::New, address: a, .. } if a == address), "{made:?}");
                assert!(recording.frees(address) >= 1, "{allocator}: {name} is released");
            }
            assert_eq!(recording.addresses(20011).len(), 2, "{allocator}");
            // While an exception is caught, its operator is not active any more: what is further in is not its doing.
            assert_eq!(recording.addresses(30017).len(), 1, "{allocator}");
            let mapped = |event: &Event| matches!(event, Event::Map { length, .. } if *length == 77 * 4096);
            assert_eq!(recording.events().iter().filter(|event| mapped(event)).count(), 1, "{allocator}");
            assert!(!recording.events().iter().any(|event| matches!(event, Event::Free { address: 0, .. })));
            // jemalloc's go on to free: once is enough, until the address is another block's.
            let (events, array) = (recording.events(), recording.printed("array"));
            let is_made = |event: &Event| matches!(event, Event::Alloc { address, .. } if *address == array);
            let of_array = |event: &Event| matches!(event, Event::Alloc { address, size, .. } if (*address, *size) == (array, 4 * 12347));
            let made = events.iter().position(of_array).expect("it was made");
            let life = events[made + 1..].iter().take_while(|event| !is_made(event));
            let freed = life.filter(|event| matches!(event, Event::Free { address, .. } if *address == array)).count();
            assert_eq!(freed, 1, "{allocator}");
            if collapses {
                replay(&recording);
            }
        }
    }
}

/// A program of C that loads a library of C++: whoever asks for an operator finds ours, and the C++ library comes later.
#[test]
fn operators_that_come_late() {
    let library = r#"// C++
#include <new>
#include <string>
#include <vector>
extern "C" int work(int n)
{
    std::vector<std::string> all;
    for (int i = 0; i < n; i++) all.push_back(std::string(25013, 'x'));
    try { volatile size_t huge = (size_t)1 << 62; char *volatile kept = new char[huge]; delete[] kept; } catch (const std::bad_alloc &) { return (int)all.size(); }
    return 0;
}
"#;
    let source = r#"
#include <dlfcn.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < 20; i++) {
        void *handle = dlopen(argv[1 + i % (argc - 1)], RTLD_NOW | RTLD_LOCAL);
        if (!handle) return 1;
        int (*work)(int) = (int (*)(int))dlsym(handle, "work");
        if (work(10) != 10) return 2;
        if (dlclose(handle)) return 3;
    }
    return 0;
}
"#;
    // With the C++ library beside it, and inside it for everyone to see.
    for flags in [&[][..], &["-static-libstdc++", "-static-libgcc"]] {
        let bench = Bench::new();
        let path = bench.compile("library.so", library, &[&["-O1", "-shared", "-fPIC"], flags].concat());
        let program = bench.compile("program", source, &["-O1", "-ldl"]);
        let recording = bench.record(Command::new(&program).args([&path, &path])).check();
        assert_eq!(recording.allocs(25014).len(), 20 * 10, "{flags:?}");
    }
    // Operators of the libraries' own, which go with them: the next library has others, elsewhere.
    let own = r#"// C++
#include <stdlib.h>
#ifdef PADDED
__asm__(".text\n.zero 65536");
#endif
void *operator new(size_t size) { return malloc(size); }
void operator delete(void *block) noexcept { free(block); }
void operator delete(void *block, size_t) noexcept { free(block); }
struct Thing { char bytes[25014]; };
extern "C" int work(int n)
{
    for (int i = 0; i < n; i++) { Thing *volatile thing = new Thing; delete thing; }
    return n;
}
"#;
    let bench = Bench::new();
    let flags = ["-O1", "-shared", "-fPIC", "-nodefaultlibs", "-lc"];
    let libraries =
        [bench.compile("one.so", own, &flags), bench.compile("two.so", own, &[&flags[..], &["-DPADDED"]].concat())];
    let program = bench.compile("program", source, &["-O1", "-ldl"]);
    let recording = bench.record(Command::new(&program).args(&libraries)).check();
    assert_eq!(recording.allocs(25014).len(), 20 * 10);
}

#[test]
fn jemalloc_is_forwarded_to_and_its_mappings_are_its_own() {
    let jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    if !std::path::Path::new(jemalloc).exists() {
        eprintln!("skipped: no {jemalloc}");
        return;
    }
    let source = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    /* A size that glibc would round differently tells who served it. */
    size_t (*usable)(void *) = (size_t (*)(void *))dlsym(RTLD_DEFAULT, "malloc_usable_size");
    void *p = malloc(10001);
    printf("usable %zu\n", usable(p));
    for (int i = 0; i < 1000; i++) free(malloc(1 << 20));
    free(p);
    return 0;
}
"#;
    let recording = Bench::new().run(source, &["-O1", "-Wl,--no-as-needed", jemalloc, "-ldl"]).check();
    assert_eq!(recording.printed("usable"), 10240, "a size class of jemalloc");
    assert_eq!(recording.allocs(1 << 20).len(), 1000);
    let maps: Vec<Event> = recording.events().into_iter().filter(|event| matches!(event, Event::Map { .. })).collect();
    assert_eq!(maps, [], "jemalloc's own mappings");
}
