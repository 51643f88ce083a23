//! One HTML file that holds the report and the views of it, and that opens offline.
//!
//! ```text
//! web/ --npm run build--> web/dist/view.html --build.rs--> VIEW --render--> head | <script id="data"> | tail
//! ```
//! The data is the report in [`numamma_findings`] with the details of its objects as columns, which are a tenth as long as
//! records and compress better. `web/src/data/decode.ts` reads them; `web/test/packed.json` is checked by the tests of both, and so is
//! `web/test/placement.json`, the section about placement.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use numamma_findings::{Detail, Findings, Instance, Page, PlacementPage, Point};
use serde::Serialize;

const VIEW: &str = include_str!(concat!(env!("OUT_DIR"), "/view.html"));
const DATA_MARK: &str = "<!--numamma:data-->";

/// From here on compression saves more than the browser needs to undo it. Smaller reports stay readable in the file.
const COMPRESS_FROM: usize = 256 * 1024;

/// Why there is no HTML report.
#[derive(Debug, thiserror::Error)]
pub enum HtmlError {
    /// `web/dist/view.html` was not there when this crate was built.
    #[error("built without the web view: run `make web` and rebuild")]
    NotBuilt,
    /// The file cannot be written.
    #[error("cannot write the HTML report: {0}")]
    Write(#[from] io::Error),
    /// The report cannot be expressed as JSON.
    #[error("cannot encode the report: {0}")]
    Encode(#[from] serde_json::Error),
}

/// True if the web view was there when this crate was built.
pub const fn available() -> bool {
    !VIEW.is_empty()
}

/// Bytes from the start of a file that [`is_page`] needs.
pub const HEAD: usize = 1024;

/// True if a file that begins with `head` is a page that [`render`] wrote, in any version.
pub fn is_page(head: &[u8]) -> bool {
    const TITLE: &[u8] = b"<title>NumaMMA</title>";
    head.starts_with(b"<!doctype html>") && head.windows(TITLE.len()).any(|bytes| bytes == TITLE)
}

/// Writes the report of `findings` as one HTML file. Objects show their pages and samples if their `detail` is filled.
pub fn render(findings: &Findings, placement: &PlacementPage, out: &mut dyn Write) -> Result<(), HtmlError> {
    let (head, tail) = VIEW.split_once(DATA_MARK).ok_or(HtmlError::NotBuilt)?;
    out.write_all(head.as_bytes())?;
    write_data(findings, placement, out)?;
    out.write_all(tail.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn write_data(findings: &Findings, placement: &PlacementPage, out: &mut dyn Write) -> Result<(), HtmlError> {
    let json = serde_json::to_string(&Payload::new(findings, placement))?;
    if json.len() < COMPRESS_FROM {
        write!(out, r#"<script type="application/json" id="data">{}</script>"#, escape(&json))?;
    } else {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::new(7));
        gzip.write_all(json.as_bytes())?;
        out.write_all(br#"<script type="application/octet-stream" id="data" data-encoding="gzip">"#)?;
        out.write_all(base64(&gzip.finish()?).as_bytes())?;
        out.write_all(b"</script>")?;
    }
    Ok(())
}

/// JSON that cannot end its script element nor open a comment in it, whatever its strings hold. All three characters occur
/// in JSON only inside strings, where they may be written as escapes; U+2028 and U+2029 end lines in old JavaScript.
fn escape(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |i| u32::from(*three.get(i).unwrap_or(&0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= three.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[derive(Serialize)]
struct Payload<'a> {
    findings: Findings,
    /// By object id.
    details: BTreeMap<usize, PackedDetail>,
    placement: &'a PlacementPage,
}

impl<'a> Payload<'a> {
    fn new(findings: &Findings, placement: &'a PlacementPage) -> Self {
        let mut findings = findings.clone();
        let details = findings
            .objects
            .iter_mut()
            .filter_map(|object| object.detail.take().map(|detail| (object.id, PackedDetail::new(detail))))
            .collect();
        Self { findings, details, placement }
    }
}

#[derive(Serialize)]
struct PackedDetail {
    page_bytes: u64,
    page_basis: String,
    points_of: u64,
    span_bytes: u64,
    instances: Vec<Instance>,
    instances_of: u64,
    pages: PackedPages,
    points: PackedPoints,
}

impl PackedDetail {
    fn new(detail: Detail) -> Self {
        Self {
            page_bytes: detail.page_bytes,
            page_basis: detail.page_basis,
            points_of: detail.points_of,
            span_bytes: detail.span_bytes,
            instances: detail.instances,
            instances_of: detail.instances_of,
            pages: PackedPages::new(detail.pages),
            points: PackedPoints::new(detail.points),
        }
    }
}

/// -1 stands for an unknown node or thread.
#[derive(Default, Serialize)]
struct PackedPages {
    /// Difference from the page before.
    page: Vec<u64>,
    node: Vec<i32>,
    owner: Vec<i64>,
    first: Vec<i64>,
    samples: Vec<u64>,
    /// How many of `thread` and `value` belong to each page.
    entries: Vec<usize>,
    thread: Vec<usize>,
    value: Vec<f64>,
}

impl PackedPages {
    fn new(mut pages: Vec<Page>) -> Self {
        let number = |thread: Option<usize>| thread.map_or(-1, |n| n as i64);
        pages.sort_by_key(|page| page.page);
        let mut packed = Self::default();
        let mut before = 0;
        // As the tables beside it: cost, or accesses where they were counted.
        let by_cost = pages.iter().any(|page| !page.cost_by_thread.is_empty());
        for page in pages {
            let by_thread = if by_cost { page.cost_by_thread } else { page.by_thread };
            packed.page.push(page.page - before);
            before = page.page;
            packed.node.push(page.node.unwrap_or(-1));
            packed.owner.push(number(page.owner));
            packed.first.push(number(page.first_touch_thread));
            packed.samples.push(page.samples);
            packed.entries.push(by_thread.len());
            for (thread, n) in by_thread {
                packed.thread.push(thread);
                packed.value.push(rounded(n));
            }
        }
        packed
    }
}

#[derive(Default, Serialize)]
struct PackedPoints {
    /// Microseconds since the point before; the first one's since the start of the recording.
    t_us: Vec<u64>,
    offset: Vec<u64>,
    thread: Vec<usize>,
    /// One character per point: `1` is a write, `0` a read.
    write: String,
}

impl PackedPoints {
    fn new(mut points: Vec<Point>) -> Self {
        points.sort_by(|a, b| a.t.total_cmp(&b.t));
        let mut packed = Self::default();
        let mut before = 0;
        for point in points {
            let now = (point.t.max(0.0) * 1e6).round() as u64;
            packed.t_us.push(now.saturating_sub(before));
            before = now.max(before);
            packed.offset.push(point.offset);
            packed.thread.push(point.thread);
            packed.write.push(if point.write { '1' } else { '0' });
        }
        packed
    }
}

/// Three decimals: estimates are no better, and their digits are most of the file.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use numamma_findings::Object;

    fn sample() -> Findings {
        let page = |page, node, owner, first, by_thread: &[(usize, f64)]| Page {
            page,
            instance: None,
            node,
            owner,
            samples: by_thread.len() as u64,
            by_thread: by_thread.iter().copied().collect(),
            first_touch_thread: first,
            cost_by_thread: BTreeMap::new(),
            memory: None,
        };
        let point = |t, offset, thread, write| Point { t, offset, thread, write };
        let detail = Detail {
            page_bytes: 4096,
            page_basis: "offset".to_owned(),
            pages: vec![page(7, None, None, Some(1), &[]), page(2, Some(1), Some(3), None, &[(0, 1.0), (3, 2.50049)])],
            points: vec![point(0.5, 28672, 1, true), point(0.25, 8200, 3, false)],
            points_of: 10,
            span_bytes: 32768,
            instances: Vec::new(),
            instances_of: 1,
        };
        let object = Object {
            id: 4,
            name: "a</script><!--\u{2028}&".to_owned(),
            kind: "static".to_owned(),
            detail: Some(detail),
            ..Object::default()
        };
        Findings { version: numamma_findings::VERSION, objects: vec![object], ..Findings::default() }
    }

    #[test]
    fn packs_details_as_the_web_view_reads_them() {
        let expected: serde_json::Value =
            serde_json::from_str(include_str!("../../../web/test/packed.json")).expect("packed.json is JSON");
        let packed =
            serde_json::to_value(Payload::new(&sample(), &PlacementPage::default()).details).expect("columns are JSON");
        assert_eq!(packed, expected, "got {packed}");
    }

    #[test]
    fn placement_has_the_fields_that_the_web_view_knows() {
        let expected: serde_json::Value =
            serde_json::from_str(include_str!("../../../web/test/placement.json")).expect("placement.json is JSON");
        let page: PlacementPage = serde_json::from_value(expected.clone()).expect("all fields are there");
        let written = serde_json::to_value(page).expect("placement is JSON");
        assert!(
            written == expected,
            "web/test/placement.json has other fields: {:#}",
            written["advice"]["plan"]["objects"][0]
        );
    }

    #[test]
    fn no_string_can_leave_the_script_element() {
        let mut out = Vec::new();
        write_data(&sample(), &PlacementPage::default(), &mut out).expect("memory can be written");
        let text = String::from_utf8(out).expect("UTF-8");
        let json = text
            .strip_prefix(r#"<script type="application/json" id="data">"#)
            .and_then(|rest| rest.strip_suffix("</script>"))
            .expect("one script element");
        assert!(!json.contains(['<', '>', '&', '\u{2028}']), "{json}");
        let back: serde_json::Value = serde_json::from_str(json).expect("still JSON");
        assert_eq!(back["findings"]["objects"][0]["name"], sample().objects[0].name);
    }

    #[test]
    fn large_reports_are_compressed() {
        let mut findings = sample();
        let points = (0..100_000u64).map(|i| Point {
            t: i as f64 * 1e-4,
            offset: i * 7919 % 32768,
            thread: (i % 5) as usize,
            write: i % 3 == 0,
        });
        findings.objects[0].detail.as_mut().expect("has a detail").points = points.collect();
        let mut out = Vec::new();
        write_data(&findings, &PlacementPage::default(), &mut out).expect("memory can be written");
        assert!(out.starts_with(br#"<script type="application/octet-stream" id="data" data-encoding="gzip">H4sI"#));
        assert!(out.len() < 1_000_000, "{} bytes", out.len());
    }

    #[test]
    fn base64_pads() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, coded) in cases {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn says_what_to_do_when_the_view_was_not_built() {
        let mut out = Vec::new();
        match render(&Findings::default(), &PlacementPage::default(), &mut out) {
            Ok(()) => {
                assert!(available() && out.ends_with(b"</html>\n"));
                assert!(is_page(&out[..HEAD]) && !is_page(b"<!doctype html><title>Mine</title>"));
            }
            Err(error) => {
                assert!(!available());
                assert_eq!(error.to_string(), "built without the web view: run `make web` and rebuild");
            }
        }
    }
}
