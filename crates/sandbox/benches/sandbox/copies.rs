//! How long the rungs take that copy: the worktree beside `git worktree add`, the copy beside `cp -a`.

use std::fs::File;
use std::process::Command;
use std::time::Instant;

use sandbox::{Sandbox, SandboxStrategy};

use crate::cpu::ms;
use crate::overlays::git_worktree;
use crate::project::{BenchProject, BenchProjects, run};
use testkit::bench_row::{Better, median, row};

/// The rows, and the sandboxes, which stay open as long as somebody measures.
pub(crate) fn measure(projects: &BenchProjects, rounds: usize) -> (Vec<String>, Vec<Sandbox>) {
    let mut times: [Vec<f64>; 4] = Default::default();
    let mut open = Vec::new();
    for round in 0..rounds {
        let mut settled = |at: usize, took: &mut dyn FnMut() -> f64| {
            // What one has written is not to be written out at the expense of the next.
            rustix::fs::syncfs(File::open(&projects.dir).unwrap()).unwrap();
            times[at].push(took());
        };
        settled(0, &mut || time(&projects.small, SandboxStrategy::Worktree, &mut open));
        settled(1, &mut || git_worktree(projects, &format!("beside-copies-{round}")));
        settled(2, &mut || time(&projects.small, SandboxStrategy::Copy, &mut open));
        settled(3, &mut || cp(projects, round));
    }
    let [worktree, git, copy, cp] = times.map(|times| median(&times));
    let files = projects.small.files;
    let rows = vec![
        row(&format!("worktree_{files}"), "git-worktree-add", worktree, git, Better::Less, "ms"),
        row(&format!("copy_{files}"), "cp-a", copy, cp, Better::Less, "ms"),
    ];
    (rows, open)
}

fn time(project: &BenchProject, rung: SandboxStrategy, open: &mut Vec<Sandbox>) -> f64 {
    let start = Instant::now();
    open.push(project.open(rung));
    ms(start.elapsed())
}

fn cp(projects: &BenchProjects, round: usize) -> f64 {
    let place = projects.dir.join(format!("cp-{round}"));
    let start = Instant::now();
    run(Command::new("cp").arg("-a").arg(&projects.small.path).arg(&place));
    ms(start.elapsed())
}
