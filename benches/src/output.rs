//! The table, and the folder of a run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::machine;

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Line {
    /// What was measured.
    pub what: String,
    /// The budget, if there is one.
    pub asked: Option<String>,
    /// What came out.
    pub reached: String,
    /// True if that is within the budget.
    pub met: Option<bool>,
}

impl Line {
    /// A number that a budget is set for.
    pub fn budget(what: impl Into<String>, asked: &str, reached: String, met: bool) -> Self {
        Self { what: what.into(), asked: Some(asked.into()), reached, met: Some(met) }
    }

    /// A number that explains another one.
    pub fn beside(what: impl Into<String>, reached: String) -> Self {
        Self { what: what.into(), asked: None, reached, met: None }
    }
}

/// Everything that was measured.
#[derive(Debug)]
pub struct Results {
    quick: bool,
    machine: String,
    date: String,
    lines: Vec<Line>,
    benches: Map<String, Value>,
}

impl Results {
    pub fn new(quick: bool) -> Self {
        let date = output_of("date", &["-u", "+%Y-%m-%d"]);
        Self { quick, machine: machine::describe(), date, lines: Vec::new(), benches: Map::new() }
    }

    pub fn add(&mut self, name: &str, load: f64, lines: Vec<Line>, raw: Value) {
        let table: Vec<Value> = lines
            .iter()
            .map(|l| json!({ "what": l.what, "asked": l.asked, "reached": l.reached, "met": l.met }))
            .collect();
        self.benches.insert(name.into(), json!({ "load_before": load, "table": table, "raw": raw }));
        self.lines.extend(lines);
    }

    /// In Markdown.
    pub fn table(&self) -> String {
        let mut text = "| what | asked | reached | |\n|---|---|---|---|\n".to_owned();
        for line in &self.lines {
            let verdict = match line.met {
                Some(true) => "met",
                Some(false) => "**missed**",
                None => "",
            };
            text += &format!(
                "| {} | {} | {} | {verdict} |\n",
                line.what,
                line.asked.as_deref().unwrap_or(""),
                line.reached
            );
        }
        text
    }

    /// Writes the run's folder, `benches/runs/DATE-MACHINE` unless told otherwise.
    pub fn write(&self, out: Option<&Path>) -> io::Result<PathBuf> {
        let dir = out.map_or_else(|| Path::new("benches/runs").join(self.name()), Path::to_owned);
        fs::create_dir_all(&dir)?;
        // Without names of its own, so that runs can be compared: the revision says which code it was.
        let dirty = if output_of("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty() {
            ""
        } else {
            ", changed"
        };
        let revision = output_of("git", &["rev-parse", "--short", "HEAD"]) + dirty;
        let results = json!({
            "date": self.date, "machine": self.machine, "revision": revision, "quick": self.quick, "benches": self.benches,
        });
        fs::write(dir.join("results.json"), serde_json::to_string_pretty(&results)? + "\n")?;
        let names: Vec<&str> = self.benches.keys().map(String::as_str).collect();
        let quick = if self.quick { " --quick" } else { "" };
        fs::write(
            dir.join("table.md"),
            format!(
                "{}, {}, revision {revision}: `benches/run{quick} {}`\n\n{}",
                self.date,
                self.machine,
                names.join(" "),
                self.table()
            ),
        )?;
        let details = machine::details().join("\n");
        fs::write(dir.join("machine.txt"), format!("{}\n{details}\n", self.machine))?;
        Ok(dir)
    }

    /// `2026-01-31-2-core-vm-amd-epyc-zen-5-linux-6-18`
    fn name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
        let words: String = self.machine.chars().map(plain).collect();
        let words: Vec<&str> = words.split_whitespace().collect();
        let quick = if self.quick { "-quick" } else { "" };
        format!("{}-{}{quick}", self.date, words.join("-"))
    }
}

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
