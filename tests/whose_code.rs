//! Whose code does what: NumaMMA's own is not the program's, and what `memset` touches is the caller's.

use numamma_tests::report::{FirstTouch, Object, Report};
use numamma_tests::{Place, Run};

/// Blocks of many sizes come and go, at several call sites.
const STRESS: &str = r#"
    #include <pthread.h>
    #include <stdlib.h>
    #include <string.h>
    static void *work(void *p) {
        void *blocks[256] = {0};
        unsigned long state = (unsigned long)p * 2654435761u + 88172645463325252ul;
        for (int i = 0; i < 1500000; i++) {
            state ^= state << 13; state ^= state >> 7; state ^= state << 17;
            unsigned at = state % 256, bytes = 16 + state / 256 % 4000;
            switch (state >> 60 & 3) {
            case 0: free(blocks[at]); blocks[at] = malloc(bytes); break;
            case 1: free(blocks[at]); blocks[at] = calloc(1, bytes); break;
            case 2: blocks[at] = realloc(blocks[at], bytes); break;
            default: free(blocks[at]); blocks[at] = 0;
            }
            if (blocks[at]) *(volatile char *)blocks[at] = i;
        }
        for (int i = 0; i < 256; i++) free(blocks[i]);
        return 0;
    }
    int main(void) {
        pthread_t t[2];
        for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, work, (void *)(i + 1));
        for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
        return 0;
    }"#;

#[test]
fn the_recorders_own_code_is_in_no_share() {
    let place = Place::alone();
    let program = place.compile("gcc", "program", STRESS, &["-O2"]);
    place.record().arg(&program).run().success();
    let report = Report::of(&place.dataset());
    let own: Vec<_> = report.lines.iter().filter(|of| of.module.starts_with("libnumamma")).collect();
    assert!(own.is_empty(), "{own:?}");
    let recorder = report.samples.unattributed.get("recorder").copied().unwrap_or_default();
    assert!(recorder > 0 && report.samples.without_access >= recorder, "{:?}", report.samples);
    // What is left has the whole of the cost.
    let shares: f64 = report.objects.iter().map(|of| of.cost.share).sum();
    let lines: f64 = report.lines.iter().map(|of| of.cost.share).sum();
    assert!(shares <= 1.0 + 1e-6 && (0.9..=1.0 + 1e-6).contains(&lines), "{shares} {lines}");
    let touches = report.objects.iter().flat_map(|of| &of.first_touch);
    let named: Vec<_> = touches.filter(|of| of.function.starts_with("nmm_") || of.file.contains("inject/")).collect();
    assert!(named.is_empty(), "{named:?}");
    for by in ["object", "line", "thread", "site"] {
        let text = Run::report(&place.dataset()).args(["--by", by]).run().success().out();
        assert!(!text.contains("libnumamma") && !text.contains("nmm_"), "{text}");
    }
}

/// First touches of an object by line of the program, most pages first.
fn touches(object: &Object) -> Vec<(&str, u32, &str, u64)> {
    object.first_touch.iter().map(|of| (of.function.as_str(), of.line, of.via.as_str(), of.pages)).collect()
}

#[test]
fn what_string_functions_touch_is_their_callers() {
    let place = Place::alone();
    let source = r#"
        #include <stdlib.h>
        #include <string.h>
        #include <stdio.h>
        #define N (16 << 20)
        static char source[N], set[N], copied[N], moved[N], text[N], filled[N];
        static void fill(char *at) { memset(at, 1, N); }
        static void inlined(char *at, long n) { __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(2) : "memory"); }
        int main(int argc, char **argv) {
            fill(set);
            memset(source, 'x', N - 1);
            memcpy(copied, source, N);
            memmove(moved, source, N);
            strcpy(text, source);
            inlined(filled, N);
            long sum = 0;
            for (int r = 0; r < 20; r++) for (long i = 0; i < N; i += 64)
                sum += ((volatile char *)set)[i] + ((volatile char *)copied)[i] + ((volatile char *)moved)[i]
                    + ((volatile char *)text)[i] + ((volatile char *)source)[i] + ((volatile char *)filled)[i];
            return sum == 1;
        }"#;
    let program = place.compile("gcc", "program", source, &["-O1"]);
    place.record().arg(&program).run().success();
    let report = Report::of(&place.dataset());
    let calls = [
        ("set", "fill", 7),
        ("source", "main", 11),
        ("copied", "main", 12),
        ("moved", "main", 13),
        ("text", "main", 14),
    ];
    for (name, function, line) in calls {
        let object = report.objects.iter().find(|of| of.name == name).expect(name);
        let touches = touches(object);
        let pages: u64 = touches.iter().map(|of| of.3).sum();
        let &(by, at, via, most) = touches.first().expect("a first touch");
        assert!((by, at) == (function, line) && !via.is_empty(), "{name}: {touches:?}");
        assert!(most as f64 > 0.99 * pages as f64, "{name}: {touches:?}");
    }
    let filled = report.objects.iter().find(|of| of.name == "filled").expect("filled");
    assert!(touches(filled).iter().all(|of| (of.0, of.2) == ("inlined", "")), "{:?}", touches(filled));
    let text = Run::report(&place.dataset()).args(["--object", "set"]).run().success().out();
    assert!(text.contains("program.c:7 (memset)"), "{text}");
}

/// Lines of the C library's assembly code say nothing.
#[test]
fn what_realloc_copies_is_one_row() {
    let place = Place::alone();
    let source = r#"
        #include <stdlib.h>
        static volatile char *block;
        int main(void) {
            for (int i = 0; i < 1000; i++) {
                block = malloc(60000);
                for (int k = 0; k < 60000; k += 64) block[k] = 1;
                malloc(100);
                block = realloc((void *)block, 100000);
            }
            for (int r = 0; r < 20000; r++) for (int k = 0; k < 60000; k += 64) block[k]++;
            return 0;
        }"#;
    let program = place.compile("gcc", "program", source, &["-O1"]);
    place.record().arg(&program).run().success();
    let report = Report::of(&place.dataset());
    let copies = |of: &&FirstTouch| of.file.ends_with(".S") || of.function.starts_with("__mem");
    let of_libc: Vec<_> = report.objects[0].first_touch.iter().filter(copies).collect();
    assert!(of_libc.is_empty(), "{:?}", report.objects[0].first_touch);
}

/// The C++ library's templates are code of the program's own file, at -O1 functions that it calls, at -O2 inlined.
#[test]
fn what_templates_of_the_library_touch_is_their_callers() {
    let place = Place::together();
    let source = "#include <vector>\n\
        #include <cstdio>\n\
        int main() {\n\
        std::vector<float> field;\n\
        field.assign(1500000, 1.f);\n\
        float sum = 0;\n\
        for (int n = 0; n < 40; n++) for (float x : field) sum += x;\n\
        printf(\"%g\\n\", sum);\n\
        }\n";
    for level in ["-O1", "-O2"] {
        let program = place.compile("g++", "program", source, &["-g", level]);
        let recorded = Run::numamma().args(["record", "--force", "-o"]).arg(place.dataset()).arg("--").arg(&program);
        recorded.run().success();
        let report = Report::of(&place.dataset());
        let field = report.objects.iter().max_by_key(|of| of.bytes).expect("an object");
        let (function, line, _, pages) = touches(field)[0];
        assert!(function == "main" && line == 5 && pages > 1400, "{level}: {:?}", touches(field));
    }
}
