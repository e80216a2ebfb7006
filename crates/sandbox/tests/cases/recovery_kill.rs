//! Killed at any step, an apply is finished or taken back, never torn.
//!
//! The process that is killed is this test binary, started again to run [`killed_process`] alone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;
use sandbox::journal::{JournalEnding, JournalStep};

use super::journal_stage::*;

const CHILD: &str = "cases::recovery_kill::killed_process";

/// What the child does, in the stage at `DIR`, until it dies at step `KILL_AT`.
#[test]
fn killed_process() {
    let (Ok(act), Ok(dir)) = (std::env::var("ACT"), std::env::var("DIR")) else { return };
    let dir = PathBuf::from(dir);
    let kill_at = std::env::var("KILL_AT").unwrap().parse().unwrap();
    let journals = journals(&dir.join("data")).with_hooks(nth(kill_at, die));
    match act.as_str() {
        "recover" => {
            let recovery = journals.recover().unwrap();
            assert!(recovery.stuck.is_empty(), "{:?}", recovery.stuck);
            recovery.settled.into_iter().for_each(|settled| drop(settled.retire().unwrap()));
        }
        scenario => {
            let (before, after) = trees(scenario);
            let request = request(&dir.join("project"), changes(&before, &after));
            carry_out(&journals, request).unwrap().retire().unwrap();
        }
    }
}

fn trees(scenario: &str) -> (TestTree, TestTree) {
    let large = |seed: u8, mib: usize, extra: usize| {
        let bytes = (0..(mib << 20) + extra).map(|at| (at.wrapping_mul(31) >> 7) as u8 ^ seed).collect();
        tree([("large", TestNode::File(bytes, 0o644)), ("small", TestNode::File(vec![seed], 0o644))])
    };
    match scenario {
        "every kind" => every_kind(),
        "grows" => (large(1, 8, 5), large(2, 9, 0)),
        "shrinks" => (large(1, 9, 0), large(2, 8, 5)),
        "stays" => (large(1, 8, 5), large(2, 8, 5)),
        "many" => {
            let file =
                |n: u32, text: &str| (format!("d{}/f{n}", n % 7), file(&format!("{text} {n}\n").repeat(90)));
            ((0..300).map(|n| file(n, "before")).collect(), (30..330).map(|n| file(n, "after it")).collect())
        }
        "set-id" => {
            let tree = |text: &str| {
                let file = |mode| TestNode::File(text.as_bytes().to_vec(), mode);
                tree([("p", file(0o6755)), ("q", file(0o4755)), ("r", file(0o1644))])
            };
            let mut after = tree("short");
            // One loses its bit on purpose.
            after.insert("q".to_owned(), TestNode::File(b"short".to_vec(), 0o755));
            (tree("much longer than that"), after)
        }
        "directories" => {
            let before = tree([
                ("a", file("one\n")),
                ("d", TestNode::Dir(0o2751)),
                ("d/e", TestNode::Dir(0o1777)),
                ("d/e/f", file("two\n")),
                ("empty", TestNode::Dir(0o700)),
            ]);
            (before, tree([("a", file("three\n"))]))
        }
        other => panic!("{other}"),
    }
}

/// Lets a child act until it is killed at step `kill_at`; whether it was.
fn let_die(act: &str, dir: &Path, kill_at: u32) -> bool {
    let variables = [("ACT", act), ("DIR", dir.to_str().unwrap()), ("KILL_AT", &kill_at.to_string())];
    was_killed(&child(CHILD, &variables).output().unwrap())
}

/// What one recovery after another comes to: the tree that must be there.
fn expected(stage: &JournalFixture, before: &TestTree, after: &TestTree) -> TestTree {
    let recovery = stage.journals().recover().unwrap();
    assert!(recovery.stuck.is_empty() && recovery.busy.is_empty(), "{recovery:?}");
    match recovery.settled.into_iter().next().map(|settled| settled.retire().unwrap()) {
        Some(JournalEnding::Applied { .. }) => shown(after),
        Some(JournalEnding::RolledBack { why, left }) => panic!("nobody edited anything: {why:?} {left:?}"),
        Some(JournalEnding::NeverBegan) => shown(before),
        // Nothing was open: it was retired before the kill, or not yet begun.
        None if stage.journals().undo_ids().unwrap().is_empty() => shown(before),
        None => shown(after),
    }
}

#[test]
fn a_kill_at_any_step_of_an_apply_leaves_all_or_nothing() {
    let (before, after) = trees("every kind");
    let steps = u32::try_from(steps_of(&before, &after).len()).unwrap();
    assert!(steps > 60, "{steps}");
    let (mut finished, mut never) = (0, 0);
    for kill_at in 1..=steps {
        let stage = JournalFixture::new(&before);
        fs::hard_link(stage.root.join("grows"), stage.dir.path().join("second name")).unwrap();
        let inode = fs::metadata(stage.root.join("grows")).unwrap().ino();
        assert!(let_die("every kind", stage.dir.path(), kill_at), "step {kill_at} of {steps}");
        let expected = expected(&stage, &before, &after);
        assert_eq!(stage.survey(), expected, "step {kill_at}");
        let kept = fs::metadata(stage.root.join("grows")).unwrap();
        assert_eq!((kept.ino(), kept.nlink()), (inode, 2));
        assert_eq!(stage.journals().open_ids().unwrap(), []);
        if expected == shown(&after) { finished += 1 } else { never += 1 }
    }
    assert!(finished > 50 && never == 2, "{finished} {never}");
}

#[test]
fn a_kill_at_any_step_of_a_recovery_is_recovered_from() {
    let (before, after) = trees("every kind");
    let steps = u32::try_from(steps_of(&before, &after).len()).unwrap();
    let mut kills = 0;
    for kill_at in 3..=steps {
        let stage = JournalFixture::new(&before);
        assert!(let_die("every kind", stage.dir.path(), kill_at));
        for again in [1 + kill_at % 11, 1 + kill_at % 5] {
            kills += u32::from(let_die("recover", stage.dir.path(), again));
        }
        assert_eq!(expected(&stage, &before, &after), shown(&after));
        assert_eq!(stage.survey(), shown(&after), "step {kill_at}");
    }
    assert!(kills > steps, "{kills}");
}

#[test]
fn a_kill_at_each_step_of_one_recovery_is_recovered_from() {
    let (before, after) = trees("every kind");
    let all = steps_of(&before, &after);
    let first_op = all.iter().position(|step| matches!(step, JournalStep::Op { .. })).unwrap();
    let in_the_middle = u32::try_from(first_op + (all.len() - first_op) / 3).unwrap();
    let mut kills = 0;
    for again in 1.. {
        let stage = JournalFixture::new(&before);
        assert!(let_die("every kind", stage.dir.path(), in_the_middle));
        let killed = let_die("recover", stage.dir.path(), again);
        assert_eq!(expected(&stage, &before, &after), shown(&after));
        assert_eq!(stage.survey(), shown(&after), "step {again}");
        if !killed {
            break;
        }
        kills += 1;
    }
    assert!(kills > 25, "{kills}");
}

#[test]
fn a_kill_inside_a_write_in_place_is_finished() {
    for scenario in ["grows", "shrinks", "stays"] {
        let (before, after) = trees(scenario);
        let steps = steps_of(&before, &after);
        let mut kills = 0;
        for (index, step) in steps.iter().enumerate() {
            if !matches!(step, JournalStep::Op { n: 0, .. }) || index % 3 != 0 {
                continue;
            }
            let stage = JournalFixture::new(&before);
            let inode = fs::metadata(stage.root.join("large")).unwrap().ino();
            assert!(let_die(scenario, stage.dir.path(), u32::try_from(index + 1).unwrap()));
            // Somewhere within the recovery too.
            let_die("recover", stage.dir.path(), 4);
            assert_eq!(expected(&stage, &before, &after), shown(&after));
            assert!(stage.survey() == shown(&after), "{scenario} {step:?}");
            assert_eq!(fs::metadata(stage.root.join("large")).unwrap().ino(), inode);
            kills += 1;
        }
        assert!(kills >= 3, "{kills}");
    }
}

#[test]
fn a_kill_from_outside_at_a_moment_that_nobody_chose_leaves_all_or_nothing() {
    let (before, after) = trees("many");
    let mut finished = 0;
    for round in 0..12_u32 {
        let stage = JournalFixture::new(&before);
        let variables = [("ACT", "many"), ("DIR", stage.dir.path().to_str().unwrap()), ("KILL_AT", "0")];
        let mut process = child(CHILD, &variables);
        let mut process = process.stdout(std::process::Stdio::null()).spawn().unwrap();
        // The journal's file appears, then grows to its commit mark, then files change: wait for one of those, busily.
        let watched = stage.root.join(format!("d{}/f{}", round % 7, 30 + round * 20));
        let goal = |bytes: Vec<u8>| round % 3 == 0 || bytes.starts_with(b"after");
        let open = stage.data.join("journal").join(format!("{ID}.journal"));
        while process.try_wait().unwrap().is_none() {
            if open.exists() && fs::read(&watched).is_ok_and(goal) {
                break;
            }
        }
        process.kill().unwrap();
        process.wait().unwrap();
        let expected = expected(&stage, &before, &after);
        assert!(stage.survey() == expected, "round {round}");
        finished += u32::from(expected == shown(&after));
    }
    assert!(finished > 0);
}

/// The same without the privilege to write to a file and leave its set-user-id bit, which root has.
fn let_die_without_privilege(act: &str, dir: &Path, kill_at: u32) -> bool {
    let variables = [("ACT", act), ("DIR", dir.to_str().unwrap()), ("KILL_AT", &kill_at.to_string())];
    let plain = child(CHILD, &variables);
    let mut bound = std::process::Command::new("setpriv");
    bound.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(plain.get_program()).args(plain.get_args());
    bound.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    was_killed(&bound.output().unwrap())
}

#[test]
fn a_kill_after_a_write_loses_no_set_id_bits() {
    let (before, after) = trees("set-id");
    let steps = u32::try_from(steps_of(&before, &after).len()).unwrap();
    for kill_at in 3..=steps {
        for again in 0..4 {
            let stage = JournalFixture::new(&before);
            assert!(let_die_without_privilege("set-id", stage.dir.path(), kill_at), "step {kill_at}");
            if again > 0 {
                let_die_without_privilege("recover", stage.dir.path(), again * 3);
            }
            let expected = expected(&stage, &before, &after);
            assert_eq!(stage.survey(), expected, "step {kill_at}, {again}");
        }
    }
}

#[test]
fn a_kill_after_a_write_loses_no_capabilities() {
    const CAPABILITIES: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let name = c"security.capability";
    // Only root gives capabilities to a file.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (before, after) = trees("set-id");
    let steps = u32::try_from(steps_of(&before, &after).len()).unwrap();
    for kill_at in 3..=steps {
        let stage = JournalFixture::new(&before);
        for file in ["p", "q"] {
            rustix::fs::setxattr(stage.root.join(file), name, &CAPABILITIES, XattrFlags::empty()).unwrap();
        }
        assert!(let_die("set-id", stage.dir.path(), kill_at), "step {kill_at}");
        let expected = expected(&stage, &before, &after);
        assert_eq!(stage.survey(), expected, "step {kill_at}");
        for file in ["p", "q"] {
            let mut value = [0; 64];
            let length = rustix::fs::getxattr(stage.root.join(file), name, &mut value);
            assert_eq!(
                length.map(|length| value[..length].to_vec()),
                Ok(CAPABILITIES.to_vec()),
                "step {kill_at}"
            );
        }
    }
}

#[test]
fn a_rollback_that_is_killed_at_a_directory_dresses_it() {
    let (before, after) = trees("directories");
    let all = steps_of(&before, &after);
    let sync = u32::try_from(all.iter().position(|step| matches!(step, JournalStep::Sync)).unwrap()).unwrap();
    let mut kills = 0;
    for again in 1.. {
        let stage = JournalFixture::new(&before);
        let (root, mode) = (stage.root.clone(), |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777);
        assert!(let_die("directories", stage.dir.path(), sync));
        fs::write(root.join("a"), "mine\n").unwrap();
        let was_killed = let_die("recover", stage.dir.path(), again);
        for settled in stage.journals().recover().unwrap().settled {
            settled.retire().unwrap();
        }
        let modes = ["d", "d/e", "empty"].map(|path| mode(&root.join(path)));
        assert_eq!(modes, [0o2751, 0o1777, 0o700], "step {again}");
        assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "mine\n");
        if !was_killed {
            break;
        }
        kills += 1;
    }
    assert!(kills > 6, "{kills}");
}
