//! From what a user typed to an object.

use numamma_findings::{CallSite, Findings, Object};

use crate::error::ReportError;
use crate::text::call_site;

/// Candidates that an error names.
const NAMED: usize = 5;

/// Finds an object by its exact name, else by `#id`, else by a part of its name that no other object has (upper and lower
/// case apart, else alike), else by a part of its call site. Returns the index into [`Findings::objects`].
pub fn find_object(findings: &Findings, name: &str) -> Result<usize, ReportError> {
    let objects = &findings.objects;
    let id = name.strip_prefix('#').and_then(|digits| digits.parse::<usize>().ok());
    let lower = name.to_lowercase();
    let ways: [&dyn Fn(&Object) -> bool; 5] = [
        &|object| object.name == name,
        &|object| Some(object.id) == id,
        &|object| !name.is_empty() && object.name.contains(name),
        &|object| !name.is_empty() && object.name.to_lowercase().contains(&lower),
        &|object| !name.is_empty() && object.site.as_ref().is_some_and(|site| is_at(site, name)),
    ];
    for fits in ways {
        let hits: Vec<usize> = (0..objects.len()).filter(|&index| fits(&objects[index])).collect();
        match hits[..] {
            [] => {}
            [index] => return Ok(index),
            _ => {
                return Err(ReportError::AmbiguousObject {
                    name: name.to_string(),
                    candidates: hits.iter().take(NAMED).map(|&index| candidate(&objects[index])).collect(),
                    count: hits.len(),
                });
            }
        }
    }
    Err(ReportError::NoObject { name: name.to_string(), near: nearest(objects, &lower) })
}

/// True if a call site has that part, with the folders of its file or without.
fn is_at(site: &CallSite, part: &str) -> bool {
    let file = site.file.rsplit('/').next().unwrap_or_default();
    let short = CallSite { file: file.into(), ..site.clone() };
    call_site(site).contains(part) || call_site(&short).contains(part)
}

/// An object as an error names it: objects of one name differ in number, kind and module.
fn candidate(object: &Object) -> String {
    let place = object.module.as_deref().map(|module| format!(" in {module}")).unwrap_or_default();
    format!("#{} {} ({}{place})", object.id, crate::text::clean(&object.name, true), object.kind)
}

/// The most similar names. A site `main matrix.c:12` is as near as the nearest of its words, since nobody types it whole.
fn nearest(objects: &[Object], lower: &str) -> Vec<String> {
    let similarity = |object: &Object| {
        let name = object.name.to_lowercase();
        let parts = name.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|part| !part.is_empty());
        parts.chain([name.as_str()]).map(|part| strsim::jaro_winkler(part, lower)).fold(0.0, f64::max)
    };
    let mut scored: Vec<(f64, &Object)> = objects.iter().map(|object| (similarity(object), object)).collect();
    scored.retain(|(score, _)| *score > 0.6);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    // Of names that have nothing in common with any, the first objects say what names look like.
    if scored.is_empty() {
        scored.extend(objects.iter().map(|object| (0.0, object)));
    }
    scored
        .iter()
        .take(NAMED)
        .map(|(_, object)| format!("#{} {}", object.id, crate::text::clean(&object.name, true)))
        .collect()
}
