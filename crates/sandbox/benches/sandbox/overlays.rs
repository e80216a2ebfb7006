//! How long it takes to open an overlay, beside `git worktree add`, and whether the size of the tree matters.

use std::fs;
use std::time::Instant;

use domain::RootNo;
use sandbox::Rung;

use crate::cpu::ms;
use crate::project::{Project, Projects};
use crate::row::{Better, median, row};

/// How many overlays are opened between two turns of the peer.
const PER_ROUND: usize = 10;

/// What opening one took: until it was open, and until its tree could be used.
struct Opening {
    open: f64,
    usable: f64,
}

pub(crate) fn measure(projects: &Projects, who: &str, rounds: usize) -> Vec<String> {
    let (mut small, mut large, mut worktrees) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        for _ in 0..PER_ROUND {
            small.push(open(&projects.small));
            large.push(open(&projects.large));
        }
        worktrees.push(git_worktree(projects, round));
    }
    let opens = |of: &[Opening]| median(&of.iter().map(|one| one.open).collect::<Vec<_>>());
    let usables = |of: &[Opening]| median(&of.iter().map(|one| one.usable).collect::<Vec<_>>());
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
    println!(
        "overlay as {who}: open in {:.3} ms at {files} files, {:.3} ms at {more}; git worktree add {:.1} ms",
        opens(&small),
        opens(&large),
        median(&worktrees)
    );
    rows
}

fn open(project: &Project) -> Opening {
    let start = Instant::now();
    let sandbox = project.open(Rung::Overlay);
    let open = start.elapsed();
    sandbox.root(RootNo(0)).unwrap();
    let usable = start.elapsed();
    sandbox.close().unwrap();
    Opening { open: ms(open), usable: ms(usable) }
}

/// Milliseconds of a `git worktree add`; what it made is gone afterwards.
pub(crate) fn git_worktree(projects: &Projects, round: usize) -> f64 {
    let place = projects.dir.join(format!("worktree-{round}"));
    let start = Instant::now();
    projects.small.git(&["worktree", "add", "-q", "--detach", place.to_str().unwrap()]);
    let took = ms(start.elapsed());
    fs::remove_dir_all(&place).unwrap();
    projects.small.git(&["worktree", "prune"]);
    took
}
