//! `agents man`: the manual, printed or written as one page for each command.

use std::path::{Path, PathBuf};

use clap_mangen::Man;
use serde_json::json;

use crate::errors::{CommandError, codes};
use crate::output::CommandReport;

#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Write all pages into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &ManArgs) -> Result<CommandReport, CommandError> {
    let mut command = super::command();
    command.build();
    match &args.out {
        None => {
            let page = render(command)?;
            let text = String::from_utf8_lossy(&page).into_owned();
            Ok(CommandReport::new(json!({ "page": text }), page))
        }
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(|error| cannot(dir, &error))?;
            let mut pages = Vec::new();
            write_pages(command, dir, &mut pages)?;
            let text: String = pages.iter().map(|page| format!("{page}\n")).collect();
            Ok(CommandReport::new(json!({ "pages": pages }), text))
        }
    }
}

/// The page of the command and those of its own commands, each named by its whole way: `agents-plan-diff.1`.
fn write_pages(command: clap::Command, dir: &Path, pages: &mut Vec<String>) -> Result<(), CommandError> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let inner: Vec<clap::Command> =
        command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned().collect();
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, render(command)?).map_err(|error| cannot(&path, &error))?;
    pages.push(path.display().to_string());
    // `help` repeats every command; its pages would say nothing new.
    for command in inner.into_iter().filter(|inner| inner.get_name() != "help") {
        write_pages(command, dir, pages)?;
    }
    Ok(())
}

fn render(command: clap::Command) -> Result<Vec<u8>, CommandError> {
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| CommandError::new(&codes::INTERNAL, error.to_string()))?;
    Ok(page)
}

fn cannot(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(&codes::IO_FAILED, format!("{} cannot be written: {error}", path.display()))
}
