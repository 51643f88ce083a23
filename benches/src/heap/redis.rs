//! `redis-server` under a tool, driven by `redis-benchmark`.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::tools::Tool;
use crate::{Bench, Failure};

/// Seconds that the requests took.
pub fn time(bench: &Bench, tool: &Tool) -> Result<f64, Failure> {
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let requests = if bench.quick { "5000" } else { "100000" };
    let mut server = start(bench, tool, port)?;
    let client = |program: &str, line: &[&str]| -> Result<(), Failure> {
        let mut command = Command::new(program);
        command.args(["-h", "127.0.0.1", "-p", &port.to_string()]).args(line).stdout(Stdio::null());
        let status = command.status()?;
        if status.success() { Ok(()) } else { Err(format!("{program} ended with {status}").into()) }
    };
    let began = Instant::now();
    let load = ["-q", "-n", requests, "-c", "8", "-P", "8", "-d", "100", "-t", "set,get,incr,lpush,zadd,lrange_100"];
    let done = client("redis-benchmark", &load);
    let took = began.elapsed();
    // It closes the connection without an answer, which redis-cli takes for a failure or not, by version.
    let _ = client("redis-cli", &["shutdown", "nosave"]);
    let status = server.wait()?;
    done?;
    if !status.success() {
        return Err(format!("redis-server under {} ended with {status}", tool.name).into());
    }
    Ok(took.as_secs_f64())
}

fn start(bench: &Bench, tool: &Tool, port: u16) -> Result<Child, Failure> {
    let line = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"];
    let mut line: Vec<_> = line.map(Into::into).to_vec();
    line.push(port.to_string().into());
    let line = tool.before(&line);
    let log = fs::File::create(bench.scratch.path().join("redis.log"))?;
    let mut command = Command::new(&line[0]);
    command
        .args(&line[1..])
        .current_dir(bench.scratch.path())
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(Stdio::inherit());
    let mut server = command.spawn()?;
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if server.try_wait()?.is_some() || began.elapsed() > Duration::from_secs(30) {
            let _ = server.kill();
            return Err(format!("redis-server under {} does not answer", tool.name).into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(server)
}
