//! Asks a module about addresses: `ask FILE [ADDRESS...]`, or lists its variables; prints how long each step took.

use std::time::Instant;

use numamma_symbols::Module;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: ask FILE [ADDRESS...]")?;
    let started = Instant::now();
    let module = Module::open(&path)?;
    eprintln!("open {:?}", started.elapsed());
    let addresses: Vec<String> = arguments.collect();
    for address in &addresses {
        let address = u64::from_str_radix(address.trim_start_matches("0x"), 16)?;
        let started = Instant::now();
        println!("data     {:?}", module.data_at(address));
        eprintln!("data_at {:?}", started.elapsed());
        let started = Instant::now();
        println!("bounds   {:x?}", module.function_bounds(address));
        eprintln!("function_bounds {:?}", started.elapsed());
        let started = Instant::now();
        for frame in module.frames_at(address) {
            println!("frame    {frame:?}");
        }
        eprintln!("frames_at {:?}", started.elapsed());
    }
    if addresses.is_empty() {
        println!("needed {:?}, tls {:?}", module.needed(), module.tls_block());
        for variable in module.variables() {
            println!(
                "{:10x} {:8} {:?} {:?} {} | {} | {:?} | {:?}",
                variable.address,
                variable.size,
                variable.kind,
                variable.extent,
                variable.name,
                variable.section,
                variable.type_name,
                variable.declared
            );
        }
        eprintln!("all variables {:?}", started.elapsed());
    }
    Ok(())
}
