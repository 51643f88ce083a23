//! `redis-server`, driven by `redis-benchmark` and asked by `redis-cli` what it then holds.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Answer, Done, prefixed};
use crate::Run;
use crate::run::{signal, until};

/// Starts the server on a free port of the loopback device, drives it, and ends it as `kill` does.
pub fn run(dir: &Path, prefix: &[OsString], watch: &mut dyn FnMut(i32)) -> Done {
    let port = free_port().to_string();
    let pidfile = dir.join("server.pid");
    let _ = std::fs::remove_file(&pidfile);
    let line = ["redis-server", "--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let line = line.into_iter().chain(["--pidfile", "server.pid", "--logfile", "server.log", "--daemonize", "no"]);
    let server = prefixed(prefix, &line.map(String::from).collect::<Vec<_>>()).dir(dir).limit(120).start();
    watch(server.pid());
    let client = |program: &str| Run::new(program).args(["-h", "127.0.0.1", "-p", &port]).limit(60);
    until("redis-server to answer", Duration::from_secs(30), || {
        client("redis-cli").arg("ping").run().out() == "PONG\n"
    });

    let start = Instant::now();
    let load = ["-q", "-n", "60000", "-c", "8", "-P", "8", "-d", "100", "-t", "set,get,incr,lpush,zadd,lrange_100"];
    client("redis-benchmark").args(load).run().success();
    let wall = start.elapsed();

    let mut told = vec![];
    for question in ["get counter:__rand_int__", "llen mylist", "dbsize", "strlen key:__rand_int__"] {
        told.extend(client("redis-cli").args(question.split(' ')).run().success().stdout);
    }
    // The pid file names the server itself, whatever was started to record it.
    let pid = std::fs::read_to_string(&pidfile).expect("the server writes its pid");
    signal(pid.trim().parse().expect("a pid"), libc::SIGTERM);
    let outcome = server.wait();
    let answer = Answer { status: outcome.shell_status(), stdout: told, files: vec![] };
    Done { answer, wall, outcome }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its number").port()
}
