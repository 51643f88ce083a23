//! Where `numamma apply` runs threads, and the memory of the main one.

use std::path::Path;

use numamma_tests::{Outcome, Place, Run};

fn apply(options: &[&str], program: &Path) -> Outcome {
    Run::numamma().arg("apply").args(["--policy", "interleave"]).args(options).arg("--").arg(program).run()
}

/// A program that creates its threads anew for each parallel part: each generation runs where the first one ran, also when threads end by
/// pthread_exit, and in the child of a fork.
#[test]
fn threads_that_come_later_run_where_those_before_them_ran() {
    let place = Place::together();
    let source = r#"
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <sched.h>
        #include <stdio.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static pthread_barrier_t barrier;
        static void *thread(void *x) {
            cpu_set_t cpus;
            sched_getaffinity(0, sizeof cpus, &cpus);
            *(int *)x = CPU_COUNT(&cpus) == 1 ? CPU_ISSET(0, &cpus) ? 0 : 1 : 9;
            pthread_barrier_wait(&barrier);
            if (*(int *)x) pthread_exit(x);
            return x;
        }
        static void generations(void) {
            for (int n = 0; n < 3; n++) {
                pthread_t threads[3];
                int cpu[3];
                pthread_barrier_init(&barrier, 0, 3);
                for (int t = 0; t < 3; t++) pthread_create(&threads[t], 0, thread, &cpu[t]);
                for (int t = 0; t < 3; t++) pthread_join(threads[t], 0);
                printf("%d%d%d ", cpu[0], cpu[1], cpu[2]);
            }
            fflush(stdout);
        }
        int main(void) {
            generations();
            if (fork() == 0) { generations(); _exit(0); }
            wait(NULL);
            return 0;
        }"#;
    let program = place.compile("gcc", "generations", source, &["-pthread"]);
    let applied = apply(&["--pin", "0,1"], &program);
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return;
    }
    assert_eq!(applied.out().trim(), "101 101 101 101 101 101", "{applied}");
}

/// What the main thread uses before it is pinned lies as if it were. It stays free to count its CPUs; what it forks, and its threads,
/// have their memory where they run.
#[test]
fn the_main_thread_begins_where_it_will_be_pinned() {
    let place = Place::together();
    let source = r#"
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <sched.h>
        #include <stdio.h>
        #include <sys/syscall.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static void say(const char *who) {
            int mode = -1;
            unsigned long nodes[16] = {0};
            cpu_set_t cpus;
            sched_getaffinity(0, sizeof cpus, &cpus);
            if (syscall(SYS_get_mempolicy, &mode, nodes, 1024, 0, 0)) mode = 9;
            printf("%s %d %d\n", who, mode, CPU_COUNT(&cpus));
            fflush(stdout);
        }
        static void *thread(void *x) { say("thread"); return x; }
        int main(void) {
            pthread_t t;
            say("main");
            if (fork() == 0) { say("child"); _exit(0); }
            wait(NULL);
            pthread_create(&t, NULL, thread, NULL);
            pthread_join(t, NULL);
            say("later");
            return 0;
        }"#;
    let program = place.compile("gcc", "pinned", source, &["-pthread"]);
    let native = Run::new(&program).run().success().out();
    let Some(cpus) = native.lines().next().and_then(|line| line.strip_prefix("main 0 ")) else { return };
    let applied = apply(&["--pin", "compact"], &program);
    let expected = format!("main 1 {cpus}\nchild 0 {cpus}\nthread 0 1\nlater 0 1\n");
    assert_eq!(applied.out(), expected, "{applied}");
    // What whoever starts the program has asked for stays.
    let free = apply(&[], &program);
    assert_eq!(free.out(), native, "{free}");
}

/// A new thread asks where its stack lies, and the C library allocates for that; what was served from outside of the heap went to the
/// allocator's free when another thread opened a library at that moment, and the program was aborted.
#[test]
fn threads_begin_while_others_open_libraries() {
    let place = Place::together();
    let plug = place.compile("gcc", "plug.so", "int plug(void) { return 1; }", &["-shared", "-fPIC"]);
    let source = r#"
        #include <dlfcn.h>
        #include <pthread.h>
        #include <stdlib.h>
        static volatile int done;
        static void *short_lived(void *x) { free(malloc(100)); return x; }
        static void *opens(void *name) {
            while (!done) {
                void *plug = dlopen(name, RTLD_NOW);
                free(malloc(10));
                if (plug) dlclose(plug);
            }
            return name;
        }
        int main(int argc, char **argv) {
            pthread_t openers[2], threads[4];
            for (int i = 0; i < 2; i++) if (pthread_create(&openers[i], 0, opens, argv[argc - 1])) return 1;
            for (int n = 0; n < 3000; n++) {
                for (int i = 0; i < 4; i++) if (pthread_create(&threads[i], 0, short_lived, 0)) return 2;
                for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
            }
            done = 1;
            for (int i = 0; i < 2; i++) pthread_join(openers[i], 0);
            return 0;
        }"#;
    let program = place.compile("gcc", "storm", source, &["-pthread", "-ldl"]);
    let run = Run::numamma().args(["apply", "--policy", "interleave", "--"]).arg(&program).arg(&plug).run();
    assert_eq!(run.shell_status(), 0, "{run}");
}
