//! Everything that is known of a plan, read for the commands that print it.

use std::collections::HashMap;
use std::time::Duration;

use domain::plan::strategy::NO_STRATEGY_KEY;
use domain::{ApplyRecord, ChangeEntry, EventKind, EventRecord, JobState, Ms, PathChange, carriers};
use domain::{
    CallNumber, CallState, CaptureOmissions, CheckObstacle, ErrorCategory, ErrorHistory, Hash, Job, Ledger,
    NetChange, NodeOutcome, NodePath, NodeRun, Phase, PhaseTime, Plan, PlanId, PlanState, SandboxRecord,
    ToolCall, ValidationOutcome, ValidationResult, ValidationSummary, WallMs, WorkState, fold, net_hash,
    phase_times,
};
use store::{JobStoreError, PlanFilter, PlanStoreError, Store, StoreError};

use super::effective_changes::{TAKE_BACK, standing};
use super::logs::answer;
use crate::engine::Engine;
use crate::plan::gates::GateStatus;
use crate::query::queue_position::QueuePlace;
use crate::workers::registry::is_present;

/// The tool by which validations are recorded.
pub(crate) const VALIDATE: &str = "validate";
/// The tool by which checks are recorded that an apply ran again.
pub(crate) const RECHECK: &str = "recheck";
/// The tool that runs a command.
pub(crate) const RUN_COMMAND: &str = "run_command";
/// The tool that reads a file.
pub(crate) const READ_FILE: &str = "read_file";
/// The tool that writes a file.
pub(crate) const WRITE_FILE: &str = "write_file";
/// The tool that replaces a piece of a file.
pub(crate) const EDIT_FILE: &str = "edit_file";
/// The recorded tool name of a server's start; the tools of that server are called `SERVER.TOOL`.
pub(crate) const START_SERVER: &str = "start_server";
/// The recorded tool name of changes that the servers of a node wrote outside every call of their tools.
pub(crate) const END_SERVER: &str = "end_server";
/// The recorded tool name of a question to a model, with its answer.
pub const ASK_MODEL: &str = "ask_model";
/// The tool that lets time pass.
pub(crate) const WAIT: &str = "wait";

/// The number of times that a plan that moves all the time is looked at.
const LOOKS_MAX: u32 = 5;

/// One thing that a plan did in its present attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct StepDetails {
    /// Its node.
    pub node: String,
    /// The outcome of the node; `None` if it has not settled.
    pub outcome: Option<NodeOutcome>,
    /// The end of its last call, or that it runs.
    pub state: CallState,
    /// The number of times that it was tried.
    pub tries: u32,
    /// The duration of the last try, for a model with all its questions and calls; `None` while it runs.
    pub duration_ms: Option<u64>,
    /// The number of entries that it recorded.
    pub changed: usize,
    /// The exit status of its last command; `None` if it runs none, or it has not ended.
    pub exit: Option<i32>,
}

impl StepDetails {
    /// Creates the details of a node with its name and state only.
    fn new(node: &str, state: CallState) -> StepDetails {
        StepDetails {
            node: node.to_owned(),
            outcome: None,
            state,
            tries: 0,
            duration_ms: None,
            changed: 0,
            exit: None,
        }
    }
}

/// A condition that a node waits for and that passes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitReason {
    /// The node.
    pub node: String,
    /// The reason, redacted.
    pub why: String,
    /// The end of the wait; `None` if it is not known.
    pub until: Option<WallMs>,
}

impl WaitReason {
    /// Returns the time that is left of the wait.
    pub fn left(&self, now: WallMs) -> Option<Duration> {
        self.until.map(|until| Duration::from_millis(until.0.saturating_sub(now.0)))
    }
}

/// All that is known of a plan.
#[derive(Clone, Debug)]
pub struct PlanDetails {
    /// The plan itself.
    pub plan: Plan,
    /// Its command as a person would type it, without secrets.
    pub shown: String,
    /// The job that waits or runs.
    pub live_job: Option<Job>,
    /// Its position in the queue; `None` if it does not wait there.
    pub place: Option<QueuePlace>,
    /// True if it is between two phases, and a live worker is about to queue the next.
    pub goes_on: bool,
    /// The gate that it has reached; `None` if it is at no gate.
    pub gate: Option<GateStatus>,
    /// True if that job runs under a worker that is no more: it can be resumed or cancelled.
    pub owner_is_gone: bool,
    /// True if a signal ended the work on it: it can be resumed or revised.
    pub is_interrupted: bool,
    /// The sandbox of the present attempt.
    pub sandbox: Option<SandboxRecord>,
    /// The files that capture left out of the present attempt.
    pub not_captured: CaptureOmissions,
    /// The calls of the present attempt.
    pub calls: Vec<ToolCall>,
    /// The same calls, grouped by node.
    pub steps: Vec<StepDetails>,
    /// The net changes of the present attempt.
    pub net: Vec<NetChange>,
    /// Lines added, of text files.
    pub insertions: u64,
    /// Lines removed, of text files.
    pub deletions: u64,
    /// The check results for these changes.
    pub validations: ValidationSummary,
    /// Every check that ran in the present attempt.
    pub results: Vec<ValidationResult>,
    /// The present wait of one of its nodes; `None` if no node waits.
    pub waits: Option<WaitReason>,
    /// The answer of the plan: the text of its actor's result; `None` while there is none.
    pub answer: Option<String>,
    /// The reason why its strategist gave no strategy; `None` if it gave one, or there is none.
    pub no_strategy: Option<String>,
    /// The errors of the plan.
    pub errors: ErrorHistory,
    /// The limits of the plan, and its use of them.
    pub ledger: Ledger,
    /// Applies and undos.
    pub applies: Vec<ApplyRecord>,
    /// When its phases began and ended, in all attempts.
    pub phases: Vec<PhaseTime>,
}

impl PlanDetails {
    /// Returns the last of the calls by which the plan ran a command of its own: no check, and none that a
    /// model asked for.
    pub fn last_command(&self) -> Option<&ToolCall> {
        self.calls.iter().rfind(|call| self.is_own_command(call))
    }

    /// Returns whether the call is a command of the plan itself.
    pub fn is_own_command(&self, call: &ToolCall) -> bool {
        let node = NodePath::parse(&call.new.node).step().unwrap_or(&call.new.node);
        let is_it = |step: &domain::PlanStep| step.node == node && step.command().is_some();
        call.new.tool == RUN_COMMAND && self.plan.spec.steps.iter().any(is_it)
    }

    /// Returns the result of each check for the present changes, the latest one.
    pub fn check_results(&self) -> Vec<&ValidationResult> {
        let present = net_hash(&self.net).to_string();
        let mut latest: Vec<&ValidationResult> = Vec::new();
        for result in self.results.iter().filter(|result| result.net_hash == present) {
            match latest.iter_mut().find(|known| known.validation == result.validation) {
                Some(known) => *known = result,
                None => latest.push(result),
            }
        }
        latest
    }
}

/// A plan in a list.
#[derive(Clone, Debug)]
pub struct PlanRow {
    /// The plan.
    pub plan: Plan,
    /// The number of files that its present attempt changed.
    pub files: usize,
    /// The reason why its checks do not let it be applied; `None` if they do, or the work is not done.
    pub obstacle: Option<CheckObstacle>,
}

/// The result of one attempt of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRevision {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The number of files that it changed.
    pub files: usize,
    /// The hash of its net changes, by which a revision is named.
    pub net_hash: Hash,
}

impl Engine {
    /// All that is known of a plan.
    ///
    /// # Errors
    /// There is no such plan, or the store failed.
    pub async fn plan_details(&self, id: PlanId) -> Result<PlanDetails, PlanStoreError> {
        let mut tries = LOOKS_MAX;
        loop {
            let details = self.load(self.inner.store.plan(id).await?).await?;
            // A plan that moved while it was looked at would seem to have no owner.
            tries -= 1;
            if tries == 0 || self.inner.store.plan(id).await?.version == details.plan.version {
                return Ok(details);
            }
        }
    }

    async fn load(&self, plan: Plan) -> Result<PlanDetails, PlanStoreError> {
        let (store, id) = (&self.inner.store, plan.id);
        let entries = self.inner.entries(&plan).await?;
        let calls = self.inner.calls(&plan).await?;
        let mut runs = store.node_runs(id).await?;
        runs.retain(|run| run.attempt == plan.attempt);
        let sandboxes = store.sandboxes(id).await?;
        let sandbox = sandboxes.into_iter().rev().find(|sandbox| sandbox.attempt == plan.attempt);
        let net = fold(&entries);
        let results = results_of(&calls);
        let validations = self.inner.sum_up_checks(&plan, &verdicts_of(&calls), &net_hash(&net)).await?;
        let (insertions, deletions) = self.count_lines(&net);
        let live_job = self.live_job(id).await?;
        // A job that was left to the workers is taken over by a live one.
        let is_taken_over = |job: &Job| !job.is_held() && self.has_worker_for(&job.keys);
        let owner_is_gone =
            live_job.as_ref().is_some_and(|job| self.inner.owner_is_gone(job) && !is_taken_over(job));
        let place = match &live_job {
            Some(job) => self.inner.queue_place(job).await?,
            None => None,
        };
        let gate = self.inner.gate(&plan).await?;
        let goes_on = self.goes_on(&plan, gate).await?;
        let is_worked_on =
            live_job.as_ref().is_some_and(|job| job.state == JobState::Running) && !owner_is_gone;
        let waits = match is_worked_on {
            true => self.waits(id, &calls, &runs).await?,
            false => None,
        };
        Ok(PlanDetails {
            shown: self.inner.redactor.redact_text(&plan.spec.render()),
            live_job,
            place,
            goes_on,
            gate,
            owner_is_gone,
            is_interrupted: self.inner.is_interrupted(&plan).await?,
            not_captured: sandbox.as_ref().map(|sandbox| sandbox.not_captured.clone()).unwrap_or_default(),
            sandbox,
            steps: steps_of(&calls, &entries, &runs),
            calls,
            insertions,
            deletions,
            no_strategy: no_strategy(&plan, &runs),
            answer: answer(&plan, &runs).map(|run| run.text.clone()).filter(|text| !text.trim().is_empty()),
            validations,
            net,
            results,
            waits,
            errors: store.history(id).await?,
            ledger: store.ledger(id).await?,
            applies: store.applies(id).await?,
            phases: self.phase_times(id).await?,
            plan,
        })
    }

    async fn phase_times(&self, id: PlanId) -> Result<Vec<PhaseTime>, StoreError> {
        Ok(phase_times(&self.inner.store.events_of(id, EventKind::PlanMoved).await?))
    }

    /// Returns the last wait; `None` if it is over.
    async fn waits(
        &self,
        id: PlanId,
        calls: &[ToolCall],
        runs: &[NodeRun],
    ) -> Result<Option<WaitReason>, StoreError> {
        let events = self.inner.store.events_of(id, EventKind::NodeWaiting).await?;
        let now = self.inner.wall();
        Ok(events.iter().rev().find_map(|event| still_waits(event, calls, runs, now)))
    }

    /// Returns the attempts of a plan, oldest first, with their results.
    ///
    /// # Errors
    /// Returns an error if the store failed.
    pub async fn revisions(&self, plan: &Plan) -> Result<Vec<PlanRevision>, StoreError> {
        let mut revisions = Vec::new();
        for attempt in 1..=plan.attempt {
            let net = self.inner.net_changes(&Plan { attempt, ..plan.clone() }).await?;
            revisions.push(PlanRevision { attempt, files: net.len(), net_hash: net_hash(&net) });
        }
        Ok(revisions)
    }

    /// Plans, newest first, and how many match in all.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list(&self, filter: &PlanFilter) -> Result<(Vec<PlanRow>, usize), StoreError> {
        let (plans, total) = self.inner.store.plans(filter).await?;
        let mut rows = Vec::with_capacity(plans.len());
        let ids: Vec<PlanId> = plans.iter().map(|plan| plan.id).collect();
        let known = self.inner.store.files_changed(&ids).await?;
        for plan in plans {
            let files = match known.get(&plan.id) {
                Some(files) => *files,
                None => match self.inner.net_changes(&plan).await {
                    Ok(net) => net.len(),
                    // A command that looks at that plan reports it; the others are listed.
                    Err(StoreError::Damaged { .. }) => 0,
                    Err(error) => return Err(error),
                },
            };
            let obstacle = self.inner.check_obstacle(&plan).await?;
            rows.push(PlanRow { plan, files, obstacle });
        }
        Ok((rows, total))
    }

    /// Plans whose work is done and whose required check failed, newest first, and how many there are in all.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list_check_failed(&self, filter: &PlanFilter) -> Result<(Vec<PlanRow>, usize), StoreError> {
        let state = PlanState::Execute(WorkState::Complete);
        let done = PlanFilter {
            phase: Some(state.phase().as_str().to_owned()),
            state: Some(state.word().to_owned()),
            limit: usize::MAX,
            ..filter.clone()
        };
        let (mut rows, _) = self.list(&done).await?;
        rows.retain(|row| row.obstacle == Some(CheckObstacle::Failed));
        let total = rows.len();
        rows.truncate(filter.limit);
        Ok((rows, total))
    }

    /// Returns the position of the plan in the queue; `None` if it does not wait there.
    ///
    /// # Errors
    /// The store failed.
    pub async fn queue_place(&self, plan: PlanId) -> Result<Option<QueuePlace>, StoreError> {
        match self.live_job(plan).await? {
            Some(job) => self.inner.queue_place(&job).await,
            None => Ok(None),
        }
    }

    pub(crate) async fn live_job(&self, plan: PlanId) -> Result<Option<Job>, StoreError> {
        let jobs = self.inner.store.jobs(Some(plan)).await.map_err(store_error)?;
        Ok(jobs.into_iter().rev().find(|job| !job.state.is_final()))
    }

    /// Returns true if a signal ended the work on the plan: it can be resumed or revised.
    ///
    /// # Errors
    /// Returns an error if the store failed.
    pub async fn is_interrupted(&self, plan: &Plan) -> Result<bool, StoreError> {
        self.inner.is_interrupted(plan).await
    }

    /// Returns true if the job runs under a worker that is no more, whatever its lease says.
    pub fn owner_is_gone(&self, job: &Job) -> bool {
        self.inner.owner_is_gone(job)
    }
}

impl crate::engine::EngineInner {
    /// Returns true if the job runs under a worker that is no more.
    pub(crate) fn owner_is_gone(&self, job: &Job) -> bool {
        let Some(worker) = job.worker.filter(|_| job.state == JobState::Running) else { return false };
        let now = Ms::from(self.clock.now());
        job.boot != Some(self.boot) || job.lease_until <= now || !is_present(&self.options.data_dir, worker)
    }

    /// The effective entries of the plan's present attempt, in order. A changeset belongs to the attempt of
    /// its calls.
    pub(crate) async fn entries(&self, plan: &Plan) -> Result<Vec<ChangeEntry>, StoreError> {
        let entries = self.store.entries(plan.id, plan.attempt).await?;
        if entries.is_empty() {
            return Ok(entries);
        }
        Ok(standing(entries, &self.calls(plan).await?))
    }

    /// Returns the net changes of the plan's present attempt.
    pub(crate) async fn net_changes(&self, plan: &Plan) -> Result<Vec<NetChange>, StoreError> {
        let calls = self.calls(plan).await?;
        if calls.iter().any(|call| call.new.tool == TAKE_BACK) {
            return Ok(fold(&standing(self.store.entries(plan.id, plan.attempt).await?, &calls)));
        }
        self.store.net_changes(plan.id, plan.attempt).await
    }

    /// Returns the reason why the checks of a plan whose work is done do not let it be applied.
    pub(crate) async fn check_obstacle(&self, plan: &Plan) -> Result<Option<CheckObstacle>, StoreError> {
        let is_done = plan.state == PlanState::Execute(WorkState::Complete);
        // Most plans have no checks.
        if !is_done || (plan.spec.validations.is_empty() && plan.spec.invariant_checks().is_empty()) {
            return Ok(None);
        }
        let net = match self.net_changes(plan).await {
            Ok(net) => net,
            // Whoever looks at that plan is told; the others are listed.
            Err(StoreError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(self.checks(plan, &net).await?.obstacle())
    }

    /// The calls of the plan's present attempt.
    pub(crate) async fn calls(&self, plan: &Plan) -> Result<Vec<ToolCall>, StoreError> {
        let mut calls = self.store.calls(plan.id).await?;
        calls.retain(|call| call.new.attempt == plan.attempt);
        Ok(calls)
    }
}

/// Returns the reason why the strategist of the plan gave no strategy.
fn no_strategy(plan: &Plan, runs: &[NodeRun]) -> Option<String> {
    let strategist = plan.spec.strategist.as_ref()?;
    let is_it = |run: &&NodeRun| run.phase == Phase::Strategize && run.path == strategist.result;
    let why = runs.iter().find(is_it)?.json.get(NO_STRATEGY_KEY)?;
    why.as_str().map(str::to_owned)
}

/// Returns the results of the checks among these calls.
pub(crate) fn results_of(calls: &[ToolCall]) -> Vec<ValidationResult> {
    said_by(VALIDATE, calls)
}

/// Returns the results of the checks that an apply ran again.
pub(crate) fn rechecks_of(calls: &[ToolCall]) -> Vec<ValidationResult> {
    said_by(RECHECK, calls)
}

/// Returns the check results that count for a plan: those of the runs in its sandbox. A check that the user
/// trusted later did not run there: its passed run at an apply counts.
pub(crate) fn verdicts_of(calls: &[ToolCall]) -> Vec<ValidationResult> {
    let mut results = results_of(calls);
    let is_first = |again: &ValidationResult| {
        let is_same =
            |own: &ValidationResult| own.validation == again.validation && own.net_hash == again.net_hash;
        again.outcome == ValidationOutcome::Passed && !results.iter().any(is_same)
    };
    let first: Vec<_> = rechecks_of(calls).into_iter().filter(is_first).collect();
    results.extend(first);
    results
}

fn said_by(tool: &str, calls: &[ToolCall]) -> Vec<ValidationResult> {
    let result_of = |call: &ToolCall| {
        let result: ValidationResult = serde_json::from_value(call.end.as_ref()?.result.clone()).ok()?;
        // A check that the user ran again did not know its number.
        Some(ValidationResult { call: call.no, ..result })
    };
    calls.iter().filter(|call| call.new.tool == tool).filter_map(result_of).collect()
}

/// Returns the steps in the order in which they began; a skipped step comes at the place where it settled.
fn steps_of(calls: &[ToolCall], entries: &[ChangeEntry], runs: &[NodeRun]) -> Vec<StepDetails> {
    let mut changed: HashMap<CallNumber, usize> = HashMap::new();
    let ends =
        entries.iter().map(|entry| PathChange::new(entry.root, &entry.path, entry.before, entry.after));
    let carriers = carriers(ends);
    for (_, entry) in entries.iter().enumerate().filter(|(at, _)| !carriers.contains(at)) {
        *changed.entry(entry.call).or_default() += 1;
    }
    let mut steps: Vec<StepDetails> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    // The time that the calls of model nodes took so far: a plan may rest between them for as long as it
    // likes.
    let mut asked: HashMap<&str, u64> = HashMap::new();
    for call in calls.iter().filter(|call| call.new.tool != TAKE_BACK) {
        let place = *places.entry(&call.new.node).or_insert(steps.len());
        if place == steps.len() {
            steps.push(StepDetails::new(&call.new.node, call.state()));
        }
        let step = &mut steps[place];
        step.state = call.state();
        if call.new.tool == ASK_MODEL {
            asked.entry(&call.new.node).or_insert(0);
        }
        let took = call.end.as_ref().map(|end| end.duration_ms);
        (step.tries, step.duration_ms) = match asked.get_mut(call.new.node.as_str()) {
            Some(sum) => {
                *sum = sum.saturating_add(took.unwrap_or(0));
                (1, took.map(|_| *sum))
            }
            None => (step.tries + 1, took),
        };
        step.changed = changed.get(&call.no).copied().unwrap_or(0);
        // A command that a model ran is not the step's own.
        let is_own = !asked.contains_key(call.new.node.as_str());
        step.exit = call.end.as_ref().and_then(|end| end.exit).filter(|_| is_own);
    }
    for run in runs {
        let least_tries = u32::from(places.contains_key(run.path.as_str()));
        let place = *places.entry(&run.path).or_insert(steps.len());
        if place == steps.len() {
            steps.push(StepDetails::new(&run.path, CallState::Cancelled));
        }
        let step = &mut steps[place];
        step.outcome = Some(run.outcome);
        step.tries = run.tries.max(least_tries);
        step.changed = usize::try_from(run.changed).unwrap_or(usize::MAX);
    }
    steps
}

/// Returns the wait that the event reports. `None` if it is over: its time has passed, or its node continued
/// or has settled.
fn still_waits(event: &EventRecord, calls: &[ToolCall], runs: &[NodeRun], now: WallMs) -> Option<WaitReason> {
    let node = event.data["path"].as_str()?;
    let until = event.data["ms"].as_u64().map(|ms| WallMs(event.at.0.saturating_add(ms)));
    let is_past = until.is_some_and(|until| until <= now);
    let went_on = calls.iter().any(|call| call.new.node == node && call.started > event.at);
    let has_settled = runs.iter().any(|run| run.path == node && run.finished >= event.at);
    if is_past || went_on || has_settled {
        return None;
    }
    Some(WaitReason { node: node.to_owned(), why: event.data["why"].as_str()?.to_owned(), until })
}

/// A question about jobs that only the store itself can fail.
pub(crate) fn store_error(error: JobStoreError) -> StoreError {
    match error {
        JobStoreError::Store(error) => error,
        JobStoreError::Refused(refused) => StoreError::Broken { why: refused.to_string() },
        JobStoreError::QueueFull { .. } => StoreError::Broken { why: error.to_string() },
    }
}

/// The part of one error that is stored for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorMoment {
    /// Its number.
    pub seq: u64,
    /// When it was recorded.
    pub at: WallMs,
    /// The category of the error.
    pub category: ErrorCategory,
}

impl Engine {
    /// When each error of a plan was recorded, in order.
    ///
    /// # Errors
    /// The store failed.
    pub async fn error_times(&self, id: PlanId) -> Result<Vec<ErrorMoment>, StoreError> {
        error_moments(self.store(), id).await
    }
}

/// When each error of a plan was recorded, in order.
///
/// # Errors
/// The store failed.
pub(crate) async fn error_moments(store: &dyn Store, id: PlanId) -> Result<Vec<ErrorMoment>, StoreError> {
    let events = store.events_of(id, EventKind::ErrorRecorded).await?;
    Ok(events.iter().filter_map(moment).collect())
}

fn moment(event: &EventRecord) -> Option<ErrorMoment> {
    let seq = event.data["seq"].as_u64()?;
    let word = event.data["category"].as_str()?;
    let category = ErrorCategory::ALL.into_iter().find(|category| category.as_str() == word)?;
    Some(ErrorMoment { seq, at: event.at, category })
}
