//! The frozen definition of a plan: action, actors and arguments joined, so that later edits do not touch it.
//!
//! # Invariants
//! 1. All problems of the action, its actors and its arguments are reported at once.
//! 2. The automation and the limits of a definition can only make those of the settings stricter.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Automation, ByteText, CommandLine, DefinitionSource, Invariant, Limits, NodeKind, PlanSpec, PlanStep,
    RootIndex, Strategist, Template, Validation, Values, arg, expand_argv,
};
use serde_json::Value;

use crate::action::{Action, ActorRef, Check, StrategistRef};
use crate::actor::Actor;
use crate::error::{DefinitionError, Diagnostic, DiagnosticKind, SourcePosition};
use crate::flatten::{ActorOrigin, ActorRole, Flattener, ForeignAsk, ITEM, foreign, label, source};
use crate::search_path::{DefinitionOrigin, Kind, Library, LoadedDefinition};

/// The name of an actor that an action defines itself.
const INLINE: &str = "inline";

/// The limits that a definition requests; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestedLimits {
    /// Seconds of work.
    pub time_s: Option<u64>,
    /// Steps.
    pub steps: Option<u64>,
    /// Calls of tools.
    pub tool_calls: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Millionths of a dollar.
    pub cost: Option<u64>,
    /// The number of steps that run concurrently.
    pub parallel: Option<u32>,
}

impl RequestedLimits {
    /// The smaller of each.
    #[must_use]
    pub fn and(self, other: RequestedLimits) -> RequestedLimits {
        RequestedLimits {
            time_s: smaller(self.time_s, other.time_s),
            steps: smaller(self.steps, other.steps),
            tool_calls: smaller(self.tool_calls, other.tool_calls),
            tokens: smaller(self.tokens, other.tokens),
            cost: smaller(self.cost, other.cost),
            parallel: smaller(self.parallel, other.parallel),
        }
    }
}

fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, None) | (None, one) => one,
    }
}

/// The strategist of definitions that name none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StrategistDefault {
    /// Unset, so there is none; the code that finds a model may choose otherwise.
    #[default]
    Unset,
    /// Explicitly none.
    Nobody,
    /// This actor.
    Named(ChosenActor),
}

/// An actor that the settings name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenActor {
    /// Its name.
    pub name: String,
    /// The settings of the project that chose it; `None` if the user did.
    pub by: Option<DefinitionSource>,
}

impl ChosenActor {
    /// An actor that the user chose, or that was found here.
    pub fn by_user(name: &str) -> ChosenActor {
        ChosenActor { name: name.to_owned(), by: None }
    }
}

impl StrategistDefault {
    fn chosen(&self) -> Option<&ChosenActor> {
        match self {
            StrategistDefault::Named(chosen) => Some(chosen),
            StrategistDefault::Unset | StrategistDefault::Nobody => None,
        }
    }
}

/// The settings and the command line for freezing a definition.
#[derive(Clone, Debug, Default)]
pub struct FreezeOptions {
    /// The actor that was asked for, instead of the action's.
    pub actor: Option<LoadedDefinition<Actor>>,
    /// `actor.default`.
    pub actor_default: Option<ChosenActor>,
    /// `actor.strategist`.
    pub strategist_default: StrategistDefault,
    /// `model.default`.
    pub model_default: Option<String>,
    /// The subject of this one of many plans: the argument `item`, which reaches its actor whether or not the
    /// actor reads it.
    pub item: Option<String>,
}

/// A definition as a plan stores it.
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenDefinition {
    /// The action's name; `None` for a task in words.
    pub action: Option<String>,
    /// One line about it.
    pub title: String,
    /// True if that line names the item.
    pub title_has_item: bool,
    /// The task.
    pub prompt: String,
    /// The values of its arguments.
    pub args: BTreeMap<String, Value>,
    /// The conditions under which it counts as done.
    pub definition_of_done: Vec<String>,
    /// The steps of execute. Paths outside (`writable`) are as they were written; an end that is not named is
    /// `None`.
    pub steps: Vec<PlanStep>,
    /// The repair step.
    pub fix: Option<String>,
    /// The step whose text is the answer.
    pub result: String,
    /// The actor of strategize.
    pub strategist: Option<Strategist>,
    /// The checks.
    pub validations: Vec<Validation>,
    /// The invariants.
    pub invariants: Vec<Invariant>,
    /// The automation profile.
    pub automation: Option<Automation>,
    /// Its limits.
    pub limits: RequestedLimits,
    /// True if nothing is written.
    pub read_only: bool,
    /// The files that it was made from.
    pub sources: Vec<DefinitionSource>,
    /// The places of definitions that another person may have written: they came with a project, or were
    /// named as files.
    pub foreign: BTreeSet<String>,
    /// The requests of files of projects that only the user can allow, in words.
    pub asks: Vec<String>,
    /// The places of these files.
    pub asking: Vec<String>,
    /// True if a step wants the model that the settings name, and they name none.
    pub misses_model: bool,
}

impl FrozenDefinition {
    /// Puts it into a plan that knows all else.
    pub fn put_into(self, spec: &mut PlanSpec) {
        spec.steps = self.steps;
        spec.action = self.action;
        spec.prompt = self.prompt;
        spec.args = self.args;
        spec.definition_of_done = self.definition_of_done;
        spec.fix = self.fix;
        spec.result = Some(self.result);
        spec.strategist = self.strategist;
        spec.invariants =
            domain::plan::invariant::effective(spec.invariants.drain(..).chain(self.invariants));
        spec.read_only = self.read_only;
        spec.sources = self.sources;
        let RequestedLimits { time_s, steps, tool_calls, tokens, cost, parallel } = self.limits;
        spec.time_limit_s = time_s.map_or(spec.time_limit_s, |asked| asked.min(spec.time_limit_s));
        spec.limits = Limits {
            steps: smaller(steps, spec.limits.steps),
            tool_calls: smaller(tool_calls, spec.limits.tool_calls),
            tokens: smaller(tokens, spec.limits.tokens),
            cost: smaller(cost, spec.limits.cost),
        };
        spec.parallel = parallel.map_or(spec.parallel, |asked| asked.min(spec.parallel));
        if let Some(asked) = self.automation {
            spec.automation = spec.automation.tightened(&asked);
        }
    }
}

/// Joins an action with its actors and these arguments.
///
/// # Errors
/// Returns all that is wrong with any of them.
pub fn freeze_action(
    library: &Library,
    loaded: &LoadedDefinition<Action>,
    given: &[(String, String)],
    surroundings: &FreezeOptions,
) -> Result<FrozenDefinition, DefinitionError> {
    let mut given = given.to_vec();
    if let Some(item) = &surroundings.item
        && loaded.definition.args.contains_key(ITEM)
    {
        given.push((ITEM.to_owned(), item.clone()));
    }
    let args = arg::resolve(&loaded.definition.args, &given).map_err(DefinitionError::Args)?;
    join(library, loaded, args, surroundings)
}

/// An action as it would be frozen, its arguments left open.
///
/// # Errors
/// Returns all that is wrong with it and its actors, or an error if no actor would do it.
pub fn preview_action(
    library: &Library,
    loaded: &LoadedDefinition<Action>,
    surroundings: &FreezeOptions,
) -> Result<FrozenDefinition, DefinitionError> {
    join(library, loaded, BTreeMap::new(), surroundings)
}

/// An actor as it would be frozen, its arguments left open.
///
/// # Errors
/// Returns all that is wrong with it and the actors that it is made of.
pub fn preview_actor(
    library: &Library,
    loaded: &LoadedDefinition<Actor>,
    surroundings: &FreezeOptions,
) -> Result<FrozenDefinition, DefinitionError> {
    let file = label(loaded);
    let args = BTreeMap::new();
    let here = FreezeScope { library, args: &args, declared: None, file: &file, origin: loaded.origin };
    let flat = here.loaded(loaded, ActorRole::Execute)?;
    Ok(frozen(typed("", false), flat, None, surroundings))
}

fn join(
    library: &Library,
    loaded: &LoadedDefinition<Action>,
    mut args: BTreeMap<String, Value>,
    surroundings: &FreezeOptions,
) -> Result<FrozenDefinition, DefinitionError> {
    let action = &loaded.definition;
    let file = label(loaded);
    let item = surroundings.item.as_deref();
    if let Some(item) = item {
        args.entry(ITEM.to_owned()).or_insert_with(|| item.into());
    }
    let declared = Some(action.args.keys().cloned().chain(item.map(|_| ITEM.to_owned())).collect());
    let here = FreezeScope { library, args: &args, declared, file: &file, origin: loaded.origin };
    let default = surroundings.actor_default.as_ref();
    let actor = match &surroundings.actor {
        Some(asked) => Some(here.loaded(asked, ActorRole::Execute)?),
        None => here.actor(&action.actor, default, ActorRole::Execute)?,
    };
    let actor = actor.ok_or(DefinitionError::NoActor)?;
    let strategist = here.strategist(&action.strategist, surroundings, &actor)?;
    let values = Values { args: args.clone(), ..Values::default() };
    let is_whole = action.args.keys().all(|name| args.contains_key(name));
    // Both name arguments alone, which was looked at when the action was read.
    let text = |source: &str| match is_whole {
        true => Template::parse(source).ok().and_then(|text| text.expand(&values).ok()).unwrap_or_default(),
        false => source.to_owned(),
    };
    let checks = action.validations.iter().filter(|_| is_whole);
    let validations = checks.map(|check| validation(check, &values)).collect::<Result<_, _>>()?;
    let uses_item = actor.uses_item || names_item(&action.prompt);
    let mut joined = frozen(action.clone(), actor, strategist, surroundings);
    joined.action = Some(loaded.name.clone());
    joined.title = text(&action.description);
    joined.title_has_item = names_item(&action.description);
    joined.prompt = text(&action.prompt);
    if let Some(item) = item.filter(|_| !uses_item) {
        // No text names it, and without it all the plans would be the same.
        let gap = if joined.prompt.is_empty() { "" } else { "\n\n" };
        joined.prompt = format!("{}{gap}Item: {item}", joined.prompt);
    }
    joined.validations = validations;
    joined.sources.insert(0, source(Kind::Action, loaded));
    joined.foreign.extend(foreign(loaded));
    joined.args = args;
    Ok(joined)
}

/// Returns true if a template names the item.
fn names_item(text: &str) -> bool {
    let template = Template::parse(text).unwrap_or_default();
    template.paths().any(|path| match path.segments() {
        [name] => name == ITEM,
        [args, name] => args == "args" && name == ITEM,
        _ => false,
    })
}

fn frozen(
    action: Action,
    actor: FlattenedActor,
    strategist: Option<FlattenedActor>,
    surroundings: &FreezeOptions,
) -> FrozenDefinition {
    let FlattenedActor {
        name: _,
        mut steps,
        fix,
        result,
        limits,
        mut sources,
        mut foreign,
        mut asks,
        uses_item: _,
    } = actor;
    let mut limits = action.limits.and(limits);
    let model = surroundings.model_default.as_deref();
    let mut misses_model = set_model(&mut steps, model);
    let strategist = strategist.map(|mut flat| {
        sources.extend(flat.sources);
        foreign.extend(flat.foreign);
        asks.extend(flat.asks);
        limits = limits.and(flat.limits);
        misses_model |= set_model(&mut flat.steps, model);
        Strategist { name: flat.name, steps: flat.steps, result: flat.result }
    });
    FrozenDefinition {
        action: None,
        title: String::new(),
        title_has_item: false,
        prompt: String::new(),
        args: BTreeMap::new(),
        definition_of_done: action.definition_of_done,
        steps,
        fix,
        result,
        strategist,
        validations: Vec::new(),
        invariants: action.invariants,
        automation: action.automation,
        limits,
        read_only: action.read_only,
        sources,
        foreign,
        asking: asks.iter().map(|ask| ask.file.clone()).collect::<BTreeSet<_>>().into_iter().collect(),
        asks: asks.into_iter().map(|ask| ask.what).collect::<BTreeSet<_>>().into_iter().collect(),
        misses_model,
    }
}

/// Joins a task in words, which may be empty, with an actor.
///
/// # Errors
/// Returns all that is wrong with it, or an error if there is no actor to do it.
pub fn freeze_actor(
    library: &Library,
    task: &str,
    surroundings: &FreezeOptions,
) -> Result<FrozenDefinition, DefinitionError> {
    let loaded = LoadedDefinition {
        name: String::new(),
        origin: DefinitionOrigin::User,
        place: "the command line".to_owned(),
        digest: String::new(),
        text: String::new(),
        definition: typed(task, surroundings.item.is_some()),
    };
    let frozen = join(library, &loaded, BTreeMap::new(), surroundings)?;
    let sources = frozen.sources.into_iter().filter(|source| source.kind != Kind::Action.as_str()).collect();
    Ok(FrozenDefinition { action: None, sources, ..frozen })
}

/// The action that a task in words is; `has_item`, and the words may name the item.
fn typed(task: &str, has_item: bool) -> Action {
    let first = task.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    Action {
        description: worded(first, has_item),
        prompt: worded(task, has_item),
        definition_of_done: Vec::new(),
        args: BTreeMap::new(),
        actor: ActorRef::Default,
        strategist: StrategistRef::Actor(ActorRef::Default),
        validations: Vec::new(),
        invariants: Vec::new(),
        automation: None,
        limits: RequestedLimits::default(),
        read_only: false,
    }
}

/// Words of a person as a template: they are none, but for `{{item}}` where there is one, with spaces or
/// without.
fn worded(text: &str, has_item: bool) -> String {
    let literal = |part: &str| Template::literal(part).to_string();
    let (mut template, mut done) = (String::new(), 0);
    for (open, _) in text.match_indices("{{").filter(|_| has_item) {
        let inner = text[open + 2..].split_once("}}").map(|(inner, _)| inner);
        if let Some(inner) = inner.filter(|inner| inner.trim() == ITEM) {
            template += &literal(&text[done..open]);
            template += "{{item}}";
            done = open + inner.len() + "{{}}".len();
        }
    }
    template + &literal(&text[done..])
}

/// The surroundings of an action.
struct FreezeScope<'a> {
    library: &'a Library,
    args: &'a BTreeMap<String, Value>,
    /// As of [`Flattener::new`].
    declared: Option<BTreeSet<String>>,
    file: &'a str,
    origin: DefinitionOrigin,
}

/// An actor in one list of steps.
struct FlattenedActor {
    name: String,
    steps: Vec<PlanStep>,
    fix: Option<String>,
    result: String,
    limits: RequestedLimits,
    sources: Vec<DefinitionSource>,
    foreign: BTreeSet<String>,
    asks: BTreeSet<ForeignAsk>,
    /// True if a text of it names the item.
    uses_item: bool,
}

impl FreezeScope<'_> {
    fn actor(
        &self,
        named: &ActorRef,
        default: Option<&ChosenActor>,
        part: ActorRole,
    ) -> Result<Option<FlattenedActor>, DefinitionError> {
        match (named, default) {
            (ActorRef::Inline(actor), _) => {
                let whose = ActorOrigin { actor, file: self.file, asker: self.asker() };
                self.flat(INLINE, whose, part, Vec::new()).map(Some)
            }
            (ActorRef::Named { name, at }, _) => self.loaded(&self.named(name, *at)?, part).map(Some),
            (ActorRef::Default, Some(ChosenActor { name, by })) => {
                self.loaded_by(&self.library.actor(name)?, part, by.as_ref()).map(Some)
            }
            (ActorRef::Default, None) => Ok(None),
        }
    }

    /// The file of the action, if another person may have written it.
    fn asker(&self) -> Option<&str> {
        self.origin.is_foreign().then_some(self.file)
    }

    fn loaded(
        &self,
        loaded: &LoadedDefinition<Actor>,
        part: ActorRole,
    ) -> Result<FlattenedActor, DefinitionError> {
        self.loaded_by(loaded, part, None)
    }

    /// The same for an actor that a project's settings chose, if they did.
    fn loaded_by(
        &self,
        loaded: &LoadedDefinition<Actor>,
        part: ActorRole,
        by: Option<&DefinitionSource>,
    ) -> Result<FlattenedActor, DefinitionError> {
        let file = label(loaded);
        let around = self.asker().or(by.map(|by| by.place.as_str()));
        let asker = if loaded.origin.is_foreign() { Some(file.as_str()) } else { around };
        let whose = ActorOrigin { actor: &loaded.definition, file: &file, asker };
        let sources = [source(Kind::Actor, loaded)].into_iter().chain(by.cloned()).collect();
        let mut flat = self.flat(&loaded.name, whose, part, sources)?;
        flat.foreign.extend(foreign(loaded));
        Ok(flat)
    }

    fn named(&self, name: &str, at: SourcePosition) -> Result<LoadedDefinition<Actor>, DefinitionError> {
        self.library.actor(name).map_err(|error| match error {
            DefinitionError::NotFound { .. } => {
                let (kind, message) = (DiagnosticKind::ActorNotFound, error.to_string());
                DefinitionError::Invalid(vec![Diagnostic { file: self.file.to_owned(), at, kind, message }])
            }
            DefinitionError::Unreadable { .. }
            | DefinitionError::Invalid(_)
            | DefinitionError::Args(_)
            | DefinitionError::NoActor => error,
        })
    }

    /// Returns the strategist. There is none for an actor that does not read the strategy, unless a
    /// strategist is named.
    fn strategist(
        &self,
        named: &StrategistRef,
        surroundings: &FreezeOptions,
        actor: &FlattenedActor,
    ) -> Result<Option<FlattenedActor>, DefinitionError> {
        let StrategistRef::Actor(named) = named else { return Ok(None) };
        if *named == ActorRef::Default && !actor.steps.iter().any(listens) {
            return Ok(None);
        }
        self.actor(named, surroundings.strategist_default.chosen(), ActorRole::Strategize)
    }

    fn flat(
        &self,
        name: &str,
        whose: ActorOrigin<'_>,
        part: ActorRole,
        sources: Vec<DefinitionSource>,
    ) -> Result<FlattenedActor, DefinitionError> {
        let mut flattening = Flattener::new(self.library, self.args, self.declared.clone(), part);
        flattening.add(name, whose);
        if !flattening.findings.is_empty() {
            let mut findings = flattening.findings;
            findings.sort();
            findings.dedup();
            return Err(DefinitionError::Invalid(findings));
        }
        if !flattening.arg_errors.is_empty() {
            return Err(DefinitionError::Args(flattening.arg_errors));
        }
        Ok(FlattenedActor {
            name: name.to_owned(),
            steps: flattening.steps,
            fix: flattening.fix,
            result: whose.actor.result.clone(),
            limits: whose.actor.limits,
            sources: sources.into_iter().chain(flattening.sources).collect(),
            foreign: flattening.foreign,
            asks: flattening.asks,
            uses_item: flattening.used.contains(ITEM),
        })
    }
}

/// Returns true if a step reads the strategy.
fn listens(step: &PlanStep) -> bool {
    let names = |text: &str| {
        let template = Template::parse(text).unwrap_or_default();
        template
            .paths()
            .any(|path| matches!(path.segments(), [word] if word == "prompt" || word == "strategy"))
    };
    match &step.does {
        NodeKind::Model(_) | NodeKind::External(_) => true,
        NodeKind::Command(task) => {
            let in_argv = match &task.run {
                CommandLine::Argv(argv) => argv.iter().any(|word| names(&word.to_string())),
                CommandLine::Shell(_) => false,
            };
            let in_env = task.env.iter().any(|(_, value)| names(&value.to_string()));
            task.expand
                && (in_argv || in_env || task.stdin.as_ref().is_some_and(|text| names(&text.to_string())))
        }
        NodeKind::Read { .. }
        | NodeKind::Write { .. }
        | NodeKind::Edit { .. }
        | NodeKind::Wait { .. }
        | NodeKind::Tool { .. }
        | NodeKind::Actor { .. } => false,
    }
}

/// Puts the model that the settings name where a step wants it; true when they name none.
fn set_model(steps: &mut [PlanStep], default: Option<&str>) -> bool {
    let mut is_missing = false;
    for step in steps {
        if let NodeKind::Model(task) = &mut step.does
            && task.model == "default"
        {
            match default {
                Some(model) => task.model = model.to_owned(),
                None => is_missing = true,
            }
        }
    }
    is_missing
}

fn validation(check: &Check, values: &Values) -> Result<Validation, DefinitionError> {
    let run = match &check.run {
        CommandLine::Shell(line) => CommandLine::Shell(line.clone()),
        CommandLine::Argv(argv) => CommandLine::Argv(expand_argv(argv, values).map_err(|error| {
            let (name, rule) = (check.name.clone(), error.to_string());
            DefinitionError::Args(vec![domain::ArgError::Invalid { value: check.run.render(), name, rule }])
        })?),
    };
    Ok(Validation {
        name: check.name.clone(),
        run,
        mode: check.mode,
        timeout_s: check.timeout_s,
        root: RootIndex(0),
        cwd: check.cwd.as_deref().map(ByteText::from).unwrap_or_default(),
        // Its file was trusted as a whole, or no plan is made from it.
        needs_trust: false,
    })
}
