//! `agents context breakers`: which strategies are skipped because they failed too often, and resetting them.
//!
//! A breaker is in the memory of the process that assembles contexts: a worker, a run, `agents mcp`. Each
//! process writes its changes to a small file of the data directory, which this command reads. A reset is
//! written there too: every process closes its own breakers before its next context.

use std::time::Duration;

use engine::context::built_in_strategies;
use engine::{StrategyBreaker, reset_strategy_breakers, strategy_breakers};
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::config::breakers;
use crate::errors::{CommandError, codes, hints};
use crate::output::CommandReport;
use crate::tui::top::span;

/// The word for all of them.
const ALL: &str = "all";

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct BreakersArgs {
    /// Use this strategy again, in every process of the data directory; `all` for every strategy; may be
    /// repeated
    #[arg(long, value_name = "NAME")]
    reset: Vec<String>,
}

pub(super) async fn run(args: BreakersArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let data_dir = invocation.data_dir()?;
    let settings = invocation.settings(Vec::new(), &[])?;
    let config = breakers(&settings);
    let names: Vec<String> = built_in_strategies().iter().map(|(name, _)| name.to_string()).collect();
    if let Some(unknown) = args.reset.iter().find(|name| *name != ALL && !names.contains(name)) {
        let message = format!("there is no strategy `{unknown}`");
        let failure = CommandError::new(&codes::USAGE, message).hint(hints::STRATEGY_NAMES);
        return Err(failure.field("names", names.join(", ")));
    }
    let is_reset = |name: &&String| args.reset.iter().any(|reset| reset == ALL || reset == *name);
    let reset: Vec<String> = names.iter().filter(is_reset).cloned().collect();
    if !reset.is_empty() {
        reset_strategy_breakers(&data_dir, &reset).map_err(|error| {
            let message = format!("the reset cannot be written to {}: {error}", data_dir.display());
            CommandError::new(&codes::IO_FAILED, message)
        })?;
    }
    let breakers = strategy_breakers(&data_dir, &names);
    let rows: Vec<Value> = breakers.iter().map(to_json).collect();
    let data = json!({
        "breakers": rows, "reset": reset, "threshold": config.threshold,
        "cool_down_s": config.cool_down.as_secs(),
    });
    let text: String = breakers.iter().map(|breaker| to_text(breaker, &reset)).collect();
    Ok(CommandReport::new(data, text))
}

fn to_json(breaker: &StrategyBreaker) -> Value {
    let left_ms = breaker.left.map(millis);
    let state = if breaker.left.is_some() { "open" } else { "closed" };
    json!({ "name": breaker.name, "state": state, "left_ms": left_ms })
}

fn to_text(breaker: &StrategyBreaker, reset: &[String]) -> String {
    let state = match breaker.left {
        Some(left) => {
            let left = millis(left).div_ceil(1_000).saturating_mul(1_000);
            format!("open: it failed too often and is skipped for {} more", span(left))
        }
        None if reset.contains(&breaker.name) => "closed: it was reset and is asked again".to_owned(),
        None => "closed".to_owned(),
    };
    format!("{}  {state}\n", breaker.name)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
