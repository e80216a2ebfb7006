//! The invariants of a plan: given with the plan, by its action, its project and its user.

use std::fs;

use serde_json::{Value, json};

use super::model_world::{ModelFixture, Wire, says};
use super::support::TestUser;

fn user_says(person: &TestUser, settings: &str) {
    fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
    fs::write(person.config_file(), settings).unwrap();
}

/// The decisions of the newest plan of a kind: what was chosen.
fn decided(person: &TestUser, kind: &str) -> Vec<String> {
    let tree = person.json(&["plan", "tree"]).data();
    let all = tree["decisions"].as_array().unwrap_or_else(|| panic!("{tree}")).clone();
    let of_kind = all.iter().filter(|decision| decision["kind"] == json!(kind));
    of_kind.map(|decision| decision["chosen"].as_str().unwrap().to_owned()).collect()
}

fn failed(data: &Value) -> Value {
    data["validations"]["failed"].clone()
}

#[test]
fn what_must_hold_is_joined_over_plan_action_project_and_user_in_this_order() {
    let person = TestUser::new();
    user_says(&person, "invariants = [\"of the user\", \"Keep the  API\"]\n");
    person.write(".cleveragents/config.toml", "invariants = [{ max_files = 9 }, \"keep the api\"]\n");
    person.write(
        ".cleveragents/actions/tidy.yaml",
        "description: Tidy up\nactor: {run: touch new.txt}\ninvariants: [\"of the action\", \"max_lines=50\"]\n",
    );
    let said =
        person.json(&["run", "tidy", "--invariant", "of the plan", "--invariant", "never=keep/**,*.lock"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let expected = "of the plan (of the plan)\nnever touch keep/**, *.lock (of the plan, checked)\n\
                    of the action (of the action)\nchange at most 50 lines (of the action, checked)\n\
                    touch at most 9 files (of the project, checked)\nkeep the api (of the project)\n\
                    of the user (of the user)";
    assert_eq!(decided(&person, "invariants"), [expected]);
    assert_eq!(said.data()["validations"]["passed"], json!(3), "{said:?}");
}

#[test]
fn a_rule_of_the_project_the_user_or_the_plan_holds_for_a_command() {
    let person = TestUser::new();
    person.write("keep/a.txt", "a\n");
    let run = |more: &[&str]| {
        person
            .json(&[&["run"][..], more, &["--", "sh", "-c", "echo b >> keep/a.txt; touch new.txt"]].concat())
    };
    assert_eq!(run(&[]).exit, 0);
    let by_plan = run(&["--invariant", "never=keep/**"]);
    assert_eq!((by_plan.exit, failed(&by_plan.data())), (4, json!(["invariant: never touch keep/**"])));
    user_says(&person, "invariants = [{ max_files = 1 }]\n");
    let by_user = run(&[]);
    assert_eq!((by_user.exit, failed(&by_user.data())), (4, json!(["invariant: touch at most 1 file"])));
    person.write(
        ".cleveragents/config.toml",
        "invariants = [{ only = [\"new.txt\"], text = \"only news\" }]\n",
    );
    let both = run(&[]);
    let broken = json!(["invariant: only news", "invariant: touch at most 1 file"]);
    assert_eq!((both.exit, failed(&both.data())), (4, broken));
    assert_eq!(person.json(&["plan", "apply", "@last", "--yes"]).exit, 4);
    assert_eq!(person.read("keep/a.txt"), "a\n");
}

#[test]
fn a_rule_is_held_against_what_was_chosen_at_apply() {
    let person = TestUser::new();
    person.write("keep/a.txt", "a\n");
    let command = ["--", "sh", "-c", "echo b >> keep/a.txt; touch new.txt"];
    let said = person.json(&[&["run", "--invariant", "never=keep/**"][..], &command].concat());
    assert_eq!(said.exit, 4, "{said:?}");
    let whole = person.json(&["plan", "apply", "@last", "--yes"]);
    assert_eq!((whole.exit, whole.code()), (4, "VALIDATION_FAILED".to_owned()), "{whole:?}");
    let part = person.json(&["plan", "apply", "@last", "--yes", "--reject", "keep"]);
    assert_eq!(part.exit, 0, "{part:?}");
    assert!(person.project().join("new.txt").exists());
    assert_eq!(person.read("keep/a.txt"), "a\n");
}

#[test]
fn a_rule_that_is_none_is_refused_with_its_place() {
    let person = TestUser::new();
    let typed = person.json(&["run", "--invariant", "never=a[", "--", "true"]);
    assert_eq!((typed.exit, typed.code()), (2, "USAGE".to_owned()), "{typed:?}");
    person.write(".cleveragents/config.toml", "invariants = [\n  \"fine\",\n  { never = [\"a[\"] },\n]\n");
    let said = person.agents(&["run", "--", "true"]);
    assert_eq!(said.exit, 2, "{said:?}");
    assert!(said.stderr.contains("CONFIG_VALUE_INVALID"), "{}", said.stderr);
    assert!(
        said.stderr.contains("config.toml:3") && said.stderr.contains("`a[` is not a glob"),
        "{}",
        said.stderr
    );
    person.write(".cleveragents/config.toml", "");
    person.write(
        ".cleveragents/actions/x.yaml",
        "description: x\nactor: {run: \"true\"}\ninvariants: [\"only=a[\"]\n",
    );
    let said = person.json(&["run", "x"]);
    assert_eq!((said.exit, said.code()), (2, "DEFINITION_INVALID".to_owned()), "{said:?}");
    let many: Vec<String> = (0..60).map(|at| format!("\"user {at}\"")).collect();
    user_says(&person, &format!("invariants = [{}]\n", many.join(", ")));
    person.write(
        ".cleveragents/config.toml",
        &format!("invariants = [{}]\n", many.join(", ").replace("user", "here")),
    );
    let said = person.json(&["run", "--", "true"]);
    assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()), "{said:?}");
}

#[test]
fn what_the_plan_and_the_user_say_is_told_to_the_model_the_stronger_first() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("Nothing to do.")]));
    let settings = fs::read_to_string(world.person.config_file()).unwrap();
    user_says(&world.person, &format!("invariants = [\"Prices stay whole\"]\n{settings}"));
    let answer = world.run(&["--invariant", "Keep it small"]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let system = world.server.asked().body["messages"][0]["content"].as_str().unwrap().to_owned();
    let told =
        "What must hold (where two conflict, the earlier holds):\n- Keep it small\n- Prices stay whole";
    assert!(system.contains(told), "{system}");
}

#[test]
fn what_must_hold_is_set_and_shown_like_any_setting() {
    let person = TestUser::new();
    let list = "invariants=[\"Keep it small\", { never = [\"vendor/**\"] }]";
    assert_eq!(person.agents(&["config", "set", list]).exit, 0);
    person.write(".cleveragents/config.toml", "invariants = [\"of here\"]\n");
    let shown = person.agents(&["config", "get", "invariants"]).stdout;
    assert_eq!(shown, "[\"Keep it small\", { never = [\"vendor/**\"] }, \"of here\"]\n");
    assert_eq!(person.agents(&["config", "set", "invariants=never=dist/**"]).exit, 0);
    let text = fs::read_to_string(person.config_file()).unwrap();
    assert_eq!(text, "invariants = [{ never = [\"dist/**\"] }]\n");
}

#[test]
fn no_check_takes_the_name_of_a_rule() {
    let person = TestUser::new();
    let name = "invariant: never touch vendor/**";
    let run = ["run", "--invariant", "never=vendor/**", "--", "sh", "-c", "mkdir vendor; touch vendor/a"];
    person
        .write(".cleveragents/config.toml", &format!("[[validation]]\nname = \"{name}\"\nrun = \"true\"\n"));
    let said = person.agents(&run);
    assert_eq!(said.exit, 2, "{said:?}");
    assert!(
        said.stderr.contains("error[CONFIG_VALUE_INVALID]: `validation.name` cannot be"),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains("config.toml:2")
            && said.stderr.contains("a text that does not begin with `invariant: `"),
        "{}",
        said.stderr
    );
    person.write(".cleveragents/config.toml", "[[validation]]\nrun = \"invariant: x\"\n");
    assert!(person.agents(&run).stderr.contains("config.toml:1"), "a command is a name too");
    person.write(".cleveragents/config.toml", "");
    person.write(
        ".cleveragents/actions/x.yaml",
        &format!("description: x\nactor: {{run: \"true\"}}\nvalidations:\n  - {{name: \"{name}\", run: \"true\"}}\n"),
    );
    let said = person.agents(&["run", "x"]);
    assert!(said.exit == 2 && said.stderr.contains("x.yaml:4"), "{said:?}");
    assert!(said.stderr.contains("the name of a check cannot begin with `invariant: `"), "{}", said.stderr);
    let said = person.json(&["run", "--check", name, "--", "true"]);
    assert_eq!((said.exit, said.code()), (2, "USAGE".to_owned()), "{said:?}");
}

#[test]
fn rules_in_the_same_words_are_one_line_that_tells_all_that_breaks_them() {
    let person = TestUser::new();
    user_says(
        &person,
        "invariants = [{ max_files = 1, text = \"small\" }, { never = [\"b\"], text = \"small\" }]\n",
    );
    let said = person.json(&["run", "--", "touch", "a", "b"]);
    assert_eq!((said.exit, failed(&said.data())), (4, json!(["invariant: small"])), "{said:?}");
    let said = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert_eq!(said.stderr.matches("invariant: small").count(), 1, "{}", said.stderr);
    let logs = person.agents(&["plan", "logs", "@last"]).stdout;
    assert!(logs.contains("2 files are touched, 1 are allowed; b must not be touched"), "{logs}");
}

#[test]
fn a_rule_is_read_whatever_its_spaces_and_case_and_a_slip_is_told() {
    let person = TestUser::new();
    let said = person.json(&["run", "--invariant", "Never = new.txt", "--", "touch", "new.txt"]);
    assert_eq!((said.exit, failed(&said.data())), (4, json!(["invariant: never touch new.txt"])), "{said:?}");
    let said = person.agents(&["run", "--invariant", "nevr=new.txt", "--", "true"]);
    assert!(said.exit == 2 && said.stderr.contains("did you mean `never=`?"), "{said:?}");
}
