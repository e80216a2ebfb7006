//! Aider's repo map, in a process of its own that has started before anything is measured.
//!
//! # Fair
//! What starting Python and importing Aider costs is not counted, nor what our counter costs, which it asks
//! here.

#![allow(dead_code, reason = "not every benchmark uses all of it")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use context::TokenCounter;
use serde_json::{Value, json};

use testkit::cost::Cost;

const SCRIPT: &str = include_str!("aider_map.py");

/// A process that makes repo maps.
pub(crate) struct Aider {
    process: Child,
    asked: ChildStdin,
    told: BufReader<ChildStdout>,
    _home: tempfile::TempDir,
}

/// A repo map and what it cost. The memory is the most that the process has had so far.
pub(crate) struct Map {
    pub(crate) text: String,
    pub(crate) cost: Cost,
}

/// Whether Aider may use what it has kept of the tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Nothing,
    Tags,
}

impl Aider {
    /// The one that `cargo xtask peers` has installed; or why there is none.
    pub(crate) fn start() -> Result<Aider, String> {
        let built = std::env::current_exe().map_err(|error| error.to_string())?;
        let target = built.ancestors().nth(3).ok_or("the target directory is not found")?;
        let python = target.join("peers/aider/bin/python");
        if !target.join("peers/aider/installed").exists() {
            return Err("it is not installed; `cargo xtask peers` does that".to_owned());
        }
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT]).env("HOME", home.path()).env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
        // Sets are walked in one order, so that a run can be repeated.
        command.env("PYTHONHASHSEED", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let (Some(asked), Some(told)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("it has no streams".to_owned());
        };
        let mut aider = Aider { process, asked, told: BufReader::new(told), _home: home };
        match aider.line() {
            Ok(line) if line["ready"] == true => Ok(aider),
            Ok(_) | Err(_) => Err("it does not start".to_owned()),
        }
    }

    /// The map of a tree for what somebody asks; what Aider takes as mentioned goes by its own rules.
    pub(crate) fn map(
        &mut self,
        root: &Path,
        query: &str,
        tokens: u32,
        kept: Kept,
        counter: &dyn TokenCounter,
    ) -> Result<Map, String> {
        let question = json!({
            "root": root.to_str(), "query": query, "tokens": tokens, "cold": kept == Kept::Nothing
        });
        self.say(&question.to_string())?;
        loop {
            let line = self.line()?;
            if let Some(text) = line["count"].as_str() {
                self.say(&counter.tokens(text).to_string())?;
                continue;
            }
            let number = |name: &str| line[name].as_f64().unwrap_or(f64::NAN);
            let cost = Cost { cpu_s: number("cpu_s"), wall_s: number("wall_s"), peak_mb: number("peak_mb") };
            return Ok(Map { text: line["map"].as_str().unwrap_or_default().to_owned(), cost });
        }
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.asked, "{line}").and_then(|()| self.asked.flush()).map_err(|error| error.to_string())
    }

    fn line(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        self.told.read_line(&mut line).map_err(|error| error.to_string())?;
        serde_json::from_str(&line).map_err(|_| "it has ended".to_owned())
    }
}

impl Drop for Aider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
