//! The results of tools as a model reads them: plain text, with line numbers, bounded.
//!
//! Programs get the same results as JSON: the records of calls, templates, other commands.
//!
//! # Invariants
//! 1. No text has more than about [`RESULT_BYTES_MAX`] bytes. A longer one is cut at line ends, and says how
//!    to get the rest.
//! 2. A result of a shape that is not known is shown as it is.

use serde_json::Value;

use super::truncate::{RESULT_BYTES_MAX, first_and_last_lines};

/// The part of a result that the error output of a command may fill.
const STDERR_BYTES_MAX: usize = RESULT_BYTES_MAX / 5 * 2;
/// The digits for which a line number has room, so that the lines are aligned.
const NUMBER_WIDTH: usize = 6;
/// The advice for a result that no tool of ours made.
const ASK_FOR_LESS: &str = "ask for less at a time";
const RUN_FILTERED: &str = "run it again with a filter (`| grep`, `| tail -n`), or write its output to a file and read that in parts";

/// Returns the text of a result for a model.
pub fn result_text(tool: &str, result: &Value) -> String {
    let text = match tool {
        "read_file" => read_file(result),
        "list_directory" => list_directory(result),
        "search_files" => search_files(result),
        "write_file" => write_file(result),
        "edit_file" => edit_file(result),
        "delete_file" => result.get("count").map(|count| format!("Removed: {count}.")),
        "move_file" => result.get("count").map(|count| format!("Moved: {count}.")),
        "run_command" => run_command(result),
        "plan.decide" => result.get("decision").map(|number| format!("Recorded as decision {number}.")),
        "request_context" => request_context(result),
        "query_history" => query_history(result),
        "get_context_budget" => named_numbers(result),
        _ => None,
    };
    text.unwrap_or_else(|| other(result))
}

/// Lines with their numbers, and what follows them.
fn read_file(result: &Value) -> Option<String> {
    let content = result.get("content").or_else(|| result.get("text"))?.as_str()?;
    let number = |key: &str| result.get(key).and_then(Value::as_u64);
    let (first, total) = (number("first_line").unwrap_or(1), number("total_lines")?);
    let mut shown = String::with_capacity(content.len() + content.len() / 8);
    let (mut next, mut has_crlf) = (first, false);
    for line in content.split_inclusive('\n') {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        let text = bare.strip_suffix('\r').filter(|_| line.ends_with('\n')).unwrap_or(bare);
        has_crlf |= text.len() != bare.len();
        shown.push_str(&format!("{next:>NUMBER_WIDTH$}\t{text}\n"));
        next += 1;
    }
    let is_cut = result.get("truncated") == Some(&Value::Bool(true));
    if total == 0 {
        shown.push_str("(the file is empty)\n");
    } else if content.is_empty() {
        shown.push_str(&format!("(the file has {total} lines: there is no line {first})\n"));
    } else if is_cut && next > total {
        shown.push_str(&format!(
            "(line {total} is too long to be shown whole; see the rest with run_command, such as `cut -c`)\n"
        ));
    } else if is_cut {
        let last = next - 1;
        shown.push_str(&format!("(lines {first} to {last} of {total}; read on with `offset: {next}`)\n"));
    } else if !content.ends_with('\n') {
        shown.push_str("(there is no newline at the end of the file)\n");
    }
    if has_crlf {
        shown.push_str("(its lines end with CRLF, which edit_file and write_file keep)\n");
    }
    Some(shown)
}

fn list_directory(result: &Value) -> Option<String> {
    let mut shown = String::new();
    for entry in result.get("entries")?.as_array()? {
        let path = entry.get("path")?.as_str()?;
        let line = match entry.get("kind")?.as_str()? {
            "file" => format!("{path}  {} bytes\n", entry.get("size")?),
            "directory" => format!("{path}/\n"),
            "link" => format!("{path}  link\n"),
            other => format!("{path}  {other}\n"),
        };
        shown.push_str(&line);
    }
    if shown.is_empty() {
        return Some("(nothing is in it)\n".to_owned());
    }
    if is_truncated(result) {
        shown.push_str("(there is more: list a directory below it, or fewer levels)\n");
    }
    Some(first_and_last_lines(&shown, RESULT_BYTES_MAX, "list a directory below it, or fewer levels"))
}

fn search_files(result: &Value) -> Option<String> {
    let mut shown = String::new();
    for found in result.get("matches")?.as_array()? {
        let (path, text) = (found.get("path")?.as_str()?, found.get("text")?.as_str()?);
        shown.push_str(&format!("{path}:{}: {}\n", found.get("line")?, text.trim_end_matches(['\r', '\n'])));
    }
    if shown.is_empty() {
        return Some("(no match)\n".to_owned());
    }
    if is_truncated(result) {
        shown.push_str("(there are more matches: narrow `pattern`, `path` or `glob`)\n");
    }
    Some(first_and_last_lines(&shown, RESULT_BYTES_MAX, "narrow `pattern`, `path` or `glob`"))
}

fn write_file(result: &Value) -> Option<String> {
    let is_new = result.get("created")?.as_bool()?;
    let bytes = result.get("bytes")?;
    Some(if is_new { format!("Created, {bytes} bytes.") } else { format!("Written, {bytes} bytes.") })
}

fn edit_file(result: &Value) -> Option<String> {
    let (count, diff) = (result.get("replacements")?, result.get("diff")?.as_str()?);
    let how = match result.get("matched").and_then(Value::as_str) {
        Some(rule) if rule != "exact" => format!(", found by ignoring {rule}"),
        Some(_) | None => String::new(),
    };
    let diff = first_and_last_lines(diff, RESULT_BYTES_MAX, "read the file to see it");
    Some(format!("Replaced: {count}{how}.\n{diff}"))
}

fn run_command(result: &Value) -> Option<String> {
    let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
    let seconds = || result.get("timeout_s").map(|time| format!(" after {time} s")).unwrap_or_default();
    let ended =
        match (result.get("exit").and_then(Value::as_i64), result.get("signal").and_then(Value::as_i64)) {
            _ if result.get("timed_out")? == &Value::Bool(true) => {
                format!("It took too long and was ended{}.", seconds())
            }
            (Some(status), _) => format!("Exit status {status}."),
            (None, Some(signal)) => format!("Ended by signal {signal}."),
            (None, None) => "It was stopped.".to_owned(),
        };
    let (stdout, stderr) = (text("stdout"), text("stderr"));
    let errors_max = stderr.len().min(STDERR_BYTES_MAX);
    let mut shown = ended + "\n";
    for (name, output, bytes_max) in
        [("stdout", stdout, RESULT_BYTES_MAX - errors_max), ("stderr", stderr, errors_max)]
    {
        if !output.is_empty() {
            let output = first_and_last_lines(output, bytes_max, RUN_FILTERED);
            let end = if output.ends_with('\n') { "" } else { "\n" };
            shown.push_str(&format!("{name}:\n{output}{end}"));
        }
    }
    if let Some(last) = result.get("last_words").and_then(Value::as_str).filter(|text| !text.is_empty()) {
        shown.push_str(&format!("its last lines:\n{last}\n"));
    }
    let changed: Vec<&str> = result
        .get("changed")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !changed.is_empty() {
        shown.push_str(&format!("changed files: {}\n", changed.join(", ")));
    }
    Some(shown)
}

fn request_context(result: &Value) -> Option<String> {
    let text = result.get("text")?.as_str()?;
    let mut shown = if text.is_empty() { "(nothing was found)\n".to_owned() } else { text.to_owned() };
    if !shown.ends_with('\n') {
        shown.push('\n');
    }
    let left_out = result.get("left_out").and_then(Value::as_u64).unwrap_or(0);
    if left_out > 0 {
        shown.push_str(&format!(
            "({left_out} more pieces did not fit: ask with more `tokens`, or read the files)\n"
        ));
    }
    for note in result.get("notes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    {
        shown.push_str(&format!("({note})\n"));
    }
    Some(shown)
}

fn query_history(result: &Value) -> Option<String> {
    let mut shown = String::new();
    for found in result.get("matches")?.as_array()? {
        let text = |key: &str| found.get(key).and_then(Value::as_str);
        shown.push_str(&format!("{} {} ({}): {}\n", text("kind")?, text("id")?, text("at")?, text("text")?));
    }
    if shown.is_empty() {
        return Some("(no match)\n".to_owned());
    }
    if is_truncated(result) {
        shown.push_str("(there are more: ask with a longer `text`, or one of the `kinds`)\n");
    }
    Some(first_and_last_lines(&shown, RESULT_BYTES_MAX, "ask with a longer `text`, or one of the `kinds`"))
}

/// Numbers by their names, a line each.
fn named_numbers(result: &Value) -> Option<String> {
    let fields = result.as_object()?;
    Some(fields.iter().map(|(name, number)| format!("{name}: {number}\n")).collect())
}

/// A result that no tool of ours made: its text, or its JSON, which gets lines if it has to be cut.
fn other(result: &Value) -> String {
    let text = match result {
        Value::String(text) => text.clone(),
        Value::Object(fields) => match (fields.len(), fields.get("text")) {
            (1, Some(Value::String(text))) => text.clone(),
            _ => json_text(result),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => json_text(result),
    };
    first_and_last_lines(&text, RESULT_BYTES_MAX, ASK_FOR_LESS)
}

fn json_text(value: &Value) -> String {
    let text = value.to_string();
    match text.len() <= RESULT_BYTES_MAX {
        true => text,
        false => serde_json::to_string_pretty(value).unwrap_or(text),
    }
}

fn is_truncated(result: &Value) -> bool {
    result.get("truncated") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_has_line_numbers_and_says_how_to_read_on() {
        let part =
            json!({ "content": "b\nc\n", "hash": "h", "first_line": 2, "total_lines": 9, "truncated": true });
        assert_eq!(
            result_text("read_file", &part),
            "     2\tb\n     3\tc\n(lines 2 to 3 of 9; read on with `offset: 4`)\n"
        );
        let whole = json!({ "content": "a\r\nb", "hash": "h", "first_line": 1, "total_lines": 2, "truncated": false });
        assert_eq!(
            result_text("read_file", &whole),
            "     1\ta\n     2\tb\n(there is no newline at the end of the file)\n\
             (its lines end with CRLF, which edit_file and write_file keep)\n"
        );
        let file = |content: &str, first: u64, total: u64| json!({ "content": content, "hash": "h", "first_line": first, "total_lines": total, "truncated": false });
        assert_eq!(result_text("read_file", &file("", 1, 0)), "(the file is empty)\n");
        assert_eq!(result_text("read_file", &file("", 9, 3)), "(the file has 3 lines: there is no line 9)\n");
    }

    #[test]
    fn a_command_shows_its_status_both_outputs_and_what_it_changed() {
        let ended = json!({ "exit": 1, "signal": null, "timed_out": false, "stdout": "out\n", "stderr": "err",
            "changed": ["a", "b"] });
        assert_eq!(
            result_text("run_command", &ended),
            "Exit status 1.\nstdout:\nout\nstderr:\nerr\nchanged files: a, b\n"
        );
        let killed = json!({ "exit": null, "signal": 9, "timed_out": false, "stdout": "", "stderr": "", "changed": [] });
        assert_eq!(result_text("run_command", &killed), "Ended by signal 9.\n");
    }

    #[test]
    fn every_result_is_bounded_and_cut_at_line_ends() {
        let lines: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
        let ended = json!({ "exit": 0, "signal": null, "timed_out": false, "stdout": lines, "stderr": lines, "changed": [] });
        let matches: Vec<Value> =
            (0..20_000).map(|number| json!({ "path": "a", "line": number, "text": "x" })).collect();
        for (tool, result) in [
            ("run_command", ended),
            ("search_files", json!({ "matches": matches, "truncated": false })),
            ("box.other", json!({ "text": lines })),
            ("box.structured", json!({ "items": matches })),
        ] {
            let shown = result_text(tool, &result);
            assert!(shown.len() < RESULT_BYTES_MAX + 1024, "{tool}: {}", shown.len());
            assert!(shown.contains("[… left out here: "), "{tool}");
            let is_whole = |line: &&str| line.starts_with("line ") && line[5..].parse::<u32>().is_err();
            assert_eq!(shown.lines().find(is_whole), None, "{tool}");
        }
    }

    #[test]
    fn a_shape_that_is_not_known_is_shown_as_it_is() {
        assert_eq!(result_text("read_file", &json!({ "odd": 1 })), "{\"odd\":1}");
        assert_eq!(result_text("box.ask", &json!({ "text": "an answer" })), "an answer");
        assert_eq!(result_text("box.ask", &json!({ "text": "a", "more": 1 })), "{\"more\":1,\"text\":\"a\"}");
    }
}
