//! Nothing of a command outlives it: not after its end, not after ours.

use std::process::Stdio;
use std::time::Duration;

use sandbox::command::{CommandSpec, ExitKind};
use sandbox::isolation::{IsolationBackend, kill_marked};

use super::command_stage::{CommandFixture, as_root_and_ordinary, pair, rungs, text, this_test};

/// Leaves a process behind that left its parent, its group and its session, and that holds the pipe.
const LEAVE_A_DAEMON: &str = "( setsid sh -c 'exec 9>alive; echo up >&9; : > ready; while :; do echo x >> grows; done' \
    >/dev/null 2>&1 & ) & until [ -e ready ]; do :; done";

#[test]
fn a_process_that_left_its_session_is_dead_before_wait_returns() {
    as_root_and_ordinary(
        "cases::command_kill::a_process_that_left_its_session_is_dead_before_wait_returns",
        || {
            for rung in rungs() {
                let stage = CommandFixture::new();
                let mut alive = stage.alive();
                let ended = stage.run(rung, stage.shell(LEAVE_A_DAEMON));
                assert_eq!(ended.how, ExitKind::Exited(0), "{rung}: {}", text(&ended.stderr));
                assert!(!alive.is_held(), "{rung}");
                assert!(ended.processes_killed >= 1, "{rung}");
            }
        },
    );
}

#[test]
fn a_background_process_that_holds_the_output_does_not_hold_up_the_end() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let ended = stage.run(rung, stage.shell("echo said; setsid sleep 1000 & exit 3"));
        assert_eq!((ended.how, text(&ended.stdout)), (ExitKind::Exited(3), "said\n".to_owned()), "{rung}");
    }
}

#[test]
fn a_command_that_takes_too_long_is_asked_to_end_first() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let script = "trap 'echo asked; exit 0' TERM; while :; do sleep 0.01; done";
        let spec = CommandSpec {
            timeout: Some(Duration::from_millis(300)),
            kill_grace: Duration::from_secs(600),
            ..stage.shell(script)
        };
        let ended = stage.run(rung, spec);
        assert_eq!((ended.how, text(&ended.stdout)), (ExitKind::TimedOut, "asked\n".to_owned()), "{rung}");
    }
}

#[test]
fn a_command_that_does_not_listen_is_killed_with_all_its_children() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let mut alive = stage.alive();
        let script = format!("trap '' TERM; {LEAVE_A_DAEMON}; exec 8>alive; while :; do :; done");
        let spec = CommandSpec {
            timeout: Some(Duration::from_millis(300)),
            kill_grace: Duration::from_millis(50),
            ..stage.shell(&script)
        };
        assert_eq!(stage.run(rung, spec).how, ExitKind::TimedOut, "{rung}");
        assert!(!alive.is_held(), "{rung}");
    }
}

#[test]
fn a_command_can_be_killed_from_any_thread_any_number_of_times() {
    as_root_and_ordinary(
        "cases::command_kill::a_command_can_be_killed_from_any_thread_any_number_of_times",
        || {
            for rung in rungs() {
                let stage = CommandFixture::new();
                let mut alive = stage.alive();
                let running =
                    stage.start(rung, stage.shell(&format!("{LEAVE_A_DAEMON}; exec sleep 1000"))).unwrap();
                let killers = [running.killer(), running.killer()];
                let after = running.killer();
                let threads = killers.map(|killer| {
                    std::thread::spawn(move || {
                        killer.kill();
                        killer.kill();
                    })
                });
                assert_eq!(running.wait().how, ExitKind::Killed, "{rung}");
                assert!(!alive.is_held(), "{rung}");
                for thread in threads {
                    thread.join().unwrap();
                }
                after.kill();
            }
        },
    );
}

#[test]
fn a_hundred_processes_die_at_one_kill() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let mut alive = stage.alive();
        let script = "exec 9>alive; for i in $(seq 100); do setsid sleep 1000 & done; echo up >&9; wait";
        let running = stage.start(rung, stage.shell(script)).unwrap();
        let killer = running.killer();
        let mut ended = None;
        alive.wait_for_a_writer_and_its_death(None, || {
            killer.kill();
            ended = Some(running.wait());
        });
        let ended = ended.unwrap();
        assert_eq!(ended.how, ExitKind::Killed, "{rung}");
        assert!(ended.processes_killed >= 100, "{rung}: {}", ended.processes_killed);
    }
}

#[test]
fn a_command_that_nobody_waits_for_is_killed() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let mut alive = stage.alive();
        let running = stage.start(rung, stage.shell(&format!("{LEAVE_A_DAEMON}; exec sleep 1000"))).unwrap();
        drop(running);
        assert!(!alive.is_held(), "{rung}");
    }
}

#[test]
fn the_command_lives_on_when_the_thread_that_started_it_ends() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let script = "until [ -e go ]; do :; done; echo lived on";
        let spec = stage.shell(script);
        let view = stage.view();
        let started = std::thread::spawn(move || {
            sandbox::isolation::Isolation::only(rung, super::command_stage::child())
                .start(view, spec)
                .unwrap()
        });
        let running = started.join().unwrap();
        std::fs::write(stage.path("copy/go"), "").unwrap();
        let ended = running.wait();
        assert_eq!(
            (ended.how, text(&ended.stdout)),
            (ExitKind::Exited(0), "lived on\n".to_owned()),
            "{rung}"
        );
    }
}

/// Played by the same test in another process, which is then killed.
const ENGINE: &str = "AGENTS_TEST_ENGINE";

#[test]
fn nothing_of_a_command_outlives_an_engine_that_is_killed() {
    const NAME: &str = "cases::command_kill::nothing_of_a_command_outlives_an_engine_that_is_killed";
    if let Some(place) = std::env::var_os(ENGINE) {
        return play_the_engine(place.to_str().unwrap());
    }
    as_root_and_ordinary(NAME, || {
        for rung in rungs() {
            let stage = CommandFixture::new();
            let mut alive = stage.alive();
            let place = format!("{rung}:{}", stage.path("").display());
            let mut engine = this_test(NAME);
            let mut engine = engine.env(ENGINE, place).stdout(Stdio::null()).spawn().unwrap();
            let pid = rustix::process::Pid::from_child(&engine);
            let starter = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
            alive.wait_for_a_writer_and_its_death(Some(&starter), || {
                engine.kill().unwrap();
                engine.wait().unwrap();
            });
            assert_eq!(std::fs::read_to_string(stage.path("project/file")).unwrap(), "the user's\n");
        }
    });
}

fn play_the_engine(place: &str) {
    let (rung, dir) = place.split_once(':').unwrap();
    let rung = IsolationBackend::TRY_ORDER.into_iter().find(|known| known.as_str() == rung).unwrap();
    let stage = CommandFixture::at(dir);
    let running = stage.start(rung, stage.shell(&format!("{LEAVE_A_DAEMON}; exec sleep 1000"))).unwrap();
    running.wait();
}

#[test]
fn a_reaper_that_is_killed_takes_nothing_out_of_reach() {
    let stage = CommandFixture::new();
    let mut alive = stage.alive();
    let script = format!("{LEAVE_A_DAEMON}; kill -KILL $PPID; exec sleep 1000");
    // Without isolation a command can reach its reaper.
    let ended = stage.run(IsolationBackend::None, stage.shell(&script));
    assert_eq!(ended.how, ExitKind::Signalled(libc::SIGKILL));
    assert!(!alive.is_held());
}

#[test]
fn a_command_cannot_reach_its_reaper() {
    as_root_and_ordinary("cases::command_kill::a_command_cannot_reach_its_reaper", || {
        for rung in rungs().into_iter().filter(|rung| *rung != IsolationBackend::None) {
            let stage = CommandFixture::new();
            let script = "kill -KILL $PPID; kill -STOP $PPID; cat /proc/$PPID/environ; readlink /proc/$PPID/fd/*; \
                ls /proc/$PPID/cwd/; echo lived";
            let ended = stage.run(rung, stage.shell(script));
            assert_eq!((ended.how, text(&ended.stdout).as_str()), (ExitKind::Exited(0), "lived\n"), "{rung}");
        }
        // Even with no other wall, root aside.
        if !rustix::process::geteuid().is_root() {
            let stage = CommandFixture::new();
            let ended =
                stage.run(IsolationBackend::None, stage.shell("readlink /proc/$PPID/fd/*; echo lived"));
            assert_eq!(text(&ended.stdout), "lived\n");
        }
    });
}

#[test]
fn what_a_job_left_behind_is_found_by_its_mark() {
    let stage = CommandFixture::new();
    let mut alive = stage.alive();
    let job = format!("job-{}", std::process::id());
    let mut orphan = std::process::Command::new("sh")
        .args(["-c", "exec 9>alive; echo up >&9; exec sleep 1000"])
        .envs([pair("AGENTS_JOB", &job)])
        .current_dir(stage.path("copy"))
        .spawn()
        .unwrap();
    alive.wait_for_a_writer_and_its_death(None, || assert_eq!(kill_marked("AGENTS_JOB", job.as_ref()), 1));
    orphan.wait().unwrap();
    assert_eq!(kill_marked("AGENTS_JOB", job.as_ref()), 0);
    assert_eq!(kill_marked("AGENTS_JOB", "".as_ref()), 0);
}

#[test]
fn a_command_that_has_ended_by_itself_can_still_be_killed_and_waited_for() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let mut alive = stage.alive();
        let running = stage.start(rung, stage.shell("exec 9>alive; echo up >&9")).unwrap();
        alive.wait_for_a_writer_and_its_death(None, || {});
        let killer = running.killer();
        killer.kill();
        // Which of the two was first is not ours to say.
        let how = running.wait().how;
        assert!(matches!(how, ExitKind::Exited(0) | ExitKind::Killed), "{rung}: {how:?}");
        killer.kill();
    }
}

#[test]
fn a_process_that_is_about_to_become_another_program_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("again.sh");
    std::fs::write(&script, "exec sh \"$0\"\n").unwrap();
    for round in 0..80 {
        let mark = format!("{}-{round}", dir.path().display());
        let mut command = std::process::Command::new("sh");
        let mut child = command.arg(&script).env("BECOMES", &mark).spawn().unwrap();
        let killed = kill_marked("BECOMES", mark.as_ref());
        let (is_dead, _) = (child.try_wait().unwrap().is_some(), child.kill());
        child.wait().unwrap();
        assert_eq!((killed, is_dead), (1, true), "round {round}");
    }
}
