//! Keeps commands from the rest of the machine.
//!
//! # The ladder, best first
//! 1. **namespaces**: mounts, processes, network and more of the command's own; the projects on their paths, the rest
//!    read-only, private `/tmp` and `/run`, no capabilities; Landlock and seccomp within.
//! 2. **bubblewrap**: the same by its flags, where only it may make user namespaces.
//! 3. **landlock**: read and run everything, write the projects and a private directory; no sockets. Only when policy says
//!    that this is enough.
//! 4. **none**: only when policy says that isolation is optional.
//!
//! # Who is who
//! [`Isolation::start`] runs our own program again (`__run`). That child is the *holder*: it bears the marks of the job and
//! waits. It starts the *reaper*: the first process of the pid namespace, or a subreaper. The reaper prepares the rung,
//! starts the command, waits for it, measures its time, and ends when it ends, when it is asked to, or when our end of the
//! socket closes.
//!
//! # Invariants
//! 1. A rung that does not work as a whole is passed over with the reason; none is used by halves. What cannot be done
//!    and may be missing (a scratch directory) is noted.
//! 2. What was in force is told by what was done: [`IsolationUsed`].
//! 3. The child gets the marks of the job as its environment and nothing else: no secret of ours could be read there.
//! 4. The holder is not told of our death by a signal: that would come when the starting *thread* ends. Only the reaper is
//!    told so of the holder's death, which has one thread.
//! 5. A command with the network has one of its own where that can be had, and where not it is noted.
//!
//! # Not here
//! Which trees a command sees ([`View`](crate::view::View)), and what is read from it
//! ([`Running`](crate::command::Running)).

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
pub(crate) use child::take_over as take_over_socket;
pub use missing_program::Unseen;
pub use process_tree::kill_marked;
pub use start::StartError;

/// The verb of the child that runs a command.
pub const RUN_VERB: &str = "__run";

/// A way to isolate commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationRung {
    /// Namespaces of our own making.
    Namespaces,
    /// Namespaces of bubblewrap's making.
    Bubblewrap,
    /// Landlock and seccomp alone.
    Landlock,
    /// Nothing.
    None,
}

impl IsolationRung {
    /// All, best first.
    pub const LADDER: [Self; 4] = [Self::Namespaces, Self::Bubblewrap, Self::Landlock, Self::None];

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

impl std::fmt::Display for IsolationRung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rung that was not used, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RungPassedOver {
    /// Which.
    pub rung: IsolationRung,
    /// What stood in the way.
    pub why: String,
}

/// What kept a command apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationUsed {
    /// How.
    pub rung: IsolationRung,
    /// Whether it could reach the network.
    pub network: bool,
    /// Whether that was a network of its own, from which nothing of this machine is reached but the ports below.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_network: bool,
    /// Why it had the network of this machine itself, with every service on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_network: Option<String>,
    /// Ports of this machine's loopback that it could reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loopback_ports: Vec<u16>,
    /// The paths that it could not see though they are there.
    pub hidden: Vec<String>,
    /// What could not be done as asked, in words.
    pub notes: Vec<String>,
    /// The better rungs that did not work.
    pub passed_over: Vec<RungPassedOver>,
}

/// How far down the ladder a command may run.
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
    fn allows(self, rung: IsolationRung) -> bool {
        match rung {
            IsolationRung::Namespaces | IsolationRung::Bubblewrap => true,
            IsolationRung::Landlock => self != Self::Required,
            IsolationRung::None => self == Self::Optional,
        }
    }
}

/// Starts commands under isolation.
#[derive(Clone, Debug)]
pub struct Isolation {
    child: ChildProgram,
    rungs: Vec<IsolationRung>,
}

impl Isolation {
    /// The ladder as far as the policy lets it go.
    pub fn new(policy: IsolationPolicy, child: ChildProgram) -> Self {
        let rungs = IsolationRung::LADDER.into_iter().filter(|rung| policy.allows(*rung)).collect();
        Self { child, rungs }
    }

    /// This rung and no other.
    pub fn only(rung: IsolationRung, child: ChildProgram) -> Self {
        Self { child, rungs: vec![rung] }
    }

    /// Tries each rung, except doing without, by doing.
    pub fn probe(&self) -> Vec<(IsolationRung, Result<(), String>)> {
        let rungs = [IsolationRung::Namespaces, IsolationRung::Bubblewrap, IsolationRung::Landlock];
        rungs.into_iter().map(|rung| (rung, start::probe(&self.child, rung))).collect()
    }
}
