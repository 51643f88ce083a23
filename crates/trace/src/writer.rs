//! Writing a dataset while the program runs.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::dataset::{part_files, read_file, table_file};
use crate::error::TraceError;
use crate::folder::Folder;
use crate::meta::Meta;
use crate::table::Table;

/// Rows of one row group: what a reader holds at a time.
const ROW_GROUP_ROWS: usize = 1 << 18;

/// Rows of a table that are in memory at a time while it is written.
const BATCH_ROWS: usize = 1 << 13;

/// A dataset that is being written.
///
/// Rows come in parts ([`Self::append`]): each part is a closed file, so that nothing older than the last part is lost if
/// the recorder dies. [`Self::merge`] makes one file of them.
#[derive(Clone, Debug)]
pub struct DatasetWriter {
    dir: PathBuf,
}

impl DatasetWriter {
    /// Creates the directory, with the rules of [`Folder::prepare`]. What it replaces is gone.
    pub fn create(dir: &Path, force: bool) -> Result<Self, TraceError> {
        Ok(Folder::prepare(dir, force)?.keep())
    }

    /// Writes to a directory that is there.
    pub(crate) fn of(dir: &Path) -> Self {
        Self { dir: dir.into() }
    }

    /// Directory of the dataset.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes or replaces `meta.json`; a reader sees the old one or the new one.
    pub fn write_meta(&self, meta: &Meta) -> Result<(), TraceError> {
        let path = self.dir.join("meta.json");
        let temporary = self.dir.join("meta.json.tmp");
        let text = serde_json::to_string_pretty(meta).expect("plain data always serialises");
        match fs::write(&temporary, text.clone() + "\n").map_err(TraceError::io(&temporary)) {
            Err(TraceError::DiskFull { .. }) => self.overwrite_meta(text).map_err(TraceError::io(&path)),
            written => written.and_then(|()| fs::rename(&temporary, &path).map_err(TraceError::io(&path))),
        }
    }

    /// Without room for a new file the old one is written over, as far as it has blocks of its own.
    fn overwrite_meta(&self, mut text: String) -> io::Result<()> {
        const BLOCK: u64 = 4096;
        let _ = fs::remove_file(self.dir.join("meta.json.tmp"));
        let mut file = File::options().write(true).open(self.dir.join("meta.json"))?;
        let length = file.metadata()?.len();
        if text.len() as u64 >= length.next_multiple_of(BLOCK) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // A shorter text leaves nothing of the longer one behind.
        text.extend(std::iter::repeat_n(' ', (length as usize).saturating_sub(text.len() + 1)));
        text.push('\n');
        file.write_all(text.as_bytes())
    }

    /// Writes `rows` as part number `part` of their table.
    pub fn append<T: Table>(&self, rows: &[T], part: u32) -> Result<(), TraceError> {
        self.write_file::<T>(&self.dir.join(format!("{}.part-{part:04}.parquet", T::NAME)), |writer| {
            Ok(writer.write(&T::to_batch(rows))?)
        })
    }

    /// Writes or replaces the part of rows that are not final yet: a reader of an unfinished recording takes it as the last
    /// part.
    pub fn write_live<T: Table>(&self, rows: &[T]) -> Result<(), TraceError> {
        self.write_file::<T>(&self.live::<T>(), |writer| Ok(writer.write(&T::to_batch(rows))?))
    }

    /// Deletes that part.
    pub fn remove_live<T: Table>(&self) -> Result<(), TraceError> {
        let path = self.live::<T>();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(TraceError::io(path)(error)),
            _ => Ok(()),
        }
    }

    fn live<T: Table>(&self) -> PathBuf {
        self.dir.join(format!("{}.part-live.parquet", T::NAME))
    }

    /// Writes a whole table.
    pub fn write_table<T: Table>(&self, rows: &[T]) -> Result<(), TraceError> {
        self.write_rows(rows.iter().cloned())
    }

    /// Writes a whole table of rows that are made while it is written: few of them are in memory at a time.
    pub fn write_rows<T: Table>(&self, rows: impl IntoIterator<Item = T>) -> Result<(), TraceError> {
        self.write_file::<T>(&table_file::<T>(&self.dir), |writer| {
            let mut rows = rows.into_iter();
            loop {
                let batch: Vec<T> = rows.by_ref().take(BATCH_ROWS).collect();
                writer.write(&T::to_batch(&batch))?;
                if batch.len() < BATCH_ROWS {
                    return Ok(());
                }
            }
        })
    }

    /// Makes one file of the parts of a table, in their order; `prepare` may reorder the rows of a part. The parts stay
    /// until [`Self::remove_parts`]: only a `meta.json` that says "complete" makes readers prefer the merged file.
    ///
    /// # Errors
    /// [`TraceError::Stopped`] if `stop` says so between two parts: then nothing has changed.
    pub fn merge<T: Table>(
        &self,
        stop: impl Fn() -> bool,
        mut prepare: impl FnMut(&mut Vec<T>),
    ) -> Result<(), TraceError> {
        self.merge_as::<T, T>(stop, |rows| {
            prepare(rows);
            std::mem::take(rows)
        })
    }

    /// The same where parts have rows of a type of their own: `settle` makes the table's rows of some of theirs.
    ///
    /// # Errors
    /// Those of [`Self::merge`].
    pub fn merge_as<P: Table, T: Table>(
        &self,
        stop: impl Fn() -> bool,
        mut settle: impl FnMut(&mut Vec<P>) -> Vec<T>,
    ) -> Result<(), TraceError> {
        let parts = part_files::<P>(&self.dir)?;
        let merged = self.write_file::<T>(&table_file::<T>(&self.dir), |writer| {
            let mut rows: Vec<P> = Vec::new();
            for part in &parts {
                if stop() {
                    return Err("stopped".into());
                }
                read_file(part, &mut |batch: &mut Vec<P>| rows.append(batch))?;
                if rows.len() >= ROW_GROUP_ROWS {
                    writer.write(&T::to_batch(&settle(&mut rows)))?;
                    rows.clear();
                }
            }
            Ok(writer.write(&T::to_batch(&settle(&mut rows)))?)
        });
        merged.map_err(|error| if stop() { TraceError::Stopped } else { error })
    }

    /// Deletes the parts of a table that has been merged.
    pub fn remove_parts<T: Table>(&self) -> Result<(), TraceError> {
        part_files::<T>(&self.dir)?.iter().try_for_each(|part| fs::remove_file(part).map_err(TraceError::io(part)))
    }

    /// Writes through a temporary name: a file that exists under its own name is whole.
    fn write_file<T: Table>(
        &self,
        path: &Path,
        fill: impl FnOnce(&mut ArrowWriter<&File>) -> Result<(), Box<dyn Error>>,
    ) -> Result<(), TraceError> {
        let temporary = path.with_extension("parquet.tmp");
        let file = File::create(&temporary).map_err(TraceError::io(&temporary))?;
        let written = ArrowWriter::try_new(&file, T::schema(), Some(properties::<T>()))
            .map_err(Box::from)
            .and_then(|mut writer| fill(&mut writer).and_then(|()| Ok(writer.close().map(drop)?)));
        if let Err(error) = written {
            let _ = fs::remove_file(&temporary);
            return Err(TraceError::writing(path, error.as_ref()));
        }
        fs::rename(&temporary, path).map_err(TraceError::io(path))
    }
}

/// Times and addresses come sorted or in runs, so their differences are small: delta coding beats a dictionary.
fn properties<T: Table>() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).expect("3 is a level of zstd")))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
    for column in T::COLUMNS.iter().filter(|c| matches!(c.name, "time" | "addr" | "page" | "start_time")) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}
