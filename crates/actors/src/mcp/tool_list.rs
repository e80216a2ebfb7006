//! Reads the tools that a server lists: an unusable tool is left out and reported, the others stay.
//!
//! # Invariants
//! 1. A tool that is offered has a name that can be shown, a description within its bound, and schemas of
//!    objects that compile.
//! 2. A name names one tool.
//! 3. Patterns are bounded: how many there are, and how large each is once it is compiled.

use serde_json::{Map, Value, json};

use super::settings::McpSettings;
use crate::model::{ToolSource, ToolSpec};
use crate::tool::{Schema, head_and_tail};

/// The number of tools of a server that are taken.
pub const TOOLS_MAX: usize = 256;
/// The number of pages its list may have.
pub const PAGES_MAX: usize = 64;
/// The limit of a schema, as JSON.
pub const SCHEMA_BYTES_MAX: usize = 128 << 10;
/// The number of patterns the schemas of one tool may have.
const PATTERNS_MAX: usize = 64;
/// The number of patterns that all tools of a server may have together.
const PATTERNS_OF_SERVER_MAX: usize = 512;
const NAME_BYTES_MAX: usize = 128;
const DESCRIPTION_BYTES_MAX: usize = 8 << 10;

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ListedTool {
    /// As the server calls it.
    pub(super) name: String,
    pub(super) spec: ToolSpec,
    /// True if it promised a shape for its results.
    pub(super) is_structured: bool,
}

/// Tools, and what is wrong with those that are left out.
pub(super) type ListedTools = (Vec<ListedTool>, Vec<String>);

/// Reads a list as the server wrote it, as long as `is_wanted` says so.
pub(super) fn read_tools(
    server: &str,
    settings: &McpSettings,
    listed: &[Value],
    is_wanted: impl Fn() -> bool,
) -> ListedTools {
    let mut patterns_left = PATTERNS_OF_SERVER_MAX;
    let mut tools: Vec<ListedTool> = Vec::new();
    let mut problems = Vec::new();
    for (at, tool) in listed.iter().enumerate() {
        if tools.len() == TOOLS_MAX {
            problems.push(format!("{server} offers more than {TOOLS_MAX} tools; the others are left out"));
            break;
        }
        if !is_wanted() {
            break;
        }
        let read = count_patterns(tool, &mut patterns_left).and_then(|()| read_tool(server, settings, tool));
        let read = read.and_then(|read| match tools.iter().any(|known| known.name == read.name) {
            true => Err("there are two of this name".to_owned()),
            false => Ok(read),
        });
        match read {
            Ok(tool) => tools.push(tool),
            Err(why) => {
                let name = tool["name"].as_str().filter(|name| is_showable(name));
                let name = name.map_or_else(|| format!("tool {}", at + 1), |name| format!("{server}.{name}"));
                problems.push(format!("{name} is left out: {why}"));
            }
        }
    }
    for name in &settings.read_only {
        if tools.iter().all(|tool| tool.name != *name) {
            problems.push(format!("{server} has no tool `{name}`, which `read_only` names"));
        }
    }
    (tools, problems)
}

fn read_tool(server: &str, settings: &McpSettings, tool: &Value) -> Result<ListedTool, String> {
    let name = tool["name"].as_str().ok_or("it has no name")?;
    if !is_showable(name) {
        return Err(format!("its name is empty, longer than {NAME_BYTES_MAX} bytes, or has spaces in it"));
    }
    let input = schema("inputSchema", tool.get("inputSchema"))?.ok_or("it has no inputSchema")?;
    let output = schema("outputSchema", tool.get("outputSchema"))?;
    let description = tool["description"].as_str().or(tool["title"].as_str()).unwrap_or_default();
    let is_structured = output.is_some();
    let spec = ToolSpec {
        name: format!("{server}.{name}"),
        description: head_and_tail(description, DESCRIPTION_BYTES_MAX, 0),
        input,
        output: output.unwrap_or_else(text_schema),
        reads: true,
        writes: !settings.read_only.iter().any(|reading| reading == name),
        network: settings.network,
        timeout_s: settings.call_limit_s(),
        source: ToolSource::Mcp,
    };
    Ok(ListedTool { name: name.to_owned(), spec, is_structured })
}

/// Refuses a tool with too many patterns, and counts those of the others.
fn count_patterns(tool: &Value, left: &mut usize) -> Result<(), String> {
    let schemas = [tool.get("inputSchema"), tool.get("outputSchema")];
    let patterns: usize = schemas.into_iter().flatten().map(patterns_in).sum();
    if patterns > PATTERNS_MAX {
        return Err(format!("its schemas have {patterns} patterns, {PATTERNS_MAX} are allowed"));
    }
    *left = left.checked_sub(patterns).ok_or_else(|| {
        format!(
            "the schemas of the server have more than the {PATTERNS_OF_SERVER_MAX} patterns that are allowed"
        )
    })?;
    Ok(())
}

/// Returns how many patterns a schema has. A text that only looks like one, in a default or an example,
/// counts too.
fn patterns_in(schema: &Value) -> usize {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| {
                let own = match (key.as_str(), value) {
                    ("pattern", Value::String(_)) => 1,
                    ("patternProperties", Value::Object(patterns)) => patterns.len(),
                    (_, _) => 0,
                };
                own + patterns_in(value)
            })
            .sum(),
        Value::Array(items) => items.iter().map(patterns_in).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn is_showable(name: &str) -> bool {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    fits && !name.contains(|letter: char| letter.is_whitespace() || letter.is_control())
}

/// A schema of objects; one that names no type is made to be one.
fn schema(field: &str, given: Option<&Value>) -> Result<Option<Value>, String> {
    let schema = match given {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(schema)) => schema,
        Some(_) => return Err(format!("its {field} is not a JSON object")),
    };
    let bytes = given.map(Value::to_string).unwrap_or_default().len();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(format!("its {field} has {bytes} bytes, {SCHEMA_BYTES_MAX} are allowed"));
    }
    let mut schema: Map<String, Value> = schema.clone();
    match schema.get("type") {
        None => _ = schema.insert("type".to_owned(), json!("object")),
        Some(kind) if kind == "object" => {}
        Some(_) => return Err(format!("its {field} does not describe an object")),
    }
    let schema = Value::Object(schema);
    Schema::new(&schema).map_err(|error| format!("its {field}: {error}"))?;
    Ok(Some(schema))
}

/// The output schema of a tool that names none.
fn text_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "text": { "type": "string" } },
        "required": ["text"],
        "additionalProperties": false
    })
}
