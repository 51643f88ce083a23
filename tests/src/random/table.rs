//! Claims as tables, and whether enough of them hold.

use std::collections::BTreeMap;

use super::claims::{Claim, Of};

/// Intervals claim 95 %; so many must hold at least.
pub const HOLDS: f64 = 0.93;

/// What became of some claims.
#[derive(Clone, Debug, Default)]
pub struct Score {
    claims: usize,
    stated: usize,
    held: usize,
    off: Vec<f64>,
    errors: Vec<f64>,
}

impl Score {
    /// Of those claims.
    pub fn of<'a>(claims: impl Iterator<Item = &'a Claim>) -> Self {
        let mut score = Self::default();
        claims.for_each(|claim| score.add(claim));
        score
    }

    fn add(&mut self, claim: &Claim) {
        self.claims += 1;
        self.stated += usize::from(claim.stated.is_some());
        self.held += usize::from(claim.holds() == Some(true));
        self.off.extend(claim.off());
        self.errors.extend(claim.stated.map(|(_, error)| error));
    }

    /// True if so few hold that chance would give that once in a thousand times only, if [`HOLDS`] were true.
    pub fn is_too_low(&self) -> bool {
        at_most(self.held, self.stated, HOLDS) < 0.001
    }

    /// A row of a table.
    pub fn row(&self, name: &str) -> String {
        let percent = |part: usize, of: usize| match of {
            0 => "-".to_string(),
            _ => format!("{:.1} %", 100.0 * part as f64 / of as f64),
        };
        let points = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{:.1}", 100.0 * value));
        format!(
            "| {name} | {} | {} | {} | {} | {} | {} |",
            self.claims,
            percent(self.stated, self.claims),
            percent(self.held, self.stated),
            points(middle(&self.off)),
            points(self.off.iter().copied().max_by(f64::total_cmp)),
            points(middle(&self.errors)),
        )
    }
}

/// The tables of one mode.
pub fn tables(claims: &[Claim]) -> String {
    const HEAD: &str = " | numbers | stated | of these hold | off, median | off, worst | stated error, median |\n|---|---:|---:|---:|---:|---:|---:|\n";
    let mut text = format!("| what{HEAD}");
    for (of, name) in [
        (Of::Object, "share of an object"),
        (Of::ThreadOfObject, "share of a thread in an object"),
        (Of::Thread, "share of a thread"),
    ] {
        text += &Score::of(claims.iter().filter(|claim| claim.of == of)).row(name);
        text += "\n";
    }
    text += &Score::of(claims.iter()).row("all");
    let mut by_loop: BTreeMap<(u8, &str), Score> = BTreeMap::new();
    for claim in claims.iter().filter(|claim| claim.of == Of::Object) {
        let of = claim.loops.iter().flat_map(|(kind, schedule)| [(1, *schedule), (2, *kind)]);
        let mut of: Vec<_> = of.collect();
        of.sort_unstable();
        of.dedup();
        if of.is_empty() {
            of.push((0, "no loop (stacks, libraries)"));
        }
        of.into_iter().for_each(|key| by_loop.entry(key).or_default().add(claim));
    }
    text += &format!("\n\n| shares of objects used by loops{HEAD}");
    by_loop.iter().for_each(|((_, name), score)| text += &(score.row(name) + "\n"));
    text
}

/// The probability that at most `held` of `stated` hold where each does with probability `each`.
fn at_most(held: usize, stated: usize, each: f64) -> f64 {
    // From the logarithm of each term: products of many would be 0.
    let mut term = stated as f64 * (1.0 - each).ln();
    let mut sum = 0.0;
    for number in 0..=held.min(stated) {
        sum += term.exp();
        term += ((stated - number) as f64 / (number + 1) as f64).ln() + (each / (1.0 - each)).ln();
    }
    sum.min(1.0)
}

/// The median; of an even number the upper one of the middle two.
fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binomial_distribution_adds_up() {
        assert!((at_most(0, 3, 0.5) - 0.125).abs() < 1e-12);
        assert!((at_most(2, 3, 0.5) - 0.875).abs() < 1e-12);
        assert!((at_most(1000, 1000, 0.93) - 1.0).abs() < 1e-9);
        // 100 claims, 93 expected.
        assert!(at_most(83, 100, HOLDS) < 0.001 && at_most(85, 100, HOLDS) > 0.001);
    }
}
