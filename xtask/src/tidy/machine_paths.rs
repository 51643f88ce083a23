//! Nothing names folders of the machine it was written on, binary fixtures included.

use super::Fault;
use crate::tree::Tree;

/// In halves: this file is one of those that are checked.
const FOLDERS: [&str; 2] = [concat!("/ro", "ot/"), concat!("/wo", "rk/")];

pub fn check(tree: &Tree) -> Vec<Fault> {
    tree.files().flat_map(|(path, bytes)| check_file(path, bytes)).collect()
}

fn check_file(path: &str, bytes: &[u8]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        for folder in FOLDERS.iter().filter(|folder| names(line, folder.as_bytes())) {
            faults.push(Fault::new(path, index + 1, format!("names {folder} of some machine")));
        }
    }
    faults
}

/// True if `folder` stands in `line` as the start of a path, not in the middle of one.
fn names(line: &[u8], folder: &[u8]) -> bool {
    line.windows(folder.len()).enumerate().any(|(at, window)| {
        let before = at.checked_sub(1).map(|at| line[at]);
        window == folder && !before.is_some_and(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_starts_of_paths_count() {
        let [root, work] = FOLDERS;
        let faults = |text: &str| check(&Tree::of(&[("a", text)])).len();
        assert_eq!(faults(&format!("x\nsee {root}x and '{work}y'\n")), 2);
        assert_eq!(faults(&format!("https://a.b/c{work}d\n/my{root}x\n")), 0);
    }
}
