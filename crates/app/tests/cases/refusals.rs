//! The messages of refusals.

use serde_json::json;

use super::support::{TestUser, answer};

#[test]
fn a_plan_that_is_not_there_is_told() {
    let person = TestUser::new();
    let said = person.agents(&["plan", "status"]);
    assert_eq!((said.exit, said.stdout.as_str()), (3, ""));
    assert_eq!(
        said.stderr,
        "error[PLAN_NOT_FOUND]: there is no plan yet\n\nhint: start one with `agents run -- COMMAND`\n"
    );
    let said = person.json(&["plan", "diff", "01JB3QK7XM"]);
    assert_eq!((said.exit, said.code()), (3, "PLAN_NOT_FOUND".to_owned()));
}

#[test]
fn an_id_that_begins_several_names_all_of_them() {
    let person = TestUser::new();
    let ids = [person.plan("true"), person.plan("true")];
    let said = person.json(&["plan", "status", "0"]);
    assert_eq!((said.exit, said.code()), (2, "PLAN_AMBIGUOUS".to_owned()));
    let candidates = said.envelope()["messages"][0]["detail"]["candidates"].clone();
    assert_eq!(candidates, serde_json::json!(ids));
    let said = person.json(&["plan", "status", &ids[0].to_lowercase()]);
    assert_eq!(said.data()["plan_id"], ids[0]);
}

#[test]
fn a_conflict_writes_nothing_and_says_where() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    person.write("b.txt", "one\n");
    person.plan("echo plan > a.txt; echo plan > b.txt");
    person.write("a.txt", "mine\n");
    let said = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert_eq!((said.exit, said.stdout.as_str()), (4, ""), "{said:?}");
    let id = person.json(&["plan", "status"]).data()["short_id"].as_str().unwrap().to_owned();
    assert!(said.stderr.contains(&format!("error[CONFLICTS]: plan {id} ")), "{}", said.stderr);
    assert!(
        said.stderr
            .contains("not applied: 1 conflict, nothing was written\n  a.txt#1  you and the plan changed"),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains("--reject a.txt#1") && said.stderr.contains("--take a.txt#1"),
        "{}",
        said.stderr
    );
    assert_eq!((person.read("a.txt").as_str(), person.read("b.txt").as_str()), ("mine\n", "one\n"));
    let shown = person.agents(&["plan", "diff", "@last", "--conflicts"]);
    assert!(shown.stdout.contains("  yours:\n    mine\n  the plan's:\n    plan\n"), "{}", shown.stdout);
    let said = person.agents(&["plan", "apply", "@last", "--yes", "--take", "a.txt"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!((person.read("a.txt").as_str(), person.read("b.txt").as_str()), ("plan\n", "plan\n"));
}

#[test]
fn an_undo_over_later_edits_is_refused() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    person.plan("echo plan > a.txt");
    person.agents(&["plan", "apply", "@last", "--yes"]);
    person.write("a.txt", "mine\n");
    let said = person.json(&["plan", "undo", "@last", "--yes"]);
    assert_eq!((said.exit, said.code()), (4, "CONFLICTS".to_owned()));
    assert_eq!(person.read("a.txt"), "mine\n");
}

#[test]
fn what_matches_nothing_is_told_with_the_nearest() {
    let person = TestUser::new();
    person.plan("echo x > made.txt");
    let said = person.json(&["plan", "apply", "@last", "--yes", "--only", "mad.txt"]);
    assert_eq!((said.exit, said.code()), (2, "NO_SUCH_HUNK".to_owned()));
    let hint = said.envelope()["messages"][0]["suggestions"][0].as_str().unwrap().to_owned();
    assert!(hint.contains("`made.txt`"), "{hint}");
}

#[test]
fn a_plan_that_changed_nothing_has_nothing_to_apply() {
    let person = TestUser::new();
    person.plan("true");
    let said = person.json(&["plan", "apply", "@last", "--yes"]);
    assert_eq!((said.exit, said.code()), (4, "NOTHING_TO_APPLY".to_owned()));
    let said = person.json(&["plan", "apply", "@last", "--yes", "--allow-empty"]);
    assert_eq!(said.exit, 0, "{said:?}");
}

#[test]
fn undoing_what_is_not_applied_is_refused_without_a_question() {
    let person = TestUser::new();
    person.plan("echo x > f");
    let said = person.json(&["plan", "undo", "@last"]);
    assert_eq!((said.exit, said.code()), (4, "NOT_APPLIED".to_owned()));
}

#[test]
fn a_program_that_is_not_there_is_found_out_before_anything_is_stored() {
    let person = TestUser::new();
    let said = person.agents(&["run", "--", "no-such-program-at-all"]);
    assert_eq!(said.exit, 4);
    assert!(
        said.stderr
            .starts_with("error[PREFLIGHT_FAILED]: the plan cannot run as requested; nothing was stored\n"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("no-such-program-at-all"), "{}", said.stderr);
    assert_eq!(person.json(&["plan", "list"]).data()["total"], 0);
}

#[test]
fn the_network_is_refused_where_policy_says_never() {
    let person = TestUser::new();
    person.agents(&["config", "set", "policy.network=never"]);
    let said = person.json(&["run", "--network", "--", "true"]);
    assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()));
}

#[test]
fn a_project_that_is_not_there_is_told() {
    let person = TestUser::new();
    let said = person.json(&["run", "--project", "nowhere", "--", "true"]);
    assert_eq!((said.exit, said.code()), (3, "PROJECT_NOT_FOUND".to_owned()));
    let said = person.json(&["run", "--project", ".", "--project", "x=.", "--", "true"]);
    assert_eq!((said.exit, said.code()), (2, "PROJECT_NESTED".to_owned()));
}

#[test]
fn a_data_directory_that_cannot_be_made_is_told() {
    let person = TestUser::new();
    person.write("file", "");
    let mut command = person.command(&person.project(), &["plan", "list", "--data-dir", "file/data"]);
    let said = answer(&mut command);
    assert_eq!(said.exit, 1);
    assert!(said.stderr.starts_with("error[IO_FAILED]: the data directory "), "{}", said.stderr);
    assert!(said.stderr.contains("hint: use another data directory: `--data-dir DIR`"), "{}", said.stderr);
}

/// Puts a number where a database keeps the version of its form.
fn set_version(file: &std::path::Path, version: u32) -> Vec<u8> {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[60..64].copy_from_slice(&version.to_be_bytes());
    std::fs::write(file, &bytes).unwrap();
    bytes
}

#[test]
fn a_store_of_a_newer_program_is_named_so_and_left_as_it_is() {
    let person = TestUser::new();
    person.plan("true");
    let file = person.home().join("data/agents.db");
    let bytes = set_version(&file, 99);
    let commands: [&[&str]; 3] =
        [&["plan", "list"], &["run", "--", "touch", "x"], &["plan", "undo", "@last", "--yes"]];
    for command in commands {
        let said = person.json(command);
        assert_eq!((said.exit, said.code()), (1, "STORE_TOO_NEW".to_owned()), "{command:?}: {said:?}");
        let said = person.agents(command);
        assert!(said.stderr.contains("version 99") && said.stderr.contains("--data-dir DIR"), "{said:?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
}

#[test]
fn a_file_that_is_no_store_is_named_and_left_as_it_is() {
    let person = TestUser::new();
    let data = person.home().join("data");
    std::fs::create_dir(&data).unwrap();
    let file = data.join("agents.db");
    for content in ["", "something of mine\n"] {
        std::fs::write(&file, content).unwrap();
        let said = person.json(&["plan", "list"]);
        assert_eq!((said.exit, said.code()), (1, "STORE_FAILED".to_owned()), "{said:?}");
        let said = person.agents(&["plan", "list"]);
        assert!(
            said.stderr.contains("is not a store of this program")
                && said.stderr.contains("move the file away")
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
    }
}

#[test]
fn doctor_shows_the_machine_and_the_damage_though_the_store_cannot_be_used() {
    let person = TestUser::new();
    let data = person.home().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("agents.db"), "something of mine\n").unwrap();
    let said = person.json(&["doctor"]);
    assert_eq!((said.exit, said.code()), (1, "STORE_FAILED".to_owned()), "{said:?}");
    let found = said.data();
    assert!(found["sandbox"].as_array().unwrap().iter().any(|rung| rung["works"] == true), "{found}");
    assert_eq!((&found["git"]["works"], &found["store"]["works"]), (&json!(true), &json!(false)), "{found}");
    let why = found["store"]["detail"].as_str().unwrap();
    assert!(why.contains("is not a store of this program"), "{why}");
    let said = person.agents(&["doctor"]);
    assert!(said.stdout.contains("machine\n") && said.stdout.contains("no  store  "), "{said:?}");
    assert!(said.stderr.contains("move the file away"), "{said:?}");
}

#[test]
fn a_plan_that_was_taken_back_is_not_told_to_be_taken_back_again() {
    let person = TestUser::new();
    person.plan("touch made");
    person.agents(&["plan", "apply", "@last", "--yes"]);
    person.agents(&["plan", "undo", "@last", "--yes"]);
    for verb in ["execute", "resume", "cancel"] {
        let said = person.agents(&["plan", verb, "@last"]);
        assert!(said.exit == 4 && said.stderr.contains("was applied and undone"), "{verb}: {said:?}");
        assert!(
            said.stderr.contains("`agents plan apply ") && !said.stderr.contains("plan undo"),
            "{verb}: {said:?}"
        );
    }
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.agents(&["plan", "list", "--limit", "0"]).exit, 2);
}

#[test]
fn advice_repeats_what_was_typed_once() {
    let person = TestUser::new();
    person.write("a", "one\n");
    person.write("b", "one\n");
    person.plan("echo plan > a; echo plan > b");
    person.write("a", "mine\n");
    person.write("b", "mine\n");
    let said = person.agents(&["plan", "apply", "@last", "--yes", "--take", "a", "--take", "a"]);
    assert_eq!(said.exit, 4, "{said:?}");
    assert!(said.stderr.contains(" --take a --reject b#1`"), "{said:?}");
    assert!(said.stderr.contains(" --take a --take b#1`"), "{said:?}");
    assert!(!said.stderr.contains("--take a --take a"), "{said:?}");
}

#[test]
fn a_project_whose_name_is_no_text_is_worked_in_and_one_that_cannot_be_used_says_why() {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let person = TestUser::new();
    let name = OsString::from_vec(b"sh\xffop".to_vec());
    let odd = person.home().join(&name);
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join("a"), "old\n").unwrap();
    let words = |project: &OsString| -> Vec<OsString> {
        let mut words: Vec<OsString> = ["run", "--project"].map(OsString::from).into();
        words.push(project.clone());
        words.extend(["--", "sh", "-c", "echo new > a"].map(OsString::from));
        words
    };
    let said = person.agents(&words(&odd.clone().into_os_string()));
    assert_eq!(said.exit, 0, "{said:?}");
    let applied = super::support::answer(&mut person.command(&odd, &["plan", "apply", "@last", "--yes"]));
    assert_eq!(applied.exit, 0, "{applied:?}");
    assert_eq!(std::fs::read_to_string(odd.join("a")).unwrap(), "new\n");
    // Where the person stands in it, and by a name that is given to it.
    let named = OsString::from_vec([b"odd=", odd.as_os_str().as_bytes(), b":ro"].concat());
    let mut reading = words(&named);
    reading.truncate(4);
    reading.extend(["cat", "a"].map(OsString::from));
    let said = person.agents(&reading);
    assert_eq!(said.exit, 0, "{said:?}");
    let said = super::support::answer(&mut person.command(&odd, &["run", "--", "true"]));
    assert_eq!(said.exit, 0, "{said:?}");
    // What cannot be used says why.
    std::fs::write(odd.join("file"), "").unwrap();
    let inside = OsString::from_vec([odd.as_os_str().as_bytes(), b"/no\xfene"].concat());
    for (project, why) in [
        (inside, "No such file or directory"),
        (odd.join("file").into_os_string(), "is not a directory"),
        (odd.join("file/x").into_os_string(), "Not a directory"),
        (OsString::new(), "a project needs a directory"),
    ] {
        let said = person.agents(&words(&project));
        assert!(said.exit != 0 && said.stderr.contains(why), "{project:?}: {said:?}");
    }
}
