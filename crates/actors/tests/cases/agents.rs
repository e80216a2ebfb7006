//! The table of agent programs: how they are found, and that its rows are true.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use actors::acp::{AcpAnswer, AcpStop, AcpTask, run};
use actors::agents::{Agent, InstalledAgent, PromptBy, find, named, version};
use actors::program::{ProgramSpec, ProgramStarter, UnsandboxedStarter};
use sync::CancellationToken;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::acp::{Host, task};
use crate::acp_real::{Model, sample, scratch};
use testkit::peers::peer;

const SCRIPT: &str = "crates/actors/tests/scripted_model.py";
const LAST_WORDS: &str = "Everybody is welcomed now.";

fn program(dir: &Path, name: &str, text: &str) -> PathBuf {
    let file = dir.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[test]
fn an_agent_is_found_by_its_program_and_can_be_used_with_a_key_or_a_login() {
    let (bin, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let codex = named("codex").unwrap();
    let path = OsString::from(format!("relative::{}", bin.path().display()));
    let none = |_: &str| None;
    assert_eq!(find(codex, &path, Some(home.path()), &none), None);
    std::fs::write(bin.path().join("codex"), "no program").unwrap();
    assert_eq!(find(codex, &path, Some(home.path()), &none), None);
    let codex_file = program(bin.path(), "codex", "true");
    let found = |acp, credential: Option<&str>| {
        Some(InstalledAgent { program: codex_file.clone(), acp, credential: credential.map(str::to_owned) })
    };
    assert_eq!(find(codex, &path, Some(home.path()), &none), found(None, None));
    let acp = program(bin.path(), "codex-acp", "true");
    std::fs::create_dir(home.path().join(".codex")).unwrap();
    std::fs::write(home.path().join(".codex/auth.json"), "{}").unwrap();
    let login = found(Some(acp.clone()), Some("~/.codex/auth.json"));
    assert_eq!(find(codex, &path, Some(home.path()), &none), login);
    let keyed = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-x".to_owned());
    assert_eq!(find(codex, &path, Some(home.path()), &keyed), found(Some(acp), Some("$OPENAI_API_KEY")));
}

#[tokio::test]
async fn a_program_is_asked_for_its_version() {
    let dir = tempfile::tempdir().unwrap();
    let codex = named("codex").unwrap();
    let said =
        async |text: &str| version(codex, &program(dir.path(), "codex", text), Vec::new(), dir.path()).await;
    assert_eq!(said("echo; echo \"codex-cli 0.1 $*\"; echo more").await.unwrap(), "codex-cli 0.1 --version");
    let error = said("echo broken >&2; exit 1").await.unwrap_err();
    assert!(
        error.starts_with("it printed nothing") && error.ends_with("its error output: broken"),
        "{error}"
    );
}

/// The variables that an agent gets: those of its row, its home, and where its model is.
fn env(agent: &Agent, home: &Path, model: &[(&str, &str)]) -> UnsandboxedStarter {
    let path = std::env::var("PATH").unwrap();
    let plain = [("PATH", path.as_str()), ("HOME", home.to_str().unwrap()), ("TERM", "dumb")];
    let all = plain.iter().chain(agent.env).chain(model);
    let env = all.map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    UnsandboxedStarter { cwd: home.join("project"), env }
}

/// Runs an agent as its row says, and gives what it said.
async fn headless(agent: &Agent, file: &Path, starts: &UnsandboxedStarter) -> String {
    assert_eq!(agent.prompt, PromptBy::Stdin);
    let words = std::iter::once(file.to_str().unwrap()).chain(agent.headless.iter().copied());
    let argv = words.map(str::to_owned).collect();
    let mut pipes = starts.start(&ProgramSpec { argv, env: Vec::new() }).await.unwrap();
    pipes.stdin.write_all(b"Welcome everybody").await.unwrap();
    drop(pipes.stdin);
    let mut said = String::new();
    pipes.stdout.read_to_string(&mut said).await.unwrap();
    let ended = pipes.process.end(std::time::Duration::from_secs(60)).await;
    assert_eq!(ended.status.as_deref(), Some("exit status: 0"), "{ended:?}");
    said
}

fn is_welcoming(home: &Path) -> bool {
    std::fs::read_to_string(home.join("project/lib/greet.sh")).unwrap().contains("Welcome")
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_works_as_its_row_says() {
    let model = Model::start(SCRIPT);
    let home = scratch();
    sample(&home.path().join("project"));
    let claude = named("claude").unwrap();
    let model = [
        ("ANTHROPIC_BASE_URL", model.url.as_str()),
        ("ANTHROPIC_API_KEY", "sk-ant-x"),
        // A test tells nobody that it ran.
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ];
    let starts = env(claude, home.path(), &model);
    let said = headless(claude, &peer("claude", "node_modules/.bin/claude"), &starts).await;
    assert_eq!(said.trim(), LAST_WORDS);
    assert!(is_welcoming(home.path()));
}

/// A home in which a key is what is logged in with: an address of the model would else choose another way.
fn gemini_home(home: &Path) {
    sample(&home.join("project"));
    std::fs::create_dir(home.join(".gemini")).unwrap();
    let settings = r#"{
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false }
    }"#;
    std::fs::write(home.join(".gemini/settings.json"), settings).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_works_as_its_row_says() {
    let model = Model::start(SCRIPT);
    let home = scratch();
    gemini_home(home.path());
    let gemini = named("gemini").unwrap();
    let model = [("GOOGLE_GEMINI_BASE_URL", model.url.as_str()), ("GEMINI_API_KEY", "x")];
    let starts = env(gemini, home.path(), &model);
    let said = headless(gemini, &peer("gemini", "node_modules/.bin/gemini"), &starts).await;
    assert!(said.trim().ends_with(LAST_WORDS), "{said}");
    assert!(is_welcoming(home.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_speaks_acp_as_its_row_says() {
    let model = Model::start(SCRIPT);
    let home = scratch();
    gemini_home(home.path());
    let gemini = named("gemini").unwrap();
    let acp = gemini.acp.unwrap();
    let model = [("GOOGLE_GEMINI_BASE_URL", model.url.as_str()), ("GEMINI_API_KEY", "x")];
    let file = peer("gemini", "node_modules/.bin/gemini");
    let words = std::iter::once(file.to_str().unwrap()).chain(acp.argv[1..].iter().copied());
    let argv = words.map(str::to_owned).collect();
    let pipes = env(gemini, home.path(), &model).start(&ProgramSpec { argv, env: Vec::new() }).await.unwrap();
    let host = Host::default();
    let login = acp.logins.iter().find(|(key, _)| *key == "GEMINI_API_KEY").map(|(_, way)| (*way).to_owned());
    let task = AcpTask { login, offers_files: false, ..task(&home.path().join("project")) };
    let answer = run(pipes, &task, &host, &CancellationToken::new().observe()).await.unwrap();
    assert_eq!(answer, AcpAnswer { text: LAST_WORDS.to_owned(), stop: AcpStop::Done, tool_calls: 1 });
    let asked = host.asked.lock().unwrap();
    assert_eq!(*asked, ["may execute sed -i s/Hello/Welcome/ lib/greet.sh test.sh"]);
    assert!(is_welcoming(home.path()));
}
