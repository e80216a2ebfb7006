//! Prints definitions as the program understands them: with all defaults, and with the actors that they name.

use domain::{CommandTask, NeedsCondition, NodeKind, PlanStep, Strategist, format_seconds};
use serde_json::{Map, Value, json};

use crate::action::{Action, StrategistRef};
use crate::freeze::{FrozenDefinition, RequestedLimits};

/// An action with its actor, its arguments as they were declared.
pub fn action_value(action: &Action, frozen: Option<&FrozenDefinition>) -> Value {
    let mut value = json!({ "description": action.description, "prompt": action.prompt });
    let put = |value: &mut Value, key: &str, what: Value| {
        let is_empty = what.is_null()
            || what.as_array().is_some_and(Vec::is_empty)
            || what.as_object().is_some_and(Map::is_empty);
        if !is_empty {
            value[key] = what;
        }
    };
    put(&mut value, "definition_of_done", json!(action.definition_of_done));
    put(&mut value, "args", json!(action.args));
    if let Some(frozen) = frozen {
        put(&mut value, "actor", actor_value(frozen));
        put(&mut value, "strategist", frozen.strategist.as_ref().map_or(json!("none"), strategist_value));
    } else if action.strategist == StrategistRef::None {
        put(&mut value, "strategist", json!("none"));
    }
    let checks = action.validations.iter().map(|check| {
        json!({ "name": check.name, "run": check.run, "mode": check.mode, "timeout": format_seconds(check.timeout_s) })
    });
    put(&mut value, "validations", checks.collect());
    put(&mut value, "invariants", action.invariants.iter().map(invariant_value).collect());
    put(&mut value, "automation", action.automation.as_ref().map_or(Value::Null, |level| json!(level.name)));
    put(&mut value, "limits", limits_value(&action.limits));
    value["read_only"] = json!(action.read_only);
    value
}

/// An actor in one list of nodes.
pub fn actor_value(frozen: &FrozenDefinition) -> Value {
    let mut value = json!({ "nodes": nodes_value(&frozen.steps), "result": frozen.result });
    if let Some(fix) = &frozen.fix {
        value["fix"] = json!(fix);
    }
    let limits = limits_value(&frozen.limits);
    if limits.as_object().is_some_and(|limits| !limits.is_empty()) {
        value["limits"] = limits;
    }
    value
}

fn strategist_value(strategist: &Strategist) -> Value {
    json!({ "nodes": nodes_value(&strategist.steps), "result": strategist.result })
}

fn nodes_value(steps: &[PlanStep]) -> Value {
    Value::Object(steps.iter().map(|step| (step.node.clone(), node_value(step))).collect())
}

fn node_value(step: &PlanStep) -> Value {
    let mut node = match &step.does {
        NodeKind::Command(task) => command_value("run", task),
        NodeKind::External(task) => {
            let mut node = command_value("external", &task.command);
            node["prompt"] = json!(task.prompt);
            node
        }
        NodeKind::Model(task) => {
            let mut node = json!({
                "model": task.model, "prompt": task.prompt, "tools": task.tools, "max_turns": task.max_turns,
            });
            if !task.system.is_empty() {
                node["system"] = json!(task.system);
            }
            if let Some(tokens) = task.context_tokens {
                node["context"] = json!({ "tokens": tokens });
            }
            if task.nudge {
                node["nudge"] = json!(true);
            }
            if let Some(output) = &task.output {
                node["output"] = output.get("properties").cloned().unwrap_or_default();
            }
            node
        }
        NodeKind::Tool { name, with } => json!({ "tool": name, "with": with }),
        NodeKind::Read { path } => json!({ "tool": "read", "with": { "path": path } }),
        NodeKind::Write { path, text } => json!({ "tool": "write", "with": { "path": path, "text": text } }),
        NodeKind::Edit { path, old, new } => {
            json!({ "tool": "edit", "with": { "path": path, "old": old, "new": new } })
        }
        NodeKind::Wait { seconds } => json!({ "tool": "wait", "with": { "seconds": seconds } }),
        NodeKind::Actor { name, result } => json!({ "actor": name, "result": result }),
    };
    if let Some(needs) = step.needs.as_ref().filter(|needs| !needs.is_empty()) {
        node["needs"] = json!(needs);
    }
    if step.on != NeedsCondition::Success {
        node["on"] = json!(step.on.as_str());
    }
    if let Some(condition) = &step.only_if {
        node["if"] = json!(condition);
    }
    if let Some(seconds) = step.ends_after_s() {
        node["timeout"] = json!(format_seconds(seconds));
    }
    if let Some(retries) = step.retries {
        node["retries"] = json!(retries);
    }
    if !step.ignore.is_empty() {
        node["ignore"] = json!(step.ignore);
    }
    if let Some(repeat) = &step.repeat {
        node["repeat"] = json!(repeat);
    }
    node
}

fn command_value(key: &str, task: &CommandTask) -> Value {
    let mut node = json!({ key: task.run, "network": task.network, "writes": task.writes });
    if let Some(stdin) = &task.stdin {
        node["stdin"] = json!(stdin);
    }
    if !task.ok_exit.is_empty() {
        node["ok_exit"] = json!(task.ok_exit);
    }
    if !task.cwd.as_bytes().is_empty() {
        node["cwd"] = json!(task.cwd);
    }
    if !task.env.is_empty() {
        let env: Map<String, Value> =
            task.env.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
        node["env"] = Value::Object(env);
    }
    if !task.pass_env.is_empty() {
        node["pass_env"] = json!(task.pass_env);
    }
    if !task.allow_loopback.is_empty() {
        node["allow_loopback"] = json!(task.allow_loopback);
    }
    if !task.writable.is_empty() {
        node["writable"] = json!(task.writable);
    }
    node
}

fn invariant_value(invariant: &domain::Invariant) -> Value {
    let Some(rule) = &invariant.rule else { return json!(invariant.text) };
    let mut value = json!(rule);
    if invariant.text != rule.in_words() {
        value["text"] = json!(invariant.text);
    }
    value
}

fn limits_value(limits: &RequestedLimits) -> Value {
    let RequestedLimits { time_s, steps, tool_calls, tokens, cost, parallel } = limits;
    let entries = [
        ("time", time_s.map(|seconds| json!(format_seconds(seconds)))),
        ("steps", steps.map(|steps| json!(steps))),
        ("tool_calls", tool_calls.map(|calls| json!(calls))),
        ("tokens", tokens.map(|tokens| json!(tokens))),
        ("cost", cost.map(|micros| json!(micros as f64 / 1e6))),
        ("parallel", parallel.map(|parallel| json!(parallel))),
    ];
    Value::Object(entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}
