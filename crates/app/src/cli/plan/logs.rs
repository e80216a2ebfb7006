//! `agents plan logs`: what the commands of a plan printed.
//!
//! # Invariants
//! 1. In a pipe the bytes are those that the command wrote, but for its secrets; at a terminal they are calm.
//! 2. What was not kept is counted.

use domain::CallNo;
use engine::plans::{CallLog, Reveal};
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::failure::{Failure, codes, from_engine};
use crate::output::{Look, Report, calm, calm_bytes};
use crate::time::{stamp, took};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LogsArgs {
    /// Which plan
    #[arg(default_value = "@last")]
    plan: String,
    /// Only what this call printed, without a head
    #[arg(long, value_name = "N")]
    call: Option<u32>,
    /// Show secrets too
    #[arg(long)]
    reveal: bool,
}

pub(super) async fn run(args: LogsArgs, invocation: &Invocation) -> Result<Report, Failure> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let only = args.call.map(CallNo);
    let reveal = if args.reveal { Reveal::Shown } else { Reveal::Hidden };
    let logs = engine.logs(plan.id, only, reveal).await;
    let logs = logs.map_err(|error| from_engine::plan(&error, &plan.short))?;
    if let (Some(call), true) = (args.call, logs.is_empty()) {
        return Err(Failure::new(&codes::CALL_NOT_FOUND, format!("plan {} made no call {call}", plan.short))
            .hint(format!("see all calls with `agents plan logs {}`", plan.short)));
    }
    let text = if logs.is_empty() {
        format!("plan {} has not run anything yet\n", plan.short).into_bytes()
    } else {
        logs.iter().flat_map(|log| shown(log, args.call.is_none(), &invocation.look)).collect()
    };
    Ok(Report::new(json!({ "plan": plan.id, "calls": logs.iter().map(to_json).collect::<Vec<_>>() }), text))
}

fn shown(log: &CallLog, with_head: bool, look: &Look) -> Vec<u8> {
    let mut text = Vec::new();
    if with_head {
        text.extend(head(log, look).into_bytes());
    }
    for stream in [&log.stdout, &log.stderr] {
        let is_calmed = look.width.is_some();
        text.extend(if is_calmed { calm_bytes(stream).into_bytes() } else { stream.clone() });
        if !stream.is_empty() && !stream.ends_with(b"\n") {
            text.push(b'\n');
        }
    }
    if log.left_out > 0 {
        text.extend(format!("… {} bytes were not kept …\n", log.left_out).into_bytes());
    }
    text
}

fn head(log: &CallLog, look: &Look) -> String {
    let call = &log.call;
    let mut head = format!("== call {}  {}  {}", call.no.0, calm(&call.new.node), call.state().as_str());
    if let Some(end) = &call.end {
        if let Some(exit) = end.exit {
            head.push_str(&format!(", exit {exit}"));
        }
        head.push_str(&format!(", {}", took(end.duration_ms)));
        if let Some(error) = &end.error {
            head.push_str(&format!(", {}", calm(error)));
        }
    }
    format!("{}\n", look.paint.bold(&head))
}

fn to_json(log: &CallLog) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (call, end) = (&log.call, log.call.end.as_ref());
    json!({
        "call": call.no, "attempt": call.new.attempt, "node": call.new.node, "tool": call.new.tool,
        "state": call.state().as_str(), "started": stamp(call.started), "duration_ms": end.map(|end| end.duration_ms),
        "exit": end.and_then(|end| end.exit), "error": end.and_then(|end| end.error.clone()),
        "isolation": end.and_then(|end| end.isolation.clone()), "requested": call.new.requested,
        "effective": call.new.effective, "stdout": text(&log.stdout), "stderr": text(&log.stderr),
        "left_out_bytes": log.left_out,
    })
}
