//! Asks a module about addresses: `ask FILE [ADDRESS...]`, or lists its variables; says how long each step took.

use std::io::Write;
use std::time::Instant;

use numamma_symbols::Module;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: ask FILE [ADDRESS...]")?;
    let addresses: Vec<String> = arguments.collect();
    let mut out = std::io::stdout().lock();
    let started = Instant::now();
    let module = Module::open(&path)?;
    writeln!(out, "open: {:?}", started.elapsed())?;
    for address in &addresses {
        let address = u64::from_str_radix(address.trim_start_matches("0x"), 16)?;
        let started = Instant::now();
        let found = module.data_at(address);
        writeln!(out, "data_at {:?}: {found:?}", started.elapsed())?;
        let started = Instant::now();
        let found = module.function_bounds(address);
        writeln!(out, "function_bounds {:?}: {found:x?}", started.elapsed())?;
        let started = Instant::now();
        let found = module.frames_at(address);
        writeln!(out, "frames_at {:?}: {found:#?}", started.elapsed())?;
    }
    if addresses.is_empty() {
        writeln!(out, "needed {:?}, tls {:?}", module.needed(), module.tls_block())?;
        for variable in module.variables() {
            writeln!(out, "{variable:?}")?;
        }
        writeln!(out, "all: {:?}", started.elapsed())?;
    }
    Ok(())
}
