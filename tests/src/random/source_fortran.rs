//! A random program as Fortran.

use std::fmt::Write;

use super::program::{Array, Loop, Program};
use super::source::{clause, content, expand, placeholders};

impl Program {
    /// Arrays count from 0, as in the bodies.
    pub(super) fn fortran(&self) -> String {
        let number = self.number.1;
        let mut text = format!("! seed {}\nmodule arrays\n  implicit none\n", self.seed);
        for array in &self.arrays {
            let (name, of) = (&array.name, self.type_of(array));
            match self.is_static {
                true => writeln!(text, "  {of} :: {name}(0:{})", array.elements - 1).unwrap(),
                false => writeln!(text, "  {of}, allocatable :: {name}(:)").unwrap(),
            }
        }
        write!(text, "  {number} :: total = 0\ncontains\n{}", FUNCTIONS.replace("NUMBER", number)).unwrap();
        for (number, of) in self.loops.iter().enumerate() {
            text += &self.subroutine(number, of);
        }
        text += "end module\nprogram main\n  use arrays\n  use omp_lib\n  integer(8) :: i, j, r, round, rounds\n  integer(4) :: v\n";
        text += "  character(32) :: text\n  real :: seconds\n  call get_command_argument(1, text)\n  read (text, *) rounds\n";
        for array in &self.arrays {
            text += &self.fill_fortran(array);
        }
        writeln!(text, "  do round = 1, rounds\n  !$omp parallel num_threads({})", self.threads).unwrap();
        for (number, of) in self.loops.iter().enumerate() {
            let arguments: Vec<_> = placeholders(self, of).map(|(_, array)| array.name.clone()).collect();
            writeln!(text, "  call loop{number}({})\n  !$omp barrier", arguments.join(", ")).unwrap();
        }
        text += "  !$omp end parallel\n  end do\n  call cpu_time(seconds)\n  print *, seconds, total\nend program\n";
        text
    }

    fn type_of(&self, array: &Array) -> &'static str {
        if array.role == 'd' { self.number.1 } else { "integer(4)" }
    }

    fn fill_fortran(&self, array: &Array) -> String {
        let (name, last) = (&array.name, array.elements - 1);
        let mut text = String::new();
        if !self.is_static {
            writeln!(text, "  allocate({name}(0:{last}))").unwrap();
        }
        if array.role == 'd' && self.touched_by_all {
            writeln!(text, "  !$omp parallel do num_threads({})", self.threads).unwrap();
        }
        let content = content(array).replace("i % 100", "mod(i, 100_8)").replace("i % 7", "mod(i, 7_8)");
        writeln!(text, "  do i = 0, {last}\n    {name}(i) = int({content}, 4)\n  end do").unwrap();
        if array.role == 'x' {
            text += &SHUFFLE.replace("LAST", &last.to_string());
        }
        text
    }

    fn subroutine(&self, number: usize, of: &Loop) -> String {
        let arrays: Vec<(char, &Array)> = placeholders(self, of).collect();
        let names: Vec<String> = arrays.iter().map(|(placeholder, _)| placeholder.to_string()).collect();
        let mut text = format!("subroutine loop{number}({})\n", names.join(", "));
        for (placeholder, array) in &arrays {
            writeln!(text, "  {} :: {placeholder}(0:{})", self.type_of(array), array.elements - 1).unwrap();
        }
        let body = expand(self, of, of.kind.fortran.expect("a body in Fortran"), |name| name.to_string());
        write!(
            text,
            "  integer(8) :: i, j, k, call\n  {} :: s\n  s = 0\n  do call = 1, {}\n  !$omp do {}\n  do i = 0, {}\n {body}\n  end do\n  !$omp end do nowait\n  end do\n  !$omp atomic\n  total = total + s\nend subroutine\n",
            self.number.1,
            of.calls,
            clause(of.schedule).replace("static, ", "static,"),
            of.rounds() - 1
        )
        .unwrap();
        text
    }
}

const FUNCTIONS: &str = "
function element(a, n, i) result(s)
  integer, intent(in) :: n
  NUMBER, intent(in) :: a(0:n - 1)
  integer(8), intent(in) :: i
  NUMBER :: s
  s = a(i)
end function
function sweep(a, n) result(s)
  integer, intent(in) :: n
  NUMBER, intent(in) :: a(0:n - 1)
  NUMBER :: s
  s = sum(a)
end function
";

const SHUFFLE: &str = "  r = 88172645463325252_8
  do i = LAST, 1, -1
    r = ieor(r, ishft(r, 13))
    r = ieor(r, ishft(r, -7))
    r = ieor(r, ishft(r, 17))
    j = mod(iand(r, huge(r)), i)
    v = order(i)
    order(i) = order(j)
    order(j) = v
  end do
";
