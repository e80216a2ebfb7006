//! Finds the installed agent programs, and whether each can be used.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::table::{Agent, TestedWays};
use crate::program::{ProgramSpec, ProgramStarter, UnsandboxedStarter};

/// The time that a program may take to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// The limit of its output that is read then.
const VERSION_BYTES_MAX: u64 = 4 << 10;
const VERSION_CHARS_MAX: usize = 100;

/// An agent program that is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledAgent {
    /// The path of the program.
    pub program: PathBuf,
    /// The path of the program that speaks the Agent Client Protocol for it, if it is installed too.
    pub acp: Option<PathBuf>,
    /// The evidence that it can reach its model: a variable that is set, or a file of a user who logged in.
    pub credential: Option<String>,
}

/// Looks for an agent on a path like `$PATH`. Nothing is run.
pub fn find(
    agent: &Agent,
    path: &OsStr,
    home: Option<&Path>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<InstalledAgent> {
    let program = on_path(agent.program, path)?;
    let acp = agent.acp.and_then(|acp| on_path(acp.argv.first()?, path));
    let is_set = |name: &&&str| variable(name).is_some_and(|value| !value.trim().is_empty());
    let key = agent.keys.iter().find(is_set).map(|name| format!("${name}"));
    let login = agent.logins.iter().find(|file| home.is_some_and(|home| home.join(file).is_file()));
    let credential = key.or_else(|| login.map(|file| format!("~/{file}")));
    Some(InstalledAgent { program, acp, credential })
}

/// Returns true if an agent that was seen to work over the Agent Client Protocol can be used here. Its
/// program must be on the path, and be able to log in without a user. Nothing is run.
pub fn speaks(agent: &Agent, path: &OsStr, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.trim().is_empty());
    match (agent.acp, agent.tried_acp) {
        (Some(acp), TestedWays::Worked { .. }) => {
            let program = acp.argv.first().and_then(|program| on_path(program, path));
            program.is_some() && (acp.logins.is_empty() || acp.logins.iter().any(|(key, _)| is_set(key)))
        }
        (Some(_), TestedWays::No) | (None, _) => false,
    }
}

fn on_path(program: &str, path: &OsStr) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    // An empty entry would be the working directory: a project must not bring programs.
    let dirs = std::env::split_paths(path).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(program)).find(is_program)
}

/// Returns the first line that a program prints when it is asked for its version.
///
/// # Errors
/// Returns an error if the program cannot be started, prints nothing, or does not end in time.
pub async fn version(
    agent: &Agent,
    program: &Path,
    env: Vec<(String, String)>,
    cwd: &Path,
) -> Result<String, String> {
    let words = std::iter::once(program.to_string_lossy().into_owned());
    let argv = words.chain(agent.version.iter().map(|&word| word.to_owned())).collect();
    let starts = UnsandboxedStarter { cwd: cwd.to_owned(), env };
    let pipes = starts.start(&ProgramSpec { argv, env: Vec::new() }).await?;
    drop(pipes.stdin);
    let mut said = Vec::new();
    let mut stdout = pipes.stdout.take(VERSION_BYTES_MAX);
    let read = tokio::time::timeout(VERSION_LIMIT, stdout.read_to_end(&mut said)).await;
    let ended = pipes.process.end(Duration::ZERO).await;
    match read {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err(format!("it did not report its version within {} s", VERSION_LIMIT.as_secs())),
    }
    let said = String::from_utf8_lossy(&said);
    let first = said.lines().map(str::trim).find(|line| !line.is_empty());
    let first = first.ok_or_else(|| format!("it printed nothing{}", ended.describe()))?;
    Ok(first.chars().filter(|letter| !letter.is_control()).take(VERSION_CHARS_MAX).collect())
}
