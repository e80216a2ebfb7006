//! A server on loopback that does exactly what its script says, and reports what it was asked.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

/// The time for which a test waits for an event before it is called lost.
const WATCHDOG: Duration = Duration::from_secs(60);

/// The action on one connection after its request was read.
#[derive(Clone, Debug)]
pub struct Script {
    acts: Vec<Act>,
}

#[derive(Clone, Debug)]
enum Act {
    Send(Vec<u8>),
    /// The connection stays as it is until the other side leaves, which is reported.
    Hold,
    /// Bytes without end, until the other side leaves.
    Flood(Vec<u8>),
    /// Nothing, until so many connections are at this point as the barrier wants.
    Meet(Arc<Barrier>),
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub line: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

/// The server. Each connection gets the next script; when there are none left, it no longer listens.
pub struct Scripted {
    pub url: String,
    asked: Receiver<Asked>,
    left: mpsc::Receiver<()>,
}

impl Script {
    /// These bytes, and then the end of the connection.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Script {
        Script { acts: vec![Act::Send(bytes.into())] }
    }

    /// A whole answer of this status.
    pub fn status(status: &str, headers: &[(&str, &str)], body: &str) -> Script {
        let mut head =
            format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Script::raw(format!("{head}\r\n{body}"))
    }

    /// Events, each piece sent on its own, to the right end.
    pub fn events(pieces: &[&[u8]]) -> Script {
        let mut script = Script::open_events(pieces);
        script.acts.push(Act::Send(b"0\r\n\r\n".to_vec()));
        script
    }

    /// Events, and then the end of the connection in the middle of the body.
    pub fn cut_events(pieces: &[&[u8]]) -> Script {
        Script::open_events(pieces)
    }

    /// Events, and then nothing more, while the connection stays.
    pub fn held_events(pieces: &[&[u8]]) -> Script {
        let mut script = Script::open_events(pieces);
        script.acts.push(Act::Hold);
        script
    }

    /// Nothing at all, while the connection stays.
    pub fn silence() -> Script {
        Script { acts: vec![Act::Hold] }
    }

    /// Events, and then this one for ever.
    pub fn endless_events(piece: &[u8]) -> Script {
        let mut script = Script::open_events(&[]);
        script.acts.push(Act::Flood(chunk(piece)));
        script
    }

    /// The same, but not before all that share `barrier` have been asked.
    pub fn together(mut self, barrier: &Arc<Barrier>) -> Script {
        self.acts.insert(0, Act::Meet(Arc::clone(barrier)));
        self
    }

    fn open_events(pieces: &[&[u8]]) -> Script {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
                    connection: close\r\n\r\n";
        let mut acts = vec![Act::Send(head.as_bytes().to_vec())];
        acts.extend(pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| Act::Send(chunk(piece))));
        Script { acts }
    }
}

fn chunk(piece: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
}

impl Scripted {
    pub fn start(scripts: Vec<Script>) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked_to, asked) = channel();
        let (left_to, left) = mpsc::channel(16);
        std::thread::spawn(move || {
            for script in scripts {
                let (connection, _) = listener.accept().unwrap();
                let (asked_to, left_to) = (asked_to.clone(), left_to.clone());
                std::thread::spawn(move || serve(connection, &|_| script.clone(), &asked_to, &left_to));
            }
        });
        Scripted { url, asked, left }
    }

    /// A server that listens as long as the test runs, and looks at each request and its number, from 0, to
    /// answer it.
    pub fn answering(answer: impl Fn(usize, &Asked) -> Script + Send + Sync + 'static) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked_to, asked) = channel();
        let (left_to, left) = mpsc::channel(16);
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for (number, connection) in listener.incoming().enumerate() {
                let (asked_to, left_to, answer) = (asked_to.clone(), left_to.clone(), Arc::clone(&answer));
                let answer = move |asked: Option<&Asked>| answer(number, asked.expect("a request"));
                std::thread::spawn(move || serve(connection.unwrap(), &answer, &asked_to, &left_to));
            }
        });
        Scripted { url, asked, left }
    }

    /// An address at which no process listens.
    pub fn nobody() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    /// The next request.
    pub fn asked(&self) -> Asked {
        self.asked.recv_timeout(WATCHDOG).expect("a request")
    }

    /// Asserts that no further request came.
    pub fn was_not_asked_again(&self) {
        assert!(self.asked.try_recv().is_err(), "nothing is sent twice");
    }

    /// Asserts that one request came at most; of another protocol none did.
    pub fn was_asked_at_most_once(&self) {
        assert!(self.asked.try_iter().count() <= 1, "nothing is sent twice");
    }

    /// Waits until a client has left a connection that was held. The client's tasks continue meanwhile: one
    /// of them leaves.
    pub async fn client_left(&mut self) {
        let left = tokio::time::timeout(WATCHDOG, self.left.recv()).await;
        assert_eq!(left, Ok(Some(())), "the client stayed");
    }
}

fn serve(
    mut connection: TcpStream,
    answer: &dyn Fn(Option<&Asked>) -> Script,
    asked: &Sender<Asked>,
    left: &mpsc::Sender<()>,
) {
    connection.set_nodelay(true).unwrap();
    // A client of another protocol (TLS) sends no readable request; the script answers all the same.
    let request = read_request(&mut connection);
    let script = answer(request.as_ref());
    if let Some(request) = request {
        asked.send(request).ok();
    }
    for act in &script.acts {
        match act {
            Act::Send(bytes) => {
                if connection.write_all(bytes).is_err() {
                    left.blocking_send(()).ok();
                    return;
                }
            }
            Act::Hold => {
                let mut rest = Vec::new();
                connection.read_to_end(&mut rest).ok();
                left.blocking_send(()).ok();
            }
            Act::Meet(barrier) => {
                barrier.wait();
            }
            Act::Flood(bytes) => {
                while connection.write_all(bytes).is_ok() {}
                left.blocking_send(()).ok();
            }
        }
    }
    connection.shutdown(Shutdown::Both).ok();
}

fn read_request(connection: &mut TcpStream) -> Option<Asked> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if connection.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
        if head.len() == 4 && head != b"POST" {
            return None;
        }
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let line = lines.next()?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    connection.read_exact(&mut body).ok()?;
    Some(Asked { line, headers, body: serde_json::from_slice(&body).unwrap() })
}
