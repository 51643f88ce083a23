//! Rust source with its comments set apart and its literals emptied, line by line.

/// One line: what the compiler sees, and the comments.
#[derive(Debug, Default, PartialEq)]
pub struct Line {
    pub code: String,
    pub comment: String,
}

/// Splits a source text. Text inside string and character literals is in neither part.
pub fn lines(source: &str) -> Vec<Line> {
    let mut reader = Reader { rest: source, lines: vec![Line::default()] };
    while let Some(c) = reader.rest.chars().next() {
        reader.step(c);
    }
    reader.lines
}

/// True if `text` holds `word` between characters that belong to no word.
pub fn has_word(text: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(in_word) && !text[at + word.len()..].starts_with(in_word))
}

struct Reader<'a> {
    rest: &'a str,
    lines: Vec<Line>,
}

impl Reader<'_> {
    fn step(&mut self, c: char) {
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.comment(end);
        } else if self.rest.starts_with("/*") {
            self.comment(block_comment(self.rest));
        } else if let Some(end) = raw_string(self.rest).filter(|_| !self.after_word()) {
            self.skip(end);
        } else if c == '"' {
            self.skip(quoted(self.rest, '"'));
        } else if let Some(end) = character(self.rest) {
            self.skip(end);
        } else {
            if c == '\n' {
                self.lines.push(Line::default());
            } else {
                self.last().code.push(c);
            }
            self.rest = &self.rest[c.len_utf8()..];
        }
    }

    fn last(&mut self) -> &mut Line {
        self.lines.last_mut().expect("there is always a line")
    }

    /// True if the last character is part of a name, so that an `r` that follows is too.
    fn after_word(&mut self) -> bool {
        self.last().code.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }

    fn comment(&mut self, end: usize) {
        for (index, part) in self.rest[..end].split('\n').enumerate() {
            if index > 0 {
                self.lines.push(Line::default());
            }
            self.last().comment.push_str(part);
        }
        self.rest = &self.rest[end..];
    }

    fn skip(&mut self, end: usize) {
        self.last().code.push_str("\"\"");
        for _ in self.rest[..end].matches('\n') {
            self.lines.push(Line::default());
        }
        self.rest = &self.rest[end..];
    }
}

/// The end of a comment that may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The end of `r"..."`, `r#"..."#`, `br".."`, if the text begins with one.
fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r"].iter().find(|prefix| text.starts_with(**prefix))?;
    let after = &text[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len();
    Some(body.find(&close).map_or(text.len(), |at| start + at + close.len()))
}

/// The end of a literal that `quote` opens and closes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The end of a character literal; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.strip_prefix('\'')?.chars();
    match (chars.next()?, chars.next()?) {
        ('\\', _) => Some(quoted(text, '\'')),
        (c, '\'') if c != '\'' => Some(2 + c.len_utf8()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> Vec<String> {
        lines(source).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(code("a // b\nc"), ["a ", "c"]);
        assert_eq!(code("a /* b /* c */\nd */ e"), ["a ", " e"]);
        assert_eq!(code(r#"f("// \" x", 'y', '\'', '"');"#), [r#"f("", "", "", "");"#]);
        assert_eq!(code("r#\"a\" // \"# b"), ["\"\" b"]);
        assert_eq!(code("fn f<'a>(x: &'a str)"), ["fn f<'a>(x: &'a str)"]);
        assert_eq!(code("for \"x\n y\" z"), ["for \"\"", " z"]);
        assert_eq!(code("bar\"x\""), ["bar\"\""]);
    }

    #[test]
    fn comments_keep_their_line() {
        let lines = lines("// one\nlet x; // two\n/* three\nfour */");
        let comments: Vec<&str> = lines.iter().map(|line| line.comment.as_str()).collect();
        assert_eq!(comments, ["// one", "// two", "/* three", "four */"]);
    }

    #[test]
    fn words_end_where_names_end() {
        assert!(has_word("unsafe { }", "unsafe") && has_word("(unsafe)", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe") && !has_word("not_unsafe", "unsafe"));
    }
}
