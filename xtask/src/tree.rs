//! The files of the project: those that git tracks or would track.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

/// Contents by path from the root, `/` between folders.
#[derive(Default)]
pub struct Tree {
    files: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    /// Reads the tree below `root`; without git (an unpacked archive) all files but the built ones.
    pub fn load(root: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for path in git_files(root).map_or_else(|| walk(root), Ok)? {
            // Tracked but deleted, or a link: not the tree's business.
            if let Ok(bytes) = std::fs::read(root.join(&path)) {
                files.insert(path, bytes);
            }
        }
        Ok(Self { files })
    }

    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// Files that are text, that is, UTF-8 without zero bytes.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter_map(|(path, bytes)| Some((path, text(bytes)?)))
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        text(self.files.get(path)?)
    }

    /// True if `path` is a file or a folder of the tree.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        self.files.contains_key(path)
            || self.files.range(below.clone()..).next().is_some_and(|(p, _)| p.starts_with(&below))
    }

    /// A tree for a test.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), text.as_bytes().to_vec());
        Self { files: files.iter().map(own).collect() }
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

fn git_files(root: &Path) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths: Vec<String> = names.split_terminator('\0').map(str::to_owned).collect();
    (!paths.is_empty()).then_some(paths)
}

fn walk(root: &Path) -> io::Result<Vec<String>> {
    const BUILT: [&str; 5] = [".git", "target", "node_modules", "dist", "build"];
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if !entry.file_type()?.is_dir() {
                paths.push(path);
            } else if !BUILT.contains(&name.as_str()) {
                folders.push(path);
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_by_their_files() {
        let tree = Tree::of(&[("a/b.rs", ""), ("ab/c.rs", "")]);
        assert!(tree.has("a") && tree.has("a/") && tree.has("a/b.rs"));
        assert!(!tree.has("b.rs") && !tree.has("a/b"));
    }

    #[test]
    fn this_tree_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(Tree::load(&root).unwrap().has("xtask/src/tree.rs"));
        assert!(walk(&root).unwrap().contains(&"xtask/src/tree.rs".to_owned()));
    }
}
