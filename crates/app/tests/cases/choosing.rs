//! Who does a task that names nobody, and what its projects say to them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::support::{Answer, Person, answer};

/// Programs that the tests' commands need, and no agent.
const PLAIN_PATH: &str = "/usr/bin:/bin";

/// Runs a task with these variables, and with a folder before PATH.
fn run(person: &Person, words: &[&str], env: &[(&str, &str)]) -> Answer {
    let mut command = person.command(&person.project(), words);
    let bin = person.home().join("bin");
    command.env("PATH", format!("{}:{PLAIN_PATH}", bin.display())).envs(env.iter().copied());
    answer(&mut command)
}

/// Puts an agent program on PATH. It is not run: commands do not see what lies below /tmp.
fn install(person: &Person, name: &str) {
    let bin = person.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join(name), "#!/bin/sh\n").unwrap();
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_agent_program_on_the_path_does_what_names_nobody() {
    let person = Person::new();
    install(&person, "goose");
    install(&person, "codex");
    let said = run(&person, &["plan", "use", "add a flag"], &[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let told = "actor: codex (found codex on PATH; choose another with `--actor` or `agents config set actor.default=NAME`)";
    assert!(said.stderr.contains(told), "{}", said.stderr);
    let said = run(&person, &["plan", "use", "add a flag", "--format", "json"], &[]);
    assert!(
        said.envelope()["messages"][0]["message"].as_str().unwrap().starts_with("actor: codex"),
        "{said:?}"
    );
    person.agents(&["config", "set", "actor.default=goose"]);
    let said = run(&person, &["plan", "use", "add a flag"], &[]);
    assert!(said.exit == 0 && !said.stderr.contains("actor:"), "{said:?}");
    let command = person.json(&["plan", "status"]).data()["command"].as_str().unwrap().to_owned();
    assert!(command.starts_with("goose run"), "{command}");
}

#[test]
fn where_nobody_is_there_what_would_do_is_told_on_one_screen() {
    let person = Person::new();
    let said = run(&person, &["run", "add a --json flag to the list command"], &[]);
    assert_eq!(said.exit, 2, "{said:?}");
    let lines = said.stderr.lines().count();
    assert!(lines <= 24 && said.stderr.lines().all(|line| line.chars().count() <= 120), "{}", said.stderr);
    for words in [
        "error[NO_ACTOR]",
        "ANTHROPIC_API_KEY",
        "agents config set model.default=ollama/",
        "agents config set actor.default=codex",
        "claude, codex, gemini, aider, goose",
    ] {
        assert!(said.stderr.contains(words), "{words}: {}", said.stderr);
    }
    assert_eq!(person.json(&["plan", "list"]).data()["total"], json!(0));
}

#[test]
fn a_key_in_the_environment_brings_its_model_and_its_value_is_told_to_nobody() {
    let person = Person::new();
    install(&person, "codex");
    let said =
        run(&person, &["plan", "use", "add a flag"], &[("ANTHROPIC_API_KEY", "sk-of-mine-1234567890")]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stderr.contains("actor: coder (ANTHROPIC_API_KEY is set, so anthropic/"), "{}", said.stderr);
    assert!(!format!("{said:?}").contains("sk-of-mine"), "{said:?}");
    let data = person.json(&["plan", "status"]).data();
    assert_eq!(
        (&data["phase"], &data["state"]),
        (&json!("strategize"), &json!("queued")),
        "it is thought out first"
    );
}

#[test]
fn what_a_project_says_to_agents_is_frozen_with_the_plan() {
    let person = Person::new();
    person.write("AGENTS.md", "Use tabs.\n");
    person.write(".cleveragents/actors/doer.yaml", "run: cat > told\nstdin: \"{{prompt}}\"\n");
    assert_eq!(person.json(&["plan", "use", "do it", "--actor", "doer"]).exit, 0);
    let database = fs::read(person.home().join("data/agents.db")).unwrap();
    let log = fs::read(person.home().join("data/agents.db-wal")).unwrap_or_default();
    let kept = [database, log].concat();
    let is_kept = |words: &[u8]| kept.windows(words.len()).any(|part| part == words);
    assert!(is_kept(b"\"instructions\":[{\"alias\":\"shop\",\"text\":\"Use tabs.\\n\"}]"));
    person.write("AGENTS.md", &"long ".repeat(10_000));
    let said = person.agents(&["plan", "use", "do it", "--actor", "doer"]);
    assert!(said.stderr.contains("of its 50000 bytes only the first 32768 are read"), "{}", said.stderr);
    let said = person.agents(&["plan", "use", "--", "true"]);
    assert!(!said.stderr.contains("AGENTS.md"), "a command is told nothing: {}", said.stderr);
}
