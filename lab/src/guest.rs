//! A QEMU that runs. It connects back to us twice: once to take orders (QMP, JSON line by line), once for the guest, which tells
//! how far it is (`guest/init.c`). When it is dropped it is gone.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::failure::{self, Failure, lab};
use crate::process::{Signals, tied};

/// QEMU of whole systems.
pub const QEMU: &str = "qemu-system-x86_64";

/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(30);

#[derive(Debug)]
enum Event {
    Guest(String),
    Qemu(Value),
    Closed,
}

/// One QEMU.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    folder: PathBuf,
    orders: UnixStream,
    port: UnixStream,
    events: Receiver<Event>,
    lines: VecDeque<String>,
    signals: Signals,
}

/// Why there is no line of the guest.
#[derive(Debug)]
pub enum Silence {
    /// It has said nothing for that long.
    Late,
    /// There is nothing to wait for any more.
    Failed(Failure),
}

impl From<Failure> for Silence {
    fn from(failure: Failure) -> Silence {
        Silence::Failed(failure)
    }
}

impl Guest {
    /// Starts QEMU in a folder, where its files and sockets lie.
    pub fn start(arguments: &[OsString], folder: &Path, signals: &Signals) -> Result<Guest, Failure> {
        let (sender, events) = channel();
        let listen = |name: &str| {
            let path = folder.join(name);
            let _ = fs::remove_file(&path); // of an earlier attempt
            let listener = UnixListener::bind(&path).and_then(|it| it.set_nonblocking(true).map(|()| it));
            listener.map_err(failure::file("listen at", &path))
        };
        let (orders, port) = (listen("orders")?, listen("port")?);
        let log = folder.join("qemu.log");
        let log = File::options().create(true).append(true).open(&log).map_err(failure::file("write", &log))?;
        let mut command = tied(QEMU);
        // Not in our process group: a Ctrl-C is for us to handle.
        command.args(arguments).current_dir(folder).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn();
        let mut child = child.map_err(|error| Failure::Lab(format!("cannot run setpriv, of util-linux: {error}")))?;
        let connected = (|| {
            let orders = accept(&orders, &mut child, folder)?;
            let port = accept(&port, &mut child, folder)?;
            listen_to(&orders, &sender, |line| serde_json::from_str(&line).ok().map(Event::Qemu))?;
            listen_to(&port, &sender, |line| Some(Event::Guest(line)))?;
            Ok((orders, port))
        })();
        let (orders, port) = match connected {
            Ok(connected) => connected,
            Err(failure) => {
                end(&mut child);
                return Err(failure);
            }
        };
        let (folder, signals) = (folder.to_owned(), signals.clone());
        let mut guest = Guest { child, folder, orders, port, events, lines: VecDeque::new(), signals };
        guest.order("qmp_capabilities", json!({}))?;
        Ok(guest)
    }

    /// Has QEMU do something, and gives its answer.
    pub fn order(&mut self, what: &str, arguments: Value) -> Result<Value, Failure> {
        let line = json!({ "execute": what, "arguments": arguments }).to_string();
        let _ = writeln!(self.orders, "{line}"); // if it is gone, that is noticed below
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            match self.event(until) {
                Ok(Event::Guest(line)) => self.lines.push_back(line),
                Ok(Event::Qemu(mut answer)) => {
                    if let Some(error) = answer.get("error") {
                        return lab(format!("QEMU refuses {what}: {error}"));
                    }
                    if let Some(answer) = answer.get_mut("return") {
                        return Ok(answer.take());
                    }
                }
                Ok(Event::Closed) => {}
                Err(Silence::Late) => return lab(format!("QEMU does not answer {what}{}", self.log())),
                Err(Silence::Failed(failure)) => return Err(failure),
            }
        }
    }

    /// Waits until a guest that was kept goes on.
    pub fn resumed(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let state = self.order("query-status", json!({}))?;
            match state["status"].as_str() {
                Some("running") => return Ok(()),
                Some("inmigrate") if Instant::now() < until => thread::sleep(Duration::from_millis(10)),
                other => return lab(format!("the guest is {} instead of going on", other.unwrap_or("lost"))),
            }
        }
    }

    /// Tells the guest something.
    pub fn tell(&mut self, line: &str) {
        let _ = writeln!(self.port, "{line}"); // if it is gone, whoever waits for an answer notices
    }

    /// What follows `word` in the next line of the guest, which must begin with it.
    pub fn expect(&mut self, word: &str, until: Instant) -> Result<String, Silence> {
        let line = self.line(until)?;
        match line.strip_prefix(word) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => Err(Failure::Lab(format!("the guest says {line:?} instead of {word}{}", self.log())).into()),
        }
    }

    fn line(&mut self, until: Instant) -> Result<String, Silence> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(line);
            }
            if let Event::Guest(line) = self.event(until)? {
                return Ok(line);
            }
        }
    }

    fn event(&mut self, until: Instant) -> Result<Event, Silence> {
        loop {
            self.signals.check()?;
            let left = until.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left.min(TICK)) {
                Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Lab(format!("QEMU has ended{}", self.log())).into());
                }
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Timeout) if left <= TICK => return Err(Silence::Late),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The last words of QEMU, or else of the guest's kernel.
    fn log(&self) -> String {
        last_words(&self.folder)
    }

    /// Ends it. What it has written to files stays.
    pub fn end(mut self) {
        end(&mut self.child);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill(); // it may have ended by itself
    let _ = child.wait();
}

/// QEMU connects when it has understood its command line.
fn accept(listener: &UnixListener, child: &mut Child, folder: &Path) -> Result<UnixStream, Failure> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(failure::file("talk through", folder))?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(failure::file("accept at", folder)(error)),
        }
        if let Ok(Some(status)) = child.try_wait() {
            return lab(match status.code() {
                Some(127) => format!("{QEMU} is not installed: run lab/setup"),
                _ => format!("{QEMU} does not start ({status}){}", last_words(folder)),
            });
        }
        if Instant::now() > until {
            return lab(format!("{QEMU} does not connect{}", last_words(folder)));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn listen_to(
    stream: &UnixStream,
    sender: &Sender<Event>,
    parse: impl Fn(String) -> Option<Event> + Send + 'static,
) -> Result<(), Failure> {
    let stream = stream.try_clone().map_err(|error| Failure::Lab(format!("too many open files: {error}")))?;
    let sender = sender.clone();
    thread::spawn(move || {
        let lines = BufReader::new(stream).split(b'\n').map_while(Result::ok);
        for line in lines.map(|line| String::from_utf8_lossy(&line).trim_end().to_owned()) {
            if let Some(event) = parse(line)
                && sender.send(event).is_err()
            {
                return;
            }
        }
        let _ = sender.send(Event::Closed);
    });
    Ok(())
}

/// What QEMU said last; else what the guest's kernel died of, or what that said last.
fn last_words(folder: &Path) -> String {
    let text = |name: &str| String::from_utf8_lossy(&fs::read(folder.join(name)).unwrap_or_default()).into_owned();
    let words = last_line(&text("qemu.log")).map(str::to_owned).or_else(|| cause_of_death(&text("console")));
    words.map(|words| format!(": {words}")).unwrap_or_default()
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty())
}

/// A kernel that dies says why, where it was, and after many lines more of little use that it has ended.
fn cause_of_death(console: &str) -> Option<String> {
    let lines = || console.lines().map(str::trim);
    let said = |what: &'static [&str]| lines().find(|line| what.iter().any(|word| line.contains(word)));
    let causes = [said(&["BUG:", "Oops", "general protection", "unable to handle"]), said(&["RIP: 0010:"])];
    let causes: Vec<&str> = causes.into_iter().chain([said(&["Kernel panic"])]).flatten().collect();
    if causes.is_empty() { last_line(console).map(str::to_owned) } else { Some(causes.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_says_what_it_died_of() {
        let console = "[    1.0] all is well\n[    1.7] BUG: unable to handle page fault for address: 10\n[    1.7] CPU: 1\n\
            [    1.7] RIP: 0010:do_it+0x1/0x2\n[    1.8] Kernel panic - not syncing: Fatal exception\n\
            [    1.8] Kernel Offset: disabled\n\n";
        let said = cause_of_death(console).expect("it says something");
        let parts = ["BUG: unable to handle page fault", "do_it+0x1/0x2", "Fatal exception"];
        assert!(parts.iter().all(|part| said.contains(part)) && !said.contains("Offset"), "{said}");
        assert_eq!(cause_of_death("one\n two \n\n").as_deref(), Some("two"));
        assert_eq!(cause_of_death(""), None);
    }
}
