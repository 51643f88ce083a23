//! Reading a dataset.

use std::fmt;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::error::TraceError;
use crate::meta::Meta;
use crate::table::Table;

/// Version of the dataset's format. Raised when a documented column changes its meaning or goes away.
pub const FORMAT: u32 = 1;

/// Rows read at a time.
const BATCH_ROWS: usize = 1 << 16;

/// A dataset on disk.
#[derive(Debug)]
pub struct Dataset {
    dir: PathBuf,
    meta: Meta,
    unread: Mutex<Vec<Unread>>,
}

/// A file of a dataset that is missing or damaged. What could be read of it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
    /// What is not known without it.
    pub unknown: &'static str,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, why, unknown } = self;
        write!(f, "{}: {why}: {unknown} cannot be shown; the rest can", path.display())
    }
}

impl Dataset {
    /// Opens the dataset in `dir`.
    ///
    /// # Errors
    /// If there is none, if it is of a newer format, or if `meta.json` cannot be read.
    pub fn open(dir: &Path) -> Result<Self, TraceError> {
        let path = dir.join("meta.json");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(TraceError::NotADataset(dir.into()));
            }
            Err(error) => return Err(TraceError::io(path)(error)),
        };
        // The format first: a newer meta.json need not have today's fields.
        #[derive(serde::Deserialize)]
        struct Format {
            format: u32,
        }
        let Format { format } = serde_json::from_str(&text).map_err(|e| TraceError::damaged(&path)(e.to_string()))?;
        if format > FORMAT {
            return Err(TraceError::Newer { path: dir.into(), found: format, known: FORMAT });
        }
        let meta = serde_json::from_str(&text).map_err(|e| TraceError::damaged(&path)(e.to_string()))?;
        Ok(Self { dir: dir.into(), meta, unread: Mutex::default() })
    }

    /// Files that could not be read as a whole until now, in the order in which they were needed.
    pub fn unread(&self) -> Vec<Unread> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known besides the tables.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Directory of the dataset.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Calls `visit` with the rows of a table, some at a time, in file order. A table without a file is empty unless the
    /// recording is complete. A file that is missing or damaged is noted ([`Self::unread`]), and its other rows are visited.
    pub fn visit<T: Table>(&self, mut visit: impl FnMut(&mut Vec<T>)) -> Result<(), TraceError> {
        for path in self.files::<T>()? {
            if let Err(error) = read_file(&path, &mut visit) {
                self.note::<T>(path, error);
            }
        }
        Ok(())
    }

    /// The files of a table.
    fn files<T: Table>(&self) -> Result<Vec<PathBuf>, TraceError> {
        let whole = table_file::<T>(&self.dir);
        if self.meta.complete {
            return Ok(vec![whole]);
        }
        let parts = part_files::<T>(&self.dir)?;
        // Killed while it merged: the parts are the truth as long as they are there.
        Ok(if parts.is_empty() && whole.exists() { vec![whole] } else { parts })
    }

    fn note<T: Table>(&self, path: PathBuf, error: TraceError) {
        let why = match error {
            TraceError::Damaged { why, .. } => format!("damaged ({why})"),
            TraceError::Io { source, .. } if source.kind() == ErrorKind::NotFound => "missing".to_owned(),
            TraceError::Io { source, .. } => source.to_string(),
            other => other.to_string(),
        };
        let unread = Unread { path, why, unknown: unknown_without(T::NAME) };
        let mut all = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.iter().any(|of| of.path == unread.path) {
            all.push(unread);
        }
    }

    /// All rows of a table.
    pub fn read<T: Table>(&self) -> Result<Vec<T>, TraceError> {
        let mut rows = Vec::new();
        self.visit(|batch: &mut Vec<T>| rows.append(batch))?;
        Ok(rows)
    }
}

/// What a reader does not know without a table.
fn unknown_without(table: &str) -> &'static str {
    match table {
        "samples" => "costs and accesses",
        "objects" => "which objects there were",
        "sites" => "where objects were allocated",
        "frames" => "call stacks of allocations",
        "code" => "functions and lines",
        "modules" => "where files were mapped",
        "threads" => "threads and their samples",
        "processes" => "processes and their threads",
        "first_touch" => "who touched pages first",
        "page_nodes" => "on which nodes pages lay",
        "markers" => "phases",
        "bases" => "how certain numbers of accesses are",
        "trace" => "single accesses",
        _ => "what it held",
    }
}

pub(crate) fn table_file<T: Table>(dir: &Path) -> PathBuf {
    dir.join(format!("{}.parquet", T::NAME))
}

/// The parts of a table in the order in which they were written.
pub(crate) fn part_files<T: Table>(dir: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let prefix = format!("{}.part-", T::NAME);
    let mut parts = Vec::new();
    for entry in fs::read_dir(dir).map_err(TraceError::io(dir))? {
        let path = entry.map_err(TraceError::io(dir))?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if let Some(number) = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".parquet")) {
            parts.push((number.parse::<u32>().unwrap_or(u32::MAX), path));
        }
    }
    parts.sort();
    Ok(parts.into_iter().map(|(_, path)| path).collect())
}

/// Reads one file, some rows at a time.
pub(crate) fn read_file<T: Table>(path: &Path, visit: &mut dyn FnMut(&mut Vec<T>)) -> Result<(), TraceError> {
    let file = File::open(path).map_err(TraceError::io(path))?;
    let damaged = |why: String| TraceError::damaged(path)(why);
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(|builder| builder.with_batch_size(BATCH_ROWS).build())
        .map_err(|e| damaged(e.to_string()))?;
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|e| damaged(e.to_string()))?;
        T::read_batch(&batch, &mut rows).map_err(damaged)?;
        visit(&mut rows);
        rows.clear();
    }
    Ok(())
}
