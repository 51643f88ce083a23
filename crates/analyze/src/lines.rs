//! Source lines that access memory.

use numamma_findings::{Accesses, Cost, Line};
use rustc_hash::FxHashMap;

use crate::counters::{Count, Counters};
use crate::groups::{GroupId, file_name};
use crate::statistics::{ratio, share_error};
use crate::summary::Tables;

/// Objects listed per line.
const OBJECTS: usize = 5;

/// Function, file, line, module.
type Place = (String, String, i32, String);

/// Lines by cost. `ids` gives the report's id of each group.
pub fn lines(tables: &Tables, counters: &Counters, ids: &FxHashMap<GroupId, usize>) -> Vec<Line> {
    let mut lines: FxHashMap<Place, FxHashMap<Option<GroupId>, Count>> = FxHashMap::default();
    for (&(process, ip), by_group) in &counters.code {
        let code = tables.code(process, ip);
        let (function, file, line, module) = match code {
            Some(row) if !row.function.is_empty() || !row.file.is_empty() => {
                (row.function.clone(), row.file.clone(), row.line, file_name(&row.module).to_owned())
            }
            Some(row) if !row.module.is_empty() => {
                let module = file_name(&row.module).to_owned();
                (format!("{module}+{:#x}", row.module_offset), String::new(), 0, module)
            }
            _ => ("[code in no file]".to_owned(), String::new(), 0, "[jit]".to_owned()),
        };
        let line = lines.entry((function, file, line, module)).or_default();
        for (&group, count) in by_group {
            let sum = line.entry(group).or_default();
            sum.samples += count.samples;
            sum.cost += count.cost;
            sum.reads += count.reads;
            sum.writes += count.writes;
            sum.rows += count.rows;
            sum.without_basis += count.without_basis;
        }
    }
    let mut lines: Vec<Line> = lines
        .into_iter()
        .map(|((function, file, line, module), by_group)| {
            let mut all = Count::default();
            for count in by_group.values() {
                all.samples += count.samples;
                all.cost += count.cost;
                all.reads += count.reads;
                all.writes += count.writes;
                all.without_basis += count.without_basis;
            }
            let mut objects: Vec<(i64, usize)> =
                by_group.iter().filter_map(|(group, count)| Some((count.cost, *ids.get(group.as_ref()?)?))).collect();
            objects.sort_by_key(|&(cost, id)| (-cost, id));
            Line {
                function,
                file,
                line: line.max(0) as u32,
                module,
                cost: Cost {
                    seconds: all.cost as f64 / 1e9,
                    share: ratio(all.cost as f64, counters.data.cost as f64),
                    error: share_error(all.samples, counters.data.samples),
                },
                accesses: Accesses {
                    reads: all.reads,
                    writes: all.writes,
                    share: ratio(all.accesses(), counters.data.accesses()),
                    error: None,
                    basis: counters.accuracy.as_ref().map(|_| 1.0 - ratio(all.without_basis, all.accesses())),
                },
                objects: objects.into_iter().take(OBJECTS).map(|(_, id)| id).collect(),
            }
        })
        .collect();
    lines.sort_by(|a, b| {
        b.cost
            .share
            .total_cmp(&a.cost.share)
            .then_with(|| (&a.file, a.line, &a.function, &a.module).cmp(&(&b.file, b.line, &b.function, &b.module)))
    });
    lines
}
