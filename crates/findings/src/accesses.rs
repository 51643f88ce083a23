//! Accesses. Forms that are read by programs get them as [`Accesses`] is written, others by [`Accesses::stated`] and
//! [`Accesses::counted`]: none shows a number without its error. An estimate knows the error of a share; that of reads and writes is not
//! known, for it is not known well how fast code was executed.

use serde::{Deserialize, Serialize};

/// The accesses of an object or a line.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Fields", from = "Fields")]
pub struct Accesses {
    /// Reads, counted or estimated: see [`Self::counted`].
    pub reads: f64,
    /// Writes, likewise.
    pub writes: f64,
    /// Share of all data accesses.
    pub share: f64,
    /// Half-width of the 95 % interval of `share`; `None`: no basis for an interval.
    pub error: Option<f64>,
    /// The part (0..1) of them whose number stands on more than the time that was spent, or of all accesses of the run if that is
    /// less; `None` where that is no question.
    pub basis: Option<f64>,
}

impl Accesses {
    /// True if their share is hardly more than a guess: then the cost is all that is known.
    pub fn is_cost_only(&self) -> bool {
        self.stated().is_none()
    }

    /// These, if a report may show their share: it has a basis, and it is known how far it is off.
    pub fn stated(&self) -> Option<&Self> {
        (self.error.is_some() && !crate::is_cost_only(self.basis)).then_some(self)
    }

    /// Reads and writes, if they were counted one by one.
    pub fn counted(&self) -> Option<(f64, f64)> {
        (self.error == Some(0.0) && self.basis.is_none()).then_some((self.reads, self.writes))
    }
}

/// [`Accesses`] as every form has them that is read by programs: what is not stated is `null`.
#[derive(Serialize, Deserialize)]
struct Fields {
    reads: Option<f64>,
    writes: Option<f64>,
    share: Option<f64>,
    error: Option<f64>,
    #[serde(default)]
    basis: Option<f64>,
}

impl From<Accesses> for Fields {
    fn from(of: Accesses) -> Self {
        let stated = of.stated();
        Self {
            reads: of.counted().map(|(reads, _)| reads),
            writes: of.counted().map(|(_, writes)| writes),
            share: stated.map(|of| of.share),
            error: stated.and_then(|of| of.error),
            basis: of.basis,
        }
    }
}

impl From<Fields> for Accesses {
    fn from(of: Fields) -> Self {
        let number = |number: Option<f64>| number.unwrap_or(0.0);
        let (reads, writes, share) = (number(of.reads), number(of.writes), number(of.share));
        Self { reads, writes, share, error: of.error, basis: of.basis }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_stated_is_null() {
        let json = |of: Accesses| serde_json::to_value(of).unwrap();
        let known = Accesses { reads: 3.0, writes: 1.0, share: 0.5, error: Some(0.1), basis: Some(0.9) };
        assert_eq!(json(known)["share"], 0.5);
        assert!(json(known)["reads"].is_null() && json(known)["writes"].is_null(), "an estimate has no error of these");
        let counted = Accesses { error: Some(0.0), basis: None, ..known };
        assert_eq!((json(counted)["reads"].as_f64(), json(counted)["writes"].as_f64()), (Some(3.0), Some(1.0)));
        for unknown in [Accesses { basis: Some(0.4), ..known }, Accesses { error: None, ..known }] {
            let json = json(unknown);
            assert!(["reads", "writes", "share", "error"].iter().all(|field| json[field].is_null()), "{json}");
        }
    }
}
