//! Lines on their way to a program, written by a task of their own.
//!
//! # Invariants
//! 1. Lines are written whole and in the order in which they were sent; a sender that gives up half-way
//!    breaks none.
//! 2. At most [`LINES_WAITING_MAX`] wait: a program that does not read holds its senders up, and their limits
//!    end that.
//! 3. The program's input is closed when all senders are gone.

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The number of lines that wait for a program that does not read.
const LINES_WAITING_MAX: usize = 16;

/// Writes lines to a program. `Clone` is another sender.
#[derive(Clone, Debug)]
pub(crate) struct StdinWriter {
    lines: mpsc::Sender<Vec<u8>>,
}

impl StdinWriter {
    /// Begins to write to this stream.
    pub(crate) fn to(stream: Box<dyn AsyncWrite + Send + Unpin>) -> StdinWriter {
        StdinWriter::with_task(stream).0
    }

    /// The same; the task ends when all that was sent is written, or cannot be.
    pub(crate) fn with_task(mut stream: Box<dyn AsyncWrite + Send + Unpin>) -> (StdinWriter, JoinHandle<()>) {
        let (lines, mut waiting) = mpsc::channel::<Vec<u8>>(LINES_WAITING_MAX);
        let task = tokio::spawn(async move {
            while let Some(line) = waiting.recv().await {
                if stream.write_all(&line).await.is_err() || stream.flush().await.is_err() {
                    // The senders learn it by the channel that closes; why, by the program's end.
                    return;
                }
            }
        });
        (StdinWriter { lines }, task)
    }

    /// Sends a line, without its end.
    pub(crate) async fn send(&self, mut line: Vec<u8>) -> std::io::Result<()> {
        line.push(b'\n');
        let closed = |_| std::io::Error::new(std::io::ErrorKind::BrokenPipe, "it no longer reads its input");
        self.lines.send(line).await.map_err(closed)
    }
}
