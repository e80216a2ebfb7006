//! Tools from the command line: listed, shown, checked; and called by a node of an actor, through the gate.

use serde_json::json;

use super::support::TestUser;

#[test]
fn the_tools_are_listed_with_their_groups() {
    let person = TestUser::new();
    let said = person.json(&["tool", "list"]);
    let data = said.data();
    let tools: Vec<(String, String)> = data["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| (tool["group"].as_str().unwrap().to_owned(), tool["name"].as_str().unwrap().to_owned()))
        .collect();
    let expected = [
        ("read", "read_file"),
        ("read", "list_directory"),
        ("read", "search_files"),
        ("write", "write_file"),
        ("write", "edit_file"),
        ("write", "delete_file"),
        ("write", "move_file"),
        ("shell", "run_command"),
        ("", "plan.decide"),
        ("context", "request_context"),
        ("context", "query_history"),
        ("context", "get_context_budget"),
    ];
    assert_eq!(tools, expected.map(|(group, name)| (group.to_owned(), name.to_owned())));
}

#[test]
fn the_arguments_of_a_tool_are_checked_with_all_that_is_wrong() {
    let person = TestUser::new();
    assert_eq!(person.json(&["tool", "show", "read_file"]).data()["input"]["required"], json!(["path"]));
    assert_eq!(person.json(&["tool", "check", "read_file", r#"{"path": "a"}"#]).exit, 0);
    let said = person.json(&["tool", "check", "read_file", r#"{"paht": "a", "limit": 0}"#]);
    assert_eq!((said.exit, said.code().as_str()), (2, "TOOL_ARGUMENTS"), "{said:?}");
    let told = said.envelope()["messages"].to_string();
    for part in ["`path` is missing", "did you mean `path`?", "`limit`"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let said = person.json(&["tool", "show", "reed_file"]);
    assert_eq!((said.exit, said.code().as_str()), (3, "TOOL_NOT_FOUND"), "{said:?}");
    assert!(said.envelope().to_string().contains("did you mean `read_file`?"), "{said:?}");
}

#[test]
fn a_node_that_calls_a_tool_changes_files_through_the_gate() {
    let person = TestUser::new();
    person.write("a.txt", "one\ntwo\n");
    let actor = "nodes:\n  \
        edit: {tool: edit_file, with: {path: a.txt, old: two, new: three}}\n  \
        move: {needs: [edit], tool: move_file, with: {from: a.txt, to: d/b.txt}}\n  \
        run: {needs: [move], tool: run_command, with: {command: [sh, -c, cat > c.txt], stdin: hello, cwd: d}}\n  \
        read: {needs: [run], tool: read_file, with: {path: d/b.txt}}\n";
    person.write(".cleveragents/actors/tidy.yaml", actor);
    let said = person.json(&["run", "tidy it up", "--actor", "tidy"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(person.read("a.txt"), "one\ntwo\n", "nothing is applied yet");
    let logs = person.json(&["plan", "logs", "@last"]);
    assert!(logs.envelope().to_string().contains("one\\nthree\\n"), "{logs:?}");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("d/b.txt"), "one\nthree\n");
    assert_eq!(person.read("d/c.txt"), "hello");
    assert!(!person.project().join("a.txt").exists());
}

#[test]
fn a_tool_that_fails_fails_its_node_with_words_and_leaves_the_files() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    for (with, words) in [
        ("{tool: edit_file, with: {path: a.txt, old: none, new: x}}", "NO_MATCH"),
        ("{tool: read_file, with: {path: ../x}}", "PATH_ESCAPES"),
        ("{tool: run_command, with: {command: exit 3}}", "status 3"),
    ] {
        person.write(".cleveragents/actors/wrong.yaml", &format!("nodes:\n  only: {with}\n"));
        let said = person.json(&["run", "try it", "--actor", "wrong"]);
        assert_eq!(said.exit, 6, "{said:?}");
        let errors = person.json(&["plan", "errors", "@last"]);
        assert!(errors.envelope().to_string().contains(words), "{words}: {errors:?}");
    }
    assert_eq!(person.read("a.txt"), "one\n");
}
