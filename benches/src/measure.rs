//! Running a command and learning what it used.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Bench, Failure};

/// What a command used.
#[derive(Clone, Debug)]
pub struct Used {
    /// Seconds from start to end.
    pub wall: f64,
    /// CPU seconds of the command and of what it waited for.
    pub cpu: f64,
    /// Peak memory of its largest process, bytes.
    pub peak: f64,
    /// Standard output.
    pub stdout: String,
}

/// Runs `command` to a good end. With `ticks`, the kernel samples it at that period in nanoseconds, into nothing.
pub fn run(bench: &Bench, ticks: Option<u64>, command: &[OsString]) -> Result<Used, Failure> {
    let file = bench.scratch.path().join("meter");
    let mut meter = Command::new(bench.program("meter"));
    if let Some(period) = ticks {
        meter.arg("-t").arg(period.to_string());
    }
    meter.arg(&file).args(command).stdin(Stdio::null()).stderr(Stdio::inherit());
    meter.current_dir(bench.scratch.path()).env("OMP_NUM_THREADS", "2");
    let output = meter.output()?;
    if !output.status.success() {
        return Err(format!("`{}` ended with {}", shown(command), output.status).into());
    }
    let text = fs::read_to_string(&file)?;
    let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [wall, user, system, peak_kib, _] = numbers[..] else { return Err("the meter wrote something else".into()) };
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Used { wall, cpu: user + system, peak: peak_kib * 1024.0, stdout })
}

/// `numamma record -o DIR OPTIONS -- COMMAND`
pub fn recorded(bench: &Bench, dir: &Path, options: &[&str], command: &[OsString]) -> Result<Used, Failure> {
    let mut line: Vec<OsString> = vec![bench.numamma().into(), "record".into(), "--force".into(), "-o".into()];
    line.push(dir.into());
    line.extend(options.iter().map(OsString::from));
    line.push("--".into());
    line.extend(command.iter().cloned());
    run(bench, None, &line)
}

/// `meta.json` of a dataset.
pub fn meta(dir: &Path) -> Result<Value, Failure> {
    Ok(serde_json::from_str(&fs::read_to_string(dir.join("meta.json"))?)?)
}

/// Everything that a recording lost, by kind, without threads too short for a sample.
pub fn lost(meta: &Value) -> Vec<(String, u64)> {
    let kinds = meta["losses"].as_object().into_iter().flatten();
    let counts = kinds.map(|(kind, count)| (kind.clone(), count.as_u64().unwrap_or_default()));
    counts.filter(|(kind, _)| kind != "thread_without_sample").collect()
}

/// Bytes of all files in a folder.
pub fn bytes_in(dir: &Path) -> Result<u64, Failure> {
    fs::read_dir(dir)?.try_fold(0, |sum, entry| Ok(sum + entry?.metadata()?.len()))
}

/// A command line without the folders of this machine.
pub fn shown(command: &[OsString]) -> String {
    let name = |part: &OsString| match Path::new(part).file_name() {
        Some(name) if Path::new(part).is_absolute() => name.to_string_lossy().into_owned(),
        _ => part.to_string_lossy().into_owned(),
    };
    command.iter().map(name).collect::<Vec<_>>().join(" ")
}
