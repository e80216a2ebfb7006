//! The user's home as a plan sees it: what is named of it, and no credential.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::process::{ChildStdout, Stdio};

use serde_json::{Value, json};

use super::model_world::{ModelFixture, Wire, calls, says};
use super::support::{CommandOutput, TestUser, answer};

const SECRET: &str = "correct-horse-battery";

/// A person with credentials, tools and notes in their home.
fn person() -> TestUser {
    let person = TestUser::new_outside_tmp();
    for path in [
        ".config/cleveragents/box.key",
        ".git-credentials",
        ".config/gh/hosts.yml",
        ".cargo/credentials.toml",
        ".cache/huggingface/token",
        ".bash_history",
        "notes.txt",
    ] {
        person.write_home(path, SECRET);
    }
    person.write_home(".cargo/bin/cargo-tool", "#!/bin/sh\necho from cargo\n");
    person.write_home(".cache/pip/wheel", "from the cache\n");
    person.write_home(".local/bin/mytool", "#!/bin/sh\necho from local\n");
    person.write_home("apps/thing/lib/text", "from the prefix\n");
    person.write_home("apps/thing/bin/thing", "#!/bin/sh\ncat \"$(dirname \"$0\")/../lib/text\"\n");
    person.write_home(".gitconfig", "[user]\n\tname = Alice\n");
    person
}

fn run(person: &TestUser, script: &str) -> CommandOutput {
    let home = person.home();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{0}/.local/bin:{0}/apps/thing/bin:{path}", home.display());
    let words = ["run", "--format", "json", "--", "sh", "-c", script];
    answer(person.command(&person.project(), &words).env("PATH", path))
}

#[test]
fn a_command_sees_of_the_home_what_is_named_and_no_credential() {
    let person = person();
    let script = "grep -rs correct-horse ~ && exit 9; mytool; thing; ~/.cargo/bin/cargo-tool; cat ~/.cache/pip/wheel; \
        git config user.name; ls -A ~/shop > /dev/null && mkdir ~/.state && touch ~/.state/x ~/.cache/new && echo made";
    let said = run(&person, script);
    assert_eq!(said.exit, 0, "{said:?} {}", person.printed());
    let expected = "from local\nfrom the prefix\nfrom cargo\nfrom the cache\nAlice\nmade\n";
    assert_eq!(person.printed(), expected);
    assert!(!person.home().join(".state").exists() && !person.home().join(".cache/new").exists());
}

#[test]
fn a_home_that_is_reached_by_links_and_has_links_in_it_is_seen_the_same_way() {
    let person = person();
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::create_dir(elsewhere.path().join("rustup")).unwrap();
    fs::write(elsewhere.path().join("rustup/settings"), "from elsewhere\n").unwrap();
    symlink(elsewhere.path().join("rustup"), person.home().join(".rustup")).unwrap();
    symlink(person.home(), elsewhere.path().join("home")).unwrap();
    let words =
        ["run", "--format", "json", "--", "sh", "-c", "cat ~/.rustup/settings; mytool; cat ~/notes.txt"];
    let mut command = person.command(&person.project(), &words);
    let home = elsewhere.path().join("home");
    let path = format!("{}/.local/bin:{}", home.display(), std::env::var("PATH").unwrap());
    let said = answer(command.env("HOME", &home).env("PATH", path));
    assert_ne!(said.exit, 0);
    let printed = person.printed();
    assert!(printed.starts_with("from elsewhere\nfrom local\n") && !printed.contains(SECRET), "{printed}");
}

#[test]
fn a_command_that_missed_something_of_the_home_is_told_how_to_show_it() {
    let person = person();
    assert_ne!(run(&person, "cat ~/notes.txt").exit, 0);
    let errors = person.json(&["plan", "errors", "@last"]).envelope().to_string();
    let says = format!("commands do not see {}", person.home().join("notes.txt").display());
    assert!(errors.contains(&says) && errors.contains("isolation.show"), "{errors}");
    let set = person.agents(&["config", "set", "isolation.show=@toolchains,~/notes.txt,~/.git-credentials"]);
    assert_eq!(set.exit, 0, "{set:?}");
    let said = run(&person, "cat ~/notes.txt; mytool; cat ~/.git-credentials");
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(person.printed(), format!("{SECRET}from local\n"), "hiding wins");
    let set = person.agents(&["config", "set", "isolation.show=~"]);
    assert_eq!(set.exit, 0, "{set:?}");
    assert_eq!(run(&person, "cat ~/apps/thing/lib/text; cat ~/.git-credentials").exit, 0);
    assert_eq!(person.printed(), "from the prefix\n");
}

#[test]
fn a_key_file_is_hidden_wherever_it_is() {
    let person = person();
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    let key = elsewhere.path().join("box.key");
    fs::write(&key, SECRET).unwrap();
    let settings = format!(
        "isolation.hide = []\nisolation.show = [\"~\"]\n[providers.box]\nspeaks = \"openai\"\n\
         url = \"http://127.0.0.1:9/v1\"\nkey_file = \"{}\"\n",
        key.display()
    );
    fs::write(person.config_file(), settings).unwrap();
    let script = format!("cat {} ~/.config/cleveragents/* ~/data/*; cat ~/notes.txt", key.display());
    let said = run(&person, &script);
    assert_eq!(said.exit, 0, "{said:?}");
    let printed = person.printed();
    assert_eq!(printed.matches(SECRET).count(), 1, "the notes are shown, the keys are not: {printed}");
}

#[test]
fn git_settings_with_a_password_are_not_shown() {
    let person = person();
    let config = format!("[user]\n\tname = Alice\n[url \"https://alice:{SECRET}@example.com/\"]\n");
    person.write_home(".gitconfig", &config);
    run(&person, "cat ~/.gitconfig; git config user.name");
    let printed = person.printed();
    assert!(!printed.contains(SECRET) && !printed.contains("Alice"), "{printed}");
}

#[test]
fn a_program_that_insists_on_its_state_directory_gets_the_users_or_one_that_is_thrown_away() {
    let person = person();
    person.write_home(
        ".local/bin/agent",
        "#!/bin/sh\nmkdir -p ~/.agent/sessions && date > ~/.agent/sessions/now\n",
    );
    person.write_home(
        ".config/cleveragents/actors/agent.yaml",
        "description: an agent\nrun: [agent]\nwritable: [~/.agent]\n",
    );
    let go = || {
        let path = format!("{}/.local/bin:{}", person.home().display(), std::env::var("PATH").unwrap());
        let words = ["run", "--format", "json", "--actor", "agent", "do it"];
        answer(person.command(&person.project(), &words).env("PATH", path))
    };
    let said = go();
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(!person.home().join(".agent").exists());
    fs::create_dir(person.home().join(".agent")).unwrap();
    let said = go();
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(person.home().join(".agent/sessions/now").exists(), "what is there is the user's own");
}

#[test]
fn a_program_that_could_not_write_is_told_where() {
    let person = person();
    let said = run(&person, "mkdir /usr/state-of-agent");
    assert_ne!(said.exit, 0);
    let errors = person.json(&["plan", "errors", "@last"]).envelope().to_string();
    assert!(errors.contains("it could not write /usr/state-of-agent"), "{errors}");
}

#[test]
fn a_hidden_path_inside_a_project_is_hidden_from_tools_contexts_and_capture() {
    let marker = "hidden-marker-7261";
    let turns = [
        calls([("read_file", json!({ "path": ".vault/id" })), ("read_file", json!({ "path": "way/id" }))]),
        calls([
            ("search_files", json!({ "pattern": "hidden-mark" })),
            ("search_files", json!({ "pattern": "hidden-mark", "path": ".vault" })),
            ("list_directory", json!({ "path": "." })),
            ("list_directory", json!({ "path": ".vault" })),
        ]),
        calls([("request_context", json!({ "query": "hidden marker id", "focus": ["path:.vault/id"] }))]),
        calls([
            ("write_file", json!({ "path": ".vault/authorized_keys", "content": "mine\n" })),
            ("delete_file", json!({ "path": ".vault", "recursive": true })),
            ("move_file", json!({ "from": ".vault/id", "to": "copy" })),
        ]),
        calls([(
            "run_command",
            json!({ "command": "cat .vault/id way/id; echo x > .vault/new; ls -A .vault" }),
        )]),
        calls([("write_file", json!({ "path": "done", "content": "done\n" }))]),
        says("done"),
    ];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let person = &world.person;
    person.write(".vault/id", &format!("{marker}\n"));
    symlink(".vault", person.project().join("way")).unwrap();
    person.git(&["add", "."]);
    person.git(&["commit", "-qm", "vault"]);
    let settings = fs::read_to_string(person.config_file()).unwrap();
    fs::write(
        person.config_file(),
        format!("isolation.hide = [\"{}/.vault\"]\n{settings}", person.project().display()),
    )
    .unwrap();
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let sent: String = turns.iter().map(|_| world.server.asked().body.to_string()).collect();
    assert!(!sent.contains(marker), "{said:?}");
    assert!(sent.contains("is hidden from plans") && sent.contains("PROTECTED_PATH"), "{sent}");
    let changed = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
    assert_eq!(changed, "done\n", "{said:?}");
    let found = person.agents(&["context", "assemble", "hidden marker id"]).stdout;
    assert!(!found.contains(marker) && !found.contains(".vault"), "{found}");
}

#[test]
fn a_project_at_a_hidden_path_needs_a_person() {
    let person = person();
    person.write_home(".ssh/id_custom", SECRET);
    let ssh = person.home().join(".ssh");
    let project = format!("--project={}", ssh.display());
    let run = person.json(&["run", &project, "--", "true"]);
    assert_eq!(run.code(), "PROJECT_HIDDEN", "{run:?}");
    let context = person.json(&["context", "assemble", &project, "what"]);
    assert_eq!(context.code(), "PROJECT_HIDDEN", "{context:?}");
    let below = person.home().join(".ssh/deep");
    fs::create_dir(&below).unwrap();
    assert_eq!(
        person.json(&["run", &format!("--project={}", below.display()), "--", "true"]).code(),
        "PROJECT_HIDDEN"
    );
}

/// A caller of `agents mcp`, one line at a time.
struct Caller {
    process: std::process::Child,
    answers: BufReader<ChildStdout>,
    next: u64,
}

impl Caller {
    fn start(person: &TestUser, options: &[&str]) -> Caller {
        let words: Vec<&str> = ["mcp"].iter().chain(options).copied().collect();
        let mut command = person.command(&person.project(), &words);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut caller = Caller { process, answers, next: 0 };
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } });
        caller.ask("initialize", &hello);
        caller.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        caller
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let said = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        said["result"]["structuredContent"].clone()
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

fn code(envelope: &Value) -> &str {
    envelope["messages"]
        .as_array()
        .and_then(|all| all.last())
        .and_then(|last| last["code"].as_str())
        .unwrap_or("")
}

#[test]
fn another_agent_works_only_in_the_projects_that_the_server_was_started_with() {
    let person = person();
    person.write("a.txt", "one\n");
    let other = person.home().join("other");
    fs::create_dir_all(other.join(".cleveragents")).unwrap();
    fs::write(other.join("b.txt"), "two\n").unwrap();
    let in_other =
        answer(&mut person.command(&other, &["run", "--format", "json", "--", "sh", "-c", "echo x > b.txt"]));
    assert_eq!(in_other.exit, 0, "{in_other:?}");
    let foreign = in_other.data()["plan_id"].as_str().unwrap().to_owned();

    let mut caller = Caller::start(&person, &[]);
    let run = json!({ "command": ["cat", "b.txt"], "projects": [other.display().to_string()] });
    assert_eq!(code(&caller.call("run_plan", &run)), "PROJECT_NOT_ALLOWED");
    for tool in ["show_plan", "plan_diff", "plan_errors", "cancel_plan"] {
        assert_eq!(code(&caller.call(tool, &json!({ "plan": foreign }))), "PROJECT_NOT_ALLOWED", "{tool}");
    }
    let listed = caller.call("list_plans", &json!({}));
    assert_eq!(listed["data"]["plans"], json!([]), "{listed}");
    let named = caller.call("list_plans", &json!({ "project": other.display().to_string() }));
    assert_eq!(code(&named), "PROJECT_NOT_ALLOWED", "{named}");
    let own = caller.call("run_plan", &json!({ "command": ["true"] }));
    assert_eq!(own["status"], "ok", "{own}");
    caller.end();

    let option = format!("--project={}", other.display());
    let mut caller = Caller::start(&person, &[&option]);
    assert_eq!(caller.call("show_plan", &json!({ "plan": foreign }))["status"], "ok");
    let here = caller.call(
        "run_plan",
        &json!({ "command": ["true"], "projects": [person.project().display().to_string()] }),
    );
    assert_eq!(code(&here), "PROJECT_NOT_ALLOWED", "{here}");
    caller.end();
}
