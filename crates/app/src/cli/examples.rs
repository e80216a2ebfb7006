//! The examples of every command, and what every page of the manual says of files, variables and exits.
//!
//! # Invariants
//! 1. Every command has an example, here or in its own declaration, and each of those here can be typed.
//! 2. They are added to a command only when its help or its page is shown: no other call pays for them.

use std::fmt::Write;

/// The commands, each with lines to type. A short form has those of the long one.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("agents", &["agents run -- make fmt", "agents diff", "agents apply", "agents undo"]),
    (
        "agents run",
        &[
            "agents run -- ./codemod.sh",
            "agents run --check 'cargo test' -- cargo fix --allow-dirty",
            "agents run \"rename the type User to Account\" --actor coder",
            "agents run --for-each files.txt --batch fmt -- sh -c 'prettier -w \"$ITEM\"'",
        ],
    ),
    ("agents plan use", &["agents plan use -- make fmt"]),
    ("agents plan execute", &["agents plan execute @last", "agents plan execute k3ps --again"]),
    (
        "agents plan list",
        &["agents list", "agents list --all --state check-failed", "agents list --batch @last"],
    ),
    ("agents plan status", &["agents status", "agents status k3ps --format json"]),
    ("agents plan watch", &["agents watch", "agents watch --all"]),
    ("agents plan tree", &["agents plan tree k3ps"]),
    ("agents plan explain", &["agents plan explain k3ps:3"]),
    ("agents plan prompt", &["agents plan prompt k3ps \"keep the old name as an alias\""]),
    ("agents plan revise", &["agents plan revise @last \"keep the old flag\""]),
    ("agents plan note", &["agents plan note @last src/a.py:12 \"no globals\""]),
    ("agents plan notes", &["agents plan notes"]),
    ("agents plan checkpoints", &["agents plan checkpoints"]),
    ("agents plan logs", &["agents logs", "agents logs -f", "agents logs k3ps --call 2"]),
    ("agents plan diff", &["agents diff", "agents diff src/lib.rs", "agents diff k3ps --stat"]),
    ("agents plan artifacts", &["agents plan artifacts k3ps --out ./built"]),
    (
        "agents plan apply",
        &[
            "agents apply",
            "agents apply k3ps -i",
            "agents apply k3ps --only src --reject 'src/a.rs#2'",
            "agents apply --batch @last --passed",
            "agents apply k3ps --dry-run",
        ],
    ),
    ("agents plan check", &["agents check", "agents check k3ps --only 'cargo test'"]),
    ("agents plan undo", &["agents undo", "agents undo k3ps --yes"]),
    ("agents plan redo", &["agents redo", "agents redo k3ps --yes"]),
    ("agents log", &["agents log", "agents log --all --format json"]),
    ("agents plan shell", &["agents plan shell", "agents plan shell k3ps -- cargo test"]),
    ("agents plan cancel", &["agents cancel k3ps", "agents cancel --all", "agents cancel --state queued"]),
    ("agents plan discard", &["agents plan discard k3ps", "agents plan discard --batch @last --yes"]),
    ("agents plan resume", &["agents plan resume", "agents plan resume k3ps --limit time=2h"]),
    ("agents plan errors", &["agents plan errors k3ps"]),
    ("agents plan gc", &["agents plan gc --dry-run", "agents plan gc --unapplied --older-than 14d"]),
    ("agents action list", &["agents action list"]),
    ("agents action show", &["agents action show rename-symbol"]),
    ("agents action check", &["agents action check .cleveragents/actions/fix.yaml"]),
    ("agents actor list", &["agents actor list"]),
    ("agents actor show", &["agents actor show coder"]),
    ("agents actor check", &["agents actor check"]),
    ("agents tool list", &["agents tool list"]),
    ("agents tool show", &["agents tool show read_file"]),
    ("agents tool check", &["agents tool check read_file '{\"path\": \"README.md\"}'"]),
    ("agents top", &["agents top", "agents top --once"]),
    ("agents job list", &["agents job list --all"]),
    ("agents job show", &["agents job show 4c7ka2"]),
    ("agents job cancel", &["agents job cancel 4c7ka2"]),
    ("agents worker", &["agents worker --max 4 --until-idle 60s"]),
    ("agents mcp", &["agents mcp --allow-apply"]),
    ("agents context assemble", &["agents context assemble \"where are orders stored?\" --budget 8k"]),
    ("agents context simulate", &["agents context simulate \"where are orders stored?\" --budgets 1k,4k"]),
    ("agents context inspect", &["agents context inspect src/lib.rs"]),
    ("agents context index", &["agents context index --verify"]),
    ("agents context show", &["agents context show k3ps"]),
    ("agents context breakers", &["agents context breakers --reset all"]),
    ("agents config get", &["agents config get plan.concurrency --origin"]),
    ("agents config list", &["agents config list limits", "agents config list --set"]),
    ("agents config edit", &["agents config edit", "agents config edit --project"]),
    ("agents config path", &["agents config path"]),
    ("agents trust", &["agents trust --list", "agents trust"]),
    ("agents doctor", &["agents doctor"]),
    ("agents schema", &["agents schema action > action.json", "agents schema envelope"]),
    ("agents man", &["agents man plan apply | man -l -", "agents man --out ~/.local/share/man/man1"]),
];

/// The short forms that have the examples of a command for plans.
const SHORT_FORMS: [&str; 10] =
    ["diff", "apply", "check", "undo", "redo", "status", "list", "logs", "watch", "cancel"];

/// The exits of every command.
pub(super) const EXITS: &str = "\
0 done, 1 failed, 2 usage, 3 not found, 4 refused by a gate or a conflict, 5 cancelled, 6 needs the user";

/// The files that every command may read or write, and what is in them.
pub(super) const FILES: [(&str, &str); 4] = [
    ("~/.config/cleveragents/config.toml", "your settings (agents config path)"),
    (".cleveragents/config.toml", "the settings, checks, actions and actors of a project"),
    ("~/.local/share/cleveragents", "plans, changes, logs and the index: the data directory"),
    (".cleveragents/actions, .cleveragents/actors", "actions and actors of a project"),
];

/// The variables that every command reads.
pub(super) const VARIABLES: [(&str, &str); 7] = [
    ("CLEVERAGENTS_DATA_DIR", "the data directory"),
    ("CLEVERAGENTS_FORMAT", "the output format: rich, plain, json, yaml"),
    ("CLEVERAGENTS_KEY", "any setting: CLEVERAGENTS_PLAN_CONCURRENCY is plan.concurrency"),
    ("XDG_CONFIG_HOME, XDG_DATA_HOME", "the places of the settings and the data directory"),
    ("NO_COLOR", "switches colour off"),
    ("AGENTS_PAGER, PAGER", "the pager of long answers; empty or cat for none"),
    ("VISUAL, EDITOR", "the editor of `agents config edit`"),
];

/// Returns the lines to type for the command with this path: `agents plan diff`.
pub(super) fn of_command(path: &str) -> &'static [&'static str] {
    let long = path.strip_prefix("agents ").filter(|name| SHORT_FORMS.contains(name));
    let long = long.map(|name| format!("agents plan {name}"));
    let path = long.as_deref().unwrap_or(path);
    EXAMPLES.iter().find(|(known, _)| *known == path).map(|(_, lines)| *lines).unwrap_or_default()
}

/// The command line with the examples in the help of each command.
pub(super) fn with_examples(command: clap::Command) -> clap::Command {
    add(command, "agents")
}

fn add(command: clap::Command, path: &str) -> clap::Command {
    let lines = of_command(path);
    let command = if lines.is_empty() {
        command
    } else {
        let mut text = "Examples:\n".to_owned();
        lines.iter().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
        if let Some(own) = command.get_after_help() {
            let _ = write!(text, "\n{own}");
        } else {
            let _ = write!(text, "\nExit codes: {EXITS}.\nMore: agents man {}", words_after_agents(path));
        }
        command.after_help(text.trim_end().to_owned())
    };
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        add(inner, &path)
    })
}

fn words_after_agents(path: &str) -> &str {
    path.strip_prefix("agents").unwrap_or(path).trim_start()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Cli, command};
    use super::*;

    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, String)>) {
        let inner: Vec<_> =
            command.get_subcommands().filter(|one| one.get_name() != "help" && !one.is_hide_set()).collect();
        if inner.is_empty() {
            let own = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            found.push((path.to_owned(), own));
        }
        for one in inner {
            leaves(one, &format!("{path} {}", one.get_name()), found);
        }
    }

    #[test]
    fn every_command_has_an_example() {
        let mut found = Vec::new();
        leaves(&command(), "agents", &mut found);
        for (path, own) in found {
            assert!(!of_command(&path).is_empty() || own.contains("agents "), "{path} has no example");
        }
    }

    /// The words of a line, as a shell reads these examples.
    fn split(line: &str) -> Vec<String> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for letter in line.chars() {
            match (letter, quote) {
                ('\'' | '"', None) => quote = Some(letter),
                (letter, Some(open)) if letter == open => quote = None,
                (' ', None) => words.push(String::new()),
                (letter, _) => words.last_mut().unwrap().push(letter),
            }
        }
        words
    }

    #[test]
    fn every_example_can_be_typed() {
        for line in EXAMPLES.iter().flat_map(|(_, lines)| *lines) {
            let line = line.split(['|', '>']).next().unwrap().trim_end();
            let words = split(line);
            let parsed = Cli::try_parse_from(&words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
