//! How far nodes are from each other, in the unit of the firmware's table: 10 is local.

use std::str::FromStr;

/// Local access.
pub const LOCAL: u64 = 10;

/// A way to fill the table.
#[derive(Clone, Debug, PartialEq)]
pub enum Distance {
    /// 20 to all others.
    Flat,
    /// 10 more for each hop, either way round.
    Ring,
    /// 10 more for each hop, with two ends.
    Line,
    /// 10 more for each hop of a ring that has one direction.
    Asymmetric,
    /// As given, row by row.
    Rows(Vec<Vec<u64>>),
}

impl FromStr for Distance {
    type Err = String;

    fn from_str(text: &str) -> Result<Distance, String> {
        match text {
            "flat" => Ok(Distance::Flat),
            "ring" => Ok(Distance::Ring),
            "line" => Ok(Distance::Line),
            "asym" => Ok(Distance::Asymmetric),
            _ if text.contains(',') => rows(text).map(Distance::Rows),
            _ => Err("neither flat, ring, line, asym nor rows as in 10,20/20,10".to_owned()),
        }
    }
}

impl Distance {
    /// The table for that many nodes, `[from][to]`.
    pub fn table(&self, nodes: usize) -> Result<Vec<Vec<u64>>, String> {
        if let Distance::Rows(rows) = self {
            let fits = rows.len() == nodes;
            return fits.then(|| rows.clone()).ok_or_else(|| format!("{} rows for {nodes} nodes", rows.len()));
        }
        let between = |from: usize, to: usize| {
            let (apart, up) = (from.abs_diff(to), (to + nodes - from) % nodes);
            let hops = match self {
                Distance::Flat => apart.min(1),
                Distance::Ring => apart.min(nodes - apart),
                Distance::Line => apart,
                Distance::Asymmetric | Distance::Rows(_) => up,
            };
            LOCAL * (1 + hops as u64)
        };
        let table: Vec<Vec<u64>> = (0..nodes).map(|from| (0..nodes).map(|to| between(from, to)).collect()).collect();
        check(&table)?;
        Ok(table)
    }
}

fn rows(text: &str) -> Result<Vec<Vec<u64>>, String> {
    let number = |text: &str| text.trim().parse().map_err(|_| format!("{text:?} is no distance"));
    let row = |text: &str| text.split(',').map(number).collect::<Result<Vec<u64>, String>>();
    let rows = text.split(['/', ';']).map(row).collect::<Result<Vec<_>, String>>()?;
    check(&rows)?;
    Ok(rows)
}

/// What Linux takes; it ignores the whole table otherwise, and says so on a console that nobody reads.
fn check(table: &[Vec<u64>]) -> Result<(), String> {
    for (from, row) in table.iter().enumerate() {
        if row.len() != table.len() {
            return Err(format!("row {from} has {} distances for {} nodes", row.len(), table.len()));
        }
        for (to, &distance) in row.iter().enumerate() {
            let right = if from == to { distance == LOCAL } else { distance > LOCAL && distance < 255 };
            if !right {
                return Err(format!("{distance} from node {from} to {to}: 10 is local, others have 11 to 254"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_rows(what: &str, nodes: usize) -> Vec<Vec<u64>> {
        what.parse::<Distance>().unwrap().table(nodes).unwrap()[..2].to_vec()
    }

    #[test]
    fn shapes() {
        assert_eq!(first_rows("flat", 3), [[10, 20, 20], [20, 10, 20]]);
        assert_eq!(first_rows("ring", 4), [[10, 20, 30, 20], [20, 10, 20, 30]]);
        assert_eq!(first_rows("line", 4), [[10, 20, 30, 40], [20, 10, 20, 30]]);
        assert_eq!(first_rows("asym", 4), [[10, 20, 30, 40], [40, 10, 20, 30]]);
        assert_eq!(first_rows("10,21/31,10", 2), [[10, 21], [31, 10]]);
        assert_eq!("flat".parse::<Distance>().unwrap().table(1), Ok(vec![vec![10]]));
    }

    #[test]
    fn what_linux_would_ignore_is_refused() {
        for rows in ["10,20", "10,10/20,10", "11,20/20,10", "10,x/20,10", "10,300/20,10"] {
            assert!(rows.parse::<Distance>().is_err(), "{rows}");
        }
        assert!("10,20/20,10".parse::<Distance>().unwrap().table(4).is_err());
        assert!(Distance::Line.table(30).is_err());
    }
}
