//! The program, a project and a plan: started, and asked afterwards where everything stands.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use testkit::journal_marks::{ReachedMark, marked};
use testkit::judge::{Kind, TreeJudge, TreeSide};
use testkit::trees::PlantedFile;

/// The file in the project from which the plan's command makes its changes.
const PATCH: &str = "change.patch";

/// The program on a project with one plan.
pub(crate) struct Program {
    dir: TempDir,
    plan: String,
    judge: TreeJudge,
}

impl Program {
    /// Makes the project, and runs a command on it that changes 1000 files in a sandbox.
    pub(crate) fn new(files: usize) -> Program {
        let dir = tempfile::tempdir().unwrap();
        let (mut before, mut after) = testkit::mixed::trees(files);
        let patch = dir.path().join(PATCH);
        testkit::trees::write_patch(dir.path(), &before, &after, &patch);
        for tree in [&mut before, &mut after] {
            tree.insert(PATCH.to_owned(), PlantedFile { bytes: fs::read(&patch).unwrap(), mode: 0o644 });
        }
        let root = dir.path().join("project");
        testkit::trees::plant(&root, &before);
        let judge = TreeJudge::new(&root, before, after);
        let mut program = Program { dir, plan: String::new(), judge };
        let run = program.answer(&["run", "--", "git", "apply", "-p2", PATCH]);
        program.plan = run["data"]["plan_id"].as_str().unwrap().to_owned();
        assert_eq!(run["data"]["state"], "complete", "{run}");
        assert_eq!(program.judge.side(&root), Ok(TreeSide::Before));
        program
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agents"));
        command.arg("--data-dir").arg(self.data()).args(["--format", "json"]).args(words);
        // Nothing of whoever runs this is read or written.
        command.current_dir(self.root()).env("HOME", self.dir.path()).env("XDG_CONFIG_HOME", self.dir.path());
        command.stdin(Stdio::null());
        command
    }

    /// What it says, which has to be good news.
    fn answer(&self, words: &[&str]) -> Value {
        let output = self.command(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{words:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_str(&said).unwrap()
    }

    /// Does it, undisturbed.
    pub(crate) fn must(&self, kind: Kind) {
        self.answer(&["plan", kind.word(), &self.plan, "--yes"]);
    }

    /// Starts it.
    pub(crate) fn start(&self, kind: Kind) -> Child {
        self.start_words(&["plan", kind.word(), &self.plan, "--yes"])
    }

    /// Starts a command that only reads, after it has recovered.
    pub(crate) fn start_reading(&self) -> Child {
        self.start_words(&["plan", "status", &self.plan])
    }

    fn start_words(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    pub(crate) fn has_open_journal(&self) -> bool {
        fs::read_dir(self.data().join("journal")).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// How far the journal came that is open; [`ReachedMark::Nothing`] when none is.
    pub(crate) fn open_journal(&self) -> ReachedMark {
        let Ok(entries) = fs::read_dir(self.data().join("journal")) else { return ReachedMark::Nothing };
        entries.map(|entry| marked(&entry.unwrap().path())).max().unwrap_or(ReachedMark::Nothing)
    }

    /// Asks for the plan, which recovers first, and reads the files: on which side both are.
    ///
    /// # Errors
    /// Files are torn, files and plan disagree, a journal is open, or what was committed did not happen.
    pub(crate) fn stands(&self, kind: Kind, came_to: ReachedMark) -> Result<TreeSide, String> {
        let status = self.answer(&["plan", "status", &self.plan]);
        let found = self.judge.side(&self.root())?;
        let data = &status["data"];
        let is_applied = data["phase"] == "apply" && data["state"] == "applied" && data["undone"] == false;
        let told = if is_applied { TreeSide::After } else { TreeSide::Before };
        if told != found {
            return Err(format!("the plan is {} {}, the files are {found:?}", data["phase"], data["state"]));
        }
        if self.has_open_journal() {
            return Err("a journal is open after its recovery".to_owned());
        }
        if came_to >= ReachedMark::Commit && found == kind.source() {
            return Err("it was committed, and is gone".to_owned());
        }
        Ok(found)
    }
}
