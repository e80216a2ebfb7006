//! How long it takes to open an overlay, beside `git worktree add`, and whether the size of the tree matters.

use std::time::Instant;

use domain::RootIndex;
use sandbox::{Sandbox, SandboxStrategy};

use crate::cpu::{ms, spent};
use crate::project::{BenchProject, BenchProjects};
use testkit::bench_row::{Better, median, row};

/// How many overlays are opened between two turns of the peer.
const PER_ROUND: usize = 5;

/// What opening one took: until it was open, until its tree could be used, and of the processors.
struct OpenDurations {
    open: f64,
    usable: f64,
    cpu: f64,
}

pub(crate) fn measure(projects: &BenchProjects, rounds: usize) -> Vec<String> {
    let who = projects.who;
    let (mut small, mut large, mut worktrees) = (Vec::new(), Vec::new(), Vec::new());
    // They stay open, so that nothing is removed while somebody measures.
    let mut all = Vec::new();
    for round in 0..rounds {
        for _ in 0..PER_ROUND {
            small.push(open(&projects.small, &mut all));
            large.push(open(&projects.large, &mut all));
        }
        worktrees.push(git_worktree(projects, &format!("beside-overlays-{round}")));
    }
    let opens = |of: &[OpenDurations]| median(&of.iter().map(|one| one.open).collect::<Vec<_>>());
    let usables = |of: &[OpenDurations]| median(&of.iter().map(|one| one.usable).collect::<Vec<_>>());
    let (files, more) = (projects.small.files, projects.large.files);
    let rows = vec![
        row(
            &format!("overlay_{who}_{files}"),
            "git-worktree-add",
            opens(&small),
            median(&worktrees),
            Better::Less,
            "ms",
        ),
        row(
            &format!("overlay_{who}_usable_{files}"),
            "git-worktree-add",
            usables(&small),
            median(&worktrees),
            Better::Less,
            "ms",
        ),
        row(
            &format!("overlay_{who}_{more}"),
            &format!("overlay_{who}_{files}"),
            opens(&large),
            opens(&small),
            Better::Less,
            "ms",
        ),
    ];
    // On a busy machine most of the time is that of others: what it needs itself is the least of it, and its CPU time.
    let least = small.iter().map(|one| one.open).fold(f64::INFINITY, f64::min);
    let cpu = median(&small.iter().map(|one| one.cpu).collect::<Vec<_>>());
    println!("overlay as {who}: {least:.3} ms at least, {cpu:.3} CPU ms");
    rows
}

fn open(project: &BenchProject, all: &mut Vec<Sandbox>) -> OpenDurations {
    let (start, before) = (Instant::now(), spent());
    let sandbox = project.open(SandboxStrategy::Overlay);
    let (open, cpu) = (start.elapsed(), spent() - before);
    sandbox.root(RootIndex(0)).unwrap();
    let usable = start.elapsed();
    all.push(sandbox);
    OpenDurations { open: ms(open), usable: ms(usable), cpu: ms(cpu) }
}

/// Milliseconds of a `git worktree add`. What it made stays: a file system that has just removed many files
/// is slow at making new ones.
pub(crate) fn git_worktree(projects: &BenchProjects, name: &str) -> f64 {
    let place = projects.dir.join(format!("worktree-{}-{name}", projects.who));
    let start = Instant::now();
    projects.small.git(&["worktree", "add", "-q", "--detach", place.to_str().unwrap()]);
    ms(start.elapsed())
}
