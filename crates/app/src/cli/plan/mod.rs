//! `agents plan …`: a file for each verb.

pub(crate) mod apply;
mod apply_batch;
mod artifacts;
pub(crate) mod cancel;
pub(super) mod check;
pub(crate) mod diff;
mod discard;
mod dry_run;
mod editor;
pub(super) mod errors;
mod execute;
mod explain;
mod gc;
pub(super) mod list;
pub(super) mod log;
pub(super) mod logs;
mod note;
mod prompt;
pub(super) mod redo;
mod resume;
pub(crate) mod review;
pub(super) mod revise;
mod rollback;
pub(super) mod selection;
mod shell;
pub(super) mod status;
mod tree;
pub(super) mod undo;
mod use_plan;
pub(super) mod watch;

use clap::Subcommand;
use engine::{Engine, PlanDetails};

use super::invocation::NamedPlan;
use super::{Invocation, alone};
use crate::errors::{CommandError, codes, from_engine};
use crate::output::{CommandReport, confirm};

#[derive(Debug, Subcommand)]
pub(super) enum PlanCommand {
    /// Create a plan without running it
    Use(Box<use_plan::UseArgs>),
    /// Run a plan that was created and has not run
    Execute(execute::ExecuteArgs),
    /// List plans, newest first
    List(list::ListArgs),
    /// Show the state of a plan and the next steps
    Status(status::StatusArgs),
    /// Follow a plan until it waits or ends
    Watch(watch::WatchArgs),
    /// Show the decisions of a plan as a tree
    Tree(tree::TreeArgs),
    /// Show one decision of a plan, and all that depends on it
    Explain(explain::ExplainArgs),
    /// Send a message to a plan, which it heeds as it continues or begins again with
    Prompt(prompt::PromptArgs),
    /// Continue a finished plan on top of its changes
    Revise(revise::ReviseArgs),
    /// Write a comment on a place of a plan's changes
    Note(note::NoteArgs),
    /// List the comments on a plan's changes
    Notes(note::NotesArgs),
    /// List the states of a plan's result, one after each call that changed something
    Checkpoints(rollback::CheckpointsArgs),
    /// Return the result of a plan to a checkpoint
    Rollback(rollback::RollbackArgs),
    /// Show the output of the commands of a plan
    Logs(logs::LogsArgs),
    /// Show what a plan changed
    Diff(diff::DiffArgs),
    /// List the files that a plan created, or export them
    Artifacts(artifacts::ArtifactsArgs),
    /// Apply the changes of a plan to your files
    Apply(apply::ApplyArgs),
    /// Run the checks of a plan again, without doing its work again
    Check(check::CheckArgs),
    /// Undo an applied plan
    Undo(undo::UndoArgs),
    /// Apply a plan again that was undone, with the same choice
    Redo(redo::RedoArgs),
    /// Open a shell in the sandbox of a finished plan, or run a command there by hand
    Shell(shell::ShellArgs),
    /// Stop a plan for good
    Cancel(cancel::CancelArgs),
    /// Throw plans away, with the changes that they left
    Discard(discard::DiscardArgs),
    /// Resume a plan that failed or was interrupted
    Resume(resume::ResumeArgs),
    /// Show the errors of a plan
    Errors(errors::ErrorsArgs),
    /// Remove data that is no longer needed
    Gc(gc::GcArgs),
}

impl PlanCommand {
    pub(super) fn name(&self) -> &'static str {
        match self {
            PlanCommand::Use(_) => "plan use",
            PlanCommand::Execute(_) => "plan execute",
            PlanCommand::List(_) => "plan list",
            PlanCommand::Status(_) => "plan status",
            PlanCommand::Watch(_) => "plan watch",
            PlanCommand::Tree(_) => "plan tree",
            PlanCommand::Explain(_) => "plan explain",
            PlanCommand::Prompt(_) => "plan prompt",
            PlanCommand::Revise(_) => "plan revise",
            PlanCommand::Note(_) => "plan note",
            PlanCommand::Notes(_) => "plan notes",
            PlanCommand::Checkpoints(_) => "plan checkpoints",
            PlanCommand::Rollback(_) => "plan rollback",
            PlanCommand::Logs(_) => "plan logs",
            PlanCommand::Diff(_) => "plan diff",
            PlanCommand::Artifacts(_) => "plan artifacts",
            PlanCommand::Apply(_) => "plan apply",
            PlanCommand::Check(_) => "plan check",
            PlanCommand::Undo(_) => "plan undo",
            PlanCommand::Redo(_) => "plan redo",
            PlanCommand::Shell(_) => "plan shell",
            PlanCommand::Cancel(_) => "plan cancel",
            PlanCommand::Discard(_) => "plan discard",
            PlanCommand::Resume(_) => "plan resume",
            PlanCommand::Errors(_) => "plan errors",
            PlanCommand::Gc(_) => "plan gc",
        }
    }
}

pub(super) fn dispatch(command: PlanCommand, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    match command {
        PlanCommand::Use(args) => alone(use_plan::run(*args, invocation)),
        PlanCommand::Execute(args) => alone(execute::run(args, invocation)),
        PlanCommand::List(args) => alone(list::run(args, invocation)),
        PlanCommand::Status(args) => alone(status::run(args, invocation)),
        PlanCommand::Watch(args) => alone(watch::run(args, invocation)),
        PlanCommand::Tree(args) => alone(tree::run(args, invocation)),
        PlanCommand::Explain(args) => alone(explain::run(args, invocation)),
        PlanCommand::Prompt(args) => alone(prompt::run(args, invocation)),
        PlanCommand::Revise(args) => alone(revise::run(args, invocation)),
        PlanCommand::Note(args) => alone(note::add(args, invocation)),
        PlanCommand::Notes(args) => alone(note::list(args, invocation)),
        PlanCommand::Checkpoints(args) => alone(rollback::list(args, invocation)),
        PlanCommand::Rollback(args) => alone(rollback::run(args, invocation)),
        PlanCommand::Logs(args) => alone(logs::run(args, invocation)),
        PlanCommand::Diff(args) => alone(diff::run(args, invocation)),
        PlanCommand::Artifacts(args) => alone(artifacts::run(args, invocation)),
        PlanCommand::Apply(args) => alone(apply::run(args, invocation)),
        PlanCommand::Check(args) => alone(check::run(args, invocation)),
        PlanCommand::Undo(args) => alone(undo::run(args, invocation)),
        PlanCommand::Redo(args) => alone(redo::run(args, invocation)),
        PlanCommand::Shell(args) => alone(shell::run(args, invocation)),
        PlanCommand::Cancel(args) => alone(cancel::run(args, invocation)),
        PlanCommand::Discard(args) => alone(discard::run(args, invocation)),
        PlanCommand::Resume(args) => alone(resume::run(args, invocation)),
        PlanCommand::Errors(args) => alone(errors::run(args, invocation)),
        PlanCommand::Gc(args) => alone(gc::run(args, invocation)),
    }
}

/// All that is known of the plan.
pub(super) async fn details(engine: &Engine, plan: &NamedPlan) -> Result<PlanDetails, CommandError> {
    engine.plan_details(plan.id).await.map_err(|error| from_engine::plan(&error, &plan.short))
}

/// The person's yes to a change of their files: given beforehand, or asked for at a terminal.
fn agreed(question: &str, yes: bool, invocation: &Invocation) -> Result<bool, CommandError> {
    if yes {
        return Ok(true);
    }
    if !invocation.style.can_ask || invocation.style.format.is_for_programs() {
        return Err(CommandError::new(
            &codes::CONFIRMATION_NEEDED,
            "this changes your files and needs confirmation, which cannot be asked for here",
        ));
    }
    confirm(&invocation.words_without_secrets(question.to_owned())).map_err(|error| {
        CommandError::new(&codes::IO_FAILED, format!("the terminal cannot be read: {error}"))
    })
}
