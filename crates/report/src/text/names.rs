//! Long names in few columns: what tells objects apart stays, what repeats goes.

use super::style::{Pen, clean, width};

/// `name` in at most `limit` columns. Given up in turn: folders of the source file, arguments, template arguments,
/// namespaces, then the middle; `file:line` of a call site stays as long as it can.
pub fn shorten(name: &str, limit: usize, pen: &Pen) -> String {
    let name = clean(name, pen.unicode);
    if width(&name) <= limit {
        return name;
    }
    let (function, place) = split_place(&name);
    let place = place.map(|place| place.rsplit('/').next().unwrap_or(place).to_string());
    let ellipsis = pen.ellipsis();
    let bare = |function: &str| collapse(&collapse(function, '(', ')', ""), '<', '>', ellipsis);
    let steps: [&dyn Fn(&str) -> String; 5] = [
        &|function| function.to_string(),
        &|function| collapse(function, '(', ')', ""),
        &bare,
        &|function| last_segments(&bare(function), 2),
        &|function| last_segments(&bare(function), 1),
    ];
    let mut shorter = name.clone();
    for step in steps {
        shorter = join(&step(function), place.as_deref());
        if width(&shorter) <= limit {
            return shorter;
        }
    }
    let function = last_segments(&bare(function), 1);
    match place {
        // The function needs a few columns to be recognised.
        Some(place) if width(&place) + 1 + 6 <= limit => {
            format!("{} {place}", middle(&function, limit - width(&place) - 1, ellipsis))
        }
        _ => middle(&shorter, limit, ellipsis),
    }
}

/// Splits `function file:line`; a name without line number is all function.
fn split_place(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(' ') {
        Some((function, place)) if is_place(place) => (function, Some(place)),
        _ => (name, None),
    }
}

fn is_place(word: &str) -> bool {
    word.rsplit_once(':').is_some_and(|(file, line)| {
        !file.is_empty() && !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn join(function: &str, place: Option<&str>) -> String {
    match place {
        Some(place) => format!("{function} {place}"),
        None => function.to_string(),
    }
}

/// Replaces what stands between outermost brackets. Operators (`operator<<`, `->`) have brackets without partner: then the
/// text stays as it is.
fn collapse(text: &str, open: char, close: char, with: &str) -> String {
    let mut out = String::new();
    let mut depth = 0usize;
    let mut previous = ' ';
    for c in text.chars() {
        if c == open {
            if depth == 0 && !with.is_empty() {
                out.push(open);
                out.push_str(with);
            }
            depth += 1;
        } else if c == close && previous != '-' {
            match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => return text.to_string(),
            }
            if depth == 0 && !with.is_empty() {
                out.push(close);
            }
        } else if depth == 0 {
            out.push(c);
        }
        previous = c;
    }
    if depth > 0 || out.trim().is_empty() { text.to_string() } else { out.trim_end().to_string() }
}

/// The last segments of a name with namespaces.
fn last_segments(function: &str, most: usize) -> String {
    let segments: Vec<&str> = function.split("::").collect();
    segments[segments.len().saturating_sub(most)..].join("::")
}

/// Keeps the begin and the end, which is where names differ.
fn middle(text: &str, limit: usize, ellipsis: &str) -> String {
    if width(text) <= limit {
        return text.to_string();
    }
    let room = limit.saturating_sub(width(ellipsis));
    let head = take(text.chars(), room.div_ceil(2));
    let tail: String = take(text.chars().rev(), room - width(&head)).chars().rev().collect();
    format!("{head}{ellipsis}{tail}")
}

/// As many characters as fit `limit` columns.
fn take(chars: impl Iterator<Item = char>, limit: usize) -> String {
    let mut text = String::new();
    for c in chars {
        text.push(c);
        if width(&text) > limit {
            text.pop();
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(name: &str, limit: usize) -> String {
        shorten(name, limit, &Pen { color: false, unicode: true })
    }

    #[test]
    fn gives_up_the_least_telling_part_first() {
        let name = "grid::Mesh<double, 3>::resize(unsigned long, bool) /home/me/src/grid/mesh.cpp:128";
        assert_eq!(short(name, 100), name);
        assert_eq!(short(name, 70), "grid::Mesh<double, 3>::resize(unsigned long, bool) mesh.cpp:128");
        assert_eq!(short(name, 50), "grid::Mesh<double, 3>::resize mesh.cpp:128");
        assert_eq!(short(name, 40), "grid::Mesh<…>::resize mesh.cpp:128");
        assert_eq!(short(name, 30), "Mesh<…>::resize mesh.cpp:128");
        assert_eq!(short(name, 25), "resize mesh.cpp:128");
        assert_eq!(short(name, 10), "resiz…:128");
    }

    #[test]
    fn keeps_begin_and_end_of_a_variable() {
        assert_eq!(short("a_rather_long_name_of_a_variable", 12), "a_rath…iable");
        assert_eq!(short("operator<< out.cc:1", 16), "ope…r<< out.cc:1");
    }

    #[test]
    fn counts_columns_not_bytes() {
        assert_eq!(short("größenmaß", 9), "größenmaß");
        assert_eq!(short("数据缓冲区", 10), "数据缓冲区");
        assert_eq!(short("数据缓冲区", 7), "数…冲区");
        assert!((1..30).all(|limit| width(&short("std::vector<数据>::push_back(x) 缓冲.cc:17", limit)) <= limit));
    }
}
