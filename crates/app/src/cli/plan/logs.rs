//! `agents plan logs`: what happened in a plan, call by call: what commands printed, what tools and models
//! answered.
//!
//! # Invariants
//! 1. In a pipe the bytes are those that the command wrote, but for its secrets; at a terminal they are calm.
//! 2. Output that was not stored is counted. A tool's answer is shown up to a bound, unless its call was
//!    asked for.
//! 3. A line above each call says whose it is, what was called with what, and how it ended.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{CallNumber, ToolCall, money};
use engine::{ASK_MODEL, CallLog, Engine, LiveOutput, OutputPosition, Reveal};
use serde_json::{Value, json};
use store::PlanStoreError;

use crate::cli::Invocation;
use crate::cli::invocation::NamedPlan;
use crate::cli::live_feed::LiveFeed;
use crate::errors::{CommandError, codes, from_engine};
use crate::output::{CommandReport, OutputNote, OutputStyle, escape_control_chars, one_line, write_out};
use crate::render;
use crate::render::state::words_of;
use crate::time::{format_duration, stamp};

/// The bytes of a tool's answer that are shown among all calls.
const RESULT_BYTES_MAX: usize = 2 << 10;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LogsArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
    /// Only the output of this call, without a heading
    #[arg(long, value_name = "N")]
    call: Option<u32>,
    /// Do not hide secrets
    #[arg(long)]
    reveal: bool,
    /// Print what comes, until the plan waits or ends
    #[arg(long, short, conflicts_with_all = ["call", "reveal"])]
    follow: bool,
}

/// The interval at which a plan that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) async fn run(args: LogsArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    if args.follow && !invocation.style.format.is_for_programs() {
        return follow(&engine, &plan, invocation).await;
    }
    if args.follow {
        wait_for_end(&engine, &plan).await?;
    }
    let only = args.call.map(CallNumber);
    let reveal = if args.reveal { Reveal::Shown } else { Reveal::Hidden };
    let logs = engine.logs(plan.id, only, reveal).await;
    let logs = logs.map_err(|error| from_engine::plan(&error, &plan.short))?;
    if let (Some(call), true) = (args.call, logs.is_empty()) {
        return Err(CommandError::new(
            &codes::CALL_NOT_FOUND,
            format!("plan {} made no call {call}", plan.short),
        )
        .plan(&plan.short));
    }
    let text = if logs.is_empty() {
        format!("plan {} has not run anything yet\n", plan.short).into_bytes()
    } else {
        logs.iter().flat_map(|log| render(log, args.call.is_none(), &invocation.style)).collect()
    };
    let answer = super::details(&engine, &plan).await?.answer;
    let calls: Vec<Value> = logs.iter().map(to_json).collect();
    let data = json!({ "plan": plan.id, "answer": answer, "calls": calls });
    Ok(CommandReport::new(data, text).revealed(args.reveal))
}

/// Prints the calls of a plan and their output as they come.
async fn follow(
    engine: &Engine,
    plan: &NamedPlan,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    let failed = |error: &PlanStoreError| from_engine::plan(error, &plan.short);
    let mut feed = LiveFeed::new(plan.id, 0);
    let mut printed = PrintedCalls::default();
    loop {
        // Looked at before its calls, so that none of its last ones is missed.
        let is_over = is_at_rest(engine, plan).await?;
        let news = feed.news(engine).await.map_err(|error| from_engine::store(&error))?;
        let live = engine.live_output(plan.id).await.map_err(|error| failed(&error))?;
        // What is stored is read again only when a call began or ended.
        let text = if is_over || news.iter().any(|item| item.call.is_some()) {
            let logs = engine.logs(plan.id, None, Reveal::Hidden).await.map_err(|error| failed(&error))?;
            logs.iter().flat_map(|log| printed.print(log, &live, &invocation.style)).collect()
        } else {
            printed.print_running(&live)
        };
        if !text.is_empty() && write_out(&text).is_err() {
            return Ok(CommandReport::new(Value::Null, Vec::new()));
        }
        if is_over {
            let details = super::details(engine, plan).await?;
            let note = OutputNote::info(format!("plan {} is {}", plan.short, words_of(&details)));
            return Ok(CommandReport::new(Value::Null, Vec::new()).note(note));
        }
        engine.plan_waiter(plan.id).wait(LOOK_EVERY).await;
    }
}

/// The calls of which something was printed, by attempt and number, and how much; `None` for those that have ended.
#[derive(Default)]
struct PrintedCalls(BTreeMap<(u32, CallNumber), Option<OutputPosition>>);

impl PrintedCalls {
    /// Returns what is new of a call.
    fn print(&mut self, log: &CallLog, live: &LiveOutput, style: &OutputStyle) -> Vec<u8> {
        let (key, no) = ((log.call.new.attempt, log.call.no), log.call.no);
        let is_ended = log.call.end.is_some() || log.is_broken_off;
        let text = match (self.0.get(&key).copied(), is_ended) {
            (Some(None), _) => return Vec::new(),
            (None, true) => render(log, true, style),
            (None, false) => {
                let mut position = OutputPosition::default();
                let text = [head(log, style).into_bytes(), live.read_on(no, &mut position)].concat();
                self.0.insert(key, Some(position));
                return text;
            }
            // What came after the last look is in the store by now, both streams behind each other.
            (Some(Some(position)), true) => rest_of(log, position.lines()),
            (Some(Some(_)), false) => return self.print_one(key, live),
        };
        self.0.insert(key, None);
        text
    }

    /// Returns what is new of the calls that ran at the last look.
    fn print_running(&mut self, live: &LiveOutput) -> Vec<u8> {
        let running = self.0.iter().filter(|(_, position)| position.is_some()).map(|(key, _)| *key);
        let running: Vec<(u32, CallNumber)> = running.collect();
        running.into_iter().flat_map(|key| self.print_one(key, live)).collect()
    }

    fn print_one(&mut self, key: (u32, CallNumber), live: &LiveOutput) -> Vec<u8> {
        match self.0.get_mut(&key) {
            Some(Some(position)) => live.read_on(key.1, position),
            Some(None) | None => Vec::new(),
        }
    }
}

/// Returns the stored output behind the lines that were printed of it.
fn rest_of(log: &CallLog, printed: [usize; 2]) -> Vec<u8> {
    let mut text = Vec::new();
    for (stream, printed) in [&log.stdout, &log.stderr].into_iter().zip(printed) {
        if log.left_out == 0 {
            text.extend(stream.split_inclusive(|byte| *byte == b'\n').skip(printed).flatten());
        }
    }
    if log.left_out > 0 {
        text.extend(format!("… all that is stored of it: `--call {}` …\n", log.call.no.0).into_bytes());
    }
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text
}

/// Returns whether no process works on the plan, and none is about to.
async fn is_at_rest(engine: &Engine, plan: &NamedPlan) -> Result<bool, CommandError> {
    let details = super::details(engine, plan).await?;
    let waits_for_somebody = details.place.is_some_and(|place| place.is_held && !place.is_served);
    let is_worked_on = details.live_job.is_some() && !details.owner_is_gone && !waits_for_somebody;
    Ok(!is_worked_on && !details.goes_on)
}

async fn wait_for_end(engine: &Engine, plan: &NamedPlan) -> Result<(), CommandError> {
    while !is_at_rest(engine, plan).await? {
        engine.plan_waiter(plan.id).wait(LOOK_EVERY).await;
    }
    Ok(())
}

fn render(log: &CallLog, is_one_of_all: bool, style: &OutputStyle) -> Vec<u8> {
    let mut text = Vec::new();
    if is_one_of_all {
        text.extend(head(log, style).into_bytes());
    }
    let max = match is_one_of_all && log.call.new.tool != ASK_MODEL && !log.is_printed {
        true => RESULT_BYTES_MAX,
        false => usize::MAX,
    };
    for stream in [&log.stdout, &log.stderr] {
        let (stream, rest) = cut(stream, max);
        text.extend(stream);
        if !stream.is_empty() && !stream.ends_with(b"\n") {
            text.push(b'\n');
        }
        if !rest.is_empty() {
            let more = format!("… {} bytes more: `--call {}` …\n", rest.len(), log.call.no.0);
            text.extend(more.into_bytes());
        }
    }
    // What a process printed has a mark where it was cut.
    if log.left_out > 0 && !log.is_printed {
        text.extend(format!("… {} bytes were not stored …\n", log.left_out).into_bytes());
    }
    text
}

/// At most so many bytes, and the rest. No letter is cut.
fn cut(bytes: &[u8], max: usize) -> (&[u8], &[u8]) {
    let goes_on = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    let at = max.min(bytes.len());
    // A letter has at most four bytes; a longer sequence is no text.
    let begin = (at.saturating_sub(3)..=at).rev().find(|at| !goes_on(at));
    bytes.split_at(begin.unwrap_or(at))
}

fn head(log: &CallLog, style: &OutputStyle) -> String {
    let call = &log.call;
    let state = if log.is_broken_off { "interrupted: its process is gone" } else { call.state().as_str() };
    let mut head =
        format!("== call {}  {}  {}  {state}", call.no.0, escape_control_chars(&call.new.node), called(call));
    if let Some(end) = &call.end {
        if let Some(exit) = end.exit {
            head.push_str(&format!(", exit {exit}"));
        }
        head.push_str(&format!(", {}{}", format_duration(end.duration_ms), spent(log)));
        if let Some(error) = &end.error {
            head.push_str(&format!(", {}", escape_control_chars(error)));
        }
    }
    if log.is_answer {
        head.push_str("  (the plan's answer)");
    }
    let isolation = render::isolation::of(call).and_then(render::isolation::line);
    format!("{}\n{}", style.paint.bold(&head), isolation.unwrap_or_default())
}

/// Returns the tool, and as much of its arguments as distinguishes one call from another.
fn called(call: &ToolCall) -> String {
    let words = render::activity::telling_argument(&call.new.requested);
    one_line(&format!("{} {words}", escape_control_chars(&call.new.tool))).trim_end().to_owned()
}

/// Returns the usage of a question to a model; empty for other calls.
fn spent(log: &CallLog) -> String {
    let result = log.call.end.as_ref().map(|end| &end.result).filter(|_| log.call.new.tool == ASK_MODEL);
    let number = |key: &str| result?.get(key).and_then(Value::as_u64);
    let (Some(read), Some(written)) = (number("tokens_in"), number("tokens_out")) else {
        return String::new();
    };
    let cost = number("cost_micros").map(|cost| format!(", {} dollars", money::format_dollars(cost)));
    format!(", {read} tokens read, {written} written{}", cost.unwrap_or_default())
}

fn to_json(log: &CallLog) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (call, end) = (&log.call, log.call.end.as_ref());
    let state = if log.is_broken_off { "broken_off" } else { call.state().as_str() };
    json!({
        "call": call.no, "attempt": call.new.attempt, "node": call.new.node, "tool": call.new.tool,
        "state": state, "started": stamp(call.started), "duration_ms": end.map(|end| end.duration_ms),
        "exit": end.and_then(|end| end.exit), "error": end.and_then(|end| end.error.clone()),
        "isolation": end.and_then(|end| end.isolation.clone()), "requested": call.new.requested,
        "effective": call.new.effective, "result": end.map(|end| &end.result), "is_answer": log.is_answer,
        "stdout": text(&log.stdout), "stderr": text(&log.stderr), "left_out_bytes": log.left_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_cut_between_letters() {
        let text = "aé€😀";
        let at = |max| cut(text.as_bytes(), max).0.len();
        assert_eq!((0..=12).map(at).collect::<Vec<_>>(), [0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10, 10]);
        assert_eq!(cut(&[0x80; 9], 5).0.len(), 5, "no text");
    }
}
