//! Children of threaded programs: whatever another thread was doing when the program forked, in the library that we have put there
//! or in the loader for our sake, the child can do all that it could do without us.

use std::fs;

use numamma_tests::{Place, Run};

/// One thread allocates, also just after it called dlopen, which is when a plan looks for libraries. The other forks, never in the
/// midst of a dlopen (that alone may hang a child). Children do in turn what needs the loader's locks, or those of the allocator.
/// It prints how many forks were made, and stops at the first child that does not end.
const PROGRAM: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <time.h>
    #include <unistd.h>
    static pthread_mutex_t in_loader = PTHREAD_MUTEX_INITIALIZER;
    static volatile int over;
    static void use(size_t bytes) { volatile char *p = malloc(bytes); p[0] = p[bytes - 1] = 1; free((void *)p); }
    static void *allocate(void *library) {
        for (unsigned turn = 0; !over; turn++) {
            pthread_mutex_lock(&in_loader);
            void *h = dlopen(turn % 4 ? "/no/such/library.so" : library, RTLD_NOW);
            if (h) dlclose(h);
            pthread_mutex_unlock(&in_loader);
            for (int i = 0; i < 250 && !over; i++) use(64);
        }
        return NULL;
    }
    static void *briefly(void *x) { use(2 << 20); return x; }
    static int child(int way, void *opened, char **argv) {
        pthread_t t;
        void *h;
        switch (way) {
        case 0: return dlclose(opened);
        case 1: return !(h = dlopen(argv[1], RTLD_NOW)) || dlclose(h);
        case 2: for (int i = 0; i < 400; i++) use(i * 100 + 1); use(2 << 20); return 0;
        case 3: return pthread_create(&t, NULL, briefly, NULL) || pthread_join(t, NULL);
        case 4: use(64); execl(argv[0], argv[0], "child", NULL); return 1;
        default: return fork() == 0 ? dlclose(opened) : waitpid(-1, NULL, 0) < 0;
        }
    }
    int main(int argc, char **argv) {
        if (!strcmp(argv[1], "child")) { use(2 << 20); return 0; }
        int forks = atoi(argv[2]), done = 0;
        void *opened = dlopen(argv[1], RTLD_NOW);
        pthread_t t;
        if (!opened || pthread_create(&t, NULL, allocate, argv[3])) return 9;
        for (; done < forks; done++) {
            pthread_mutex_lock(&in_loader);
            pid_t pid = fork();
            if (pid == 0) _exit(child(done % 6, opened, argv));
            pthread_mutex_unlock(&in_loader);
            int status = 0;
            time_t begun = time(NULL);
            while (waitpid(pid, &status, WNOHANG) != pid && time(NULL) - begun < 60) usleep(200);
            if (!WIFEXITED(status) || WEXITSTATUS(status) || kill(pid, 0) == 0) { kill(pid, SIGKILL); break; }
        }
        printf("%d of %d, way %d\n", done, forks, done % 6);
        over = 1;
        pthread_join(t, NULL);
        return done < forks;
    }"#;

const LIBRARY: &str = "#include <stdlib.h>\nchar table[1 << 20];\nvoid *make(void) { return malloc(100000); }\n";

/// The program's path and its arguments.
fn command(place: &Place, forks: u32) -> Vec<String> {
    let path = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    let held = path(place.compile("gcc", "held.so", LIBRARY, &["-shared", "-fPIC"]));
    let other = path(place.compile("gcc", "other.so", LIBRARY, &["-shared", "-fPIC"]));
    let program = path(place.compile("gcc", "forks", PROGRAM, &["-O1", "-pthread", "-ldl"]));
    vec![program, held, forks.to_string(), other]
}

#[test]
fn children_live_under_a_plan() {
    let place = Place::together();
    let command = command(&place, 600);
    let plan = format!(
        "version = 1\n[[object]]\nstatic = \"table\"\nmodule = \"{}\"\npolicy = \"interleave\"\n\
         [[object]]\nheap = \"make\"\nmodule = \"{}\"\npolicy = \"interleave\"\n\
         [[object]]\nheap = \"*\"\nmin-size = \"1 MiB\"\npolicy = \"interleave\"\n",
        command[1], command[3]
    );
    let file = place.path("plan.toml");
    fs::write(&file, plan).expect("write the plan");
    Run::numamma().arg("apply").arg(&file).arg("--").args(&command).limit(600).run().success();
}

#[test]
fn children_live_in_a_recording() {
    let place = Place::together();
    let command = command(&place, 300);
    let outcome = Run::record(&place.dataset()).args(&command).limit(600).run();
    assert_eq!(outcome.shell_status(), 0, "{outcome}");
}
