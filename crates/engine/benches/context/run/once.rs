//! One run of ours in a process of its own: this program, started again with what it is to do.
//!
//! The measured process does what `agents context index` and `agents context assemble` do, and nothing else.

use std::path::Path;
use std::process::{Command, Stdio};

use super::project::Project;
use testkit::cost::Cost;

const ONCE: &str = "--once";
/// How often one process assembles, of which the later ones are measured.
const HELD_TIMES: usize = 6;

pub(super) fn is_asked() -> bool {
    std::env::args().nth(1).is_some_and(|word| word == ONCE)
}

/// In the new process.
pub(super) fn run() {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let [what, root, index, query, tokens] = &words[..] else { panic!("{words:?}") };
    let project = Project::open(Path::new(root), Path::new(index));
    let tokens: u32 = tokens.parse().unwrap();
    match &**what {
        "index" => println!("{}", project.update()),
        "assemble" => assert!(project.assemble(query, tokens).tokens <= tokens),
        _ => {
            project.assemble(query, tokens);
            for _ in 1..HELD_TIMES {
                let (_, cost) = testkit::cost::of(|| project.assemble(query, tokens));
                println!("{} {} {}", cost.cpu_s, cost.wall_s, cost.peak_mb);
            }
        }
    }
}

/// Brings the index up to date; how many files it found changed.
pub(super) fn index(root: &Path, index: &Path) -> (usize, Cost) {
    let (told, cost) = testkit::cost::of_command(command("index", root, index, "", 0).stdout(Stdio::piped()));
    (told.trim().parse().unwrap(), cost)
}

/// Assembles a context.
pub(super) fn assemble(root: &Path, index: &Path, query: &str, tokens: u32) -> Cost {
    testkit::cost::of_command(command("assemble", root, index, query, tokens).stdout(Stdio::null())).1
}

/// Assembles contexts, one after the other; what one costs after the first.
pub(super) fn held(root: &Path, index: &Path, query: &str, tokens: u32) -> Cost {
    let output = command("held", root, index, query, tokens).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).unwrap();
    let costs: Vec<Vec<f64>> =
        told.lines().map(|line| line.split(' ').map(|number| number.parse().unwrap()).collect()).collect();
    let middle =
        |at: usize| testkit::bench_row::median(&costs.iter().map(|cost| cost[at]).collect::<Vec<_>>());
    Cost { cpu_s: middle(0), wall_s: middle(1), peak_mb: middle(2) }
}

fn command(what: &str, root: &Path, index: &Path, query: &str, tokens: u32) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(ONCE).arg(what).arg(root).arg(index).arg(query).arg(tokens.to_string());
    command.stdin(Stdio::null());
    command
}
