//! The tools of the program, as they are offered.
//!
//! # Invariants
//! 1. `"format": "path"` marks every field that is a path.
//! 2. A bound that a schema can say is in the schema; the model reads it there.

use serde_json::{Value, json};

use super::context_tools::context_tools;
use super::truncate::RESULT_BYTES_MAX;
use crate::model::{ToolSource, ToolSpec};

/// The number of lines that are read unless more are asked for.
pub const READ_LINES: u64 = 2_000;
/// The number of bytes that are read at most.
pub const READ_BYTES_MAX: usize = RESULT_BYTES_MAX;
/// The number of levels that are listed at most.
pub const DEPTH_MAX: u32 = 8;
/// The number of entries that are listed at most.
pub const ENTRIES_MAX: usize = 2_000;
/// The number of matches that are given at most.
pub const MATCHES_MAX: u32 = 1_000;
/// The limit of a file that is written whole.
pub const CONTENT_BYTES_MAX: usize = 8 << 20;
/// The time limit of a command unless more is asked for.
pub const RUN_TIMEOUT_S: u32 = 120;
/// The greatest time limit of a command.
pub const RUN_TIMEOUT_S_MAX: u32 = 3_600;

/// The tool by which a model records a choice. It changes no file, and is in no group: a node that may call
/// it names it.
pub const PLAN_DECIDE: &str = "plan.decide";

/// The time limit of a tool that starts no process.
const FILE_TIMEOUT_S: u32 = 60;
const CONTEXT_MAX: u32 = 5;
const MATCHES: u32 = 200;

/// All of them, in the order in which they are offered.
pub fn builtin_tools() -> Vec<ToolSpec> {
    let mut all = vec![
        read_file(),
        list_directory(),
        search_files(),
        write_file(),
        edit_file(),
        delete_file(),
        move_file(),
        run_command(),
        plan_decide(),
    ];
    all.extend(context_tools());
    all
}

/// Says whether a tool can change the project.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolEffect {
    Reads,
    Writes,
}

pub(super) fn tool(name: &str, does: ToolEffect, description: &str, input: Value, output: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input,
        output,
        reads: true,
        writes: does == ToolEffect::Writes,
        network: false,
        timeout_s: FILE_TIMEOUT_S,
        source: ToolSource::Builtin,
    }
}

/// An object with these fields and no others.
pub(super) fn object(required: &[&str], fields: Value) -> Value {
    json!({ "type": "object", "properties": fields, "required": required, "additionalProperties": false })
}

fn path(description: &str) -> Value {
    json!({ "type": "string", "format": "path", "minLength": 1, "maxLength": 4096, "description": description })
}

fn directory(description: &str) -> Value {
    let mut field = path(description);
    field["default"] = json!(".");
    field
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "default": false, "description": description })
}

pub(super) fn count(min: u64, max: u64, default: u64, description: &str) -> Value {
    json!({ "type": "integer", "minimum": min, "maximum": max, "default": default, "description": description })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "maxLength": CONTENT_BYTES_MAX, "description": description })
}

pub(super) fn whole() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn read_file() -> ToolSpec {
    let input = object(
        &["path"],
        json!({
            "path": path("The file, below the project's root."),
            "offset": count(1, u64::from(u32::MAX), 1, "The first line to read, from 1."),
            "limit": count(1, u64::from(u32::MAX), READ_LINES, "How many lines to read; at most 50 KiB are given."),
        }),
    );
    let output = object(
        &["content", "hash", "first_line", "total_lines", "truncated"],
        json!({
            "content": { "type": "string" }, "hash": { "type": "string" },
            "first_line": whole(), "total_lines": whole(), "truncated": { "type": "boolean" },
        }),
    );
    let what = "Reads a text file. A file has to be read before it can be changed.";
    tool("read_file", ToolEffect::Reads, what, input, output)
}

fn list_directory() -> ToolSpec {
    let input = object(
        &[],
        json!({
            "path": directory("The directory."),
            "depth": count(1, u64::from(DEPTH_MAX), 1, "How many levels to list."),
            "ignored": flag("List also what git ignores."),
        }),
    );
    let entry = object(
        &["path", "kind", "size"],
        json!({ "path": path("Where."), "kind": { "enum": ["file", "directory", "link", "special"] }, "size": whole() }),
    );
    let output = object(
        &["entries", "truncated"],
        json!({
            "entries": { "type": "array", "items": entry, "maxItems": ENTRIES_MAX },
            "truncated": { "type": "boolean" },
        }),
    );
    tool("list_directory", ToolEffect::Reads, "Lists what is in a directory.", input, output)
}

fn search_files() -> ToolSpec {
    let input = object(
        &["pattern"],
        json!({
            "pattern": { "type": "string", "minLength": 1, "maxLength": 1000,
                "description": "A regular expression; it is looked for within single lines." },
            "path": directory("The directory or file to search in."),
            "glob": { "type": "string", "maxLength": 1000,
                "description": "Only files whose path fits, such as `**/*.rs`." },
            "context": count(0, u64::from(CONTEXT_MAX), 0, "How many lines around each match to give."),
            "max": count(1, u64::from(MATCHES_MAX), u64::from(MATCHES), "How many matches to give."),
        }),
    );
    let found = object(
        &["path", "line", "text"],
        json!({ "path": path("Where."), "line": whole(), "text": { "type": "string" } }),
    );
    let output = object(
        &["matches", "truncated"],
        json!({ "matches": { "type": "array", "items": found }, "truncated": { "type": "boolean" } }),
    );
    let what = "Searches the text files that git does not ignore for a regular expression.";
    tool("search_files", ToolEffect::Reads, what, input, output)
}

fn write_file() -> ToolSpec {
    let input = object(
        &["path", "content"],
        json!({ "path": path("The file; directories that are missing are made."), "content": text("All of it.") }),
    );
    let output = object(
        &["created", "hash", "bytes"],
        json!({ "created": { "type": "boolean" }, "hash": { "type": "string" }, "bytes": whole() }),
    );
    let what = "Writes a whole file. One that exists has to be read first.";
    tool("write_file", ToolEffect::Writes, what, input, output)
}

fn edit_file() -> ToolSpec {
    let mut old = text("The text to be replaced, exactly as it is in the file; it has to occur once.");
    old["minLength"] = json!(1);
    let input = object(
        &["path", "old", "new"],
        json!({
            "path": path("The file."), "old": old, "new": text("What takes its place."),
            "replace_all": flag("Replace every occurrence."),
        }),
    );
    let output = object(
        &["hash", "replacements", "matched", "diff"],
        json!({
            "hash": { "type": "string" }, "replacements": whole(), "matched": { "type": "string" },
            "diff": { "type": "string" },
        }),
    );
    let what = "Replaces a piece of a text file, which has to be read first.";
    tool("edit_file", ToolEffect::Writes, what, input, output)
}

fn delete_file() -> ToolSpec {
    let input = object(
        &["path"],
        json!({ "path": path("The file or directory."), "recursive": flag("A directory with all that is in it.") }),
    );
    let output = object(&["count"], json!({ "count": whole() }));
    tool("delete_file", ToolEffect::Writes, "Removes a file, or a directory.", input, output)
}

fn move_file() -> ToolSpec {
    let input = object(
        &["from", "to"],
        json!({
            "from": path("The file or directory."), "to": path("Its new path; directories that are missing are made."),
            "overwrite": flag("Take the place of a file that is there."),
        }),
    );
    let output = object(&["count"], json!({ "count": whole() }));
    tool(
        "move_file",
        ToolEffect::Writes,
        "Moves or renames a file or directory within its project.",
        input,
        output,
    )
}

fn run_command() -> ToolSpec {
    let timeout =
        count(1, u64::from(RUN_TIMEOUT_S_MAX), u64::from(RUN_TIMEOUT_S), "Seconds until it is ended.");
    let input = object(
        &["command"],
        json!({
            "command": { "type": ["string", "array"], "items": { "type": "string" }, "minItems": 1, "minLength": 1,
                "description": "A text for `sh -c`, or a list: a program and its arguments." },
            "cwd": directory("The directory in which it runs."),
            "timeout_s": timeout,
            "env": { "type": "object", "additionalProperties": { "type": "string" },
                "description": "Variables that it sees, besides the usual ones." },
            "stdin": text("What it reads from its standard input."),
        }),
    );
    let output = object(
        &["exit", "signal", "timed_out", "stdout", "stderr", "changed"],
        json!({
            "exit": { "type": ["integer", "null"] }, "signal": { "type": ["integer", "null"] },
            "timed_out": { "type": "boolean" },
            "stdout": { "type": "string" }, "stderr": { "type": "string" },
            "changed": { "type": "array", "items": path("A file that it changed.") },
        }),
    );
    let what = "Runs a command in the project's sandbox, without the network. It cannot ask for input.";
    let spec = tool("run_command", ToolEffect::Writes, what, input, output);
    ToolSpec { timeout_s: RUN_TIMEOUT_S_MAX, ..spec }
}

fn plan_decide() -> ToolSpec {
    let said = |description: &str| json!({ "type": "string", "description": description });
    let number = |description: &str| json!({ "type": "integer", "minimum": 1, "description": description });
    let alternative = object(
        &["text", "why_not"],
        json!({ "text": said("What it would have been."), "why_not": said("Why it was not chosen.") }),
    );
    let mut chosen = said("What was chosen.");
    chosen["minLength"] = json!(1);
    // The store of decisions reports a confidence out of bounds, and a number that the plan does not have.
    let input = object(
        &["question", "chosen", "rationale"],
        json!({
            "question": said("What had to be decided."),
            "chosen": chosen,
            "rationale": said("Why."),
            "confidence": { "type": "number", "description": "How sure you are, from 0 to 1." },
            "alternatives": { "type": "array", "items": alternative, "description": "What was not chosen." },
            "parent": number("The number of the decision that it follows from; the strategy when left out."),
            "depends_on": { "type": "array", "items": number("A decision."),
                "description": "The numbers of others that it rests upon." },
        }),
    );
    let output = object(&["decision"], json!({ "decision": whole() }));
    let what = "Records a choice that matters for the person who reviews the work. Gives its number.";
    ToolSpec { reads: false, ..tool(PLAN_DECIDE, ToolEffect::Reads, what, input, output) }
}
