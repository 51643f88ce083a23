//! Places for threads as OpenMP writes them (OpenMP 5.2, section 21.1.6, `OMP_PLACES`).

use numamma_topology::Machine;

/// A list of places: thread n runs on place n, and again from the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Places {
    /// One of the names, and how many of them; `None`: all.
    Abstract(Unit, Option<usize>),
    /// The CPUs of each place.
    Explicit(Vec<Vec<u32>>),
}

/// Kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A hardware thread.
    Threads,
    /// All hardware threads of a core.
    Cores,
    /// All of a socket.
    Sockets,
    /// All of a node.
    NumaDomains,
}

const UNITS: [(&str, Unit); 4] = [
    ("threads", Unit::Threads),
    ("cores", Unit::Cores),
    ("sockets", Unit::Sockets),
    ("numa_domains", Unit::NumaDomains),
];
/// More places, or CPUs in one, are a slip of the pen.
const MOST: usize = 1 << 16;

impl Places {
    /// True if a text looks like places.
    pub fn is_meant(text: &str) -> bool {
        let name = text.split('(').next().unwrap_or_default().trim();
        text.trim_start().starts_with(['{', '!']) || UNITS.iter().any(|(unit, _)| *unit == name)
    }

    /// Reads `cores`, `sockets(2)`, `{0,1},{2,3}`, `{0:4}:8:4` and the like.
    ///
    /// # Errors
    /// The fault.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("\"{text}\" is no list of places, such as \"cores\", \"{{0,1}},{{2,3}}\" or \"{{0:4}}:8:4\"");
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (name, rest) = text.split_at(text.find('(').unwrap_or(text.len()));
        if let Some((_, unit)) = UNITS.iter().find(|(unit, _)| *unit == name) {
            if rest.is_empty() {
                return Ok(Places::Abstract(*unit, None));
            }
            let count = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')?.parse().ok());
            return count
                .filter(|&count| count > 0)
                .map(|count| Places::Abstract(*unit, Some(count)))
                .ok_or_else(wrong);
        }
        let mut places = Vec::new();
        let mut rest = text.as_str();
        while let Some(after) = rest.strip_prefix('{') {
            let (inside, after) = after.split_once('}').ok_or_else(wrong)?;
            let mut place = Vec::new();
            for part in inside.split(',') {
                place.extend(interval(part).ok_or_else(wrong)?);
            }
            place.sort_unstable();
            place.dedup();
            let (repeat, after) = after.split_at(after.find(',').unwrap_or(after.len()));
            let (count, stride) = repeated(repeat).ok_or_else(wrong)?;
            if place.len().saturating_mul(count as usize) > MOST {
                return Err(wrong());
            }
            for n in 0..count {
                let moved = place.iter().map(|&cpu| u32::try_from(i64::from(cpu) + n * stride).ok());
                places.push(moved.collect::<Option<Vec<u32>>>().ok_or_else(wrong)?);
            }
            rest = after.strip_prefix(',').unwrap_or(after);
            let cpus: usize = places.iter().map(Vec::len).sum();
            if cpus > MOST {
                return Err(wrong());
            }
            if after.len() == rest.len() && !rest.is_empty() || places.len() > MOST {
                return Err(wrong());
            }
        }
        if !rest.is_empty() || places.is_empty() || text.ends_with(',') {
            return Err(wrong());
        }
        Ok(Places::Explicit(places))
    }

    /// The CPUs of each place on this machine, of those that may be used.
    pub fn cpus(&self, machine: &Machine, usable: &[u32]) -> Vec<Vec<u32>> {
        let (unit, count) = match self {
            Places::Explicit(places) => return places.clone(),
            Places::Abstract(unit, count) => (*unit, *count),
        };
        // CPUs with the same key are one place.
        let key = |id: u32| {
            let cpu = machine.cpus.iter().find(|cpu| cpu.id == id);
            let (package, core) = (cpu.and_then(|cpu| cpu.package), cpu.and_then(|cpu| cpu.core));
            match unit {
                Unit::Threads => (machine.node_of_cpu(id), package, core, Some(id)),
                Unit::Cores => (machine.node_of_cpu(id), package, core, core.is_none().then_some(id)),
                Unit::Sockets => (None, package, None, None),
                Unit::NumaDomains => (machine.node_of_cpu(id), None, None, None),
            }
        };
        let mut keyed: Vec<_> = usable.iter().map(|&cpu| (key(cpu), cpu)).collect();
        keyed.sort_unstable();
        let places = keyed.chunk_by(|a, b| a.0 == b.0).map(|place| place.iter().map(|(_, cpu)| *cpu).collect());
        places.take(count.unwrap_or(usize::MAX)).collect()
    }
}

impl std::fmt::Display for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Places::Abstract(unit, count) => {
                f.write_str(UNITS.iter().find(|(_, other)| other == unit).map_or("", |(name, _)| name))?;
                count.map_or(Ok(()), |count| write!(f, "({count})"))
            }
            Places::Explicit(places) => {
                let texts: Vec<String> = places
                    .iter()
                    .map(|place| format!("{{{}}}", place.iter().map(u32::to_string).collect::<Vec<_>>().join(",")))
                    .collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

/// `LOWER`, `LOWER:LENGTH` or `LOWER:LENGTH:STRIDE`.
fn interval(text: &str) -> Option<Vec<u32>> {
    let mut parts = text.split(':');
    let lower: i64 = parts.next()?.parse().ok()?;
    let length: i64 = parts.next().map_or(Some(1), |part| part.parse().ok())?;
    let stride: i64 = parts.next().map_or(Some(1), |part| part.parse().ok())?;
    if parts.next().is_some() || !(1..=MOST as i64).contains(&length) || stride.abs() > MOST as i64 {
        return None;
    }
    (0..length).map(|n| u32::try_from(lower + n * stride).ok()).collect()
}

/// Nothing, `:COUNT` or `:COUNT:STRIDE`; without a stride each is the next one up.
fn repeated(text: &str) -> Option<(i64, i64)> {
    if text.is_empty() {
        return Some((1, 0));
    }
    let mut parts = text.strip_prefix(':')?.split(':');
    let count: i64 = parts.next()?.parse().ok()?;
    let stride: i64 = parts.next().map_or(Some(1), |part| part.parse().ok())?;
    let sound = parts.next().is_none() && (1..=MOST as i64).contains(&count) && stride.abs() <= MOST as i64;
    sound.then_some((count, stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_openmp_does() {
        let explicit = |text: &str| match Places::parse(text) {
            Ok(Places::Explicit(places)) => places,
            other => panic!("{text}: {other:?}"),
        };
        // All are the same.
        let wanted = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9, 10, 11], vec![12, 13, 14, 15]];
        for text in [
            "{0,1,2,3},{4,5,6,7},{8,9,10,11},{12,13,14,15}",
            "{0:4},{4:4},{8:4},{12:4}",
            "{0:4}:4:4",
            " { 0 : 4 } : 4 : 4 ",
        ] {
            assert_eq!(explicit(text), wanted, "{text}");
        }
        assert_eq!(explicit("{0:2}:2"), [[0, 1], [1, 2]]);
        assert_eq!(explicit("{0:3:2}"), [[0, 2, 4]]);
        assert_eq!(explicit("{6}:3:-2"), [[6], [4], [2]]);
        assert_eq!(Places::parse("cores"), Ok(Places::Abstract(Unit::Cores, None)));
        assert_eq!(Places::parse("sockets(2)"), Ok(Places::Abstract(Unit::Sockets, Some(2))));
        for text in [
            "{",
            "{}",
            "{0},",
            "{0}{1}",
            "{0:0}",
            "{0}:2:-1",
            "cores(0)",
            "cores(",
            "{a}",
            "{0:4:1:1}",
            "{0}:99999999",
            "{0:65536}:65536:0",
        ] {
            assert!(Places::parse(text).is_err(), "{text}");
        }
        for text in ["{0:4}:4:4", "cores", "threads(3)", "{0,2},{1,3}"] {
            let places = Places::parse(text).expect(text);
            assert_eq!(Places::parse(&places.to_string()), Ok(places), "{text}");
        }
    }
}
