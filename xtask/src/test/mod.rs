//! `cargo xtask test [--all]`: the checks that have to be green before a change is handed on; CI runs them.
//!
//! Everything is built once ([`programs`]), and the steps run concurrently in three lanes ([`lanes`]). The
//! first has the build and the tests of the program. The second has the other tests, the kills, the soak and
//! the simulation. The third has the model check, the lints and the docs. The run ends with the time of each
//! step.
//!
//! `--all` adds the steps that take long and that a change rarely breaks. These are the lints of code under
//! loom and shuttle, the full model check and the whole soak. It also runs ten times the simulation, and the
//! coverage with its bars.
//!
//! # Not here
//! Benchmarks and mutants. They are commands of their own.

mod lanes;
mod programs;

use std::sync::OnceLock;
use std::time::Instant;

use crate::child::Child;
use crate::coverage;
use crate::failure::Failure;
use crate::install;
use crate::model_check::{self, EFFORT_VARIABLE, ModelCheckEffort, VARIANTS};
use crate::peers;
use crate::sim;
use crate::soak;
use crate::tidy;
use crate::workspace::Workspace;

use lanes::{Step, minutes_and_seconds};
use programs::BuiltPrograms;

pub(crate) use lanes::LineSink;

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let all = match arguments {
        [] => false,
        [flag] if flag == "--all" => true,
        [..] => return Err(Failure::new("`cargo xtask test` takes no argument but `--all`")),
    };
    let begun = Instant::now();
    install::component(workspace, "rustfmt", &Child::cargo(["fmt", "--version"]))?;
    install::component(workspace, "clippy", &Child::cargo(["clippy", "--version"]))?;
    Child::cargo(["fmt", "--all", "--check"]).run(workspace)?;
    let programs = OnceLock::new();
    let times = lanes::run(&steps(workspace, &programs))?;
    println!();
    for step in &times {
        println!("{:28} {}", step.name, minutes_and_seconds(step.time));
    }
    println!("all {} steps passed in {}", times.len(), minutes_and_seconds(begun.elapsed()));
    if all { run_the_rest(workspace) } else { Ok(()) }
}

/// The long checks of `--all`, one after the other.
fn run_the_rest(workspace: &Workspace) -> Result<(), Failure> {
    for variant in VARIANTS {
        variant.clippy(workspace).run(workspace)?;
    }
    model_check::run_with(workspace, ModelCheckEffort::Full, &[], &mut |line| println!("{line}"))?;
    soak::run(workspace, &[])?;
    sim::run(workspace, &["--runs", "20000"].map(str::to_owned))?;
    coverage::run(workspace, &[])
}

fn steps<'a>(workspace: &'a Workspace, programs: &'a OnceLock<BuiltPrograms>) -> Vec<Vec<Step<'a>>> {
    let built = || programs.get().ok_or_else(|| Failure::new("nothing is built"));
    let cargo = |name, needs, child: Child| Step {
        name,
        needs,
        repeat: child.to_string(),
        action: Box::new(move |show: LineSink<'_>| child.run_watched(workspace, show)),
    };
    let build = Step {
        name: "build",
        needs: &[],
        repeat: programs::build_command().to_string(),
        action: Box::new(|show| {
            let built = BuiltPrograms::build(workspace, show)?;
            programs.set(built).map_err(|_| Failure::new("built twice"))
        }),
    };
    let install = Step {
        name: "install",
        needs: &[],
        repeat: "cargo xtask peers".to_owned(),
        action: Box::new(|_| install_for_tests(workspace)),
    };
    let app_tests = Step {
        name: "tests of app",
        needs: &["build", "install"],
        repeat: "cargo test --locked -p app".to_owned(),
        action: Box::new(move |show| built()?.run_tests(workspace, |package| package == "app", show)),
    };
    let other_tests = Step {
        name: "tests of the other crates",
        needs: &["build", "install"],
        repeat: "cargo test --locked --workspace --exclude app".to_owned(),
        action: Box::new(move |show| built()?.run_tests(workspace, |package| package != "app", show)),
    };
    // Kills of a few applies and undos, and of workers; `cargo xtask bench apply` and `soak` do many.
    let kills = Step {
        name: "kills",
        needs: &["build"],
        repeat: "cargo test --locked -p sandbox --bench apply -- --runs 20".to_owned(),
        action: Box::new(move |show| {
            built()?.run_bench(workspace, "sandbox", "apply", &["--runs", "20"], show)
        }),
    };
    let short_soak = Step {
        name: "short soak",
        needs: &["build"],
        repeat: "cargo test --locked -p app --bench soak -- --plans 100 --kills 5".to_owned(),
        action: Box::new(move |show| {
            built()?.run_bench(workspace, "app", "soak", &["--plans", "100", "--kills", "5"], show)
        }),
    };
    let simulation = |name, words: &'static [&'static str]| Step {
        name,
        needs: &["build"],
        repeat: format!("cargo xtask sim {}", words.join(" ")),
        action: Box::new(move |show: LineSink<'_>| built()?.run_binary(workspace, "sim", words, show)),
    };
    let model_check = Step {
        name: "quick model check",
        needs: &[],
        repeat: format!("{EFFORT_VARIABLE}=quick cargo xtask model-check"),
        action: Box::new(|show| model_check::run_with(workspace, ModelCheckEffort::Quick, &[], show)),
    };
    let tidy = Step {
        name: "tidy",
        needs: &["build"],
        repeat: "cargo xtask tidy".to_owned(),
        action: Box::new(|_| tidy::run(workspace, &[])),
    };
    let clippy = Child::cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    // `--examples` makes cargo resolve the features that the build has.
    let doc = Child::cargo(["doc", "--workspace", "--no-deps", "--locked", "--lib", "--bins", "--examples"])
        .variable("RUSTDOCFLAGS", "-D warnings");
    let doc_tests = Child::cargo(["test", "--workspace", "--doc", "--locked"]);
    vec![
        vec![build, app_tests],
        vec![
            other_tests,
            kills,
            short_soak,
            simulation("simulation", &["--runs", "2000"]),
            simulation("simulation of broken programs", &["--broken", "all"]),
        ],
        vec![
            install,
            model_check,
            tidy,
            cargo("clippy", &["build"], clippy),
            cargo("doc", &["build"], doc),
            cargo("doc tests", &["build"], doc_tests),
        ],
    ]
}

/// Installs what the tests need and a fresh machine lacks.
fn install_for_tests(workspace: &Workspace) -> Result<(), Failure> {
    if !Child::new("ip", ["-V"]).succeeds() {
        install::debian_package(workspace, "iproute2", "tests make a second host, on a wire of their own")?;
    }
    peers::for_tests(workspace)?;
    install::local_model(workspace)
}
