//! Runs a command under the library, drains its rings and says how many events came: the least possible recorder, for
//! measurements of the library by itself.

use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use numamma_wire::{Clock, ENVIRONMENT, Options, Segment};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args_os().skip(1);
    let program = arguments.next().ok_or("usage: record COMMAND [ARGUMENT..]")?;
    let folder = tempfile::tempdir()?;
    let library = folder.path().join("libnumamma_preload.so");
    fs::write(&library, numamma_preload::LIBRARY)?;
    let segment = Segment::create(Options { clock: Clock::best(), collapse: true, ..Options::default() })?;
    let mut child =
        Command::new(program).args(arguments).env("LD_PRELOAD", library).env(ENVIRONMENT, segment.path()).spawn()?;

    let (mut events, mut malformed, mut lost, mut waits) = (0, 0, 0, 0);
    loop {
        let bell = segment.bell();
        let ended = child.try_wait()?.is_some();
        for ring in segment.active_rings() {
            let over = ring.has_ended();
            let drained = ring.drain(|_| ());
            events += drained.events;
            malformed += drained.malformed;
            if ended || over {
                lost += ring.losses().full;
                waits += ring.losses().waits;
                ring.release();
            }
        }
        if ended {
            break;
        }
        segment.wait(bell, Duration::from_millis(100));
    }
    eprintln!(
        "{events} events, {malformed} malformed, {lost} lost, {waits} waits, {} without a ring",
        segment.lost_no_ring()
    );
    Ok(())
}
