//! What arrives is what the sandbox had, and what was there comes back: directories and their modes, links
//! that become directories, files that nobody may read, bits that give rights, hard links, attributes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use super::support::{CommandOutput, TestUser, answer};

/// All that lies below a directory but git's own: kind, mode and content by path.
fn survey(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if name == ".git" {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.mode() & 0o7777;
            let what = if metadata.is_symlink() {
                format!("link {}", fs::read_link(&path).unwrap().display())
            } else if metadata.is_dir() {
                dirs.push(path);
                format!("directory {mode:04o}")
            } else {
                format!("file {mode:04o} {:?}", String::from_utf8_lossy(&fs::read(&path).unwrap()))
            };
            found.insert(name, what);
        }
    }
    found
}

fn mode(person: &TestUser, path: &str) -> u32 {
    fs::symlink_metadata(person.project().join(path)).unwrap().mode() & 0o7777
}

fn chmod(person: &TestUser, path: &str, mode: u32) {
    fs::set_permissions(person.project().join(path), fs::Permissions::from_mode(mode)).unwrap();
}

/// The program without the privilege to pass over modes, which root has.
fn bound_by_modes(person: &TestUser, args: &[&str]) -> CommandOutput {
    let plain = person.command(&person.project(), args);
    let mut bound = Command::new("setpriv");
    bound.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(plain.get_program()).args(plain.get_args());
    bound.current_dir(person.project()).env_clear().stdin(Stdio::null());
    bound.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    answer(&mut bound)
}

fn good(answer: CommandOutput) -> CommandOutput {
    assert_eq!(answer.exit, 0, "{answer:?}");
    answer
}

/// Runs the script as a plan; the tree is the script's own after apply, and as before after undo, and again.
fn there_and_back(person: &TestUser, script: &str, call: &dyn Fn(&[&str]) -> CommandOutput) {
    let before = survey(&person.project());
    let plan = person.plan(script);
    assert_eq!(survey(&person.project()), before, "{script}");
    let twin = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(person.project()).arg(twin.path().join("shop")).status();
    assert!(copied.unwrap().success());
    let done = Command::new("sh").args(["-ec", script]).current_dir(twin.path().join("shop")).status();
    assert!(done.unwrap().success());
    let after = survey(&twin.path().join("shop"));
    assert_ne!(after, before, "{script}");
    for round in 0..2 {
        good(call(&["plan", "apply", &plan, "--yes"]));
        assert_eq!(survey(&person.project()), after, "{script}, apply {round}");
        good(call(&["plan", "undo", &plan, "--yes"]));
        assert_eq!(survey(&person.project()), before, "{script}, undo {round}");
    }
}

#[test]
fn directories_arrive_with_their_modes_and_go_back() {
    let person = TestUser::new();
    person.write("there/f.txt", "one\n");
    person.write("there/deep/g.txt", "two\n");
    person.write("closed/h.txt", "three\n");
    chmod(&person, "closed", 0o750);
    let as_root = |args: &[&str]| person.agents(args);
    for script in [
        "umask 077; mkdir private; echo key > private/key",
        "mkdir -m 2775 shared; echo x > shared/x; mkdir -m 1777 drop; echo y > drop/y; mkdir -m 0700 empty",
        "mkdir -p a/b/c; echo deep > a/b/c/d; chmod 0711 a/b; chmod 0555 a/b/c",
        "chmod 700 there; chmod 2755 there/deep; echo more >> there/f.txt",
        "rm there/f.txt; echo new > there/new; chmod 500 there/deep; chmod 555 there",
        "rm -r closed; mkdir -m 700 closed; echo again > closed/h.txt",
        "mv there elsewhere; chmod 700 elsewhere/deep",
        "rm there/f.txt; mkdir -m 700 there/f.txt; echo in > there/f.txt/in",
    ] {
        there_and_back(&person, script, &as_root);
    }
}

#[test]
fn a_directory_mode_is_in_status_diff_and_json() {
    let person = TestUser::new();
    person.write("d/f.txt", "one\n");
    let plan = person.plan("chmod 700 d; mkdir -m 1777 drop; echo x > drop/x; mkdir usual; echo y > usual/y");
    let patch = good(person.agents(&["plan", "diff", &plan])).stdout;
    assert!(patch.contains("old mode 0755\nnew mode 0700\n"), "{patch}");
    assert!(patch.contains("new directory mode 1777\n"), "{patch}");
    let data = good(person.json(&["plan", "diff", &plan])).data();
    let files = data["files"].as_array().unwrap();
    let told: Vec<(&str, &str)> =
        files.iter().map(|file| (file["path"].as_str().unwrap(), file["kind"].as_str().unwrap())).collect();
    assert_eq!(
        told,
        [("d", "directory"), ("drop", "directory"), ("drop/x", "file"), ("usual/y", "file")],
        "a directory that only holds what was made is not listed"
    );
    assert_eq!((&files[0]["mode_before"], &files[0]["mode_after"]), (&"0755".into(), &"0700".into()));
    assert_eq!(files[1]["mode_after"], "1777");
    let named = good(person.json(&["plan", "apply", &plan, "--yes", "--only", "drop/x"]));
    assert_eq!(named.data()["files"], 1, "{named:?}");
    assert_eq!((mode(&person, "drop"), mode(&person, "d")), (0o1777, 0o755));
}

#[test]
fn modes_that_git_does_not_know_are_in_the_patch_and_git_still_takes_it() {
    let person = TestUser::new();
    for name in ["a", "b", "c", "d"] {
        person.write(name, "one\n");
    }
    let plan = person.plan(
        "chmod 666 a; chmod 600 b; echo two >> b; chmod 777 c; echo new > n; chmod 640 n; mkdir -m 700 p; echo k > p/k",
    );
    let patch = good(person.agents(&["plan", "diff", &plan])).stdout;
    for line in [
        "old mode 100644 (0644)\nnew mode 100644 (0666)\n",
        "old mode 100644 (0644)\nnew mode 100644 (0600)\n--- a/b\n",
        "old mode 100644\nnew mode 100755 (0777)\n",
        "new file mode 100644 (0640)\n",
        "new directory mode 0700\n",
    ] {
        assert!(patch.contains(line), "{line}: {patch}");
    }
    let mut git = Command::new("git");
    git.args(["apply", "-"]).current_dir(person.project()).stdin(Stdio::piped());
    let mut git = git.env("GIT_CEILING_DIRECTORIES", person.home()).spawn().unwrap();
    git.stdin.take().unwrap().write_all(patch.as_bytes()).unwrap();
    assert!(git.wait().unwrap().success(), "{patch}");
    assert_eq!(
        (person.read("b"), person.read("n"), person.read("p/k")),
        ("one\ntwo\n".into(), "new\n".into(), "k\n".into())
    );
    assert_eq!(mode(&person, "c") & 0o111, 0o111);
}

#[test]
fn set_id_bits_that_the_base_did_not_have_are_taken_off_and_told() {
    let person = TestUser::new();
    person.write("had", "#!/bin/sh\n");
    chmod(&person, "had", 0o4755);
    person.write("moves", "#!/bin/sh\nmove\n");
    chmod(&person, "moves", 0o2755);
    person.write("plain", "#!/bin/sh\n");
    let script =
        "printf x > new; chmod 4777 new; chmod 6755 plain; echo more >> had; chmod 4755 had; mv moves moved";
    let run = good(person.agents(&["run", "--", "sh", "-ec", script]));
    let told = "2 set-id bits left out: new (was 4777), plain (was 6755)";
    assert!(format!("{}{}", run.stdout, run.stderr).contains(told), "{run:?}");
    let data = good(person.json(&["plan", "diff", "@last"])).data();
    assert_eq!(data["summary"]["not_captured"]["set_id"], 2, "{data}");
    assert_eq!(data["summary"]["not_captured"]["named"][0]["path"], "new", "{data}");
    assert!(good(person.agents(&["plan", "diff", "@last"])).stderr.contains(told));
    let applied = good(person.agents(&["plan", "apply", "@last", "--yes"]));
    assert!(applied.stderr.contains(told), "{applied:?}");
    let modes = ["new", "plain", "had", "moved"].map(|path| mode(&person, path));
    assert_eq!(modes, [0o777, 0o755, 0o4755, 0o2755]);
}

#[test]
fn links_become_directories_and_back_and_can_be_undone() {
    let person = TestUser::new();
    person.write("real/file", "one\n");
    person.write("dir/g", "two\n");
    person.write("dir/sub/h", "three\n");
    symlink("real", person.project().join("lnk")).unwrap();
    let as_root = |args: &[&str]| person.agents(args);
    for script in [
        "rm -r dir; ln -s real dir",
        "rm lnk; mkdir lnk; echo new > lnk/file; mkdir lnk/sub; echo deep > lnk/sub/x",
        "rm lnk; mkdir -m 700 lnk; rm -r dir; ln -s lnk dir; echo y > lnk/y",
        "rm lnk; echo file > lnk; rm -r dir/sub; ln -s ../real dir/sub",
    ] {
        there_and_back(&person, script, &as_root);
    }
}

#[test]
fn whoever_is_bound_by_modes_can_apply_and_undo_what_denies_them() {
    let person = TestUser::new();
    person.write("f", "one\n");
    person.write("g", "two\n");
    person.write("d/in", "three\n");
    person.write("d/e/deep", "four\n");
    let script = "chmod 000 f; echo more >> g; chmod 200 g; echo secret > new; chmod 000 new; \
                  echo x > d/x; rm d/in; echo y >> d/e/deep; chmod 000 d/e; chmod 500 d; mkdir m; echo n > m/n; chmod 555 m";
    let before = survey(&person.project());
    let plan = person.plan(script);
    for _ in 0..2 {
        let applied = bound_by_modes(&person, &["plan", "apply", &plan, "--yes"]);
        good(applied);
        let modes = ["f", "g", "new", "d", "d/e", "m"].map(|path| mode(&person, path));
        assert_eq!(modes, [0, 0o200, 0, 0o500, 0, 0o555]);
        good(bound_by_modes(&person, &["plan", "undo", &plan, "--yes"]));
        assert_eq!(survey(&person.project()), before);
    }
}

#[test]
fn a_file_that_cannot_be_read_and_was_touched_since_is_not_undone_blindly() {
    let person = TestUser::new();
    person.write("f", "one\n");
    let plan = person.plan("chmod 000 f");
    good(bound_by_modes(&person, &["plan", "apply", &plan, "--yes"]));
    chmod(&person, "f", 0o600);
    person.write("f", "two\n");
    chmod(&person, "f", 0o000);
    let refused = bound_by_modes(&person, &["plan", "undo", &plan, "--yes"]);
    assert_ne!(refused.exit, 0, "{refused:?}");
    assert_eq!(mode(&person, "f"), 0);
    chmod(&person, "f", 0o600);
    assert_eq!(person.read("f"), "two\n");
}

#[test]
fn attributes_and_hard_links_made_in_a_sandbox_are_left_out_and_told() {
    let person = TestUser::new();
    person.write("f", "one\n");
    person.write("old", "two\n");
    let script = "setfattr -n user.x -v y f; echo new > a; ln a b; ln old 0";
    let has_tool = Command::new("setfattr").arg("--version").output().is_ok();
    let script = if has_tool {
        script.to_owned()
    } else {
        format!(
            "python3 -c 'import os; os.setxattr(\"f\", \"user.x\", b\"y\")'; {}",
            &script[script.find("echo").unwrap()..]
        )
    };
    let run = good(person.agents(&["run", "--", "sh", "-ec", &script]));
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(said.contains("1 extended attribute left out: f user.x"), "{said}");
    assert!(said.contains("2 hard links left out: 0 (a copy of old), b (a copy of a)"), "{said}");
    let data = good(person.json(&["plan", "diff", "@last"])).data();
    let left_out = &data["summary"]["not_captured"];
    assert_eq!((&left_out["attributes"], &left_out["hard_links"]), (&1.into(), &2.into()), "{data}");
    good(person.agents(&["plan", "apply", "@last", "--yes"]));
    assert_eq!((person.read("a"), person.read("b")), ("new\n".to_owned(), "new\n".to_owned()));
}

#[test]
fn a_text_too_long_to_be_shown_by_line_is_not_called_binary() {
    let person = TestUser::new();
    person.write("f", &"a line of text\n".repeat(300_000));
    good(person.agents(&["run", "--", "sed", "-i", "1s/line/LINE/", "f"]));
    let stat = good(person.agents(&["plan", "diff", "@last", "--stat"])).stdout;
    assert!(stat.contains("over 4 MiB, no lines shown") && !stat.contains("binary"), "{stat}");
}

#[test]
fn a_file_with_other_names_is_named_and_gets_a_file_of_its_own() {
    for through in [false, true] {
        let person = TestUser::new();
        person.write("f", "one\n");
        person.write("g", "two\n");
        person.write("same", "three\n");
        fs::hard_link(person.project().join("same"), person.project().join("other")).unwrap();
        chmod(&person, "f", 0o640);
        let outside = person.home().join("store");
        fs::create_dir(&outside).unwrap();
        for name in ["f", "g"] {
            fs::hard_link(person.project().join(name), outside.join(name)).unwrap();
        }
        let plan = person.plan("echo more >> f; chmod 755 g; echo more >> same; echo more >> other");
        let diff = good(person.json(&["plan", "diff", &plan]));
        assert_eq!(diff.data()["linked"], serde_json::json!(["f", "g"]), "{diff:?}");
        let warned = good(person.agents(&["plan", "diff", &plan])).stderr;
        assert!(warned.contains("hard links") && warned.contains("f, g"), "{warned}");
        let mut words = vec!["plan", "apply", &plan, "--yes"];
        words.extend(through.then_some("--through-links"));
        let applied = good(person.agents(&words));
        assert!(applied.stderr.contains("f, g"), "{applied:?}");
        let elsewhere = |name: &str| {
            (
                fs::read_to_string(outside.join(name)).unwrap(),
                fs::metadata(outside.join(name)).unwrap().mode() & 0o777,
            )
        };
        match through {
            false => assert_eq!((elsewhere("f").0, elsewhere("g").1), ("one\n".to_owned(), 0o644)),
            true => assert_eq!((elsewhere("f").0, elsewhere("g").1), ("one\nmore\n".to_owned(), 0o755)),
        }
        assert_eq!(
            (person.read("f"), mode(&person, "f"), mode(&person, "g")),
            ("one\nmore\n".to_owned(), 0o640, 0o755)
        );
        assert_eq!(
            fs::metadata(person.project().join("same")).unwrap().nlink(),
            2,
            "both names are the plan's"
        );
        good(person.agents(&["plan", "undo", &plan, "--yes"]));
        assert_eq!(
            (person.read("f"), mode(&person, "g"), elsewhere("f").0),
            ("one\n".to_owned(), 0o644, "one\n".to_owned())
        );
    }
}

/// The only journal that is open.
fn open_journal(person: &TestUser) -> std::path::PathBuf {
    let dir = person.home().join("data/journal");
    let mut found = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    found.next().unwrap()
}

/// How many files the killed apply changes.
const FILES: usize = 600;

/// An apply of many files that is killed while it writes them.
fn half_applied(person: &TestUser) -> (String, BTreeMap<String, String>) {
    for n in 0..FILES {
        person.write(&format!("f{n:03}"), &format!("line {n}\n"));
    }
    let before = survey(&person.project());
    let plan = person.plan("for f in f*; do echo more >> $f; done; mkdir -m 700 d; echo x > d/x");
    loop {
        let mut apply = person.command(&person.project(), &["plan", "apply", &plan, "--yes"]);
        let mut apply = apply.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let first = person.project().join("f000");
        while apply.try_wait().unwrap().is_none()
            && fs::read(&first).is_ok_and(|bytes| !bytes.ends_with(b"more\n"))
        {}
        apply.kill().unwrap();
        apply.wait().unwrap();
        if person.read(&format!("f{:03}", FILES - 1)).ends_with("more\n") {
            // It was too late: all was written.
            good(person.agents(&["plan", "undo", &plan, "--yes"]));
            continue;
        }
        if survey(&person.project()) != before {
            return (plan, before);
        }
    }
}

#[test]
fn a_damaged_journal_is_never_called_one_that_had_not_begun() {
    let person = TestUser::new();
    let (plan, before) = half_applied(&person);
    let whole = fs::read(open_journal(&person)).unwrap();
    let half = survey(&person.project());
    assert_ne!(half, before, "it was killed after it had begun to write");
    let saved = tempfile::tempdir().unwrap();
    // The project stays the directory that it is: a journal knows it by its inode.
    let copy = |from: &Path, to: &Path| {
        for entry in fs::read_dir(to).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            }
            .unwrap();
        }
        fs::create_dir_all(to).unwrap();
        assert!(Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap().success());
    };
    for part in ["data", "shop"] {
        copy(&person.home().join(part), &saved.path().join(part));
    }
    let flip = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let zero = |at: usize, length: usize| {
        let mut bytes = whole.clone();
        let end = (at + length).min(bytes.len());
        bytes[at..end].fill(0);
        bytes
    };
    let step = whole.len() / 24;
    let mut damages: Vec<Vec<u8>> = (0..24).map(|n| flip(n * step)).collect();
    damages.push(flip(whole.len() - 1));
    damages.extend((0..8).map(|n| whole[..n * whole.len() / 8].to_vec()));
    damages.extend([whole[..whole.len() - 13].to_vec(), whole[..whole.len() - 1].to_vec()]);
    damages.extend([zero(0, 4096), zero(whole.len() / 2, 512), zero(0, whole.len())]);
    damages.push([&whole[..], &whole[..]].concat());
    for (n, damaged) in damages.iter().enumerate() {
        for part in ["data", "shop"] {
            copy(&saved.path().join(part), &person.home().join(part));
        }
        let journal = open_journal(&person);
        fs::write(&journal, damaged).unwrap();
        let told = person.agents(&["plan", "status", &plan]);
        let said = format!("{}{}", told.stdout, told.stderr);
        assert!(!said.contains("had not begun"), "damage {n}: {said}");
        let status = good(person.json(&["plan", "status", &plan])).data();
        let now = survey(&person.project());
        let kept = person.home().join("data/undo").join(journal.file_name().unwrap());
        match status["state"].as_str().unwrap() {
            "applied" => {
                assert!(now.values().filter(|what| what.contains("more")).count() == FILES, "damage {n}")
            }
            state => {
                let is_told = told.exit == 6 && said.contains("JOURNAL_DAMAGED") && said.contains("f000");
                assert!(is_told || now == before, "damage {n}, {state}: {said}");
                if is_told {
                    assert_eq!(fs::read(&kept).unwrap(), *damaged, "damage {n}: nothing of it is removed");
                    assert_eq!(now, half, "damage {n}");
                }
            }
        }
    }
}

#[test]
fn a_damaged_store_never_reads_as_a_plan_that_changed_nothing() {
    let person = TestUser::new();
    person.write("f", "one\n");
    let plan = person.plan("echo two >> f; for n in $(seq 40); do echo $n > n$n; done");
    let before = survey(&person.project());
    let open = |sql: &str| {
        let script = format!(
            "import sqlite3; c = sqlite3.connect({:?}); c.execute('PRAGMA foreign_keys=0'); c.execute({sql:?}); c.commit()",
            person.home().join("data/agents.db").display().to_string()
        );
        assert!(Command::new("python3").args(["-c", &script]).status().unwrap().success(), "{sql}");
    };
    let saved = person.home().join("saved");
    assert!(
        Command::new("cp").arg("-a").arg(person.home().join("data")).arg(&saved).status().unwrap().success()
    );
    for sql in [
        "DELETE FROM change_entries WHERE seq = 3",
        "DELETE FROM change_entries",
        "UPDATE change_entries SET after_mode = 511 WHERE seq = 1",
        "UPDATE change_entries SET path = CAST('elsewhere' AS BLOB) WHERE seq = 2",
        "DELETE FROM changesets",
        "UPDATE changesets SET attempt = 9",
    ] {
        fs::remove_dir_all(person.home().join("data")).unwrap();
        assert!(
            Command::new("cp")
                .arg("-a")
                .arg(&saved)
                .arg(person.home().join("data"))
                .status()
                .unwrap()
                .success()
        );
        open(sql);
        for words in
            [&["plan", "apply", &plan, "--yes"][..], &["plan", "diff", &plan], &["plan", "status", &plan]]
        {
            let refused = person.json(words);
            assert_eq!((refused.exit, refused.code().as_str()), (1, "CHANGES_DAMAGED"), "{sql}: {refused:?}");
        }
        assert_eq!(survey(&person.project()), before, "{sql}");
    }
}

#[test]
fn a_directory_that_is_left_out_or_chosen_is_so_with_all_that_is_below_it() {
    for (script, path, was, is) in [
        ("rm -r d", "d/e/1", Some("1\n"), None),
        ("chmod 700 d; echo y >> d/2", "d/2", Some("2\n"), Some("2\ny\n")),
        ("mkdir -m 700 n; echo y > n/f", "n/f", None, Some("y\n")),
        ("rm -r d; ln -s o d", "d/2", Some("2\n"), None),
    ] {
        let person = TestUser::new();
        person.write("d/e/1", "1\n");
        person.write("d/2", "2\n");
        let plan = person.plan(&format!("{script}; echo x > other"));
        let dir = path.split('/').next().unwrap();
        let content = || fs::read_to_string(person.project().join(path)).ok();
        assert_eq!(person.agents(&["plan", "apply", &plan, "--yes", "--reject", dir]).exit, 0, "{script}");
        assert_eq!((content().as_deref(), person.read("other").as_str()), (was, "x\n"), "{script}");
        assert_eq!(person.agents(&["plan", "undo", &plan, "--yes"]).exit, 0, "{script}");
        let applied = person.agents(&["plan", "apply", &plan, "--yes", "--only", dir]);
        assert_eq!(applied.exit, 0, "{script}: {applied:?}");
        let other = person.project().join("other").exists();
        assert_eq!((content().as_deref(), other), (is, false), "{script}");
    }
}

#[test]
fn a_commit_in_a_repository_of_long_ids_is_made_and_undone() {
    let person = TestUser::new();
    fs::remove_dir_all(person.project().join(".git")).unwrap();
    person.git(&["init", "-q", "-b", "main", "--object-format=sha256"]);
    person.write("a", "a\n");
    person.write("gone", "gone\n");
    person.git(&["add", "."]);
    person.git(&["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "first"]);
    let plan = person.plan("echo n > n; rm gone");
    let mut apply = person.command(&person.project(), &["plan", "apply", &plan, "--yes", "--commit"]);
    for name in ["GIT_AUTHOR", "GIT_COMMITTER"] {
        apply.env(format!("{name}_NAME"), "t").env(format!("{name}_EMAIL"), "t@example.com");
    }
    let applied = answer(&mut apply);
    assert_eq!(applied.exit, 0, "{applied:?}");
    assert_eq!(person.git(&["ls-tree", "--name-only", "HEAD"]), "a\nn\n");
    let undone = person.agents(&["plan", "undo", &plan, "--yes"]);
    assert_eq!(undone.exit, 0, "{undone:?}");
    assert_eq!(person.git(&["ls-tree", "--name-only", "HEAD"]), "a\ngone\n");
    assert_eq!(person.git(&["status", "--porcelain"]), "");
}
