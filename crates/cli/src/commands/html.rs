//! `numamma html`

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use numamma_analyze::Analysis;
use numamma_process::signals;
use numamma_report::html;
use numamma_trace::Dataset;

use crate::arguments::Html;
use crate::commands::{placement, terminal};
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
    signals::survive_file_limit();
    let to_stdout = arguments.output.as_os_str() == "-";
    if !arguments.force && !to_stdout {
        check_replaced(&arguments.output)?;
    }
    let dataset = Dataset::open(&arguments.dir)?;
    let analysis = Analysis::new(&dataset)?;
    let shown = arguments.objects.min(analysis.findings().objects.len());
    let ids: Vec<usize> = (0..shown).collect();
    let samples: Vec<u64> = ids.iter().map(|&id| analysis.findings().objects[id].samples * ROWS_PER_SAMPLE).collect();
    let placement = placement::page(&analysis, &arguments)?;
    let findings = analysis.detailed(&ids, None, share(&samples, POINTS as u64) as usize)?;
    dataset.unread().iter().for_each(|file| eprintln!("numamma: {file}"));
    // Rendered first: a failure leaves no half a page.
    let mut page = Vec::new();
    html::render(&findings, &placement, &mut page)?;
    if to_stdout {
        return terminal::write(|out| Ok(out.write_all(&page)?));
    }
    let path = &arguments.output;
    write(path, &page).map_err(|error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Failure::new(format!("disk full: {} ({error}); free space there, or choose another -o", path.display()))
        }
        _ => Failure::new(format!("{}: {error}", path.display())),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a file under another name first: whoever opens it finds the old one or the new one whole. What is no file (a pipe, a
/// device) is written to as it is.
fn write(path: &Path, page: &[u8]) -> io::Result<()> {
    // The file that a link leads to.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let old = std::fs::metadata(&path).ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return File::options().write(true).open(&path)?.write_all(page);
    }
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = std::fs::write(&temporary, page)
        .and_then(|()| old.map_or(Ok(()), |old| std::fs::set_permissions(&temporary, old.permissions())))
        .and_then(|()| std::fs::rename(&temporary, &path));
    if written.is_err() {
        // It may not even be there.
        let _ = std::fs::remove_file(&temporary);
    }
    written
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
