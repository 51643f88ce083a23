! Annotations for NumaMMA, for Fortran: compile this file and numamma_fortran.c with the program. What they mean is said in numamma.h.
!
!     use numamma
!     call numamma_label(grid, "grid")
!     call numamma_phase("solve")
module numamma
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: numamma_label, numamma_unlabel, numamma_phase, numamma_begin, numamma_end

  interface
    ! An array of any type and rank, or part of one: from its first byte to its last.
    subroutine numamma_label(array, name) bind(c, name="numamma_fortran_label")
      import
      type(*), dimension(..), intent(in) :: array
      character(kind=c_char, len=*), intent(in) :: name
    end subroutine
    ! The array that was named.
    subroutine numamma_unlabel(array) bind(c, name="numamma_fortran_unlabel")
      type(*), dimension(..), intent(in) :: array
    end subroutine
    ! An empty name: no phase is left.
    subroutine numamma_phase(name) bind(c, name="numamma_fortran_phase")
      import
      character(kind=c_char, len=*), intent(in) :: name
    end subroutine
    subroutine numamma_begin() bind(c, name="numamma_fortran_begin")
    end subroutine
    subroutine numamma_end() bind(c, name="numamma_fortran_end")
    end subroutine
  end interface
end module
