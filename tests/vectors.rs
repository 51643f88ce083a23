//! The widest vectors, where the processor has them: gathers, scatters, masks and what they leave out.

use std::arch::is_x86_feature_detected;

use numamma_tests::report::{self, Report};
use numamma_tests::{Place, skip};

/// Elements of a vector are where other vectors say; registers tell the object all the same.
#[test]
fn gathers_and_masked_accesses_have_objects() {
    let test = "gathers_and_masked_accesses_have_objects";
    if !is_x86_feature_detected!("avx512f") || !is_x86_feature_detected!("avx512vl") {
        return skip::missing(test, "a processor with AVX-512");
    }
    let source = r"
        #include <immintrin.h>
        #include <stdlib.h>
        enum { N = 1 << 22, PICKS = 1 << 20, ROUNDS = 20 };
        static double *table, *sums; static int *picks; static double *kept;
        static void __attribute__((noinline)) round_of(long shift) {
            double *end = kept;
            for (long i = 0; i < PICKS; i += 8) {
                __m256i at = _mm256_and_si256(_mm256_add_epi32(_mm256_loadu_si256((void *)(picks + i)), _mm256_set1_epi32(shift)), _mm256_set1_epi32(N - 1));
                __m512d some = _mm512_i32gather_pd(at, table, 8);
                __mmask8 large = _mm512_cmp_pd_mask(some, _mm512_set1_pd(N / 2), _CMP_GT_OQ);
                __m512d sum = _mm512_maskz_loadu_pd(large, sums + i);
                _mm512_mask_storeu_pd(sums + i, large, _mm512_add_pd(sum, some));
                _mm512_mask_compressstoreu_pd(end, large, some);
                end += __builtin_popcount(large);
                if (i % 64 == 0) _mm512_mask_i32scatter_pd(table, large, at, some, 8);
            }
        }
        int main(void) {
            table = malloc(N * sizeof *table); sums = malloc(PICKS * sizeof *sums); kept = malloc((PICKS + 8) * sizeof *kept);
            picks = malloc(PICKS * sizeof *picks);
            unsigned x = 1;
            for (long i = 0; i < N; i++) table[i] = i;
            for (long i = 0; i < PICKS; i++) { sums[i] = 0; picks[i] = (x = x * 1664525u + 1013904223u) >> 10; }
            for (long k = 0; k < ROUNDS; k++) round_of(k * 977);
            return 0;
        }";
    let place = Place::alone();
    let program = place.compile("gcc", "program", source, &["-O2", "-mavx512f", "-mavx512vl", "-mpopcnt"]);
    place.record().arg(program).limit(120).run().success();
    let report = Report::of(&place.dataset());
    let seen = format!("{:?}\n{}", report.samples, report::text(&place.dataset()));
    assert!(report.samples.recorded >= 200, "{seen}");
    let unknown = report.samples.unattributed.get("address_unknown").copied().unwrap_or(0);
    assert!(unknown * 50 <= report.samples.recorded, "{unknown} addresses are not known: {seen}");
    // Where the elements come from takes most of the time.
    let named = |name: &'static str| report.objects.iter().filter(move |object| object.name.starts_with(name));
    assert!(named("table").map(|object| object.cost.share).sum::<f64>() > 0.4, "{seen}");
    for name in ["sums", "picks", "kept"] {
        assert!(named(name).any(|object| object.kind == "heap"), "{name}: {seen}");
    }
}
