! A common block whose members are split among the threads in blocks.
! u is read and written, v is read: 2/3 and 1/3 of the accesses.
subroutine sweep
  implicit none
  integer, parameter :: n = 524288 ! 4 MiB a member
  double precision :: u(n), v(n)
  common /field/ u, v
  integer :: i
  !$omp parallel do schedule(static)
  do i = 1, n
    u(i) = u(i) * 0.5d0 + v(i)
  end do
end subroutine sweep

subroutine fill
  implicit none
  integer, parameter :: n = 524288
  double precision :: u(n), v(n)
  common /field/ u, v
  integer :: i
  !$omp parallel do schedule(static)
  do i = 1, n
    u(i) = 2
    v(i) = 1
  end do
end subroutine fill

program fcommon
  implicit none
  integer, parameter :: n = 524288
  double precision :: u(n), v(n)
  common /field/ u, v
  character(len=32) :: argument
  double precision :: seconds, start, now
  interface
    subroutine say_cpu_times() bind(c)
    end subroutine
  end interface
  integer :: i

  seconds = 1.5d0
  if (command_argument_count() >= 1) then
    call get_command_argument(1, argument)
    read (argument, *) seconds
  end if
  call fill
  ! cpu_time is that of all threads together
  call cpu_time(start)
  now = start
  do while (now - start < 2 * seconds)
    do i = 1, 4
      call sweep
    end do
    call cpu_time(now)
  end do
  call say_cpu_times
  do i = 1, n
    if (u(i) /= 2) stop 3 ! 2 is a fixed point
  end do
  print '(a)', 'fcommon ok'
end program fcommon
