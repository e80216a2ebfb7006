//! A program that asks a model over the network and edits what it is told, as docs/using-with.md describes.
//!
//! The model is a server of this test on loopback that knows one answer; the program is a few lines of bash,
//! which can open a connection by itself.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use actors::agents::{AGENTS, TestedWays};

use super::support::TestUser;

const AGENT: &str = r#"
exec 3<>"/dev/tcp/127.0.0.1/$MODEL_PORT"
printf 'POST /v1/edit HTTP/1.1\r\nhost: model\r\nauthorization: Bearer %s\r\ncontent-length: 0\r\n\r\n' "$MODEL_KEY" >&3
while IFS= read -r line <&3 && [ "$line" != $'\r' ]; do :; done
cat <&3 > answer.txt
"#;

/// A model on loopback: its address, and the head of each request that reached it.
fn model(answer: &'static str) -> (SocketAddr, Receiver<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, requests) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).unwrap();
            if asked.send(head).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

#[test]
fn what_an_agent_was_told_over_the_network_arrives_in_the_diff() {
    let person = TestUser::new();
    let (address, requests) = model("be welcome\n");
    let port = format!("MODEL_PORT={}", address.port());
    let open = format!("--allow-loopback={}", address.port());
    let args =
        ["run", "--network", &open, "--pass-env", "MODEL_KEY", "--env", &port, "--", "bash", "-ec", AGENT];
    let mut command = person.command(&person.project(), &args);
    let said = super::support::answer(command.env("MODEL_KEY", "k-1"));
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stdout.lines().next().unwrap().ends_with(", network on"), "{}", said.stdout);

    let heads: Vec<Vec<String>> = requests.try_iter().collect();
    let expected =
        ["POST /v1/edit HTTP/1.1", "host: model", "authorization: Bearer k-1", "content-length: 0"];
    assert_eq!(heads, [expected.map(str::to_owned).to_vec()]);
    let diff = person.agents(&["plan", "diff"]).stdout;
    assert!(diff.contains("+++ b/answer.txt") && diff.ends_with("+be welcome\n"), "{diff}");
    assert!(!person.project().join("answer.txt").exists());
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("answer.txt"), "be welcome\n");
    assert_eq!(person.agents(&["plan", "undo", "@last", "--yes"]).exit, 0);
    assert!(!person.project().join("answer.txt").exists());
}

#[test]
fn an_agent_without_the_network_reaches_nobody_and_the_failure_says_why() {
    let person = TestUser::new();
    let (address, requests) = model("be welcome\n");
    let port = format!("MODEL_PORT={}", address.port());
    let said = person.agents(&["run", "--env", &port, "--", "bash", "-ec", AGENT]);
    assert_eq!(said.exit, 1, "{said:?}");
    assert!(said.stderr.contains("it probably needed the network, which is off unless allowed"), "{said:?}");
    assert_eq!(requests.try_iter().count(), 0);
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "");
}

#[test]
fn the_page_says_of_every_agent_program_what_the_table_says() {
    let page = include_str!("../../../../docs/using-with.md");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<&str> = rows.collect();
    for agent in &AGENTS {
        let said = match agent.tried {
            TestedWays::Worked { version } => version,
            TestedWays::No => "untried",
        };
        let begin = format!("| {} | ", agent.title);
        let row = rows.iter().find(|row| row.starts_with(&begin));
        let row = row.unwrap_or_else(|| panic!("{} has no row", agent.title));
        assert!(row.contains(&format!("{begin}{said} |")), "{row}: {said}");
    }
}
