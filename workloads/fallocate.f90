! Three arrays from one allocate statement: one line, three objects.
program fallocate
  implicit none
  integer, parameter :: n = 131072 ! 1 MiB
  double precision, allocatable :: a(:), b(:), c(:)
  double precision :: seconds, now, end
  character(len=32) :: argument

  seconds = 1.5d0
  if (command_argument_count() >= 1) then
    call get_command_argument(1, argument)
    read (argument, *) seconds
  end if
  allocate (a(n), b(n), c(2 * n)) ! site: arrays
  a = 2
  b = 2
  c = 2
  call cpu_time(end)
  call sweep_for(a, 0.5d0 * seconds)
  call sweep_for(b, 0.3d0 * seconds)
  call sweep_for(c, 0.2d0 * seconds)
  if (a(1) /= 2 .or. b(n) /= 2 .or. c(n) /= 2) stop 3
  print '(a)', 'fallocate ok'
contains
  subroutine sweep_for(x, part)
    double precision, intent(inout) :: x(:)
    double precision, intent(in) :: part
    integer :: i, k
    end = end + part
    now = 0
    do while (now < end)
      do k = 1, 4
        do i = 1, size(x)
          x(i) = x(i) * 0.5d0 + 1
        end do
      end do
      call cpu_time(now)
    end do
  end subroutine
end program fallocate
