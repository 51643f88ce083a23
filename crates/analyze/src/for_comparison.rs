//! Input of a comparison with another recording: objects by what does not change from run to run, pages with owners.

use numamma_findings::{ForComparison, Identity, NoPages, ObjectForComparison, OwnedPage, RemoteSamples};
use numamma_trace::{ObjectKind, TraceError};
use rustc_hash::FxHashMap;

use crate::Analysis;
use crate::counters::{GroupCount, most};
use crate::detail::pages_by_group;
use crate::groups::{Group, file_name};
use crate::pages::PageNodes;
use crate::summary::{Tables, order};

/// Makes it, with the objects in the order of the findings.
pub fn for_comparison(analysis: &Analysis<'_>) -> Result<ForComparison, TraceError> {
    let Analysis { tables, groups, counters, touches, .. } = analysis;
    let nodes = PageNodes::read(analysis.dataset, tables, groups)?;
    // The findings depend on the pages that were only touched, too.
    let order = order(groups, counters, &pages_by_group(tables, groups, counters, touches, &nodes));
    let objects = order.iter().map(|&number| {
        let (group, count) = (&groups.groups[number as usize], &counters.groups[number as usize]);
        ObjectForComparison {
            identity: identity(tables, group),
            remote: RemoteSamples {
                remote: count.remote_reads + count.remote_writes,
                known: count.located,
                samples: count.located_samples,
            },
            pages: pages(group, count, tables.page_bytes),
        }
    });
    let positions: FxHashMap<i32, usize> =
        tables.processes.iter().enumerate().map(|(position, row)| (row.process, position)).collect();
    Ok(ForComparison {
        processes: tables.processes.iter().map(|row| file_name(&row.command).to_owned()).collect(),
        // A recording that was cut short may lack a process: none has that position.
        threads: tables.threads.iter().map(|row| positions.get(&row.process).copied().unwrap_or(usize::MAX)).collect(),
        recorded: counters.recorded,
        data_samples: counters.data.samples,
        data_cost_s: counters.data.cost as f64 / 1e9,
        data_accesses: counters.data.accesses(),
        objects: objects.collect(),
    })
}

fn identity(tables: &Tables, group: &Group) -> Identity {
    let kind = group.kind_name().to_owned();
    let Some(site) = group.site else {
        let module = group.module.clone().unwrap_or_default();
        return Identity { kind, name: group.name.clone(), module, offset: group.module_offset, site: None };
    };
    let frame = tables.site_frame(site).filter(|frame| !frame.module.is_empty());
    Identity {
        kind,
        name: tables.variable(site).unwrap_or_default().to_owned(),
        module: frame.map_or(String::new(), |frame| file_name(&frame.module).to_owned()),
        offset: frame.map_or(0, |frame| frame.module_offset),
        site: Some(tables.call_site(site)),
    }
}

fn pages(group: &Group, count: &GroupCount, page_bytes: u64) -> Result<Vec<OwnedPage>, NoPages> {
    if matches!(group.kind, ObjectKind::Stack | ObjectKind::Tls) {
        return Err(NoPages::OfThread);
    }
    // One mapping, or the break, is the same in each run; of several nobody knows which is which.
    if group.is_unknown_objects() && group.instances > 1 {
        return Err(NoPages::NotTracked);
    }
    if group.touched > 1 {
        let small = group.bytes < page_bytes;
        return Err(if small { NoPages::SmallInstances } else { NoPages::SeveralInstances });
    }
    let owned = count.pages.iter().filter_map(|(key, page)| {
        Some(OwnedPage {
            page: key.page,
            thread: page.users.owner()?,
            node: most(&page.by_node),
            accesses: page.users.threads.iter().map(|of| of.accesses).sum(),
        })
    });
    let mut owned: Vec<OwnedPage> = owned.collect();
    owned.sort_by_key(|page| page.page);
    Ok(owned)
}
