//! The story of the README: its commands run as they stand there, in a guest with four nodes, and print what it shows, but for numbers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use numamma_tests::{Outcome, Place, build, guest};

/// A command of the README and the lines that it is to print.
struct Step {
    command: Vec<String>,
    lines: Vec<String>,
}

/// What the section of that title shows of its commands.
fn steps(readme: &str, title: &str) -> Vec<Step> {
    let section = readme.split("\n## ").find(|section| section.starts_with(title)).expect("the section");
    let mut steps: Vec<Step> = Vec::new();
    for block in section.split("```text\n").skip(1) {
        for line in block.split("```").next().unwrap_or_default().lines() {
            match line.strip_prefix("$ ") {
                Some(command) => {
                    let command = command.split_whitespace().map(str::to_owned).collect();
                    steps.push(Step { command, lines: Vec::new() });
                }
                None if line != "\u{2026}" => steps.last_mut().expect("a command").lines.push(line.to_owned()),
                None => {}
            }
        }
    }
    steps
}

/// A text without what differs from run to run: numbers and whether they are stated, bars, and where lines end; and the titles of columns
/// that depend on it.
fn skeleton(text: &str) -> String {
    let blank = |c: char| c.is_ascii_digit() || ".,<>+-*/()±%·".contains(c) || ('\u{2580}'..='\u{259f}').contains(&c);
    let words = text.split_whitespace().map(|word| word.replace(blank, ""));
    let unit =
        |word: &String| !["", "G", "M", "k", "s", "ms", "cost", "only", "Access", "Pattern"].contains(&word.as_str());
    words.filter(unit).collect::<Vec<_>>().join(" ")
}

/// Words that may stand between those of a line: a column that has no room in the table stands below its row.
const MOST_BETWEEN: usize = 6;

/// True if the words of a line come in that order, with at most `MOST_BETWEEN` others between them.
fn has(all: &str, line: &str) -> bool {
    let (all, line): (Vec<&str>, Vec<&str>) = (all.split_whitespace().collect(), line.split_whitespace().collect());
    let length = line.len() + MOST_BETWEEN;
    let is_within = |start: usize| {
        let mut window = all[start..].iter().take(length);
        line.iter().all(|word| window.any(|of| of == word))
    };
    line.is_empty() || (0..all.len()).any(is_within)
}

#[test]
fn the_words_of_a_line_come_together_and_in_order() {
    let all = "first touch a b c d e f policy interleave end";
    assert!(has(all, "first touch policy"), "six words between");
    assert!(has(all, "touch b") && has(all, "end") && has(all, ""));
    assert!(!has(all, "first touch interleave"), "seven words between");
    assert!(!has(all, "policy touch") && !has(all, "touch nothing") && !has("", "end"));
}

/// One command of the story, as `lab/run` runs it where the README says that it is run so.
fn run(place: &Place, command: &[String]) -> Outcome {
    assert_eq!(command[0], "numamma");
    let lab = guest::lab().args(["--nodes", "4", "--share"]).arg(place.dir()).arg("--").arg(build::numamma());
    let lab = lab.env("OMP_NUM_THREADS", "4").env("OMP_PROC_BIND", "true").env("OMP_WAIT_POLICY", "passive");
    lab.args(&command[1..]).dir(place.dir()).run()
}

#[test]
fn its_story_is_true() {
    if !guest::applies("its_story_is_true") {
        return;
    }
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tree").join("README.md");
    let readme = fs::read_to_string(readme).expect("README.md");
    let place = Place::alone();
    let steps = steps(&readme, "The story");
    assert_eq!(steps.len(), 5);
    build::workloads();
    symlink(build::root().join("workloads"), place.path("workloads")).expect("a link");
    for step in &steps {
        let outcome = run(&place, &step.command).success();
        let printed: String = outcome.out() + &outcome.err();
        let all = skeleton(&printed);
        for line in &step.lines {
            assert!(has(&all, &skeleton(line)), "{:?} does not print {line:?}:\n{printed}", step.command);
        }
    }
}
