//! Starts a command: tries the backends one after the other, until the program itself has begun.
//!
//! # Invariants
//! 1. A [`RunningCommand`] is only made once the program runs; before that, every way to fail is an error
//!    with its reason.
//! 2. Everything that a failed backend has made is gone before the next one is tried.
//! 3. A lack of descriptors, processes or threads is no reason for a weaker backend.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use domain::RootIndex;
use rustix::pipe::{PipeFlags, pipe_with};

use super::control::{self, ChildOrder, ChildReport, OrderRoot, StartFailure};
use super::missing_program;
use super::missing_program::InvisibleProgram;
use super::{Isolation, IsolationBackend, IsolationUsed, SkippedBackend, holder};
use crate::child::{ChildProgram, ForkedChild};
use crate::command::{
    CommandSpec, Drains, IsolationExceptions, LaunchedCommand, PipedStreams, ResourceLimits, RunningCommand,
    Stdin,
};
use crate::descriptors::{original_soft_limit, with_room};
use crate::forwarder::Forwarder;
use crate::view::SandboxView;

/// The reason that a command did not begin.
#[derive(Debug, thiserror::Error)]
pub enum CommandStartError {
    /// There is no such program.
    #[error("{}", not_found(program, unseen.as_ref()))]
    NotFound {
        /// As it was asked for.
        program: String,
        /// The place of a program that exists but is out of sight of commands.
        unseen: Option<InvisibleProgram>,
    },
    /// The program cannot be run.
    #[error("{program} {}", not_executable(source))]
    NotExecutable {
        /// As it was asked for.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// There was no program in the command.
    #[error("the command is empty")]
    Empty,
    /// The sandbox has no such project.
    #[error("the sandbox has no project {}", no.0)]
    NoSuchRoot {
        /// The number of the project.
        no: RootIndex,
    },
    /// The directory to begin in cannot be entered.
    #[error("the directory to begin in cannot be entered: {why}")]
    Directory {
        /// The reason.
        why: String,
    },
    /// A path that is to be written to is not there.
    #[error("{} is to be writable, but cannot be reached", path.display())]
    Writable {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Nothing on this machine isolates it as policy demands.
    #[error(
        "nothing that isolates commands as `policy.sandbox` demands works here: {}",
        list_reasons(reasons)
    )]
    NoIsolation {
        /// Each backend with the reason why it did not work.
        reasons: Vec<SkippedBackend>,
    },
    /// The files for its output cannot be made.
    #[error("the output cannot be stored in {}", path.display())]
    Output {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A resource that every command needs could not be had: a pipe, a process, a thread.
    #[error("the command cannot be started: {source}")]
    System {
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl From<io::Error> for CommandStartError {
    fn from(source: io::Error) -> Self {
        Self::System { source }
    }
}

fn not_found(program: &str, unseen: Option<&InvisibleProgram>) -> String {
    match unseen {
        Some(InvisibleProgram { path, below }) => {
            format!("{} lies below {}, which commands do not see", path.display(), below.display())
        }
        None => format!("{program} is not there to be run"),
    }
}

fn not_executable(source: &io::Error) -> String {
    if source.kind() == io::ErrorKind::PermissionDenied {
        "is not executable".to_owned()
    } else {
        format!("cannot be run: {source}")
    }
}

fn list_reasons(reasons: &[SkippedBackend]) -> String {
    reasons.iter().map(|passed| format!("{}: {}", passed.rung, passed.why)).collect::<Vec<_>>().join("; ")
}

impl Isolation {
    /// Starts the command with the best backend that works, and returns once the program has begun.
    ///
    /// # Errors
    /// Nothing of it runs then.
    pub fn start(&self, view: SandboxView, spec: CommandSpec) -> Result<RunningCommand, CommandStartError> {
        self.start_once(&view, &spec)
    }

    /// The same; waits when the system has no descriptor, process or thread left for it, until `is_over`.
    ///
    /// # Errors
    /// Nothing of it runs then.
    pub fn start_when_there_is_room(
        &self,
        view: SandboxView,
        spec: CommandSpec,
        is_over: impl Fn() -> bool,
    ) -> Result<RunningCommand, CommandStartError> {
        with_room(is_over, || self.start_once(&view, &spec))
    }

    fn start_once(
        &self,
        view: &SandboxView,
        spec: &CommandSpec,
    ) -> Result<RunningCommand, CommandStartError> {
        let program = spec.argv.first().ok_or(CommandStartError::Empty)?.to_string_lossy().into_owned();
        for path in &spec.writable {
            std::fs::metadata(path)
                .map_err(|source| CommandStartError::Writable { path: path.clone(), source })?;
        }
        let order = order(view, spec)?;
        let output = |source| CommandStartError::Output { path: spec.output.dir.clone(), source };
        let logs = Drains::logs(&spec.output).map_err(output)?;
        // All that can run out is taken before the program begins: it is never begun twice.
        let drains = Drains::ready(logs, spec.output.keep_bytes_max)?;
        let talk = match spec.stdin {
            Stdin::Spoken => Some(pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?),
            Stdin::Null | Stdin::Bytes(_) => None,
        };
        let mut passed_over = Vec::new();
        for rung in &self.rungs {
            let is_namespaced = *rung == IsolationBackend::Namespaces;
            let mut tried =
                ChildOrder { rung: *rung, own_network: spec.network && is_namespaced, ..order.clone() };
            let mut attempt = self::attempt(&self.child, tried.clone(), view, &spec.stdin)?;
            let mut shared = (spec.network && !is_namespaced).then(|| format!("{rung} cannot make one"));
            if let Err(StartFailure::Network(why)) = attempt {
                // A second time without; the ports of this machine are then where they always are.
                tried = ChildOrder { own_network: false, loopback_ports: Vec::new(), ..tried };
                shared = Some(why);
                attempt = self::attempt(&self.child, tried.clone(), view, &spec.stdin)?;
            }
            match attempt {
                Ok(begun) => {
                    let StartedProgram { child, control, reaper, to_stdin, outputs, told, mark, forwarder } =
                        begun;
                    let roots = visible_roots(&order, *rung, view);
                    let ([stdout, stderr], spoken) = match (to_stdin, talk) {
                        (Some(stdin), Some(talk)) => open_pipes(stdin, talk, outputs, roots),
                        (Some(_), None) | (None, _) => (outputs, None),
                    };
                    let drains = drains.read(stdout, stderr)?;
                    let network = spec.network || *rung == IsolationBackend::None;
                    let (hidden, mut notes) = told;
                    notes.extend(shared.as_deref().map(shared_network));
                    let own_network = tried.own_network;
                    let loopback_ports = if forwarder.is_some() { tried.loopback_ports } else { Vec::new() };
                    if loopback_ports.is_empty() && !spec.loopback_ports.is_empty() && !network {
                        notes.push("ports of this machine cannot be opened to a command here".to_owned());
                    }
                    let isolation = IsolationUsed {
                        rung: *rung,
                        network,
                        own_network,
                        shared_network: shared,
                        loopback_ports,
                        hidden,
                        notes,
                        passed_over,
                    };
                    let namespaced = *rung == IsolationBackend::Namespaces;
                    return Ok(RunningCommand::new(LaunchedCommand {
                        child,
                        control,
                        reaper,
                        namespaced,
                        mark,
                        drains,
                        isolation,
                        spoken,
                        forwarder,
                    }));
                }
                Err(StartFailure::Rung(why) | StartFailure::Network(why)) => {
                    passed_over.push(SkippedBackend { rung: *rung, why })
                }
                Err(StartFailure::NotFound) => {
                    let unseen = missing_program::program(&ChildOrder { rung: *rung, ..order });
                    return Err(CommandStartError::NotFound { program, unseen });
                }
                Err(StartFailure::NotExecutable(errno)) => {
                    return Err(CommandStartError::NotExecutable {
                        program,
                        source: io::Error::from_raw_os_error(errno),
                    });
                }
                Err(StartFailure::Directory(why)) => return Err(CommandStartError::Directory { why }),
                Err(StartFailure::Exhausted(errno)) => {
                    return Err(CommandStartError::System { source: io::Error::from_raw_os_error(errno) });
                }
            }
        }
        Err(CommandStartError::NoIsolation { reasons: passed_over })
    }
}

/// Returns the note for a command that cannot have a network of its own.
fn shared_network(why: &str) -> String {
    format!("the command has the network of this machine itself, with every service on it: {why}")
}

/// Returns where the program sees each project: at its own path, or, if nothing can be mounted, at the path
/// of the copy.
fn visible_roots(
    order: &ChildOrder,
    rung: IsolationBackend,
    view: &SandboxView,
) -> Vec<(RootIndex, PathBuf)> {
    let at = |root: &OrderRoot| match rung {
        IsolationBackend::Namespaces | IsolationBackend::Bubblewrap => root.path.clone(),
        IsolationBackend::Landlock | IsolationBackend::None => root.source().clone(),
    };
    view.roots.iter().zip(&order.roots).map(|(root, ordered)| (root.no, at(ordered))).collect()
}

/// Returns the ends of a program with open pipes, and the streams that are drained: its log and its
/// errors.
fn open_pipes(
    stdin: OwnedFd,
    (kept, log): (OwnedFd, OwnedFd),
    [stdout, stderr]: [OwnedFd; 2],
    roots: Vec<(RootIndex, PathBuf)>,
) -> ([OwnedFd; 2], Option<PipedStreams>) {
    ([kept, stderr], Some(PipedStreams { stdin, stdout, log, roots }))
}

/// Tries a backend with no project and no program.
pub(super) fn probe(child: &ChildProgram, rung: IsolationBackend) -> Result<(), String> {
    let view = SandboxView { user_namespace: None, mount_namespace: None, roots: Vec::new() };
    let order = ChildOrder {
        rung,
        argv: Vec::new(),
        env: std::env::vars_os().filter(|(name, _)| name == "PATH").collect(),
        cwd: None,
        roots: Vec::new(),
        timeout_ms: None,
        grace_ms: 0,
        network: false,
        own_network: false,
        loopback_ports: Vec::new(),
        openings: IsolationExceptions::default(),
        bounds: ResourceLimits::default(),
        writable: Vec::new(),
        hide: Vec::new(),
        home: None,
        show: Vec::new(),
        scratch: Vec::new(),
        tmp: None,
        user_namespace: false,
        mount_namespace: false,
        open_files: None,
    };
    let begun = match attempt(child, order, &view, &Stdin::Null) {
        Ok(Ok(begun)) => begun,
        Ok(Err(StartFailure::Rung(why) | StartFailure::Network(why) | StartFailure::Directory(why))) => {
            return Err(why);
        }
        Ok(Err(StartFailure::NotFound | StartFailure::NotExecutable(_))) => {
            return Err("nothing could be run".to_owned());
        }
        Ok(Err(StartFailure::Exhausted(errno))) => {
            return Err(io::Error::from_raw_os_error(errno).to_string());
        }
        Err(error) => return Err(error.to_string()),
    };
    drop(begun.control);
    begun.child.wait().map_err(|error| error.to_string())
}

fn order(view: &SandboxView, spec: &CommandSpec) -> Result<ChildOrder, CommandStartError> {
    let no = spec.cwd.root;
    let index =
        view.roots.iter().position(|root| root.no == no).ok_or(CommandStartError::NoSuchRoot { no })?;
    let roots = view.roots.iter().map(|root| -> io::Result<OrderRoot> {
        Ok(OrderRoot {
            path: root.path.clone(),
            copy: root.copy.clone(),
            borrowed: root.borrowed()?,
            writable: spec.writes && !root.read_only,
        })
    });
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Ok(ChildOrder {
        rung: IsolationBackend::Namespaces,
        argv: spec.argv.clone(),
        env: spec.env.clone(),
        cwd: Some((index, spec.cwd.below.as_ref().map(|below| below.as_bytes().to_vec()))),
        roots: roots.collect::<io::Result<_>>()?,
        timeout_ms: spec.timeout.map(ms),
        grace_ms: ms(spec.kill_grace),
        network: spec.network,
        own_network: false,
        loopback_ports: spec.loopback_ports.clone(),
        openings: spec.openings,
        bounds: spec.bounds,
        writable: spec.writable.clone(),
        hide: present(view, spec.home.as_deref(), &spec.hide),
        home: spec.home.clone(),
        show: present(view, spec.home.as_deref(), &spec.show),
        scratch: spec.scratch.clone(),
        tmp: None,
        user_namespace: view.user_namespace.is_some(),
        mount_namespace: view.mount_namespace.is_some(),
        open_files: original_soft_limit(),
    })
}

/// Returns the paths that exist, each once. Most of the paths that are named by default do not, and each of
/// those would cost the child several lookups. A path in a project is for the child to find, which sees the
/// sandbox.
fn present(view: &SandboxView, home: Option<&Path>, paths: &[PathBuf]) -> Vec<PathBuf> {
    let names_of = |dir: &Path| -> Option<HashSet<OsString>> {
        Some(fs::read_dir(dir).ok()?.flatten().map(|entry| entry.file_name()).collect())
    };
    let home = home.and_then(|home| Some((home, names_of(home)?)));
    // One listing of the home shows most of them.
    let is_missing_in_home = |path: &Path| {
        let Some((home, names)) = &home else { return false };
        let first = path.strip_prefix(home).ok().and_then(|below| below.components().next());
        first.is_some_and(|name| matches!(name, Component::Normal(_)) && !names.contains(name.as_os_str()))
    };
    let is_in_project = |path: &Path| view.roots.iter().any(|root| path.starts_with(&root.path));
    let is_present =
        |path: &Path| is_in_project(path) || (!is_missing_in_home(path) && path.symlink_metadata().is_ok());
    let mut seen = HashSet::new();
    paths.iter().filter(|path| seen.insert(*path) && is_present(path)).cloned().collect()
}

/// A program that runs.
struct StartedProgram {
    child: ForkedChild,
    control: OwnedFd,
    reaper: OwnedFd,
    /// Of one that is spoken to.
    to_stdin: Option<OwnedFd>,
    outputs: [OwnedFd; 2],
    told: (Vec<String>, Vec<String>),
    mark: std::ffi::OsString,
    forwarder: Option<Forwarder>,
}

/// Tries one backend. The outer error is one that no other backend would avoid.
fn attempt(
    program: &ChildProgram,
    mut order: ChildOrder,
    view: &SandboxView,
    stdin: &Stdin,
) -> Result<Result<StartedProgram, StartFailure>, CommandStartError> {
    if matches!(order.rung, IsolationBackend::Landlock | IsolationBackend::None) {
        order.tmp = Some(private_directory()?);
    }
    let tmp = order.tmp.clone();
    let result = launch(program, &order, view, stdin);
    if let (Some(tmp), Ok(Err(_)) | Err(_)) = (tmp, &result) {
        let _ = std::fs::remove_dir_all(tmp);
    }
    result
}

fn launch(
    program: &ChildProgram,
    order: &ChildOrder,
    view: &SandboxView,
    stdin: &Stdin,
) -> Result<Result<StartedProgram, StartFailure>, CommandStartError> {
    let (input, to_stdin) = match stdin {
        Stdin::Null => (std::fs::File::open("/dev/null")?.into(), None),
        Stdin::Bytes(bytes) => (control::file_of("stdin", bytes)?, None),
        Stdin::Spoken => {
            let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
            (theirs, Some(ours))
        }
    };
    let (stdout, to_stdout) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
    let (stderr, to_stderr) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
    let (child, control) = program.start_child(&holder::marks(&order.env))?;
    let namespaces = [&view.user_namespace, &view.mount_namespace].map(|fd| fd.as_ref().map(AsFd::as_fd));
    let trees: Vec<BorrowedFd<'_>> = view.roots.iter().map(|root| root.tree.as_fd()).collect();
    let sent =
        order.send(&control, [input.as_fd(), to_stdout.as_fd(), to_stderr.as_fd()], namespaces, &trees);
    drop((input, to_stdout, to_stderr));
    let told = match sent {
        Ok(()) => first_reports(&control, program, &order.env),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Err(missing_report())),
        Err(error) => Err(error),
    };
    match told {
        Ok(Ok((reaper, told, forwarder))) => {
            let mark = order.tmp.clone().map(PathBuf::into_os_string).unwrap_or_default();
            Ok(Ok(StartedProgram {
                child,
                control,
                reaper,
                to_stdin,
                outputs: [stdout, stderr],
                told,
                mark,
                forwarder,
            }))
        }
        Ok(Err(failure)) => {
            drop(control);
            child.wait()?;
            Ok(Err(failure))
        }
        Err(error) => {
            drop(control);
            child.wait()?;
            Err(error.into())
        }
    }
}

type HiddenAndNotes = (Vec<String>, Vec<String>);

/// The parts of a running program: the process that holds its tree, its hidden paths and notes, its network.
type FirstReports = (OwnedFd, HiddenAndNotes, Option<Forwarder>);

fn missing_report() -> StartFailure {
    StartFailure::Rung("the child ended without a word".to_owned())
}

/// Waits until the program runs, or it is said why not.
fn first_reports(
    control: &OwnedFd,
    program: &ChildProgram,
    env: &[(OsString, OsString)],
) -> io::Result<Result<FirstReports, StartFailure>> {
    let (mut reaper, mut forwarder) = (None, None);
    loop {
        let Some((report, mut carried)) = control::next_report(control)? else {
            return Ok(Err(missing_report()));
        };
        match report {
            ChildReport::Reaper => reaper = carried.pop(),
            ChildReport::Network(inside) => {
                let carried: Vec<BorrowedFd<'_>> = carried.iter().map(AsFd::as_fd).collect();
                // A lack of processes is no reason for less isolation.
                forwarder = Some(Forwarder::start(program, &crate::command::marks(env), &inside, &carried)?);
            }
            ChildReport::Started { hidden, notes } => {
                let reaper = reaper.ok_or_else(|| io::Error::other("no process holds the tree"))?;
                return Ok(Ok((reaper, (hidden, notes), forwarder)));
            }
            ChildReport::Failed(failure) => return Ok(Err(failure)),
            ChildReport::Ended { .. } => return Err(io::Error::other("it ended before it began")),
        }
    }
}

/// A new directory that only this user can enter. The process that holds the tree removes it.
fn private_directory() -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("agents-{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}
