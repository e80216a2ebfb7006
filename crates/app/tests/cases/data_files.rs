//! Something else in the place of a file of the data directory or the settings: told by name, never waited
//! for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::TestUser;

fn data(person: &TestUser) -> PathBuf {
    person.home().join("data")
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn something_else_in_the_place_of_a_data_file_is_an_error_that_names_it() {
    let person = TestUser::new();
    person.plan("echo x > made");
    for name in ["agents.db", "agents.db-wal", "agents.db-shm", "redaction.key", "breakers.jsonl"] {
        let place = data(&person).join(name);
        let kept = person.home().join("kept");
        let was_there = fs::rename(&place, &kept).is_ok();
        let others: [(&str, &dyn Fn()); 4] = [
            ("pipe", &|| make_pipe(&place)),
            ("directory", &|| fs::create_dir(&place).unwrap()),
            ("device", &|| symlink("/dev/zero", &place).unwrap()),
            ("link", &|| symlink(person.home().join("none"), &place).unwrap()),
        ];
        for (what, put) in others {
            put();
            for args in [&["plan", "list"][..], &["run", "--", "true"], &["doctor"]] {
                let said = person.agents(args);
                let path = place.display().to_string();
                assert!(said.exit != 0 && said.stderr.contains(&path), "{name} {what} {args:?} {said:?}");
                assert!(said.stderr.contains(what), "{name} {what} {args:?} {said:?}");
            }
            if what == "directory" {
                fs::remove_dir(&place).unwrap()
            } else {
                fs::remove_file(&place).unwrap()
            }
        }
        if was_there {
            fs::rename(&kept, &place).unwrap();
        }
        assert_eq!(person.agents(&["plan", "list"]).exit, 0, "{name}");
    }
}

#[test]
fn what_is_no_file_among_the_journals_is_set_aside_and_told() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    let plan = person.plan("echo two >> a.txt");
    let outside = person.home().join("outside");
    fs::write(&outside, "mine\n").unwrap();
    type Other<'a> = (&'a str, &'a dyn Fn(&Path));
    let others: [Other<'_>; 4] = [
        ("pipe", &|place| make_pipe(place)),
        ("link", &|place| symlink(&outside, place).unwrap()),
        ("nowhere", &|place| symlink(person.home().join("none"), place).unwrap()),
        ("directory", &|place| fs::create_dir(place).unwrap()),
    ];
    for (number, (what, put)) in others.into_iter().enumerate() {
        let place = data(&person).join(format!("journal/01JZZZZZZZZZZZZZZZZZZZZZZ{number}.journal"));
        put(&place);
        let said = person.agents(&["plan", "list"]);
        assert_eq!(said.exit, 0, "{what} {said:?}");
        assert!(
            said.stderr.contains("was moved aside") && said.stderr.contains("journal.no-file"),
            "{what} {said:?}"
        );
        assert!(!place.exists() && !place.is_symlink(), "{what}");
        let again = person.agents(&["plan", "list"]);
        assert!(again.exit == 0 && !again.stderr.contains("moved aside"), "{what} {again:?}");
    }
    assert_eq!(fs::read_to_string(outside).unwrap(), "mine\n");
    assert_eq!(person.agents(&["plan", "apply", &plan, "--yes"]).exit, 0);
    assert_eq!(person.read("a.txt"), "one\ntwo\n");
    // The same among those that are kept for undo, and among the signs of workers.
    let kept = fs::read_dir(data(&person).join("undo")).unwrap().flatten().next().unwrap().path();
    fs::remove_file(&kept).unwrap();
    make_pipe(&kept);
    make_pipe(&data(&person).join("workers/01JZZZZZZZZZZZZZZZZZZZZZZ9.lock"));
    let said = person.agents(&["plan", "undo", &plan, "--yes"]);
    assert_ne!(said.exit, 0, "{said:?}");
    for args in [&["plan", "list"][..], &["run", "--", "true"], &["doctor"]] {
        let said = person.agents(args);
        assert_eq!(said.exit, 0, "{args:?} {said:?}");
    }
}

#[test]
fn a_pipe_in_the_place_of_settings_is_an_error_that_names_it() {
    let person = TestUser::new();
    for place in [person.config_file(), person.project().join(".cleveragents/config.toml")] {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        make_pipe(&place);
        let said = person.agents(&["run", "--", "true"]);
        assert!(said.exit != 0 && said.stderr.contains("config.toml"), "{said:?}");
        fs::remove_file(&place).unwrap();
    }
}

#[test]
fn a_pipe_in_the_place_of_a_content_is_not_waited_for() {
    let person = TestUser::new();
    let plan = person.plan("head -c 100000 /dev/zero > large");
    let folders = fs::read_dir(data(&person).join("contents")).unwrap().map(|folder| folder.unwrap().path());
    let files = folders.filter(|folder| folder.is_dir()).flat_map(|folder| fs::read_dir(folder).unwrap());
    let content = files.map(|file| file.unwrap().path()).next().unwrap();
    let kept = person.home().join("kept");
    fs::rename(&content, &kept).unwrap();
    make_pipe(&content);
    let refused = person.agents(&["plan", "apply", &plan, "--yes"]);
    assert!(refused.exit != 0 && refused.stderr.contains("your files are as they were"), "{refused:?}");
    fs::rename(&kept, &content).unwrap();
    assert_eq!(person.agents(&["plan", "apply", &plan, "--yes"]).exit, 0);
}

#[test]
fn a_link_in_the_place_of_the_sandboxes_is_not_followed_and_named() {
    let person = TestUser::new();
    person.plan("echo x > made");
    let sandboxes = data(&person).join("sandboxes");
    let elsewhere = person.home().join("elsewhere");
    // What is there looks like a sandbox whose owner is gone.
    fs::create_dir_all(elsewhere.join("photos")).unwrap();
    fs::write(elsewhere.join("photos/lock"), "").unwrap();
    fs::write(elsewhere.join("photos/one"), "mine\n").unwrap();
    fs::remove_dir_all(&sandboxes).unwrap();
    symlink(&elsewhere, &sandboxes).unwrap();
    let told = format!("{} is a link, which is not followed", sandboxes.display());
    for args in [&["plan", "gc"][..], &["run", "--", "true"], &["doctor"]] {
        let said = person.agents(args);
        let words = format!("{}{}", said.stdout, said.stderr);
        assert!(words.contains(&told), "{args:?} {said:?}");
        assert_eq!(fs::read_to_string(elsewhere.join("photos/one")).unwrap(), "mine\n", "{args:?}");
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    fs::remove_file(&sandboxes).unwrap();
    assert_eq!(person.agents(&["run", "--", "true"]).exit, 0);
}
