//! `agents context assemble | simulate | inspect | index | show | breakers`: what a model would be given to
//! read of a project.
//!
//! # Invariants
//! 1. The output of `assemble` is the text and nothing else, so that it can be piped into any model.
//! 2. These commands only read projects. What they write is the index, which is a cache.
//! 3. A request to stop ends the search, and nothing is printed of what was found so far. A second one ends
//!    the program, whatever it waits for.

mod ask;
mod assemble;
mod breakers;
mod cache;
mod focus;
mod index;
mod inspect;
mod show;
mod simulate;
mod table;
mod tool;

use std::future::Future;

pub(super) use cache::PipelineCache;
pub(super) use tool::request;

use clap::Subcommand;
use engine::context::ContextError;
use sync::{CancelReason, CancellationToken, Observed};

use super::follow::end_at_once;
use super::signals::StopSignals;
use super::{Invocation, alone};
use crate::errors::CommandError;
use crate::output::CommandReport;

#[derive(Debug, Subcommand)]
pub(super) enum ContextCommand {
    /// Print the parts of your project that a model needs to answer a question, within a number of tokens
    Assemble(Box<assemble::AssembleArgs>),
    /// Print which parts such a text would contain and leave out, and why
    Simulate(Box<simulate::SimulateArgs>),
    /// Print the index entry of a file, or of the file that defines a symbol
    Inspect(inspect::InspectArgs),
    /// Update the index of a project, and print its state
    Index(index::IndexArgs),
    /// List the contexts that the models of a plan received, or print one of them
    Show(show::ShowArgs),
    /// Print the strategies that are skipped because they failed too often, or use them again
    Breakers(breakers::BreakersArgs),
}

impl ContextCommand {
    pub(super) fn name(&self) -> &'static str {
        match self {
            ContextCommand::Assemble(_) => "context assemble",
            ContextCommand::Simulate(_) => "context simulate",
            ContextCommand::Inspect(_) => "context inspect",
            ContextCommand::Index(_) => "context index",
            ContextCommand::Show(_) => "context show",
            ContextCommand::Breakers(_) => "context breakers",
        }
    }
}

pub(super) fn dispatch(
    command: ContextCommand,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    match command {
        ContextCommand::Assemble(args) => alone(assemble::run(*args, invocation)),
        ContextCommand::Simulate(args) => alone(simulate::run(*args, invocation)),
        ContextCommand::Inspect(args) => alone(inspect::run(args, invocation)),
        ContextCommand::Index(args) => alone(index::run(args, invocation)),
        ContextCommand::Show(args) => alone(show::run(args, invocation)),
        ContextCommand::Breakers(args) => alone(breakers::run(args, invocation)),
    }
}

/// Does `work` until it is done; a request to stop cancels it and waits for it to say so, another one ends
/// the program.
async fn unless_stopped<T, W>(work: impl FnOnce(Observed) -> W) -> Result<T, ContextError>
where
    W: Future<Output = Result<T, ContextError>>,
{
    let token = CancellationToken::new();
    let mut work = std::pin::pin!(work(token.observe()));
    let mut stops = StopSignals::listen();
    tokio::select! {
        biased;
        done = &mut work => done,
        _ = stops.next() => {
            token.cancel(CancelReason::User);
            tokio::select! {
                biased;
                done = &mut work => done,
                _ = stops.next() => end_at_once(),
            }
        }
    }
}

/// Runs what blocks on a thread that may, until it is done or a request to stop ends it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Observed) -> Result<T, ContextError> + Send + 'static,
) -> Result<T, ContextError> {
    unless_stopped(|stop| async move {
        let done = tokio::task::spawn_blocking(move || work(&stop)).await;
        done.unwrap_or_else(|error| Err(ContextError::Panicked(error.to_string())))
    })
    .await
}
