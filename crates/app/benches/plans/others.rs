//! Restate and LangGraph, running plans of 4 durable steps that do nothing.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::http::Connection;

const APP: &str = include_str!("restate_app.py");
const GRAPH: &str = include_str!("langgraph_plans.py");
const ADMIN: &str = "127.0.0.1:9070";
const INGRESS: &str = "127.0.0.1:8080";
const SERVICE: &str = "127.0.0.1:9080";
/// One for each core of a small machine.
const SERVICE_PROCESSES: &str = "2";
const STARTS_WITHIN: Duration = Duration::from_secs(60);
const ENDS_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A process that ends with us. It is told to, so that it ends its own processes too.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = until("it does not end", ENDS_WITHIN, || !matches!(self.0.try_wait(), Ok(None)));
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of Restate with one service.
pub(crate) struct Restate {
    clients: usize,
    _processes: [Running; 2],
    _dir: TempDir,
}

impl Restate {
    pub(crate) fn start(server: &Path, python: &Path, clients: usize) -> Result<Restate, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        fs::write(dir.path().join("restate_app.py"), APP).map_err(|error| error.to_string())?;
        let start = |command: &mut Command| {
            command.current_dir(dir.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().map(Running).map_err(|error| error.to_string())
        };
        let mut command = Command::new(server);
        command.args(["--node-name", "one"]).env("RESTATE_BASE_DIR", dir.path().join("data"));
        let server = start(command.env("RESTATE_DISABLE_TELEMETRY", "true"))?;
        let mut command = Command::new(python);
        let hypercorn = ["-m", "hypercorn", "--workers", SERVICE_PROCESSES, "--bind", SERVICE];
        let service = start(command.args(hypercorn).arg("restate_app:app"))?;
        until("the service does not start", STARTS_WITHIN, || Connection::to(SERVICE).is_ok())?;
        until("the server does not start", STARTS_WITHIN, || ask(ADMIN, "GET /health", "").is_ok())?;
        ask(ADMIN, "POST /deployments", &format!(r#"{{"uri":"http://{SERVICE}"}}"#))?;
        until("it takes no plans", STARTS_WITHIN, || ask(INGRESS, "POST /plan/run", "\"p\"").is_ok())?;
        Ok(Restate { clients, _processes: [server, service], _dir: dir })
    }

    /// Plans a second, over so many plans.
    pub(crate) fn rate(&mut self, plans: usize) -> f64 {
        let left = AtomicUsize::new(plans);
        let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..self.clients {
                scope.spawn(|| {
                    let mut connection = Connection::to(INGRESS).unwrap();
                    while take().is_ok() {
                        assert_eq!(connection.ask("POST /plan/run", b"\"p\"").unwrap(), b"\"p\"");
                    }
                });
            }
        });
        plans as f64 / start.elapsed().as_secs_f64()
    }
}

fn ask(address: &str, first: &str, body: &str) -> Result<Vec<u8>, String> {
    Connection::to(address).map_err(|error| error.to_string())?.ask(first, body.as_bytes())
}

fn until(why_not: &str, within: Duration, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > within {
            return Err(why_not.to_owned());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// A graph with the SQLite saver.
pub(crate) struct LangGraph {
    asked: ChildStdin,
    told: BufReader<ChildStdout>,
    _process: Running,
    _dir: TempDir,
}

impl LangGraph {
    pub(crate) fn start(python: &Path) -> Result<LangGraph, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut command = Command::new(python);
        command
            .args(["-c", GRAPH])
            .arg(dir.path().join("saved.db"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().map(Running).map_err(|error| error.to_string())?;
        let (Some(asked), Some(told)) = (process.0.stdin.take(), process.0.stdout.take()) else {
            return Err("it has no streams".to_owned());
        };
        let mut graph = LangGraph { asked, told: BufReader::new(told), _process: process, _dir: dir };
        if graph.line() == "ready" { Ok(graph) } else { Err("it does not start".to_owned()) }
    }

    /// Plans a second, over so many plans.
    pub(crate) fn rate(&mut self, plans: usize) -> f64 {
        writeln!(self.asked, "{plans}").unwrap();
        plans as f64 / self.line().parse::<f64>().unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let _ = self.told.read_line(&mut line);
        line.trim().to_owned()
    }
}
