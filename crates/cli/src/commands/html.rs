//! `numamma html`

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

use numamma_analyze::Analysis;
use numamma_report::html;
use numamma_trace::Dataset;

use crate::arguments::Html;
use crate::failure::Failure;

/// Points over all objects: a file that opens at once.
const POINTS: usize = 100_000;

pub fn run(arguments: Html) -> Result<ExitCode, Failure> {
    let dataset = Dataset::open(&arguments.dir)?;
    let analysis = Analysis::new(&dataset)?;
    let shown = arguments.objects.min(analysis.findings().objects.len());
    let ids: Vec<usize> = (0..shown).collect();
    let findings = analysis.detailed(&ids, POINTS / shown.max(1))?;
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
