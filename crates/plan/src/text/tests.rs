use super::*;

fn read(text: &str) -> Result<Plan, String> {
    Plan::parse(text, Path::new("plan.toml")).map_err(|error| error.to_string())
}

const WHOLE: &str = r#"
version = 1
mode = "strict"
program = "/opt/solver"
wrappers = ["my_alloc"]

[threads]
pin = ["0", "1", "4-5"]

[predicted]
machine = "amd-8x6"
now = 103
now-low = 101
now-high = 106.5
planned = 81.5
low = 78.0
high = 85.0
remote-now = 0.75
remote-planned = 0.0

[[object]]
name = "field"
heap = "main master_init.c:15"
min-size = "1 MiB"
instances = "2-5"
policy = "block"
nodes = [1, 0]
page-size = "2 MiB"

[[object]]
static = "grid"
module = "libsolver.so"
policy = "block-cyclic"
block = "64 KiB"
nodes = "with-cpus"
[object.phase.solve]
policy = "interleave"
[object.phase."write out"]
policy = "map"
pages = [[1, 3]]

[[object]]
heap = "liblzma.so.5.4.1+0x1597d"
policy = "map"
pages = [[0, 512], [1, 512]]
repeat = true

[[object]]
heap = "grid::Node::make(int, char)"
callers = ["build tree.cpp:12", "main"]
policy = "block"
gather = { instances = 1000 }

[[object]]
map = "*"
max-size = 4096
policy = "follow-thread"
thread = 3

[[object]]
label = "left half"
policy = "bind"
nodes = [1]

[[object]]
any = true
policy = "interleave"

[[phase]]
name = "solve"

[[phase]]
name = "write out"
function = "io::write"
module = "libio.so"
"#;

#[test]
fn a_plan_survives_a_round_trip() {
    let plan = read(WHOLE).expect("a whole plan");
    assert_eq!((plan.objects.len(), plan.phases.len()), (7, 2));
    assert_eq!(plan.objects[0].line, 21);
    assert_eq!(plan.objects[0].bytes, 1 << 20..=u64::MAX);
    assert_eq!(plan.objects[0].policy, Policy::Block(Nodes::List(vec![1, 0])));
    let function = Some("grid::Node::make(int, char)".to_owned());
    assert_eq!(plan.objects[3].target, Target::Heap(Some(Site::Source { function, line: None })));
    let mut again = read(&plan.to_text()).expect("what it wrote itself");
    again.pin_line = plan.pin_line;
    for (a, b) in again.objects.iter_mut().zip(&plan.objects) {
        a.line = b.line;
        a.phases.iter_mut().zip(&b.phases).for_each(|(a, b)| a.line = b.line);
    }
    again.phases.iter_mut().zip(&plan.phases).for_each(|(a, b)| a.line = b.line);
    assert_eq!(again, plan);
}

#[test]
fn what_is_predicted_must_be_possible() {
    let with = |line: &str| {
        let text = format!("version = 1\n[predicted]\nmachine = \"m\"\nremote-now = 0.5\n{line}\n");
        read(&text).map(|plan| plan.predicted)
    };
    assert!(with("remote-planned = 0.5").unwrap().is_some_and(|of| of.now_s.is_none()));
    assert!(with("remote-planned = 1.5").unwrap_err().contains("between 0 and 1"));
    assert!(with("remote-planned = 0.5\nlow = -1").unwrap_err().contains("0 or more"));
    assert!(with("").unwrap_err().contains("remote-planned"));
}

#[test]
fn all_that_is_wrong_is_said_with_its_line() {
    let text = "version = 2\nmode = \"hard\"\n[[object]]\nstatic = \"a\"\npolicy = \"blok\"\n\n[[object]]\nheap = \"f\"\n\
                policy = \"bind\"\n[[object]]\npolicy = \"interleave\"\nthread = 1\n";
    let message = read(text).expect_err("it is full of faults");
    for line in [
        "plan.toml:1: version 2: this program reads version 1",
        "plan.toml:2: mode \"hard\": \"best-effort\" or \"strict\"",
        "plan.toml:5: policy \"blok\": one of first-touch, ",
        "plan.toml:9: the policy bind needs nodes",
        "plan.toml:10: an object needs one of",
        "plan.toml:12: thread belongs to the policy follow-thread, this one is interleave",
    ] {
        assert!(message.contains(line), "{line} is not in\n{message}");
    }
}

#[test]
fn what_toml_does_not_take_has_its_line_too() {
    for (text, expected) in [
        ("version = 1\nmood = \"strict\"\n", "plan.toml:2: unknown field `mood`"),
        ("version = 1\n[[object]\n", "plan.toml:2: "),
        ("mode = \"strict\"\n", "plan.toml:1: no plan: a plan begins with version = 1"),
        ("int main(void) {\n", "plan.toml:1: no plan: a plan begins with version = 1"),
        ("version = 1\n[[object]]\nstatic = 3\npolicy = \"block\"\n", "plan.toml:3: "),
        (
            "version = 1\n[[object]]\nstatic = \"a\"\npolicy = \"block\"\nmin-size = \"1 MB\"\n",
            "plan.toml:5: not a size",
        ),
        (
            "version = 1\n[[object]]\nstatic = \"a\"\npolicy = \"bind\"\nnodes = [1, 1]\n",
            "plan.toml:5: nodes: a node twice",
        ),
        ("version = 1\n[threads]\npin = 3\n", "plan.toml:3: pin: \"compact\""),
        ("version = 1\n[threads]\npin = [\"x\"]\n", "plan.toml:3: \"x\" is no list of CPUs"),
    ] {
        let message = read(text).expect_err(text);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn places_in_the_code() {
    let source = |function: Option<&str>, line: Option<(&str, u32)>| {
        Some(Site::Source {
            function: function.map(String::from),
            line: line.map(|(file, line)| (file.to_owned(), line)),
        })
    };
    assert_eq!(parse_site("main a.c:15"), source(Some("main"), Some(("a.c", 15))));
    assert_eq!(parse_site("src/a.c:15"), source(None, Some(("src/a.c", 15))));
    assert_eq!(parse_site("ns::f(int, long)"), source(Some("ns::f(int, long)"), None));
    assert_eq!(parse_site("ns::f(int, long) a.cpp:3"), source(Some("ns::f(int, long)"), Some(("a.cpp", 3))));
    assert_eq!(parse_site("a+0x1f"), Some(Site::Address("a".into(), 0x1f)));
    // As reports write them.
    assert_eq!(parse_site("table at ns::f a.cpp:3"), source(Some("ns::f"), Some(("a.cpp", 3))));
    assert_eq!(parse_site("make a.so+0x1f"), Some(Site::Address("a.so".into(), 0x1f)));
    assert_eq!(parse_site(""), None);
}
