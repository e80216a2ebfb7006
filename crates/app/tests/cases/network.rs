//! A command with the network has one of its own: it reaches others, and nothing of this machine but what is
//! named.
//!
//! The machine is made by the test: a network namespace with a wire to a second one, in which the other host
//! is. No packet leaves it.

use std::fs;
use std::process::Command;

use super::support::{CommandOutput, TestUser, answer, is_root};

/// Makes the machine, then runs its arguments in it. `$HOSTS` is the script of both hosts.
const MACHINE: &str = r#"
set -e
jobs=
trap 'kill $jobs' EXIT
mount --make-rprivate /
echo 'nameserver 127.0.0.53' > "$HOME/resolv.conf"
mount --bind "$HOME/resolv.conf" "$(readlink -f /etc/resolv.conf)"
[ -z "$NO_TUN" ] || mount --bind /dev/null /dev/net/tun
ip link set lo up
ip link add near type veth peer name far
mkfifo "$HOME/ready"
# Held open at both ends: a reader would otherwise see the end of a writer that it had heard already.
exec 3<>"$HOME/ready"
unshare --net sh -c 'echo up > "$HOME/ready"; exec sleep 3600' & far=$!; jobs="$jobs $!"
read -r _ <&3
ip link set far netns $far
ip addr add 198.51.100.2/24 dev near
ip link set near up
# Whole networks that this machine answers for, without an address of one of its interfaces.
ip route add local 10.9.0.0/16 dev lo
ip route add local 10.8.0.0/16 dev lo src 198.51.100.2
ip addr add 2001:db8:1::2/64 dev near nodad
ip route add local 2001:db8:9::/64 dev lo
nsenter --net=/proc/$far/ns/net sh -ec 'ip link set lo up; ip addr add 198.51.100.1/24 dev far; ip link set far up'
nsenter --net=/proc/$far/ns/net python3 "$HOSTS" far & jobs="$jobs $!"
read -r _ <&3
python3 "$HOSTS" near & jobs="$jobs $!"
read -r _ <&3
"$@" 3<&-
"#;

/// The other host, and this machine's own services.
const HOSTS: &str = r#"
import os, socket, sys, threading
who = sys.argv[1]
def serve(sock):
    sock.listen(16)
    def one(conn):
        with conn:
            heard = conn.makefile("rb")
            size = int(heard.readline())
            heard.read(size)
            conn.sendall(b"from " + who.encode() + b"\n" + b"x" * size)
    def run():
        while True:
            threading.Thread(target=one, args=(sock.accept()[0],), daemon=True).start()
    threading.Thread(target=run, daemon=True).start()
def tcp(address, port, family=socket.AF_INET):
    sock = socket.socket(family); sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port)); serve(sock)
def udp(address, port, answer):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sock.bind((address, port))
    def run():
        while True:
            data, peer = sock.recvfrom(65536)
            sock.sendto(answer(data), peer)
    threading.Thread(target=run, daemon=True).start()
if who == "far":
    tcp("198.51.100.1", 8080)
    udp("198.51.100.1", 9000, lambda data: b"far heard " + data)
else:
    tcp("0.0.0.0", 8081); tcp("127.0.0.1", 8083); tcp("::", 8082, socket.AF_INET6)
    abstract = socket.socket(socket.AF_UNIX); abstract.bind("\0agents-test-" + str(os.getppid())); serve(abstract)
    # Every name is the other host's.
    udp("127.0.0.53", 53, lambda q: q[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + q[12:q.index(b"\0", 12) + 5]
        + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + bytes([198, 51, 100, 1])
        if q[q.index(b"\0", 12) + 2] == 1 else q[:2] + b"\x81\x80\0\1\0\0\0\0\0\0" + q[12:q.index(b"\0", 12) + 5])
with open(os.environ["HOME"] + "/ready", "w") as ready: ready.write("serves\n")
threading.Event().wait()
"#;

/// What the command tries, a line each.
const TRIES: &str = r#"
import socket
def tcp(address, port, size=10):
    try:
        with socket.create_connection((address, port), timeout=60) as conn:
            conn.sendall(str(size).encode() + b"\n" + b"y" * size)
            got = b""
            while piece := conn.recv(65536):
                got += piece
            name, rest = got.split(b"\n", 1)
            return name.decode() + " " + str(len(rest) == size)
    except OSError as error:
        return "no"
def udp(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(60)
        sock.connect((address, port)); sock.send(b"hello")
        return sock.recv(100).decode()
print("out", tcp("198.51.100.1", 8080, 3000000))
print("name", tcp("far.test", 8080))
print("datagram", udp("198.51.100.1", 9000))
print("nobody", tcp("198.51.100.1", 8999))
print("loopback", tcp("127.0.0.1", 8081))
print("own address", tcp("198.51.100.2", 8081))
print("zero", tcp("0.0.0.0", 8081))
print("named port", tcp("127.0.0.1", 8083, 100000))
names = [line.split()[-1] for line in open("/proc/net/unix") if "@agents-test-" in line]
print("abstract", names)
"#;

/// Services at addresses that only a route makes this machine's.
const ROUTED_TRIES: &str = r#"
print("routed", tcp("10.9.1.1", 8081))
print("routed from an address", tcp("10.8.1.1", 8081))
print("routed of version 6", tcp("2001:db8:9::5", 8082))
print("own of version 6", tcp("2001:db8:1::2", 8082))
print("mapped", tcp("::ffff:10.8.1.1", 8081))
print("broadcast", tcp("198.51.100.255", 8081))
"#;

/// Runs the program on the machine.
fn on_machine(person: &TestUser, words: &[&str], has_tun: bool) -> CommandOutput {
    fs::write(person.home().join("machine.sh"), MACHINE).unwrap();
    fs::write(person.home().join("hosts.py"), HOSTS).unwrap();
    let plain = person.command(&person.project(), words);
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]);
    if !is_root() {
        command.arg("--map-root-user");
    }
    command.args(["bash".as_ref(), person.home().join("machine.sh").as_os_str()]);
    command.arg(plain.get_program()).args(plain.get_args());
    command.current_dir(person.project()).env_clear().stdin(std::process::Stdio::null());
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap());
    }
    command.env("HOSTS", person.home().join("hosts.py"));
    if !has_tun {
        command.env("NO_TUN", "1");
    }
    answer(&mut command)
}

/// Whether a device can be made here; without one the second test is all that can be shown.
fn has_tun() -> bool {
    fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").is_ok()
}

#[test]
fn a_command_with_the_network_reaches_others_and_of_this_machine_only_what_is_named() {
    let person = TestUser::new();
    person.write("tries.py", TRIES);
    if !has_tun() {
        return;
    }
    let words =
        ["run", "--format", "json", "--network", "--allow-loopback=8083", "--", "python3", "tries.py"];
    let said = on_machine(&person, &words, true);
    assert_eq!(said.exit, 0, "{said:?}");
    let expected = "out from far True\nname from far True\ndatagram far heard hello\nnobody no\nloopback no\n\
        own address no\nzero no\nnamed port from near True\nabstract []\n";
    assert_eq!(person.printed(), expected, "{said:?}");
    let isolation = person.json(&["plan", "logs", "@last"]).data()["calls"][0]["isolation"].clone();
    assert_eq!((&isolation["own_network"], &isolation["loopback_ports"][0]), (&true.into(), &8083.into()));
}

#[test]
fn a_service_behind_a_local_route_of_this_machine_is_not_reached() {
    let person = TestUser::new();
    let (defined, _) = TRIES.split_once("print(").unwrap();
    let tries = format!("{defined}print(\"out\", tcp(\"198.51.100.1\", 8080)){ROUTED_TRIES}");
    person.write("tries.py", &tries);
    if !has_tun() {
        return;
    }
    let words = ["run", "--format", "json", "--network", "--", "python3", "tries.py"];
    let said = on_machine(&person, &words, true);
    assert_eq!(said.exit, 0, "{said:?}");
    let expected = "out from far True\nrouted no\nrouted from an address no\nrouted of version 6 no\n\
        own of version 6 no\nmapped no\nbroadcast no\n";
    assert_eq!(person.printed(), expected, "{said:?}");
}

#[test]
fn a_machine_without_a_device_for_it_shares_its_network_and_says_so() {
    let person = TestUser::new();
    let script = "exec 3<>/dev/tcp/127.0.0.1/8081 && echo reached";
    let said = on_machine(&person, &["run", "--network", "--", "bash", "-c", script], false);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stdout.contains("the network of this machine itself was used"), "{said:?}");
    assert_eq!(person.printed(), "reached\n");
    let isolation = person.json(&["plan", "logs", "@last"]).data()["calls"][0]["isolation"].clone();
    assert!(isolation["shared_network"].as_str().is_some_and(|why| why.contains("device")), "{isolation}");
    assert!(isolation["notes"][0].as_str().is_some(), "{isolation}");
}

#[test]
fn a_refused_service_of_this_machine_is_told_with_what_opens_it() {
    let person = TestUser::new();
    if !has_tun() {
        return;
    }
    let script = "exec 3<>/dev/tcp/127.0.0.1/8081";
    let said = on_machine(&person, &["run", "--network", "--", "bash", "-c", script], true);
    assert_ne!(said.exit, 0, "{said:?}");
    assert!(said.stderr.contains("--allow-loopback PORT"), "{said:?}");
}

/// How many processes carry flows for a job.
fn forwarders(job: &str) -> usize {
    let has = |bytes: Vec<u8>, word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let texts = processes
        .map(|process| ["cmdline", "environ"].map(|file| fs::read(process.join(file)).unwrap_or_default()));
    texts.filter(|[words, variables]| has(words.clone(), "__forward") && has(variables.clone(), job)).count()
}

#[test]
fn no_flow_outlives_a_cancel() {
    let person = TestUser::new();
    if !has_tun() {
        return;
    }
    let out = tempfile::tempdir_in("/var/tmp").unwrap();
    let writable = format!("--writable={}", out.path().display());
    let script =
        format!("echo \"$AGENTS_JOB\" > {0}/new && mv {0}/new {0}/job; sleep 600", out.path().display());
    let words = ["run", "--format", "json", "--network", &writable, "--", "sh", "-c", &script];
    let mut running =
        person.command(&person.project(), &words).stdout(std::process::Stdio::null()).spawn().unwrap();
    let job = loop {
        match fs::read_to_string(out.path().join("job")) {
            Ok(job) => break job.trim().to_owned(),
            Err(_) => assert!(running.try_wait().unwrap().is_none(), "it runs"),
        }
        std::thread::yield_now();
    };
    assert_eq!(forwarders(&job), 1);
    let cancelled = person.agents(&["plan", "cancel", "@last"]);
    assert_eq!(cancelled.exit, 0, "{cancelled:?}");
    running.wait().unwrap();
    assert_eq!(forwarders(&job), 0);
}

#[test]
fn a_projects_actor_reaches_a_port_of_this_machine_only_with_consent() {
    let person = TestUser::new();
    let actor = "description: a\nrun: \"true\"\nallow_loopback: [8083]\n";
    person.write(".cleveragents/actors/a.yaml", actor);
    let said = person.json(&["run", "--actor", "a", "do it"]);
    assert_eq!(said.code(), "CONSENT_NEEDED", "{said:?}");
    assert!(said.stdout.contains("port 8083 of this machine"), "{said:?}");
    let said = person.json(&["run", "--trust", "--actor", "a", "do it"]);
    assert_eq!(said.exit, 0, "{said:?}");
}
