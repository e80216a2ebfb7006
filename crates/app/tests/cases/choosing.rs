//! The actor of a task that names none, and the instructions of its projects.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use serde_json::json;

use super::support::{CommandOutput, TestUser, answer};

/// Programs that the tests' commands need, and no agent.
const PLAIN_PATH: &str = "/usr/bin:/bin";

/// Settings in which no server of this machine, but one at `url`, could be found.
fn settings(person: &TestUser, url: &str, more: &str) {
    fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
    let text = format!(
        "[providers.llamacpp]\nurl = \"http://127.0.0.1:1/v1\"\n[providers.ollama]\nurl = \"{url}\"\n{more}"
    );
    fs::write(person.config_file(), text).unwrap();
}

/// A person on whose machine no model runs.
fn person() -> TestUser {
    let person = TestUser::new();
    settings(&person, "http://127.0.0.1:1/v1", "");
    person
}

/// A server on this machine that has these models; it answers every request with the list of them.
fn server(models: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let list: Vec<_> = models.iter().map(|model| json!({ "id": model })).collect();
    let body = json!({ "object": "list", "data": list }).to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            let known = head.first().is_some_and(|line| line.starts_with("GET /v1/models "));
            let status = if known { "200 OK" } else { "404 Not Found" };
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    url
}

/// Runs a task with these variables, and with a folder before PATH.
fn run(person: &TestUser, words: &[&str], env: &[(&str, &str)]) -> CommandOutput {
    let mut command = person.command(&person.project(), words);
    let bin = person.home().join("bin");
    command.env("PATH", format!("{}:{PLAIN_PATH}", bin.display())).envs(env.iter().copied());
    answer(&mut command)
}

/// Puts an agent program on PATH. It is not run: commands do not see what lies below /tmp.
fn install(person: &TestUser, name: &str) {
    let bin = person.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join(name), "#!/bin/sh\n").unwrap();
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_agent_program_on_the_path_does_what_names_nobody() {
    let person = person();
    install(&person, "goose");
    install(&person, "codex");
    let said = run(&person, &["plan", "use", "add a flag"], &[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let told = "actor: codex (found codex on PATH, tried with 0.166.0, and over the Agent Client Protocol with codex-acp 0.16.0; choose another with `--actor` or `agents config set actor.default=NAME`)";
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
    let person = person();
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
        "servers    none on this machine offers a model: ollama, llamacpp",
    ] {
        assert!(said.stderr.contains(words), "{words}: {}", said.stderr);
    }
    assert_eq!(person.json(&["plan", "list"]).data()["total"], json!(0));
}

#[test]
fn a_key_in_the_environment_brings_its_model_and_its_value_is_told_to_nobody() {
    let person = person();
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
fn a_server_on_this_machine_that_has_a_model_comes_before_a_program_and_after_a_key() {
    let person = TestUser::new();
    install(&person, "codex");
    settings(&person, &server(&["nomic-embed-text", "qwen3:8b", "other"]), "");
    let said = run(&person, &["plan", "use", "add a flag"], &[]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stderr.contains("actor: coder (ollama answers at http://127.0.0.1:"), "{}", said.stderr);
    assert!(said.stderr.contains(", so ollama/qwen3:8b is used; choose another"), "{}", said.stderr);
    let said = run(&person, &["plan", "use", "add a flag"], &[("OPENAI_API_KEY", "sk-0123456789abcdef")]);
    assert!(said.stderr.contains("OPENAI_API_KEY is set"), "{}", said.stderr);
    settings(&person, &server(&["nomic-embed-text"]), "");
    let said = run(&person, &["plan", "use", "add a flag"], &[]);
    assert!(said.stderr.contains("actor: codex"), "none of its models talks: {}", said.stderr);
}

#[test]
fn a_provider_of_the_settings_counts_when_its_key_and_its_model_are_known() {
    let person = person();
    let table =
        "[providers.box]\nspeaks = \"openai\"\nurl = \"https://models.example/v1\"\nkey_env = \"BOX_KEY\"\n";
    let key = [("BOX_KEY", "sk-box-0123456789")];
    settings(&person, "http://127.0.0.1:1/v1", table);
    let said = run(&person, &["plan", "use", "add a flag"], &key);
    assert_eq!(said.exit, 2, "nobody was asked which models it has: {said:?}");
    assert!(said.stderr.contains("agents config set providers.box.model=NAME"), "{}", said.stderr);
    settings(&person, "http://127.0.0.1:1/v1", &format!("{table}model = \"m-1\"\n"));
    let said = run(&person, &["plan", "use", "add a flag"], &key);
    assert_eq!(said.exit, 0, "{said:?}");
    let told = "actor: coder (`providers.box.model` is set, so box/m-1 is used;";
    assert!(said.stderr.contains(told), "{}", said.stderr);
    let said = run(&person, &["plan", "use", "add a flag"], &[]);
    assert_eq!(said.exit, 2, "its key is not there: {said:?}");
    let in_file = table.replace("key_env = \"BOX_KEY\"", "key_file = \"~/box.key\"");
    settings(&person, "http://127.0.0.1:1/v1", &format!("{in_file}model = \"m-1\"\n"));
    fs::write(person.home().join("box.key"), "sk-box-0123456789\n").unwrap();
    fs::set_permissions(person.home().join("box.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let said = run(&person, &["plan", "use", "add a flag"], &[]);
    assert!(said.exit == 0 && said.stderr.contains(told), "{said:?}");
}

#[test]
fn what_a_project_names_is_told_as_the_projects() {
    let person = person();
    person.write(".cleveragents/config.toml", "model.default = \"ollama/theirs\"\n");
    let said = run(&person, &["plan", "use", "add a flag"], &[]);
    let place = person.project().join(".cleveragents/config.toml:1");
    let told =
        format!("actor: coder (`model.default` of the project, {}, is ollama/theirs;", place.display());
    assert!(said.stderr.contains(&told), "{}", said.stderr);
    person.write(".cleveragents/config.toml", "actor.default = \"goose\"\n");
    let said = run(&person, &["plan", "use", "add a flag"], &[]);
    let told = format!("actor: goose (`actor.default` of the project, {};", place.display());
    assert!(said.stderr.contains(&told), "{}", said.stderr);
}

#[test]
fn a_model_is_set_as_provider_and_name() {
    let person = TestUser::new();
    let said = person.json(&["config", "set", "model.default=justname"]);
    assert_eq!((said.exit, said.code()), (2, "CONFIG_VALUE_INVALID".to_owned()), "{said:?}");
    assert_eq!(person.agents(&["config", "set", "model.default=ollama/qwen3:8b"]).exit, 0);
}

#[test]
fn it_is_told_of_every_agent_program_whether_it_was_tried_and_with_which_version() {
    let person = person();
    install(&person, "goose");
    let list = run(&person, &["actor", "list"], &[]).stdout;
    let line = |name: &str| list.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("aider").contains("tried with 0.86.2"), "{list}");
    assert!(line("goose").ends_with("untried"), "{list}");
    assert!(!line("coder").contains("tried"), "{list}");
    let needs = |name: &str, env: &[(&str, &str)]| {
        let said = run(&person, &["actor", "list", "--format", "json"], env);
        let actors = said.data()["actors"].as_array().unwrap().clone();
        actors.into_iter().find(|actor| actor["name"] == name).unwrap()["needs"].clone()
    };
    assert_eq!([needs("goose", &[]), needs("codex", &[])], [json!(null), json!("codex on PATH")]);
    assert_eq!(needs("coder", &[]), json!("a model or a key"));
    assert_eq!(needs("coder", &[("OPENAI_API_KEY", "sk-0123456789")]), json!(null));
    assert!(line("codex").contains("codex on PATH"), "{list}");
    let shown = run(&person, &["actor", "show", "goose"], &[]).stdout;
    assert!(shown.starts_with("# goose of the built in\n# goose: untried\n"), "{shown}");
    let said = run(&person, &["actor", "show", "codex", "--format", "json"], &[]);
    assert_eq!(said.data()["tried"]["version"], json!("0.166.0"), "{said:?}");
    let said = run(&person, &["plan", "use", "add a flag"], &[]);
    assert!(said.stderr.contains("actor: goose (found goose on PATH, untried;"), "{}", said.stderr);
    let programs = run(&person, &["doctor", "--format", "json"], &[]).data()["programs"].clone();
    let names: Vec<_> = programs.as_array().unwrap().iter().map(|program| program["name"].clone()).collect();
    assert_eq!(names, [json!("goose")], "{programs}");
    assert!(
        run(&person, &["doctor"], &[]).stdout.contains("goose, untried; no key and no login"),
        "{programs}"
    );
}

#[test]
fn what_a_project_says_to_agents_is_frozen_with_the_plan() {
    let person = TestUser::new();
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

#[test]
fn nobody_thinks_first_where_the_user_says_so_also_for_whoever_is_chosen() {
    let person = person();
    let key = [("ANTHROPIC_API_KEY", "sk-of-mine-1234567890")];
    settings(&person, "http://127.0.0.1:1/v1", "[actor]\nstrategist = \"none\"\n");
    let said = run(&person, &["plan", "use", "add a flag"], &key);
    assert!(said.exit == 0 && said.stderr.contains("actor: coder"), "{said:?}");
    let data = person.json(&["plan", "status"]).data();
    assert_eq!((&data["phase"], &data["state"]), (&json!("execute"), &json!("queued")), "{data}");
}

#[test]
fn of_several_providers_with_a_model_the_first_by_name_is_taken() {
    let person = person();
    let table = |name: &str| {
        format!(
            "[providers.{name}]\nspeaks = \"openai\"\nurl = \"https://{name}.example/v1\"\nmodel = \"m\"\n"
        )
    };
    let tables = [table("zeta"), table("alpha"), table("mid")].concat();
    settings(&person, "http://127.0.0.1:1/v1", &tables);
    let said = run(&person, &["plan", "use", "add a flag"], &[]);
    assert!(said.stderr.contains("actor: coder (`providers.alpha.model` is set"), "{}", said.stderr);
}

#[test]
fn who_stands_before_the_host_of_an_address_is_shown_nowhere() {
    let person = TestUser::new();
    let word = "hunter-of-words-2";
    let table = format!(
        "[providers.llamacpp]\nurl = \"http://127.0.0.1:1/v1\"\n[providers.box]\nspeaks = \"openai\"\n\
         url = \"https://me:{word}@models.example/v1\"\n"
    );
    fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
    fs::write(person.config_file(), table).unwrap();
    for words in [&["doctor"][..], &["doctor", "--format", "json"]] {
        let said = run(&person, words, &[]);
        assert!(said.stdout.contains("https://…@models.example/v1"), "{said:?}");
        assert!(!format!("{said:?}").contains(word), "{said:?}");
    }
    let host = server(&["qwen3:8b"]).replace("http://", "me:pass-of-mine@").replace("/v1", "");
    let said = run(&person, &["plan", "use", "add a flag"], &[("OLLAMA_HOST", &host)]);
    assert!(said.stderr.contains("(ollama answers at http://…@127.0.0.1:"), "{said:?}");
    assert!(!format!("{said:?}").contains("pass-of-mine"), "{said:?}");
    // It is a secret wherever else it shows up.
    person.write("notes.txt", &format!("the word is {word}\n"));
    assert_eq!(person.agents(&["run", "--", "cat", "notes.txt"]).exit, 0);
    let logs = person.agents(&["plan", "logs", "@last"]).stdout;
    assert!(logs.contains("the word is [REDACTED:known:") && !logs.contains(word), "{logs}");
}

#[test]
fn the_doctor_asks_servers_of_this_machine_and_shows_the_space_that_data_takes() {
    let person = person();
    settings(&person, &server(&["qwen3-coder"]), "");
    person.plan("head -c 300000 /dev/urandom > big");
    let said = person.json(&["doctor"]);
    let of = |name: &str| {
        let all = said.data()["providers"].as_array().unwrap().clone();
        all.into_iter().find(|provider| provider["name"] == name).unwrap()
    };
    assert_eq!(
        (&of("ollama")["answers"], &of("ollama")["first_model"]),
        (&json!(true), &json!("qwen3-coder"))
    );
    assert_eq!(of("llamacpp")["answers"], json!(false), "nothing listens there");
    assert_eq!(of("openai")["answers"], json!(null), "another machine is not asked");
    let text = person.agents(&["doctor"]).stdout;
    assert!(text.contains("  no  llamacpp ") && text.contains("answers, has qwen3-coder"), "{text}");
    let used = said.data()["disk_use"].clone();
    assert!(used["bytes"].as_u64().unwrap() > 300_000, "{used}");
    let data = person.home().join("data").display().to_string();
    assert!(
        text.contains(&format!("data directory\n  {data}\n  ")) && text.contains("store of plans "),
        "{text}"
    );
}
