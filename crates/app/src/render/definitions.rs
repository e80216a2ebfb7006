//! Renders the answers of `agents action` and `agents actor`: both list, show and check alike.

use ::definitions::{
    DefinitionError, DefinitionListing, DefinitionOrigin, FreezeOptions, Kind, Library, LoadedDefinition,
};
use actors::agents;
use actors::agents::{Agent, TestedWays};
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::config::Settings;
use crate::errors::{CommandError, codes};
use crate::output::{CommandReport, TextTable, escape_control_chars};
use crate::setup::definitions;
use crate::setup::definitions::WithProviders;
use crate::setup::project;

/// The definitions that hold here, and what the settings say about them.
pub(crate) fn setting(
    invocation: &Invocation,
    with_providers: WithProviders,
) -> Result<(Library, FreezeOptions, Settings), CommandError> {
    let projects = project::find_all(&[], &invocation.here)?;
    let settings = invocation.settings(Vec::new(), &projects)?;
    let configured = definitions::configured(&settings, with_providers);
    let library = definitions::library(&projects, &invocation.env).knowing(configured);
    Ok((library, definitions::surroundings(&settings, None), settings))
}

/// Lists the definitions of a kind. `missing` returns what a built-in one lacks on this machine.
pub(crate) fn list(
    library: &Library,
    kind: Kind,
    missing: &dyn Fn(&str) -> Option<String>,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    let listed = library.list(kind).map_err(|error| definitions::failure(&error))?;
    let lacks = |line: &DefinitionListing| {
        Some(line.origin)
            .filter(|origin| *origin == DefinitionOrigin::BuiltIn)
            .and_then(|_| missing(&line.name))
    };
    let mut table = match kind {
        Kind::Actor => TextTable::new(&["actor", "from", "needs", "description"]),
        Kind::Action => TextTable::new(&["action", "from", "description"]),
    };
    for line in &listed {
        let needs = (kind == Kind::Actor).then(|| lacks(line).unwrap_or_default());
        let start = [line.name.clone(), line.origin.as_str().to_owned()];
        table.row(start.into_iter().chain(needs).chain([about(line, kind)]).collect());
    }
    let all: Vec<Value> = listed
        .iter()
        .map(|line| {
            json!({
                "name": line.name, "origin": line.origin.as_str(), "place": line.place,
                "description": line.description, "hidden_by": line.hidden_by.map(|origin| origin.as_str()),
                "findings": definitions::findings_json(&line.findings),
                "needs": lacks(line),
                "tried": program(kind, &line.name, line.origin).map(tried_json),
            })
        })
        .collect();
    let folder = format!("{}s", kind.as_str());
    let text = match listed.is_empty() {
        true => format!("there is no {} yet: write .cleveragents/{folder}/NAME.yaml\n", kind.as_str()),
        false => table.render(&invocation.style),
    };
    Ok(CommandReport::new(json!({ folder: all }), text))
}

/// Returns the text of a line: first that something is wrong, or that another is taken, then all else.
fn about(line: &DefinitionListing, kind: Kind) -> String {
    let faults = match &line.findings[..] {
        [] => String::new(),
        [only] => format!("not sound: {only}"),
        [first, rest @ ..] => format!("not sound: {first} (and {} more)", rest.len()),
    };
    let hidden = line.hidden_by.map(|origin| format!("hidden by the one of the {}", origin.as_str()));
    let tried = program(kind, &line.name, line.origin).map(Agent::tried_in_words);
    let parts = [hidden.unwrap_or_default(), faults, line.description.clone(), tried.unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// The agent program that a built-in actor runs.
fn program(kind: Kind, name: &str, origin: DefinitionOrigin) -> Option<&'static Agent> {
    agents::named(name).filter(|_| kind == Kind::Actor && origin == DefinitionOrigin::BuiltIn)
}

/// The versions that an agent program was seen to work with; null for none.
pub(crate) fn tried_json(agent: &Agent) -> Value {
    let version = |tried: TestedWays| match tried {
        TestedWays::Worked { version } => Some(version),
        TestedWays::No => None,
    };
    json!({ "version": version(agent.tried), "acp_version": version(agent.tried_acp) })
}

/// A definition to be printed.
pub(crate) struct PrintedDefinition {
    name: String,
    origin: &'static str,
    place: String,
    digest: String,
    value: Value,
    /// The agent program that it runs, if it is one of ours.
    program: Option<&'static Agent>,
}

impl PrintedDefinition {
    pub(crate) fn new<T>(kind: Kind, loaded: &LoadedDefinition<T>, value: Value) -> PrintedDefinition {
        PrintedDefinition {
            program: program(kind, &loaded.name, loaded.origin),
            name: loaded.name.clone(),
            origin: loaded.origin.as_str(),
            place: loaded.place.clone(),
            digest: loaded.digest.clone(),
            value,
        }
    }
}

pub(crate) fn show(shown: &PrintedDefinition) -> Result<CommandReport, CommandError> {
    let yaml = serde_saphyr::to_string(&shown.value)
        .map_err(|error| CommandError::new(&codes::INTERNAL, format!("it cannot be printed: {error}")))?;
    let from = if shown.place == shown.origin { String::new() } else { format!(" ({})", shown.place) };
    let tried = shown.program.map(|agent| format!("# {}: {}\n", agent.title, agent.tried_in_words()));
    let head = format!("# {} of the {}{from}\n{}", shown.name, shown.origin, tried.unwrap_or_default());
    let text = escape_control_chars(&format!("{head}{}\n", yaml.trim_end()));
    let data = json!({
        "name": shown.name, "origin": shown.origin, "place": shown.place, "digest": shown.digest,
        "definition": shown.value, "tried": shown.program.map(tried_json),
    });
    Ok(CommandReport::new(data, text))
}

/// A definition without a fault.
pub(crate) struct Checked {
    name: String,
    place: String,
}

impl Checked {
    pub(crate) fn new<T>(loaded: &LoadedDefinition<T>) -> Checked {
        Checked { name: loaded.name.clone(), place: loaded.place.clone() }
    }
}

/// Checks all that are named, or all that exist; one failure reports every error of all of them.
pub(crate) fn check_all(
    library: &Library,
    kind: Kind,
    words: &[String],
    check: &dyn Fn(&str) -> Result<Checked, DefinitionError>,
) -> Result<CommandReport, CommandError> {
    let all: Vec<String> = match words {
        [] => library.names(kind).into_iter().collect(),
        words => words.to_vec(),
    };
    let (mut sound, mut findings) = (Vec::new(), Vec::new());
    for word in &all {
        match check(word) {
            Ok(checked) => sound.push(checked),
            // An actor that two others contain is read with each of them.
            Err(DefinitionError::Invalid(found)) => {
                found.into_iter().for_each(|one| {
                    if !findings.contains(&one) {
                        findings.push(one)
                    }
                });
            }
            Err(error) => return Err(definitions::failure(&error)),
        }
    }
    let text: String = sound
        .iter()
        .map(|one| escape_control_chars(&format!("{}: ok ({})\n", one.name, one.place)))
        .collect();
    let names: Vec<Value> = sound.iter().map(|one| json!({ "name": one.name, "place": one.place })).collect();
    let data = json!({ "sound": names, "findings": definitions::findings_json(&findings) });
    let report = CommandReport::new(data, text);
    Ok(match findings.is_empty() {
        true => report,
        false => report.failed(definitions::failure(&DefinitionError::Invalid(findings))),
    })
}
