//! Which objects and combinations a user can ask for.

mod common;

use numamma_report::{Access, By, Details, Options, ReportError, Sort, details_needed, find_object, render};

#[test]
fn by_name_number_or_part() {
    let mut findings = common::findings();
    assert_eq!(find_object(&findings, "coefficients").unwrap(), 1);
    assert_eq!(find_object(&findings, "#3").unwrap(), 3);
    assert_eq!(find_object(&findings, "read_in").unwrap(), 2);
    assert_eq!(find_object(&findings, "GRID<").unwrap(), 0);
    // By where it was allocated, whatever it is called.
    findings.objects[2].name = "input".into();
    assert_eq!(find_object(&findings, "read_input main.cpp:112").unwrap(), 2);
    assert_eq!(find_object(&findings, "main.cpp:112").unwrap(), 2);
    // An exact name wins over longer names that contain it.
    findings.objects[3].name = "coefficients_old".into();
    assert_eq!(find_object(&findings, "coefficients").unwrap(), 1);
}

#[test]
fn ambiguous_names_list_the_candidates() {
    let mut findings = common::findings();
    findings.objects[3].name = "coefficients".into();
    findings.objects[3].module = Some("libghost.so".into());
    let message = find_object(&findings, "coefficients").unwrap_err().to_string();
    let expected = "'coefficients' fits 2 objects: #1 coefficients (static in stencil), #3 coefficients (static in \
                    libghost.so); choose one with --object '#NUMBER'";
    assert_eq!(message, expected);
    findings.objects = (0..9).map(|id| common::object(id, &format!("buffer{id}"), "static", 8, 0.1, &[1.0])).collect();
    let message = find_object(&findings, "buffer").unwrap_err().to_string();
    assert!(
        message.starts_with("'buffer' fits 9 objects: #0 buffer0 (static), ") && message.contains(", ...;"),
        "{message}"
    );
}

#[test]
fn unknown_names_list_the_nearest() {
    let findings = common::findings();
    let message = find_object(&findings, "coeficients").unwrap_err().to_string();
    assert!(message.starts_with("no object 'coeficients'; nearest: #1 coefficients"), "{message}");
    let message = find_object(&findings, "reed_input").unwrap_err().to_string();
    assert!(message.contains("nearest: #2 read_input"), "{message}");
    assert!(!message.contains('\n'));
    let message = find_object(&findings, "%%%").unwrap_err().to_string();
    assert!(
        message.starts_with("no object '%%%'; nearest: #0 Grid"),
        "the first ones say what names look like: {message}"
    );
    let message = find_object(&numamma_findings::Findings::default(), "%%%").unwrap_err().to_string();
    assert_eq!(message, "no object '%%%'; `numamma report DIR` lists the objects");
    assert!(matches!(find_object(&findings, ""), Err(ReportError::NoObject { .. })));
    assert!(matches!(find_object(&findings, "#99"), Err(ReportError::NoObject { .. })));
}

#[test]
fn combinations_without_an_answer_say_so() {
    let findings = common::findings();
    let refused = [
        Options { by: By::Thread, sort: Sort::Remote, ..Options::default() },
        Options { by: By::Page, access: Access::Read, ..Options::default() },
    ];
    for options in refused {
        let error = render(&findings, &options, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, ReportError::Unsupported { .. }), "{error}");
        assert!(details_needed(&findings, &options).is_err());
    }
}

#[test]
fn pages_need_details() {
    let mut findings = common::findings();
    let pages = Options { by: By::Page, ..Options::default() };
    assert_eq!(details_needed(&findings, &pages).unwrap(), Details::All);
    let one = Options { object: Some("Grid".into()), ..Options::default() };
    assert_eq!(details_needed(&findings, &one).unwrap(), Details::One(0));
    assert_eq!(details_needed(&findings, &Options::default()).unwrap(), Details::None);
    findings.objects[0].detail = None;
    assert!(matches!(render(&findings, &pages, &mut Vec::new()), Err(ReportError::NoDetail)));
    assert!(render(&findings, &one, &mut Vec::new()).is_ok(), "the rest of the object is still worth showing");
}

#[test]
fn a_reader_that_goes_away_is_told_apart() {
    struct Gone;
    impl std::io::Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for format in ["text", "json", "csv"] {
        let options = Options { format: format.parse().unwrap(), ..Options::default() };
        assert!(render(&common::findings(), &options, &mut Gone).unwrap_err().is_broken_pipe(), "{format}");
    }
}
