//! `agents plan logs`: what happened in a plan, call by call: what commands printed, what tools and models
//! answered.
//!
//! # Invariants
//! 1. In a pipe the bytes are those that the command wrote, but for its secrets; at a terminal they are calm.
//! 2. Output that was not stored is counted. A tool's answer is shown up to a bound, unless its call was
//!    asked for.
//! 3. A line above each call says whose it is, what was called with what, and how it ended.

use domain::{CallNumber, ToolCall, money};
use engine::{ASK_MODEL, CallLog, Reveal};
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::errors::{CommandError, codes, from_engine};
use crate::output::{CommandReport, OutputStyle, escape_control_chars, one_line};
use crate::render;
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
}

pub(super) async fn run(args: LogsArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
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
    if log.left_out > 0 {
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
