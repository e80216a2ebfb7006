//! Real agent programs over the Agent Client Protocol, whose model is scripted: an example of this
//! repository.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use actors::acp::{AcpAnswer, AcpStop, run};
use actors::program::{ProgramSpec, ProgramStarter};
use sync::CancellationToken;

use crate::acp::{Host, task};
use crate::mcp::starts;
use testkit::peers::peer;

/// A scripted model; it ends with this.
pub(crate) struct Model {
    process: Child,
    pub(crate) url: String,
}

impl Model {
    /// The one of the examples, or another in this repository.
    pub(crate) fn start(script: &str) -> Model {
        let script = root().join(script);
        let mut command = Command::new("python3");
        command.arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("python3 starts");
        let mut lines = std::io::BufReader::new(process.stdout.take().unwrap()).lines();
        let url = lines.next().expect("it says where it listens").unwrap();
        Model { process, url }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The sample project, to be changed.
pub(crate) fn sample(to: &Path) {
    for file in ["README.md", "greet.sh", "lib/greet.sh", "names.txt", "rename.sh", "test.sh"] {
        let place = to.join(file);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::copy(root().join("examples/sample").join(file), place).unwrap();
    }
}

/// Below the target directory: Codex does not like a home among temporary files.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Codex, whose model proposes an edit, in a project; it asks before each change.
async fn codex(project: &Path, home: &Path, host: &Host) -> AcpAnswer {
    let model = Model::start("examples/scripted-model/server.py");
    std::fs::create_dir(home).unwrap();
    let config = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\n\
         base_url = \"{}\"\nwire_api = \"responses\"\n[analytics]\nenabled = false\n",
        model.url
    );
    std::fs::write(home.join("config.toml"), config).unwrap();
    let agent = peer("codex-acp", "node_modules/.bin/codex-acp");
    let words = ["-c", "sandbox_mode=\"danger-full-access\"", "-c", "approval_policy=\"untrusted\""];
    let argv = std::iter::once(agent.to_str().unwrap()).chain(words).map(str::to_owned).collect();
    let variable = |name: &str| (name.to_owned(), home.to_str().unwrap().to_owned());
    let program = ProgramSpec { argv, env: vec![variable("CODEX_HOME"), variable("HOME")] };
    let pipes = starts(project).start(&program).await.unwrap();
    run(pipes, &task(project), host, &CancellationToken::new().observe()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_changes_what_its_model_proposes_and_answers() {
    let dir = scratch();
    let project = dir.path().join("project");
    sample(&project);
    let host = Host::default();
    let answer = codex(&project, &dir.path().join("home"), &host).await;
    let text = "Everybody is welcomed now, and the test expects it.".to_owned();
    assert_eq!(answer, AcpAnswer { text, stop: AcpStop::Done, tool_calls: 1 });
    let changed = std::fs::read_to_string(project.join("lib/greet.sh")).unwrap();
    assert!(changed.contains("Welcome, %s!"), "{changed}");
    let asked = host.asked.lock().unwrap();
    assert!(asked[0].starts_with("may edit Edit "), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_changes_nothing_that_is_not_permitted() {
    let dir = scratch();
    let project = dir.path().join("project");
    sample(&project);
    let host = Host { forbids: true, ..Host::default() };
    codex(&project, &dir.path().join("home"), &host).await;
    assert!(!host.asked.lock().unwrap().is_empty());
    let file = std::fs::read_to_string(project.join("lib/greet.sh")).unwrap();
    assert!(file.contains("Hello, %s!"), "{file}");
}
