//! The folder of a new recording.
//!
//! ```text
//!   prepare --- the recording begins ---> keep      what was there before is deleted
//!      `------- it does not ------------> drop      what was there before is back
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::TraceError;
use crate::writer::DatasetWriter;

/// Where a recording that is being replaced lies until the new one has begun.
const REPLACED: &str = ".replaced";

/// A folder that is prepared for a recording. Unless it is kept, everything becomes what it was.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    /// It was not there before.
    made: bool,
    kept: bool,
}

impl Folder {
    /// Makes the folder, or takes one that is empty. `force` replaces a recording that is there, but nothing else.
    ///
    /// # Errors
    /// If something else is there, or the system refuses.
    pub fn prepare(dir: &Path, force: bool) -> Result<Self, TraceError> {
        let folder = |made| Self { dir: dir.into(), made, kept: false };
        // A link that leads nowhere is something, too.
        if fs::symlink_metadata(dir).is_err() {
            fs::create_dir_all(dir).map_err(TraceError::io(dir))?;
            return Ok(folder(true));
        }
        if !dir.is_dir() {
            return Err(if force { TraceError::NotOurs(dir.into()) } else { TraceError::Exists(dir.into()) });
        }
        // A recorder that was killed has left it behind.
        if !dir.join("meta.json").exists() && dir.join(REPLACED).exists() {
            put_back(dir).map_err(TraceError::io(dir))?;
        }
        let mut entries = fs::read_dir(dir).map_err(TraceError::io(dir))?;
        if entries.next().is_none() {
            return Ok(folder(false));
        }
        if !force {
            return Err(TraceError::Exists(dir.into()));
        }
        if !dir.join("meta.json").is_file() {
            return Err(TraceError::NotOurs(dir.into()));
        }
        let folder = folder(false);
        folder.put_aside().map_err(TraceError::io(dir))?;
        Ok(folder)
    }

    /// Writes the recording.
    pub fn writer(&self) -> DatasetWriter {
        DatasetWriter::of(&self.dir)
    }

    /// The recording has begun: what it replaces is deleted.
    pub fn keep(mut self) -> DatasetWriter {
        self.kept = true;
        // It takes room and does no harm.
        let _ = fs::remove_dir_all(self.dir.join(REPLACED));
        self.writer()
    }

    fn put_aside(&self) -> io::Result<()> {
        let aside = self.dir.join(REPLACED);
        // Of a recorder that was killed while it deleted it.
        if aside.exists() {
            fs::remove_dir_all(&aside)?;
        }
        fs::create_dir(&aside)?;
        for path in files(&self.dir)? {
            fs::rename(&path, aside.join(path.file_name().unwrap_or_default()))?;
        }
        Ok(())
    }

    fn undo(&self) -> io::Result<()> {
        for path in files(&self.dir)? {
            fs::remove_file(path)?;
        }
        if self.dir.join(REPLACED).exists() {
            return put_back(&self.dir);
        }
        if self.made { fs::remove_dir(&self.dir) } else { Ok(()) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept {
            // There is an error on its way already.
            let _ = self.undo();
        }
    }
}

fn put_back(dir: &Path) -> io::Result<()> {
    let aside = dir.join(REPLACED);
    // `meta.json`, which says that the others are there, comes last.
    let mut paths = files(&aside)?;
    paths.sort_by_key(|path| path.ends_with("meta.json"));
    for path in paths {
        fs::rename(&path, dir.join(path.file_name().unwrap_or_default()))?;
    }
    fs::remove_dir(aside)
}

/// The files of a recording.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let is_ours = |path: &PathBuf| path.extension().is_some_and(|e| e == "parquet" || e == "json" || e == "tmp");
    let paths: io::Result<Vec<PathBuf>> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect();
    Ok(paths?.into_iter().filter(is_ours).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and contents, but for what a recorder puts there.
    fn listed(dir: &Path) -> Vec<(String, String)> {
        let read = |path: PathBuf| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap_or_default())
        };
        let mut all: Vec<_> =
            fs::read_dir(dir).expect("a folder").map(|entry| read(entry.expect("one").path())).collect();
        all.sort();
        all
    }

    fn recording(dir: &Path) {
        fs::create_dir_all(dir).expect("a folder");
        for name in ["meta.json", "samples.parquet", "notes.txt"] {
            fs::write(dir.join(name), format!("old {name}")).expect("a file");
        }
    }

    #[test]
    fn a_recording_that_does_not_begin_leaves_everything_as_it_was() {
        let place = tempfile::tempdir().expect("a folder");
        let dir = place.path().join("old");
        recording(&dir);
        let before = listed(&dir);
        let folder = Folder::prepare(&dir, true).expect("ours");
        fs::write(dir.join("meta.json"), "new").expect("a file");
        fs::write(dir.join("objects.parquet"), "new").expect("a file");
        drop(folder);
        assert_eq!(listed(&dir), before);

        let (empty, absent) = (place.path().join("empty"), place.path().join("absent"));
        fs::create_dir(&empty).expect("a folder");
        for dir in [&empty, &absent] {
            let folder = Folder::prepare(dir, false).expect("nothing is lost");
            fs::write(dir.join("meta.json"), "new").expect("a file");
            drop(folder);
        }
        assert!(listed(&empty).is_empty() && !absent.exists());
    }

    #[test]
    fn one_that_begins_replaces_its_own_files_alone() {
        let place = tempfile::tempdir().expect("a folder");
        recording(place.path());
        fs::write(Folder::prepare(place.path(), true).expect("ours").keep().dir().join("meta.json"), "new")
            .expect("a file");
        let names = listed(place.path());
        assert_eq!(names, [("meta.json".into(), "new".into()), ("notes.txt".into(), "old notes.txt".into())]);
    }

    #[test]
    fn what_a_killed_recorder_had_put_aside_comes_back() {
        let place = tempfile::tempdir().expect("a folder");
        recording(place.path());
        let before = listed(place.path());
        std::mem::forget(Folder::prepare(place.path(), true).expect("ours"));
        assert!(matches!(Folder::prepare(place.path(), false), Err(TraceError::Exists(_))));
        assert_eq!(listed(place.path()), before);
    }

    #[test]
    fn nothing_else_is_replaced() {
        let place = tempfile::tempdir().expect("a folder");
        fs::write(place.path().join("notes.txt"), "mine").expect("a file");
        assert!(matches!(Folder::prepare(place.path(), false), Err(TraceError::Exists(_))));
        assert!(matches!(Folder::prepare(place.path(), true), Err(TraceError::NotOurs(_))));
        assert!(matches!(Folder::prepare(&place.path().join("notes.txt"), true), Err(TraceError::NotOurs(_))));
    }
}
