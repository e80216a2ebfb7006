//! Resources out of a command's reach: sockets of other programs, calls that go round the walls, root's own
//! files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use super::support::{CommandOutput, TestUser, answer, is_root, ordinary_command};

/// A person whose project has the program that tries everything.
fn person() -> TestUser {
    with_probe(TestUser::new())
}

fn with_probe(person: TestUser) -> TestUser {
    let source = person.home().join("probe.c");
    fs::write(&source, include_str!("wall_probe.c")).unwrap();
    let probe = person.project().join("probe");
    let built = Command::new("cc").arg("-o").arg(&probe).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    person
}

/// Who runs it: this user, and, where that is root, also an ordinary one.
fn users() -> Vec<fn(&TestUser, &[&str]) -> Command> {
    let own: fn(&TestUser, &[&str]) -> Command = |person, args| person.command(&person.project(), args);
    let ordinary: fn(&TestUser, &[&str]) -> Command = ordinary_command;
    if is_root() { vec![own, ordinary] } else { vec![own] }
}

/// A directory outside the project that commands see, and that every user can enter.
fn outside() -> TempDir {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// What the command printed.
fn printed(person: &TestUser, by: fn(&TestUser, &[&str]) -> Command) -> String {
    answer(&mut by(person, &["plan", "logs", "@last", "--call", "1"])).stdout
}

/// The machine as it is where user namespaces are barred: the limit of them is used up, and no privilege is
/// left.
fn barred(plain: &Command) -> Command {
    const BAR: &str = "echo 0 > /proc/sys/user/max_user_namespaces && \
        exec setpriv --bounding-set -all --inh-caps -all \"$@\"";
    let words: Vec<&OsStr> = [plain.get_program()].into_iter().chain(plain.get_args()).collect();
    // Whoever is to become another user does so first.
    let becomes = if plain.get_program() == "setpriv" { 4 } else { 0 };
    let bar = ["unshare", "--user", "--map-root-user", "sh", "-c", BAR, "sh"].map(OsStr::new);
    let words = [&words[..becomes], &bar, &words[becomes..]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command.current_dir(plain.get_current_dir().unwrap()).env_clear().stdin(Stdio::null());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

fn set(person: &TestUser, setting: &str) {
    let file = person.config_file();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let before = fs::read_to_string(&file).unwrap_or_default();
    fs::write(file, format!("{setting}\n{before}")).unwrap();
}

#[test]
fn calls_that_go_round_the_walls_are_refused() {
    for by in users() {
        let person = person();
        assert_eq!(answer(&mut by(&person, &["run", "--", "./probe", "calls"])).exit, 0);
        let said = printed(&person, by);
        let expected = [
            "io_uring_setup ENOSYS",
            "io_uring_enter ENOSYS",
            "io_uring_register ENOSYS",
            "fanotify_init EPERM",
            "kcmp EPERM",
            "process_vm_readv EPERM",
            "process_vm_writev EPERM",
            "syslog EPERM",
            "personality_exec EPERM",
            "personality_query ok",
            "personality_no_randomize ok",
            "vsock EAFNOSUPPORT",
            "alg EAFNOSUPPORT",
            "packet EAFNOSUPPORT",
            "netlink_audit EAFNOSUPPORT",
            "netlink_route ok",
            "inet ok",
            "socketpair ok",
            "socketpair_vsock EAFNOSUPPORT",
            "limit_own ok",
            "limit_first EPERM",
            "limit_parent EPERM",
            "shared_memory ok",
        ];
        for line in expected {
            assert!(said.contains(&format!("{line}\n")), "{line}: {said}");
        }
        if cfg!(target_arch = "x86_64") {
            for line in ["modify_ldt EPERM", "x32_socket EPERM", "int_0x80 killed"] {
                assert!(said.contains(&format!("{line}\n")), "{line}: {said}");
            }
        }
        let allowed = answer(&mut by(&person, &["run", "--io-uring", "--", "./probe", "calls"]));
        assert_eq!(allowed.exit, 0, "{allowed:?}");
        let said = printed(&person, by);
        // Where the machine itself has it off, that says so in another way.
        assert!(!said.contains("io_uring_setup ENOSYS"), "{said}");
        assert!(said.contains("vsock EAFNOSUPPORT"), "{said}");
    }
}

/// Listens at a path, as a daemon would, for streams and datagrams.
struct Daemon {
    _stream: UnixListener,
    datagram: UnixDatagram,
    stream_at: PathBuf,
    datagram_at: PathBuf,
}

impl Daemon {
    fn new(dir: &Path, name: &str) -> Daemon {
        let (stream_at, datagram_at) = (dir.join(name), dir.join(format!("{name}-datagram")));
        let stream = UnixListener::bind(&stream_at).unwrap();
        let datagram = UnixDatagram::bind(&datagram_at).unwrap();
        for path in [&stream_at, &datagram_at] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        stream.set_nonblocking(true).unwrap();
        datagram.set_nonblocking(true).unwrap();
        Daemon { _stream: stream, datagram, stream_at, datagram_at }
    }

    fn heard_nothing(&self) -> bool {
        self._stream.accept().is_err() && self.datagram.recv(&mut [0; 8]).is_err()
    }

    fn tries(&self) -> String {
        format!(
            "./probe connect {}; ./probe connect {}",
            self.stream_at.display(),
            self.datagram_at.display()
        )
    }
}

#[test]
fn no_socket_outside_can_be_reached_not_even_one_that_appears_later() {
    for by in users() {
        let (person, outside) = (person(), outside());
        let gate = outside.path().join("gate");
        fs::create_dir(&gate).unwrap();
        fs::set_permissions(&gate, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(
            Command::new("mkfifo").args(["-m", "666"]).arg(gate.join("pipe")).status().unwrap().success()
        );
        let early = Daemon::new(outside.path(), "early");
        let late = outside.path().join("late");
        let (first, g) = (early.tries(), gate.display());
        let script = format!(
            "{first}; : > {g}/waits; read line < {g}/pipe; ./probe connect {0}; ./probe connect {0}-datagram",
            late.display()
        );
        let mut run = by(&person, &["run", "--writable", gate.to_str().unwrap(), "--", "sh", "-c", &script]);
        let mut run = run.stdout(Stdio::null()).spawn().unwrap();
        while !gate.join("waits").exists() {
            assert!(run.try_wait().unwrap().is_none(), "it ended before it waited");
        }
        let late = Daemon::new(outside.path(), "late");
        fs::write(gate.join("pipe"), "go\n").unwrap();
        assert_eq!(run.wait().unwrap().code(), Some(0));
        let said = printed(&person, by);
        let expected = "stream ECONNREFUSED\ndatagram ECONNREFUSED\n".repeat(4);
        assert_eq!(said, expected);
        assert!(early.heard_nothing() && late.heard_nothing());
        let open = answer(&mut by(&person, &["run", "--unix-sockets", "--", "sh", "-c", &early.tries()]));
        assert_eq!(open.exit, 0, "{open:?}");
        let said = printed(&person, by);
        assert_eq!(said.lines().filter(|line| line.ends_with(" ok")).count(), 2, "{said}");
        assert!(!early.heard_nothing());
    }
}

#[test]
fn no_socket_in_the_home_is_reached_though_it_is_shown() {
    for by in users() {
        let person = with_probe(TestUser::new_outside_tmp());
        fs::create_dir(person.home().join("shown")).unwrap();
        fs::set_permissions(person.home(), fs::Permissions::from_mode(0o755)).unwrap();
        let named = Daemon::new(&person.home(), "named");
        let below = Daemon::new(&person.home().join("shown"), "below");
        set(&person, "isolation.show = [\"@toolchains\", \"~/named\", \"~/named-datagram\", \"~/shown\"]");
        let script = format!("{}; {}", named.tries(), below.tries());
        let ran = answer(&mut by(&person, &["run", "--", "sh", "-c", &script]));
        assert_eq!(ran.exit, 0, "{ran:?}");
        let said = printed(&person, by);
        assert!(said.lines().count() == 8 && !said.contains(" ok"), "{said}");
        assert!(named.heard_nothing() && below.heard_nothing());
        let notes = answer(&mut by(&person, &["plan", "logs", "@last", "--format", "json"])).stdout;
        let told = format!("{} is not shown: it is a socket", named.stream_at.display());
        assert!(notes.contains(&told) && notes.contains("--unix-sockets"), "{notes}");
        let open = answer(&mut by(&person, &["run", "--unix-sockets", "--", "sh", "-c", &script]));
        assert_eq!(open.exit, 0, "{open:?}");
        assert!(!named.heard_nothing() && !below.heard_nothing());
    }
}

#[test]
fn the_sockets_that_a_command_makes_for_itself_work() {
    for by in users() {
        let person = person();
        let script = "./probe own own.sock; ./probe own /tmp/own.sock; rm own.sock";
        assert_eq!(answer(&mut by(&person, &["run", "--", "sh", "-c", script])).exit, 0);
        assert_eq!(printed(&person, by), "own ok\nown ok\n");
    }
}

#[test]
fn what_belongs_to_root_alone_is_not_to_be_read_though_root_runs_the_plan() {
    if !is_root() {
        return;
    }
    let (person, outside) = (person(), outside());
    for (name, mode) in [("secret", 0o600), ("group", 0o640), ("public", 0o644)] {
        fs::write(outside.path().join(name), format!("{name}\n")).unwrap();
        fs::set_permissions(outside.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let closed = outside.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("inside"), "inside\n").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    person.write("mine", "mine\n");
    fs::set_permissions(person.project().join("mine"), fs::Permissions::from_mode(0o600)).unwrap();
    // Root that logged in is in groups, whose files it must not read either.
    rustix::fs::chown(outside.path().join("group"), None, Some(rustix::fs::Gid::from_raw(4))).unwrap();
    let dir = outside.path().display();
    let script = format!(
        "cat mine {dir}/secret {dir}/group {dir}/public {dir}/closed/inside /etc/shadow; echo x >> mine; stat -c %u mine"
    );
    let plain = person.command(&person.project(), &["run", "--", "sh", "-c", &script]);
    let ran = answer(&mut through(&["setpriv", "--groups", "0,4,42"], &plain));
    assert_eq!(ran.exit, 0, "{ran:?}");
    let said = person.agents(&["plan", "logs", "@last", "--call", "1"]).stdout;
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("cat: ")).collect();
    assert_eq!(lines, ["mine", "public", "0"], "{said}");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("mine"), "mine\nx\n");
    let hidden_home = fs::metadata(person.project().join("mine")).unwrap();
    assert_eq!(hidden_home.permissions().mode() & 0o777, 0o600);
    // A project below a directory that only root can enter works, and what is beside it is not to be seen.
    let deep = closed.join("project");
    fs::create_dir(&deep).unwrap();
    let mut beside = person.command(&deep, &["run", "--", "sh", "-c", "ls ..; echo made > made"]);
    let said = answer(&mut beside);
    assert_eq!(said.exit, 0, "{said:?}");
    let said = answer(&mut person.command(&deep, &["plan", "logs", "@last", "--call", "1"])).stdout;
    assert_eq!(said, "project\n");
}

/// The same command, started by the words of another.
fn through(words: &[&str], plain: &Command) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(plain.get_program()).args(plain.get_args());
    command.current_dir(plain.get_current_dir().unwrap()).env_clear().stdin(Stdio::null());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

#[test]
fn root_that_may_not_act_as_another_user_shows_nothing_of_its_own_either_and_says_so() {
    if !is_root() {
        return;
    }
    let (person, outside) = (person(), outside());
    let closed = outside.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("inside"), "inside\n").unwrap();
    for (path, mode) in [(outside.path().join("secret"), 0o600), (outside.path().join("public"), 0o644)] {
        fs::write(&path, "read\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let dir = outside.path().display();
    let script = format!(
        "cat {dir}/secret /etc/shadow; ls -A {dir}/closed; cat {dir}/closed/inside {dir}/public; true"
    );
    for without in ["-setuid", "-setgid", "-setuid,-setgid,-sys_admin"] {
        let plain = person.command(&person.project(), &["run", "--", "sh", "-c", &script]);
        let ran = answer(&mut through(&["setpriv", "--bounding-set", without], &plain));
        assert_eq!(ran.exit, 0, "{without}: {ran:?}");
        let logs = person.agents(&["plan", "logs", "@last", "--call", "1"]).stdout;
        let lines: Vec<&str> = logs.lines().filter(|line| !line.starts_with("cat: ")).collect();
        assert_eq!(lines, ["read"], "{without}: {logs}");
        let notes = person.agents(&["plan", "logs", "@last", "--format", "json"]).stdout;
        assert!(notes.contains("root's rights cannot be given up"), "{without}: {notes}");
    }
}

#[test]
fn a_mount_that_hides_something_hides_it_from_commands_too() {
    if !is_root() {
        return;
    }
    let (person, outside) = (person(), outside());
    for name in ["by-device", "by-closed-file", "by-open-file", "covering", "by-directory/inside"] {
        let path = outside.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("{name}\n")).unwrap();
    }
    fs::create_dir(outside.path().join("processes")).unwrap();
    fs::create_dir(outside.path().join("empty")).unwrap();
    let script = "cd \"$0\" && mount --bind /dev/null by-device \
        && mount --bind covering by-open-file && mount --bind empty by-directory \
        && mount -t tmpfs -o mode=700 none empty && touch empty/file && chmod 0 empty/file \
        && mount --bind empty/file by-closed-file && mount -t proc none processes \
        && mount -t tmpfs none /sys/fs/cgroup && echo below > /sys/fs/cgroup/below && cd \"$OLDPWD\" && exec \"$@\"";
    let dir = outside.path().to_str().unwrap();
    let look = format!(
        "cd {dir}; cat by-device by-closed-file by-open-file by-directory/inside; ls processes; cat /sys/fs/cgroup/below; ls -d /sys/kernel"
    );
    let plain = person.command(&person.project(), &["run", "--", "sh", "-c", &look]);
    let ran = answer(&mut through(&["unshare", "--mount", "sh", "-c", script, dir], &plain));
    assert_eq!(ran.exit, 0, "{ran:?}");
    let logs = person.agents(&["plan", "logs", "@last", "--call", "1"]).stdout;
    let lines: Vec<&str> = logs.lines().filter(|line| !line.starts_with("cat: ")).collect();
    assert_eq!(lines, ["covering", "/sys/kernel"], "{logs}");
}

#[test]
fn commands_end_where_the_ends_of_children_are_ignored() {
    let person = person();
    let plain = person.command(&person.project(), &["run", "--", "sh", "-c", "true; exit 3"]);
    let ran = answer(&mut through(&["sh", "-c", "trap '' CHLD; exec \"$@\"", "sh"], &plain));
    assert!(ran.stderr.contains("exited with status 3"), "{ran:?}");
}

#[test]
fn root_runs_plans_with_a_data_directory_or_a_project_that_is_a_mount_or_closed_to_others() {
    if !is_root() {
        return;
    }
    let (person, outside) = (TestUser::new(), outside());
    for (name, data, project) in
        [("data", "mount/data", "shop"), ("project", "data", "mount/shop"), ("both", "mount/d", "mount/p")]
    {
        let (real, dir) = (outside.path().join(format!("{name}-real")), outside.path().join(name));
        fs::create_dir(&real).unwrap();
        for made in ["", "mount", "shop"] {
            fs::create_dir(dir.join(made)).unwrap();
        }
        let script = "mount --bind \"$0\" \"$1/mount\" && mkdir -p -m 700 \"$1/$2\" && cd \"$1/$2\" && shift 2 && \"$@\"";
        let data = dir.join(data);
        let plain = person.command(
            outside.path(),
            &["--data-dir", data.to_str().unwrap(), "run", "--apply", "--", "sh", "-c", "echo x > made"],
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).args([&real, &dir]).arg(project);
        command.arg(plain.get_program()).args(plain.get_args());
        command.current_dir(outside.path()).env_clear().stdin(Stdio::null());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = answer(&mut command);
        assert_eq!(ran.exit, 0, "{name}: {ran:?}");
    }
}

#[test]
fn landlock_alone_is_no_sandbox_unless_it_is_said_to_be_enough() {
    for by in users() {
        let person = person();
        let run = |words: &[&str]| answer(&mut barred(&by(&person, words)));
        let refused = run(&["run", "--", "true"]);
        assert_ne!(refused.exit, 0, "{refused:?}");
        assert!(
            refused.stderr.contains("nothing that isolates commands as `policy.sandbox` demands"),
            "{refused:?}"
        );
        let doctor = run(&["doctor"]);
        assert_eq!((doctor.exit, doctor.stderr.contains("policy.sandbox=landlock")), (1, true), "{doctor:?}");
        set(&person, "policy.sandbox = \"landlock\"");
        let ran = run(&["run", "--", "sh", "-c", "./probe own own.sock; echo made > made"]);
        assert_eq!(ran.exit, 0, "{ran:?}");
        for words in [&["plan", "status", "@last"][..], &["plan", "logs", "@last"]] {
            let told = run(words).stdout;
            assert!(told.contains("isolation landlock: it could see your processes"), "{told}");
            assert!(told.contains("see `agents doctor`"), "{told}");
        }
        assert!(told_in(&ran).contains("isolation landlock"), "{ran:?}");
        assert!(run(&["plan", "logs", "@last"]).stdout.contains("own EPERM"));
        assert_eq!(run(&["run", "--", "./probe", "calls"]).exit, 0);
        let said = run(&["plan", "logs", "@last"]).stdout;
        assert!(said.contains("shared_memory EPERM") && said.contains("limit_parent EPERM"), "{said}");
        let status = run(&["plan", "status", "@last", "--format", "json"]).data();
        assert_eq!(status["isolation"]["rung"], json!("landlock"), "{status}");
        let best = answer(&mut by(&person, &["run", "--", "true"]));
        assert!(!told_in(&best).contains("isolation"), "{best:?}");
    }
}

fn told_in(answer: &CommandOutput) -> String {
    format!("{}{}", answer.stdout, answer.stderr)
}

/// Leaves its session twice and its parents, without an environment; holds a lock for as long as it lives.
const LEAVE: &str = "(env -i setsid sh -c '(setsid sh \"$0/daemon.sh\" \"$0\" &)' \"$1\" > /dev/null 2>&1 &)\n\
    exec env -i sleep 600\n";
const DAEMON: &str = "exec 9> \"$1/lock\"; flock 9; echo innocent > /proc/$$/comm\n\
    while :; do echo tick >> \"$1/ticks\"; sleep 0.02; done\n";

#[test]
fn a_confirmed_cancel_leaves_nothing_of_a_command_that_took_every_mark_off() {
    for (by, is_barred) in users().into_iter().flat_map(|by| [(by, false), (by, true)]) {
        let (person, outside) = (TestUser::new(), outside());
        set(&person, "policy.sandbox = \"landlock\"\nasync.lease = \"5s\"");
        let gate = outside.path().join("gate");
        fs::create_dir(&gate).unwrap();
        fs::set_permissions(&gate, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(gate.join("leave.sh"), LEAVE).unwrap();
        fs::write(gate.join("daemon.sh"), DAEMON).unwrap();
        let g = gate.to_str().unwrap();
        let script = format!("{g}/leave.sh");
        let plain = by(&person, &["run", "--writable", g, "--", "env", "-i", "sh", &script, g]);
        let mut run = if is_barred { barred(&plain) } else { plain };
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while fs::read_to_string(gate.join("ticks")).unwrap_or_default().is_empty() {
            assert!(run.try_wait().unwrap().is_none(), "it ended before it ticked");
        }
        let owner = rustix::process::Pid::from_child(&run);
        rustix::process::kill_process(owner, rustix::process::Signal::STOP).unwrap();
        let cancelled = answer(&mut by(&person, &["plan", "cancel", "@last", "--wait", "60s"]));
        let free = Command::new("flock").arg("-n").arg(gate.join("lock")).arg("true").status().unwrap();
        rustix::process::kill_process(owner, rustix::process::Signal::CONT).unwrap();
        run.wait().unwrap();
        assert_eq!(cancelled.exit, 0, "{cancelled:?}");
        assert!(free.success(), "the command lives (barred: {is_barred})");
    }
}

#[test]
fn what_the_kernel_tells_of_the_machine_is_masked() {
    for by in users() {
        let person = TestUser::new();
        let script = "cat /proc/keys /proc/kallsyms /proc/timer_list /proc/interrupts /proc/modules /proc/iomem \
            /proc/sysrq-trigger; ls -A /proc/fs /proc/bus /proc/scsi /sys/firmware /sys/fs/cgroup /sys/kernel/debug | \
            grep -v '^/.*:$' | grep -v '^$'; grep -v ':/$' /proc/self/cgroup; head -c 9 /proc/cpuinfo";
        let ran = answer(&mut by(&person, &["run", "--", "sh", "-c", script]));
        assert_eq!(ran.exit, 0, "{ran:?}");
        let said = printed(&person, by);
        // What a machine does not have cannot be masked either.
        let lines: Vec<&str> = said.lines().filter(|line| !line.contains("No such file")).collect();
        assert_eq!(lines, ["processor"], "{said}");
    }
}

#[test]
fn the_user_can_remove_what_a_killed_plan_left_in_the_data_directory() {
    for by in users() {
        let person = TestUser::new();
        let mut run =
            by(&person, &["run", "--check", "true", "--", "sh", "-c", "echo ready; exec sleep 600"]);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !answer(&mut by(&person, &["plan", "logs", "@last"])).stdout.contains("\nready") {
            assert!(run.try_wait().unwrap().is_none(), "it ended before it was ready");
        }
        run.kill().unwrap();
        run.wait().unwrap();
        let sandboxes = person.home().join("data/sandboxes");
        assert!(fs::read_dir(&sandboxes).unwrap().count() > 0, "nothing was left");
        let data = person.home().join("data");
        let plain = by(&person, &[]);
        let is_ordinary = plain.get_program() == "setpriv";
        let mut remove = Command::new(if is_ordinary { "setpriv" } else { "rm" });
        if is_ordinary {
            remove.args(["--reuid=65534", "--regid=65534", "--clear-groups", "rm"]);
        }
        let removed = remove.arg("-rf").arg(&data).output().unwrap();
        assert!(removed.status.success() && !data.exists(), "{}", String::from_utf8_lossy(&removed.stderr));
    }
}

/// What a plan says whose command reached a bound.
fn bounded(person: &TestUser, by: fn(&TestUser, &[&str]) -> Command, setting: &str, script: &str) -> String {
    // Without its bound a command would stay.
    set(person, &format!("{setting}\nlimits.time = \"120s\""));
    let ran = answer(&mut by(person, &["run", "--", "sh", "-c", script]));
    assert_ne!(ran.exit, 0, "{setting}: {ran:?}");
    ran.stderr
}

#[test]
fn a_command_that_reaches_a_bound_is_told_which_and_how_to_raise_it() {
    for by in users() {
        let person = person();
        let told = bounded(&person, by, "limits.processes = 60", "./probe crowd 2000 && exec sleep 600");
        assert!(told.contains("`limits.processes` allows, 60"), "{told}");
        assert!(told.contains("agents config set limits.processes=120"), "{told}");
        let person = self::person();
        let told = bounded(&person, by, "limits.memory = 64", "./probe memory 1000");
        assert!(told.contains("`limits.memory` allows, 64 MB"), "{told}");
        let person = self::person();
        let fills = "head -c 30M /dev/zero > /tmp/a; head -c 30M /dev/zero > /dev/shm/b; ls -l /run; exit 1";
        let told = bounded(&person, by, "limits.memory = 64", fills);
        assert!(told.contains("half of `limits.memory`, 32 MB"), "{told}");
    }
}

#[test]
fn memory_that_belongs_to_no_process_counts_for_the_command_that_made_it() {
    for by in users() {
        for verb in ["memory_file", "shared", "segments"] {
            let person = self::person();
            let script = format!("./probe {verb} 200 & ./probe {verb} 200");
            let told = bounded(&person, by, "limits.memory = 256", &script);
            assert!(told.contains("`limits.memory` allows, 256 MB"), "{verb}: {told}");
        }
    }
}

#[test]
fn a_command_that_fills_the_disk_is_ended_before_it_is_full() {
    let found = rustix::fs::statvfs(std::env::temp_dir().as_path()).unwrap();
    let free_mb = found.f_bavail * found.f_frsize / (1024 * 1024);
    // Other programs write far less meanwhile. Measured once: the file of the first user may be removed while
    // the second one's command runs.
    let big_mb = (free_mb / 4).min(16_000);
    let stays = free_mb.saturating_sub(big_mb / 2);
    for by in users() {
        let person = person();
        let script = format!("fallocate -l {big_mb}M big && exec sleep 600");
        let told = bounded(&person, by, &format!("limits.disk = {stays}"), &script);
        assert!(told.contains("`limits.disk`"), "{told}");
    }
}

#[test]
fn no_command_leaves_a_dump_of_its_memory() {
    let person = TestUser::new();
    assert_eq!(person.agents(&["run", "--", "sh", "-c", "ulimit -c; ulimit -Hc"]).exit, 0);
    assert_eq!(person.agents(&["plan", "logs", "@last", "--call", "1"]).stdout, "0\n0\n");
}

#[test]
fn where_landlock_stands_alone_modes_owners_and_times_change_in_the_sandbox_only() {
    for by in users() {
        let (person, outside) = (person(), outside());
        set(&person, "policy.sandbox = \"landlock\"");
        person.write("inside", "inside\n");
        let target = outside.path().join("file");
        fs::write(&target, "outside\n").unwrap();
        assert!(Command::new("chmod").args(["-R", "a+rwX"]).arg(outside.path()).status().unwrap().success());
        if by(&person, &[]).get_program() == "setpriv" {
            let given = Command::new("chown").args(["-R", "65534:65534"]).arg(outside.path()).status();
            assert!(given.unwrap().success());
        }
        let seen = |path: &Path| {
            let found = fs::metadata(path).unwrap();
            (found.permissions(), found.modified().unwrap())
        };
        let before = [seen(&target), seen(&person.project().join("inside"))];
        let mine = person.project().join("inside").display().to_string();
        let script = format!(
            "./probe dress {0}; ln -s {0} led; ./probe dress led; ./probe dress {mine}; echo --; ./probe dress inside; \
             stat -c '%a %Y' inside; touch inside && chmod +x inside && cp -p inside copied",
            target.display()
        );
        let ran = answer(&mut barred(&by(&person, &["run", "--", "sh", "-c", &script])));
        assert_eq!(ran.exit, 0, "{ran:?}");
        let said = answer(&mut by(&person, &["plan", "logs", "@last", "--call", "1"])).stdout;
        let (refused, done) = said.split_once("--\n").unwrap();
        assert!(!refused.contains(" ok"), "{said}");
        assert_eq!(refused.matches("fchmod EPERM").count(), 3, "{said}");
        for call in ["chmod", "chown", "utimensat", "fchmod", "fchown", "futimens", "fchmodat2"] {
            assert!(done.contains(&format!("{call} ok\n")), "{call}: {said}");
        }
        assert!(done.contains("setxattr EOPNOTSUPP\n") && done.contains("777 1\n"), "{said}");
        assert_eq!([seen(&target), seen(&person.project().join("inside"))], before);
    }
}

#[test]
fn device_files_keep_their_modes_and_times_whatever_a_command_of_root_does() {
    if !is_root() {
        return;
    }
    let person = TestUser::new();
    let states = || {
        ["null", "zero", "full", "random", "urandom", "tty"].map(|name| {
            let found = fs::metadata(Path::new("/dev").join(name)).unwrap();
            (found.permissions().mode(), found.modified().unwrap())
        })
    };
    let before = states();
    let script = "for f in /dev/full /dev/tty; do chmod 600 $f; touch -d 2001-01-01 $f; done; \
        echo into > /dev/null && head -c 1 /dev/zero | wc -c; echo x > /dev/full";
    let ran = person.agents(&["run", "--", "sh", "-c", script]);
    assert_ne!(ran.exit, 0, "a full device takes nothing: {ran:?}");
    assert_eq!(states(), before);
    assert!(person.printed().starts_with("1\n"), "devices work: {}", person.printed());
}

#[test]
fn every_directory_of_the_machine_is_there_empty_or_not() {
    let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let entries = fs::read_dir("/").unwrap().flatten().filter(is_dir);
    let dirs: Vec<String> = entries.filter_map(|entry| entry.path().to_str().map(str::to_owned)).collect();
    let script = "for dir; do test -d \"$dir\" || echo \"$dir is missing\"; touch \"$dir/x\" 2>/dev/null && echo \"$dir\"; done";
    for by in users() {
        let person = TestUser::new();
        let words: Vec<&str> = ["run", "--", "sh", "-c", script, "sh"]
            .into_iter()
            .chain(dirs.iter().map(String::as_str))
            .collect();
        assert!(!answer(&mut by(&person, &words)).stdout.is_empty());
        let printed = printed(&person, by);
        assert!(!printed.contains("missing"), "{printed}");
        // Only what is private can be written.
        let written: Vec<&str> =
            printed.lines().filter(|dir| !["/tmp", "/run", "/root"].contains(dir)).collect();
        assert!(written.is_empty(), "{written:?}");
    }
}
