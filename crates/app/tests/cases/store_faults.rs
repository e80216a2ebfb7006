//! Trouble that is nobody's fault: a store that others keep locked, that is full or holds what this version
//! does not know, clocks that were set back, a machine that was started anew; and requests that cannot be
//! met.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::json;

use super::disk::{mount_disk, with_own_mounts};
use super::support::{CommandOutput, TestUser, answer};
use super::workers::{ENDS_LATER, WorkerFixture};

/// The database, as any other program may open it.
fn database(person: &TestUser) -> Connection {
    Connection::open(person.home().join("data/agents.db")).unwrap()
}

/// Moves all of the store's log into its tables, unless others are reading it.
fn truncate_log(database: &Connection) -> Result<(), ()> {
    let is_busy: bool = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    if is_busy { Err(()) } else { Ok(()) }
}

/// A script that waits until somebody writes into a pipe of the gate.
fn waiting(office: &WorkerFixture, name: &str) -> String {
    assert!(Command::new("mkfifo").arg(office.gate.join(name)).status().unwrap().success());
    office.left(&format!(
        "echo began >> $G/began; read line < $G/{name}; echo $line > {name}; echo ran >> $G/ran"
    ))
}

fn go_on(office: &WorkerFixture, name: &str) {
    fs::write(office.gate.join(name), "go on\n").unwrap();
}

/// It failed with this code, and each of these words is in what was said.
fn assert_told(said: &CommandOutput, exit: i32, code: &str, words: &[&str]) {
    assert!(said.stderr.starts_with(&format!("error[{code}]: ")), "{said:?}");
    assert_eq!((said.exit, said.stdout.as_str()), (exit, ""), "{said:?}");
    assert!(said.stderr.contains("\nhint: "), "what to do: {said:?}");
    for word in words {
        assert!(said.stderr.contains(word), "`{word}` is not in {said:?}");
    }
}

#[test]
fn a_store_that_another_program_keeps_locked_is_told_as_busy_and_nothing_is_lost() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_ASYNC_LEASE", "1h")]);
    let worker = office.worker(&[]);
    let plan = waiting(&office, "pipe");
    office.until_lines("began", 1);
    let applied = office.data(&["run", "--apply", "--", "sh", "-c", "echo a > a"])["plan_id"].clone();
    let other = database(&office.person);
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    // The plan's command ends while nobody can write that down.
    go_on(&office, "pipe");
    let refused: [&[&str]; 4] = [
        &["run", "--", "touch", "x"],
        &["plan", "cancel", &plan],
        &["plan", "undo", applied.as_str().unwrap(), "--yes"],
        &["plan", "gc"],
    ];
    let refused = refused.map(|args| {
        let mut command = office.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for child in refused {
        let said = CommandOutput::of(&child.wait_with_output().unwrap());
        let words = ["locked for 10 seconds", "could not be written", "`agents.db`"];
        assert_told(&said, 1, "STORE_BUSY", &words);
    }
    assert_eq!(office.status(&plan)["state"], "processing", "who only reads waits for nobody");
    other.execute_batch("ROLLBACK").unwrap();

    let status = office.ended(&plan);
    assert_eq!((&status["state"], &status["changes"]["files"]), (&json!("complete"), &json!(1)), "{status}");
    assert_eq!(office.lines("ran").len(), 1, "what was done is not done again");
    assert_eq!(office.data(&["plan", "list"])["total"], 2, "of what was refused nothing is stored");
    assert_eq!(office.person.read("a"), "a\n", "nor was it done");
    let next = office.left("true");
    assert_eq!(office.ended(&next)["state"], "complete", "the worker goes on");
    worker.send(Signal::TERM);
    let (exit, report) = worker.answer();
    assert_eq!((exit, &report["succeeded"], &report["lost"]), (Some(0), &json!(2), &json!(0)), "{report}");
}

/// Fills the disk to its last byte; removing the file frees it again.
fn fill(dir: &Path) -> PathBuf {
    let path = dir.join("filler");
    let mut file = fs::File::create(&path).unwrap();
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
    path
}

#[test]
fn a_store_whose_disk_is_full_says_so_keeps_what_it_has_and_goes_on_when_there_is_room() {
    with_own_mounts(|| {
        let office = WorkerFixture::new();
        mount_disk(&office.person.home().join("data"), 16);
        let worker = office.worker(&[]);
        let before = office.left("echo kept > kept");
        assert_eq!(office.ended(&before)["state"], "complete");
        let data = office.person.home().join("data");
        // Neither a sandbox that is still being removed nor the log of the store leaves room for what is next.
        while fs::read_dir(data.join("sandboxes")).unwrap().next().is_some() {
            std::thread::yield_now();
        }
        while truncate_log(&database(&office.person)).is_err() {
            std::thread::yield_now();
        }
        let filler = fill(&data);
        for args in [&["run", "--", "touch", "x"][..], &["run", "--detach", "--", "touch", "x"]] {
            let said = answer(&mut office.command(args));
            assert_told(&said, 1, "STORE_FULL", &["is full", "nothing before it is lost", "free some space"]);
        }
        assert_eq!(office.status(&before)["state"], "complete", "what is there can be read");
        fs::remove_file(filler).unwrap();
        assert_eq!(office.data(&["plan", "list"])["total"], 1);
        let next = office.left("echo next > next");
        assert_eq!(office.ended(&next)["state"], "complete", "the worker goes on");
        for plan in [&before, &next] {
            assert_eq!(office.call(&["plan", "apply", plan, "--yes"]).0, 0);
        }
        assert_eq!(
            (office.person.read("kept"), office.person.read("next")),
            ("kept\n".to_owned(), "next\n".to_owned())
        );
        worker.send(Signal::TERM);
        assert_eq!(worker.answer().0, Some(0));
    });
}

#[test]
fn a_disk_so_full_that_the_store_cannot_be_opened_is_told_and_loses_nothing() {
    with_own_mounts(|| {
        let person = TestUser::new();
        let data = person.home().join("data");
        mount_disk(&data, 16);
        let plan = person.plan("echo a > a");
        let filler = fill(&data);
        for args in [&["plan", "list"][..], &["plan", "apply", &plan, "--yes"], &["worker"]] {
            let said = person.agents(args);
            assert_told(&said, 1, "STORE_FULL", &[data.to_str().unwrap(), "disk is full", "free some space"]);
        }
        fs::remove_file(filler).unwrap();
        assert_eq!(person.agents(&["plan", "apply", &plan, "--yes"]).exit, 0);
        assert_eq!(person.read("a"), "a\n");
    });
}

#[test]
fn a_plan_of_a_newer_program_is_left_to_that_and_keeps_nobody_waiting() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_PLAN_CONCURRENCY", "1")]);
    let worker = office.worker(&[]);
    let first = waiting(&office, "pipe");
    office.until_lines("began", 1);
    let (newer, last) = (office.left("echo newer > newer"), office.left("echo last > last"));
    let rows = database(&office.person);
    let spec: String =
        rows.query_row("SELECT spec FROM plans WHERE id = ?1", [&newer], |row| row.get(0)).unwrap();
    let teleports = "UPDATE plans SET spec = json_set(spec, '$.steps', json('[{\"node\": \"go\", \"teleport\": {}}]')) WHERE id = ?1";
    assert_eq!(rows.execute(teleports, [&newer]), Ok(1));
    let unknown: String =
        rows.query_row("SELECT spec FROM plans WHERE id = ?1", [&newer], |row| row.get(0)).unwrap();
    go_on(&office, "pipe");
    for plan in [&first, &last] {
        assert_eq!(office.ended(plan)["state"], "complete");
    }

    for verb in ["status", "execute", "cancel", "resume", "diff", "apply"] {
        let said = answer(&mut office.command(&["plan", verb, &newer]));
        assert_told(
            &said,
            1,
            "PLAN_UNREADABLE",
            &[&newer, "step `go`", "it was not changed", "use the version of `agents` that made it"],
        );
    }
    let listed = answer(&mut office.command(&["plan", "list"]));
    assert!(
        listed.exit == 0 && listed.stdout.contains("1 plan cannot be read by this version"),
        "{listed:?}"
    );
    let listed = office.data(&["plan", "list"]);
    assert_eq!(
        (listed["plans"].as_array().unwrap().len(), &listed["total"], &listed["unreadable"]),
        (2, &json!(3), &json!(1))
    );
    let left: (String, String) = rows
        .query_row(
            "SELECT p.spec, j.state FROM plans p JOIN jobs j ON j.head = p.head WHERE p.id = ?1",
            [&newer],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(left, (unknown, "queued".to_owned()), "it was left as it was");
    // Whoever knows what it says does it.
    assert_eq!(rows.execute("UPDATE plans SET spec = ?2 WHERE id = ?1", [&newer, &spec]), Ok(1));
    assert_eq!(office.ended(&newer)["state"], "complete");
    worker.send(Signal::TERM);
    let (exit, report) = worker.answer();
    assert_eq!((exit, &report["succeeded"], &report["failed"]), (Some(0), &json!(3), &json!(0)), "{report}");
}

#[test]
fn the_newest_plan_is_not_another_one_because_it_cannot_be_read() {
    let person = TestUser::new();
    person.plan("echo old > f");
    let newest = person.plan("echo new > f");
    assert_eq!(database(&person).execute("UPDATE plans SET spec = '{}' WHERE id = ?1", [&newest]), Ok(1));
    let said = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert_told(&said, 1, "PLAN_UNREADABLE", &[&newest]);
    assert!(!person.project().join("f").exists());
}

/// A library that sets the wall clock of whoever loads it back by a day. All other clocks are as they are.
fn clock_a_day_ago(dir: &Path) -> PathBuf {
    let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
    let text = "#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n\
                int clock_gettime(clockid_t id, struct timespec *at) {\n\
                    long said = syscall(SYS_clock_gettime, id, at);\n\
                    if (said == 0 && id == CLOCK_REALTIME) at->tv_sec -= 24 * 60 * 60;\n\
                    return (int)said;\n}\n";
    fs::write(&source, text).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    library
}

#[test]
fn a_wall_clock_that_was_set_back_a_day_moves_no_lease_and_the_last_plan_stays_the_last() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_ASYNC_LEASE", "5s")]);
    let library = clock_a_day_ago(&office.person.home());
    let back = |args: &[&str]| {
        let mut command = office.command(&[args, &["--format", "json"]].concat());
        answer(command.env("LD_PRELOAD", &library))
    };
    let created = |plan: &str| -> i64 {
        let of = "SELECT created FROM plans WHERE id = ?1";
        database(&office.person).query_row(of, [plan], |row| row.get(0)).unwrap()
    };
    let worker = office.worker(&[]);
    let running = waiting(&office, "pipe");
    office.until_lines("began", 1);
    // Seen from the day before, the plan is in good hands: whoever looks takes nothing from them.
    let status = back(&["plan", "status", &running]).data();
    assert_eq!((&status["state"], &status["broken_off"]), (&json!("processing"), &json!(false)));
    let refused = back(&["plan", "execute", &running]);
    assert_eq!((refused.exit, refused.code()), (4, "PLAN_BUSY".to_owned()), "{refused:?}");
    // What is made meanwhile is newer, whatever the clock says, and does its work.
    let made = office.gate.join("made");
    let script = format!("echo made > {}", made.display());
    let ran = back(&["run", "--writable", office.gate.to_str().unwrap(), "--", "sh", "-c", &script]);
    // The words of the program end where those of the command begin, so the format is that of the last line.
    assert_eq!(ran.exit, 0, "{ran:?}");
    let last = office.data(&["plan", "status", "@last"])["plan_id"].as_str().unwrap().to_owned();
    assert!(last > running && created(&last) < created(&running), "{last} {running}");
    assert!(made.exists());
    // Its owner beats on, and nobody took the plan from it.
    go_on(&office, "pipe");
    assert_eq!(office.ended(&running)["state"], "complete");
    let errors = office.data(&["plan", "errors", &running]);
    assert_eq!((office.lines("ran").len(), &errors["recorded"]), (1, &json!(0)), "{errors}");
    let cancelled = back(&["plan", "cancel", &running]);
    assert_eq!(cancelled.exit, 0, "{cancelled:?}");
    worker.send(Signal::TERM);
    assert_eq!(worker.answer().1["lost"], 0);
}

#[test]
fn the_leases_of_another_boot_are_taken_over_at_once() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_ASYNC_LEASE", "1h")]);
    let first = office.worker(&[]);
    let plan = office.left(ENDS_LATER);
    office.until_lines("tries", 1);
    first.kill_hard();
    // As after a start of the machine: its lease is of another boot and far from over, and nothing shows who had it.
    let boot =
        "UPDATE jobs SET boot = '00000000000000000000000001', lease_until = 1 << 60 WHERE state = 'running'";
    assert_eq!(database(&office.person).execute(boot, []), Ok(1));
    for file in fs::read_dir(office.person.home().join("data/workers")).unwrap().flatten() {
        fs::remove_file(file.path()).unwrap();
    }
    let _second = office.worker(&[]);
    let status = office.ended(&plan);
    assert_eq!((&status["state"], office.lines("tries").len()), (&json!("complete"), 2), "{status}");
}

#[test]
fn workers_have_no_names_that_could_be_the_same() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_PLAN_CONCURRENCY", "8")]);
    let said = answer(&mut office.command(&["worker", "--name", "one"]));
    assert!(said.exit == 2 && said.stderr.contains("--name"), "{said:?}");
    let workers = [office.worker(&[]), office.worker(&[])];
    let signs = || -> Vec<String> {
        let files = fs::read_dir(office.person.home().join("data/workers")).unwrap().flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let mut signs: Vec<String> = names.filter(|name| name.ends_with(".lock")).collect();
        signs.sort_unstable();
        signs
    };
    assert_eq!(signs().len(), 2, "each is known by its own sign");
    for worker in workers {
        let before = signs();
        worker.send(Signal::TERM);
        let (_, report) = worker.answer();
        let own = format!("{}.lock", report["worker"].as_str().unwrap());
        let others: Vec<String> = before.iter().filter(|sign| **sign != own).cloned().collect();
        assert_eq!((before.len(), signs()), (others.len() + 1, others), "it took its own sign with it");
    }
}

#[test]
fn a_cancel_of_what_has_ended_is_not_there_or_is_of_another_project_says_which() {
    let person = TestUser::new();
    let of = |answer: &CommandOutput| answer.data()["short_id"].as_str().unwrap().to_owned();
    let applied = of(&person.json(&["run", "--apply", "--", "sh", "-c", "echo a > a"]));
    let said = person.agents(&["plan", "cancel", &applied]);
    assert_told(&said, 4, "CANCEL_TOO_LATE", &[&applied, &format!("`agents plan undo {applied}`")]);
    assert_eq!(person.read("a"), "a\n");

    // Done and not applied is not over: it can still be given up, and that once.
    let done = of(&person.json(&["run", "--", "sh", "-c", "echo b > b"]));
    let first = person.json(&["plan", "cancel", &done]);
    assert_eq!((first.exit, &first.data()["cancel"]["already"]), (0, &json!(false)), "{first:?}");
    let again = person.json(&["plan", "cancel", &done]);
    assert_eq!((again.exit, &again.data()["cancel"]["already"]), (0, &json!(true)), "{again:?}");
    assert!(person.agents(&["plan", "cancel", &done]).stdout.contains("already"), "{again:?}");
    assert_eq!(person.agents(&["plan", "diff", &done, "--name-only"]).stdout, "b\n", "what it did is kept");

    for nobody in ["7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "no-such-plan", "../../etc", ""] {
        let said = person.agents(&["plan", "cancel", nobody]);
        assert_told(&said, 3, "PLAN_NOT_FOUND", &[nobody, "`agents plan list`"]);
    }

    // A plan is named by its id from anywhere; `@last` is that of the project one stands in.
    let other = person.home().join("other");
    fs::create_dir(&other).unwrap();
    let there = |args: &[&str]| answer(&mut person.command(&other, &[args, &["--format", "json"]].concat()));
    let here = person.json(&["plan", "use", "--", "true"]).data()["plan_id"].clone();
    let own = there(&["plan", "use", "--", "true"]);
    let foreign = of(&person.json(&["plan", "status", here.as_str().unwrap()]));
    assert_eq!(own.exit, 0, "{own:?}");
    let cancelled = there(&["plan", "cancel", "@last"]);
    assert_ne!(cancelled.data()["plan_id"], here, "{cancelled:?}");
    assert_eq!(person.json(&["plan", "status", &foreign]).data()["state"], "queued");
    let cancelled = there(&["plan", "cancel", &foreign]);
    assert_eq!((cancelled.exit, &cancelled.data()["plan_id"]), (0, &here), "{cancelled:?}");
    // Of another data directory nothing is known here.
    let elsewhere = person.home().join("elsewhere");
    let said = person.agents(&["plan", "cancel", &foreign, "--data-dir", elsewhere.to_str().unwrap()]);
    assert_told(&said, 3, "PLAN_NOT_FOUND", &[&foreign]);
}

#[test]
fn a_plan_that_is_applied_or_cancelled_is_not_resumed() {
    let person = TestUser::new();
    let applied = person.json(&["run", "--apply", "--", "sh", "-c", "echo a >> a"]).data();
    let applied = applied["short_id"].as_str().unwrap();
    let said = person.agents(&["plan", "resume", applied]);
    let undo = format!("`agents plan undo {applied}`");
    assert_told(&said, 4, "PLAN_FINAL", &[applied, "applied", "final", &undo]);
    assert_eq!(person.read("a"), "a\n", "nothing ran again");
    person.plan("echo b > b");
    assert_eq!(person.agents(&["plan", "cancel", "@last"]).exit, 0);
    let said = person.agents(&["plan", "resume", "@last"]);
    assert_told(&said, 4, "PLAN_FINAL", &["cancelled", "final", "`agents plan diff "]);
}

#[test]
fn a_lease_that_no_heartbeat_could_keep_is_refused_with_where_it_stands_and_what_is_allowed() {
    let person = TestUser::new();
    let mut command = person.command(&person.project(), &["worker"]);
    let said = answer(command.env("CLEVERAGENTS_ASYNC_LEASE", "2s"));
    let allowed = "a duration from 5s to 1h";
    for word in
        ["error[CONFIG_VALUE_INVALID]: ", "`async.lease`", "`2s`", "CLEVERAGENTS_ASYNC_LEASE", allowed]
    {
        assert!(said.exit == 2 && said.stderr.contains(word), "`{word}` is not in {said:?}");
    }
    let said = person.agents(&["config", "set", "async.lease=4s"]);
    assert!(said.exit == 2 && said.stderr.contains(allowed), "{said:?}");
    fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
    fs::write(person.config_file(), "async.max_workers = 2\nasync.lease = \"0s\"\n").unwrap();
    for args in [&["worker"][..], &["run", "--", "touch", "x"], &["plan", "list"]] {
        let said = person.agents(args);
        assert!(said.exit == 2 && said.stderr.contains(allowed), "{args:?}: {said:?}");
        assert!(said.stderr.contains("config.toml:2"), "the line is named: {said:?}");
    }
    fs::write(person.config_file(), "async.lease = \"5s\"\n").unwrap();
    assert_eq!(person.agents(&["run", "--", "true"]).exit, 0);
}

#[test]
fn the_log_of_another_database_beside_the_store_is_named_and_nothing_is_lost() {
    let person = TestUser::new();
    let plans = [person.plan("echo one > one"), person.plan("echo two > two")];
    let (file, log) = (person.home().join("data/agents.db"), person.home().join("data/agents.db-wal"));
    // One of another program, and one of an older version of ours.
    for setting in ["application_id = 7", "application_id = 1634168436; PRAGMA user_version = 1"] {
        let elsewhere = person.home().join(format!("other-{}.db", setting.len()));
        let other = Connection::open(&elsewhere).unwrap();
        other.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;").unwrap();
        other.execute_batch(&format!("PRAGMA {setting}; CREATE TABLE plan_heads (no);")).unwrap();
        fs::copy(elsewhere.with_extension("db-wal"), &log).unwrap();
        let before = (fs::read(&file).unwrap(), fs::read(&log).unwrap());
        for words in [&["plan", "list"][..], &["plan", "diff", "@last"], &["run", "--", "true"]] {
            let said = person.agents(words);
            assert_told(&said, 1, "STORE_FAILED", &["agents.db-wal is the log of another database", "move "]);
        }
        let doctor = person.agents(&["doctor"]);
        assert!(doctor.exit == 1 && doctor.stderr.contains("log of another database"), "{doctor:?}");
        assert!(
            (fs::read(&file).unwrap(), fs::read(&log).unwrap()) == before,
            "{setting}: nothing was written"
        );
        fs::remove_file(&log).unwrap();
        let listed = person.json(&["plan", "list"]).data();
        let ids: Vec<&str> = listed["plans"]
            .as_array()
            .unwrap()
            .iter()
            .map(|plan| plan["plan_id"].as_str().unwrap())
            .collect();
        assert!(ids.len() == 2 && plans.iter().all(|plan| ids.contains(&plan.as_str())), "{listed}");
    }
}
