//! Contents and form of a report.

use std::{fmt, str::FromStr};

/// Declares an enum whose variants are words of the command line.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every word, the default first.
            pub const NAMES: &'static [&'static str] = &[$($word),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word,)+ })
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("'{word}' is none of {}", Self::NAMES.join(", "))),
                }
            }
        }
    };
}

words! {
    /// Form of the report.
    Format {
        /// For a terminal.
        Text = "text",
        /// One JSON document, see `docs/REPORT.md`.
        Json = "json",
        /// One table with a header row, see `docs/REPORT.md`.
        Csv = "csv",
    }
}

words! {
    /// Kind of the rows.
    By {
        /// A variable, or all objects of a call site.
        Object = "object",
        /// An allocation call site, sampled or not.
        Site = "site",
        /// A thread.
        Thread = "thread",
        /// A page of an object.
        Page = "page",
        /// A NUMA node.
        Node = "node",
        /// A source line that accesses memory.
        Line = "line",
    }
}

words! {
    /// Order of the rows, largest first.
    Sort {
        /// Time spent waiting for memory.
        Cost = "cost",
        /// Number of accesses.
        Accesses = "accesses",
        /// Number of remote accesses.
        Remote = "remote",
        /// Number of accesses that reach memory.
        Memory = "memory",
    }
}

words! {
    /// Which accesses count.
    Access {
        /// Reads and writes.
        All = "all",
        /// Reads only.
        Read = "read",
        /// Writes only.
        Write = "write",
    }
}

impl Access {
    /// True if a write (or else a read) counts.
    pub(crate) fn includes(self, write: bool) -> bool {
        match self {
            Self::All => true,
            Self::Read => !write,
            Self::Write => write,
        }
    }
}

/// Contents and form of a report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Kind of the rows.
    pub by: By,
    /// Order of the rows.
    pub sort: Sort,
    /// Which accesses count.
    pub access: Access,
    /// Rows at most; `Some(0)`: all; `None`: 20 in text, all in JSON and CSV.
    pub top: Option<usize>,
    /// The one object to show, see [`crate::find_object`].
    pub object: Option<String>,
    /// The one instance of it to show, see [`numamma_findings::Instance::instance`].
    pub instance: Option<u64>,
    /// Columns of the terminal; 100 where there is none.
    pub width: usize,
    /// True if text may carry ANSI colours.
    pub color: bool,
    /// True if text may carry more than ASCII, see [`unicode_locale`].
    pub unicode: bool,
    /// Form of the report.
    pub format: Format,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            by: By::Object,
            sort: Sort::Cost,
            access: Access::All,
            top: None,
            object: None,
            instance: None,
            width: 100,
            color: false,
            unicode: true,
            format: Format::Text,
        }
    }
}

/// True if a terminal with these variables shows UTF-8: the first one that is set and not empty decides.
pub fn unicode_locale(lc_all: Option<&str>, lc_ctype: Option<&str>, lang: Option<&str>) -> bool {
    let locale = [lc_all, lc_ctype, lang].into_iter().flatten().find(|value| !value.is_empty());
    locale.is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for word in By::NAMES {
            assert_eq!(&word.parse::<By>().unwrap().to_string(), word);
        }
        assert_eq!("x".parse::<Sort>().unwrap_err(), "'x' is none of cost, accesses, remote, memory");
    }

    #[test]
    fn first_locale_variable_that_is_set_decides() {
        assert!(unicode_locale(None, None, Some("en_US.UTF-8")));
        assert!(unicode_locale(Some(""), None, Some("C.utf8")));
        assert!(!unicode_locale(Some("C"), None, Some("en_US.UTF-8")));
        assert!(!unicode_locale(None, None, None));
    }
}
