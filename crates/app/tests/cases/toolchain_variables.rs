//! Variables that commands of a plan get from the environment: toolchains by default, others by a setting.

use std::fs;

use super::support::{TestUser, answer};

const PRINT: &str =
    "echo \"$RUSTUP_HOME|$CARGO_HOME|$MY_TOKEN|\"; ls $RUSTUP_HOME $CARGO_HOME; touch $CARGO_HOME/new";

/// Runs the script with variables of toolchains below the home, and a secret. Returns what it printed.
fn printed(person: &TestUser) -> String {
    for dir in ["tools/rustup/bin", "tools/cargo/bin"] {
        fs::create_dir_all(person.home().join(dir)).unwrap();
    }
    fs::write(person.home().join("tools/cargo/credentials.toml"), "token = 1\n").unwrap();
    let mut run = person.command(&person.project(), &["run", "--format", "json", "--", "sh", "-c", PRINT]);
    run.env("RUSTUP_HOME", person.home().join("tools/rustup"));
    run.env("CARGO_HOME", person.home().join("tools/cargo"));
    run.env("MY_TOKEN", "correct-horse-battery");
    let ran = answer(&mut run);
    let logs = person.json(&["plan", "logs", "@last"]);
    let calls = logs.data()["calls"].clone();
    format!("{}{}{}", ran.exit, calls[0]["stdout"].as_str().unwrap(), calls[0]["stderr"].as_str().unwrap())
}

#[test]
fn toolchains_are_found_by_their_variables_and_their_paths_are_not_redacted() {
    let person = TestUser::new_outside_tmp();
    let text = printed(&person);
    let tools = person.home().join("tools").display().to_string();
    assert!(text.starts_with(&format!("0{tools}/rustup|{tools}/cargo||\n")), "{text}");
    assert_eq!(text.matches("bin\n").count(), 2, "both directories are seen: {text}");
    assert!(!text.contains("REDACTED") && !text.contains("token"), "{text}");
    assert!(!person.home().join("tools/cargo/new").exists(), "cargo writes to a temporary copy");
}

#[test]
fn the_setting_decides_which_variables_pass_and_others_stay_secrets() {
    let person = TestUser::new_outside_tmp();
    assert_eq!(person.agents(&["config", "set", "isolation.pass_env=MY_TOKEN"]).exit, 0);
    let text = printed(&person);
    assert!(text.contains("||[REDACTED"), "passed, and taken out of what is shown: {text}");
    assert!(!text.contains("correct-horse"), "{text}");
}

#[test]
fn the_credentials_of_a_toolchain_elsewhere_are_hidden() {
    let person = TestUser::new_outside_tmp();
    printed(&person);
    let mut run =
        person.command(&person.project(), &["run", "--", "sh", "-c", "cat $CARGO_HOME/credentials.toml"]);
    run.env("CARGO_HOME", person.home().join("tools/cargo"));
    answer(&mut run);
    assert!(!person.printed().contains("token = 1"), "{}", person.printed());
}
