//! Foreign text on its way to a terminal and into the store: escape sequences and secrets.

use std::fs;
use std::process::Command;

use super::support::{TestUser, answer};
use super::terminal::Terminal;

/// A title, a clipboard, a cleared screen, a colour, text that runs backwards, and the same with one byte.
const EVIL: &str = "\u{1b}]0;PWN\u{7}\u{1b}]52;c;eA==\u{7}\u{1b}[2J\u{1b}[35m\u{202e}\u{9b}2J";

/// What a terminal was sent that it obeys, without our own colours and cleared lines.
fn obeyed(text: &str) -> Vec<String> {
    let ours = [
        "\u{1b}[0m",
        "\u{1b}[1m",
        "\u{1b}[2m",
        "\u{1b}[31m",
        "\u{1b}[32m",
        "\u{1b}[33m",
        "\u{1b}[36m",
        "\u{1b}[2K",
        "\u{1b}[1A",
    ];
    let left = ours.iter().fold(text.to_owned(), |text, own| text.replace(own, ""));
    let is_obeyed = |letter: char| {
        (letter.is_control() && !"\r\n\t".contains(letter)) || matches!(letter, '\u{202a}'..='\u{202e}')
    };
    left.lines().filter(|line| line.contains(is_obeyed)).map(str::to_owned).collect()
}

#[test]
fn nothing_of_a_clone_reaches_a_terminal_raw_whatever_its_size() {
    let person = TestUser::new();
    // TOML has its own way to write such bytes.
    let name = EVIL.chars().map(|letter| format!("\\u{:04X}", u32::from(letter))).collect::<String>();
    let config =
        format!("[[validation]]\nname = \"V {name}\"\nrun = \"cat evil; sleep 0.5; test -f made\"\n");
    person.write(".cleveragents/config.toml", &config);
    person.write("evil", &format!("{EVIL}\nend\n"));
    person.write("src/evil.rs", &format!("// {EVIL}\nfn evil() {{}}\n"));
    let script = "cat evil; cat evil >&2; sleep 0.5; cp evil made";
    for columns in [0, 80] {
        let run = ["run", "--title", EVIL, "--", "sh", "-c", script];
        for words in [
            &run[..],
            &["plan", "logs", "@last"],
            &["plan", "watch", "@last"],
            &["plan", "status", "@last"],
            &["plan", "diff", "@last"],
            &["plan", "diff", "@last", "--format", "json"],
            &["plan", "list", "--format", "yaml"],
            &["plan", "tree", "@last"],
            &["context", "assemble", "evil"],
            &["trust", "--list"],
            &["config", "list"],
        ] {
            let mut command = person.command(&person.project(), words);
            command.env_remove("CLEVERAGENTS_POLICY_TRUST");
            let mut terminal = Terminal::with_columns(&command, columns);
            if words[0] == "run" && columns == 0 {
                terminal.sees("[y/N]");
                terminal.types("y\r");
            }
            let left = terminal.ends();
            assert_eq!(obeyed(&left.text), Vec::<String>::new(), "{words:?} at {columns} columns");
        }
    }
    let logs = person.agents(&["plan", "logs", "@last"]);
    assert!(logs.stdout.contains(EVIL), "a pipe gets what the command wrote: {logs:?}");
}

/// The name of a variable that no list of names knows, and its value.
const NAME: &str = "DEPLOY_PHRASE";
const VALUE: &str = "correct/horse+battery9staple";

fn with_value(person: &TestUser, words: &[&str]) -> Command {
    let mut command = person.command(&person.project(), words);
    command.env(NAME, VALUE);
    command
}

fn files_below(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

#[test]
fn a_variable_that_is_passed_is_a_secret_wherever_it_shows_up() {
    let person = TestUser::new();
    // Plain, in base64 with something before it, as in an address, and split by a colour.
    let script = r#"
        printf '%s\n' "$DEPLOY_PHRASE"
        printf 'me:%s' "$DEPLOY_PHRASE" | base64 -w0; echo
        printf '%s' "$DEPLOY_PHRASE" | sed 's|/|%2F|; s|+|%2B|'; echo
        printf '%s' "$DEPLOY_PHRASE" | sed 's|ery9|er\x1b[31my\x1b[0m9|'; echo
        printf '%s\n' "$DEPLOY_PHRASE" >&2
        echo "the end"
        exit 3
    "#;
    let words =
        ["run", "--pass-env", NAME, "--check", "echo $DEPLOY_PHRASE; false", "--", "sh", "-c", script];
    let said = answer(&mut with_value(&person, &words));
    let forms = [VALUE, "horse+batt", "Y29ycmVjdC9ob3JzZStiYXR0ZXJ5OXN0YXBs", "correct%2F"];
    let is_shown = |text: &str| forms.iter().any(|form| text.contains(form));
    assert!(said.stdout.contains("failed") || said.stderr.contains("status 3"), "{said:?}");
    assert!(!is_shown(&said.stdout) && !is_shown(&said.stderr), "{said:?}");
    // By a process that does not have the variable.
    for words in [
        &["plan", "logs", "@last"][..],
        &["plan", "logs", "@last", "--format", "json"],
        &["plan", "errors", "@last"],
        &["plan", "status", "@last", "--format", "json"],
    ] {
        let said = person.agents(words);
        assert!(!is_shown(&said.stdout) && !is_shown(&said.stderr), "{words:?}: {said:?}");
        assert_eq!(said.exit, 0, "{words:?}: {said:?}");
    }
    assert!(person.agents(&["plan", "logs", "@last"]).stdout.contains("[REDACTED:known:"), "it was there");
    // Nothing of it is stored.
    let data = person.home().join("data");
    let holds = |path: &std::path::PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(VALUE.len()).any(|part| part == VALUE.as_bytes())
    };
    let named: Vec<_> = files_below(&data).into_iter().filter(holds).collect();
    assert_eq!(named, Vec::<std::path::PathBuf>::new());
    // A file that the command wrote is kept exactly, and shown without it, also by another process.
    let words = ["run", "--pass-env", NAME, "--", "sh", "-c", "echo \"$DEPLOY_PHRASE\" > made"];
    let said = answer(&mut with_value(&person, &words));
    assert_eq!(said.exit, 0, "{said:?}");
    let diff = person.agents(&["plan", "diff", "@last"]);
    assert!(diff.stdout.contains("made") && !is_shown(&diff.stdout), "{diff:?}");
    assert_eq!(person.json(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("made"), format!("{VALUE}\n"));
}

#[test]
fn a_secret_is_taken_out_before_an_output_is_cut() {
    let person = TestUser::new();
    // The last 2,048 bytes begin amid the secret, whichever of these it is.
    for padding in (2_000..2_060).step_by(5) {
        let script =
            format!("printf '%s ' \"$DEPLOY_PHRASE\"; head -c {padding} /dev/zero | tr '\\0' x; exit 1");
        let words =
            ["run", "--pass-env", NAME, "--format", "json", "--check", "true", "--", "sh", "-c", &script];
        let said = answer(&mut with_value(&person, &words));
        let logs = person.agents(&["plan", "logs", "@last", "--format", "json"]);
        let errors = person.agents(&["plan", "errors", "@last", "--format", "json"]);
        for text in [&said.stdout, &logs.stdout, &errors.stdout] {
            assert!(!text.contains("staple") && !text.contains("y9sta"), "{padding}: {text}");
        }
    }
}

#[test]
fn variables_that_are_no_secrets_stay() {
    let person = TestUser::new();
    let words = ["run", "--pass-env", "LANG", "--pass-env", "HOME", "--", "sh", "-c", "echo $LANG $HOME"];
    let mut command = person.command(&person.project(), &words);
    assert_eq!(answer(command.env("LANG", "en_GB.UTF-8")).exit, 0);
    let logs = person.agents(&["plan", "logs", "@last"]);
    assert!(logs.stdout.contains("en_GB.UTF-8") && !logs.stdout.contains("REDACTED"), "{logs:?}");
}
