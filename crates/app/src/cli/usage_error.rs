//! Turns an error of the command line parser into a command error: the facts first, then the usage.
//!
//! # Invariants
//! The kind and the context of the parser's error are read, never its rendered text.

use std::error::Error;
use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Cli;
use crate::errors::{CommandError, codes, hints};

/// The placeholder of an argument that names a plan.
const PLAN_ARG: &str = "<PLAN>";
/// The title that the parser puts before a usage.
const USAGE_TITLE: &str = "Usage: ";

/// Returns the command that a line names, as far as it names one: `agents plan apply`.
fn named_command(args: &[OsString]) -> (clap::Command, String) {
    let (mut command, mut path) = (Cli::command(), "agents".to_owned());
    for word in args.iter().skip(1).take_while(|word| *word != "--") {
        if let Some(found) = command.find_subcommand(word).cloned() {
            path = format!("{path} {}", found.get_name());
            command = found;
        }
    }
    (command, path)
}

/// Converts an error of the parser about these arguments.
pub(super) fn usage_failure(error: &clap::Error, args: &[OsString]) -> CommandError {
    let (command, path) = named_command(args);
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let failure = CommandError::new(&codes::USAGE, format!("`{path}` needs a command"));
        let about = |found: &clap::Command| found.get_about().map(ToString::to_string).unwrap_or_default();
        let commands = command.get_subcommands().filter(|found| found.get_name() != "help");
        let failure = commands.fold(failure, |failure, found| {
            failure.line(format!("{:<10} {}", found.get_name(), about(found)))
        });
        return failure.hint(hints::SEE_HELP).field("path", path);
    }
    let mut failure = CommandError::new(&codes::USAGE, message(error));
    failure = facts(error).into_iter().fold(failure, CommandError::line);
    let names = similar_names(error);
    if !names.is_empty() {
        failure = failure.hint(hints::DID_YOU_MEAN).field("nearest", names.join("` or `"));
    }
    if let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested) {
        let tips: Vec<String> = tips.iter().map(ToString::to_string).collect();
        failure = failure.hint(hints::TIP).field("tip", tips.join("; "));
    }
    if let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) {
        let usage = usage.to_string();
        let usage = usage.strip_prefix(USAGE_TITLE).unwrap_or(&usage).trim();
        failure = failure.hint(hints::CALLED_AS).field("usage", usage);
    }
    if missing(error).iter().any(|arg| arg == PLAN_ARG) {
        failure = failure.hint(hints::PLAN_NAMES);
    }
    failure.hint(hints::SEE_HELP).field("path", path)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds are shown in the words of the parser")]
fn message(error: &clap::Error) -> String {
    let arg = text(error, ContextKind::InvalidArg).unwrap_or("an argument");
    let value = text(error, ContextKind::InvalidValue).unwrap_or_default();
    let number = |kind| match error.get(kind) {
        Some(ContextValue::Number(number)) => number.to_string(),
        Some(_) | None => "another number of".to_owned(),
    };
    match error.kind() {
        ErrorKind::InvalidValue if value.is_empty() => format!("'{arg}' needs a value"),
        ErrorKind::InvalidValue => format!("invalid value '{value}' for '{arg}'"),
        ErrorKind::ValueValidation => {
            let why = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            format!("invalid value '{value}' for '{arg}'{why}")
        }
        ErrorKind::UnknownArgument => format!("unexpected argument '{arg}'"),
        ErrorKind::InvalidSubcommand => {
            format!(
                "there is no command '{}'",
                text(error, ContextKind::InvalidSubcommand).unwrap_or_default()
            )
        }
        ErrorKind::MissingRequiredArgument => "required arguments are missing".to_owned(),
        ErrorKind::ArgumentConflict => match text(error, ContextKind::PriorArg) {
            Some(prior) if prior == arg => format!("'{arg}' can be given only once"),
            Some(prior) => format!("'{arg}' cannot be used with '{prior}'"),
            None => format!("'{arg}' cannot be used with these arguments"),
        },
        ErrorKind::NoEquals => format!("'{arg}' needs an equals sign before its value"),
        ErrorKind::TooManyValues => format!("'{arg}' takes no further value '{value}'"),
        ErrorKind::TooFewValues => format!("'{arg}' needs {} values", number(ContextKind::MinValues)),
        ErrorKind::WrongNumberOfValues => {
            format!("'{arg}' takes {} values", number(ContextKind::ExpectedNumValues))
        }
        other => other.as_str().unwrap_or("the command line cannot be understood").to_owned(),
    }
}

/// Returns the arguments and values that the message is about, a line each.
fn facts(error: &clap::Error) -> Vec<String> {
    let mut lines = missing(error).to_vec();
    if let Some(ContextValue::Strings(prior)) = error.get(ContextKind::PriorArg) {
        lines.extend(prior.iter().cloned());
    }
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
        && !values.is_empty()
    {
        lines.push(format!("possible values: {}", values.join(", ")));
    }
    lines
}

/// Returns the required arguments that were not given.
fn missing(error: &clap::Error) -> &[String] {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(args)) => args,
        Some(_) | None => &[],
    }
}

/// Returns the names that were probably meant.
fn similar_names(error: &clap::Error) -> Vec<String> {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let names = kinds.into_iter().flat_map(|kind| match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(several)) => several.clone(),
        Some(_) | None => Vec::new(),
    });
    names.collect()
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    if let ContextValue::String(text) = error.get(kind)? { Some(text) } else { None }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_usage_failure_says_what_and_how() {
        let said = |words: &[&str]| {
            let args: Vec<OsString> = std::iter::once(&"agents").chain(words).map(OsString::from).collect();
            usage_failure(&Cli::try_parse_from(&args).err().unwrap(), &args)
        };
        let failure = said(&["plan", "aply", "01"]);
        assert_eq!(failure.code, &codes::USAGE);
        assert_eq!(failure.message, "there is no command 'aply'");
        assert_eq!(failure.hints()[0], "did you mean `apply`?");
        let failure = said(&["--format", "json", "plan", "undo"]);
        assert_eq!(
            (failure.message.as_str(), &failure.lines[..]),
            ("required arguments are missing", &["<PLAN>".to_owned()][..])
        );
        assert_eq!(
            failure.hints(),
            [
                "it is called as `agents plan undo <PLAN>`",
                "a plan is named by its id, the beginning of its id, or @last",
                "see `agents plan undo --help`",
            ]
        );
        let failure = said(&["plan"]);
        assert_eq!(failure.message, "`agents plan` needs a command");
        assert_eq!(failure.hints(), ["see `agents plan --help`"]);
        assert!(failure.lines.iter().any(|line| line.starts_with("apply ")));
        assert!(failure.lines.iter().all(|line| !line.starts_with("help")));
    }

    #[test]
    fn a_wrong_value_is_shown_with_those_that_are_possible() {
        let args: Vec<OsString> = ["agents", "--format", "xml", "top"].map(OsString::from).into();
        let failure = usage_failure(&Cli::try_parse_from(&args).err().unwrap(), &args);
        assert_eq!(failure.message, "invalid value 'xml' for '--format <FORMAT>'");
        assert!(failure.lines[0].starts_with("possible values: "), "{failure:?}");
    }
}
