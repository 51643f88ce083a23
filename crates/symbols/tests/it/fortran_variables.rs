//! Module variables, saved variables and common blocks of Fortran.

use numamma_symbols::{Module, VariableKind};

use crate::support::{Workshop, have, nm};

const PROGRAM: &str = r#"
module fields
  implicit none
  real(8) :: density(100,50)
  integer, save :: steps = 3
  real(8), allocatable :: later(:)
contains
  subroutine fill()
    integer, save :: calls = 0
    real(8) :: a(10)
    integer :: b
    common /shared/ a, b
    calls = calls + 1
    density = calls
    a = 1.0; b = steps
  end subroutine
end module
subroutine outside(n)
  integer :: n
  real(8), save :: kept(20)
  integer :: z(5)
  common z
  kept = n
  z = int(kept(1))
end subroutine
program test
  use fields
  implicit none
  integer, save :: local(10)
  real(8) :: x(10)
  integer :: y
  common /shared/ x, y
  local = 2
  call fill()
  call outside(3)
  print *, x(1), y, sum(local), density(1,1)
end program
"#;

#[test]
fn names_are_those_of_the_source() {
    if !have(&["gfortran", "nm"]) {
        return;
    }
    let workshop = Workshop::new();
    for flags in [&["-gdwarf-5"][..], &["-gdwarf-4", "-no-pie"], &["-g", "-O2"], &[]] {
        let program = workshop.compile("t.f90", PROGRAM, "t", flags);
        let module = Module::open(&program).unwrap();
        let debug = !flags.is_empty();
        let symbols = nm(&program, &[]);
        let find = |symbol: &str| {
            let place = symbols
                .iter()
                .find(|known| known.name.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit()) == symbol)
                .unwrap_or_else(|| panic!("nm has no {symbol}"));
            let variable = module.data_at(place.address + place.size / 2).unwrap();
            assert_eq!((variable.address, variable.size), (place.address, place.size), "{symbol}");
            variable
        };
        assert_eq!(find("__fields_MOD_density").name, "fields::density");
        assert_eq!(find("__fields_MOD_steps").name, "fields::steps");
        assert_eq!(find("__fields_MOD_later").name, "fields::later");
        let blank = find("__BLNK__");
        assert_eq!((blank.name.as_str(), blank.kind), ("//", VariableKind::CommonBlock));
        if !debug {
            assert_eq!(find("shared_").name, "shared_");
            continue;
        }
        let density = find("__fields_MOD_density");
        assert_eq!(density.element.as_ref().unwrap().dimensions, [100, 50]);
        assert_eq!(density.element.as_ref().unwrap().size, 8);
        let shared = find("shared_");
        assert_eq!((shared.name.as_str(), shared.kind), ("/shared/", VariableKind::CommonBlock));
        let members: Vec<_> =
            shared.members.iter().map(|member| (member.name.as_str(), member.offset, member.size)).collect();
        assert_eq!(members, [("a", 0, 80), ("b", 80, 4)], "{flags:?}");
        assert_eq!(shared.member_at(83).unwrap().name, "b");
        assert_eq!(find("kept").name, "outside::kept", "{flags:?}");
        if !flags.contains(&"-O2") {
            assert_eq!(find("calls").name, "fields::fill::calls");
            assert_eq!(find("local").name, "test::local");
        }
    }
}

#[test]
fn equivalent_variables_share_an_object() {
    if !have(&["gfortran"]) {
        return;
    }
    let source = "program p\nreal(8), save :: a(100), b(50)\ninteger, save :: c(20)\n\
                  equivalence (a(1), b(1)), (a(60), c(1))\na = 1\nprint *, b(2), c(3)\nend program\n";
    let workshop = Workshop::new();
    let module = Module::open(workshop.compile("e.f90", source, "e", &["-g"])).unwrap();
    let shared = module.variables().find(|variable| variable.size == 800).unwrap();
    assert_eq!(shared.name, "p::a");
    let mut members: Vec<_> =
        shared.members.iter().map(|member| (member.name.as_str(), member.offset, member.size)).collect();
    members.sort_unstable();
    assert_eq!(members, [("a", 0, 800), ("b", 0, 400), ("c", 472, 80)]);
}
