//! Settings: read, written by several at once, and by writers that are killed.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;

use super::support::{TestUser, answer};
use super::terminal::Terminal;

#[test]
fn a_setting_is_set_and_read_back() {
    let person = TestUser::new();
    let said = person.agents(&["config", "set", "plan.concurrency=8", "limits.time=30m"]);
    assert_eq!((said.exit, said.stdout.as_str()), (0, "plan.concurrency = 8\nlimits.time = 30m\n"));
    assert_eq!(person.agents(&["config", "get", "plan.concurrency"]).stdout, "8\n");
    let said = person.json(&["config", "get", "limits.time", "--origin"]);
    assert_eq!(said.data()["origin"], "user");
    let levels: Vec<_> =
        said.data()["levels"].as_array().unwrap().iter().map(|level| level["level"].clone()).collect();
    assert_eq!(levels, [json!("user"), json!("default")]);
}

#[test]
fn the_origin_of_a_setting_names_file_and_line() {
    let person = TestUser::new();
    fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
    fs::write(person.config_file(), "# mine\n\n[recovery]\nmax_retries_per_step = 5\n").unwrap();
    person.write(".cleveragents/config.toml", "recovery.max_retries_per_step = 7\n");
    let said = person.agents(&["config", "get", "recovery.max_retries_per_step", "--origin"]);
    let file = person.config_file();
    assert_eq!(
        said.stdout,
        format!(
            "recovery.max_retries_per_step = 7  (project)\n\
             LEVEL    VALUE  PLACE\n\
             project  7      {}:1\n\
             user     5      {}:4\n\
             default  3      -\n",
            person.project().join(".cleveragents/config.toml").display(),
            file.display()
        )
    );
}

#[test]
fn all_settings_of_one_call_are_set_or_none() {
    let person = TestUser::new();
    for (words, code) in [
        (["plan.concurrency=8", "plan.concurency=9"], "CONFIG_KEY_UNKNOWN"),
        (["plan.concurrency=8", "retention.days=0"], "CONFIG_VALUE_INVALID"),
    ] {
        let said = person.json(&["config", "set", words[0], words[1]]);
        assert_eq!((said.exit, said.code()), (2, code.to_owned()));
        assert!(!person.config_file().exists());
    }
    let said = person.agents(&["config", "set", "plan.concurency=9"]);
    assert_eq!(
        said.stderr,
        "error[CONFIG_KEY_UNKNOWN]: there is no setting `plan.concurency`\n\nhint: did you mean `plan.concurrency`?\n"
    );
}

#[test]
fn settings_written_at_once_are_all_kept() {
    let person = TestUser::new();
    fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
    fs::write(person.config_file(), "# kept\n").unwrap();
    let pairs = [
        "plan.concurrency=8",
        "retention.days=9",
        "retention.max_mb=10",
        "limits.time=11m",
        "capture.max_file_mb=12",
        "automation=manual",
    ];
    for _ in 0..5 {
        let children: Vec<_> = pairs
            .iter()
            .map(|pair| {
                let mut command = person.command(&person.project(), &["config", "set", pair]);
                command.stdout(Stdio::null()).spawn().unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let text = fs::read_to_string(person.config_file()).unwrap();
        assert!(text.contains("# kept\n"), "{text}");
        for pair in pairs {
            let (key, value) = pair.split_once('=').unwrap();
            assert_eq!(person.agents(&["config", "get", key]).stdout, format!("{value}\n"), "{text}");
        }
        fs::write(person.config_file(), "# kept\n").unwrap();
    }
}

#[test]
fn a_writer_that_is_killed_leaves_the_old_file_or_the_new_one() {
    let person = TestUser::new();
    person.agents(&["config", "set", "retention.days=9"]);
    let before = fs::read_to_string(person.config_file()).unwrap();
    for spins in 0..60_u64 {
        let value = 10 + spins % 50;
        let pair = format!("plan.concurrency={value}");
        let mut command = person.command(&person.project(), &["config", "set", &pair]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Each round kills at another point of the program's life, from its first instruction to its end.
        for _ in 0..spins * 40_000 {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let text = fs::read_to_string(person.config_file()).unwrap();
        assert!(text.starts_with(&before), "{text:?}");
        let is_whole =
            text == before || text.lines().last().is_some_and(|line| line.starts_with("concurrency = "));
        assert!(is_whole, "{text:?}");
        assert_eq!(person.agents(&["config", "get", "retention.days"]).stdout, "9\n");
    }
    // Whoever was killed holds no lock.
    assert_eq!(person.agents(&["config", "set", "plan.concurrency=3"]).exit, 0);
    let left = person.config_file().parent().unwrap().read_dir().unwrap().count();
    assert_eq!(left, 1, "nothing lies beside the file");
}

#[test]
fn a_writer_that_dies_in_the_middle_of_its_writing_leaves_the_old_file() {
    let person = TestUser::new();
    person.agents(&["config", "set", "retention.days=9"]);
    let before = fs::read_to_string(person.config_file()).unwrap();
    // The kernel kills it with its first byte into a file.
    let script =
        format!("ulimit -f 0; exec '{}' config set plan.concurrency=8", env!("CARGO_BIN_EXE_agents"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(person.project()).env("HOME", person.home());
    let status = shell.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(!status.success(), "it was to be killed");
    assert_eq!(fs::read_to_string(person.config_file()).unwrap(), before);
    assert_eq!(person.agents(&["config", "set", "plan.concurrency=8"]).exit, 0);
    assert_eq!(person.config_file().parent().unwrap().read_dir().unwrap().count(), 1);
}

#[test]
fn a_variable_stands_over_both_files() {
    let person = TestUser::new();
    person.agents(&["config", "set", "plan.concurrency=8"]);
    let mut command = person.command(&person.project(), &["config", "get", "plan.concurrency"]);
    assert_eq!(answer(command.env("CLEVERAGENTS_PLAN_CONCURRENCY", "2")).stdout, "2\n");
    let said = answer(command.env("CLEVERAGENTS_PLAN_CONCURRENCY", "two"));
    assert_eq!(said.exit, 2);
    assert_eq!(
        said.stderr,
        "error[CONFIG_VALUE_INVALID]: `plan.concurrency` cannot be `two` (CLEVERAGENTS_PLAN_CONCURRENCY): it takes a \
         whole number from 1 to 1024\n"
    );
}

#[test]
fn a_slip_in_a_variable_is_told() {
    let person = TestUser::new();
    let mut command = person.command(&person.project(), &["config", "get", "plan.concurrency"]);
    let said = answer(command.env("CLEVERAGENTS_PLAN_CONCURENCY", "2"));
    assert_eq!((said.exit, said.stdout.as_str()), (0, "4\n"));
    assert!(said.stderr.contains("CLEVERAGENTS_PLAN_CONCURENCY is not a setting"), "{}", said.stderr);
}

#[test]
fn every_setting_is_listed_with_its_scope_and_variable() {
    let said = TestUser::new().json(&["config", "list"]);
    let settings = said.data()["settings"].as_array().unwrap().clone();
    let one = settings.iter().find(|setting| setting["key"] == "automation").unwrap();
    assert_eq!(one["variable"], "CLEVERAGENTS_AUTOMATION");
    assert_eq!(one["scope"], "user; a project may tighten");
    assert_eq!(one["allowed"], "one of manual, review, auto, or an [automation.NAME] of yours");
}

#[test]
fn a_provider_is_set_line_by_line_with_the_checks_of_reading_and_shown_without_secrets() {
    let person = TestUser::new();
    let said = person.agents(&[
        "config",
        "set",
        "providers.box.speaks=openai",
        "providers.box.url=http://127.0.0.1:8000/v1",
        "providers.box.key_file=~/box.key",
        "providers.box.context_tokens=32768",
        "prices.box/m-4.1.input=0.25",
        "prices.box/m-4.1.output=1",
    ]);
    assert_eq!(said.exit, 0, "{said:?}");
    let text = fs::read_to_string(person.config_file()).unwrap();
    let expected = "[providers.box]\nspeaks = \"openai\"\nurl = \"http://127.0.0.1:8000/v1\"\nkey_file = \"~/box.key\"\n\
                    context_tokens = 32768\n\n[prices.\"box/m-4.1\"]\ninput = 0.25\noutput = 1\n";
    assert_eq!(text, expected);
    for (line, code) in [
        ("providers.box.speaks=gopher", "CONFIG_VALUE_INVALID"),
        ("providers.box.urll=x", "CONFIG_KEY_UNKNOWN"),
        ("providers.box.key_env=sk-secret-value", "CONFIG_VALUE_INVALID"),
        ("providers.box.context_tokens=1", "CONFIG_VALUE_INVALID"),
        ("prices.other/m.input=1", "CONFIG_VALUE_INVALID"),
    ] {
        let said = person.json(&["config", "set", "plan.concurrency=2", line]);
        assert_eq!((said.exit, said.code().as_str()), (2, code), "{line}: {said:?}");
        assert!(!format!("{said:?}").contains("sk-secret"), "{said:?}");
        assert_eq!(fs::read_to_string(person.config_file()).unwrap(), expected, "{line}");
    }
    assert_eq!(person.agents(&["config", "get", "providers.box.url"]).stdout, "http://127.0.0.1:8000/v1\n");
    let more = "\n[mcp.web]\ncommand = [\"web\"]\nenv = { TOKEN = \"t0p-secret\" }\n[providers.far]\nspeaks = \"openai\"\n\
                url = \"https://me:pass@far.example/v1\"\n[[validation]]\nrun = \"make test\"\n";
    fs::write(person.config_file(), format!("{expected}{more}")).unwrap();
    let list = person.agents(&["config", "list"]).stdout;
    let has = |key: &str, value: &str| {
        let line = list.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap_or_default();
        assert!(line.contains(value), "{key}: {line:?}");
    };
    has("providers.box.context_tokens", "32768");
    has("prices.box/m-4.1.output", "1");
    has("providers.far.url", "https://…@far.example/v1");
    has("mcp.web.env.TOKEN", "…");
    has("validation.1.run", "make test");
    assert!(!list.contains("t0p-secret") && !list.contains("me:pass"), "{list}");
}

#[test]
fn what_is_wrong_with_a_typed_value_is_told_as_typed_and_in_full() {
    let person = TestUser::new();
    fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
    fs::write(person.config_file(), "[plan]\nconcurrency = 2\n").unwrap();
    let said = person.agents(&["config", "set", "automation=zzz"]);
    assert!(
        said.exit == 2 && said.stderr.contains("`automation` cannot be `zzz`: it takes one of"),
        "{said:?}"
    );
    let said = person.agents(&["config", "set", "invariants=never=x["]);
    assert!(said.exit == 2 && said.stderr.contains("`x[` is not a glob"), "{said:?}");
    // What stands in the file already is told with its line, and can be mended.
    fs::write(person.config_file(), "# mine\nautomation = \"zzz\"\n").unwrap();
    let said = person.agents(&["config", "set", "plan.concurrency=3"]);
    assert!(said.exit == 2 && said.stderr.contains("config.toml:2"), "{said:?}");
    assert_eq!(person.agents(&["config", "set", "automation=auto"]).exit, 0);
}

#[test]
fn the_examples_of_a_duration_are_within_its_bound() {
    let person = TestUser::new();
    let said = person.agents(&["config", "set", "capture.wait=1h"]);
    assert_ne!(said.exit, 0, "{said:?}");
    assert!(said.stderr.contains("a duration from 0s to 5m, like 30s"), "{said:?}");
    assert!(!said.stderr.contains("2h"), "{said:?}");
}

#[test]
fn a_setting_is_set_in_two_words_and_removed_again() {
    let person = TestUser::new();
    let said = person.agents(&["config", "set", "plan.concurrency", "8"]);
    assert_eq!((said.exit, said.stdout.as_str()), (0, "plan.concurrency = 8\n"));
    let said = person.agents(&["config", "set", "prices.box/m.input=3", "prices.box/m.output=15"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let said = person.agents(&["config", "unset", "plan.concurrency", "prices.box/m", "limits.time"]);
    let file = person.config_file();
    assert_eq!(
        (said.exit, said.stdout.as_str()),
        (
            0,
            &*format!(
                "plan.concurrency is no longer set\nprices.box/m is no longer set\nlimits.time was not set in {}\n",
                file.display()
            )
        )
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
    assert_eq!(person.json(&["config", "get", "plan.concurrency"]).data()["origin"], "default");
    assert_eq!(person.json(&["config", "unset", "plan.concurency"]).code(), "CONFIG_KEY_UNKNOWN");
    assert_eq!(person.agents(&["config", "path"]).stdout, format!("{}\n", file.display()));
}

#[test]
fn the_file_of_a_project_is_set_by_its_flag_and_not_with_what_protects_the_user() {
    let person = TestUser::new();
    assert_eq!(person.agents(&["config", "set", "--project", "capture.max_file_mb", "20"]).exit, 0);
    assert_eq!(person.read(".cleveragents/config.toml"), "[capture]\nmax_file_mb = 20\n");
    assert!(!person.config_file().exists());
    assert_eq!(person.json(&["config", "get", "capture.max_file_mb"]).data()["origin"], "project");
    let said = person.json(&["config", "set", "--project", "policy.trust=all"]);
    assert_eq!((said.exit, said.code()), (2, "CONFIG_NOT_ALLOWED_HERE".to_owned()), "{said:?}");
    let path = person.agents(&["config", "path", "--project"]).stdout;
    assert_eq!(path, format!("{}\n", person.project().join(".cleveragents/config.toml").display()));
    assert_eq!(person.agents(&["config", "unset", "--project", "capture.max_file_mb"]).exit, 0);
    assert_eq!(person.read(".cleveragents/config.toml"), "");
    // A link that leads out of the project is not written through.
    let outside = person.home().join("outside.toml");
    fs::write(&outside, "").unwrap();
    fs::remove_file(person.project().join(".cleveragents/config.toml")).unwrap();
    std::os::unix::fs::symlink(&outside, person.project().join(".cleveragents/config.toml")).unwrap();
    let said = person.json(&["config", "set", "--project", "capture.max_file_mb=3"]);
    assert_eq!((said.exit, said.code()), (2, "CONFIG_FILE_INVALID".to_owned()), "{said:?}");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "");
}

#[test]
fn settings_are_listed_by_their_beginning_within_80_columns() {
    let person = TestUser::new();
    person.agents(&["config", "set", "limits.time=30m"]);
    let said = person.agents(&["config", "list", "limits"]);
    assert!(said.stdout.contains("limits.time = 30m  (user)\n    "), "{said:?}");
    assert!(!said.stdout.contains("plan.concurrency"), "{said:?}");
    let all = person.agents(&["config", "list"]).stdout;
    let long: Vec<&str> =
        all.lines().filter(|line| line.starts_with(' ') && line.chars().count() > 80).collect();
    assert!(long.is_empty(), "{long:?}");
    assert!(all.contains("plan.concurrency = 4\n"), "{all}");
    assert_eq!(
        person.agents(&["config", "list", "--set"]).stdout.lines().next(),
        Some("limits.time = 30m  (user)")
    );
    assert_eq!(person.json(&["config", "list", "nosuch"]).code(), "CONFIG_KEY_UNKNOWN");
}

#[test]
fn an_edited_file_is_checked_and_stays_as_the_editor_left_it() {
    let person = TestUser::new();
    assert_eq!(person.json(&["config", "edit"]).code(), "CONFIRMATION_NEEDED", "there is no terminal");
    for (editor, exit, words) in [
        ("printf 'plan.concurrency = 3\\n' >", 0, "is valid"),
        ("printf 'plan.concurrency = \\n' >", 2, "CONFIG_FILE_INVALID"),
        ("false", 1, "the editor `false` failed"),
    ] {
        let mut command = person.command(&person.project(), &["config", "edit"]);
        let terminal = Terminal::start(command.env("EDITOR", editor));
        terminal.sees(words);
        assert_eq!(terminal.ends().exit, Some(exit), "{editor}");
    }
    assert_eq!(fs::read_to_string(person.config_file()).unwrap(), "plan.concurrency = \n");
}
