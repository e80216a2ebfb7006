//! `agents plan errors`: what went wrong in a plan, what was done about it, and what happens next.
//!
//! # Invariants
//! 1. Everything that was recorded is reported: each stored error in a row of its own, the older ones counted
//!    by category.
//! 2. Only commands that can be typed are suggested.

use std::collections::BTreeMap;

use domain::{
    CheckObstacle, ErrorCategory, ErrorRecord, GatePoint, LimitReached, NeedsCondition, PlanState, PlanStep,
    RecoveryAction, RecoveryPolicy, ValidationOutcome, ValidationResult, WallMs, WorkState,
};
use engine::{Engine, ErrorMoment, PlanDetails};
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::cli::invocation::NamedPlan;
use crate::config::SettingKey;
use crate::errors::{CommandError, from_engine};
use crate::output::{CommandReport, OutputStyle, escape_control_chars, one_line};
use crate::render;
use crate::render::output_tail;
use crate::time::{local, now, stamp};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ErrorsArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
}

pub(super) async fn run(args: ErrorsArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    report(&engine, &plan, invocation, &invocation.style).await
}

/// Reports the errors of the plan, for every command that asks for them.
pub(in crate::cli) async fn report(
    engine: &Engine,
    plan: &NamedPlan,
    invocation: &Invocation,
    style: &OutputStyle,
) -> Result<CommandReport, CommandError> {
    let details = super::details(engine, plan).await?;
    let moments = engine.error_times(plan.id).await.map_err(|error| from_engine::store(&error))?;
    // Settings that cannot be read do not keep anybody from seeing what went wrong.
    let usual = u64::from(RecoveryPolicy::default().max_retries_per_step());
    let settings = invocation.settings(Vec::new(), &details.plan.projects);
    let retries = settings.map_or(usual, |settings| settings.count(SettingKey::RecoveryMaxRetriesPerStep));
    let story = ErrorReport { details: &details, id: &plan.short, moments: &moments, retries };
    Ok(CommandReport::new(story.to_json(), story.to_text(style)))
}

/// The content of the report.
struct ErrorReport<'a> {
    details: &'a PlanDetails,
    id: &'a str,
    moments: &'a [ErrorMoment],
    /// The number of retries of a step that does not set it.
    retries: u64,
}

/// Errors of one category of which only the category and the count are stored.
struct OlderErrors {
    category: ErrorCategory,
    count: u64,
    /// When the first and the last of them were recorded.
    span: Option<(WallMs, WallMs)>,
}

/// The next attempt.
struct NextAttempt {
    why: String,
    command: Option<String>,
}

impl ErrorReport<'_> {
    fn to_text(&self, style: &OutputStyle) -> String {
        let errors = &self.details.errors;
        let checks = self.failed_checks(style);
        if errors.recorded() == 0 {
            return match checks.is_empty() {
                true => format!("nothing went wrong in plan {}\n", self.id),
                false => checks + &self.next_lines(style),
            };
        }
        let mut text = String::new();
        let older = self.older();
        if !older.is_empty() {
            let count: u64 = older.iter().map(|older| older.count).sum();
            let parts: Vec<String> = older.iter().map(|older| self.older_words(older)).collect();
            text.push_str(&format!("{count} older, only counted: {}\n", parts.join(", ")));
        }
        let rows: Vec<[String; 7]> = errors.records().map(|record| self.row(record)).collect();
        text.push_str(&align_columns(&rows));
        text.push_str(&checks);
        text + &self.next_lines(style)
    }

    fn next_lines(&self, style: &OutputStyle) -> String {
        let NextAttempt { why, command } = self.next();
        let mut text = format!("{}  {}\n", style.paint.dim("next"), escape_control_chars(&why));
        text.extend(command.map(|command| format!("      {}\n", escape_control_chars(&command))));
        text
    }

    /// The required checks that failed on the plan's present changes, each with the end of its output.
    fn failed_checks(&self, style: &OutputStyle) -> String {
        let one = |result: &ValidationResult| {
            let name = escape_control_chars(&one_line(&result.validation));
            let how = match result.outcome {
                ValidationOutcome::Passed | ValidationOutcome::Failed => "failed",
                ValidationOutcome::Errored => "could not be finished",
            };
            let head = style.paint.red(&format!("check {name} {how}"));
            let lines = output_tail::block(&output_tail::of_check(result), style);
            format!("{head} (call {})\n{lines}", result.call.0)
        };
        output_tail::failed_checks(self.details).map(one).collect()
    }

    fn failed_checks_json(&self) -> Vec<Value> {
        let one = |result: &ValidationResult| {
            json!({
                "name": result.validation, "outcome": result.outcome, "call": result.call,
                "output": output_tail::of_check(result),
            })
        };
        output_tail::failed_checks(self.details).map(one).collect()
    }

    /// Number, moment, phase, node, category, what was done, what was said.
    fn row(&self, record: &ErrorRecord) -> [String; 7] {
        let error = &record.error;
        let step = error.step();
        let node = match self.details.plan.attempt {
            1 => step.node.clone(),
            _ => format!("{} (attempt {})", step.node, step.attempt),
        };
        let mut message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(call) = error.tool_call() {
            message.push_str(&format!(" (call {})", call.0));
        }
        [
            record.recovery.seq.to_string(),
            self.at(record.recovery.seq).map_or_else(|| "-".to_owned(), |at| self.clock(at)),
            error.phase().to_string(),
            node,
            error.category().to_string(),
            self.action(record),
            message,
        ]
    }

    fn at(&self, seq: u64) -> Option<WallMs> {
        self.moments.iter().find(|moment| moment.seq == seq).map(|moment| moment.at)
    }

    /// The time of the day, with its date when the errors are of several days.
    fn clock(&self, at: WallMs) -> String {
        let day = |at: WallMs| local(at).split(' ').next().map(str::to_owned);
        let of_one_day = self.moments.iter().all(|moment| day(moment.at) == day(at));
        let whole = local(at);
        match whole.split_once(' ') {
            Some((_, clock)) if of_one_day => clock.to_owned(),
            Some(_) | None => whole,
        }
    }

    fn action(&self, record: &ErrorRecord) -> String {
        match record.recovery.action {
            RecoveryAction::Retry { after, attempt } => {
                format!("retry {attempt}/{} in {}", self.retries_of(record), domain::format_wait(after))
            }
            RecoveryAction::Revert | RecoveryAction::Ask | RecoveryAction::GiveUp | RecoveryAction::Told => {
                self.outcome_of(record).to_owned()
            }
        }
    }

    /// Returns the real outcome of an error that was not retried.
    fn outcome_of(&self, record: &ErrorRecord) -> &'static str {
        let (plan, step) = (&self.details.plan, record.error.step());
        let mut steps = plan.spec.steps.iter().chain(plan.spec.strategist.iter().flat_map(|by| &by.steps));
        let handles = |other: &PlanStep| {
            other.on != NeedsCondition::Success && other.needs.iter().flatten().any(|need| *need == step.node)
        };
        let is_handled = steps.any(handles);
        let is_replanned =
            self.details.gate.is_some_and(|gate| gate.point == GatePoint::Replan && gate.goes());
        match record.recovery.action {
            RecoveryAction::Told => "told the model",
            RecoveryAction::Retry { .. }
            | RecoveryAction::Revert
            | RecoveryAction::Ask
            | RecoveryAction::GiveUp
                if is_handled =>
            {
                "was handled"
            }
            RecoveryAction::Revert if step.attempt < plan.attempt => "began anew",
            RecoveryAction::Revert if is_replanned => "begins anew",
            // The plan would have to begin again, and waits for a message.
            RecoveryAction::Revert if render::failure::last_error(self.details).is_some() => "asks you",
            RecoveryAction::Revert | RecoveryAction::Retry { .. } => "went on",
            RecoveryAction::Ask => "asks you",
            RecoveryAction::GiveUp => "gave up",
        }
    }

    /// Returns the number of retries that the step may have.
    fn retries_of(&self, record: &ErrorRecord) -> u64 {
        if record.error.category() == ErrorCategory::Sandbox {
            return 1;
        }
        let node = &record.error.step().node;
        let step = self.details.plan.spec.steps.iter().find(|step| step.node == *node);
        step.and_then(|step| step.retries).map_or(self.retries, u64::from)
    }

    fn older(&self) -> Vec<OlderErrors> {
        let errors = &self.details.errors;
        let first_kept = errors.records().next().map_or(u64::MAX, |record| record.recovery.seq);
        let of = |category| {
            let moments = self.moments.iter();
            moments.filter(move |moment| moment.seq < first_kept && moment.category == category)
        };
        let older = errors.folded().iter().map(|(category, folded)| {
            let first = of(*category).map(|moment| moment.at).min();
            let last = of(*category).map(|moment| moment.at).max();
            OlderErrors { category: *category, count: folded.count, span: first.zip(last) }
        });
        older.collect()
    }

    fn older_words(&self, older: &OlderErrors) -> String {
        let OlderErrors { category, count, span } = older;
        match span {
            None => format!("{count} {category}"),
            Some((first, last)) => {
                format!("{count} {category} ({} to {})", self.clock(*first), self.clock(*last))
            }
        }
    }

    /// Returns the next event, automatic or after an action of the user.
    fn next(&self) -> NextAttempt {
        let steps = render::next_steps::next_steps(self.details, self.id);
        let first = steps.into_iter().next().map(|step| step.command);
        if self.details.owner_is_gone {
            let why = "the process that worked on it is gone: it continues when you resume it".to_owned();
            return NextAttempt { why, command: first };
        }
        if let Some(record) = render::failure::last_error(self.details) {
            let command = Some(render::next_steps::command_for(record, self.details, self.id));
            let hint = render::failure::hint_for(record, self.details, self.id);
            let why = match record.recovery.action {
                RecoveryAction::GiveUp => format!("it does not continue by itself: {hint}"),
                RecoveryAction::Ask
                | RecoveryAction::Retry { .. }
                | RecoveryAction::Revert
                | RecoveryAction::Told => {
                    format!("it waits for you: {hint}")
                }
            };
            return NextAttempt { why, command };
        }
        if self.details.validations.obstacle() == Some(CheckObstacle::Failed) {
            let why = "a required check failed, so the plan is not applied".to_owned();
            return NextAttempt { why, command: Some(format!("agents plan check {}", self.id)) };
        }
        let state = self.details.plan.state;
        let why = match (state, self.details.errors.last_failure()) {
            (
                PlanState::Strategize(WorkState::Processing) | PlanState::Execute(WorkState::Processing),
                Some(record),
            ) => self.goes_on(record),
            (PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_), _) => {
                format!("nothing more about these: the plan is {state}")
            }
        };
        NextAttempt { why, command: first }
    }

    fn goes_on(&self, last: &ErrorRecord) -> String {
        // A wait for something else begins after the one that was decided, and may be far longer.
        if let Some(words) = render::next_steps::waits_words(self.details, now()) {
            return format!("it continues by itself: {words}");
        }
        let node = &last.error.step().node;
        match last.recovery.action {
            RecoveryAction::Retry { attempt, after } => format!(
                "it continues by itself: {node} is tried again, {attempt} of {}, after {}",
                self.retries_of(last),
                domain::format_wait(after)
            ),
            RecoveryAction::Revert | RecoveryAction::Ask | RecoveryAction::GiveUp | RecoveryAction::Told => {
                "it continues by itself".to_owned()
            }
        }
    }

    fn to_json(&self) -> Value {
        let errors = &self.details.errors;
        let records: Vec<Value> = errors.records().map(|record| self.record_json(record)).collect();
        let older = self.older();
        let folded: u64 = older.iter().map(|older| older.count).sum();
        let by_category: Vec<Value> = older
            .iter()
            .map(|older| {
                let span = older.span;
                json!({
                    "category": older.category, "count": older.count, "first": span.map(|span| stamp(span.0)),
                    "last": span.map(|span| stamp(span.1)),
                })
            })
            .collect();
        let checks = self.failed_checks_json();
        let next = (errors.recorded() > 0 || !checks.is_empty()).then(|| self.next());
        json!({
            "plan": self.details.plan.id, "recorded": errors.recorded(), "retries": errors.retries_total(),
            "records": records, "checks": checks, "folded": folded, "older": by_category, "details": errors.details(),
            "next": next.map(|next| json!({ "why": next.why, "command": next.command })),
        })
    }

    fn record_json(&self, record: &ErrorRecord) -> Value {
        let error = &record.error;
        let (word, retry) = match record.recovery.action {
            RecoveryAction::Retry { after, attempt } => {
                let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                let of = self.retries_of(record);
                ("retried", Some(json!({ "attempt": attempt, "of": of, "after_ms": after_ms })))
            }
            RecoveryAction::Revert | RecoveryAction::Ask | RecoveryAction::GiveUp | RecoveryAction::Told => {
                (self.outcome_of(record), None)
            }
        };
        let limit = LimitReached::kind_in(error.detail());
        json!({
            "seq": record.recovery.seq, "at": self.at(record.recovery.seq).map(stamp), "category": error.category(),
            "phase": error.phase(), "node": error.step().node, "attempt": error.step().attempt,
            "message": error.message(), "call": error.tool_call(), "action": word, "retry": retry, "limit": limit,
            "hint": render::failure::hint_for(record, self.details, self.id),
            "command": render::next_steps::command_for(record, self.details, self.id),
        })
    }
}

/// Rows whose columns line up; the last one is as long as it is.
fn align_columns(rows: &[[String; 7]]) -> String {
    let mut widths: BTreeMap<usize, usize> = BTreeMap::new();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| escape_control_chars(cell)).collect()).collect();
    for (column, cell) in rows.iter().flat_map(|row| row.iter().enumerate()) {
        let width = widths.entry(column).or_default();
        *width = (*width).max(cell.chars().count());
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths.get(&column).copied().unwrap_or(0);
            // Numbers stand right.
            match column {
                0 => line.push_str(&format!("{cell:>width$}")),
                6 => line.push_str(&format!("  {cell}")),
                _ => line.push_str(&format!("  {cell:<width$}")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
