//! What the cases about commands share: a project, its sandbox as a copy, and ways to run something there.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use domain::RootIndex;
use sandbox::child::ChildProgram;
use sandbox::command::{
    CommandExit, CommandSpec, EnvSpec, ExitKind, OutputSpec, RunningCommand, WorkDir, environment,
};
use sandbox::fs::beneath::open_root;
use sandbox::isolation::{CommandStartError, Isolation, IsolationBackend, IsolationPolicy};
use sandbox::view::{SandboxView, ViewRoot};

use super::ordinary_user::{reachable_dir, run_as_ordinary_user};

/// A project and its sandbox.
pub(crate) struct CommandFixture {
    dir: PathBuf,
    /// Removed with the stage that made it.
    _made: Option<tempfile::TempDir>,
}

impl CommandFixture {
    pub(crate) fn new() -> CommandFixture {
        // Wherever the tests' own temporary files are: commands have a `/tmp` of their own.
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        for name in ["project", "copy", "log", "outside"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("project/file"), "the user's\n").unwrap();
        std::fs::write(dir.path().join("copy/file"), "the sandbox's\n").unwrap();
        CommandFixture { dir: dir.path().to_owned(), _made: Some(dir) }
    }

    /// One that somebody else has made.
    pub(crate) fn at(dir: impl Into<PathBuf>) -> CommandFixture {
        CommandFixture { dir: dir.into(), _made: None }
    }

    /// A path that the test and the machine know.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn view(&self) -> SandboxView {
        let copy = self.path("copy");
        let tree = open_root(&copy).unwrap();
        let root = ViewRoot {
            no: RootIndex(0),
            path: self.path("project"),
            tree,
            copy: Some(copy),
            read_only: false,
        };
        SandboxView { user_namespace: None, mount_namespace: None, roots: vec![root] }
    }

    /// A command that only names its program and arguments.
    pub(crate) fn command<const N: usize>(&self, argv: [&str; N]) -> CommandSpec {
        let cwd = WorkDir { root: RootIndex(0), below: None };
        let given = EnvSpec { plan: "plan".into(), job: "job".into(), ..EnvSpec::default() };
        CommandSpec {
            env: environment(std::env::vars_os(), &given),
            ..CommandSpec::new(argv, cwd, OutputSpec::in_dir(self.path("log")))
        }
    }

    pub(crate) fn shell(&self, script: &str) -> CommandSpec {
        self.command(["sh", "-c", script])
    }

    pub(crate) fn start(
        &self,
        rung: IsolationBackend,
        spec: CommandSpec,
    ) -> Result<RunningCommand, CommandStartError> {
        Isolation::only(rung, child()).start(self.view(), spec)
    }

    pub(crate) fn run(&self, rung: IsolationBackend, spec: CommandSpec) -> CommandExit {
        self.start(rung, spec).unwrap().wait()
    }

    /// Runs a script on the best rung and gives what it printed.
    pub(crate) fn prints(&self, spec: CommandSpec) -> String {
        let ended = self.run(IsolationBackend::Namespaces, spec);
        assert_eq!(ended.how, ExitKind::Exited(0), "{}", text(&ended.stderr));
        text(&ended.stdout)
    }

    /// A pipe in the project that tells whether anything still holds it.
    pub(crate) fn alive(&self) -> PipeWriters {
        let path = self.path("copy/alive");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
        PipeWriters { file }
    }
}

/// The reading end of a pipe whose writers are counted by the kernel.
pub(crate) struct PipeWriters {
    file: File,
}

impl PipeWriters {
    /// Whether some process has the pipe open.
    pub(crate) fn is_held(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.file.read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits until somebody has written, acts, then waits until nobody holds it any more. Should `starter`
    /// end before anybody has written, nobody will.
    pub(crate) fn wait_for_a_writer_and_its_death(&mut self, starter: Option<&OwnedFd>, act: impl FnOnce()) {
        let flags = rustix::fs::fcntl_getfl(&self.file).unwrap();
        rustix::fs::fcntl_setfl(&self.file, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
        self.wait_for_a_word(starter);
        act();
        let mut rest = Vec::new();
        self.file.read_to_end(&mut rest).unwrap();
    }

    /// Waits until somebody has written.
    pub(crate) fn wait_for_a_writer(&mut self) {
        self.wait_for_a_word(None);
    }

    fn wait_for_a_word(&mut self, starter: Option<&OwnedFd>) {
        use rustix::event::{PollFd, PollFlags};
        // A pipe that nobody has opened yet reads as ended: poll tells when something is there.
        let mut fds = vec![PollFd::new(&self.file, PollFlags::IN)];
        fds.extend(starter.map(|starter| PollFd::new(starter, PollFlags::IN)));
        rustix::event::poll(&mut fds, None).unwrap();
        assert!(!fds[0].revents().is_empty(), "whoever was to start it has ended");
        let mut byte = [0];
        self.file.read_exact(&mut byte).unwrap();
    }
}

pub(crate) fn child() -> ChildProgram {
    super::ordinary_user::child_program()
}

pub(crate) fn text(output: &sandbox::command::Output) -> String {
    String::from_utf8(output.bytes()).unwrap()
}

/// Every rung on which a command can be run here. Where bubblewrap is not installed, that is all that its
/// rung says.
pub(crate) fn rungs() -> Vec<IsolationBackend> {
    let probed = Isolation::new(IsolationPolicy::Required, child()).probe();
    let mut rungs = Vec::new();
    for (rung, works) in probed {
        match works {
            Ok(()) => rungs.push(rung),
            Err(why) => {
                assert_eq!((rung, why.as_str()), (IsolationBackend::Bubblewrap, "bwrap is not there"))
            }
        }
    }
    rungs.push(IsolationBackend::None);
    rungs
}

/// Runs the body, and if this is root, also the whole test again as an ordinary user.
pub(crate) fn as_root_and_ordinary(test: &str, body: impl FnOnce()) {
    body();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    run_as_ordinary_user(test, &reachable_dir());
}

/// This program, to run one test again.
pub(crate) fn this_test(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command
}

pub(crate) fn pair(name: &str, value: impl Into<OsString>) -> (OsString, OsString) {
    (name.into(), value.into())
}

pub(crate) fn shown(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
