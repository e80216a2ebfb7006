//! The program as users start it: a data directory, a project, workers, and what they tell.

#![allow(dead_code, reason = "not every benchmark uses all of it")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A data directory and a project, both gone with it.
pub(crate) struct Program {
    agents: PathBuf,
    dir: TempDir,
    concurrency: usize,
}

impl Program {
    /// A store where so many plans work at once, and a project of these files.
    pub(crate) fn new(concurrency: usize, files: &[(&str, &str)]) -> Program {
        Self::at(Path::new(env!("CARGO_BIN_EXE_agents")), concurrency, files)
    }

    /// The same with another build of the program.
    pub(crate) fn at(agents: &Path, concurrency: usize, files: &[(&str, &str)]) -> Program {
        let program = Program { agents: agents.to_owned(), dir: tempfile::tempdir().unwrap(), concurrency };
        fs::create_dir(program.project()).unwrap();
        for (path, text) in files {
            fs::write(program.project().join(path), text).unwrap();
        }
        // A project ends where its repository does; without one it could be a directory above.
        program.git(&["init", "--quiet"]);
        program.git(&["add", "."]);
        program.git(&[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.org",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "a",
        ]);
        program
    }

    fn git(&self, words: &[&str]) {
        let mut command = Command::new("git");
        command.args(words).current_dir(self.project()).env("HOME", self.dir());
        assert!(command.status().unwrap().success(), "{command:?}");
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.agents);
        command.arg("--data-dir").arg(self.data()).args(["--format", "json"]).args(words);
        // Nothing of whoever runs this is read or written.
        command.current_dir(self.project()).env("HOME", self.dir()).env("XDG_CONFIG_HOME", self.dir());
        command.env("CLEVERAGENTS_PLAN_CONCURRENCY", self.concurrency.to_string());
        command.stdin(Stdio::null());
        command
    }

    /// What it says, which has to be good news.
    pub(crate) fn answer(&self, words: &[&str]) -> Value {
        let output = self.command(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{words:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        let mut answer: Value = serde_json::from_str(&said).unwrap();
        answer["data"].take()
    }

    /// Leaves a plan of this actor file for each item to the workers; the plans' ids.
    pub(crate) fn submit(&self, actor: &str, items: &[String]) -> Vec<String> {
        let (file, list) = (self.dir().join("actor.yaml"), self.dir().join("items"));
        fs::write(&file, actor).unwrap();
        fs::write(&list, items.join("\n") + "\n").unwrap();
        let words = ["run", "--for-each", list.to_str().unwrap(), "--actor", file.to_str().unwrap()];
        let answer = self.answer(&words);
        let plans = answer["plans"].as_array().unwrap();
        assert_eq!(plans.len(), items.len(), "{answer}");
        plans.iter().map(|plan| plan.as_str().unwrap().to_owned()).collect()
    }

    /// A worker process for so many plans at once, which tells `to` what it does.
    pub(crate) fn worker(&self, max: usize, to: &Sender<News>) -> Worker {
        Self::watched(&mut self.command(&["worker", "--max", &max.to_string()]), to)
    }

    /// A worker process that is started so.
    pub(crate) fn watched(command: &mut Command, to: &Sender<News>) -> Worker {
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (lines, worker, to) = (process.stderr.take().unwrap(), process.id(), to.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                let at = Instant::now();
                let told = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if to.send(News { worker, at, told }).is_err() {
                    return;
                }
            }
        });
        Worker { process }
    }
}

/// A line of a worker.
pub(crate) struct News {
    /// Its process.
    pub(crate) worker: u32,
    pub(crate) at: Instant,
    pub(crate) told: Value,
}

impl News {
    /// Whether it is this event.
    pub(crate) fn is(&self, event: &str) -> bool {
        self.told["event"] == event
    }

    pub(crate) fn plan(&self) -> &str {
        self.told["data"]["plan"].as_str().unwrap_or_default()
    }

    /// How a job ended.
    pub(crate) fn how(&self) -> &str {
        self.told["data"]["how"].as_str().unwrap_or_default()
    }
}

/// A worker process; killed when dropped.
pub(crate) struct Worker {
    process: Child,
}

impl Worker {
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }

    /// Tells it to stop, and waits until it did.
    pub(crate) fn stop(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        self.process.wait().unwrap()
    }

    /// The memory that it has in use.
    pub(crate) fn rss_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The processes that have `word` in their environment or on their command line, without this one.
pub(crate) fn processes_with(word: &str) -> Vec<u32> {
    let has = |id: u32, file: &str| {
        let bytes = fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    };
    let ids = fs::read_dir("/proc").unwrap().flatten();
    ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&id| id != std::process::id() && (has(id, "environ") || has(id, "cmdline")))
        .collect()
}
