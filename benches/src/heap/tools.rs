//! Tools that track allocations: what stands before a command to run it under each of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Bench, Failure};

/// Native, or a tool.
#[derive(Clone, Debug)]
pub struct Tool {
    pub name: &'static str,
    /// What stands before the command.
    pub prefix: Vec<OsString>,
    /// Microseconds where others take nanoseconds: it is given less to do.
    pub slow: bool,
}

const OURS: &str = "numamma record";

impl Tool {
    pub fn is_ours(&self) -> bool {
        self.name == OURS
    }

    /// `command` under the tool.
    pub fn before(&self, command: &[OsString]) -> Vec<OsString> {
        self.prefix.iter().chain(command).cloned().collect()
    }
}

/// Where our recordings go.
pub fn dataset(bench: &Bench) -> PathBuf {
    bench.scratch.path().join("heap.numamma")
}

/// Native first, then the tools that are there; and the names of those that are not.
pub fn installed(bench: &Bench) -> Result<(Vec<Tool>, Vec<&'static str>), Failure> {
    let mut tools = vec![Tool { name: "native", prefix: vec![], slow: false }];
    let mut missing = Vec::new();
    let ours: [OsString; 6] =
        [bench.numamma().into(), "record".into(), "--force".into(), "-o".into(), dataset(bench).into(), "--".into()];
    tools.push(Tool { name: OURS, prefix: ours.to_vec(), slow: false });

    let scratch = bench.scratch.path();
    match program("heaptrack") {
        Some(heaptrack) => {
            let prefix = vec![heaptrack.into(), "-o".into(), scratch.join("heaptrack").into()];
            tools.push(Tool { name: "heaptrack", prefix, slow: false });
        }
        None => missing.push("heaptrack"),
    }

    match library("libjemalloc.so.2") {
        Some(jemalloc) if has_profiler(&jemalloc)? => {
            let profile = scratch.join("jemalloc");
            let with = |sample: &str| {
                let conf = format!("MALLOC_CONF=prof:true,prof_final:true,{sample}prof_prefix:{}", profile.display());
                preload(&jemalloc, &[conf])
            };
            // Another allocator: its own time tells what of the rest is the profiler.
            tools.push(Tool { name: "jemalloc without its profiler", prefix: preload(&jemalloc, &[]), slow: false });
            tools.push(Tool { name: "jemalloc's profiler, one of 512 KiB", prefix: with(""), slow: false });
            tools.push(Tool {
                name: "jemalloc's profiler, every allocation",
                prefix: with("lg_prof_sample:0,"),
                slow: true,
            });
        }
        Some(_) => missing.push("jemalloc's profiler (this build has none)"),
        None => missing.push("jemalloc"),
    }

    // Not libtcmalloc_minimal, which has no profiler.
    match library("libtcmalloc.so.4") {
        Some(tcmalloc) => {
            // One profile, at the end.
            let settings = [
                format!("HEAPPROFILE={}", scratch.join("tcmalloc").display()),
                format!("HEAP_PROFILE_ALLOCATION_INTERVAL={}", 1_u64 << 50),
                format!("HEAP_PROFILE_INUSE_INTERVAL={}", 1_u64 << 50),
            ];
            tools.push(Tool { name: "tcmalloc without its profiler", prefix: preload(&tcmalloc, &[]), slow: false });
            tools.push(Tool {
                name: "tcmalloc's profiler, every allocation",
                prefix: preload(&tcmalloc, &settings),
                slow: true,
            });
        }
        None => missing.push("tcmalloc's profiler"),
    }
    Ok((tools, missing))
}

fn preload(library: &Path, settings: &[String]) -> Vec<OsString> {
    let mut prefix: Vec<OsString> = vec!["env".into(), format!("LD_PRELOAD={}", library.display()).into()];
    prefix.extend(settings.iter().map(OsString::from));
    prefix
}

/// True if this jemalloc was built with its profiler: else it complains of the option.
fn has_profiler(jemalloc: &Path) -> Result<bool, Failure> {
    let mut command = Command::new("true");
    let output = command.env("LD_PRELOAD", jemalloc).env("MALLOC_CONF", "prof:true,prof_final:false").output()?;
    Ok(output.stderr.is_empty())
}

/// A program of the user's path.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// A library of the system.
fn library(name: &str) -> Option<PathBuf> {
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    [multiarch.as_str(), "/usr/lib64", "/usr/lib"].map(|dir| Path::new(dir).join(name)).into_iter().find(|f| f.exists())
}
