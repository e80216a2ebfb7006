//! `agents plan shell`: a shell, or a command, in the sandbox of a finished plan.
//!
//! # How
//! The program runs at a pseudo-terminal inside the sandbox, which `script` of util-linux makes. This process
//! passes the keys and the output on. Without a terminal, or without `script`, the program has pipes.
//!
//! # Invariants
//! 1. The modes of the user's terminal are restored, whatever ends the program.
//! 2. At the end of the program nothing reads the terminal any more.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crossterm::terminal::{disable_raw_mode, enable_raw_mode, size};
use domain::{ByteText, CommandLine};
use engine::{ShellError, ShellRequest};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, write};
use sandbox::command::PipedStreams;
use serde_json::json;

use crate::cli::Invocation;
use crate::errors::{CommandError, Exit, codes, from_engine, hints};
use crate::output::CommandReport;
use crate::render::diff::counted;

/// The shell of a user who has set none.
const DEFAULT_SHELL: &str = "/bin/sh";
/// The bytes that are passed on at once.
const CHUNK_BYTES: usize = 16 * 1024;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ShellArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
    /// Let it use the network
    #[arg(long)]
    network: bool,
    /// A command instead of a shell, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) async fn run(args: ShellArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let is_command = !args.command.is_empty();
    let shell = invocation.env.get("SHELL").filter(|shell| !shell.is_empty());
    let shell = shell.map_or(DEFAULT_SHELL, String::as_str);
    let words = if is_command { args.command } else { vec![OsString::from(shell)] };
    let line = CommandLine::Argv(words.into_iter().map(|word| ByteText(word.into_vec())).collect());
    let at_terminal = std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
        && !invocation.style.format.is_for_programs();
    let is_quiet = invocation.style.format.is_for_programs();
    let has_pty = at_terminal && on_path("script", invocation.env.get("PATH"));
    let request = ShellRequest {
        shown: line.render(),
        run: if has_pty { in_terminal(&line, is_command) } else { in_pipes(&line) },
        env: variables(shell, &plan.short, has_pty, invocation),
        network: args.network,
    };
    if has_pty && !is_command {
        let words = format!(
            "shell in the sandbox of plan {}; `exit` records what you changed as yours\n",
            plan.short
        );
        let _ = std::io::stderr().write_all(words.as_bytes());
    }
    let ended = engine.shell(plan.id, request, move |pipes| talk(pipes, has_pty, is_quiet)).await;
    let ended = ended.map_err(|error| refused(&error, &plan.short))?;
    let status = ended.exit.map_or_else(|| "was killed".to_owned(), |exit| format!("exited with {exit}"));
    let changes = match ended.changed.len() {
        0 => "nothing changed".to_owned(),
        count => format!(
            "{} recorded as yours\nsee all changes with `agents plan diff {}`",
            counted(count, "changed file"),
            plan.short
        ),
    };
    let what = if is_command { "the command" } else { "the shell" };
    let data = json!({ "plan": plan.id, "exit_status": ended.exit, "changed": ended.changed });
    let mut report = CommandReport::new(data, format!("{what} {status}: {changes}\n"));
    if is_command && ended.exit != Some(0) {
        report.exit = Exit::Failed;
    }
    Ok(report)
}

fn refused(error: &ShellError, id: &str) -> CommandError {
    match error {
        ShellError::NotFinished { state, .. } => {
            let message = format!("plan {id} is {state}: there is no finished result to work on");
            CommandError::new(&codes::PLAN_NOT_READY, message).plan(id)
        }
        ShellError::Busy { .. } => {
            let message = format!("plan {id} was moved by another process: what you changed is not recorded");
            CommandError::new(&codes::PLAN_BUSY, message).plan(id)
        }
        ShellError::Failed { why } => {
            CommandError::new(&codes::PLAN_ERRORED, format!("nothing ran in the sandbox of plan {id}: {why}"))
                .hint(hints::SEE_MACHINE)
                .plan(id)
        }
        ShellError::Plan(error) => from_engine::plan(error, id),
    }
}

fn on_path(program: &str, path: Option<&String>) -> bool {
    let dirs = path.map(std::env::split_paths).into_iter().flatten();
    dirs.map(|dir| dir.join(program)).any(|file| Path::new(&file).is_file())
}

/// The command line at a pseudo-terminal of the size of this one.
fn in_terminal(line: &CommandLine, is_command: bool) -> CommandLine {
    let (columns, rows) = size().unwrap_or((80, 24));
    let interactive = if is_command { "" } else { " -i" };
    let inner =
        format!("stty sane rows {rows} cols {columns} 2>/dev/null; exec {}{interactive}", line.render());
    let words = ["script", "-qfec", &inner, "/dev/null"];
    CommandLine::Argv(words.into_iter().map(ByteText::from).collect())
}

/// The command line with its errors in its output.
fn in_pipes(line: &CommandLine) -> CommandLine {
    CommandLine::Argv(
        ["sh", "-c", &format!("exec {} 2>&1", line.render())].into_iter().map(ByteText::from).collect(),
    )
}

fn variables(shell: &str, short: &str, has_pty: bool, invocation: &Invocation) -> Vec<(ByteText, ByteText)> {
    // `script` starts the line by this shell.
    let mut set = vec![("SHELL", DEFAULT_SHELL.to_owned()), ("AGENTS_SHELL", short.to_owned())];
    if has_pty {
        set.extend(invocation.env.get("TERM").map(|term| ("TERM", term.clone())));
        let prompt =
            if shell.ends_with("bash") { format!("({short}) \\w\\$ ") } else { format!("({short}) $ ") };
        set.push(("PS1", prompt));
    }
    set.into_iter().map(|(name, value)| (ByteText::from(name), ByteText::from(value.as_str()))).collect()
}

/// Passes keys to the program and its output to the user, until the output ends.
fn talk(pipes: PipedStreams, is_raw: bool, is_quiet: bool) {
    let raw = is_raw && enable_raw_mode().is_ok();
    let PipedStreams { stdin, stdout, log, roots: _ } = pipes;
    drop(log);
    // A stream that breaks ends the conversation, and the program hears the end.
    let _ = pass_on(stdin, &stdout, is_quiet);
    if raw {
        let _ = disable_raw_mode();
    }
}

fn pass_on(input: OwnedFd, output: &OwnedFd, is_quiet: bool) -> rustix::io::Result<()> {
    let (keyboard, screen) = (std::io::stdin(), std::io::stdout());
    let mut input = Some(input);
    let mut bytes = vec![0; CHUNK_BYTES];
    loop {
        let ready = {
            let mut fds = vec![PollFd::new(output, PollFlags::IN)];
            if input.is_some() {
                fds.push(PollFd::from_borrowed_fd(keyboard.as_fd(), PollFlags::IN));
            }
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>()
        };
        if ready.first() == Some(&true) {
            let count = read(output, &mut bytes)?;
            if count == 0 {
                return Ok(());
            }
            if !is_quiet {
                write_all(screen.as_fd(), &bytes[..count])?;
            }
        }
        if ready.get(1) == Some(&true) {
            let count = read(keyboard.as_fd(), &mut bytes)?;
            let is_heard = match &input {
                Some(input) if count > 0 => write_all(input.as_fd(), &bytes[..count]).is_ok(),
                Some(_) | None => false,
            };
            if !is_heard {
                // The program reads the end.
                input = None;
            }
        }
    }
}

fn write_all(to: std::os::fd::BorrowedFd<'_>, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
