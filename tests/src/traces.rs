//! A program whose accesses are known one by one, and what the trace of an exact recording says of them.

use numamma_trace::{Dataset, ObjectRow, TraceRow};

use crate::Place;

/// Two threads, one after the other, step through one array, each in its own way; the second in a block that was another one's
/// before. One reads what it writes to.
pub const PROGRAM: &str = r"
    #include <pthread.h>
    #include <stdlib.h>
    enum { N = 1000 };
    static volatile long numbers[N];
    static void *upwards(void *x) {
        for (long i = 0; i < N; i++) numbers[i] = i;
        volatile char *block = malloc(100000); block[7] = 1; free((void *)block);
        return x;
    }
    static void *downwards(void *x) {
        for (long i = N - 1; i >= 0; i -= 3) numbers[i]++;
        volatile short *other = malloc(100000); other[5] = 1; other[6] = other[5]; free((void *)other);
        return x;
    }
    int main(void) {
        pthread_t t;
        pthread_create(&t, 0, upwards, 0); pthread_join(t, 0);
        pthread_create(&t, 0, downwards, 0); pthread_join(t, 0);
        return 0;
    }";

/// The accesses to an object in the order of threads and times, with their places in it: thread, offset, bytes, whether it writes.
#[track_caller]
pub fn of_object(place: &Place, name: &str, what: impl Fn(&ObjectRow) -> bool) -> Vec<(i32, i64, i32, bool)> {
    let dataset = Dataset::open(&place.dataset()).expect("a recording");
    let objects: Vec<ObjectRow> = dataset.read::<ObjectRow>().expect("its objects").into_iter().filter(what).collect();
    assert!(!objects.is_empty(), "no object {name}");
    let rows = dataset.read::<TraceRow>().expect("its trace");
    assert!(rows.is_sorted_by_key(|row| (row.thread, row.time)));
    let offset = |row: &TraceRow| {
        let there = |of: &&ObjectRow| {
            (of.addr..of.addr + of.bytes).contains(&row.addr) && (of.start_time..of.end_time).contains(&row.time)
        };
        objects.iter().find(there).map(|of| row.addr - of.addr)
    };
    rows.iter().filter_map(|row| Some((row.thread, offset(row)?, row.bytes, row.access == 2))).collect()
}

/// Each access of [`PROGRAM`] is there, in order, and at its object.
#[track_caller]
pub fn are_those_of_the_program(place: &Place) {
    let upwards = (0..1000).map(|i| (1, 8 * i, 8, true));
    let downwards = (0..1000).rev().step_by(3).flat_map(|i| [(2, 8 * i, 8, false), (2, 8 * i, 8, true)]);
    let expected: Vec<_> = upwards.chain(downwards).collect();
    assert_eq!(of_object(place, "numbers", |object| object.name == "numbers"), expected);
    let blocks = of_object(place, "of 100000 bytes", |object| object.kind == "heap" && object.bytes == 100_000);
    assert_eq!(blocks, [(1, 7, 1, true), (2, 10, 2, true), (2, 10, 2, false), (2, 12, 2, true)]);
}
