//! Isolates commands from the rest of the machine.
//!
//! # The backends, best first
//! 1. **namespaces**: mounts, processes, network and more of the command's own; the projects on their paths,
//!    the rest read-only, private `/tmp` and `/run`, no capabilities; Landlock and seccomp within.
//! 2. **bubblewrap**: the same by its flags, where only it may make user namespaces.
//! 3. **landlock**: read and run everything, write the projects and a private directory; no sockets. Only
//!    when policy says that this is enough.
//! 4. **none**: only when policy says that isolation is optional.
//!
//! # The processes
//! [`Isolation::start`] gets a child from the starter (`child::starter`), which has run our own program
//! again. That child is the *holder*: it bears the marks of the job and waits. It starts the *reaper*: the
//! first process of the pid namespace, or a subreaper. The reaper prepares the backend, starts the command,
//! waits for it, measures its time, and ends when it ends, when it is asked to, or when our end of the
//! socket closes.
//!
//! # Invariants
//! 1. A backend that does not work as a whole is skipped with the reason; none is used by halves. A part that
//!    cannot be made and may be missing (a scratch directory) is noted.
//! 2. The report of the isolation in force comes from the steps that were done: [`IsolationUsed`].
//! 3. The child has the marks of the job as its environment and nothing else: no secret of ours could be
//!    read there.
//! 4. The holder gets no signal at our death: that would come when the starting *thread* ends. Only
//!    the reaper gets one at the death of the holder, which has one thread.
//! 5. A command with the network has one of its own if that can be had; if not, it is noted.
//!
//! # Not here
//! The trees that a command sees ([`SandboxView`](crate::view::SandboxView)), and its output
//! ([`RunningCommand`](crate::command::RunningCommand)).

mod broker;
mod bubblewrap;
mod child;
pub(crate) mod control;
mod devices;
mod exec;
mod fork;
pub(crate) mod git_isolation;
mod holder;
mod landlock;
mod layout;
mod machine_view;
mod missing_program;
mod mounts;
mod namespaces;
mod own_network;
mod privileges;
pub(crate) mod process_tree;
mod reaper;
mod seccomp;
mod shared_memory;
mod start;
mod usage;

use serde::{Deserialize, Serialize};

use crate::child::ChildProgram;

pub use child::child_run;
pub(crate) use child::{child_run_order, take_over as take_over_socket};
pub use missing_program::InvisibleProgram;
pub use process_tree::kill_marked;
pub use start::CommandStartError;

/// The verb of the child that runs a command within bubblewrap.
pub const RUN_VERB: &str = "__run";

/// A way to isolate commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationBackend {
    /// Namespaces of our own making.
    Namespaces,
    /// Namespaces of bubblewrap's making.
    Bubblewrap,
    /// Landlock and seccomp alone.
    Landlock,
    /// Nothing.
    None,
}

impl IsolationBackend {
    /// All, best first.
    pub const TRY_ORDER: [Self; 4] = [Self::Namespaces, Self::Bubblewrap, Self::Landlock, Self::None];

    /// Its name, as it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }
}

impl std::fmt::Display for IsolationBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A backend that was not used, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedBackend {
    /// The backend.
    pub rung: IsolationBackend,
    /// The reason.
    pub why: String,
}

/// The isolation under which a command ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationUsed {
    /// The backend.
    pub rung: IsolationBackend,
    /// True if it could reach the network.
    pub network: bool,
    /// True if that was a network of its own, from which nothing of this machine is reached but the ports
    /// below.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_network: bool,
    /// The reason that it had the network of this machine itself, with every service on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_network: Option<String>,
    /// Ports of this machine's loopback that it could reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loopback_ports: Vec<u16>,
    /// The paths that it could not see though they are there.
    pub hidden: Vec<String>,
    /// The requests that could not be met, in words.
    pub notes: Vec<String>,
    /// The better backends that did not work.
    pub passed_over: Vec<SkippedBackend>,
}

/// The weakest isolation under which a command may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationPolicy {
    /// In namespaces, of our making or bubblewrap's.
    Required,
    /// Also behind Landlock alone, where those do not work: names, sizes and processes can be seen then.
    Landlock,
    /// Also without isolation, where nothing better works.
    Optional,
}

impl IsolationPolicy {
    fn allows(self, rung: IsolationBackend) -> bool {
        match rung {
            IsolationBackend::Namespaces | IsolationBackend::Bubblewrap => true,
            IsolationBackend::Landlock => self != Self::Required,
            IsolationBackend::None => self == Self::Optional,
        }
    }
}

/// Starts commands under isolation.
#[derive(Clone, Debug)]
pub struct Isolation {
    child: ChildProgram,
    rungs: Vec<IsolationBackend>,
}

impl Isolation {
    /// The backends that the policy allows.
    pub fn new(policy: IsolationPolicy, child: ChildProgram) -> Self {
        let rungs = IsolationBackend::TRY_ORDER.into_iter().filter(|rung| policy.allows(*rung)).collect();
        Self { child, rungs }
    }

    /// This backend and no other.
    pub fn only(rung: IsolationBackend, child: ChildProgram) -> Self {
        Self { child, rungs: vec![rung] }
    }

    /// Tries each backend, except doing without, by doing.
    pub fn probe(&self) -> Vec<(IsolationBackend, Result<(), String>)> {
        let rungs = [IsolationBackend::Namespaces, IsolationBackend::Bubblewrap, IsolationBackend::Landlock];
        rungs.into_iter().map(|rung| (rung, start::probe(&self.child, rung))).collect()
    }
}
