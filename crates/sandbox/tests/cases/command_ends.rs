//! The beginning and the end of commands, with every backend.

use std::os::unix::fs::{PermissionsExt, symlink};

use domain::{RelPath, RootIndex};
use sandbox::command::{CommandSpec, EnvSpec, ExitKind, Stdin, environment};
use sandbox::isolation::{CommandStartError, Isolation, IsolationBackend, IsolationPolicy};

use super::command_stage::{CommandFixture, as_root_and_ordinary, child, pair, rungs, shown, text};

#[test]
fn exit_statuses_and_signals_are_told_apart() {
    as_root_and_ordinary("cases::command_ends::exit_statuses_and_signals_are_told_apart", || {
        let stage = CommandFixture::new();
        let table = [
            ("exit 0", ExitKind::Exited(0)),
            ("exit 7", ExitKind::Exited(7)),
            ("exit 127", ExitKind::Exited(127)),
            ("kill -TERM $$", ExitKind::Signalled(libc::SIGTERM)),
            ("kill -KILL $$", ExitKind::Signalled(libc::SIGKILL)),
        ];
        for rung in rungs() {
            for (script, how) in table {
                // bubblewrap itself gives a signal back as a shell would.
                let how = match (rung, how) {
                    (IsolationBackend::Bubblewrap, ExitKind::Signalled(signal)) => {
                        ExitKind::Exited(128 + signal)
                    }
                    (_, how) => how,
                };
                assert_eq!(stage.run(rung, stage.shell(script)).how, how, "{rung}: {script}");
            }
        }
    });
}

#[test]
fn the_command_works_on_the_sandbox_and_not_on_the_users_tree() {
    as_root_and_ordinary(
        "cases::command_ends::the_command_works_on_the_sandbox_and_not_on_the_users_tree",
        || {
            for rung in rungs() {
                let stage = CommandFixture::new();
                let ended = stage
                    .run(rung, stage.shell("cat file; echo changed > file; mkdir -p a/b; mv file a/b/file"));
                assert_eq!(
                    (text(&ended.stdout), text(&ended.stderr)),
                    ("the sandbox's\n".into(), String::new()),
                    "{rung}"
                );
                assert_eq!(std::fs::read_to_string(stage.path("copy/a/b/file")).unwrap(), "changed\n");
                assert_eq!(std::fs::read_to_string(stage.path("project/file")).unwrap(), "the user's\n");
            }
        },
    );
}

#[test]
fn commands_see_the_tree_at_the_projects_own_path() {
    let stage = CommandFixture::new();
    let printed = stage.prints(stage.shell("pwd"));
    assert_eq!(printed.trim_end(), stage.path("project").to_str().unwrap());
}

#[test]
fn a_program_that_is_not_there_is_an_error_that_names_it() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        for program in ["no-such-program", "./no-such-program", "/no/such/program"] {
            match stage.start(rung, stage.command([program, "--help"])) {
                Err(error @ CommandStartError::NotFound { .. }) => {
                    assert_eq!(error.to_string(), format!("{program} is not there to be run"), "{rung}");
                }
                other => panic!("{rung}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_program_that_lies_where_commands_do_not_see_is_told_with_the_reason() {
    let stage = CommandFixture::new();
    let hidden = tempfile::tempdir_in("/var/tmp").unwrap();
    std::os::unix::fs::symlink(stage.path("outside"), hidden.path().join("link")).unwrap();
    for dir in [stage.path("outside"), hidden.path().to_owned()] {
        std::fs::copy("/bin/true", dir.join("tool")).unwrap();
    }
    let (at_tmp, at_hidden) = (shown(&stage.path("outside/tool")), shown(&hidden.path().join("tool")));
    let below = shown(hidden.path());
    let through_link = shown(&hidden.path().join("link/tool"));
    for rung in rungs()
        .into_iter()
        .filter(|rung| matches!(rung, IsolationBackend::Namespaces | IsolationBackend::Bubblewrap))
    {
        let cases = [
            (at_tmp.as_str(), format!("{at_tmp} lies below /tmp, which commands do not see")),
            (&at_hidden, format!("{at_hidden} lies below {below}, which commands do not see")),
            (&through_link, format!("{through_link} lies below {below}, which commands do not see")),
            ("tool", format!("{at_tmp} lies below /tmp, which commands do not see")),
        ];
        for (program, said) in cases {
            let mut spec = CommandSpec { hide: vec![hidden.path().to_owned()], ..stage.command([program]) };
            spec.env.retain(|(name, _)| name != "PATH");
            spec.env.push(pair("PATH", format!("/usr/bin:/bin:{}", shown(&stage.path("outside")))));
            let error = stage.start(rung, spec).unwrap_err();
            assert_eq!(error.to_string(), said, "{rung}");
        }
        // What is missing in the project is missing there, though the project lies below /tmp.
        let missing = shown(&stage.path("project/file"));
        std::fs::remove_file(stage.path("copy/file")).unwrap();
        let error = stage.start(rung, stage.command([&missing])).unwrap_err();
        assert_eq!(error.to_string(), format!("{missing} is not there to be run"), "{rung}");
        std::fs::write(stage.path("copy/file"), "").unwrap();
    }
}

#[test]
fn a_program_that_cannot_be_run_is_told_from_one_that_is_not_there() {
    let stage = CommandFixture::new();
    let file = stage.path("copy/script");
    std::fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    for (mode, errno) in [(0o644, libc::EACCES), (0o755, libc::ENOENT)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        for rung in rungs() {
            match stage.start(rung, stage.command(["./script"])) {
                Err(CommandStartError::NotExecutable { program, source }) => {
                    assert_eq!(
                        (program.as_str(), source.raw_os_error()),
                        ("./script", Some(errno)),
                        "{rung}"
                    );
                }
                other => panic!("{rung}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_script_that_names_no_interpreter_is_run_by_the_shell() {
    let stage = CommandFixture::new();
    std::fs::write(stage.path("copy/script"), "echo \"ran with $1\"\n").unwrap();
    std::fs::set_permissions(stage.path("copy/script"), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(stage.prints(stage.command(["./script", "this"])), "ran with this\n");
}

#[test]
fn a_command_begins_in_the_directory_it_was_given_and_in_none_outside() {
    let stage = CommandFixture::new();
    std::fs::create_dir_all(stage.path("copy/sub/dir")).unwrap();
    symlink("/etc", stage.path("copy/out")).unwrap();
    let within = |below: &str| {
        let mut spec = stage.shell("pwd");
        spec.cwd.below = Some(RelPath::new(below).unwrap());
        spec
    };
    let printed = stage.prints(within("sub/dir"));
    assert_eq!(printed.trim_end(), stage.path("project/sub/dir").to_str().unwrap());
    for rung in rungs() {
        for below in ["out", "missing", "file"] {
            let refused = stage.start(rung, within(below));
            assert!(
                matches!(refused, Err(CommandStartError::Directory { .. })),
                "{rung} {below}: {refused:?}"
            );
        }
    }
    let elsewhere = CommandSpec {
        cwd: sandbox::command::WorkDir { root: RootIndex(3), below: None },
        ..stage.shell(":")
    };
    let refused = stage.start(IsolationBackend::Namespaces, elsewhere);
    assert!(matches!(refused, Err(CommandStartError::NoSuchRoot { no: RootIndex(3) })), "{refused:?}");
}

#[test]
fn what_is_given_to_read_is_read_to_its_end() {
    let stage = CommandFixture::new();
    let long = "line\n".repeat(100_000);
    for rung in rungs() {
        let given = CommandSpec { stdin: Stdin::Bytes(long.clone().into()), ..stage.shell("wc -c") };
        assert_eq!(text(&stage.run(rung, given).stdout).trim(), long.len().to_string(), "{rung}");
        assert_eq!(text(&stage.run(rung, stage.shell("wc -c")).stdout).trim(), "0", "{rung}");
    }
}

#[test]
fn commands_see_the_environment_they_were_given_and_no_other() {
    let ours = [
        pair("PATH", "/usr/bin:/bin"),
        pair("HOME", "/somebody"),
        pair("LANG", "C.UTF-8"),
        pair("LC_TIME", "C"),
        pair("TERM", "xterm"),
        pair("TMPDIR", "/var/tmp"),
        pair("SSH_AUTH_SOCK", "/run/agent"),
        pair("OPENAI_API_KEY", "sk-secret"),
        pair("CARGO_HOME", "/opt/cargo"),
    ];
    let given = EnvSpec {
        plan: "01JB".into(),
        job: "01JC".into(),
        fence: 7,
        output: Some("/tmp/out.json".into()),
        pass_env: vec!["CARGO_HOME".into()],
        env: vec![pair("LANG", "C"), pair("ARG_TARGET", "all of it"), pair("AGENTS_JOB", "none")],
    };
    let stage = CommandFixture::new();
    let spec = CommandSpec { env: environment(ours, &given), ..stage.command(["env"]) };
    let printed = stage.prints(spec);
    let mut seen: Vec<&str> = printed.lines().collect();
    seen.sort_unstable();
    let expected = [
        "AGENTS_FENCE=7",
        "AGENTS_JOB=01JC",
        "AGENTS_OUTPUT=/tmp/out.json",
        "AGENTS_PLAN=01JB",
        "ARG_TARGET=all of it",
        "CARGO_HOME=/opt/cargo",
        "HOME=/somebody",
        "LANG=C",
        "LC_TIME=C",
        "PATH=/usr/bin:/bin",
        "TERM=dumb",
        "TMPDIR=/tmp",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn isolation_that_is_required_is_never_done_without() {
    let stage = CommandFixture::new();
    let broken = || sandbox::child::ChildProgram::new("/bin/false");
    // Without a process to start it, no backend is tried, and no weaker one either.
    for policy in [IsolationPolicy::Required, IsolationPolicy::Optional] {
        let started = Isolation::new(policy, broken()).start(stage.view(), stage.shell("touch ran"));
        assert!(matches!(started, Err(CommandStartError::System { .. })), "{started:?}");
        assert!(!stage.path("copy/ran").exists());
    }
    let running =
        Isolation::new(IsolationPolicy::Required, child()).start(stage.view(), stage.shell(":")).unwrap();
    assert_eq!(running.isolation().rung, IsolationBackend::Namespaces);
    assert_eq!(running.isolation().passed_over, []);
}

#[test]
fn a_path_to_write_to_that_is_not_there_is_an_error() {
    let stage = CommandFixture::new();
    let spec = CommandSpec { writable: vec![stage.path("missing")], ..stage.shell(":") };
    match stage.start(IsolationBackend::Namespaces, spec) {
        Err(CommandStartError::Writable { path, .. }) => assert_eq!(path, stage.path("missing")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_leads_a_session_of_its_own_so_that_no_terminal_reaches_it() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let script =
            "read -r _ _ _ _ group session _ < /proc/$$/stat; echo $((group - $$)) $((session - $$))";
        assert_eq!(text(&stage.run(rung, stage.shell(script)).stdout), "0 0\n", "{rung}");
    }
}

#[test]
fn a_command_inherits_no_file_and_no_signal_setting_of_ours() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let script =
            "ls /proc/self/fd | tr '\\n' ' '; grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\t'";
        let printed = text(&stage.run(rung, stage.shell(script)).stdout);
        // The fourth is the directory that is being listed.
        assert_eq!(printed, format!("0 1 2 3 SigBlk:{0}\nSigIgn:{0}\n", "0".repeat(16)), "{rung}");
    }
}
