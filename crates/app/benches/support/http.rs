//! The part of HTTP that a scripted server and its clients on loopback need.

#![allow(dead_code, reason = "not every benchmark has both sides")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// One side of a connection that is used again and again.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn over(stream: TcpStream) -> Connection {
        let _ = stream.set_nodelay(true);
        Connection { stream: BufReader::new(stream) }
    }

    pub(crate) fn to(address: &str) -> std::io::Result<Connection> {
        TcpStream::connect(address).map(Connection::over)
    }

    /// The first line and the body of what comes; nothing when the other side is gone.
    pub(crate) fn receive(&mut self) -> Option<(String, Vec<u8>)> {
        let first = self.line()?;
        let mut length = 0;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).ok()?;
        Some((first, body))
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Sends `first`, the type and the body.
    pub(crate) fn send(&mut self, first: &str, kind: &str, body: &[u8]) -> std::io::Result<()> {
        let mut text = format!(
            "{first}\r\nhost: loopback\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        text.extend(body);
        self.stream.get_mut().write_all(&text)
    }

    /// Asks and waits; the answer's body, or what was not good about it.
    pub(crate) fn ask(&mut self, first: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        self.send(&format!("{first} HTTP/1.1"), "application/json", body)
            .map_err(|error| error.to_string())?;
        let (status, body) = self.receive().ok_or("the server hung up")?;
        let is_good = status.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
        if is_good { Ok(body) } else { Err(format!("{status}: {}", String::from_utf8_lossy(&body))) }
    }
}
