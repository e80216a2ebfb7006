//! Programs that are spoken to through their standard streams: MCP servers and agents.
//!
//! # Invariants
//! 1. The implementation of [`ProgramStarter`] decides where a program runs: that of the engine puts it into
//!    a plan's sandbox.
//! 2. [`ProgramProcess::end`] returns when the program and all that it started are gone, and dropping a
//!    process ends it too.
//! 3. A line that is read has at most [`LINE_BYTES_MAX`] bytes, and of the error output of a program only the
//!    end is retained.
//!
//! # Not here
//! The messages: `mcp` and `acp`.

mod lines;
mod stdin_writer;
mod unsandboxed_starter;

use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

pub use lines::{LINE_BYTES_MAX, LineError, LineReader};
pub(crate) use lines::{STRAY_LINES_MAX, shown};
pub(crate) use stdin_writer::StdinWriter;
pub use unsandboxed_starter::UnsandboxedStarter;

/// A program to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramSpec {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The variables that it gets in addition to those of every program.
    pub env: Vec<(String, String)>,
}

/// A program that was started.
pub struct Pipes {
    /// Its standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// The handle that ends it.
    pub process: Box<dyn ProgramProcess>,
}

impl std::fmt::Debug for Pipes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipes").finish_non_exhaustive()
    }
}

/// A running program. Dropping it ends the program, without waiting.
#[async_trait]
pub trait ProgramProcess: Send + Sync {
    /// Ends the program and all that it started, and returns when they are gone: how it ended, and the last
    /// that it complained of. For as long as `patience` it may end by itself. Twice is once.
    async fn end(&self, patience: Duration) -> ProgramExit;
}

/// The exit of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramExit {
    /// Its status, if it ended by itself: `exit status: 3`.
    pub status: Option<String>,
    /// The end of what it wrote to its standard error.
    pub complaints: String,
}

impl ProgramExit {
    /// As the end of a sentence about it: empty when there is nothing to say.
    pub fn describe(&self) -> String {
        let status =
            self.status.as_ref().map(|status| format!("; it ended with {status}")).unwrap_or_default();
        let complaints = self.complaints.trim();
        if complaints.is_empty() { status } else { format!("{status}; its error output: {complaints}") }
    }
}

/// Starts programs.
#[async_trait]
pub trait ProgramStarter: Send + Sync {
    /// Starts one.
    ///
    /// # Errors
    /// Returns the reason why it cannot be started, in words.
    async fn start(&self, program: &ProgramSpec) -> Result<Pipes, String>;
}
