//! Time in loops that wait for another thread, by thread and source line.

use numamma_findings::{Waiting, WaitingPlace};
use rustc_hash::FxHashMap;

use crate::counters::Counters;
use crate::groups::short_function;
use crate::statistics::ratio;
use crate::summary::Tables;

/// Where the threads waited; none if they did not.
pub fn waiting(tables: &Tables, counters: &Counters) -> Option<Waiting> {
    let mut places: FxHashMap<(i32, String, String, i32), i64> = FxHashMap::default();
    for (&(thread, process, ip), &cost) in &counters.waiting {
        let (function, file, line) = match tables.code(process, ip) {
            Some(row) if row.function.is_empty() => {
                (crate::groups::file_name(&row.module).to_owned(), String::new(), 0)
            }
            Some(row) => (short_function(&row.function).to_owned(), row.file.clone(), row.line),
            None => Default::default(),
        };
        *places.entry((thread, function, file, line)).or_default() += cost;
    }
    let of_thread = |thread: &i32| counters.time.get(thread).copied().unwrap_or_default() as f64;
    let seconds: f64 = places.values().map(|&cost| cost as f64 / 1e9).sum();
    let all: f64 = counters.time.values().map(|&cost| cost as f64 / 1e9).sum();
    let mut places: Vec<WaitingPlace> = places
        .into_iter()
        .map(|((thread, function, file, line), cost)| WaitingPlace {
            thread: thread.max(0) as usize,
            function,
            file,
            line: line.max(0) as u32,
            seconds: cost as f64 / 1e9,
            share: ratio(cost as f64, of_thread(&thread)),
        })
        .collect();
    places.sort_by(|a, b| {
        let place = |of: &WaitingPlace| (of.thread, of.function.clone(), of.file.clone(), of.line);
        b.seconds.total_cmp(&a.seconds).then_with(|| place(a).cmp(&place(b)))
    });
    (seconds > 0.0).then(|| Waiting { seconds, share: ratio(seconds, all), places })
}
