//! Pages of one object or of all.

use numamma_findings::{Detail, Object, Page, share_error};

use super::{Cut, Selection, is_exact};
use crate::error::ReportError;
use crate::options::Sort;

/// A share of a page that may be off by more says nothing.
const MOST_ERROR: f64 = 0.25;

/// One page of an object.
pub struct PageRow<'a> {
    /// The object.
    pub object: &'a Object,
    /// Unit that `page.page` counts, and its bytes.
    pub detail: &'a Detail,
    /// The page.
    pub page: &'a Page,
    /// True if accesses were counted one by one.
    pub exact: bool,
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

    /// The owner's share of the accesses and the half-width of its 95 % interval, if there are enough samples to tell.
    pub fn owner_share(&self) -> Option<(f64, f64)> {
        let total: f64 = self.page.by_thread.values().map(|n| super::finite(*n)).sum();
        let owner = self.page.by_thread.get(&self.page.owner?)?;
        let share = (total > 0.0).then(|| super::finite(*owner) / total)?;
        let samples = self.page.samples;
        let error = match self.exact {
            true => 0.0,
            false => share_error((share * samples as f64).round() as u64, samples)?,
        };
        (error <= MOST_ERROR).then_some((share, error))
    }
}

impl<'a> Selection<'a> {
    /// Pages, most samples first, or most accesses that reach memory: a page carries no cost of its own.
    pub fn pages(&self) -> Result<Cut<PageRow<'a>>, ReportError> {
        let rows = self.scope().filter_map(|object| Some((object, object.detail.as_ref()?)));
        let exact = is_exact(self.findings);
        let rows: Vec<_> = rows
            .flat_map(|(object, detail)| detail.pages.iter().map(move |page| PageRow { object, detail, page, exact }))
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
