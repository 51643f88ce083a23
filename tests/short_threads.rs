//! Threads that live for less than a millisecond, a new generation for each step: each of a step's threads is a worker of its own.

use numamma_tests::report::Report;
use numamma_tests::{Place, Run};

/// Two threads for each step, each on half of an array, for about half a millisecond.
const HALVES: &str = r"
    #include <pthread.h>
    #include <stdlib.h>
    static long n = 1l << 16; static volatile long *a;
    static void *work(void *x) {
        long from = (long)x * n / 2;
        for (int r = 0; r < 16; r++) for (long i = from; i < from + n / 2; i++) a[i] += i;
        return x;
    }
    int main(void) {
        a = calloc(n, sizeof *a);
        for (int step = 0; step < 2500; step++) {
            pthread_t t[2];
            for (long i = 0; i < 2; i++) pthread_create(t + i, 0, work, (void *)i);
            for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
        }
        return 0;
    }";

/// Both threads were one worker, for all of their time was within the delay that an end may have: "mixed".
#[test]
fn short_threads_at_once_have_blocks() {
    let place = Place::alone();
    let program = place.compile("gcc", "program", HALVES, &["-O1"]);
    let dataset = place.dataset();
    let options = ["record", "-o", dataset.to_str().unwrap(), "--rate", "5000", "--"];
    Run::numamma().args(options).arg(&program).run().success();
    let report = Report::of(&dataset);
    let object = report.object("a");
    assert_eq!(object.pattern.kind, "block", "{} samples: {:?}", object.samples, object.pattern);
    assert_eq!(object.pattern.block_bytes, 256 << 10, "{:?}", object.pattern);
}
