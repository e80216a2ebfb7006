//! Reading lines that another program writes.
//!
//! # Invariants
//! 1. At most [`LINE_BYTES_MAX`] bytes are held, however long a line is.
//! 2. A read that is dropped loses nothing: the next one continues with the same line.

use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest line that is read.
pub const LINE_BYTES_MAX: usize = 16 << 20;
const PIECE_BYTES: usize = 16 << 10;

/// The number of lines that are no messages and are passed over: a program that logs to its output is no
/// rarity.
pub(crate) const STRAY_LINES_MAX: u32 = 1000;
/// The limit of a program's output that is repeated.
const SHOWN_CHARS_MAX: usize = 200;

/// The beginning of a line, for a person.
pub(crate) fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN_CHARS_MAX)]).into_owned();
    let printable = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    let cut: String = text.chars().take(SHOWN_CHARS_MAX).map(printable).collect();
    if cut.len() < line.len() { format!("`{cut}…`") } else { format!("`{cut}`") }
}

/// The reason why there is no next line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It has no end within the bound.
    #[error("it wrote a line of more than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// It could not be read.
    #[error("its output could not be read: {0}")]
    Unreadable(#[source] std::io::Error),
}

/// The lines of a stream.
pub struct LineReader<R> {
    from: R,
    held: Vec<u8>,
    /// The length of the part of `held` that is known to have no line end.
    looked: usize,
    piece: Box<[u8]>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// The lines of this stream.
    pub fn new(from: R) -> LineReader<R> {
        LineReader { from, held: Vec::new(), looked: 0, piece: vec![0; PIECE_BYTES].into_boxed_slice() }
    }

    /// The next line without its end; `None` at the end. Text behind the last line end is a line too.
    ///
    /// # Errors
    /// Returns [`LineError`]; the stream is of no use any more.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        loop {
            if let Some(at) = self.held[self.looked..].iter().position(|byte| *byte == b'\n') {
                let rest = self.held.split_off(self.looked + at + 1);
                self.looked = 0;
                return Ok(Some(trimmed(std::mem::replace(&mut self.held, rest))));
            }
            self.looked = self.held.len();
            if self.held.len() > LINE_BYTES_MAX {
                return Err(LineError::TooLong);
            }
            let read = self.from.read(&mut self.piece).await.map_err(LineError::Unreadable)?;
            if read == 0 {
                self.looked = 0;
                let last = std::mem::take(&mut self.held);
                return Ok((!last.is_empty()).then(|| trimmed(last)));
            }
            self.held.extend_from_slice(&self.piece[..read]);
        }
    }
}

impl<R> LineReader<R> {
    /// The beginning of a line that has no end yet.
    pub fn unfinished(&self) -> &[u8] {
        &self.held
    }
}

impl<R> std::fmt::Debug for LineReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("held", &self.held.len()).finish_non_exhaustive()
    }
}

fn trimmed(mut line: Vec<u8>) -> Vec<u8> {
    for end in *b"\n\r" {
        if line.last() == Some(&end) {
            line.pop();
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn lines_come_whole_however_the_bytes_are_cut() {
        let (mut write, read) = tokio::io::duplex(3);
        let writer = tokio::spawn(async move { write.write_all("eins\r\n\nzwei ü\ndrei".as_bytes()).await });
        let mut lines = LineReader::new(read);
        let mut heard = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            heard.push(String::from_utf8(line).unwrap());
        }
        writer.await.unwrap().unwrap();
        assert_eq!(heard, ["eins", "", "zwei ü", "drei"]);
    }

    #[tokio::test]
    async fn a_read_that_is_dropped_loses_nothing() {
        let (mut write, read) = tokio::io::duplex(64);
        let mut lines = LineReader::new(read);
        write.write_all(b"half a ").await.unwrap();
        tokio::select! {
            biased;
            _ = lines.next() => panic!("no line has come"),
            () = tokio::task::yield_now() => {}
        }
        write.write_all(b"line\n").await.unwrap();
        assert_eq!(lines.next().await.unwrap().unwrap(), b"half a line");
    }

    #[tokio::test]
    async fn a_line_without_end_is_given_up() {
        let mut lines = LineReader::new(tokio::io::repeat(b'x'));
        assert!(matches!(lines.next().await, Err(LineError::TooLong)));
        assert!(lines.held.len() <= LINE_BYTES_MAX + PIECE_BYTES);
    }
}
