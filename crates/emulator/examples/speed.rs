//! How many instructions a second: runs over code of this very process, which it reads as any other's.
//!
//! `cargo run --release -p numamma-emulator --example speed`

use std::time::{Duration, Instant};

use numamma_emulator::{Access, Emulator, Observer, PAGE, Rights, State, Stop};

/// What a real observer does at least.
#[derive(Default)]
struct Count {
    instructions: u64,
    accesses: u64,
    sum: u64,
}

impl Observer for Count {
    fn instruction(&mut self, _ip: u64) {
        self.instructions += 1;
    }

    fn access(&mut self, access: Access) {
        self.accesses += 1;
        self.sum = self.sum.wrapping_add(access.address);
    }
}

/// Sorts, looks up, adds.
#[inline(never)]
extern "C" fn integers(values: &mut [u32; 4096]) -> u64 {
    let mut seed = 1_u32;
    for value in values.iter_mut() {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *value = seed >> 4;
    }
    for gap in [1750, 701, 301, 132, 57, 23, 10, 4, 1] {
        for i in gap..values.len() {
            let (value, mut at) = (values[i], i);
            while at >= gap && values[at - gap] > value {
                values[at] = values[at - gap];
                at -= gap;
            }
            values[at] = value;
        }
    }
    values.iter().enumerate().map(|(n, &v)| n as u64 ^ u64::from(v)).sum()
}

/// Floating point, by vector instructions of one element and more.
#[inline(never)]
extern "C" fn reals(values: &mut [f64; 4096]) -> u64 {
    let mut sum = 0.0;
    for round in 0..40 {
        for value in values.iter_mut() {
            *value = *value * 1.000_1 + f64::from(round);
        }
        sum += values.iter().fold(0.0, |a, b| a * 0.5 + b);
    }
    sum as u64
}

/// Where functions return to in the end: nothing is there.
const NOWHERE: u64 = 0x1000;

fn measure(name: &str, ip: usize, argument: u64, limit: u64, forgets: bool) {
    let mut emulator = Emulator::new().expect("an emulator");
    let mut memory = |address: u64, page: &mut [u8; PAGE]| {
        let from = libc::iovec { iov_base: address as *mut _, iov_len: PAGE };
        let to = libc::iovec { iov_base: page.as_mut_ptr().cast(), iov_len: PAGE };
        // SAFETY: writes to the page alone; what cannot be read is refused.
        let got = unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
        (got == PAGE as isize).then_some(Rights::ALL)
    };
    let stack = vec![0_u64; 8192];
    let top = (stack.as_ptr() as u64 + 60_000) & !15;
    let (mut executed, mut accesses, mut took) = (0, 0, Duration::ZERO);
    while took < Duration::from_secs(2) {
        let mut state = State::new();
        (state.ip, state.general[7], state.general[4]) = (ip as u64, argument, top - 8);
        // The return address is what the stack has there: zero.
        let mut count = Count::default();
        if forgets {
            emulator.forget();
        }
        let begin = Instant::now();
        let run = emulator.run(&mut state, &mut memory, &mut count, limit);
        took += begin.elapsed();
        let ended = matches!(run.stop, Stop::Unreadable(at) if at < NOWHERE) || run.stop == Stop::Limit;
        assert!(ended, "{name}: {} at {:#x}", run.stop, state.ip);
        executed += run.executed;
        accesses += count.accesses;
    }
    let rate = executed as f64 / took.as_secs_f64() / 1e6;
    println!("{name}: {rate:.1} million instructions/s, {:.2} accesses each", accesses as f64 / executed as f64);
}

fn main() {
    let mut values = Box::new([0_u32; 4096]);
    let (ip, argument) = (integers as *const () as usize, values.as_mut_ptr() as u64);
    measure("integers", ip, argument, u64::MAX, false);
    // With what a run costs by itself: registers taken over, pages read.
    measure("integers, 2000 at a time", ip, argument, 2000, false);
    measure("integers, 2000 at a time, decoded anew", ip, argument, 2000, true);
    let mut numbers = Box::new([1_f64; 4096]);
    let (ip, argument) = (reals as *const () as usize, numbers.as_mut_ptr() as u64);
    measure("floating point", ip, argument, u64::MAX, false);
    measure("floating point, 2000 at a time", ip, argument, 2000, false);
    measure("floating point, 2000 at a time, decoded anew", ip, argument, 2000, true);
}
