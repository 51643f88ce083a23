//! The kernel's lists of numbers, `0-3,8,10-12`.

/// More CPUs than any machine has; keeps `0-4294967295` from filling the memory.
const MOST: usize = 1 << 16;

/// Reads a list; `None` if it is not one. An empty text is the empty list.
pub fn parse(text: &str) -> Option<Vec<u32>> {
    let text = text.trim();
    let mut ids = Vec::new();
    if text.is_empty() {
        return Some(ids);
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().ok()?;
        let last: u32 = last.trim().parse().ok()?;
        let length = last.checked_sub(first)? as usize;
        if ids.len() + length >= MOST {
            return None;
        }
        ids.extend(first..=last);
    }
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

/// Writes a list in its shortest form; `ids` ascend.
pub fn format(ids: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for run in ids.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        parts.push(match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => continue,
        });
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_survive_a_round_trip() {
        for text in ["", "0", "0-3", "0-3,8,10-12", "5,7,9"] {
            assert_eq!(format(&parse(text).unwrap()), text);
        }
        assert_eq!(parse(" 0-1\n").unwrap(), [0, 1]);
        assert_eq!(parse("3,1,2,2").unwrap(), [1, 2, 3]);
    }

    #[test]
    fn nonsense_is_no_list() {
        for text in ["x", "0-", "-1", "3-1", "0,,2", "0-4294967295", "99999999999"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
