//! The inputs of a command.
//!
//! # Invariants
//! 1. Nothing is inherited: what is not named here, a command does not get.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use domain::{RelPath, RootIndex};
use serde::{Deserialize, Serialize};

use super::bounds::ResourceLimits;

/// The time that a command that was asked to end has before it is killed.
pub const KILL_GRACE: Duration = Duration::from_secs(2);
/// The bytes of each output stream that are retained.
pub const KEEP_BYTES_MAX: usize = 8 << 20;

/// One command to run.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The directory in which it begins.
    pub cwd: WorkDir,
    /// The whole environment, as [`environment`](super::environment) makes it; `TMPDIR` is added.
    pub env: Vec<(OsString, OsString)>,
    /// Its input.
    pub stdin: Stdin,
    /// After how long it is asked to end.
    pub timeout: Option<Duration>,
    /// The time that it then has before it is killed.
    pub kill_grace: Duration,
    /// True if it may reach the network.
    pub network: bool,
    /// Ports of this machine's loopback that it may reach, at the same ports of its own loopback.
    pub loopback_ports: Vec<u16>,
    /// The walls that are opened for it.
    pub openings: IsolationExceptions,
    /// The resources that it may use.
    pub bounds: ResourceLimits,
    /// True if it may write to the projects.
    pub writes: bool,
    /// Existing paths outside the projects that it may write to. They are reachable even below a hidden path
    /// or a private one: a caller that takes them from a definition has to judge them.
    pub writable: Vec<PathBuf>,
    /// Paths that it must not see.
    pub hide: Vec<PathBuf>,
    /// The user's home, to be seen as an empty directory with what `show`, `scratch` and `writable` name in
    /// it; none shows it whole.
    pub home: Option<PathBuf>,
    /// The paths of the home that it sees, read-only.
    pub show: Vec<PathBuf>,
    /// Directories in which it may write what is thrown away.
    pub scratch: Vec<PathBuf>,
    /// The treatment of its output.
    pub output: OutputSpec,
}

impl CommandSpec {
    /// A command with no input, no limit of time, no network and no paths of its own, which may write.
    pub fn new(
        argv: impl IntoIterator<Item = impl Into<OsString>>,
        cwd: WorkDir,
        output: OutputSpec,
    ) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd,
            env: Vec::new(),
            stdin: Stdin::Null,
            timeout: None,
            kill_grace: KILL_GRACE,
            network: false,
            loopback_ports: Vec::new(),
            openings: IsolationExceptions::default(),
            bounds: ResourceLimits::default(),
            writes: true,
            writable: Vec::new(),
            hide: Vec::new(),
            home: None,
            show: Vec::new(),
            scratch: Vec::new(),
            output,
        }
    }
}

/// Walls that are opened for a command that cannot work within them; closed by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationExceptions {
    /// Sockets of programs outside, by their path; if those cannot be separated from a command's own, any
    /// of them.
    pub unix_sockets: bool,
    /// The calls of `io_uring`.
    pub io_uring: bool,
}

/// A directory of one of the projects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkDir {
    /// The index of the project.
    pub root: RootIndex,
    /// The path in it; `None` for its root.
    pub below: Option<RelPath>,
}

/// The input of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Null,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// The input from the caller that started it, which also reads its output: see
    /// [`PipedStreams`](super::PipedStreams).
    Spoken,
}

/// The treatment of a command's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSpec {
    /// The directory in which the files `stdout` and `stderr` are written while it runs; created if it is not
    /// there.
    pub dir: PathBuf,
    /// The bytes of each stream that are retained, in memory and in the file.
    pub keep_bytes_max: usize,
}

impl OutputSpec {
    /// Logs in `dir`, bounded by [`KEEP_BYTES_MAX`].
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), keep_bytes_max: KEEP_BYTES_MAX }
    }
}
