//! `agents man`: the manual, printed or written as one page for each command.
//!
//! # Invariants
//! Every page has examples, the files, the variables and the exits.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use serde_json::json;

use super::examples;
use crate::errors::{CommandError, codes, hints};
use crate::output::CommandReport;

#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// The command, like `plan apply` [default: the page of the program]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,
    /// Write all pages into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &ManArgs) -> Result<CommandReport, CommandError> {
    // No page describes `help`, which repeats every command.
    let mut command = without_help(super::command());
    command.build();
    match &args.out {
        None => {
            let (command, path) = find(command, &args.command)?;
            let page = render(command, &path)?;
            let text = String::from_utf8_lossy(&page).into_owned();
            Ok(CommandReport::new(json!({ "page": text }), page))
        }
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(|error| cannot(dir, &error))?;
            let mut pages = Vec::new();
            write_pages(command, "agents", dir, &mut pages)?;
            let text: String = pages.iter().map(|page| format!("{page}\n")).collect();
            Ok(CommandReport::new(json!({ "pages": pages }), text))
        }
    }
}

fn without_help(command: clap::Command) -> clap::Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Returns the command that these words name, and its whole name.
fn find(command: clap::Command, words: &[String]) -> Result<(clap::Command, String), CommandError> {
    let (mut command, mut path) = (command, "agents".to_owned());
    for word in words {
        let found = command.find_subcommand(word).cloned().ok_or_else(|| {
            CommandError::new(&codes::USAGE, format!("there is no command `{path} {word}`"))
                .hint(hints::SEE_HELP)
                .field("path", &path)
        })?;
        path = format!("{path} {}", found.get_name());
        command = found;
    }
    Ok((command, path))
}

/// The page of the command and those of its own commands, each named by its whole way: `agents-plan-diff.1`.
fn write_pages(
    command: clap::Command,
    path: &str,
    dir: &Path,
    pages: &mut Vec<String>,
) -> Result<(), CommandError> {
    let inner: Vec<clap::Command> =
        command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned().collect();
    let file = dir.join(format!("{}.1", path.replace(' ', "-")));
    std::fs::write(&file, render(command, path)?).map_err(|error| cannot(&file, &error))?;
    pages.push(file.display().to_string());
    for command in inner {
        let path = format!("{path} {}", command.get_name());
        write_pages(command, &path, dir, pages)?;
    }
    Ok(())
}

fn render(command: clap::Command, path: &str) -> Result<Vec<u8>, CommandError> {
    let mut page = Vec::new();
    let written = Man::new(command).render(&mut page).and_then(|()| write_sections(path, &mut page));
    written.map_err(|error| CommandError::new(&codes::INTERNAL, error.to_string()))?;
    Ok(page)
}

/// Writes the sections that every page has.
fn write_sections(path: &str, page: &mut dyn Write) -> std::io::Result<()> {
    let mut roff = Roff::default();
    let lines = examples::of_command(path);
    if !lines.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
        for line in lines {
            roff.control("TP", []);
            roff.text([bold(*line)]);
        }
    }
    for (title, rows) in [("FILES", &examples::FILES[..]), ("ENVIRONMENT", &examples::VARIABLES[..])] {
        roff.control("SH", [title]);
        for (name, about) in rows {
            roff.control("TP", []);
            roff.text([bold(*name)]);
            roff.text([roman(*about)]);
        }
    }
    roff.control("SH", ["EXIT STATUS"]);
    roff.text([roman(examples::EXITS)]);
    roff.to_writer(page)
}

fn cannot(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(&codes::IO_FAILED, format!("{} cannot be written: {error}", path.display()))
}
