//! Flattens an actor into one list of steps: inserts nested actors, completes names, and inserts arguments
//! where they are used.
//!
//! # How
//! The nodes of a nested actor `ID` become `ID/CHILD`, followed by a step `ID` that represents the actor. A
//! reference `nodes.X` in a template of the nested actor becomes `nodes.ID/X`, and an argument of `with` is
//! replaced by the given value, which is a template of the outer actor. Arguments of the plan are known by
//! now and are inserted as they are.
//!
//! # Invariants
//! 1. A step comes after all that it needs; among those that could come next the first in the file does.
//! 2. The value of an argument never becomes an option of a program.
//! 3. A request of an actor for access beyond the sandbox counts as one of the least trusted definition
//!    around it. So a project's definition gets no such access by naming a built-in one, unless the user
//!    consents.
//! 4. Actors are nested at most [`DEPTH_MAX`] deep and not in each other; all steps together are at most
//!    [`NODES_MAX`].

use std::collections::{BTreeMap, BTreeSet};

use domain::template::{RESERVED, WORD_BYTES_MAX, value_text};
use domain::{
    ArgError, ByteText, CommandLine, CommandTask, DefinitionSource, Expr, ExternalTask, MEMBER_SEPARATOR,
    ModelTask, NodeKind, PlanGraph, PlanStep, Template, TemplatePath, arg,
};
use serde_json::{Map, Value, json};

use crate::actor::{Actor, NODES_MAX, skeleton};
use crate::check::{self, KnownArguments};
use crate::error::{DefinitionError, Diagnostic, DiagnosticKind, SourcePosition};
use crate::inherit::NodeDefaults;
use crate::node::{self, NodeDef, NodeKindDef, RunSpec};
use crate::reader::DefinitionReader;
use crate::search_path::{DefinitionOrigin, Kind, Library, LoadedDefinition};
use crate::server_tool::ServerTool;
use crate::{TOOL_GROUPS, TOOL_NAMES};

/// The argument that a plan of `--for-each` has: its line.
pub(crate) const ITEM: &str = "item";
/// The limit of the nesting of actors.
pub(crate) const DEPTH_MAX: usize = 8;
/// The tools that only read.
const READING: [&str; 4] = ["read", TOOL_NAMES[0], TOOL_NAMES[1], TOOL_NAMES[2]];

/// The role of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActorRole {
    /// It works.
    Execute,
    /// It only reads.
    Strategize,
}

/// An actor that is put into the list.
#[derive(Clone, Copy)]
pub(crate) struct ActorOrigin<'a> {
    pub(crate) actor: &'a Actor,
    /// The file that its findings name.
    pub(crate) file: &'a str,
    /// The file that answers for what it asks for: its own, or that of a definition around it that another
    /// person may have written. `None` if the user or the program wrote all of them.
    pub(crate) asker: Option<&'a str>,
}

/// The list that grows, and all that was found on the way.
pub(crate) struct Flattener<'a> {
    library: &'a Library,
    args: &'a BTreeMap<String, Value>,
    /// The names of arguments; `None` if only those who use the actor know them.
    declared: Option<BTreeSet<String>>,
    part: ActorRole,
    pub(crate) steps: Vec<PlanStep>,
    pub(crate) findings: Vec<Diagnostic>,
    pub(crate) arg_errors: Vec<ArgError>,
    pub(crate) sources: Vec<DefinitionSource>,
    /// The places of definitions that another person may have written.
    pub(crate) foreign: BTreeSet<String>,
    /// The requests of files of projects, in words.
    pub(crate) asks: BTreeSet<ForeignAsk>,
    /// The arguments of the plan that a text of a node names.
    pub(crate) used: BTreeSet<String>,
    names: Vec<String>,
    /// The repair step.
    pub(crate) fix: Option<String>,
    /// The repair step of each nested actor that is sound, by the actor's step.
    pub(crate) menders: BTreeMap<String, Option<String>>,
}

/// Something that a file of a project asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ForeignAsk {
    pub(crate) file: String,
    /// In words.
    pub(crate) what: String,
}

/// The position of an actor in the plan.
struct ActorScope {
    /// The prefix of its nodes' names.
    prefix: String,
    /// The given arguments, in the plan's own terms.
    given: BTreeMap<String, Value>,
    /// The condition of the actors around it.
    only_if: Option<Expr>,
    inherited: NodeDefaults,
}

impl<'a> Flattener<'a> {
    pub(crate) fn new(
        library: &'a Library,
        args: &'a BTreeMap<String, Value>,
        declared: Option<BTreeSet<String>>,
        part: ActorRole,
    ) -> Flattener<'a> {
        Flattener {
            library,
            args,
            declared,
            part,
            steps: Vec::new(),
            findings: Vec::new(),
            arg_errors: Vec::new(),
            sources: Vec::new(),
            foreign: BTreeSet::new(),
            asks: BTreeSet::new(),
            used: BTreeSet::new(),
            names: Vec::new(),
            fix: None,
            menders: BTreeMap::new(),
        }
    }

    /// Puts the outermost actor in.
    pub(crate) fn add(&mut self, name: &str, whose: ActorOrigin<'_>) {
        self.names.push(name.to_owned());
        let scope = ActorScope {
            prefix: String::new(),
            given: BTreeMap::new(),
            only_if: None,
            inherited: NodeDefaults::default(),
        };
        self.fix = self.add_nodes(whose, &scope);
        self.names.pop();
    }

    /// Adds the nodes of an actor, and returns its repair step.
    fn add_nodes(&mut self, whose: ActorOrigin<'_>, scope: &ActorScope) -> Option<String> {
        let reader = DefinitionReader::new(whose.file);
        let known = self.names_in(scope);
        let given =
            if self.declared.is_some() { KnownArguments::These(&known) } else { KnownArguments::Unknown };
        check::actor(&reader, self.library, whose.actor, &given);
        let found = reader.findings();
        if !found.is_empty() {
            self.findings.extend(found);
            return None;
        }
        for at in order(whose.actor) {
            if self.steps.len() >= NODES_MAX {
                self.too_large(whose, whose.actor.nodes[at].at);
                return None;
            }
            self.add_node(whose, scope, &scope.inherited.put_into(&whose.actor.nodes[at]));
        }
        self.mender(whose, &scope.prefix)
    }

    /// The names of the arguments that an actor is given there.
    fn names_in(&self, scope: &ActorScope) -> BTreeSet<String> {
        self.declared.iter().flatten().chain(scope.given.keys()).cloned().collect()
    }

    fn add_node(&mut self, whose: ActorOrigin<'_>, scope: &ActorScope, node: &NodeDef) {
        let name = format!("{}{}", scope.prefix, node.id);
        let own_if = node.only_if.as_deref();
        let own_if = own_if.and_then(|text| self.condition(whose, scope, node.place("if"), text));
        let only_if = joined(scope.only_if.clone(), own_if);
        let until = node.repeat.as_ref().and_then(|repeat| {
            let until = self.condition(whose, scope, node.place("repeat.until"), &repeat.until)?;
            Some(domain::Repeat { until: until.to_string(), max: repeat.max })
        });
        if let NodeKindDef::Actor { name: nested, with } = &node.does {
            self.add_nested(whose, scope, node, (nested, with), only_if);
            return;
        }
        let Some(does) = self.does(whose, scope, node) else { return };
        // A wait ends by itself.
        let is_wait = matches!(does, NodeKind::Wait { .. });
        self.steps.push(PlanStep {
            needs: Some(node.needs.iter().map(|need| format!("{}{need}", scope.prefix)).collect()),
            on: node.on,
            only_if: only_if.map(|expr| expr.to_string()),
            timeout_s: node::timeout_s(node).filter(|_| !is_wait).or(node.timeout_s),
            retries: node.retries,
            ignore: node.ignore.clone(),
            repeat: until,
            ..PlanStep::new(name, does)
        });
    }

    fn add_nested(
        &mut self,
        whose: ActorOrigin<'_>,
        scope: &ActorScope,
        node: &NodeDef,
        (nested, with): (&str, &Map<String, Value>),
        only_if: Option<Expr>,
    ) {
        let name = format!("{}{}", scope.prefix, node.id);
        let nested = self.library.canonical(Kind::Actor, nested);
        if self.names.iter().any(|outer| outer == nested) {
            let circle = self.names.iter().skip_while(|outer| *outer != nested).map(String::as_str);
            let circle: Vec<&str> = circle.chain([nested]).collect();
            let message = format!("actors contain each other: {}", circle.join(" → "));
            return self.report(whose, DiagnosticKind::ActorCycle, node.place("actor"), message);
        }
        if self.names.len() >= DEPTH_MAX {
            let message = format!("actors are nested deeper than {DEPTH_MAX}: {}", self.names.join(" → "));
            return self.report(whose, DiagnosticKind::ActorTooLarge, node.place("actor"), message);
        }
        let loaded = match self.library.actor(nested) {
            Ok(loaded) => loaded,
            Err(DefinitionError::Invalid(findings)) => return self.findings.extend(findings),
            Err(error @ DefinitionError::NotFound { .. }) => {
                return self.report(
                    whose,
                    DiagnosticKind::ActorNotFound,
                    node.place("actor"),
                    error.to_string(),
                );
            }
            Err(
                error @ (DefinitionError::Unreadable { .. }
                | DefinitionError::Args(_)
                | DefinitionError::NoActor),
            ) => return self.report(whose, DiagnosticKind::Invalid, node.place("actor"), error.to_string()),
        };
        self.sources.push(source(Kind::Actor, &loaded));
        self.foreign.extend(foreign(&loaded));
        let mut given = scope.given.clone();
        for (key, value) in with {
            given.insert(key.clone(), self.replaced_value(whose, scope, node, value));
        }
        let prefix = format!("{name}{MEMBER_SEPARATOR}");
        let inner =
            ActorScope { prefix, given, only_if: only_if.clone(), inherited: NodeDefaults::from(node) };
        self.names.push(nested.to_owned());
        let (file, found) = (label(&loaded), self.findings.len());
        // A foreign definition gets no more by naming a trusted one than by itself.
        let asker = if loaded.origin.is_foreign() { Some(file.as_str()) } else { whose.asker };
        let whose = ActorOrigin { actor: &loaded.definition, file: &file, asker };
        let mender = self.add_nodes(whose, &inner);
        if self.findings.len() == found {
            self.menders.insert(name.clone(), mender);
        }
        self.names.pop();
        let result = format!("{name}/{}", loaded.definition.result);
        self.steps.push(PlanStep {
            needs: Some(node.needs.iter().map(|need| format!("{}{need}", scope.prefix)).collect()),
            on: node.on,
            only_if: only_if.map(|expr| expr.to_string()),
            ..PlanStep::new(name, NodeKind::Actor { name: nested.to_owned(), result })
        });
    }

    fn does(&mut self, whose: ActorOrigin<'_>, scope: &ActorScope, node: &NodeDef) -> Option<NodeKind> {
        Some(match &node.does {
            NodeKindDef::Model { model, system, prompt, tools, context_tokens, max_turns, nudge, output } => {
                NodeKind::Model(ModelTask {
                    model: model.clone(),
                    system: self.text(whose, scope, node, system).to_string(),
                    prompt: self.text(whose, scope, node, prompt).to_string(),
                    tools: self.tools(whose, node, tools.as_deref())?,
                    context_tokens: *context_tokens,
                    max_turns: *max_turns,
                    nudge: *nudge,
                    output: output.clone(),
                })
            }
            NodeKindDef::Tool { name, with } => {
                let with = self.replaced_value(whose, scope, node, with);
                self.tool(whose, node, name, with)?
            }
            NodeKindDef::Run(program) => NodeKind::Command(self.command(whose, scope, node, program)),
            NodeKindDef::External { program, prompt } => NodeKind::External(ExternalTask {
                command: self.command(whose, scope, node, program),
                prompt: self.text(whose, scope, node, prompt).to_string(),
            }),
            NodeKindDef::Actor { .. } => return None,
        })
    }

    /// A strategist may only read, of whatever kind it is. Only the settings of a server say what its tools
    /// do: the gate looks at them.
    fn tools(
        &mut self,
        whose: ActorOrigin<'_>,
        node: &NodeDef,
        named: Option<&[String]>,
    ) -> Option<Vec<String>> {
        for tool in named.into_iter().flatten() {
            self.server(whose, tool);
        }
        let is_ours = |(_, tool): &(usize, &String)| ServerTool::parse(tool).is_none();
        let mut named_ours = named.into_iter().flatten().enumerate().filter(is_ours);
        let writing = named_ours.find(|(_, tool)| !READING.contains(&tool.as_str()));
        match (self.part, named, writing) {
            (ActorRole::Execute, None, _) => Some(TOOL_GROUPS.map(str::to_owned).to_vec()),
            (ActorRole::Strategize, None, _) => Some(vec![TOOL_GROUPS[0].to_owned()]),
            (ActorRole::Execute, Some(named), _) | (ActorRole::Strategize, Some(named), None) => {
                Some(named.to_vec())
            }
            (ActorRole::Strategize, Some(_), Some((at, tool))) => {
                let message =
                    format!("node `{}` of a strategist may only read, and `{tool}` may do more", node.id);
                self.report(whose, DiagnosticKind::Invalid, node.place(&format!("tools.{at}")), message);
                None
            }
        }
    }

    /// A tool of a server is the user's, whatever a project's file says.
    fn server(&mut self, whose: ActorOrigin<'_>, tool: &str) {
        let Some(ServerTool { server, .. }) = ServerTool::parse(tool) else { return };
        if let Some(file) = whose.asker {
            self.asks.insert(ForeignAsk { file: file.to_owned(), what: format!("your server {server}") });
        }
    }

    /// The steps from before there were tools stay what they were, unless a value is known only when they
    /// run.
    fn tool(&mut self, whose: ActorOrigin<'_>, node: &NodeDef, name: &str, with: Value) -> Option<NodeKind> {
        self.server(whose, name);
        let text = |key: &str| with[key].as_str().unwrap_or_default().to_owned();
        let is_open = ["path", "text", "old", "new"].iter().any(|key| text(key).contains("{{"));
        let path = ByteText::from(text("path").as_str());
        let does = match (name, is_open) {
            ("read", false) => NodeKind::Read { path },
            ("write", false) => NodeKind::Write { path, text: text("text") },
            ("edit", false) => NodeKind::Edit { path, old: text("old"), new: text("new") },
            ("wait", _) => NodeKind::Wait { seconds: with["seconds"].as_u64().unwrap_or(0) },
            ("read", true) => NodeKind::Tool { name: "read_file".to_owned(), with },
            ("write", true) => {
                let with = json!({ "path": with["path"], "content": with["text"] });
                NodeKind::Tool { name: "write_file".to_owned(), with }
            }
            ("edit", true) => NodeKind::Tool { name: "edit_file".to_owned(), with },
            (_, _) => NodeKind::Tool { name: name.to_owned(), with },
        };
        let reads = match &does {
            NodeKind::Tool { name, .. } => {
                READING.contains(&name.as_str()) || ServerTool::parse(name).is_some()
            }
            NodeKind::Read { .. } | NodeKind::Wait { .. } => true,
            NodeKind::Write { .. }
            | NodeKind::Edit { .. }
            | NodeKind::Command(_)
            | NodeKind::Model(_)
            | NodeKind::External(_)
            | NodeKind::Actor { .. } => false,
        };
        if self.part == ActorRole::Strategize && !reads {
            let message =
                format!("node `{}` of a strategist may only read, and `{name}` may do more", node.id);
            self.report(whose, DiagnosticKind::Invalid, node.place("tool"), message);
            return None;
        }
        Some(does)
    }

    fn command(
        &mut self,
        whose: ActorOrigin<'_>,
        scope: &ActorScope,
        node: &NodeDef,
        program: &RunSpec,
    ) -> CommandTask {
        self.ask(whose, program);
        let run = match &program.run {
            CommandLine::Shell(line) => CommandLine::Shell(line.clone()),
            CommandLine::Argv(argv) => CommandLine::Argv(self.argv(whose, scope, node, argv)),
        };
        // Values that every plan has may be given to a nested actor too; they are no arguments of the plan.
        let names = self.names_in(scope).into_iter().filter(|name| !RESERVED.contains(&name.as_str()));
        let of_args: Vec<(String, String)> =
            names.map(|name| (arg::variable(&name), format!("{{{{args.{name}}}}}"))).collect();
        // Every command has them in its variables: to have one is not to use it.
        let used = self.used.clone();
        let mut env: Vec<(String, String)> = of_args
            .iter()
            .map(|(name, value)| (name.clone(), self.text(whose, scope, node, value).to_string()))
            .collect();
        self.used = used;
        let own = program.env.iter();
        env.extend(own.map(|(name, value)| (name.clone(), self.text(whose, scope, node, value).to_string())));
        if names_item(&program.run) {
            self.used.insert(ITEM.to_owned());
        }
        let stdin = program.stdin.as_ref().map(|text| self.text(whose, scope, node, text).to_string());
        let in_argv = match &run {
            CommandLine::Argv(argv) => argv.iter().any(|word| word.to_string().contains("{{")),
            CommandLine::Shell(_) => false,
        };
        let is_open = |text: &String| text.contains("{{");
        let expand =
            in_argv || stdin.as_ref().is_some_and(is_open) || env.iter().any(|(_, value)| is_open(value));
        CommandTask {
            run,
            cwd: program.cwd.as_deref().map(ByteText::from).unwrap_or_default(),
            timeout_s: node.timeout_s,
            network: program.network,
            allow_loopback: program.allow_loopback.clone(),
            env: env.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect(),
            pass_env: program.pass_env.clone(),
            writable: program.writable.iter().map(|path| path.as_str().into()).collect(),
            stdin: stdin.map(|text| ByteText::from(text.as_str())),
            ok_exit: program.ok_exit.clone(),
            writes: program.writes && self.part == ActorRole::Execute,
            expand,
        }
    }

    /// Records the requests of a file that came with a project, which only its user can allow.
    fn ask(&mut self, whose: ActorOrigin<'_>, program: &RunSpec) {
        let Some(file) = whose.asker else { return };
        let network = program.network.then(|| "the network".to_owned());
        let variables = program.pass_env.iter().map(|name| format!("your variable {name}"));
        let paths = program.writable.iter().map(|path| format!("to write {path}"));
        let ports = program.allow_loopback.iter().map(|port| format!("port {port} of this machine"));
        let asked = network.into_iter().chain(ports).chain(variables).chain(paths);
        self.asks.extend(asked.map(|what| ForeignAsk { file: file.to_owned(), what }));
    }

    fn argv(
        &mut self,
        whose: ActorOrigin<'_>,
        scope: &ActorScope,
        node: &NodeDef,
        argv: &[ByteText],
    ) -> Vec<ByteText> {
        let mut is_past_options = false;
        let mut words = Vec::with_capacity(argv.len());
        for word in argv {
            let source = word.to_string();
            let before = Template::parse(&source).unwrap_or_default();
            let after = self.text(whose, scope, node, &source);
            if let (Some(path), Some(text)) = (before.paths().next(), after.plain()) {
                let rule = if text.len() > WORD_BYTES_MAX {
                    Some(format!("an argument of a program has at most {WORD_BYTES_MAX} bytes; use `stdin:`"))
                } else if before.begins_with_value() && text.starts_with('-') && !is_past_options {
                    Some(format!("node `{}` would read it as an option: put `--` before it there", node.id))
                } else {
                    None
                };
                if let Some(rule) = rule {
                    let name = path.segments().last().cloned().unwrap_or_default();
                    let value = text.chars().take(60).collect();
                    self.arg_errors.push(ArgError::Invalid { name, value, rule });
                }
            }
            is_past_options |= source == "--";
            words.push(ByteText::from(after.to_string().as_str()));
        }
        words
    }

    /// A template in the plan's own terms.
    fn text(&mut self, whose: ActorOrigin<'_>, scope: &ActorScope, node: &NodeDef, source: &str) -> Template {
        // A text that is no template was reported before.
        let template = Template::parse(source).unwrap_or_default();
        let inner = template.replace_paths(&|path| match renamed(scope, path) {
            Some(path) => Some(Template::from_path(path)),
            None => scope.given.get(arg_name(path)?).map(as_template),
        });
        let inner = match inner {
            Ok(template) => template,
            Err(text) => {
                let message = format!(
                    "`{text}` cannot come directly before a placeholder: it ends with a character that has its \
                     own meaning there"
                );
                self.report(whose, DiagnosticKind::Invalid, node.at, message);
                return Template::default();
            }
        };
        self.used.extend(inner.paths().filter_map(arg_name).map(str::to_owned));
        let args = self.args;
        let folded = inner.replace_paths(&|path| {
            args.get(arg_name(path)?).map(|value| Template::literal(&value_text(value)))
        });
        // A value that cannot be put in now is put in when the step runs.
        folded.unwrap_or(inner)
    }

    /// Every text of a value in the plan's own terms.
    fn replaced_value(
        &mut self,
        whose: ActorOrigin<'_>,
        scope: &ActorScope,
        node: &NodeDef,
        value: &Value,
    ) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(whose, scope, node, text).to_string()),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.replaced_value(whose, scope, node, item)).collect())
            }
            Value::Object(fields) => {
                let fields = fields.iter();
                Value::Object(
                    fields
                        .map(|(key, item)| (key.clone(), self.replaced_value(whose, scope, node, item)))
                        .collect(),
                )
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// A condition in the plan's own terms.
    fn condition(
        &mut self,
        whose: ActorOrigin<'_>,
        scope: &ActorScope,
        at: SourcePosition,
        text: &str,
    ) -> Option<Expr> {
        let expr = Expr::parse(text).ok()?;
        let args = self.args;
        let replaced = expr.replace_paths(&|path: &TemplatePath| -> Result<Expr, String> {
            if let Some(path) = renamed(scope, path) {
                return Ok(Expr::Path(path));
            }
            let Some(name) = arg_name(path) else { return Ok(Expr::Path(path.clone())) };
            match scope.given.get(name) {
                Some(Value::String(text)) => {
                    let template = Template::parse(text).unwrap_or_default();
                    match (template.only_path(), template.plain()) {
                        (Some(path), _) => Ok(Expr::Path(path.clone())),
                        (None, Some(plain)) => Ok(Expr::Literal(Value::String(plain))),
                        (None, None) => Err(format!(
                            "`{name}` is a text with placeholders, which a condition cannot read"
                        )),
                    }
                }
                Some(value) => Ok(Expr::Literal(value.clone())),
                None => Ok(args
                    .get(name)
                    .map_or_else(|| Expr::Path(path.clone()), |value| Expr::Literal(value.clone()))),
            }
        });
        replaced.map_err(|message| self.report(whose, DiagnosticKind::Invalid, at, message)).ok()
    }

    fn too_large(&mut self, whose: ActorOrigin<'_>, at: SourcePosition) {
        let message = format!("the actor has more than {NODES_MAX} nodes, those of nested actors included");
        self.report(whose, DiagnosticKind::ActorTooLarge, at, message);
    }

    pub(crate) fn report(
        &mut self,
        whose: ActorOrigin<'_>,
        kind: DiagnosticKind,
        at: SourcePosition,
        message: String,
    ) {
        self.findings.push(Diagnostic { file: whose.file.to_owned(), at, kind, message });
    }
}

/// The path of a sibling's value in the plan's own terms; `None` if it is about no node.
fn renamed(scope: &ActorScope, path: &TemplatePath) -> Option<TemplatePath> {
    let (node, rest) = path.node()?;
    Some(TemplatePath::of_node(&format!("{}{node}", scope.prefix), rest))
}

/// The argument that a path names. `prompt` and the like are arguments when they were given as such.
fn arg_name(path: &TemplatePath) -> Option<&str> {
    match path.segments() {
        [name] => Some(name),
        [args, name] if args == "args" => Some(name),
        _ => None,
    }
}

/// Returns true if a command looks for its line of `--for-each` in a variable.
fn names_item(run: &CommandLine) -> bool {
    let is_there =
        |text: &str| ["$ITEM", "${ITEM", "$ARG_ITEM", "${ARG_ITEM"].iter().any(|name| text.contains(name));
    match run {
        CommandLine::Shell(line) => is_there(line),
        CommandLine::Argv(argv) => argv.iter().any(|word| is_there(&word.to_string())),
    }
}

/// Returns a given value as a template: a text is a template, anything else is a literal.
fn as_template(value: &Value) -> Template {
    match value {
        Value::String(text) => Template::parse(text).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Template::literal(&value_text(value))
        }
    }
}

fn joined(outer: Option<Expr>, own: Option<Expr>) -> Option<Expr> {
    match (outer, own) {
        (Some(outer), Some(own)) => Some(Expr::And(Box::new(outer), Box::new(own))),
        (one, None) | (None, one) => one,
    }
}

/// The nodes so that each comes after what it needs, and else in the order of the file.
fn order(actor: &Actor) -> Vec<usize> {
    let Ok(graph) = PlanGraph::new(&skeleton(&actor.nodes)) else { return Vec::new() };
    let mut left: BTreeSet<usize> = (0..graph.len()).collect();
    let mut order = Vec::with_capacity(graph.len());
    while let Some(next) =
        left.iter().copied().find(|at| graph.needs(*at).iter().all(|need| !left.contains(need)))
    {
        left.remove(&next);
        order.push(next);
    }
    order
}

/// Returns the name of a definition in its findings.
pub(crate) fn label<T>(loaded: &LoadedDefinition<T>) -> String {
    match loaded.origin {
        DefinitionOrigin::BuiltIn => format!("{} ({})", loaded.name, loaded.place),
        DefinitionOrigin::File | DefinitionOrigin::Project | DefinitionOrigin::User => loaded.place.clone(),
    }
}

/// Returns the place of a definition that another person may have written; `None` if it is the user's or the
/// program's.
pub(crate) fn foreign<T>(loaded: &LoadedDefinition<T>) -> Option<String> {
    loaded.origin.is_foreign().then(|| loaded.place.clone())
}

/// Returns the record of a definition's origin that a plan stores.
pub(crate) fn source<T>(kind: Kind, loaded: &LoadedDefinition<T>) -> DefinitionSource {
    DefinitionSource {
        kind: kind.as_str().to_owned(),
        name: loaded.name.clone(),
        place: loaded.place.clone(),
        digest: loaded.digest.clone(),
    }
}
