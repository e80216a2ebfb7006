//! One process starts the children of all commands: it leaves nothing of one for the next, can be killed, and
//! ends with us.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal};
use sandbox::child::ChildProgram;
use sandbox::command::{CommandExit, CommandSpec, ExitKind, RunningCommand};
use sandbox::isolation::{Isolation, IsolationBackend};

use super::command_stage::{CommandFixture, child, pair, text, this_test};

const PAGE_BYTES: usize = 4096;
const DIR: &str = "STARTER_TEST_DIR";

/// A project, and a program whose processes are found by their first argument.
struct StarterFixture {
    stage: CommandFixture,
    program: ChildProgram,
}

impl StarterFixture {
    fn new() -> StarterFixture {
        let stage = CommandFixture::new();
        std::os::unix::fs::symlink(child().exe, stage.path("own-child")).unwrap();
        StarterFixture { program: ChildProgram::new(stage.path("own-child")), stage }
    }

    fn start(&self, spec: CommandSpec) -> RunningCommand {
        let isolation = Isolation::only(IsolationBackend::Namespaces, self.program.clone());
        isolation.start(self.stage.view(), spec).unwrap()
    }

    fn run(&self, spec: CommandSpec) -> CommandExit {
        self.start(spec).wait()
    }

    fn prints(&self, script: &str) -> String {
        let ended = self.run(self.stage.shell(script));
        assert_eq!(ended.how, ExitKind::Exited(0), "{}", text(&ended.stderr));
        text(&ended.stdout)
    }

    /// The processes of the program whose parent is `parent`, the starter first.
    fn processes(&self, parent: u32) -> Vec<Pid> {
        let own = self.program.exe.to_str().unwrap();
        let is_own = |pid: &i32| {
            let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            command.starts_with(own) && status.contains(&format!("PPid:\t{parent}\n"))
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let mut pids: Vec<i32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_own).collect();
        pids.sort_unstable();
        pids.into_iter().map(|pid| Pid::from_raw(pid).unwrap()).collect()
    }

    fn starter(&self) -> Pid {
        let found = self.processes(std::process::id());
        assert_eq!(found.len(), 1, "{found:?}");
        found[0]
    }
}

fn wait_for_death(process: &OwnedFd) {
    poll(&mut [PollFd::new(process, PollFlags::IN)], None).unwrap();
}

fn hold(pid: Pid) -> OwnedFd {
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

#[test]
fn no_command_finds_what_an_earlier_one_changed() {
    let fixture = StarterFixture::new();
    let look = "umask; pwd; ulimit -n; ulimit -c; env | sort; ls -l /proc/self/fd | wc -l; nice";
    let first = fixture.prints(look);
    let starter = fixture.starter();
    let mut spec =
        fixture.stage.shell("umask 000; cd /; ulimit -n 20; renice -n 5 $$ >/dev/null; exec sleep 0");
    spec.env.push(pair("SECRET", "of one command"));
    assert_eq!(fixture.run(spec).how, ExitKind::Exited(0));
    assert_eq!(fixture.prints(look), first);
    assert_eq!(fixture.starter(), starter);
    assert_eq!(StarterFixture { program: child(), ..fixture }.prints(look), first);
}

#[test]
fn the_environment_of_a_command_is_never_in_the_memory_of_the_starter() {
    let fixture = StarterFixture::new();
    let secret = format!("secret-{}-of-a-command", std::process::id());
    let mut spec = fixture.stage.shell("printf %s \"$SECRET\"");
    spec.env.push(pair("SECRET", secret.as_str()));
    assert_eq!(text(&fixture.run(spec).stdout), secret);
    let starter = fixture.starter().as_raw_nonzero();
    let memory = fs::File::open(format!("/proc/{starter}/mem")).unwrap();
    let mut is_looked_at = false;
    for line in fs::read_to_string(format!("/proc/{starter}/maps")).unwrap().lines() {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).unwrap());
        if !line.contains(" rw") {
            continue;
        }
        // A page at a time, with the beginning of the next: what others measure is not disturbed.
        for page in (start..end).step_by(PAGE_BYTES) {
            let mut bytes = vec![0; PAGE_BYTES + secret.len()];
            let Ok(count) = memory.read_at(&mut bytes, page) else { continue };
            let has = |text: &str| bytes[..count].windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!has(&secret), "{line}");
            // Its own arguments are there.
            is_looked_at |= has("\0__start\0");
        }
    }
    assert!(is_looked_at);
}

#[test]
fn a_child_bears_the_marks_of_its_job_as_its_environment_and_nothing_else() {
    let fixture = StarterFixture::new();
    let mut alive = fixture.stage.alive();
    let running = fixture.start(fixture.stage.shell("exec 9>alive; echo up >&9; exec sleep 1000"));
    alive.wait_for_a_writer();
    let found = fixture.processes(std::process::id());
    assert_eq!(found.len(), 2, "{found:?}");
    let environ = fs::read(format!("/proc/{}/environ", found[1].as_raw_nonzero())).unwrap();
    let mut variables: Vec<_> = environ.split(|byte| *byte == 0).filter(|one| !one.is_empty()).collect();
    variables.sort_unstable();
    assert_eq!(variables, [&b"AGENTS_FENCE=0"[..], b"AGENTS_HOLDER=1", b"AGENTS_JOB=job"]);
    running.killer().kill();
    assert_eq!(running.wait().how, ExitKind::Killed);
}

#[test]
fn a_starter_that_was_killed_takes_no_command_with_it_and_is_replaced() {
    let fixture = StarterFixture::new();
    let mut alive = fixture.stage.alive();
    let go = fixture.stage.path("copy/go");
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let running = fixture.start(fixture.stage.shell("exec 9>alive; echo up >&9; read -r _ < go; exit 7"));
    alive.wait_for_a_writer();
    let starter = fixture.processes(std::process::id())[0];
    rustix::process::kill_process(starter, Signal::KILL).unwrap();
    wait_for_death(&hold(starter));
    assert_eq!(fixture.prints("echo again"), "again\n");
    assert_ne!(fixture.processes(std::process::id())[0], starter);
    fs::write(go, "on\n").unwrap();
    assert_eq!(running.wait().how, ExitKind::Exited(7));
}

#[test]
fn a_starter_that_was_stopped_is_killed_and_replaced() {
    let fixture = StarterFixture::new();
    assert_eq!(fixture.prints("echo first"), "first\n");
    let starter = fixture.starter();
    let stopped = hold(starter);
    rustix::process::kill_process(starter, Signal::STOP).unwrap();
    assert_eq!(fixture.prints("echo again"), "again\n");
    wait_for_death(&stopped);
    assert_ne!(fixture.starter(), starter);
}

#[test]
fn a_command_has_the_priority_that_we_have_now() {
    if std::env::var_os(DIR).is_none() {
        return assert_passes_alone("cases::starter::a_command_has_the_priority_that_we_have_now");
    }
    let fixture = StarterFixture::new();
    let before: i32 = fixture.prints("nice").trim().parse().unwrap();
    let starter = fixture.starter();
    assert_eq!(rustix::process::nice(2).unwrap(), before + 2);
    assert_eq!(fixture.prints("nice"), format!("{}\n", before + 2));
    assert_ne!(fixture.starter(), starter);
}

#[test]
fn commands_run_and_end_where_no_process_can_be_made_for_another_one() {
    if std::env::var_os(DIR).is_none() {
        return assert_passes_alone(
            "cases::starter::commands_run_and_end_where_no_process_can_be_made_for_another_one",
        );
    }
    refuse_clone_parent();
    let fixture = StarterFixture::new();
    assert_eq!(fixture.prints("echo first"), "first\n");
    let starter = fixture.starter();
    let mut alive = fixture.stage.alive();
    let running = fixture.start(fixture.stage.shell("exec 9>alive; echo up >&9; exec sleep 1000"));
    alive.wait_for_a_writer();
    let children = fixture.processes(starter.as_raw_nonzero().get().cast_unsigned());
    assert_eq!(children.len(), 1, "{children:?}");
    let child = hold(children[0]);
    running.killer().kill();
    assert_eq!(running.wait().how, ExitKind::Killed);
    wait_for_death(&child);
    assert_eq!(fixture.prints("echo again"), "again\n");
}

/// Runs a test in a process of its own, because it changes the process.
fn assert_passes_alone(test: &str) {
    let output = this_test(test).env(DIR, "/").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn refuse_clone_parent() {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule,
    };
    let flag = libc::CLONE_PARENT as u64;
    let condition =
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag).unwrap();
    let rules = [(libc::SYS_clone, vec![SeccompRule::new(vec![condition]).unwrap()])];
    let filter = SeccompFilter::new(
        rules.into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn commands_at_once_each_get_their_own_end_and_leave_no_descriptor() {
    let fixture = StarterFixture::new();
    assert_eq!(fixture.prints("echo first"), "first\n");
    let starter = fixture.starter();
    let open = || fs::read_dir(format!("/proc/{}/fd", starter.as_raw_nonzero())).unwrap().count();
    let before = open();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let fixture = &fixture;
            scope.spawn(move || {
                for number in 0..5 {
                    let status = thread * 10 + number;
                    let ended = fixture.run(fixture.stage.shell(&format!("echo {status}; exit {status}")));
                    assert_eq!(ended.how, ExitKind::Exited(status));
                    assert_eq!(text(&ended.stdout), format!("{status}\n"));
                }
            });
        }
    });
    assert_eq!(fixture.starter(), starter);
    assert_eq!(open(), before);
}

#[test]
fn when_we_are_killed_the_starter_ends_and_so_does_the_command() {
    if let Some(dir) = std::env::var_os(DIR) {
        let stage = CommandFixture::at(dir);
        let fixture = StarterFixture { program: ChildProgram::new(stage.path("own-child")), stage };
        let script = "exec 9>alive; echo up >&9; exec sleep 1000";
        fixture.start(fixture.stage.shell(script)).wait();
        panic!("it was to be killed");
    }
    let fixture = StarterFixture::new();
    let mut alive = fixture.stage.alive();
    let mut owner = this_test("cases::starter::when_we_are_killed_the_starter_ends_and_so_does_the_command")
        .env(DIR, fixture.stage.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ended = hold(Pid::from_child(&owner));
    let mut processes = Vec::new();
    alive.wait_for_a_writer_and_its_death(Some(&ended), || {
        processes = fixture.processes(owner.id()).into_iter().map(hold).collect();
        owner.kill().unwrap();
    });
    assert_eq!(processes.len(), 2);
    processes.iter().for_each(wait_for_death);
    owner.wait().unwrap();
}
