//! A network of our own for a benchmark and its peers: loopback only, with a name server that knows no name.
//!
//! Ports are free in it, nobody calls home, and Codex, which waits 5 seconds at each start for a name server
//! that does not answer, gets an answer at once: those seconds would be counted for us.

#![allow(dead_code, reason = "not every benchmark goes inside")]

use std::fs;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Set in the process that is inside.
const INSIDE: &str = "AGENTS_BENCH_INSIDE";
const NAME_SERVER: &str = "127.0.0.1:53";
/// As root, and as anybody else.
const WAYS: [&str; 2] = ["-mn", "-rmn"];
/// The answer "there is no such name", behind the number of the question.
const NO_SUCH_NAME: [u8; 2] = [0x81, 0x83];
const HEADER_BYTES: usize = 12;

pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Starts this program again inside, and does not come back; inside, or where that cannot be, it comes back.
pub(crate) fn go_inside() {
    if is_inside() {
        return set_up();
    }
    let can = |way: &&&str| {
        let mut command = Command::new("unshare");
        command.args([**way, "true"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if let Some(way) = WAYS.iter().find(can) {
        let mut command = Command::new("unshare");
        command.args([way, "--"]).arg(std::env::current_exe().unwrap()).args(std::env::args_os().skip(1));
        let error = command.env(INSIDE, "1").exec();
        println!("no network of our own: {error}");
    }
    println!("no network of our own: Codex may wait for a name server, and its rows are too good for us");
}

fn set_up() {
    must(Command::new("ip").args(["link", "set", "lo", "up"]));
    let resolv = tempfile::NamedTempFile::new().unwrap();
    fs::write(resolv.path(), "nameserver 127.0.0.1\n").unwrap();
    must(Command::new("mount").arg("--bind").arg(resolv.path()).arg("/etc/resolv.conf"));
    let socket = UdpSocket::bind(NAME_SERVER).unwrap();
    std::thread::spawn(move || answer_names(&socket));
}

fn must(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

fn answer_names(socket: &UdpSocket) {
    let mut question = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut question) {
        let Some(answer) = no_such_name(&question[..length]) else { continue };
        let _ = socket.send_to(&answer, from);
    }
}

/// The number of the question, "no such name", no records, and the question again without what follows it.
fn no_such_name(question: &[u8]) -> Option<Vec<u8>> {
    let (header, asked) = question.split_at_checked(HEADER_BYTES)?;
    let end = asked.iter().position(|&byte| byte == 0)? + 5;
    let mut answer = header[..2].to_vec();
    answer.extend(NO_SUCH_NAME);
    answer.extend(&header[4..6]);
    answer.extend([0; 6]);
    answer.extend(asked.get(..end)?);
    Some(answer)
}
