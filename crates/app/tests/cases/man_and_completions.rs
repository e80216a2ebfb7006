//! Completions and the manual.

use super::support::TestUser;

#[test]
fn every_shell_gets_its_completions() {
    let person = TestUser::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = person.agents(&["completions", shell]);
        assert_eq!(said.exit, 0);
        assert!(said.stdout.contains("artifacts"), "{shell}");
    }
    assert_eq!(person.agents(&["completions", "tcsh"]).exit, 2);
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
