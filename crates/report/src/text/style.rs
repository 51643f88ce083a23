//! Colours and characters: what the terminal can show, decided once.

use unicode_width::UnicodeWidthChar;

/// Kind of a piece of text, shown by colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Text.
    #[default]
    Plain,
    /// Headings and names.
    Bold,
    /// Secondary text.
    Dim,
    /// Bars and pictures.
    Accent,
    /// Text that deserves attention.
    Warn,
}

/// Characters and colours of one terminal.
#[derive(Clone, Copy, Debug)]
pub struct Pen {
    /// True if ANSI colours are written.
    pub color: bool,
    /// True if more than ASCII is written.
    pub unicode: bool,
}

impl Pen {
    /// `text` in a style. Pad first: the escapes have no width.
    pub fn paint(&self, style: Style, text: &str) -> String {
        let code = match style {
            Style::Plain => return text.to_string(),
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Accent => "36",
            Style::Warn => "33",
        };
        if self.color && !text.trim().is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// One of two texts.
    pub fn pick<T>(&self, unicode: T, ascii: T) -> T {
        if self.unicode { unicode } else { ascii }
    }

    /// Between two phrases.
    pub fn dot(&self) -> &'static str {
        self.pick(" · ", ", ")
    }

    /// For what was left out of a name.
    pub fn ellipsis(&self) -> &'static str {
        self.pick("…", "..")
    }

    /// Before an error.
    pub fn plus_minus(&self) -> &'static str {
        self.pick("±", "+-")
    }

    /// A horizontal bar of `width` columns, as full as `part` of 1; anything above 0 shows.
    pub fn bar(&self, part: f64, width: usize) -> String {
        let part = part.clamp(0.0, 1.0);
        if part == 0.0 || part.is_nan() {
            return String::new();
        }
        if !self.unicode {
            return "#".repeat(((part * width as f64).round() as usize).max(1));
        }
        let eighths = ((part * width as f64 * 8.0).round() as usize).max(1);
        let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
        format!("{}{rest}", "█".repeat(eighths / 8))
    }

    /// A character as dark as `part` of 1; anything above 0 shows.
    pub fn shade(&self, part: f64) -> char {
        level(part, self.pick([' ', '░', '▒', '▓', '█'], [' ', '.', '+', '#', '@']))
    }

    /// A character as high as `part` of 1; anything above 0 shows.
    pub fn spark(&self, part: f64) -> char {
        let high = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        if self.unicode { level(part, high) } else { level(part, [' ', '.', ':', '-', '=', '+', '*', '#', '@']) }
    }
}

fn level<const N: usize>(part: f64, levels: [char; N]) -> char {
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
    levels[(part * (N - 1) as f64).ceil() as usize]
}

/// Columns that `text` takes.
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// `text` without what could move the cursor or reorder the line (control characters, text direction), and without what
/// the terminal cannot show.
pub fn clean(text: &str, unicode: bool) -> String {
    let unsafe_char = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if unsafe_char(c) || (!unicode && !c.is_ascii()) { '?' } else { c }).collect()
}

/// A word of a command line as a shell takes it: with line breaks and other control characters written out.
pub fn shell_word(word: &str) -> String {
    if word.contains(char::is_control) {
        let escape = |c: char| match c {
            '\n' => "\\n".to_owned(),
            '\t' => "\\t".to_owned(),
            '\\' | '\'' => format!("\\{c}"),
            c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        };
        return format!("$'{}'", word.chars().map(escape).collect::<String>());
    }
    let plain = |c: char| c.is_alphanumeric() || !c.is_ascii() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Breaks `text` into lines of at most `limit` columns, at spaces, but not between a number and its per cent sign; a word
/// that is longer than a line is cut.
pub fn wrap(text: &str, limit: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut() {
            Some(number) if word.starts_with('%') => *number += &format!(" {word}"),
            _ => words.push(word.to_string()),
        }
    }
    let mut lines = vec![String::new()];
    for word in words.iter().flat_map(|word| cut(word, limit)) {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(&word),
            Some(line) if width(line) + 1 + width(&word) <= limit => *line += &format!(" {word}"),
            _ => lines.push(word),
        }
    }
    lines
}

/// Pieces of at most `limit` columns.
fn cut(word: &str, limit: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for c in word.chars() {
        let piece = pieces.last_mut().expect("never empty");
        if width(piece) + c.width().unwrap_or(0) > limit.max(2) {
            pieces.push(c.to_string());
        } else {
            piece.push(c);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEN: Pen = Pen { color: false, unicode: true };
    const ASCII: Pen = Pen { color: false, unicode: false };

    #[test]
    fn bars_fill_in_eighths() {
        assert_eq!([0.0, 0.001, 0.5, 0.55, 1.0].map(|part| PEN.bar(part, 6)), ["", "▏", "███", "███▎", "██████"]);
        assert_eq!([0.0, 0.001, 0.5, 1.0].map(|part| ASCII.bar(part, 6)), ["", "#", "###", "######"]);
        assert_eq!(PEN.bar(f64::NAN, 6), "");
    }

    #[test]
    fn shades_show_all_above_zero() {
        assert_eq!(
            [0.0, 0.01, 0.25, 0.26, 0.75, 1.0, 2.0].map(|part| PEN.shade(part)),
            [' ', '░', '░', '▒', '▓', '█', '█']
        );
        assert_eq!(ASCII.shade(f64::NAN), ' ');
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(clean("a\x1b[2Jb\n\u{202e}c", true), "a?[2Jb??c");
        assert_eq!(clean("größe", false), "gr??e");
    }

    #[test]
    fn words_are_shown_as_a_shell_takes_them() {
        assert_eq!(shell_word("--size=4096"), "--size=4096");
        assert_eq!(shell_word("größe"), "größe");
        assert_eq!(shell_word("don't do"), r"'don'\''t do'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("for i in 1\n\tdo 'x\x07'"), r"$'for i in 1\n\tdo \'x\u0007\''");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("aaaaaaaa b", 5), ["aaaaa", "aaa b"]);
        assert_eq!(wrap("is 85 % of", 5), ["is", "85 %", "of"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
