//! Integer arithmetic by the processor itself, so that its flags are its own, undefined ones included.
//!
//! Each function executes one instruction on values: `add al, 0x7f` turns the kept overflow flag (0 or 1 in al) into the
//! processor's, `sahf` the others; `lahf` and `seto` take them back (`flags.rs`).

use std::arch::asm;

/// An instruction with two operands, of which it writes the first; flags go in and come out.
macro_rules! two {
    ($name:ident, $code:literal) => {
        #[inline(always)]
        pub fn $name(width: u8, mut a: u64, b: u64, status: &mut u16) -> u64 {
            // SAFETY: arithmetic on registers that are all declared; it cannot fault, and touches neither memory nor stack.
            unsafe {
                match width {
                    1 => two!($code, " {a:l}, {b:l}", a, b, status),
                    2 => two!($code, " {a:x}, {b:x}", a, b, status),
                    4 => two!($code, " {a:e}, {b:e}", a, b, status),
                    _ => two!($code, " {a}, {b}", a, b, status),
                }
            }
            a
        }
    };
    ($code:literal, $operands:literal, $a:ident, $b:ident, $status:ident) => {
        asm!("add al, 0x7f", "sahf", concat!($code, $operands), "lahf", "seto al", a = inout(reg) $a, b = in(reg) $b,
            inout("ax") *$status, options(pure, nomem, nostack))
    };
}

/// The same of an instruction that sets all flags and reads none.
macro_rules! two_fresh {
    ($name:ident, $code:literal) => {
        #[inline(always)]
        pub fn $name(width: u8, mut a: u64, b: u64, status: &mut u16) -> u64 {
            // SAFETY: as above.
            unsafe {
                match width {
                    1 => two_fresh!($code, " {a:l}, {b:l}", a, b, status),
                    2 => two_fresh!($code, " {a:x}, {b:x}", a, b, status),
                    4 => two_fresh!($code, " {a:e}, {b:e}", a, b, status),
                    _ => two_fresh!($code, " {a}, {b}", a, b, status),
                }
            }
            a
        }
    };
    ($code:literal, $operands:literal, $a:ident, $b:ident, $status:ident) => {
        asm!(concat!($code, $operands), "lahf", "seto al", a = inout(reg) $a, b = in(reg) $b, out("ax") *$status,
            options(pure, nomem, nostack))
    };
}

/// An instruction with one operand.
macro_rules! one {
    ($name:ident, $code:literal) => {
        #[inline(always)]
        pub fn $name(width: u8, mut a: u64, status: &mut u16) -> u64 {
            // SAFETY: as above.
            unsafe {
                match width {
                    1 => one!($code, " {a:l}", a, status),
                    2 => one!($code, " {a:x}", a, status),
                    4 => one!($code, " {a:e}", a, status),
                    _ => one!($code, " {a}", a, status),
                }
            }
            a
        }
    };
    ($code:literal, $operand:literal, $a:ident, $status:ident) => {
        asm!("add al, 0x7f", "sahf", concat!($code, $operand), "lahf", "seto al", a = inout(reg) $a,
            inout("ax") *$status, options(pure, nomem, nostack))
    };
}

/// A shift or rotation by the count in cl.
macro_rules! shift {
    ($name:ident, $code:literal) => {
        #[inline(always)]
        pub fn $name(width: u8, mut a: u64, count: u64, status: &mut u16) -> u64 {
            // SAFETY: as above.
            unsafe {
                match width {
                    1 => shift!($code, " {a:l}, cl", a, count, status),
                    2 => shift!($code, " {a:x}, cl", a, count, status),
                    4 => shift!($code, " {a:e}, cl", a, count, status),
                    _ => shift!($code, " {a}, cl", a, count, status),
                }
            }
            a
        }
    };
    ($code:literal, $operands:literal, $a:ident, $count:ident, $status:ident) => {
        asm!("add al, 0x7f", "sahf", concat!($code, $operands), "lahf", "seto al", a = inout(reg) $a, in("rcx") $count,
            inout("ax") *$status, options(pure, nomem, nostack))
    };
}

/// A shift that moves in bits of another register; by the count in cl.
macro_rules! double_shift {
    ($name:ident, $code:literal) => {
        #[inline(always)]
        pub fn $name(width: u8, mut a: u64, b: u64, count: u64, status: &mut u16) -> u64 {
            // SAFETY: as above.
            unsafe {
                match width {
                    2 => double_shift!($code, " {a:x}, {b:x}, cl", a, b, count, status),
                    4 => double_shift!($code, " {a:e}, {b:e}, cl", a, b, count, status),
                    _ => double_shift!($code, " {a}, {b}, cl", a, b, count, status),
                }
            }
            a
        }
    };
    ($code:literal, $operands:literal, $a:ident, $b:ident, $count:ident, $status:ident) => {
        asm!("add al, 0x7f", "sahf", concat!($code, $operands), "lahf", "seto al", a = inout(reg) $a, b = in(reg) $b,
            in("rcx") $count, inout("ax") *$status, options(pure, nomem, nostack))
    };
}

/// As `two`, for instructions without a form for bytes.
macro_rules! two_wide {
    ($name:ident, $code:literal) => {
        #[inline(always)]
        pub fn $name(width: u8, mut a: u64, b: u64, status: &mut u16) -> u64 {
            // SAFETY: as above.
            unsafe {
                match width {
                    2 => two!($code, " {a:x}, {b:x}", a, b, status),
                    4 => two!($code, " {a:e}, {b:e}", a, b, status),
                    _ => two!($code, " {a}, {b}", a, b, status),
                }
            }
            a
        }
    };
}

/// An instruction on rdx:rax and an operand. Gives rax and rdx; of bytes, ax and nothing.
macro_rules! wide {
    ($name:ident, $code:literal) => {
        #[inline(always)]
        pub unsafe fn $name(width: u8, low: u64, high: u64, b: u64, status: &mut u16) -> (u64, u64) {
            let (mut low, mut high) = (low, high);
            let mut flags = u64::from(*status);
            // Flags go through another register, since the operation has rax.
            // SAFETY: as above; that a division does not fault is the caller's part.
            unsafe {
                match width {
                    1 => wide!($code, " {b:l}", low, high, b, flags),
                    2 => wide!($code, " {b:x}", low, high, b, flags),
                    4 => wide!($code, " {b:e}", low, high, b, flags),
                    _ => wide!($code, " {b}", low, high, b, flags),
                }
            }
            *status = flags as u16;
            (low, high)
        }
    };
    ($code:literal, $operand:literal, $low:ident, $high:ident, $b:ident, $flags:ident) => {
        asm!("xchg rax, {flags}", "add al, 0x7f", "sahf", "mov rax, {flags}", concat!($code, $operand),
            "mov {flags}, rax", "lahf", "seto al", "xchg rax, {flags}",
            flags = inout(reg) $flags, b = in(reg) $b, inout("rax") $low, inout("rdx") $high,
            options(pure, nomem, nostack))
    };
}

two_fresh!(add, "add");
two_fresh!(sub, "sub");
two!(adc, "adc");
two!(sbb, "sbb");
two!(and, "and");
two!(or, "or");
two!(xor, "xor");
two!(test, "test");
one!(inc, "inc");
one!(dec, "dec");
one!(neg, "neg");
shift!(shl, "shl");
shift!(shr, "shr");
shift!(sar, "sar");
shift!(rol, "rol");
shift!(ror, "ror");
double_shift!(shld, "shld");
double_shift!(shrd, "shrd");
two_wide!(imul, "imul");
two_wide!(bsf, "bsf");
two_wide!(bsr, "bsr");
two_wide!(bt, "bt");
two_wide!(bts, "bts");
two_wide!(btr, "btr");
two_wide!(btc, "btc");
// Of these the processor must be known to have the feature.
two_wide!(tzcnt, "tzcnt");
two_wide!(lzcnt, "lzcnt");
two_wide!(popcnt, "popcnt");
wide!(mul, "mul");
wide!(imul_wide, "imul");
wide!(div, "div");
wide!(idiv, "idiv");
