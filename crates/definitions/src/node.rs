//! A node of an actor, as it is written.

use actors::tool::{Catalog, ToolError};
use domain::{ByteText, CommandLine, NeedsCondition, RelPath, Template};
use serde_json::{Map, Value, json};

use crate::actor;
use crate::error::{DiagnosticKind, SourcePosition};
use crate::keys;
use crate::reader::{DefinitionReader, MapFields};
use crate::spans::{NodeSpans, ValueSpan};
use crate::yaml::{Yaml, YamlTree};
use crate::{TOOL_GROUPS, TOOL_NAMES};

/// The end of a model's or a tool's node that names none, in seconds.
const CALL_TIMEOUT_S: u64 = 600;
/// The number of times that a model is asked that names no number.
const TURNS: u64 = 50;
/// The prompt of a node that names none.
pub(crate) const BRIEF: &str = "{{prompt}}";
/// The limit of a prompt.
pub(crate) const PROMPT_BYTES_MAX: usize = 64 * 1024;
/// Tools that are steps of their own, from before there were others.
const OLD_TOOLS: [&str; 4] = ["read", "write", "edit", "wait"];

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDef {
    /// Its name within its actor.
    pub id: String,
    /// Its position.
    pub at: SourcePosition,
    /// The positions of its values.
    pub places: NodeSpans,
    /// Its effect.
    pub does: NodeKindDef,
    /// The nodes that have to be settled before it.
    pub needs: Vec<String>,
    /// The required outcome of these nodes.
    pub on: NeedsCondition,
    /// Its condition.
    pub only_if: Option<String>,
    /// Its end, in seconds, when it names one.
    pub timeout_s: Option<u64>,
    /// The number of times that it is done again when it failed.
    pub retries: Option<u32>,
    /// Files that are no part of the result.
    pub ignore: Vec<String>,
    /// Its loop.
    pub repeat: Option<domain::Repeat>,
}

/// The work of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKindDef {
    /// Lets a model work.
    Model {
        /// `PROVIDER/NAME`, or `default`.
        model: String,
        /// The description of its part for the model.
        system: String,
        /// Its prompt.
        prompt: String,
        /// The tools that it may call; `None`: those that fit its part.
        tools: Option<Vec<String>>,
        /// The limit of its context.
        context_tokens: Option<u32>,
        /// The number of times that it is asked.
        max_turns: u32,
        /// True if it is asked once more when it ends without a change.
        nudge: bool,
        /// The schema of its answer.
        output: Option<Value>,
    },
    /// Calls a tool.
    Tool {
        /// The name of the tool.
        name: String,
        /// Its arguments.
        with: Value,
    },
    /// Runs a command.
    Run(RunSpec),
    /// Lets an agent program work.
    External {
        /// The program.
        program: RunSpec,
        /// Its prompt.
        prompt: String,
    },
    /// Lets another actor work.
    Actor {
        /// The name of the actor.
        name: String,
        /// Its arguments.
        with: Map<String, Value>,
    },
}

/// A program and what it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSpec {
    /// The command.
    pub run: CommandLine,
    /// The standard input.
    pub stdin: Option<String>,
    /// The working directory below the project's root.
    pub cwd: Option<String>,
    /// Variables set for it.
    pub env: Vec<(String, String)>,
    /// Variables passed on to it.
    pub pass_env: Vec<String>,
    /// True if it may use the network.
    pub network: bool,
    /// Ports of this machine's loopback that it may reach.
    pub allow_loopback: Vec<u16>,
    /// Paths outside that it may write.
    pub writable: Vec<String>,
    /// The exit statuses that count as success; only 0 if empty.
    pub ok_exit: Vec<u8>,
    /// True if it may change files.
    pub writes: bool,
}

impl NodeKindDef {
    /// The program that it runs.
    pub fn program(&self) -> Option<&RunSpec> {
        match self {
            NodeKindDef::Run(program) | NodeKindDef::External { program, .. } => Some(program),
            NodeKindDef::Model { .. } | NodeKindDef::Tool { .. } | NodeKindDef::Actor { .. } => None,
        }
    }
}

impl NodeDef {
    /// One of which it is not known what it does: others can be held against it all the same.
    pub(crate) fn unread(id: &str, at: SourcePosition) -> NodeDef {
        NodeDef {
            id: id.to_owned(),
            at,
            places: NodeSpans::default(),
            does: NodeKindDef::Tool { name: String::new(), with: Value::Null },
            needs: Vec::new(),
            on: NeedsCondition::default(),
            only_if: None,
            timeout_s: None,
            retries: None,
            ignore: Vec::new(),
            repeat: None,
        }
    }

    /// Returns the position of the value of a key.
    pub(crate) fn spot(&self, key: &str) -> ValueSpan {
        self.places.spot(key).cloned().unwrap_or_else(|| ValueSpan::only(self.at))
    }

    pub(crate) fn place(&self, key: &str) -> SourcePosition {
        self.places.spot(key).map_or(self.at, |spot| spot.at)
    }
}

/// Reads a node.
pub(crate) fn read(
    reader: &DefinitionReader<'_>,
    id: &str,
    fields: &MapFields<'_>,
    more: &[&[keys::KeyDoc]],
) -> NodeDef {
    let common = common(reader, id, fields);
    let Some(kind) = kind(reader, id, fields) else { return common };
    let (does, own): (Option<NodeKindDef>, Vec<&[keys::KeyDoc]>) = match kind {
        "model" => (model(reader, fields), vec![keys::MODEL]),
        "tool" => (tool(reader, fields), vec![keys::TOOL]),
        "run" => (run(reader, fields).map(NodeKindDef::Run), vec![keys::RUN, keys::PROGRAM]),
        "external" => (external(reader, fields), vec![keys::EXTERNAL, keys::PROGRAM]),
        _ => (nested(reader, id, fields), vec![keys::NESTED]),
    };
    let known: Vec<&[keys::KeyDoc]> = own.iter().chain([&keys::NODE]).chain(more).copied().collect();
    fields.refuse_unknown_keys(reader, &known);
    NodeDef { does: does.unwrap_or_else(|| common.does.clone()), ..common }
}

/// The one key that says what a node does.
fn kind(reader: &DefinitionReader<'_>, id: &str, fields: &MapFields<'_>) -> Option<&'static str> {
    let named: Vec<&'static str> =
        keys::NODE_KINDS.into_iter().filter(|kind| fields.get(kind).is_some()).collect();
    match named[..] {
        [only] => Some(only),
        [] => {
            let kinds = keys::NODE_KINDS.join("`, `");
            reader.wrong(fields.at, format!("node `{id}` does nothing: it has none of `{kinds}`"));
            fields.refuse_unknown_keys(reader, &keys::ALL_OF_NODES);
            None
        }
        [first, second, ..] => {
            reader.wrong(
                fields.at,
                format!("node `{id}` has both `{first}` and `{second}`; it can be one of them"),
            );
            None
        }
    }
}

fn common(reader: &DefinitionReader<'_>, id: &str, fields: &MapFields<'_>) -> NodeDef {
    let words = |key: &str| fields.get(key).map(|tree| reader.words(key, tree)).unwrap_or_default();
    let on = fields.get("on").and_then(|tree| reader.one_of("on", tree, &keys::ON));
    let retries = fields.get("retries").and_then(|tree| reader.count("retries", tree, 0, keys::RETRIES_MAX));
    NodeDef {
        places: NodeSpans::from_fields(fields, reader.lines()),
        needs: words("needs"),
        on: on
            .and_then(|word| NeedsCondition::ALL.into_iter().find(|on| on.as_str() == word))
            .unwrap_or_default(),
        only_if: fields.get("if").and_then(|tree| condition(reader, "if", tree)),
        timeout_s: fields
            .get("timeout")
            .and_then(|tree| reader.seconds("timeout", tree, 1, keys::TIMEOUT_MAX_S)),
        retries: retries.and_then(|retries| u32::try_from(retries).ok()),
        ignore: words("ignore"),
        repeat: fields.get("repeat").and_then(|tree| repeat(reader, tree)),
        ..NodeDef::unread(id, fields.at)
    }
}

/// A condition: a text, or a bare `true` or `false`.
fn condition(reader: &DefinitionReader<'_>, key: &str, tree: &YamlTree) -> Option<String> {
    match &tree.value {
        Yaml::Boolean(value) => Some(value.to_string()),
        Yaml::Null | Yaml::Number(_) | Yaml::Text(_) | Yaml::List(_) | Yaml::Map(_) => reader.text(key, tree),
    }
}

fn repeat(reader: &DefinitionReader<'_>, tree: &YamlTree) -> Option<domain::Repeat> {
    let fields = reader.fields(tree, "a `repeat`")?;
    fields.refuse_unknown_keys(reader, &[keys::REPEAT]);
    let until = fields.get("until").and_then(|tree| condition(reader, "until", tree));
    let max = fields.get("max").and_then(|tree| reader.count("max", tree, 1, domain::REPEAT_MAX.into()));
    if fields.get("until").is_none() || fields.get("max").is_none() {
        reader.wrong(tree.at, "a loop needs a bound: `repeat: {until: CONDITION, max: N}`");
    }
    Some(domain::Repeat { until: until?, max: u8::try_from(max?).ok()? })
}

fn model(reader: &DefinitionReader<'_>, fields: &MapFields<'_>) -> Option<NodeKindDef> {
    let text = |key: &str| fields.get(key).and_then(|tree| reader.text(key, tree));
    let tree = fields.get("model")?;
    let model = reader.text("model", tree);
    let is_model = |name: &str| {
        let parts = name.split_once('/');
        name == "default" || parts.is_some_and(|(provider, name)| !provider.is_empty() && !name.is_empty())
    };
    if let Some(name) = model.as_deref().filter(|name| !is_model(name)) {
        reader.wrong(
            tree.at,
            format!("`{name}` is not a model: write PROVIDER/NAME, like openai/gpt-5, or `default`"),
        );
    }
    let tools = fields.get("tools").map(|tree| tools(reader, tree));
    let context =
        fields.get("context").and_then(|tree| reader.fields(tree, "a `context`")).and_then(|fields| {
            fields.refuse_unknown_keys(reader, &[keys::CONTEXT]);
            reader.count("tokens", fields.get("tokens")?, 0, keys::CONTEXT_TOKENS_MAX)
        });
    let turns = fields.get("max_turns").and_then(|tree| reader.count("max_turns", tree, 1, keys::TURNS_MAX));
    Some(NodeKindDef::Model {
        model: model?,
        system: text("system").unwrap_or_default(),
        prompt: prompt(reader, fields),
        tools,
        context_tokens: context.and_then(|tokens| u32::try_from(tokens).ok()),
        max_turns: u32::try_from(turns.unwrap_or(TURNS)).unwrap_or(u32::MAX),
        nudge: fields.get("nudge").and_then(|tree| reader.boolean("nudge", tree)).unwrap_or(false),
        output: fields.get("output").and_then(|tree| output(reader, tree)),
    })
}

fn prompt(reader: &DefinitionReader<'_>, fields: &MapFields<'_>) -> String {
    let Some(tree) = fields.get("prompt") else { return BRIEF.to_owned() };
    let text = reader.text("prompt", tree).unwrap_or_default();
    if text.len() > PROMPT_BYTES_MAX {
        reader.wrong(tree.at, format!("`prompt` has {} bytes, {PROMPT_BYTES_MAX} are allowed", text.len()));
    }
    text
}

/// Tools of other programs are called `SERVER.TOOL`, and are known only when their server is asked.
fn tools(reader: &DefinitionReader<'_>, tree: &YamlTree) -> Vec<String> {
    let named = reader.texts("tools", tree, false).unwrap_or_default();
    for (at, name) in &named {
        known_tool(reader, *at, name, &TOOL_GROUPS);
    }
    named.into_iter().map(|(_, name)| name).collect()
}

fn known_tool(reader: &DefinitionReader<'_>, at: SourcePosition, name: &str, also: &[&'static str]) {
    let known = || TOOL_NAMES.iter().chain(also).copied();
    if !name.contains('.') && !known().any(|tool| tool == name) {
        let meant = domain::did_you_mean(name, known());
        reader.wrong(at, format!("there is no tool `{name}`{meant}"));
    }
}

/// `{field: type}` as a JSON schema; a map that has a `type` of its own is one already.
fn output(reader: &DefinitionReader<'_>, tree: &YamlTree) -> Option<Value> {
    let fields = reader.fields(tree, "an `output`")?;
    let mut properties = Map::new();
    for (key, tree) in fields.entries() {
        let schema = match &tree.value {
            Yaml::Text(_) => match reader.one_of(&key.name, tree, &keys::ARG_TYPES)? {
                "list" => json!({ "type": "array", "items": { "type": "string" } }),
                word => json!({ "type": word }),
            },
            Yaml::Map(_) => tree.to_json(),
            Yaml::Null | Yaml::Boolean(_) | Yaml::Number(_) | Yaml::List(_) => {
                let kinds = keys::ARG_TYPES.join(", ");
                reader.wrong(tree.at, format!("`{}` takes a type ({kinds}) or a JSON schema", key.name));
                return None;
            }
        };
        properties.insert(key.name.clone(), schema);
    }
    let required: Vec<&String> = properties.keys().collect();
    Some(json!({
        "type": "object", "required": required, "properties": properties, "additionalProperties": false,
    }))
}

fn tool(reader: &DefinitionReader<'_>, fields: &MapFields<'_>) -> Option<NodeKindDef> {
    let tree = fields.get("tool")?;
    let name = reader.text("tool", tree)?;
    let with = match fields.get("with") {
        None => json!({}),
        Some(with) => reader.fields(with, "a `with`").map(|_| with.to_json())?,
    };
    if OLD_TOOLS.contains(&name.as_str()) {
        old_tool(reader, tree.at, &name, &with);
    } else {
        known_tool(reader, tree.at, &name, &OLD_TOOLS);
        fits(reader, fields.get("with").map_or(tree.at, |with| with.at), &name, &with);
    }
    Some(NodeKindDef::Tool { name, with })
}

/// Holds the arguments against the tool's schema. The arguments of a server's tool are known when the server
/// is asked, and the value of a placeholder when the node runs. That value is a text, so an argument that
/// takes no text cannot be one.
fn fits(reader: &DefinitionReader<'_>, at: SourcePosition, name: &str, with: &Value) {
    let catalog = Catalog::builtin();
    let Ok(tool) = catalog.find(name) else { return };
    let Err(ToolError::InvalidArguments { problems, .. }) = tool.check_input(with) else { return };
    let is_open = |field: &str| with[field].to_string().contains("{{");
    let may_pass = |problem: &String| {
        let field = problem.strip_prefix('`').and_then(|rest| rest.split_once('`')).map(|(field, _)| field);
        field.is_some_and(|field| is_open(field.split(['.', '[', '/']).next().unwrap_or(field)))
            && !problem.contains("is not of type")
    };
    for problem in problems.iter().filter(|problem| !may_pass(problem)) {
        reader.wrong(at, format!("the arguments of {name} are not valid: {problem}"));
    }
}

/// The steps that were there before there were tools; their arguments are few and known.
fn old_tool(reader: &DefinitionReader<'_>, at: SourcePosition, name: &str, with: &Value) {
    let (wanted, form): (&[&str], &str) = match name {
        "read" => (&["path"], "`with: { path: … }`"),
        "write" => (&["path", "text"], "`with: { path: …, text: … }`"),
        "edit" => (&["path", "old", "new"], "`with: { path: …, old: …, new: … }`"),
        _ => (&["seconds"], "`with: { seconds: … }`"),
    };
    let given = with.as_object();
    let is_there = |key: &&str| given.is_some_and(|given| given.contains_key(*key));
    if !wanted.iter().all(is_there) {
        reader.wrong(at, format!("{name} needs {form}"));
    }
    for (key, value) in given.into_iter().flatten() {
        let is_right = match key.as_str() {
            "seconds" => value.is_u64(),
            _ => value.is_string(),
        };
        if !wanted.contains(&key.as_str()) {
            let meant = domain::did_you_mean(key, wanted.iter().copied());
            reader.wrong(at, format!("{name} has no argument `{key}`{meant}"));
        } else if !is_right {
            let wanted = if key == "seconds" { "a whole number" } else { "a text" };
            reader.wrong(at, format!("`{key}` of {name} takes {wanted}"));
        }
    }
    if name == "edit" && with["old"] == "" {
        reader.wrong(at, "edit needs an `old` that is not empty");
    }
}

fn run(reader: &DefinitionReader<'_>, fields: &MapFields<'_>) -> Option<RunSpec> {
    program(reader, fields, "run")
}

fn external(reader: &DefinitionReader<'_>, fields: &MapFields<'_>) -> Option<NodeKindDef> {
    if let Some(tree) = fields.get("stdin") {
        reader
            .wrong(tree.at, "an `external` agent receives its messages on its standard input: use `prompt`");
    }
    if let Some(tree) = fields.get("ok_exit") {
        reader.wrong(tree.at, "an `external` agent reports how its work ended: `ok_exit` is for `run`");
    }
    let tree = fields.get("external")?;
    if let Yaml::Text(_) = tree.value {
        reader.wrong(tree.at, "`external` takes a list: program and arguments");
        return None;
    }
    let program = program(reader, fields, "external")?;
    Some(NodeKindDef::External { program, prompt: prompt(reader, fields) })
}

fn program(reader: &DefinitionReader<'_>, fields: &MapFields<'_>, key: &'static str) -> Option<RunSpec> {
    let run = command(reader, key, fields.get(key)?);
    let words = |key: &str| fields.get(key).map(|tree| reader.words(key, tree)).unwrap_or_default();
    let flag = |key: &str, otherwise| {
        fields.get(key).and_then(|tree| reader.boolean(key, tree)).unwrap_or(otherwise)
    };
    let env = fields.get("env").and_then(|tree| reader.fields(tree, "an `env`")).map(|fields| {
        let variables = fields.entries().filter_map(|(key, tree)| {
            if key.name.is_empty() || key.name.contains(['=', '\0']) {
                reader.wrong(key.at, format!("`{}` is not a valid name for a variable", key.name));
            }
            Some((key.name.clone(), reader.text(&key.name, tree)?))
        });
        variables.collect()
    });
    let ports =
        fields.get("allow_loopback").map(|tree| reader.counts("allow_loopback", tree, 1, u16::MAX.into()));
    let ports = ports.unwrap_or_default().into_iter().filter_map(|port| u16::try_from(port).ok()).collect();
    let statuses = fields.get("ok_exit").map(|tree| reader.counts("ok_exit", tree, 0, u8::MAX.into()));
    let statuses = statuses.unwrap_or_default().into_iter();
    Some(RunSpec {
        run: run?,
        stdin: fields.get("stdin").and_then(|tree| reader.text("stdin", tree)),
        cwd: fields.get("cwd").and_then(|tree| cwd(reader, tree)),
        env: env.unwrap_or_default(),
        pass_env: words("pass_env"),
        network: flag("network", false),
        allow_loopback: ports,
        writable: fields.get("writable").map(|tree| writable(reader, tree)).unwrap_or_default(),
        ok_exit: statuses.filter_map(|status| u8::try_from(status).ok()).collect(),
        writes: flag("writes", true),
    })
}

/// A command: a list is an argv, a text is for the shell and holds no templates.
pub(crate) fn command(reader: &DefinitionReader<'_>, key: &str, tree: &YamlTree) -> Option<CommandLine> {
    let words = reader.texts(key, tree, true)?;
    if let Yaml::Text(line) = &tree.value {
        if line.trim().is_empty() {
            reader.wrong(tree.at, format!("`{key}` is empty"));
        }
        if let Some(at) = Template::found_in(line) {
            let shown: String = line[at..].chars().take(40).collect();
            let message = format!(
                "`{shown}`: a line for the shell cannot have placeholders, because a value would be read as code; \
                 use \"$ARG_NAME\" for an argument, `env:` for other values, or write a list"
            );
            reader.report(DiagnosticKind::TemplateInShell, reader.spot(tree).of(line, at), message);
        }
        return Some(CommandLine::Shell(line.clone()));
    }
    if words.first().is_none_or(|(_, program)| program.is_empty()) {
        reader.wrong(tree.at, format!("`{key}` names no program"));
    }
    Some(CommandLine::Argv(words.iter().map(|(_, word)| ByteText::from(word.as_str())).collect()))
}

/// A directory below the project's root.
pub(crate) fn cwd(reader: &DefinitionReader<'_>, tree: &YamlTree) -> Option<String> {
    let text = reader.text("cwd", tree)?;
    let text = text.trim_start_matches("./").trim_end_matches('/').to_owned();
    if text.is_empty() || text == "." {
        return Some(String::new());
    }
    match RelPath::new(&text) {
        Ok(_) => Some(text),
        Err(error) => {
            reader.wrong(tree.at, format!("`cwd` is a directory of the project: {error}"));
            None
        }
    }
}

fn writable(reader: &DefinitionReader<'_>, tree: &YamlTree) -> Vec<String> {
    let paths = reader.texts("writable", tree, false).unwrap_or_default();
    for (at, path) in &paths {
        if !path.starts_with('/') && !path.starts_with("~/") {
            reader.wrong(
                *at,
                format!(
                    "`{path}` is not outside the project: `writable` takes absolute paths, or paths that \
                    begin with `~/`"
                ),
            );
        }
    }
    paths.into_iter().map(|(_, path)| path).collect()
}

fn nested(reader: &DefinitionReader<'_>, id: &str, fields: &MapFields<'_>) -> Option<NodeKindDef> {
    if let Some((key, _)) = fields.entry("repeat") {
        let message = format!(
            "node `{id}` is an actor, which cannot have `repeat`: put it on the node of that actor that is to \
             be repeated"
        );
        reader.wrong(key.at, message);
    }
    let tree = fields.get("actor")?;
    let name = reader.text("actor", tree)?;
    actor::refuse_bad_name(reader, tree.at, &name);
    let with = match fields.get("with") {
        None => Map::new(),
        Some(with) => {
            reader.fields(with, "a `with`")?;
            with.to_json().as_object().cloned().unwrap_or_default()
        }
    };
    Some(NodeKindDef::Actor { name, with })
}

/// The end of a node, in seconds; of a program none when it names none: then the caller's holds.
pub(crate) fn timeout_s(node: &NodeDef) -> Option<u64> {
    node.timeout_s.or(match node.does {
        NodeKindDef::Model { .. } | NodeKindDef::Tool { .. } => Some(CALL_TIMEOUT_S),
        NodeKindDef::Run(_) | NodeKindDef::External { .. } | NodeKindDef::Actor { .. } => None,
    })
}
