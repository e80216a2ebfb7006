//! Secrets in other writings, in names of files, and under another key: none is shown.

use std::fs;
use std::process::Command;

use super::support::{CommandOutput, TestUser, answer};

/// The name of a variable that no list of names knows, and its value.
const NAME: &str = "DEPLOY_PHRASE";
const VALUE: &str = "Correct+horse9battery.Staple";

fn with_value(person: &TestUser, words: &[&str]) -> Command {
    let mut command = person.command(&person.project(), words);
    command.env(NAME, VALUE);
    command
}

/// Runs a script that gets the secret.
fn run_with_value(person: &TestUser, script: &str) -> CommandOutput {
    let said = answer(&mut with_value(person, &["run", "--pass-env", NAME, "--", "sh", "-ec", script]));
    assert_eq!(said.exit, 0, "{said:?}");
    said
}

fn assert_hidden(said: &CommandOutput, forms: &[&str], words: &[&str]) {
    let is_shown = |text: &str| forms.iter().any(|form| text.contains(form));
    assert!(!is_shown(&said.stdout) && !is_shown(&said.stderr), "{words:?}: {said:?}");
}

#[test]
fn a_secret_in_hexadecimal_digits_is_not_shown() {
    let person = TestUser::new();
    let hex = |upper: bool| -> String {
        let digits = |byte: u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
        VALUE.bytes().map(digits).collect()
    };
    let (upper, lower) = (hex(true), hex(false));
    let script = "printf '%s' \"$DEPLOY_PHRASE\" | od -An -v -tx1 | tr -d ' \\n' > lower; \
                  tr a-f A-F < lower > upper; cat lower upper";
    let said = run_with_value(&person, script);
    let forms = [upper.as_str(), lower.as_str()];
    assert_hidden(&said, &forms, &["run"]);
    for words in [&["plan", "logs", "@last"][..], &["plan", "diff", "@last"]] {
        let said = person.agents(words);
        assert_hidden(&said, &forms, words);
        assert_eq!(said.stdout.matches("[REDACTED:known:").count(), 2, "{words:?}: {said:?}");
    }
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!((person.read("lower"), person.read("upper")), (lower, upper), "contents are exact");
}

#[test]
fn a_secret_in_the_name_of_a_file_is_not_shown() {
    let person = TestUser::new();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    person.write("had", "had\n");
    let script = format!(
        "mkdir \"dir-$DEPLOY_PHRASE\"; echo new > \"dir-$DEPLOY_PHRASE/file\"; echo x > {token}.txt; \
         mv had \"moved-$DEPLOY_PHRASE\"; echo more >> \"moved-$DEPLOY_PHRASE\""
    );
    let forms = [VALUE, token.as_str()];
    let said = run_with_value(&person, &script);
    assert_hidden(&said, &forms, &["run"]);
    let look = |args: &[&str]| {
        for format in ["plain", "json", "yaml"] {
            let words = [args, &["--format", format]].concat();
            let said = person.agents(&words);
            assert_hidden(&said, &forms, &words);
        }
    };
    for args in [
        &["plan", "diff", "@last"][..],
        &["plan", "diff", "@last", "--stat"],
        &["plan", "diff", "@last", "--name-only"],
        &["plan", "status", "@last"],
        &["plan", "artifacts", "@last"],
        &["plan", "logs", "@last"],
        &["plan", "list"],
    ] {
        look(args);
    }
    let patch = person.agents(&["plan", "diff", "@last"]);
    assert!(patch.stdout.contains("dir-[REDACTED:known:"), "{patch:?}");
    assert!(patch.stderr.contains("not a patch to apply"), "{patch:?}");
    // A mark chooses nothing, and least of all what it would fit as a pattern.
    let names = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
    let marked = names.lines().find(|name| name.ends_with(".txt")).unwrap();
    let refused = person.json(&["plan", "apply", "@last", "--yes", "--reject", marked]);
    assert_eq!((refused.exit, refused.code().as_str()), (2, "NO_SUCH_HUNK"), "{refused:?}");
    assert!(refused.stdout.contains("choose the file by a pattern"), "{refused:?}");
    // What stands in the way is named without it too.
    person.write(&format!("{token}.txt"), "mine\n");
    look(&["plan", "diff", "@last", "--conflicts"]);
    look(&["plan", "apply", "@last", "--yes"]);
    fs::remove_file(person.project().join(format!("{token}.txt"))).unwrap();
    look(&["plan", "apply", "@last", "--yes"]);
    look(&["plan", "status", "@last"]);
    assert_eq!(person.read(&format!("dir-{VALUE}/file")), "new\n", "names are exact");
    assert_eq!(person.read(&format!("{token}.txt")), "x\n");
    look(&["plan", "undo", "@last", "--yes"]);
    assert_eq!(person.read("had"), "had\n");
}

#[test]
fn with_another_key_nothing_is_shown_and_the_key_is_named() {
    let person = TestUser::new();
    run_with_value(&person, "echo \"$DEPLOY_PHRASE\" > made");
    let data = person.home().join("data");
    let (key, known) = (data.join("redaction.key"), data.join("redaction.known"));
    let whole = fs::read(&key).unwrap();
    person.write("notes.md", &format!("the phrase of the shop is {VALUE}\n"));
    let looks: [&[&str]; 5] = [
        &["plan", "diff", "@last"],
        &["plan", "logs", "@last"],
        &["plan", "list"],
        &["context", "assemble", "the phrase of the shop"],
        &["doctor"],
    ];
    let damages: [(&str, &dyn Fn()); 4] = [
        ("replaced", &|| fs::write(&key, [7; 32]).unwrap()),
        ("flipped", &|| fs::write(&key, [&[whole[0] ^ 1], &whole[1..]].concat()).unwrap()),
        ("shortened", &|| fs::write(&key, &whole[..10]).unwrap()),
        ("removed", &|| fs::remove_file(&key).unwrap()),
    ];
    for (damage, make) in damages {
        make();
        for words in looks {
            let said = person.agents(words);
            assert_hidden(&said, &[VALUE], words);
            assert!(said.exit != 0 && said.stderr.contains("redaction.key"), "{damage} {words:?}: {said:?}");
            assert!(!key.exists() || fs::read(&key).unwrap() != whole, "{damage}: it is not made anew");
        }
        fs::write(&key, &whole).unwrap();
        let said = person.agents(&["plan", "diff", "@last"]);
        assert!(said.exit == 0 && said.stdout.contains("[REDACTED:known:"), "{damage}: {said:?}");
        assert_eq!(person.agents(&["doctor"]).exit, 0, "{damage}");
    }
    // A line that was cut is no other key, and swallows no line after it.
    let lines = fs::read_to_string(&known).unwrap();
    fs::write(&known, format!("{lines}key 3f")).unwrap();
    run_with_value(&person, "echo again > made");
    let said = person.agents(&["plan", "logs", "@last"]);
    assert_eq!(said.exit, 0, "{said:?}");
    // The way out where the key is lost: what was known is given up.
    fs::remove_file(&key).unwrap();
    let said = person.agents(&["plan", "list"]);
    assert!(said.stderr.contains("redaction.known"), "{said:?}");
    fs::remove_file(&known).unwrap();
    assert_eq!(person.agents(&["plan", "list"]).exit, 0);
}
