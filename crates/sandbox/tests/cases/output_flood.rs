//! What a command prints, however much.

use sandbox::command::{CommandSpec, ExitKind, OutputSpec};
use sandbox::isolation::IsolationBackend;

use super::command_stage::{CommandFixture, text};

#[test]
fn both_streams_are_kept_apart_and_written_live() {
    let stage = CommandFixture::new();
    let ended = stage.run(IsolationBackend::Namespaces, stage.shell("echo out; echo err >&2; echo more"));
    assert_eq!((text(&ended.stdout).as_str(), text(&ended.stderr).as_str()), ("out\nmore\n", "err\n"));
    assert_eq!(std::fs::read_to_string(stage.path("log/stdout")).unwrap(), "out\nmore\n");
    assert_eq!(std::fs::read_to_string(stage.path("log/stderr")).unwrap(), "err\n");
}

#[test]
fn output_can_be_followed_while_the_command_runs() {
    let stage = CommandFixture::new();
    let running = stage
        .start(IsolationBackend::Namespaces, stage.shell("echo first; until [ -e go ]; do :; done"))
        .unwrap();
    while std::fs::read_to_string(stage.path("log/stdout")).unwrap() != "first\n" {
        std::thread::yield_now();
    }
    std::fs::write(stage.path("copy/go"), "").unwrap();
    assert_eq!(running.wait().how, ExitKind::Exited(0));
}

#[test]
fn a_flood_costs_no_more_than_the_bound_and_does_not_block_the_command() {
    let stage = CommandFixture::new();
    let flood: u64 = 2 << 30;
    let keep_bytes_max = 1 << 20;
    let output = OutputSpec { dir: stage.path("log"), keep_bytes_max };
    let script = format!("echo begin; head -c {flood} /dev/zero; echo end; echo done >&2");
    let before = resident_kib();
    let ended = stage.run(IsolationBackend::Namespaces, CommandSpec { output, ..stage.shell(&script) });
    assert!(resident_kib() < before + (64 << 10), "{} KiB more", resident_kib() - before);
    assert_eq!((ended.how, text(&ended.stderr).as_str()), (ExitKind::Exited(0), "done\n"));
    assert_eq!(ended.stdout.total(), flood + 10);
    assert_eq!(ended.stdout.left_out(), flood + 10 - keep_bytes_max as u64);
    let kept = ended.stdout.bytes();
    assert!(kept.starts_with(b"begin\n\0") && kept.ends_with(b"\0end\n"));
    assert_eq!(std::fs::read(stage.path("log/stdout")).unwrap(), kept);
    let bounded = ended.stdout.bounded(16 << 10, 48 << 10);
    assert!(bounded.contains(&format!("\n… {} bytes left out …\n", flood + 10 - (64 << 10))));
}

/// The most memory that this process has had.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn bytes_that_are_no_text_are_kept_as_they_are() {
    let stage = CommandFixture::new();
    let ended = stage.run(IsolationBackend::Namespaces, stage.shell(r"printf '\377\000a\n'"));
    assert_eq!(ended.stdout.bytes(), b"\xff\0a\n");
    assert_eq!(ended.stdout.bounded(100, 100), "\u{fffd}\0a\n");
}
