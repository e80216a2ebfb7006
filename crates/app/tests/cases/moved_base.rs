//! A file that the user edits while a plan changes it too.

use std::process::Stdio;

use super::support::{CommandOutput, TestUser};

#[test]
fn a_diff_of_a_file_that_was_edited_while_the_plan_ran_says_whose_lines_are_removed() {
    let person = TestUser::new();
    person.write("shared", "one\ntwo\n");
    person.write("alone", "alone\n");
    person.write("go", "hold\n");
    let script = "echo plan >> shared; echo plan >> alone; echo re''ady; while test \"$(cat go)\" = hold; do sleep 0.05; done";
    // The command itself is in the logs too, with its quotes.
    let mut running =
        person.command(&person.project(), &["run", "--format", "json", "--", "sh", "-c", script]);
    let running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("ready") {
        std::thread::yield_now();
    }
    person.write("shared", "one\nmine\ntwo\n");
    person.write("go", "go\n");
    let ended = CommandOutput::of(&running.wait_with_output().unwrap());
    assert_eq!(ended.exit, 0, "{ended:?}");
    let words = "# shared changed in your tree while the plan ran: this compares the plan's file with yours, so lines that you added are shown as removed\n";
    let patch = person.agents(&["plan", "diff", "@last"]);
    assert_eq!(patch.stdout.matches(words).count(), 1, "{patch:?}");
    let (before, after) = patch.stdout.split_once(words).unwrap();
    assert!(before.contains("diff --git a/alone b/alone"), "{patch:?}");
    assert!(after.contains("diff --git a/shared b/shared") && after.contains("-mine"), "{patch:?}");
    // It is still a patch of your file.
    std::fs::write(person.home().join("patch"), &patch.stdout).unwrap();
    person.git(&["apply", "--check", &person.home().join("patch").display().to_string()]);
    let stat = person.agents(&["plan", "diff", "@last", "--stat"]);
    assert!(stat.stdout.contains("(changed in your tree while the plan ran)"), "{stat:?}");
    assert_eq!(person.json(&["plan", "diff", "@last"]).data()["files"][1]["base"], "moved");
    // Edits from after the run change nothing of what the plan's changes are shown upon.
    person.write("alone", "alone\nmine\n");
    let again = person.agents(&["plan", "diff", "@last"]);
    assert_eq!(again.stdout, patch.stdout);
    let refused = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert_eq!(refused.exit, 4, "{refused:?}");
    assert_eq!(person.read("shared"), "one\nmine\ntwo\n");
}
