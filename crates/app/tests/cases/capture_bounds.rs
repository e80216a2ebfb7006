//! Bounds of a capture: large files, many patterns, and names that other file systems read as `.git`.

use std::fs;

use super::support::Person;

#[test]
fn a_sparse_file_of_a_terabyte_stalls_no_capture() {
    let person = Person::new();
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
    let person = Person::new();
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
    let person = Person::new();
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
