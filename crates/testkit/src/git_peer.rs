//! The peer: `git apply` of the same patch, killed at any moment of its life. No process recovers from that.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::judge::{Kind, TreeJudge, TreeSide};
use crate::mixed;
use crate::moments::{Dice, DurationSpan, wait};
use crate::trees::{self, BenchTree};

/// The name of the peer of a kind.
pub fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Apply => "git-apply",
        Kind::Undo => "git-apply-R",
    }
}

#[derive(Default)]
struct PeerTally {
    runs: usize,
    untouched: usize,
    finished: usize,
    torn: usize,
}

/// A project that git changes.
pub struct GitPeer {
    dir: TempDir,
    trees: (BenchTree, BenchTree),
    judge: TreeJudge,
    side: TreeSide,
    spans: BTreeMap<Kind, DurationSpan>,
    tallies: BTreeMap<Kind, PeerTally>,
}

impl GitPeer {
    pub fn new(files: usize) -> GitPeer {
        let dir = tempfile::tempdir().unwrap();
        let (before, after) = mixed::trees(files);
        trees::write_patch(dir.path(), &before, &after, &dir.path().join("patch"));
        let judge = TreeJudge::of_contents(before.clone(), after.clone());
        let mut peer = GitPeer {
            dir,
            trees: (before, after),
            judge,
            side: TreeSide::Before,
            spans: BTreeMap::new(),
            tallies: Kind::ALL.map(|kind| (kind, PeerTally::default())).into(),
        };
        peer.plant(TreeSide::Before);
        for kind in Kind::ALL {
            let start = Instant::now();
            assert!(peer.start(kind).wait().unwrap().success());
            peer.spans.insert(kind, DurationSpan::new(start.elapsed()));
            assert_eq!(peer.judge.side(&peer.root()), Ok(kind.goal()));
        }
        peer
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn plant(&mut self, side: TreeSide) {
        if self.root().exists() {
            fs::remove_dir_all(self.root()).unwrap();
        }
        let tree = match side {
            TreeSide::Before => &self.trees.0,
            TreeSide::After => &self.trees.1,
        };
        trees::plant(&self.root(), tree);
        self.side = side;
    }

    fn start(&self, kind: Kind) -> Child {
        let mut command = trees::git(&self.root());
        command.args(["apply", "-p2"]);
        match kind {
            Kind::Apply => {}
            Kind::Undo => drop(command.arg("-R")),
        }
        command.arg("../patch").stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// One run, killed.
    pub fn turn(&mut self, dice: &mut Dice) {
        let kind = Kind::from(self.side);
        let start = Instant::now();
        let mut process = self.start(kind);
        let span = self.spans.get_mut(&kind).unwrap();
        let ended = wait(&mut process, start, span.draw(dice));
        span.learn(ended);
        process.kill().unwrap();
        process.wait().unwrap();
        let found = self.judge.side(&self.root());
        let tally = self.tallies.get_mut(&kind).unwrap();
        tally.runs += 1;
        match found {
            Ok(side) if side == self.side => tally.untouched += 1,
            Ok(side) => {
                tally.finished += 1;
                self.side = side;
            }
            Err(_) => {
                tally.torn += 1;
                self.plant(kind.goal());
            }
        }
    }

    pub fn torn_share(&self, kind: Kind) -> f64 {
        let tally = &self.tallies[&kind];
        tally.torn as f64 / tally.runs.max(1) as f64
    }

    pub fn print(&self) {
        for (kind, tally) in &self.tallies {
            let PeerTally { runs, untouched, finished, torn } = tally;
            println!(
                "\n{runs} × {}, killed: {untouched} untouched, {finished} finished, {torn} torn",
                name(*kind)
            );
        }
    }
}
