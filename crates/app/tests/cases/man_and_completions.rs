//! Completions and the manual.

use std::ffi::OsStr;

use super::support::{CommandOutput, TestUser, answer};

#[test]
fn every_shell_gets_its_completions() {
    let person = TestUser::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = person.agents(&["completions", shell]);
        assert_eq!(said.exit, 0);
        assert!(said.stdout.contains("COMPLETE") && said.stdout.contains("agents"), "{shell}: {said:?}");
    }
    assert_eq!(person.agents(&["completions", "tcsh"]).exit, 2);
}

/// The candidates for the last of these words, as a shell asks for them.
fn candidates(person: &TestUser, shell: &str, words: &[&str]) -> CommandOutput {
    let line: Vec<&OsStr> = ["--", "agents"].iter().chain(words).map(OsStr::new).collect();
    let mut command = person.command(&person.project(), &line);
    command.env("COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "true").env("_CLAP_IFS", "\n");
    let said = answer(&mut command);
    assert_eq!((said.exit, said.stderr.as_str()), (0, ""), "{words:?}: {said:?}");
    said
}

#[test]
fn a_shell_is_offered_the_plans_settings_actors_and_tools_that_exist() {
    let person = TestUser::new();
    let offered = |shell: &str, words: &[&str]| candidates(&person, shell, words).stdout;
    assert_eq!(offered("bash", &["diff", ""]).lines().next(), Some("@last"), "there are no plans yet");
    assert!(!person.home().join("data").exists(), "an answer makes nothing");
    let plan = person.plan("echo 1 > a.txt");
    let id = person.json(&["status"]).data()["short_id"].as_str().unwrap().to_owned();
    assert!(plan.to_lowercase().ends_with(&id));
    for line in
        [&["diff", ""][..], &["plan", "apply", ""], &["plan", "undo", ""], &["job", "list", "--plan", ""]]
    {
        let said = offered("bash", line);
        assert!(said.lines().any(|one| one.trim() == id) && said.contains("@last"), "{line:?}: {said}");
    }
    for shell in ["zsh", "fish"] {
        let said = offered(shell, &["plan", "diff", ""]);
        let line = said.lines().find(|line| line.starts_with(&id)).unwrap_or_default();
        assert!(line.contains("sh -ec") && line.contains("ready"), "{shell}: {said}");
    }
    assert!(offered("bash", &["config", "get", "plan."]).contains("plan.concurrency"));
    assert!(offered("bash", &["config", "set", "plan.c"]).contains("plan.concurrency="));
    assert!(offered("bash", &["config", "list", "limits."]).contains("limits.time"));
    assert!(offered("bash", &["tool", "show", "read_"]).contains("read_file"));
    assert!(offered("bash", &["actor", "show", "cod"]).contains("coder"));
    assert!(offered("bash", &["run", "--actor", "cod"]).contains("coder"));
    assert!(offered("bash", &["run", "--automation", "a"]).contains("auto"));
    assert!(offered("bash", &["pl"]).contains("plan"));
}

#[test]
fn a_shell_that_is_unknown_gets_nothing_and_a_broken_store_no_error() {
    let person = TestUser::new();
    person.plan("true");
    std::fs::write(person.home().join("data/agents.db"), "not a store").unwrap();
    assert_eq!(candidates(&person, "bash", &["diff", ""]).stdout.lines().next(), Some("@last"));
    assert_eq!(candidates(&person, "nosuchshell", &["diff", ""]).stdout, "");
}

#[test]
fn help_and_every_page_have_examples_and_the_exits() {
    let person = TestUser::new();
    let said = person.agents(&["plan", "apply", "--help"]);
    assert!(said.stdout.contains("Examples:\n  agents apply\n"), "{said:?}");
    assert!(said.stdout.contains("4 refused by a gate or a conflict"), "{said:?}");
    let same = person.agents(&["apply", "--help"]);
    assert!(same.stdout.contains("agents apply --batch @last --passed"), "{same:?}");
    let page = person.agents(&["man", "plan", "apply"]);
    assert!(page.stdout.contains(".TH agents-plan-apply 1"), "{page:?}");
    assert_eq!(person.agents(&["man", "plan", "aply"]).exit, 2);
    assert_eq!(person.agents(&["man", "--out", "man"]).exit, 0);
    let mut pages = 0;
    for entry in std::fs::read_dir(person.project().join("man")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for section in [".SH FILES", ".SH ENVIRONMENT", ".SH \"EXIT STATUS\""] {
            assert!(text.contains(section), "{name} has no {section}");
        }
        assert!(!text.contains("agents-help(1)") && !text.contains("\\-help(1)"), "{name} names no page");
        pages += 1;
    }
    assert!(pages > 60, "{pages}");
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let person = TestUser::new();
    let said = person.agents(&["man"]);
    assert_eq!(said.exit, 0);
    assert!(said.stdout.contains(".TH agents 1"), "{}", said.stdout);
    let said = person.agents(&["man", "--out", "man"]);
    assert_eq!(said.exit, 0);
    for page in ["agents.1", "agents-run.1", "agents-plan-apply.1", "agents-config-set.1"] {
        assert!(person.read(&format!("man/{page}")).contains(".SH NAME"), "{page}");
    }
}

#[test]
fn every_answer_fits_the_schema_of_the_envelope() {
    let person = TestUser::new();
    let schema = person.json(&["schema", "envelope"]).data();
    let required: Vec<String> =
        schema["required"].as_array().unwrap().iter().map(|key| key.as_str().unwrap().to_owned()).collect();
    let text = person.agents(&["schema", "envelope"]).stdout;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), schema);
    for args in [&["plan", "list"][..], &["status"], &["diff"], &["config", "get", "x"], &["nosuch"]] {
        let envelope = person.json(args).envelope();
        let keys: Vec<String> = envelope.as_object().unwrap().keys().cloned().collect();
        assert!(required.iter().all(|key| keys.contains(key)) && keys.len() == required.len(), "{keys:?}");
        assert_eq!(envelope["v"], schema["properties"]["v"]["const"], "{args:?}");
        let codes =
            schema["properties"]["messages"]["items"]["properties"]["code"]["anyOf"][0]["enum"].clone();
        for message in envelope["messages"].as_array().unwrap() {
            let code = &message["code"];
            assert!(code.is_null() || codes.as_array().unwrap().contains(code), "{message}");
        }
    }
}
