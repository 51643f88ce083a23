//! The list of programs and their jobs. Each takes one to two seconds on the machine it was made on.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use super::{Job, Program, data};

/// All programs. The floors are a few points below what was measured.
pub const ALL: &[Program] = &[
    Program {
        name: "xz",
        needs: &["xz"],
        floor: 0.92,
        prepare: |dir| data::text(&dir.join("input"), 6 << 20),
        job: Job::Command { line: || words("xz -T2 -3 --block-size=1MiB -k -c input"), writes: &[] },
    },
    Program {
        name: "sort",
        needs: &["sort"],
        floor: 0.88,
        prepare: |dir| data::lines(&dir.join("input"), sort_megabytes() << 20),
        job: Job::Command { line: || words("sort --parallel=2 -S 25% -T . -o output input"), writes: &["output"] },
    },
    Program {
        name: "numpy",
        needs: &["numpy"],
        floor: 0.90,
        prepare: |dir| data::file(&dir.join("job.py"), NUMPY),
        job: Job::Command { line: || vec![python().unwrap_or("python3").into(), "job.py".into()], writes: &[] },
    },
    Program {
        name: "sqlite3",
        needs: &["sqlite3"],
        floor: 0.75,
        prepare: |dir| data::file(&dir.join("job.sql"), SQL),
        job: Job::Command { line: || words("sqlite3 -batch -init job.sql :memory: .quit"), writes: &[] },
    },
    Program {
        name: "redis",
        needs: &["redis-server", "redis-benchmark", "redis-cli"],
        floor: 0.45,
        prepare: |_| (),
        job: Job::Redis,
    },
    Program {
        name: "gcc",
        needs: &["gcc"],
        floor: 0.72,
        prepare: |dir| data::c_source(&dir.join("job.c"), 200),
        job: Job::Command { line: || words("gcc -O2 -c job.c -o job.o"), writes: &["job.o"] },
    },
    Program {
        name: "pigz",
        needs: &["pigz"],
        floor: 0.95,
        prepare: |dir| data::text(&dir.join("input"), 32 << 20),
        job: Job::Command { line: || words("pigz -p 2 -n -c input"), writes: &[] },
    },
    Program {
        name: "x264",
        needs: &["x264"],
        floor: 0.85,
        prepare: |dir| data::video(&dir.join("input.yuv"), 352, 288, 150),
        job: Job::Command {
            line: || words("x264 --quiet --threads 2 --fps 25 --input-res 352x288 -o output.264 input.yuv"),
            writes: &["output.264"],
        },
    },
    Program {
        name: "perl",
        needs: &["perl"],
        floor: 0.90,
        prepare: |dir| data::file(&dir.join("job.pl"), PERL),
        job: Job::Command { line: || words("perl job.pl"), writes: &[] },
    },
    Program {
        name: "java",
        needs: &["java", "javac"],
        floor: 0.70,
        prepare: |dir| {
            data::file(&dir.join("Job.java"), JAVA);
            let compiled = Command::new("javac").arg("Job.java").current_dir(dir).status();
            assert!(compiled.is_ok_and(|s| s.success()), "javac Job.java");
        },
        job: Job::Command { line: || words("java -Xms256m -Xmx256m -XX:+UseParallelGC -cp . Job"), writes: &[] },
    },
];

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

/// How much `sort` sorts: the whole gigabyte is for the bench.
fn sort_megabytes() -> usize {
    std::env::var("NUMAMMA_TEST_SORT_MB").ok().and_then(|s| s.parse().ok()).unwrap_or(64)
}

/// A Python that has numpy, if any: the first one on the path need not be Debian's.
pub fn python() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&'static str>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        ["python3", "/usr/bin/python3"]
            .into_iter()
            .find(|python| Command::new(python).args(["-c", "import numpy"]).output().is_ok_and(|o| o.status.success()))
    })
}

/// Folder of a prepared program.
pub fn prepared(program: &Program, parent: &Path) -> std::path::PathBuf {
    let dir = parent.join(program.name);
    std::fs::create_dir_all(&dir).expect("a folder for the job");
    (program.prepare)(&dir);
    dir
}

/// A matrix product, then a random gather.
const NUMPY: &str = "
import os
os.environ['OPENBLAS_NUM_THREADS'] = '2'
import numpy as np
a = (np.arange(1000 * 1000, dtype=np.float64) % 7).reshape(1000, 1000)
b = (np.arange(1000 * 1000, dtype=np.float64) % 5).reshape(1000, 1000)
for _ in range(6):
    c = a @ b
print(int(c.sum()))
table = np.arange(1 << 23, dtype=np.int64)
picks = (np.arange(1 << 22, dtype=np.int64) * 2654435761) % (1 << 23)
total = 0
for _ in range(4):
    total += int(table[picks].sum())
print(total)
";

/// Loading and querying.
const SQL: &str = "
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price INTEGER, shop INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
INSERT INTO item SELECT i, 'item' || (i * 7919 % 1000003), i * 31 % 997, i % 500 FROM n;
CREATE INDEX by_name ON item(name);
SELECT shop, count(*), sum(price) FROM item GROUP BY shop ORDER BY 3 DESC, 1 LIMIT 5;
SELECT count(*) FROM item a JOIN item b ON a.name = 'item' || (b.id * 7919 % 1000003) WHERE b.price < 400;
SELECT sum(length(name)) FROM item WHERE name LIKE '%99%';
";

/// Hashes, sorting and regular expressions.
const PERL: &str = "
my (%count, $x, $words);
$x = 12345;
for (1 .. 2400000) {
    $x = ($x * 1103515245 + 12345) & 0x7fffffff;
    $count{'key' . ($x % 60011)} += length($x);
}
my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
for my $key (@top) { $words++ if $key =~ /^key(\\d*)7\\1/; }
print scalar(@top), ' ', $top[0], ' ', $words, qq(\\n);
";

/// Two threads with maps and arrays; enough garbage for the collector to run.
const JAVA: &str = "
import java.util.*;
public class Job {
    static long work(int seed) {
        long sum = 0;
        for (int round = 0; round < 6; round++) {
            Map<Integer, long[]> map = new HashMap<>();
            for (int i = 0; i < 150000; i++) map.put(i * 31 + seed, new long[] { i, round });
            for (int i = 0; i < 150000; i++) sum += map.get(i * 31 + seed)[0];
            double[] field = new double[1 << 20];
            for (int pass = 0; pass < 20; pass++)
                for (int i = 1; i < field.length; i++) field[i] = field[i - 1] * 0.5 + i;
            sum += (long) field[field.length - 1];
        }
        return sum;
    }
    public static void main(String[] args) throws Exception {
        long[] sums = new long[2];
        Thread[] threads = new Thread[2];
        for (int t = 0; t < 2; t++) { int me = t; threads[t] = new Thread(() -> sums[me] = work(me)); threads[t].start(); }
        for (Thread t : threads) t.join();
        System.out.println(sums[0] + \" \" + sums[1]);
    }
}
";
