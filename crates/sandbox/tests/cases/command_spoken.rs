//! Programs with piped input and output, with every backend.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use domain::RootIndex;
use sandbox::command::{CommandSpec, ExitKind, PipedStreams, RunningCommand, Stdin};
use sandbox::isolation::IsolationBackend;

use super::command_stage::{CommandFixture, as_root_and_ordinary, rungs, text};

/// Says back each line, and writes it down.
const ECHO: &str = "while read -r line; do echo \"heard $line\"; echo \"$line\" >> said; done; echo over >&2";

/// A program with both of its ends in hand.
struct PipedSession {
    running: RunningCommand,
    to: File,
    from: BufReader<File>,
    log: File,
    sees: String,
}

fn talk(stage: &CommandFixture, rung: IsolationBackend, script: &str) -> PipedSession {
    let spec = CommandSpec { stdin: Stdin::Spoken, ..stage.shell(script) };
    let mut running = stage.start(rung, spec).unwrap();
    let spoken = running.take_pipes().unwrap();
    let sees = spoken.root(RootIndex(0)).unwrap().to_str().unwrap().to_owned();
    let PipedStreams { stdin, stdout, log, roots: _ } = spoken;
    assert!(running.take_pipes().is_none());
    PipedSession { running, to: stdin.into(), from: BufReader::new(stdout.into()), log: log.into(), sees }
}

impl PipedSession {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line
    }
}

#[test]
fn a_program_is_spoken_to_line_by_line_and_what_it_writes_is_in_the_sandbox() {
    as_root_and_ordinary(
        "cases::command_spoken::a_program_is_spoken_to_line_by_line_and_what_it_writes_is_in_the_sandbox",
        || {
            for rung in rungs() {
                let stage = CommandFixture::new();
                let mut talk = talk(&stage, rung, ECHO);
                for word in ["one", "two", "three"] {
                    writeln!(talk.to, "{word}").unwrap();
                    assert_eq!(talk.line(), format!("heard {word}\n"), "{rung}");
                }
                talk.log.write_all(b"what is kept of it").unwrap();
                drop(talk.to);
                let ended = talk.running.wait();
                assert_eq!(ended.how, ExitKind::Exited(0), "{rung}");
                let kept = (text(&ended.stdout), text(&ended.stderr));
                assert_eq!(kept, ("what is kept of it".to_owned(), "over\n".to_owned()), "{rung}");
                let live = std::fs::read_to_string(stage.path("log/stdout")).unwrap();
                assert_eq!(live, "what is kept of it", "{rung}");
                let said = std::fs::read_to_string(stage.path("copy/said")).unwrap();
                assert_eq!(said, "one\ntwo\nthree\n", "{rung}");
                assert!(!stage.path("project/said").exists(), "{rung}");
                assert!(talk.log.write_all(b"too late").is_err(), "{rung}");
            }
        },
    );
}

#[test]
fn it_is_said_where_the_program_sees_its_project() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let mut talk = talk(&stage, rung, "pwd; cat");
        let seen = talk.line();
        assert_eq!(seen.trim_end(), talk.sees, "{rung}");
        drop(talk.to);
        talk.running.wait();
    }
}

#[test]
fn one_that_is_killed_in_the_middle_is_dead_with_all_that_it_started() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let mut alive = stage.alive();
        let script = "exec 9> alive; setsid sleep 1000 & echo ready; echo x >&9; read -r never";
        let mut talk = talk(&stage, rung, script);
        assert_eq!(talk.line(), "ready\n", "{rung}");
        alive.wait_for_a_writer();
        talk.running.killer().kill();
        let ended = talk.running.wait();
        assert_eq!(ended.how, ExitKind::Killed, "{rung}");
        assert!(!alive.is_held(), "{rung}");
        // Whoever speaks to it learns it: there is nothing more to read, and nobody to write to.
        let mut rest = String::new();
        assert_eq!(talk.from.read_line(&mut rest).unwrap(), 0, "{rung}");
        assert!(writeln!(talk.to, "hello?").is_err(), "{rung}");
    }
}

#[test]
fn one_that_takes_too_long_is_ended_though_its_streams_are_open() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let limit = Some(std::time::Duration::from_millis(50));
        let spec = CommandSpec { stdin: Stdin::Spoken, timeout: limit, ..stage.shell("cat") };
        let mut running = stage.start(rung, spec).unwrap();
        let spoken = running.take_pipes().unwrap();
        assert_eq!(running.wait().how, ExitKind::TimedOut, "{rung}");
        drop(spoken);
    }
}

#[test]
fn one_that_nobody_speaks_to_reads_the_end() {
    for rung in rungs() {
        let stage = CommandFixture::new();
        let spec = CommandSpec { stdin: Stdin::Spoken, ..stage.shell("cat; exit 3") };
        assert_eq!(stage.run(rung, spec).how, ExitKind::Exited(3), "{rung}");
    }
}
