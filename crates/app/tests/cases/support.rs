//! A person with a home of their own, who types commands.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// What a command answered.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandOutput {
    pub exit: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    /// What a command that has ended said.
    pub fn of(output: &Output) -> CommandOutput {
        CommandOutput {
            exit: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The envelope on the output: its only line, or the last.
    pub fn envelope(&self) -> Value {
        let last = self.stdout.lines().next_back().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The answer in the envelope.
    pub fn data(&self) -> Value {
        self.envelope()["data"].clone()
    }

    /// The code of the failure in the envelope.
    pub fn code(&self) -> String {
        let envelope = self.envelope();
        let messages = envelope["messages"].as_array().unwrap();
        messages.last().unwrap()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// A person, their home and their project.
pub struct TestUser {
    home: TempDir,
}

impl TestUser {
    /// A person with an empty project that is a git repository.
    pub fn new() -> TestUser {
        TestUser::with_home(TempDir::new().unwrap())
    }

    /// The same, whose home is not below a directory that commands do not see anyway.
    pub fn new_outside_tmp() -> TestUser {
        TestUser::with_home(tempfile::tempdir_in("/var/tmp").unwrap())
    }

    fn with_home(home: TempDir) -> TestUser {
        let person = TestUser { home };
        fs::create_dir_all(person.project()).unwrap();
        person.git(&["init", "-q", "-b", "main"]);
        person
    }

    /// Writes a file below the home, executable by its owner.
    pub fn write_home(&self, path: &str, content: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// What the only call of the newest plan printed.
    pub fn printed(&self) -> String {
        let calls = self.json(&["plan", "logs", "@last"]).data()["calls"].clone();
        format!("{}{}", calls[0]["stdout"].as_str().unwrap(), calls[0]["stderr"].as_str().unwrap())
    }

    pub fn home(&self) -> PathBuf {
        fs::canonicalize(self.home.path()).unwrap()
    }

    pub fn project(&self) -> PathBuf {
        self.home().join("shop")
    }

    pub fn config_file(&self) -> PathBuf {
        self.home().join(".config/cleveragents/config.toml")
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project().join(path)).unwrap()
    }

    pub fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        // Maintenance that git starts in the background would outlive the call, and read what a test replaces.
        git.args(["-c", "maintenance.auto=false"]).args(args).current_dir(self.project());
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CEILING_DIRECTORIES", self.home());
        for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
            git.env(name, "someone@example.com");
        }
        let output = git.output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The program, called in `dir` with nothing of the tester's own environment.
    pub fn command<S: AsRef<OsStr>>(&self, dir: &Path, args: &[S]) -> Command {
        // Whoever runs the tests in the background may have switched signals off, and that is inherited.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,TERM,HUP").arg(env!("CARGO_BIN_EXE_agents"));
        command.args(args).current_dir(dir).env_clear().stdin(Stdio::null());
        command.env("HOME", self.home()).env("PATH", std::env::var_os("PATH").unwrap());
        // Tests on one machine must not wait for each other's data.
        command.env("CLEVERAGENTS_DATA_DIR", self.home().join("data"));
        // The person wrote the project; `trust` has tests of what came with a clone.
        command.env("CLEVERAGENTS_POLICY_TRUST", "all");
        // A pager of the machine writes sequences of its own; `pager` has the tests of it.
        command.env("AGENTS_PAGER", "cat");
        command
    }

    /// Calls the program in the project.
    pub fn agents<S: AsRef<OsStr>>(&self, args: &[S]) -> CommandOutput {
        answer(&mut self.command(&self.project(), args))
    }

    /// The same, with the answer as an envelope.
    pub fn json(&self, args: &[&str]) -> CommandOutput {
        let place = args.iter().position(|word| *word == "--").unwrap_or(args.len());
        let mut words = args.to_vec();
        words.splice(place..place, ["--format", "json"]);
        self.agents(&words)
    }

    /// Runs a shell script as a plan and answers with its id.
    pub fn plan(&self, script: &str) -> String {
        let answer = self.json(&["run", "--", "sh", "-ec", script]);
        assert_eq!(answer.exit, 0, "{answer:?}");
        answer.data()["plan_id"].as_str().unwrap().to_owned()
    }
}

/// Returns whether root runs the tests. A test that gives files to other users needs it.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The program, called in the project by a user who is not root, to whom all of the person's is given.
pub fn ordinary_command(person: &TestUser, args: &[&str]) -> Command {
    if !is_root() {
        return person.command(&person.project(), args);
    }
    // The program may lie where only root can look.
    let program = person.home().join("agents");
    if !program.exists() {
        // By another process: a program that we had open for writing could be busy in a child that is just forked.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_agents")).arg(&program).status();
        assert!(copied.unwrap().success());
    }
    let home = person.home().display().to_string();
    assert!(Command::new("chown").args(["-R", "65534:65534", &home]).status().unwrap().success());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(args);
    let as_root = person.command(&person.project(), args);
    command.current_dir(person.project()).env_clear().stdin(Stdio::null());
    command.envs(as_root.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Runs a command to its end.
pub fn answer(command: &mut Command) -> CommandOutput {
    CommandOutput::of(&command.output().unwrap())
}

/// What still runs of the person's plans.
pub fn alive(person: &TestUser) -> usize {
    let home = person.home().display().to_string();
    let environs = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("environ"));
    let texts =
        environs.map(|path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned());
    texts.filter(|text| text.contains("AGENTS_JOB=") && text.contains(&home)).count()
}
