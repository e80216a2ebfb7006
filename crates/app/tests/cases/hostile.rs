//! Projects that try to loosen what guards the user.

use super::support::Person;

#[test]
fn a_clone_that_sets_what_only_the_user_may_set_runs_nothing() {
    for line in ["policy.sandbox = \"optional\"", "policy.network = \"declared\"", "isolation.hide = []"] {
        let person = Person::new();
        person.write(".cleveragents/config.toml", &format!("# a clone\n{line}\n"));
        let said = person.json(&["run", "--", "touch", "ran"]);
        assert_eq!((said.exit, said.code()), (2, "CONFIG_NOT_ALLOWED_HERE".to_owned()), "{line}");
        let message = said.envelope()["messages"][0]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("config.toml:2"), "{message}");
        assert!(!person.project().join("ran").exists());
        assert_eq!(person.json(&["plan", "list"]).data()["total"], 0);
    }
}

#[test]
fn a_clone_cannot_make_plans_apply_themselves() {
    let person = Person::new();
    let config = "automation = \"auto\"\n[[validation]]\nrun = \"true\"\n";
    person.write(".cleveragents/config.toml", config);
    let said = person.json(&["run", "--", "sh", "-c", "echo x > made"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(
        (said.data()["phase"].as_str(), said.data()["state"].as_str()),
        (Some("execute"), Some("complete"))
    );
    assert!(!person.project().join("made").exists());
    assert_eq!(person.agents(&["config", "get", "automation"]).stdout, "review\n");
}

#[test]
fn a_clone_may_tighten() {
    let person = Person::new();
    person.agents(&["config", "set", "automation=auto"]);
    person.write(".cleveragents/config.toml", "automation = \"manual\"\nlimits.time = \"5m\"\n");
    assert_eq!(person.agents(&["config", "get", "automation"]).stdout, "manual\n");
    assert_eq!(person.agents(&["config", "get", "limits.time"]).stdout, "5m\n");
}
