//! How long the rungs take that copy: the worktree beside `git worktree add`, the copy beside `cp -a`.

use std::fs::{self, File};
use std::process::Command;
use std::time::Instant;

use sandbox::Rung;

use crate::cpu::ms;
use crate::overlays::git_worktree;
use crate::project::{Project, Projects, run};
use crate::row::{Better, median, row};

pub(crate) fn measure(projects: &Projects, rounds: usize) -> Vec<String> {
    let mut times: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds {
        // What one has written is not to be written out at the expense of the next.
        let settled = |times: &mut Vec<f64>, took: &dyn Fn() -> f64| {
            rustix::fs::syncfs(File::open(&projects.dir).unwrap()).unwrap();
            times.push(took());
        };
        settled(&mut times[0], &|| open(&projects.small, Rung::Worktree));
        settled(&mut times[1], &|| git_worktree(projects, round));
        settled(&mut times[2], &|| open(&projects.small, Rung::Copy));
        settled(&mut times[3], &|| cp(projects));
    }
    let [worktree, git, copy, cp] = times.map(|times| median(&times));
    let files = projects.small.files;
    vec![
        row(&format!("worktree_{files}"), "git-worktree-add", worktree, git, Better::Less, "ms"),
        row(&format!("copy_{files}"), "cp-a", copy, cp, Better::Less, "ms"),
    ]
}

fn open(project: &Project, rung: Rung) -> f64 {
    let start = Instant::now();
    let sandbox = project.open(rung);
    let took = ms(start.elapsed());
    sandbox.close().unwrap();
    took
}

fn cp(projects: &Projects) -> f64 {
    let place = projects.dir.join("cp");
    let start = Instant::now();
    run(Command::new("cp").arg("-a").arg(&projects.small.path).arg(&place));
    let took = ms(start.elapsed());
    fs::remove_dir_all(&place).unwrap();
    took
}
