//! The programs of git's filters (`filter.NAME.clean`), run as a plan's command is: apart from the rest of
//! the machine.
//!
//! A repository's configuration names them, and they get contents that a plan made. So they see the
//! repository read-only, have no network, and are given no variables of ours.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{Plan, RelPath, RootIndex};
use sandbox::command::{CommandSpec, EnvSpec, ExitKind, OutputSpec, Stdin, WorkDir, environment};
use sandbox::git::refs::{CleanFilter, FilterProgram};
use sandbox::isolation::{Isolation, IsolationPolicy};
use sandbox::view::{SandboxView, ViewRoot};

use crate::engine::EngineInner;
use crate::plan::create::path_of;
use crate::run::call::home;

/// The time that the program of a filter may take for one file.
const TIME_MAX: Duration = Duration::from_secs(60);

/// The largest content that it can make.
const CONTENT_BYTES_MAX: usize = 1 << 30;

/// The maximum number of characters of its error output that are shown.
const COMPLAINT_CHARS_MAX: usize = 300;

/// Runs the programs of filters for one plan.
pub(crate) struct IsolatedFilter<'a> {
    pub(crate) engine: &'a EngineInner,
    pub(crate) plan: &'a Plan,
    /// The directory of their output; removed by its owner.
    pub(crate) logs: PathBuf,
}

impl CleanFilter for IsolatedFilter<'_> {
    fn clean(
        &self,
        filter: &FilterProgram,
        top: &Path,
        path: &RelPath,
        content: &[u8],
    ) -> Result<Vec<u8>, String> {
        let Some(line) = filter.clean_line(path) else {
            let why =
                "it has only a program that speaks git's own protocol, which is not run in a sandbox: set";
            return Err(format!(
                "{why} filter.{}.clean, or apply without --commit and --branch",
                filter.name
            ));
        };
        let words = |error: &dyn std::error::Error| error.to_string();
        let tree = sandbox::fs::beneath::open_root(top).map_err(|error| words(&error))?;
        let root = ViewRoot { no: RootIndex(0), path: top.to_owned(), tree, copy: None, read_only: true };
        let view = SandboxView { user_namespace: None, mount_namespace: None, roots: vec![root] };
        let running = Isolation::new(IsolationPolicy::Required, self.engine.options.child.clone())
            .start(view, self.command(line, content))
            .map_err(|error| words(&error))?;
        let ended = running.wait();
        if ended.how != ExitKind::Exited(0) {
            let said = ended.stderr.bounded(COMPLAINT_CHARS_MAX, 0);
            let first = said.lines().next().unwrap_or_default();
            let how = match ended.how {
                ExitKind::Exited(status) => format!("its program ended with status {status}"),
                ExitKind::Signalled(signal) => format!("its program was killed by signal {signal}"),
                ExitKind::TimedOut | ExitKind::Killed => "its program took too long".to_owned(),
            };
            let hint = "set it in a way that needs no network and writes nothing, or apply without --commit and --branch";
            return Err(format!("{how} in the sandbox ({first}): {hint}"));
        }
        match ended.stdout.is_whole() {
            true => Ok(ended.stdout.bytes()),
            false => Err("it printed too much".to_owned()),
        }
    }
}

impl IsolatedFilter<'_> {
    fn command(&self, line: Vec<u8>, content: &[u8]) -> CommandSpec {
        let argv = [OsString::from("sh"), OsString::from("-c"), OsString::from_vec(line)];
        let cwd = WorkDir { root: RootIndex(0), below: None };
        let output = OutputSpec { keep_bytes_max: CONTENT_BYTES_MAX, ..OutputSpec::in_dir(&self.logs) };
        let plan = OsString::from(self.plan.id.to_string());
        let given = EnvSpec { plan: plan.clone(), job: plan, ..EnvSpec::default() };
        let mut spec = CommandSpec::new(argv, cwd, output);
        spec.env = environment(std::env::vars_os(), &given);
        spec.stdin = Stdin::Bytes(content.to_vec());
        spec.timeout = Some(TIME_MAX);
        spec.writes = false;
        spec.hide = self.plan.spec.hidden_paths().iter().map(path_of).collect();
        spec.hide.extend(self.engine.contexts.hidden().paths().map(Path::to_owned));
        home::show(self.plan, &mut spec);
        spec
    }
}
