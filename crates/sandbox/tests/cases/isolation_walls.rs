//! What a command cannot reach, and what it can.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use domain::RootIndex;
use sandbox::command::{CommandSpec, ExitKind};
use sandbox::fs::beneath::open_root;
use sandbox::isolation::{Isolation, IsolationBackend, IsolationPolicy, IsolationUsed};
use sandbox::view::ViewRoot;

use super::command_stage::{CommandFixture, as_root_and_ordinary, child, rungs, shown, text, this_test};

/// The rungs that promise something.
fn walls() -> Vec<IsolationBackend> {
    rungs().into_iter().filter(|rung| *rung != IsolationBackend::None).collect()
}

#[test]
fn the_network_is_off_unless_it_was_allowed() {
    as_root_and_ordinary("cases::isolation_walls::the_network_is_off_unless_it_was_allowed", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stage = CommandFixture::new();
        for rung in walls() {
            let reach = |network| {
                let ports = if network { vec![port] } else { Vec::new() };
                let argv = ["bash", "-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached")];
                let running = stage
                    .start(
                        rung,
                        CommandSpec { network, loopback_ports: ports.clone(), ..stage.command(argv) },
                    )
                    .unwrap();
                assert_eq!(running.isolation().network, network);
                running.wait()
            };
            let off = reach(false);
            assert_eq!((off.how, text(&off.stdout)), (ExitKind::Exited(1), String::new()), "{rung}");
            assert!(off.network_suspected, "{rung}: {}", text(&off.stderr));
            let on = reach(true);
            assert_eq!((on.how, text(&on.stdout).as_str()), (ExitKind::Exited(0), "reached\n"), "{rung}");
            assert!(!on.network_suspected);
        }
    });
}

#[test]
fn a_command_without_network_can_still_reach_itself() {
    let stage = CommandFixture::new();
    // Refused means that there is a way and nobody there; without the way it would be unreachable.
    let argv = ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9"];
    let ended = stage.run(IsolationBackend::Namespaces, stage.command(argv));
    assert!(text(&ended.stderr).contains("Connection refused"), "{}", text(&ended.stderr));
}

#[test]
fn a_command_that_was_ended_while_it_waited_for_a_network_is_suspected_too() {
    let stage = CommandFixture::new();
    let wait = |said: &str, network| {
        let script = format!("echo '{said}'; exec sleep 1000");
        // However slow the machine is: one day it has spoken before its time is over.
        let mut limits = (0..).map(|doubled| std::time::Duration::from_millis(50 << doubled));
        limits.find_map(|limit| {
            let spec = CommandSpec { timeout: Some(limit), network, ..stage.shell(&script) };
            let ended = stage.run(IsolationBackend::Namespaces, spec);
            assert_eq!(ended.how, ExitKind::TimedOut);
            (!text(&ended.stdout).is_empty()).then_some(ended.network_suspected)
        })
    };
    assert_eq!(wait("Waiting for network", false), Some(true));
    assert_eq!(wait("Waiting for network", true), Some(false));
    assert_eq!(wait("Waiting for a lock", false), Some(false));
    let mut alive = stage.alive();
    let script = "echo 'Connection error' >&2; exec 3> alive; echo x >&3; exec sleep 1000";
    let running = stage.start(IsolationBackend::Namespaces, stage.shell(script)).unwrap();
    let killer = running.killer();
    alive.wait_for_a_writer_and_its_death(None, || killer.kill());
    let ended = running.wait();
    assert_eq!((ended.how, ended.network_suspected), (ExitKind::Killed, true));
}

#[test]
fn an_ordinary_failure_does_not_blame_the_network() {
    let stage = CommandFixture::new();
    let ended = stage.run(IsolationBackend::Namespaces, stage.shell("echo 'mismatched types' >&2; exit 1"));
    assert_eq!((ended.how, ended.network_suspected), (ExitKind::Exited(1), false));
}

#[test]
fn nothing_outside_the_project_can_be_written() {
    as_root_and_ordinary("cases::isolation_walls::nothing_outside_the_project_can_be_written", || {
        for rung in walls() {
            let stage = CommandFixture::new();
            // In a place that the command sees, and that its user could write to.
            let dir = elsewhere();
            let outside = dir.path().join("file");
            std::fs::write(&outside, "as it was").unwrap();
            let mode = std::fs::metadata(&outside).unwrap().permissions();
            let (file, user) = (shown(&outside), shown(&stage.path("project/file")));
            let made = shown(&dir.path().join("made"));
            let script = format!(
                "cat {file}; echo x > {file}; rm {file}; truncate -s 0 {file}; mv file {file}; ln {file} linked; \
                 echo x > {made}; mkdir {made}; chmod 0 {file}; touch {file}; \
                 [ {rung} = landlock ] && echo x > {user}; true"
            );
            let ended = stage.run(rung, stage.shell(&script));
            assert_eq!(
                (ended.how, text(&ended.stdout).as_str()),
                (ExitKind::Exited(0), "as it was"),
                "{rung}"
            );
            assert_eq!(std::fs::read_to_string(&outside).unwrap(), "as it was", "{rung}");
            assert_eq!(std::fs::metadata(&outside).unwrap().permissions(), mode, "{rung}");
            let users = std::fs::read_to_string(stage.path("project/file")).unwrap();
            assert_eq!(users, "the user's\n", "{rung}");
            assert!(!std::fs::exists(&made).unwrap(), "{rung}");
        }
    });
}

#[test]
fn temporary_files_are_private_and_gone_afterwards() {
    as_root_and_ordinary("cases::isolation_walls::temporary_files_are_private_and_gone_afterwards", || {
        for rung in rungs() {
            let stage = CommandFixture::new();
            let script = "echo x > $TMPDIR/mine && cat $TMPDIR/mine && ls $TMPDIR && echo $TMPDIR";
            let ended = stage.run(rung, stage.shell(script));
            let printed = text(&ended.stdout);
            let lines: Vec<&str> = printed.lines().collect();
            assert_eq!((lines.first(), lines.contains(&"mine")), (Some(&"x"), true), "{rung}: {printed}");
            let tmp = std::path::Path::new(lines.last().unwrap());
            assert!(!tmp.join("mine").exists(), "{rung}");
            assert!(tmp == std::path::Path::new("/tmp") || !tmp.exists(), "{rung}: {}", tmp.display());
        }
    });
}

#[test]
fn the_machines_own_temporary_files_are_not_to_be_seen() {
    let stage = CommandFixture::new();
    std::fs::write(stage.path("outside/file"), "").unwrap();
    let script = format!("ls -A /run /dev/shm; ls -A /tmp; ls {}", shown(&stage.path("")));
    let printed = stage.prints(stage.shell(&script));
    let top = shown(&stage.path(""));
    let name = top.trim_end_matches('/').rsplit('/').next().unwrap();
    // Only the way to the project is there, and the project.
    assert_eq!(printed, format!("/dev/shm:\n\n/run:\n{name}\nproject\n"));
}

#[test]
fn sockets_of_the_machine_are_not_to_be_reached() {
    let stage = CommandFixture::new();
    // As a daemon's socket is: below a directory that is private to the command.
    let _listener = UnixListener::bind(stage.path("outside/docker.sock")).unwrap();
    let script = format!("test ! -e {}", shown(&stage.path("outside/docker.sock")));
    for rung in [IsolationBackend::Namespaces, IsolationBackend::Bubblewrap] {
        if walls().contains(&rung) {
            assert_eq!(stage.run(rung, stage.shell(&script)).how, ExitKind::Exited(0), "{rung}");
        }
    }
}

/// A directory that is not below a private one.
fn elsewhere() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

#[test]
fn what_is_hidden_is_there_and_empty() {
    as_root_and_ordinary("cases::isolation_walls::what_is_hidden_is_there_and_empty", || {
        let home = elsewhere();
        let secret = home.path().join("secret");
        std::fs::create_dir(&secret).unwrap();
        std::fs::write(secret.join("key"), "private").unwrap();
        std::fs::write(home.path().join("netrc"), "password").unwrap();
        std::os::unix::fs::symlink(&secret, home.path().join("link")).unwrap();
        let stage = CommandFixture::new();
        let hide = vec![home.path().join("link"), home.path().join("netrc"), home.path().join("missing")];
        let (dir, file) = (shown(&secret), shown(&home.path().join("netrc")));
        let script = format!("ls -A {dir}; cat {file}; echo x > {dir}/new; echo x > {file}; echo done");
        for rung in [IsolationBackend::Namespaces, IsolationBackend::Bubblewrap] {
            if !walls().contains(&rung) {
                continue;
            }
            let spec = CommandSpec { hide: hide.clone(), ..stage.shell(&script) };
            let running = stage.start(rung, spec).unwrap();
            assert_eq!(running.isolation().hidden, [dir.clone(), file.clone()], "{rung}");
            let ended = running.wait();
            assert_eq!(text(&ended.stdout), "done\n", "{rung}: {}", text(&ended.stderr));
            assert_eq!(std::fs::read_to_string(secret.join("key")).unwrap(), "private");
            assert_eq!(std::fs::read_to_string(home.path().join("netrc")).unwrap(), "password");
        }
        // Landlock refuses to read what it cannot cover.
        let spec = CommandSpec { hide, ..stage.shell(&script) };
        let running = stage.start(IsolationBackend::Landlock, spec).unwrap();
        assert_eq!(running.isolation().hidden, [dir.clone(), file.clone()]);
        let ended = running.wait();
        assert_eq!(text(&ended.stdout), "done\n", "{}", text(&ended.stderr));
        assert_eq!(std::fs::read_to_string(secret.join("key")).unwrap(), "private");
    });
}

#[test]
fn of_a_home_only_what_is_named_is_seen_on_every_rung() {
    as_root_and_ordinary(
        "cases::isolation_walls::of_a_home_only_what_is_named_is_seen_on_every_rung",
        || {
            let home = elsewhere();
            let home = home.path();
            for (path, content) in
                [("tools/run", "a tool\n"), ("tools/token", "private\n"), ("notes", "private\n")]
            {
                std::fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
                std::fs::write(home.join(path), content).unwrap();
            }
            let stage = CommandFixture::new();
            let dir = shown(home);
            let script =
                format!("cat {dir}/tools/run {dir}/tools/token {dir}/notes; mkdir {dir}/new; echo done");
            for rung in walls() {
                let spec = CommandSpec {
                    home: Some(home.to_owned()),
                    show: vec![home.join("tools"), home.join("missing")],
                    hide: vec![home.join("tools/token")],
                    ..stage.shell(&script)
                };
                let ended = stage.run(rung, spec);
                assert_eq!(text(&ended.stdout), "a tool\ndone\n", "{rung}: {}", text(&ended.stderr));
                assert!(!home.join("new").exists(), "{rung}");
                let all = CommandSpec {
                    home: Some(home.to_owned()),
                    show: vec![home.to_owned()],
                    ..stage.shell(&format!("cat {dir}/notes"))
                };
                assert_eq!(text(&stage.run(rung, all).stdout), "private\n", "{rung}");
            }
        },
    );
}

#[test]
fn what_is_writable_is_reachable_even_below_what_is_hidden() {
    as_root_and_ordinary(
        "cases::isolation_walls::what_is_writable_is_reachable_even_below_what_is_hidden",
        || {
            let data = elsewhere();
            std::fs::create_dir(data.path().join("deep")).unwrap();
            let output = data.path().join("deep/output.json");
            std::fs::write(&output, "").unwrap();
            std::fs::write(data.path().join("deep/other"), "").unwrap();
            for rung in walls() {
                let stage = CommandFixture::new();
                let spec = CommandSpec {
                    hide: vec![data.path().to_owned()],
                    writable: vec![output.clone(), stage.path("outside")],
                    ..stage.shell(&format!(
                        "echo {rung} > {}; echo {rung} > {}/made; ls {}",
                        shown(&output),
                        shown(&stage.path("outside")),
                        shown(&data.path().join("deep"))
                    ))
                };
                let ended = stage.run(rung, spec);
                if rung != IsolationBackend::Landlock {
                    assert_eq!(text(&ended.stderr), "", "{rung}");
                }
                assert_eq!(std::fs::read_to_string(&output).unwrap(), format!("{rung}\n"));
                assert_eq!(std::fs::read_to_string(stage.path("outside/made")).unwrap(), format!("{rung}\n"));
                let seen = if rung == IsolationBackend::Landlock { "" } else { "output.json\n" };
                assert_eq!(text(&ended.stdout), seen, "{rung}");
            }
        },
    );
}

#[test]
fn a_writable_path_inside_the_project_does_not_lead_to_the_users_files() {
    for rung in walls() {
        let stage = CommandFixture::new();
        let file = stage.path("project/file");
        let spec = CommandSpec {
            writable: vec![file.clone()],
            ..stage.shell(&format!("echo x > {}", shown(&file)))
        };
        stage.run(rung, spec);
        assert_eq!(std::fs::read_to_string(file).unwrap(), "the user's\n", "{rung}");
    }
}

#[test]
fn what_is_written_to_scratch_is_thrown_away() {
    as_root_and_ordinary("cases::isolation_walls::what_is_written_to_scratch_is_thrown_away", || {
        let cache = elsewhere();
        std::fs::write(cache.path().join("old"), "kept").unwrap();
        std::fs::create_dir(cache.path().join("dir")).unwrap();
        let stage = CommandFixture::new();
        let dir = shown(cache.path());
        let script = format!(
            "cat {dir}/old; echo new > {dir}/dir/new; echo over > {dir}/old; cat {dir}/dir/new {dir}/old"
        );
        let spec = CommandSpec { scratch: vec![cache.path().to_owned()], ..stage.shell(&script) };
        assert_eq!(stage.prints(spec), "keptnew\nover\n");
        assert_eq!(std::fs::read_to_string(cache.path().join("old")).unwrap(), "kept");
        assert!(!cache.path().join("dir/new").exists());
    });
}

#[test]
fn scratch_that_is_not_there_is_an_empty_directory_or_noted() {
    as_root_and_ordinary(
        "cases::isolation_walls::scratch_that_is_not_there_is_an_empty_directory_or_noted",
        || {
            let home = elsewhere();
            let hidden = home.path().join("hidden");
            std::fs::create_dir(&hidden).unwrap();
            std::fs::write(home.path().join("file"), "").unwrap();
            let stage = CommandFixture::new();
            let private = stage.path("home/.cache");
            let missing = home.path().join(".cache");
            for rung in [IsolationBackend::Namespaces, IsolationBackend::Bubblewrap] {
                if !walls().contains(&rung) {
                    continue;
                }
                let made = [private.clone(), hidden.join("deep/cache")];
                let script =
                    made.clone().map(|dir| format!("ls -A {0}; echo x > {0}/x; cat {0}/x", shown(&dir)));
                let spec = CommandSpec {
                    scratch: vec![
                        made[0].clone(),
                        made[1].clone(),
                        missing.clone(),
                        home.path().join("file/below"),
                        stage.path("project/target"),
                    ],
                    hide: vec![hidden.clone()],
                    ..stage.shell(&script.join("; "))
                };
                let running = stage.start(rung, spec).unwrap();
                let said = format!("{} is not there, and cannot be made", missing.display());
                assert_eq!(running.isolation().notes, [said], "{rung}");
                let ended = running.wait();
                assert_eq!(text(&ended.stdout), "x\nx\n", "{rung}: {}", text(&ended.stderr));
                assert!(!made[0].exists() && !made[1].exists() && !missing.exists(), "{rung}");
            }
        },
    );
}

#[test]
fn a_call_that_does_not_write_and_a_read_only_project_are_read_only() {
    as_root_and_ordinary(
        "cases::isolation_walls::a_call_that_does_not_write_and_a_read_only_project_are_read_only",
        || {
            for rung in walls() {
                let stage = CommandFixture::new();
                let second = elsewhere();
                std::fs::write(second.path().join("file"), "read only\n").unwrap();
                let script =
                    format!("cat {0}/file; echo x > file; echo x > {0}/file; exit 0", shown(second.path()));
                for writes in [true, false] {
                    let mut view = stage.view();
                    let tree = open_root(second.path()).unwrap();
                    let path = second.path().to_owned();
                    view.roots.push(ViewRoot { no: RootIndex(1), path, tree, copy: None, read_only: true });
                    let spec = CommandSpec { writes, ..stage.shell(&script) };
                    let ended = Isolation::only(rung, child()).start(view, spec).unwrap().wait();
                    assert_eq!(
                        (ended.how, text(&ended.stdout).as_str()),
                        (ExitKind::Exited(0), "read only\n"),
                        "{rung}"
                    );
                    let expected = if writes { "x\n" } else { "the sandbox's\n" };
                    if !writes {
                        std::fs::write(stage.path("copy/file"), "the sandbox's\n").unwrap();
                        let spec = CommandSpec { writes, ..stage.shell(&script) };
                        stage.run(rung, spec);
                    }
                    assert_eq!(std::fs::read_to_string(stage.path("copy/file")).unwrap(), expected, "{rung}");
                    assert_eq!(
                        std::fs::read_to_string(second.path().join("file")).unwrap(),
                        "read only\n",
                        "{rung}"
                    );
                }
            }
        },
    );
}

#[test]
fn no_capability_is_left_and_none_can_be_gained() {
    as_root_and_ordinary("cases::isolation_walls::no_capability_is_left_and_none_can_be_gained", || {
        for rung in walls() {
            let stage = CommandFixture::new();
            let script = "grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status | tr -d '\\t'";
            let zero = "0".repeat(16);
            let expected =
                format!("CapInh:{zero}\nCapPrm:{zero}\nCapEff:{zero}\nCapAmb:{zero}\nNoNewPrivs:1\n");
            assert_eq!(text(&stage.run(rung, stage.shell(script)).stdout), expected, "{rung}");
        }
    });
}

#[test]
fn neither_mounts_nor_user_namespaces_can_be_made() {
    as_root_and_ordinary("cases::isolation_walls::neither_mounts_nor_user_namespaces_can_be_made", || {
        for rung in walls() {
            let stage = CommandFixture::new();
            let script = "unshare --user true && echo user; unshare --map-root-user --mount true && echo root; \
                mount -t tmpfs none . && echo mount; umount /proc && echo umount; true";
            let ended = stage.run(rung, stage.shell(script));
            assert_eq!((ended.how, text(&ended.stdout).as_str()), (ExitKind::Exited(0), ""), "{rung}");
            assert!(text(&ended.stderr).contains("Operation not permitted"), "{rung}");
        }
    });
}

#[test]
fn other_processes_and_the_machines_settings_are_out_of_reach() {
    as_root_and_ordinary(
        "cases::isolation_walls::other_processes_and_the_machines_settings_are_out_of_reach",
        || {
            let stage = CommandFixture::new();
            let mut bystander =
                std::process::Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
            // The setting is written as it is: nothing changes even if it can be.
            let script = format!(
                "kill -KILL {}; setting=/proc/sys/kernel/core_pattern; cat $setting > as_it_is; \
             cat as_it_is > $setting && echo written; ls /dev/*da; true",
                bystander.id()
            );
            let runs: Vec<_> =
                walls().into_iter().map(|rung| (rung, stage.run(rung, stage.shell(&script)))).collect();
            let lives = bystander.try_wait().unwrap().is_none();
            bystander.kill().unwrap();
            bystander.wait().unwrap();
            assert!(lives);
            for (rung, ended) in runs {
                let printed = text(&ended.stdout);
                assert_eq!(ended.how, ExitKind::Exited(0), "{rung}");
                assert!(!printed.contains("written"), "{rung}");
                // Disks are not to be seen; without mounts of its own a command sees them, and cannot write.
                assert!(printed.is_empty() || rung == IsolationBackend::Landlock, "{rung}: {printed}");
            }
        },
    );
}

#[test]
fn the_devices_that_programs_need_are_there() {
    let stage = CommandFixture::new();
    let script = "echo x > /dev/null && head -c 1 /dev/zero | wc -c && head -c 4 /dev/urandom | wc -c && \
        echo out > /dev/stdout && echo shared > /dev/shm/x && cat /dev/shm/x && cat < /dev/fd/0 && script -qc true /dev/null";
    assert_eq!(stage.prints(stage.shell(script)), "1\n4\nout\nshared\n");
}

#[test]
fn a_project_that_is_the_temporary_directory_itself_or_holds_hidden_paths_works() {
    let stage = CommandFixture::new();
    std::fs::create_dir(stage.path("copy/.ssh")).unwrap();
    std::fs::write(stage.path("copy/.ssh/id"), "private").unwrap();
    let mut view = stage.view();
    view.roots[0].path = "/tmp".into();
    let spec = CommandSpec {
        hide: vec!["/tmp/.ssh".into()],
        ..stage.shell("pwd; cat file; echo t > $TMPDIR/t; echo $TMPDIR")
    };
    let running = Isolation::only(IsolationBackend::Namespaces, child()).start(view, spec).unwrap();
    assert_eq!(text(&running.wait().stdout), "/tmp\nthe sandbox's\n/dev/shm\n");
    assert!(!stage.path("copy/t").exists());
}

#[test]
fn what_was_in_force_is_kept_as_it_is_told() {
    let stage = CommandFixture::new();
    let running = stage.start(IsolationBackend::Namespaces, stage.shell(":")).unwrap();
    let used = running.isolation().clone();
    running.wait();
    let text = serde_json::to_string(&used).unwrap();
    assert_eq!(text, r#"{"rung":"namespaces","network":false,"hidden":[],"notes":[],"passed_over":[]}"#);
    assert_eq!(serde_json::from_str::<IsolationUsed>(&text).unwrap(), used);
}

#[test]
fn each_rung_is_probed_by_doing() {
    as_root_and_ordinary("cases::isolation_walls::each_rung_is_probed_by_doing", || {
        let probed = Isolation::new(IsolationPolicy::Required, child()).probe();
        let rungs: Vec<IsolationBackend> = probed.iter().map(|(rung, _)| *rung).collect();
        assert_eq!(
            rungs,
            [IsolationBackend::Namespaces, IsolationBackend::Bubblewrap, IsolationBackend::Landlock]
        );
        let broken = sandbox::child::ChildProgram::new("/bin/false");
        for (rung, works) in Isolation::new(IsolationPolicy::Required, broken).probe() {
            assert!(works.is_err(), "{rung}");
        }
    });
}

/// Makes user namespaces impossible, and takes all privileges, before it runs the rest.
const BAR_USER_NAMESPACES: &str = "echo 0 > /proc/sys/user/max_user_namespaces && \
    exec setpriv --bounding-set -all --inh-caps -all \"$@\"";

#[test]
fn where_user_namespaces_are_barred_the_next_rung_is_used_with_the_reason() {
    const NAME: &str =
        "cases::isolation_walls::where_user_namespaces_are_barred_the_next_rung_is_used_with_the_reason";
    if std::env::var_os("AGENTS_TEST_BARRED").is_some() {
        let stage = CommandFixture::new();
        let required = Isolation::new(IsolationPolicy::Required, child());
        assert!(required.start(stage.view(), stage.shell("cat file")).is_err());
        let isolation = Isolation::new(IsolationPolicy::Landlock, child());
        let running = isolation.start(stage.view(), stage.shell("cat file")).unwrap();
        let used = running.isolation().clone();
        assert_eq!(text(&running.wait().stdout), "the sandbox's\n");
        assert_eq!(used.rung, IsolationBackend::Landlock);
        let [namespaces, bubblewrap] = used.passed_over.try_into().unwrap();
        assert_eq!(namespaces.rung, IsolationBackend::Namespaces);
        assert!(namespaces.why.starts_with("a user namespace: No space left"), "{}", namespaces.why);
        assert_eq!(bubblewrap.rung, IsolationBackend::Bubblewrap);
        assert!(bubblewrap.why.contains("bwrap"), "{}", bubblewrap.why);
        return;
    }
    as_root_and_ordinary(NAME, || {
        let again = this_test(NAME);
        let mut barred = std::process::Command::new("unshare");
        barred.args(["--user", "--map-root-user", "sh", "-c", BAR_USER_NAMESPACES, "sh"]);
        barred.arg(again.get_program()).args(again.get_args()).env("AGENTS_TEST_BARRED", "1");
        let output = barred.output().unwrap();
        let printed =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    });
}
