//! `agents job …`: the jobs behind the plans, who runs them, and for how long they are owned.
//!
//! # Invariants
//! A job is cancelled with its plan, by the same way as `agents plan cancel`.

use clap::Subcommand;
use domain::{Job, JobId, JobState, JobTransitionRejection, Ms, PlanId, WallMs};
use engine::{BootClock, Engine, shortest_end};
use serde_json::{Value, json};
use store::JobStoreError;
use sync::Clock;

use super::invocation::{NamedPlan, short_id};
use super::plan::cancel::{self, CancelOptions};
use super::{Invocation, alone};
use crate::errors::{CommandError, codes, from_engine};
use crate::output::{CommandReport, TextTable};
use crate::time::{age, format_typed, now};

/// The minimum number of letters of an id that are shown: more than of a plan's, so that they look different.
const SHORT_CHARS_MIN: usize = 6;

#[derive(Debug, Subcommand)]
pub(super) enum JobCommand {
    /// List the jobs that wait or run
    List(JobListArgs),
    /// Show a job
    Show(JobShowArgs),
    /// Stop the plan of a job for good
    Cancel(JobCancelArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct JobListArgs {
    /// Include jobs that have ended
    #[arg(long)]
    all: bool,
    /// Only jobs of this plan
    #[arg(long, value_name = "PLAN")]
    plan: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct JobShowArgs {
    /// The job: the letters that `agents job list` shows, or its whole id
    job: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct JobCancelArgs {
    /// The job: the letters that `agents job list` shows, or its whole id
    job: String,
    #[command(flatten)]
    options: CancelOptions,
}

impl JobCommand {
    pub(super) fn name(&self) -> &'static str {
        match self {
            JobCommand::List(_) => "job list",
            JobCommand::Show(_) => "job show",
            JobCommand::Cancel(_) => "job cancel",
        }
    }
}

pub(super) fn dispatch(command: JobCommand, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    match command {
        JobCommand::List(args) => alone(list(args, invocation)),
        JobCommand::Show(args) => alone(show(args, invocation)),
        JobCommand::Cancel(args) => alone(cancel(args, invocation)),
    }
}

async fn list(args: JobListArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = match &args.plan {
        Some(word) => Some(invocation.plan(&engine, word).await?.id),
        None => None,
    };
    let found = match (args.all, plan) {
        (false, None) => engine.store().live_jobs().await,
        (_, plan) => engine.store().jobs(plan).await,
    };
    let mut jobs = found.map_err(|error| failed(&error, ""))?;
    jobs.retain(|job| args.all || !job.state.is_final());
    let names: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
    let plans: Vec<PlanId> = jobs.iter().map(|job| job.plan).collect();
    let plans = engine.short_ids(&plans).await.map_err(|error| from_engine::store(&error))?;
    let mut table = TextTable::new(&["job", "plan", "phase", "state", "worker", "lease", "age"]);
    for (job, plan) in jobs.iter().zip(plans) {
        table.row(vec![
            shortest_end(&job.id.to_string(), &names, SHORT_CHARS_MIN).to_ascii_lowercase(),
            plan,
            job.phase.to_string(),
            job.state.to_string(),
            job.worker.map(|worker| short_worker(&worker.to_string())).unwrap_or_default(),
            lease(&engine, job).unwrap_or_default(),
            age(queued_at(job), now()),
        ]);
    }
    let text = match jobs.is_empty() {
        true if args.all => "no jobs\n".to_owned(),
        true => "nothing waits or runs; `--all` lists what has ended\n".to_owned(),
        false => table.render(&invocation.style),
    };
    let data: Vec<Value> = jobs.iter().map(|job| to_json(&engine, job)).collect();
    Ok(CommandReport::new(json!({ "jobs": data }), text))
}

async fn show(args: JobShowArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let job = find(&engine, &args.job).await?;
    let plan = short_id(&engine, job.plan).await?;
    let mut lines = vec![
        ("job", job.id.to_string()),
        ("plan", plan),
        ("phase", job.phase.to_string()),
        ("state", job.state.to_string()),
        ("age", age(queued_at(&job), now())),
        ("owners", job.fence.0.to_string()),
        ("deaths", job.lost_leases.to_string()),
    ];
    let worker = job.worker.map(|worker| ("worker", worker.to_string()));
    let cancel = job.cancel.as_ref().map(|cancel| ("cancel", cancel.reason.clone()));
    let held = (job.is_held() && job.state == JobState::Queued)
        .then(|| ("waits for", "the user to execute its plan".to_owned()));
    let why = job.why.clone().map(|why| ("why", why));
    lines.extend(
        [worker, lease(&engine, &job).map(|lease| ("lease", lease)), cancel, held, why].into_iter().flatten(),
    );
    let text: String = lines
        .iter()
        .map(|(word, value)| format!("{word:<10} {}\n", crate::output::escape_control_chars(value)))
        .collect();
    Ok(CommandReport::new(to_json(&engine, &job), text))
}

async fn cancel(args: JobCancelArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let job = find(&engine, &args.job).await?;
    if job.state.is_final() {
        let message = format!("job {} is {} already", args.job, job.state);
        return Err(CommandError::new(&codes::JOB_FINAL, message).plan(&short_id(&engine, job.plan).await?));
    }
    let plan = NamedPlan { id: job.plan, short: short_id(&engine, job.plan).await? };
    cancel::cancel_plan(&engine, &plan, &args.options).await
}

/// The end of a worker's id: the beginning is only time.
fn short_worker(id: &str) -> String {
    shortest_end(id, &[], SHORT_CHARS_MIN).to_ascii_lowercase()
}

/// The job that a word names: by its id, or by the end or the beginning of its id.
async fn find(engine: &Engine, word: &str) -> Result<Job, CommandError> {
    if let Ok(id) = word.parse::<JobId>() {
        return engine.store().job(id).await.map_err(|error| failed(&error, word));
    }
    let prefix = word.to_ascii_uppercase();
    let jobs = engine.store().jobs(None).await.map_err(|error| failed(&error, word))?;
    let names: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
    let is_end = |name: &str| prefix.len() >= SHORT_CHARS_MIN && name.ends_with(&prefix);
    let ends = names.iter().any(|name| is_end(name));
    let is_meant = |name: &str| if ends { is_end(name) } else { name.starts_with(&prefix) };
    let mut alike = jobs.iter().zip(&names).filter(|(_, name)| !prefix.is_empty() && is_meant(name));
    match (alike.next(), alike.next()) {
        (Some((job, _)), None) => Ok(job.clone()),
        (Some((_, one)), Some((_, two))) => Err(CommandError::new(
            &codes::JOB_AMBIGUOUS,
            format!("`{word}` names several jobs, like {one} and {two}"),
        )),
        (None, _) => Err(not_found(word)),
    }
}

fn not_found(word: &str) -> CommandError {
    CommandError::new(&codes::JOB_NOT_FOUND, format!("there is no job `{word}`"))
}

fn failed(error: &JobStoreError, word: &str) -> CommandError {
    match error {
        JobStoreError::Refused(JobTransitionRejection::NotFound { .. }) => not_found(word),
        JobStoreError::Store(error) => from_engine::store(error),
        JobStoreError::Refused(_) | JobStoreError::QueueFull { .. } => {
            CommandError::new(&codes::INTERNAL, error.to_string())
        }
    }
}

/// Returns the time for which the owner still owns the job without a heartbeat; `None` if it has no owner.
fn lease(engine: &Engine, job: &Job) -> Option<String> {
    let left = job.lease_until.since(Ms::from(BootClock.now()));
    match job.state {
        JobState::Running if engine.owner_is_gone(job) => Some("dead".to_owned()),
        JobState::Running => Some(format_typed(left)),
        JobState::Queued | JobState::Succeeded | JobState::Failed | JobState::Cancelled => None,
    }
}

/// When it was queued: its id begins with that moment.
fn queued_at(job: &Job) -> WallMs {
    WallMs(u64::try_from(job.id.as_u128() >> 80).unwrap_or(u64::MAX))
}

fn to_json(engine: &Engine, job: &Job) -> Value {
    json!({
        "job_id": job.id, "plan_id": job.plan, "phase": job.phase, "state": job.state.as_str(),
        "worker": job.worker, "fence": job.fence, "lease": lease(engine, job), "deaths": job.lost_leases,
        "held": job.is_held(), "cancel": job.cancel.as_ref().map(|cancel| &cancel.reason), "why": job.why,
        "age_ms": now().0.saturating_sub(queued_at(job).0),
    })
}
