//! Turns an error of the command line parser into a command error: the facts first, then the usage.
//!
//! # Invariants
//! The kind and the context of the parser's error are read, never its rendered text.

use std::error::Error;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use domain::{ByteText, CommandLine};

use super::Cli;
use crate::errors::{CommandError, codes, hints};

/// The placeholder of an argument that names a plan.
const PLAN_ARG: &str = "<PLAN>";
/// The title that the parser puts before a usage.
const USAGE_TITLE: &str = "Usage: ";

/// The commands that are never suggested: they run something, stop something or remove something, and do it
/// without a question.
const RUNS_OR_REMOVES: [&str; 14] = [
    "run", "use", "execute", "resume", "prompt", "revise", "rollback", "cancel", "gc", "worker", "mcp",
    "trust", "discard", "shell",
];
/// A word of so many letters has at most one typing error.
const SHORT_WORD_CHARS: usize = 4;
/// At most so many commands are suggested.
const SIMILAR_MAX: usize = 3;

/// Returns the command that a line names, as far as it names one: `agents plan apply`.
/// Words after `unknown`, which names none, are not looked at.
fn named_command(args: &[OsString], unknown: Option<&str>) -> (clap::Command, String) {
    let (mut command, mut path) = (Cli::command(), "agents".to_owned());
    let is_over = |word: &OsString| word == "--" || unknown.is_some_and(|unknown| word == unknown);
    for word in args.iter().skip(1).take_while(|word| !is_over(word)) {
        if let Some(found) = command.find_subcommand(word).cloned() {
            path = format!("{path} {}", found.get_name());
            command = found;
        }
    }
    (command, path)
}

/// Converts an error of the parser about these arguments.
pub(super) fn usage_failure(error: &clap::Error, args: &[OsString]) -> CommandError {
    let (command, path) = named_command(args, text(error, ContextKind::InvalidSubcommand));
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
    failure = details(error).into_iter().fold(failure, CommandError::line);
    if let Some(line) = command_line_meant(error, &command, args) {
        return failure
            .hint(hints::COMMAND_LINE)
            .field("line", line)
            .hint(hints::SEE_HELP)
            .field("path", path);
    }
    let names = match text(error, ContextKind::InvalidSubcommand) {
        Some(word) => similar_commands(word, &command, &path),
        None => similar_names(error),
    };
    if !names.is_empty() {
        failure = failure.hint(hints::DID_YOU_MEAN).field("nearest", names.join("` or `"));
    }
    if error.kind() != ErrorKind::InvalidSubcommand
        && let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested)
    {
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
fn details(error: &clap::Error) -> Vec<String> {
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

/// Returns the commands that a mistyped word probably means, none of which runs or removes anything. At the
/// top, a command for plans is found by its own name.
fn similar_commands(word: &str, command: &clap::Command, path: &str) -> Vec<String> {
    let names = |command: &clap::Command, path: &str| -> Vec<(String, String)> {
        let names = command.get_subcommands().map(clap::Command::get_name);
        let names = names.filter(|name| !RUNS_OR_REMOVES.contains(name) && *name != "help");
        names.map(|name| (name.to_owned(), format!("{path} {name}"))).collect()
    };
    let distance_max = if word.chars().count() > SHORT_WORD_CHARS { 2 } else { 1 };
    let own = names(command, path);
    let near = own.iter().filter(|(name, _)| typing_distance(name, word) <= distance_max);
    let mut near: Vec<(usize, String)> =
        near.map(|(name, whole)| (typing_distance(name, word), whole.clone())).collect();
    near.sort();
    let below = command.get_subcommands().flat_map(|inner| {
        let path = format!("{path} {}", inner.get_name());
        names(inner, &path)
    });
    let exact = below.filter(|(name, _)| name == word).map(|(_, whole)| whole);
    near.into_iter().map(|(_, whole)| whole).chain(exact).take(SIMILAR_MAX).collect()
}

/// Returns the number of letters to type differently: one is missing, too many, wrong, or two are swapped.
fn typing_distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let at = |back: usize, column: usize| -> usize {
                let row = rows.len().checked_sub(back).and_then(|row| rows.get(row));
                row.and_then(|row| row.get(column)).copied().unwrap_or(usize::MAX / 2)
            };
            let replaced = at(1, j) + usize::from(a != b);
            let dropped = at(1, j + 1) + 1;
            let added = row.get(j).copied().unwrap_or(usize::MAX / 2) + 1;
            let is_swap = i > 0 && j > 0 && one.get(i - 1) == Some(b) && other.get(j - 1) == Some(a);
            let swapped = if is_swap { at(2, j - 1) + 1 } else { usize::MAX };
            row.push(replaced.min(dropped).min(added).min(swapped));
        }
        rows.push(row);
    }
    rows.last().and_then(|row| row.last()).copied().unwrap_or(usize::MAX)
}

/// Returns the line to type if a program and its arguments follow `run` without `--`.
fn command_line_meant(error: &clap::Error, command: &clap::Command, args: &[OsString]) -> Option<String> {
    let is_run = command.get_name() == "run" && error.kind() == ErrorKind::UnknownArgument;
    if !is_run || args.iter().any(|word| word == "--") {
        return None;
    }
    let run = args.iter().position(|word| word == "run")?;
    let takes_value = |flag: &str| {
        let known =
            |arg: &&clap::Arg| flag.strip_prefix("--").is_some_and(|long| arg.get_long() == Some(long));
        command.get_arguments().find(known).is_some_and(|arg| arg.get_action().takes_values())
    };
    let mut place = run + 1;
    while let Some(flag) = args.get(place)?.to_str().filter(|word| word.starts_with('-')) {
        place += if takes_value(flag) { 2 } else { 1 };
    }
    let program = args.get(place)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = match program.as_bytes().contains(&b'/') {
        true => Path::new(program).is_file(),
        false => std::env::split_paths(&path).any(|dir| dir.join(program).is_file()),
    };
    if !is_program {
        return None;
    }
    let mut words: Vec<ByteText> = vec![ByteText::from("agents")];
    words.extend(args.get(1..place)?.iter().map(|word| ByteText(word.as_bytes().to_vec())));
    words.push(ByteText::from("--"));
    words.extend(args.get(place..)?.iter().map(|word| ByteText(word.as_bytes().to_vec())));
    Some(CommandLine::Argv(words).render())
}

/// Returns the names that were probably meant.
fn similar_names(error: &clap::Error) -> Vec<String> {
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedValue];
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
        assert_eq!(failure.hints()[0], "did you mean `agents plan apply`?");
        let failure = said(&["--format", "json", "plan", "execute"]);
        assert_eq!(
            (failure.message.as_str(), &failure.lines[..]),
            ("required arguments are missing", &["<PLAN>".to_owned()][..])
        );
        assert_eq!(
            failure.hints(),
            [
                "it is called as `agents plan execute <PLAN>`",
                "a plan is named by the letters that `agents list` shows, by its whole id, or by @last",
                "see `agents plan execute --help`",
            ]
        );
        let failure = said(&["plan"]);
        assert_eq!(failure.message, "`agents plan` needs a command");
        assert_eq!(failure.hints(), ["see `agents plan --help`"]);
        assert!(failure.lines.iter().any(|line| line.starts_with("apply ")));
        assert!(failure.lines.iter().all(|line| !line.starts_with("help")));
    }

    #[test]
    fn a_suggestion_never_runs_or_removes_anything() {
        let hint = |words: &[&str]| {
            let args: Vec<OsString> = std::iter::once(&"agents").chain(words).map(OsString::from).collect();
            usage_failure(&Cli::try_parse_from(&args).err().unwrap(), &args).hints().remove(0)
        };
        assert_eq!(hint(&["paln"]), "did you mean `agents plan`?");
        assert_eq!(hint(&["tree"]), "did you mean `agents plan tree`?");
        assert_eq!(hint(&["staus"]), "did you mean `agents status`?");
        for words in
            [&["rnu"][..], &["rum"], &["plan", "excute"], &["plan", "delete"], &["plan", "rm"], &["cancle"]]
        {
            assert!(
                hint(words).starts_with("it is called as") || hint(words).starts_with("see "),
                "{words:?}"
            );
        }
        assert_eq!(
            [("ab", "ab"), ("ab", "ba"), ("abc", "ac"), ("", "xy"), ("plan", "paln"), ("ca", "abc")]
                .map(|(one, other)| typing_distance(one, other)),
            [0, 1, 1, 2, 1, 3]
        );
    }

    #[test]
    fn a_wrong_value_is_shown_with_those_that_are_possible() {
        let args: Vec<OsString> = ["agents", "--format", "xml", "top"].map(OsString::from).into();
        let failure = usage_failure(&Cli::try_parse_from(&args).err().unwrap(), &args);
        assert_eq!(failure.message, "invalid value 'xml' for '--format <FORMAT>'");
        assert!(failure.lines[0].starts_with("possible values: "), "{failure:?}");
    }
}
