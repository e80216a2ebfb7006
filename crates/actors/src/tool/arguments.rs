//! Arguments that fit their schema, made into work: defaults filled in, paths found.
//!
//! # Invariants
//! The defaults here are those that the schemas state.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::builtin::{CONTENT_BYTES_MAX, PLAN_DECIDE, READ_LINES, RUN_TIMEOUT_S};
use super::catalog::Tool;
use super::context_tools::{ContextQuestion, HistoryQuestion};
use super::error::ToolError;
use super::host::{CommandText, FocusPlace, ToolRequest};
use super::read_tracker::FileKnowledge;
use super::resolve_path::{ToolPath, ToolProject, resolve};

fn here() -> String {
    ".".to_owned()
}

fn first_line() -> u64 {
    1
}

fn read_lines() -> u64 {
    READ_LINES
}

fn one_level() -> u32 {
    1
}

fn some_matches() -> u32 {
    200
}

fn run_timeout() -> u32 {
    RUN_TIMEOUT_S
}

#[derive(Serialize, Deserialize)]
struct ReadFileArguments {
    path: String,
    #[serde(default = "first_line")]
    offset: u64,
    #[serde(default = "read_lines")]
    limit: u64,
}

#[derive(Serialize, Deserialize)]
struct ListDirectory {
    #[serde(default = "here")]
    path: String,
    #[serde(default = "one_level")]
    depth: u32,
    #[serde(default)]
    ignored: bool,
}

#[derive(Serialize, Deserialize)]
struct SearchFiles {
    pattern: String,
    #[serde(default = "here")]
    path: String,
    #[serde(default)]
    glob: Option<String>,
    #[serde(default)]
    context: u32,
    #[serde(default = "some_matches")]
    max: u32,
}

#[derive(Serialize, Deserialize)]
struct WriteFile {
    path: String,
    content: String,
}

#[derive(Serialize, Deserialize)]
struct EditFile {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Serialize, Deserialize)]
struct DeleteFile {
    path: String,
    #[serde(default)]
    recursive: bool,
}

#[derive(Serialize, Deserialize)]
struct MoveFile {
    from: String,
    to: String,
    #[serde(default)]
    overwrite: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum CommandArgument {
    Shell(String),
    Argv(Vec<String>),
}

#[derive(Serialize, Deserialize)]
struct RunCommand {
    command: CommandArgument,
    #[serde(default = "here")]
    cwd: String,
    #[serde(default = "run_timeout")]
    timeout_s: u32,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    stdin: Option<String>,
}

/// `FROM-TO`, or one line.
fn span(text: &str) -> Option<(u32, u32)> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (1 <= from && from <= to).then_some((from, to))
}

/// Looks up the knowledge of the files that are to be replaced.
pub(super) type SeenLookup<'a> = &'a dyn Fn(&ToolPath) -> FileKnowledge;

/// The work that the arguments ask for, and the arguments as they are used.
pub(super) fn work_of(
    tool: &Tool,
    arguments: &Value,
    projects: &[ToolProject],
    seen: SeenLookup<'_>,
) -> Result<(ToolRequest, Value), ToolError> {
    if let Some(foreign) = &tool.foreign {
        let work = ToolRequest::Foreign { tool: Arc::clone(foreign), arguments: arguments.clone() };
        return Ok((work, arguments.clone()));
    }
    let call = ToolCallArguments { name: &tool.spec.name, arguments, projects, seen };
    match tool.spec.name.as_str() {
        "read_file" => call.read(),
        "list_directory" => call.list(),
        "search_files" => call.search(),
        "write_file" => call.write(),
        "edit_file" => call.edit(),
        "delete_file" => call.delete(),
        "move_file" => call.move_file(),
        "run_command" => call.run(),
        PLAN_DECIDE => Ok((ToolRequest::Decide { said: arguments.clone() }, arguments.clone())),
        "request_context" => call.context(),
        "query_history" => call.history(),
        "get_context_budget" => Ok((ToolRequest::ContextBudget, arguments.clone())),
        other => Err(ToolError::Failed { tool: other.to_owned(), message: "unknown tool".to_owned() }),
    }
}

struct ToolCallArguments<'a> {
    name: &'a str,
    arguments: &'a Value,
    projects: &'a [ToolProject],
    seen: SeenLookup<'a>,
}

impl ToolCallArguments<'_> {
    fn invalid(&self, problem: String) -> ToolError {
        ToolError::InvalidArguments { tool: self.name.to_owned(), problems: vec![problem] }
    }

    fn read_as<T: for<'de> Deserialize<'de>>(&self) -> Result<T, ToolError> {
        T::deserialize(self.arguments).map_err(|error| self.invalid(error.to_string()))
    }

    fn shown(&self, arguments: &impl Serialize) -> Result<Value, ToolError> {
        serde_json::to_value(arguments).map_err(|error| self.invalid(error.to_string()))
    }

    fn place(&self, path: &mut String) -> Result<ToolPath, ToolError> {
        let place = resolve(self.projects, path, self.name)?;
        path.clone_from(&place.shown);
        Ok(place)
    }

    /// A place that is written: no root, and in no project that is only read.
    fn target(&self, path: &mut String) -> Result<ToolPath, ToolError> {
        let place = self.place(path)?;
        let read_only = self.projects.get(usize::from(place.root.0)).is_some_and(|project| project.read_only);
        if read_only || place.path.is_none() {
            return Err(ToolError::ProtectedPath { path: place.shown });
        }
        Ok(place)
    }

    fn bounded(&self, field: &str, text: &str) -> Result<(), ToolError> {
        if text.len() <= CONTENT_BYTES_MAX {
            return Ok(());
        }
        let problem = format!("`{field}` has {} bytes, {CONTENT_BYTES_MAX} are allowed", text.len());
        Err(self.invalid(problem))
    }

    fn read(&self) -> Result<(ToolRequest, Value), ToolError> {
        let mut args: ReadFileArguments = self.read_as()?;
        let place = self.place(&mut args.path)?;
        Ok((ToolRequest::Read { place, offset: args.offset, limit: args.limit }, self.shown(&args)?))
    }

    fn list(&self) -> Result<(ToolRequest, Value), ToolError> {
        let mut args: ListDirectory = self.read_as()?;
        let place = self.place(&mut args.path)?;
        Ok((ToolRequest::List { place, depth: args.depth, ignored: args.ignored }, self.shown(&args)?))
    }

    fn search(&self) -> Result<(ToolRequest, Value), ToolError> {
        let mut args: SearchFiles = self.read_as()?;
        let place = self.place(&mut args.path)?;
        let shown = self.shown(&args)?;
        let SearchFiles { pattern, glob, context, max, .. } = args;
        Ok((ToolRequest::Search { place, pattern, glob, context, max }, shown))
    }

    fn write(&self) -> Result<(ToolRequest, Value), ToolError> {
        let mut args: WriteFile = self.read_as()?;
        self.bounded("content", &args.content)?;
        let place = self.target(&mut args.path)?;
        let (shown, known) = (self.shown(&args)?, (self.seen)(&place));
        Ok((ToolRequest::Write { place, content: args.content, known }, shown))
    }

    fn edit(&self) -> Result<(ToolRequest, Value), ToolError> {
        let mut args: EditFile = self.read_as()?;
        self.bounded("new", &args.new)?;
        let place = self.target(&mut args.path)?;
        let (shown, known) = (self.shown(&args)?, (self.seen)(&place));
        let EditFile { old, new, replace_all, .. } = args;
        Ok((ToolRequest::Edit { place, old, new, replace_all, known }, shown))
    }

    fn delete(&self) -> Result<(ToolRequest, Value), ToolError> {
        let mut args: DeleteFile = self.read_as()?;
        let place = self.target(&mut args.path)?;
        Ok((ToolRequest::Delete { place, recursive: args.recursive }, self.shown(&args)?))
    }

    fn move_file(&self) -> Result<(ToolRequest, Value), ToolError> {
        let mut args: MoveFile = self.read_as()?;
        let (from, to) = (self.target(&mut args.from)?, self.target(&mut args.to)?);
        if from.root != to.root {
            return Err(self.invalid("`from` and `to` must be in the same project".to_owned()));
        }
        Ok((ToolRequest::Move { from, to, overwrite: args.overwrite }, self.shown(&args)?))
    }

    /// Reads a context request: a path is found below its project; any other text is the name of a
    /// definition.
    fn context(&self) -> Result<(ToolRequest, Value), ToolError> {
        let mut question: ContextQuestion = self.read_as()?;
        let places = question.focus.iter_mut().map(|focus| self.focus(focus)).collect::<Result<_, _>>()?;
        let shown = self.shown(&question)?;
        Ok((ToolRequest::Context { question, places }, shown))
    }

    fn focus(&self, given: &mut String) -> Result<Option<FocusPlace>, ToolError> {
        let several = self.projects.len() > 1;
        let is_path = |text: &str| {
            let aliased = |project: &ToolProject| text.starts_with(&format!("{}:", project.alias));
            text.contains(['/', '.']) || (several && self.projects.iter().any(aliased))
        };
        let (path, lines) = match given.rsplit_once(':').and_then(|(path, lines)| Some((path, span(lines)?)))
        {
            Some((path, lines)) => (path.to_owned(), Some(lines)),
            None => (given.clone(), None),
        };
        if lines.is_none() && !is_path(&path) {
            return Ok(None);
        }
        let mut path = path;
        let place = self.place(&mut path)?;
        *given = lines.map_or_else(|| path.clone(), |(from, to)| format!("{path}:{from}-{to}"));
        Ok(Some(FocusPlace { place, lines }))
    }

    fn history(&self) -> Result<(ToolRequest, Value), ToolError> {
        let question: HistoryQuestion = self.read_as()?;
        let shown = self.shown(&question)?;
        Ok((ToolRequest::History(question), shown))
    }

    fn run(&self) -> Result<(ToolRequest, Value), ToolError> {
        let mut args: RunCommand = self.read_as()?;
        let cwd = self.place(&mut args.cwd)?;
        let shown = self.shown(&args)?;
        let RunCommand { command, timeout_s, env, stdin, .. } = args;
        let command = match command {
            CommandArgument::Shell(text) => CommandText::Shell(text),
            CommandArgument::Argv(words) => CommandText::Argv(words),
        };
        let nul = match &command {
            CommandText::Shell(text) => text.contains('\0'),
            CommandText::Argv(words) => words.iter().any(|word| word.contains('\0')),
        };
        if nul {
            return Err(self.invalid("`command` must not contain NUL".to_owned()));
        }
        Ok((ToolRequest::Run { command, cwd, timeout_s, env: env.into_iter().collect(), stdin }, shown))
    }
}
