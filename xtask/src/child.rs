//! A command line: shown so that it can be pasted into a shell, run in the workspace's root.
//!
//! # Invariants
//! 1. The command that is shown is the one that is run: both are made of the same fields.
//! 2. A failing child becomes a [`Failure`] whose hint is the line that repeats it.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

use crate::failure::Failure;
use crate::workspace::Workspace;

/// A program, its arguments, and the variables that differ from ours.
#[derive(Debug, Clone)]
pub(crate) struct Child {
    program: String,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    /// Below the workspace's root; the root itself if `None`.
    directory: Option<String>,
}

impl Child {
    pub(crate) fn new<'a>(program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let arguments = arguments.into_iter().map(str::to_owned).collect();
        Self { program: program.to_owned(), arguments, variables: Vec::new(), directory: None }
    }

    pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new("cargo", arguments)
    }

    pub(crate) fn arguments(mut self, more: &[String]) -> Self {
        self.arguments.extend_from_slice(more);
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// The directory to run in, below the workspace's root.
    pub(crate) fn directory(self, path: &str) -> Self {
        Self { directory: Some(path.to_owned()), ..self }
    }

    /// Runs with our standard streams; shows the line first.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<(), Failure> {
        let status = self.run_for_status(workspace)?;
        self.expect_success(status)
    }

    /// As [`Child::run`], for programs whose exit status means more than failure.
    pub(crate) fn run_for_status(&self, workspace: &Workspace) -> Result<ExitStatus, Failure> {
        println!("$ {self}");
        self.command(workspace).status().map_err(|error| self.not_started(&error))
    }

    /// Runs and gives the command line and each line of both output streams to `show`.
    pub(crate) fn run_watched(
        &self,
        workspace: &Workspace,
        show: &mut dyn FnMut(&str),
    ) -> Result<(), Failure> {
        show(&format!("$ {self}"));
        let start = || {
            let (reader, writer) = std::io::pipe()?;
            let mut command = self.command(workspace);
            let process = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
            // The command holds the writing end of the pipe; the last line comes when no process holds it any
            // more.
            drop(command);
            Ok((process, reader))
        };
        let (mut process, reader) = start().map_err(|error| self.not_started(&error))?;
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            show(&String::from_utf8_lossy(&line));
        }
        let status = process.wait().map_err(|error| self.not_started(&error))?;
        self.expect_success(status)
    }

    /// Runs silently and returns standard output; standard error is shown when it fails.
    pub(crate) fn output(&self, workspace: &Workspace) -> Result<String, Failure> {
        self.output_of(self.command(workspace))
    }

    /// As [`Child::output`], in the directory that we were started in.
    pub(crate) fn output_here(&self) -> Result<String, Failure> {
        self.output_of(self.bare_command())
    }

    /// Returns whether it can be started and succeeds; nothing is shown.
    pub(crate) fn succeeds(&self) -> bool {
        let mut command = self.bare_command();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    fn output_of(&self, mut command: Command) -> Result<String, Failure> {
        let output = command.output().map_err(|error| self.not_started(&error))?;
        if !output.status.success() {
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
        }
        self.expect_success(output.status)?;
        String::from_utf8(output.stdout)
            .map_err(|_| Failure::new(format!("`{self}` printed what is not UTF-8")))
    }

    fn command(&self, workspace: &Workspace) -> Command {
        let mut command = self.bare_command();
        let below = self.directory.as_deref().unwrap_or_default();
        command.current_dir(workspace.root.join(below));
        command
    }

    fn bare_command(&self) -> Command {
        // `cargo run` names the cargo that runs us; the shown line says `cargo`, which a shell resolves alike.
        let ours = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut command = Command::new(if self.program == "cargo" { &ours } else { &self.program });
        // `cargo run` also describes this package to us. Build scripts that look at such a variable would run again.
        for (name, _) in std::env::vars_os() {
            if name
                .to_str()
                .is_some_and(|name| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|p| name.starts_with(p)))
            {
                command.env_remove(name);
            }
        }
        command.args(&self.arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    fn expect_success(&self, status: ExitStatus) -> Result<(), Failure> {
        if status.success() {
            return Ok(());
        }
        let short = self.arguments.first().map_or(String::new(), |word| format!(" {word}"));
        Err(Failure::new(format!("`{}{short}` ended with {status}", self.program))
            .hint(format!("repeat it with `{self}`")))
    }

    fn not_started(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!("`{}` could not be run: {error}", self.program)).hint(format!("tried `{self}`"))
    }
}

impl fmt::Display for Child {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(directory) = &self.directory {
            write!(formatter, "cd {} && ", quote_word(directory))?;
        }
        for (name, value) in &self.variables {
            write!(formatter, "{name}={} ", quote_word(value))?;
        }
        formatter.write_str(&quote_word(&self.program))?;
        for argument in &self.arguments {
            write!(formatter, " {}", quote_word(argument))?;
        }
        Ok(())
    }
}

/// A word as a shell needs it.
fn quote_word(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./:=,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shown_line_can_be_pasted() {
        let child =
            Child::cargo(["test", "-p", "sync", "--", "it's one"]).variable("RUSTFLAGS", "--cfg loom");
        assert_eq!(child.to_string(), r"RUSTFLAGS='--cfg loom' cargo test -p sync -- 'it'\''s one'");
        assert_eq!(Child::new("my tools/run", ["x"]).to_string(), "'my tools/run' x");
    }

    #[test]
    fn a_failing_child_says_how_to_repeat_it() {
        let failure = Child::new("sh", ["-c", "exit 3"]).output_here();
        let expected =
            Failure::new("`sh -c` ended with exit status: 3").hint("repeat it with `sh -c 'exit 3'`");
        assert_eq!(failure, Err(expected));
    }

    #[test]
    fn a_child_that_cannot_start_is_a_failure_and_not_a_panic() {
        let failure = Child::new("no-such-program", ["--version"]).output_here();
        assert!(
            failure.is_err_and(|failure| failure.fact().starts_with("`no-such-program` could not be run"))
        );
    }
}
