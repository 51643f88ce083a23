//! Pages of one object or of all.

use numamma_findings::{Detail, Object, Page};

use super::{Cut, Selection};
use crate::error::ReportError;
use crate::options::Sort;

/// One page of an object.
pub struct PageRow<'a> {
    /// The object.
    pub object: &'a Object,
    /// What `page.page` counts, and in which bytes.
    pub detail: &'a Detail,
    /// The page.
    pub page: &'a Page,
}

impl PageRow<'_> {
    /// Number of the page from the first one of its instance; `None` if pages are told by address.
    pub fn in_instance(&self) -> Option<u64> {
        match (self.detail.page_basis.as_str(), self.page.instance) {
            ("offset", _) => Some(self.page.page),
            (_, Some(instance)) => {
                let first = self.detail.instances.iter().find(|of| of.instance == instance)?.first_page?;
                self.page.page.checked_sub(first)
            }
            _ => None,
        }
    }

    /// The owner's share of the accesses, if it has one.
    pub fn owner_share(&self) -> Option<f64> {
        let total: f64 = self.page.by_thread.values().map(|n| super::finite(*n)).sum();
        let owner = self.page.by_thread.get(&self.page.owner?)?;
        (total > 0.0).then(|| super::finite(*owner) / total)
    }
}

impl<'a> Selection<'a> {
    /// Pages, most samples first, or most accesses that reach memory: a page carries no cost of its own.
    pub fn pages(&self) -> Result<Cut<PageRow<'a>>, ReportError> {
        let rows = self.scope().filter_map(|object| Some((object, object.detail.as_ref()?)));
        let rows: Vec<_> = rows
            .flat_map(|(object, detail)| detail.pages.iter().map(move |page| PageRow { object, detail, page }))
            .collect();
        if rows.is_empty() && self.scope().any(|object| object.detail.is_none()) {
            return Err(ReportError::NoDetail);
        }
        Ok(self.order(rows, |row| match self.options.sort {
            Sort::Memory => row.page.memory.unwrap_or_default(),
            _ => row.page.samples as f64,
        }))
    }
}
