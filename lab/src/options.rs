//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use numamma_topology::CacheModel;

use crate::distance::Distance;
use crate::kernel::Version;

/// What is asked for.
#[derive(Debug, Parser)]
#[command(
    name = "lab/run",
    about = "Runs a command in a throw-away guest with several NUMA nodes (docs/LAB.md)",
    after_help = "The guest sees the files of this machine; what it writes is gone with it, but for --share.\n\
        Exit status: the command's; 124 after --timeout; 125 if the lab itself fails."
)]
pub struct Options {
    /// Nodes with CPUs
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub nodes: u32,
    /// CPUs in all, the same number on each node [default: one a node]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub cpus: Option<u32>,
    /// Further nodes with memory and no CPUs
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=16))]
    pub mem_nodes: u32,
    /// Memory of each node, in MiB or as 512M, 2G
    #[arg(long, default_value = "256", value_name = "SIZE", value_parser = mebibytes)]
    pub memory: u64,
    /// Distances: flat, ring, line, asym (a one-way ring) or rows as in 10,20/20,10
    #[arg(long, default_value = "flat", value_name = "WHAT")]
    pub dist: Distance,
    /// Tell the guest latencies and bandwidths too, as the distances have them
    #[arg(long)]
    pub hmat: bool,
    /// Linux of the guest; only 6.12 has weighted interleaving
    #[arg(long, default_value = "6.12", value_name = "VERSION")]
    pub kernel: Version,
    /// Let the kernel move pages by itself (AutoNUMA)
    #[arg(long)]
    pub numa_balancing: bool,
    /// A folder that the guest may write to, at the same path there ($LAB_SHARE)
    #[arg(long, value_name = "DIR")]
    pub share: Option<PathBuf>,
    /// How long the command may take
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// Boot, and keep nothing of it
    #[arg(long)]
    pub no_snapshot: bool,
    /// Make each access to another node take longer: NS at distance 20, twice that at 30
    #[arg(long, default_value_t = 0, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub delay: u64,
    /// Each node serves an access to its memory for NS, and meanwhile no other one
    #[arg(long, default_value_t = 0, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub queue: u64,
    /// With --matrix, --delay and --queue: only accesses that reach memory, by a model of caches: auto is those of this machine; else
    /// l1=32K:8,l2=1M:16,llc=32M:16[,line=64][,prefetch=next|stride|none], each a size and its ways; l1 and l2 may be left out
    #[arg(long, value_name = "SPEC", value_parser = caches)]
    pub caches: Option<CacheModel>,
    /// Count accesses by CPU and node, and write them to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub matrix: Option<PathBuf>,
    /// Fetch the kernel and take the snapshot; run nothing
    #[arg(long)]
    pub prepare: bool,
    /// Say what is done and how long it takes, and show the end of the guest's console
    #[arg(short, long)]
    pub verbose: bool,
    /// The command, as on this machine
    #[arg(last = true, value_name = "CMD", required_unless_present = "prepare")]
    pub command: Vec<OsString>,
}

impl Options {
    /// True if accesses are counted or delayed.
    pub fn needs_plugin(&self) -> bool {
        self.delay > 0 || self.queue > 0 || self.matrix.is_some()
    }
}

/// Reads the command line.
pub fn parse() -> Result<Options, clap::Error> {
    Options::try_parse().and_then(checked)
}

fn checked(options: Options) -> Result<Options, clap::Error> {
    if options.caches.is_some() && !options.needs_plugin() {
        let why = "--caches: nothing is counted or delayed; add --matrix, --delay or --queue";
        return Err(clap::Error::raw(clap::error::ErrorKind::MissingRequiredArgument, why));
    }
    Ok(options)
}

fn caches(text: &str) -> Result<CacheModel, String> {
    CacheModel::parse(text, || numamma_topology::Machine::read(Path::new("/")))
}

/// What is wrong with it, without clap's paragraphs.
pub fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines =
        text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage")).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join(" ");
    format!("{}; see lab/run --help", line.trim_start_matches("error: "))
}

fn mebibytes(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.char_indices().last() {
        Some((at, 'G' | 'g')) => (&text[..at], 1024),
        Some((at, 'M' | 'm')) => (&text[..at], 1),
        _ => (text, 1),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    // Below this the kernel does not boot; sections of memory have 128 MiB.
    size.filter(|size| (128..=1 << 20).contains(size) && size.is_multiple_of(128))
        .ok_or_else(|| "not a multiple of 128M, as 256M or 1G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once("lab/run").chain(line.split_whitespace())).and_then(checked)
    }

    #[test]
    fn a_command_follows_two_dashes() {
        let options = parsed("--nodes 8 --memory 1G -- ls -l").unwrap();
        assert_eq!((options.nodes, options.memory, options.command), (8, 1024, vec!["ls".into(), "-l".into()]));
        assert!(parsed("--nodes 8").is_err());
        assert!(parsed("--prepare").is_ok());
    }

    #[test]
    fn faults_take_one_line() {
        for line in [
            "--nodes 0 -- x",
            "--memory 100 -- x",
            "--kernel 5 -- x",
            "--dist round -- x",
            "--caches llc=1M:16 -- x",
            "--caches l1=1 --delay 1 -- x",
            "",
        ] {
            let text = in_one_line(&parsed(line).unwrap_err());
            assert!(!text.contains('\n') && text.ends_with("see lab/run --help"), "{text}");
        }
    }
}
