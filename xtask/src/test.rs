//! `cargo xtask test`: what has to be green before a change is handed on, and what CI runs.
//!
//! The steps run in order, cheapest knowledge first, and the first failing one ends the run with its name and
//! the line that repeats it. Long things (full model check, benchmarks, coverage, mutants) are commands of
//! their own.

use std::time::{Duration, Instant};

use crate::child::Child;
use crate::failure::Failure;
use crate::install;
use crate::model_check::{self, EFFORT_VARIABLE, ModelCheckEffort, VARIANTS};
use crate::peers;
use crate::sim;
use crate::tidy;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    crate::no_arguments("test", arguments)?;
    install::component(workspace, "rustfmt", &Child::cargo(["fmt", "--version"]))?;
    install::component(workspace, "clippy", &Child::cargo(["clippy", "--version"]))?;
    if !Child::new("ip", ["-V"]).succeeds() {
        install::debian_package(workspace, "iproute2", "tests make a second host, on a wire of their own")?;
    }
    peers::for_tests(workspace)?;
    let begun = Instant::now();
    install::local_model(workspace)?;
    let steps = steps(workspace);
    for (index, step) in steps.iter().enumerate() {
        let place = format!("[{}/{}] {}", index + 1, steps.len(), step.name);
        println!("\n{place}");
        let step_begun = Instant::now();
        let result = step.action.run(workspace);
        println!("{place}: {}", spoken(step_begun.elapsed()));
        result.map_err(|failure| {
            Failure::new(format!("step `{}` failed: {}", step.name, failure.fact()))
                .hint(format!("repeat it with `{}`", step.action.repeated_by()))
        })?;
    }
    println!("\nall {} steps passed in {}", steps.len(), spoken(begun.elapsed()));
    Ok(())
}

struct TestStep {
    name: String,
    action: StepAction,
}

enum StepAction {
    Child(Child),
    Tidy,
    ModelCheck,
}

impl StepAction {
    fn run(&self, workspace: &Workspace) -> Result<(), Failure> {
        match self {
            Self::Child(child) => child.run(workspace),
            Self::Tidy => tidy::run(workspace, &[]),
            Self::ModelCheck => model_check::run_with(workspace, ModelCheckEffort::Quick, &[]),
        }
    }

    fn repeated_by(&self) -> String {
        match self {
            Self::Child(child) => child.to_string(),
            Self::Tidy => "cargo xtask tidy".to_owned(),
            Self::ModelCheck => format!("{EFFORT_VARIABLE}=quick cargo xtask model-check"),
        }
    }
}

fn steps(workspace: &Workspace) -> Vec<TestStep> {
    let step = |name: &str, action| TestStep { name: name.to_owned(), action };
    let cargo =
        |name: &str, words: &[&str]| step(name, StepAction::Child(Child::cargo(words.iter().copied())));
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    let doc =
        Child::cargo(["doc", "--workspace", "--no-deps", "--locked"]).variable("RUSTDOCFLAGS", "-D warnings");
    let mut steps = vec![cargo("fmt", &["fmt", "--all", "--check"]), cargo("clippy", &clippy)];
    for variant in VARIANTS {
        let name = format!("clippy under {}", variant.cfg);
        steps.push(step(&name, StepAction::Child(variant.clippy(workspace))));
    }
    steps.push(step("tidy", StepAction::Tidy));
    steps.push(cargo("test", &["test", "--workspace", "--locked"]));
    // Kills of a few applies and undos, and of workers; `cargo xtask bench apply` and `soak` do many.
    let kills = ["test", "--locked", "-p", "sandbox", "--bench", "apply", "--", "--runs", "20"];
    steps.push(cargo("kills", &kills));
    let soak = ["test", "--locked", "-p", "app", "--bench", "soak", "--", "--plans", "100", "--kills", "5"];
    steps.push(cargo("short soak", &soak));
    steps.push(step("doc", StepAction::Child(doc)));
    steps.push(step("quick model check", StepAction::ModelCheck));
    steps.push(step("simulation", StepAction::Child(sim::quick(&["--runs", "2000"]))));
    steps.push(step("simulation of broken programs", StepAction::Child(sim::quick(&["--broken", "all"]))));
    steps
}

fn spoken(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spoken_in_the_unit_that_one_would_use() {
        assert_eq!(spoken(Duration::from_millis(1_440)), "1.4 s");
        assert_eq!(spoken(Duration::from_secs(725)), "12 min 05 s");
    }
}
