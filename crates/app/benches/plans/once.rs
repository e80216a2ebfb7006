//! One plan of 2 steps from the start of the program to its end, beside `codex exec` with the same 2
//! commands.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::codex::Codex;
use crate::program::Program;

/// What each of the two steps does, in ours and in Codex.
const COMMANDS: [&str; 2] = ["echo one >> a.txt", "echo one >> b.txt"];

/// Milliseconds of ours and of Codex, or of an older program, in turns.
pub(crate) fn times(runs: usize, codex: Option<PathBuf>, old: Option<&Path>) -> (Vec<f64>, Vec<f64>) {
    let files = [("a.txt", "one\n"), ("b.txt", "one\n")];
    let program = Program::new(1, &files);
    let theirs = Program::new(1, &files);
    let old = old.map(|old| Program::at(old, 1, &files));
    let codex = codex.map(Codex::new);
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    // The first of each reads its files from the disk, and is not counted.
    for run in 0..=runs {
        let [first, second] = COMMANDS;
        let two_steps =
            |program: &Program| timed(&mut program.command(&["run", "--step", first, "--step", second]));
        let time = two_steps(&program);
        let old_time = old.as_ref().map(two_steps);
        if run > 0 {
            ours.push(time);
            others.extend(old_time);
        }
        let Some(codex) = &codex else { continue };
        let mut exec = codex.exec(&theirs.project(), &COMMANDS.map(str::to_owned));
        let time = timed(exec.arg("two steps"));
        assert_eq!(lines(&theirs.project()), [run + 2; 2], "Codex did not do its two steps");
        if run > 0 {
            others.push(time);
        }
    }
    let changed = &program.answer(&["plan", "status"])["changes"]["files"];
    assert_eq!(changed, 2, "a plan did not change two files");
    (ours, others)
}

fn timed(command: &mut Command) -> f64 {
    let start = Instant::now();
    let output = command.output().unwrap();
    let time = start.elapsed().as_secs_f64() * 1000.0;
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    time
}

fn lines(dir: &Path) -> [usize; 2] {
    ["a.txt", "b.txt"].map(|file| std::fs::read_to_string(dir.join(file)).unwrap().lines().count())
}
