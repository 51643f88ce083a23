//! `numamma html`

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use numamma_analyze::Analysis;
use numamma_report::html;
use numamma_trace::Dataset;

use crate::arguments::Html;
use crate::failure::Failure;

/// Points over all objects: a file that opens at once.
const POINTS: usize = 100_000;

/// Points that a sample gives, at most as a rule: the access that stalled and the others of its block.
const ROWS_PER_SAMPLE: u64 = 4;

/// The most that each may take so that all together take no more than `total`: those that need less leave it to the others.
fn share(needs: &[u64], total: u64) -> u64 {
    let mut sorted = needs.to_vec();
    sorted.sort_unstable();
    let mut left = total;
    for (n, &need) in sorted.iter().enumerate() {
        let each = left / (sorted.len() - n) as u64;
        if need > each {
            return each;
        }
        left -= need;
    }
    total
}

/// Refuses to replace a file that is none of ours. Devices and pipes hold nothing that could be lost.
fn check_replaced(path: &Path) -> Result<(), Failure> {
    if !std::fs::metadata(path).is_ok_and(|file| file.is_file()) {
        return Ok(());
    }
    let failed = |error| Failure::new(format!("{}: {error}", path.display()));
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(html::HEAD as u64).read_to_end(&mut head)).map_err(failed)?;
    if head.is_empty() || html::is_page(&head) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{}: exists and is not a page of numamma html; choose another -o or add --force to replace it",
        path.display()
    )))
}

pub fn run(arguments: Html) -> Result<ExitCode, Failure> {
    if !arguments.force {
        check_replaced(&arguments.output)?;
    }
    let dataset = Dataset::open(&arguments.dir)?;
    let analysis = Analysis::new(&dataset)?;
    let shown = arguments.objects.min(analysis.findings().objects.len());
    let ids: Vec<usize> = (0..shown).collect();
    let samples: Vec<u64> = ids.iter().map(|&id| analysis.findings().objects[id].samples * ROWS_PER_SAMPLE).collect();
    let findings = analysis.detailed(&ids, share(&samples, POINTS as u64) as usize)?;
    // Rendered first: a failure leaves no half a file.
    let mut page = Vec::new();
    html::render(&findings, &mut page)?;
    let path = &arguments.output;
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&page)?;
        file.flush()
    };
    write().map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn small_objects_leave_their_points_to_large_ones() {
        assert_eq!(share(&[10, 1000, 20], 300), 270);
        assert_eq!(share(&[10, 20], 300), 300);
        assert_eq!(share(&[], 300), 300);
    }
}
