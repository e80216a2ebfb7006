//! The process that takes a job over kills what its earlier owners left, and nothing else.

use std::time::Duration;

use sandbox::command::{CommandSpec, EnvSpec, ExitKind, RunningCommand, environment, kill_job};
use sandbox::isolation::IsolationBackend;

use super::command_stage::{CommandFixture, PipeWriters, as_root_and_ordinary, rungs, this_test};

/// Nothing here waits as long.
const LONG: Duration = Duration::from_secs(600);

/// A job that no other test and no other process has.
fn job(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// A command that the owner with this fence has started, and that runs on: nobody waits for it. Beside it
/// runs one that left its session.
fn runs(
    stage: &CommandFixture,
    rung: IsolationBackend,
    job: &str,
    fence: u64,
) -> (RunningCommand, PipeWriters) {
    let alive = stage.alive();
    let script = "(setsid sh -c 'exec 9>alive; : > ready; while :; do sleep 0.01; done' >/dev/null 2>&1 &); \
                  until [ -e ready ]; do :; done; exec 8>alive; echo up >&8; exec sleep 1000";
    let given = EnvSpec { plan: "plan".into(), job: job.into(), fence, ..EnvSpec::default() };
    let spec = CommandSpec { env: environment(std::env::vars_os(), &given), ..stage.shell(script) };
    let running = stage.start(rung, spec).unwrap();
    (running, alive)
}

#[test]
fn what_an_earlier_owner_of_a_job_started_is_dead_when_the_kill_returns() {
    as_root_and_ordinary(
        "cases::command_job::what_an_earlier_owner_of_a_job_started_is_dead_when_the_kill_returns",
        || {
            let job = job("earlier");
            for rung in rungs() {
                let stage = CommandFixture::new();
                let (running, mut alive) = runs(&stage, rung, &job, 1);
                alive.wait_for_a_writer();
                let killed = kill_job(job.as_ref(), 2, LONG).unwrap();
                assert!(!alive.is_held(), "{rung}");
                assert!(killed >= 1, "{rung}");
                assert_eq!(kill_job(job.as_ref(), 2, LONG), Ok(0), "{rung}");
                let killed = libc::SIGKILL;
                let how = running.wait().how;
                // bubblewrap itself gives a signal back as a shell would.
                let ends = [ExitKind::Signalled(killed), ExitKind::Exited(128 + killed)];
                assert!(ends.contains(&how), "{rung}: {how:?}");
            }
        },
    );
}

#[test]
fn neither_a_later_owner_nor_another_job_is_touched() {
    let (job, other) = (job("later"), job("other"));
    let (stage, beside) = (CommandFixture::new(), CommandFixture::new());
    let (running, mut alive) = runs(&stage, IsolationBackend::None, &job, 2);
    let (another, mut another_alive) = runs(&beside, IsolationBackend::None, &other, 1);
    alive.wait_for_a_writer();
    another_alive.wait_for_a_writer();
    // An owner that stood still while the second one began.
    assert_eq!(kill_job(job.as_ref(), 2, LONG), Ok(0));
    assert_eq!(kill_job("".as_ref(), u64::MAX, LONG), Ok(0));
    assert!(alive.is_held() && another_alive.is_held());
    assert!(kill_job(job.as_ref(), 3, LONG).unwrap() >= 2);
    assert!(!alive.is_held() && another_alive.is_held());
    drop((running, another));
    assert!(!another_alive.is_held());
}

#[test]
fn who_asks_is_not_killed_though_it_bears_the_mark() {
    const NAME: &str = "cases::command_job::who_asks_is_not_killed_though_it_bears_the_mark";
    if let Some(job) = std::env::var_os("AGENTS_JOB") {
        return assert_eq!(kill_job(&job, 2, LONG), Ok(0));
    }
    let mut asks = this_test(NAME);
    let asked = asks.env("AGENTS_JOB", job("asks")).env("AGENTS_FENCE", "1").output().unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stdout));
}
