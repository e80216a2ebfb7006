//! The features of the four seed reports (`features/*.feature`), run against the real parts.
//!
//! Index: `world` (what a scenario has, and what every feature may say), `threads` (threads that are driven
//! step by step), `pausing_store` (a store that stops where a scenario says), `naive` (the bugs of the
//! reports, with places to stop), `arguments` (the command line). By report:
//! - #7088: `breaker`, `breaker_many`, `pipelines`
//! - #7120: `changesets`, `changesets_many`
//! - #7333: `errors`
//! - #7166: `cancellation`, `cancellation_many`, `worker`, `harness` (what workers share)
//!
//! # Running
//! `cargo test -p worker --test features` runs all; words after `--` choose the scenarios whose feature,
//! title or tags have them all; options are those of the cucumber crate, such as `--tags @naive`.
//!
//! # Invariants
//! 1. A failing, skipped, undefined or ambiguous step fails the run; so does a run of no scenario, unless
//!    words that cargo gives to every test binary chose none.
//! 2. Nothing here sleeps. A wait that lasts as long as [`threads::WATCHDOG`] fails its scenario.
//! 3. Scenarios run one after the other, so that a scenario has all cores for its own threads.
//!
//! Further modules: `delegated`, `worker_harness`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and a run without scenarios says so"
)]

#[macro_use]
#[path = "../cases/delegated.rs"]
mod delegated;
mod arguments;
mod breaker;
mod breaker_many;
mod cancellation;
mod cancellation_many;
mod changesets;
mod changesets_many;
mod errors;
mod naive;
mod pausing_store;
mod pipelines;
mod threads;
mod worker;
mod worker_harness;
mod world;

use std::process::ExitCode;

use cucumber::writer::Stats;
use cucumber::{World, WriterExt, event, gherkin, writer};

use crate::arguments::Asked;
use crate::world::Features;

const FEATURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../features");

fn main() -> ExitCode {
    match arguments::asked(std::env::args().skip(1)) {
        Asked::List => ExitCode::SUCCESS,
        Asked::Run { words, options } => {
            // Steps block this thread; the tasks of the workers have threads of their own.
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
            runtime.block_on(run(words, options))
        }
    }
}

async fn run(words: Vec<String>, options: Vec<String>) -> ExitCode {
    let no_choice_was_made = words.is_empty();
    let writer = Features::cucumber()
        .max_concurrent_scenarios(1)
        .before(|_, _, scenario, _| {
            assert!(!scenario.steps.is_empty(), "the scenario has no steps");
            Box::pin(std::future::ready(()))
        })
        .after(|_, _, _, ended, world| {
            if let (event::ScenarioFinished::StepPassed, Some(world)) = (ended, world) {
                world.threads.assert_all_ended_well();
            }
            Box::pin(std::future::ready(()))
        })
        .with_writer(writer::Basic::stdout().summarized().fail_on_skipped_with(|_, _, _| true))
        .with_cli(arguments::cucumber_options(options))
        .filter_run(FEATURES, move |feature, _, scenario| has_all(&words, feature, scenario))
        .await;
    let scenarios = writer.scenarios_stats().total();
    if scenarios == 0 && no_choice_was_made {
        eprintln!("no scenario ran");
    }
    if writer.execution_has_failed() || (scenarios == 0 && no_choice_was_made) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn has_all(words: &[String], feature: &gherkin::Feature, scenario: &gherkin::Scenario) -> bool {
    let tags = feature.tags.iter().chain(&scenario.tags);
    let text: Vec<&str> =
        [&feature.name, &scenario.name].into_iter().chain(tags).map(String::as_str).collect();
    let text = text.join(" ");
    words.iter().all(|word| text.contains(word))
}
