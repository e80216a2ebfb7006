//! Bounds of a capture: large files, many patterns, and names that other file systems read as `.git`.

use std::fs;
use std::process::Stdio;

use super::support::TestUser;

#[test]
fn a_sparse_file_of_a_terabyte_stalls_no_capture() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    let said = person.json(&["run", "--", "sh", "-ec", "truncate -s 1T sparse; echo two >> a.txt"]);
    assert_eq!((said.exit, said.data()["changes"]["files"].as_u64()), (0, Some(2)), "{said:?}");
    let said = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert!(said.exit != 0 && said.stderr.contains("sparse"), "{said:?}");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes", "--only", "a.txt"]).exit, 0);
    assert_eq!(person.read("a.txt"), "one\ntwo\n");
}

#[test]
fn no_spelling_of_a_repository_gets_into_a_plan() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    let names = [
        ".GIT",
        ".Git ",
        ".git.",
        "git~1",
        "GIT~1",
        ".git::$INDEX_ALLOCATION",
        ".g\u{200c}it",
        ".HG",
        "sub/.gIt",
    ];
    for name in names {
        person.write("names", name);
        let script = "n=$(cat names); mkdir -p \"$n\"; echo evil > \"$n/config\"; date +%N >> a.txt";
        let said = person.json(&["run", "--", "sh", "-ec", script]);
        assert_eq!((said.exit, said.data()["changes"]["files"].as_u64()), (0, Some(1)), "{name} {said:?}");
        assert_eq!(said.data()["changes"]["not_captured"]["protected"], 1, "{name} {said:?}");
        let said = person.agents(&["plan", "apply", "@last", "--yes"]);
        assert_eq!(said.exit, 0, "{name} {said:?}");
        assert!(!person.project().join(name).exists(), "{name}");
    }
}

#[test]
fn patterns_beyond_their_bound_are_not_heeded_and_that_is_told() {
    let person = TestUser::new();
    person.write(".gitignore", "*.log\n");
    for dir in ["a", "b", "c"] {
        let lines: String = (0..30_000).map(|number| format!("{dir}{number}*x\n")).collect();
        person.write(&format!("{dir}/.gitignore"), &lines);
    }
    let said = person.agents(&[
        "run",
        "--",
        "sh",
        "-ec",
        "for d in a b c; do echo x > $d/f; echo x > $d/y.log; done",
    ]);
    assert_eq!(said.exit, 0, "{said:?}");
    let status = person.agents(&["plan", "status", "@last"]);
    assert!(status.stdout.contains("too many ignore patterns"), "{status:?}");
    // The first patterns count, also where later ones do not.
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "a/f\nb/f\nc/f\n");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(fs::read_to_string(person.project().join("c/f")).unwrap(), "x\n");
    fs::remove_file(person.project().join("b/.gitignore")).unwrap();
    fs::remove_file(person.project().join("c/.gitignore")).unwrap();
    person.write("a/.gitignore", "x\n");
    assert_eq!(person.agents(&["run", "--", "sh", "-ec", "echo more > a/g"]).exit, 0);
    let status = person.agents(&["plan", "status", "@last"]);
    assert!(!status.stdout.contains("too many ignore patterns"), "{status:?}");
}

/// Names a directory in a directory, and so on.
const DEEP: usize = 2000;

#[test]
fn a_chain_of_nested_directories_is_captured_in_the_time_of_a_cancel() {
    let person = TestUser::new();
    person.write(".gitignore", "*.log\n");
    // Every directory could have rules of its own.
    let script = format!(
        "python3 - <<'X'\nimport os\nfor _ in range({DEEP}):\n    os.mkdir('d'); os.chdir('d')\nopen('f', 'w').write('deep')\nopen('f.log', 'w').write('deep')\nX\necho ready; sleep 1000"
    );
    let mut command = person.command(&person.project(), &["run", "--", "sh", "-ec", &script]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("\nready") {}
    let cancelled = person.json(&["plan", "cancel", "@last"]);
    assert_eq!((cancelled.exit, running.wait().unwrap().code()), (0, Some(5)), "{cancelled:?}");
    assert_eq!(cancelled.data()["cancel"]["sandbox_kept_in"], serde_json::Value::Null, "{cancelled:?}");
    let names = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
    assert_eq!(names, format!("{}f\n", "d/".repeat(DEEP)));
}

#[test]
fn what_a_plan_moves_into_a_repository_is_named_where_it_is_left_out() {
    let person = TestUser::new();
    person.write("hooks/pre-commit", "#!/bin/sh\n");
    person.write("sub/keep", "one\n");
    let ran =
        person.agents(&["run", "--", "sh", "-ec", "git status >&2; mv hooks sub/.git; echo two >> sub/keep"]);
    let told = "1 new repository file left out: sub/.git/pre-commit";
    assert!(ran.exit == 0 && format!("{}{}", ran.stdout, ran.stderr).contains(told), "{ran:?}");
    let diff = person.agents(&["plan", "diff", "@last"]);
    assert!(diff.stderr.contains(told), "{diff:?}");
    let status = person.agents(&["plan", "status", "@last"]);
    assert!(status.stdout.contains(told), "{status:?}");
    let applied = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert!(applied.exit == 0 && applied.stderr.contains(told), "{applied:?}");
    // What git itself writes anew in a repository that was there is not worth a word.
    person.git(&["add", "-A"]);
    let ran = person.agents(&["run", "--", "sh", "-ec", "touch sub/keep; git status; echo x > y"]);
    assert!(ran.exit == 0 && !format!("{}{}", ran.stdout, ran.stderr).contains("left out"), "{ran:?}");
    assert_eq!(person.json(&["plan", "status", "@last"]).data()["changes"]["not_captured"]["protected"], 1);
    // Nor is every protected path a repository.
    person.agents(&["config", "set", "paths.protected=vendor"]);
    let ran = person.agents(&["run", "--", "sh", "-ec", "mkdir vendor; echo x > vendor/lib.c; echo x > z"]);
    assert!(ran.exit == 0 && !format!("{}{}", ran.stdout, ran.stderr).contains("repository"), "{ran:?}");
}
