//! All plans on one screen: in a pseudo-terminal, and without one.

use std::process::Stdio;

use serde_json::json;

use super::support::{TestUser, alive};
use super::terminal::Terminal;

const ENTER: &str = "\r";

#[test]
fn without_a_terminal_the_table_is_printed_once() {
    let person = TestUser::new();
    let said = person.agents(&["top"]);
    assert!(said.exit == 0 && said.stdout.starts_with("no plans yet\n"), "{said:?}");
    person.write("a", "old\n");
    let first = person.plan("echo one > a");
    person.plan("echo two > a");
    assert_eq!(person.json(&["run", "--", "false"]).exit, 1);
    let said = person.agents(&["top"]);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines[0], "0 running of 4 slots, 3 need you, 1 conflict to come", "{said:?}");
    assert!(lines[2].contains("failed") && lines[2].contains("see errors"), "{said:?}");
    assert!(lines[4].contains("ready") && lines[4].contains("! 1"), "{said:?}");
    let data = person.json(&["top"]).data();
    assert_eq!((&data["needs_you"], &data["conflicts"]), (&json!(3), &json!(1)));
    let row = &data["plans"][2];
    assert_eq!(
        (&row["plan_id"], &row["group"], &row["needs"], &row["forecast"][0]["kind"]),
        (&json!(first), &json!("needs_you"), &json!("apply it"), &json!("same_lines"))
    );
}

/// A program that is killed when the test ends early.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_plan_is_seen_while_it_runs_and_is_cancelled_from_the_screen() {
    let person = TestUser::new();
    let script = "echo half > f; echo it is; sleep 600";
    let mut run = person.command(&person.project(), &["run", "-q", "--", "sh", "-c", script]);
    let mut run = Running(run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let mut top = Terminal::call(&person, &["top"]);
    top.shows("running  ");
    top.types("l");
    top.shows("│it is ");
    top.types("q");
    top.shows("c cancel");
    top.types("c");
    top.shows("cancel plan for good? y/n");
    top.types("n");
    top.shows("nothing was cancelled");
    assert_eq!(person.json(&["plan", "status"]).data()["state"], "processing", "only a yes is a yes");
    top.types("cy");
    top.shows(": 1 change stored");
    assert_eq!(run.0.wait().unwrap().code(), Some(5));
    assert_eq!(alive(&person), 0);
    assert_eq!(person.json(&["plan", "status"]).data()["state"], "cancelled");
    top.shows("cancelled  ");
    top.types("?");
    top.shows("any key goes back");
    top.types("x");
    top.shows("q quit");
    top.types("q");
    let left = top.ends();
    assert_eq!((left.exit, left.is_restored), (Some(0), true), "{left:?}");
}

#[test]
fn a_plan_is_looked_at_reviewed_and_applied_from_the_screen() {
    let person = TestUser::new();
    person.write("a", "old\n");
    person.plan("echo new > a; echo b > b");
    let mut top = Terminal::call(&person, &["top"]);
    top.shows("ready  ");
    top.types("d");
    top.shows("q back");
    // Who only looks cannot apply.
    top.types(ENTER);
    top.types("q");
    top.shows("q quit");
    top.types("a");
    top.shows("2 of 2 hunks taken");
    top.types("q");
    top.shows("nothing was applied");
    assert_eq!(person.read("a"), "old\n");
    top.types("a");
    top.shows("2 of 2 hunks taken");
    top.types("nr");
    top.shows("1 of 2 hunks taken");
    top.types(ENTER);
    top.shows("left out: b");
    assert_eq!((person.read("a").as_str(), person.project().join("b").exists()), ("new\n", false));
    top.types("\x03");
    let left = top.ends();
    assert_eq!((left.exit, left.is_restored), (Some(0), true), "{left:?}");
}

#[test]
fn the_screen_answers_keys_while_a_forecast_is_made() {
    let person = TestUser::new();
    let lines = |last: &str| (0..9_000).map(|no| format!("line {no}\n")).collect::<String>() + last;
    person.write("a", &lines("old\n"));
    for last in ["one", "two"] {
        person.plan(&format!("sed -i 's/^old$/{last}/' a"));
    }
    // What a forecast reads of both plans is gone, and one of the contents from which it is made anew does not come.
    let data = person.home().join("data");
    let rows = rusqlite::Connection::open(data.join("agents.db")).unwrap();
    assert_eq!(rows.execute("UPDATE footprints SET bytes = NULL", []), Ok(2));
    let hash: Vec<u8> = rows
        .query_row("SELECT after_hash FROM change_entries ORDER BY changeset LIMIT 1", [], |row| row.get(0))
        .unwrap();
    let content = content_file(&data.join("contents"), &hash);
    let holder = LeaseHolder::new(&content);
    let mut top = Terminal::call(&person, &["top"]);
    top.shows("ready  ");
    top.types("?");
    top.shows("any key goes back");
    top.types("x");
    top.shows("q quit");
    // Now it comes.
    drop(holder);
    top.shows("1 conflict to come");
    top.types("q");
    let left = top.ends();
    assert_eq!((left.exit, left.is_restored), (Some(0), true), "{left:?}");
}

/// Holds a lease on a file: who opens it waits until the lease is given up.
struct LeaseHolder(std::process::Child);

impl LeaseHolder {
    fn new(file: &std::path::Path) -> LeaseHolder {
        const HOLD: &str = "import fcntl, signal, sys\n\
            signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
            held = open(sys.argv[1], 'r+')\n\
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
            print('held', flush=True)\n\
            sys.stdin.read()\n";
        let mut command = std::process::Command::new("python3");
        command.args(["-c", HOLD]).arg(file);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        assert_eq!(&said, b"held\n");
        LeaseHolder(child)
    }
}

impl Drop for LeaseHolder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// The file below `dir` whose name is this hash.
fn content_file(dir: &std::path::Path, hash: &[u8]) -> std::path::PathBuf {
    let name: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else if entry.path().to_string_lossy().replace('/', "").ends_with(&name) {
                return entry.path();
            }
        }
    }
    panic!("no content {name}");
}
