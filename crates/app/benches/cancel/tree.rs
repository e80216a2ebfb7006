//! A tree of processes that does not want to end, and what is left of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::processes_with;

/// The tree's program, which lies in the project under [`SCRIPT_NAME`].
pub(crate) const SCRIPT: &str = include_str!("tree.sh");
pub(crate) const SCRIPT_NAME: &str = "tree.sh";
/// So many processes below the first.
const DEPTH: usize = 6;
const STARTS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Some beats of each process.
const LISTEN_FOR: Duration = Duration::from_millis(100);
/// What lives longer than this after its end was told is called alive.
const DIES_WITHIN: Duration = Duration::from_secs(2);

/// One run of the tree.
pub(crate) struct Tree {
    /// Where it writes outside the sandbox. The path is on each process's command line or in its environment.
    pub(crate) dir: PathBuf,
}

impl Tree {
    pub(crate) fn new(below: &Path, name: &str) -> Tree {
        let dir = below.join(name);
        fs::create_dir(&dir).unwrap();
        Tree { dir }
    }

    /// The words that start it.
    pub(crate) fn words(&self) -> [String; 4] {
        ["sh".to_owned(), SCRIPT_NAME.to_owned(), DEPTH.to_string(), self.dir.display().to_string()]
    }

    /// Waits until each process of it has written.
    pub(crate) fn wait_until_it_stands(&self) {
        let start = Instant::now();
        while !(0..=DEPTH).all(|depth| self.dir.join(format!("beats.{depth}")).exists()) {
            assert!(start.elapsed() < STARTS_WITHIN, "the tree does not stand up");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Processes that live; each of them has the directory's path on its command line, or its parent had.
    pub(crate) fn alive(&self) -> Vec<u32> {
        processes_with(self.dir.to_str().unwrap())
    }

    /// Whether something is written while we listen.
    pub(crate) fn beats(&self) -> bool {
        let before = self.written();
        std::thread::sleep(LISTEN_FOR);
        self.written() != before
    }

    pub(crate) fn written(&self) -> u64 {
        fs::read_dir(&self.dir).unwrap().flatten().map(|entry| entry.metadata().unwrap().len()).sum()
    }

    /// Waits for its death: after how long, or who survived, and is killed now.
    pub(crate) fn death(&self) -> Result<Duration, usize> {
        let start = Instant::now();
        loop {
            let took = start.elapsed();
            let alive = self.alive();
            if alive.is_empty() {
                return Ok(took);
            }
            if took > DIES_WITHIN {
                alive.iter().filter_map(|&id| Pid::from_raw(i32::try_from(id).ok()?)).for_each(|id| {
                    let _ = kill_process(id, Signal::KILL);
                });
                return Err(alive.len());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
