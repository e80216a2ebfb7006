//! The one place where text meets a terminal: of all escape sequences only our own reach it.
//!
//! # How
//! [`Paint`](super::Paint) and [`clear_line`] write their sequences *sealed*: with a random word
//! of this process in them,
//! which no file, model or command can know. Everything that is written passes a [`EscapingStream`], which
//! opens the seals. At a terminal it escapes all else that a terminal obeys, whatever the caller did before.
//!
//! # Invariants
//! 1. The question is whether the stream is a terminal, not whether the terminal says how wide it is.
//! 2. To a pipe or a file all bytes go as they are, but for the seals.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use super::live_block;
use super::terminal::{escape_control_bytes, escape_control_chars};

/// Clears the line, after it was opened.
const CLEAR: &[u8] = b"[2K";

/// The beginning of our own sequences in this process.
fn seal() -> &'static str {
    static SEAL: OnceLock<String> = OnceLock::new();
    SEAL.get_or_init(|| format!("\x1b{:016x}", RandomState::new().build_hasher().finish()))
}

/// A sequence of our own: `code` as in `[31m`.
pub(super) fn sealed(code: &str) -> String {
    format!("{}{code}", seal())
}

/// Removes the line that the cursor is on.
pub(super) fn clear_line() -> String {
    sealed("[2K")
}

/// Moves the cursor to the row above.
pub(super) fn cursor_up() -> String {
    sealed("[1A")
}

/// The most bytes that are held back until a line ends.
const PENDING_BYTES_MAX: usize = 64 * 1024;
/// Longer than a sequence of our own and a letter: what is cut further from the end than this cuts none of
/// them.
const SEQUENCE_BYTES_MAX: usize = 32;

/// The form of what is written to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenForm {
    /// Text for people.
    Text,
    /// JSON, which has a way of its own to escape what a terminal obeys.
    Json,
}

/// A stream that lets nothing but our own sequences reach a terminal. It has to be flushed at the end.
pub struct EscapingStream<W> {
    stream: W,
    is_terminal: bool,
    form: WrittenForm,
    pending: Vec<u8>,
}

impl EscapingStream<io::StdoutLock<'static>> {
    /// The output.
    pub fn out(form: WrittenForm) -> Self {
        let stream = io::stdout().lock();
        EscapingStream { is_terminal: stream.is_terminal(), stream, form, pending: Vec::new() }
    }
}

impl<W: Write> EscapingStream<W> {
    /// The input of a program that shows the text at a terminal.
    pub(super) fn paged(stream: W) -> Self {
        EscapingStream { is_terminal: true, stream, form: WrittenForm::Text, pending: Vec::new() }
    }
}

impl EscapingStream<io::StderrLock<'static>> {
    /// The error output.
    fn err() -> Self {
        let stream = io::stderr().lock();
        EscapingStream {
            is_terminal: stream.is_terminal(),
            stream,
            form: WrittenForm::Text,
            pending: Vec::new(),
        }
    }
}

impl<W: Write> EscapingStream<W> {
    /// Writes the beginning of what is held back.
    fn pass(&mut self, bytes: usize) -> io::Result<()> {
        let rest = self.pending.split_off(bytes);
        let passed = std::mem::replace(&mut self.pending, rest);
        let (seal, mut rest) = (seal().as_bytes(), passed.as_slice());
        while let Some(at) = find(rest, seal) {
            self.pass_part(&rest[..at])?;
            rest = &rest[at + seal.len()..];
            // A line is cleared from its beginning.
            self.stream.write_all(if rest.starts_with(CLEAR) { b"\r\x1b" } else { b"\x1b" })?;
        }
        self.pass_part(rest)
    }

    fn pass_part(&mut self, part: &[u8]) -> io::Result<()> {
        match (self.is_terminal, self.form) {
            (false, _) => self.stream.write_all(part),
            (true, WrittenForm::Text) => self.stream.write_all(escape_control_bytes(part).as_bytes()),
            (true, WrittenForm::Json) => {
                self.stream.write_all(escape_json(&String::from_utf8_lossy(part)).as_bytes())
            }
        }
    }

    /// Returns the place at which the held bytes can be cut: after a line, or else outside of sequences and
    /// letters.
    fn cut(&self) -> usize {
        if let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') {
            return end + 1;
        }
        let near = self.pending.len().saturating_sub(SEQUENCE_BYTES_MAX);
        let from = near.saturating_sub(SEQUENCE_BYTES_MAX);
        let escape = self.pending[from..near].iter().rposition(|byte| *byte == b'\x1b').map(|at| from + at);
        let at = escape.unwrap_or(near);
        (from..=at)
            .rev()
            .find(|at| self.pending.get(*at).is_none_or(|byte| byte & 0xC0 != 0x80))
            .unwrap_or(at)
    }
}

impl<W: Write> Write for EscapingStream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= PENDING_BYTES_MAX {
            self.pass(self.cut())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(self.pending.len())?;
        self.stream.flush()
    }
}

fn find(bytes: &[u8], sought: &[u8]) -> Option<usize> {
    // Most text has no escape at all.
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|byte| *byte == b'\x1b') {
        let at = from + at;
        if bytes[at..].starts_with(sought) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Writes to the output.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub fn write_out(bytes: &[u8]) -> io::Result<()> {
    live_block::clear();
    let mut out = EscapingStream::out(WrittenForm::Text);
    out.write_all(bytes)?;
    out.flush()
}

/// Writes to the error output.
///
/// # Errors
/// Returns an error if the error output cannot be written.
pub fn write_err(text: &str) -> io::Result<()> {
    live_block::clear();
    write_err_raw(text)
}

/// Writes to the error output, and leaves the live block to the caller.
pub(super) fn write_err_raw(text: &str) -> io::Result<()> {
    let mut err = EscapingStream::err();
    err.write_all(text.as_bytes())?;
    err.flush()
}

/// Returns JSON in which everything that a terminal obeys is escaped as JSON does it: the same value for
/// programs.
pub fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            // Between values JSON may have line ends and tabs, within texts it has none.
            '\n' | '\t' => escaped.push(letter),
            letter if domain::path::is_obeyed(letter) => {
                letter
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Returns a question as it is asked: characters without a width are shown as well, so that nothing hides
/// between others.
pub(super) fn for_question(question: &str) -> String {
    let mut shown = String::with_capacity(question.len());
    for letter in escape_control_chars(question).chars() {
        if letter != '\n' && letter != '\t' && domain::path::is_unseen(letter) {
            letter
                .encode_utf8(&mut [0; 4])
                .bytes()
                .for_each(|byte| shown.push_str(&format!("\\x{byte:02X}")));
        } else {
            shown.push(letter);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Paint;

    #[test]
    fn only_our_own_sequences_reach_a_terminal() {
        let text = format!("{}{} \x1b[31mred\x1b]0;t\x07\u{9b}2J", clear_line(), Paint::ON.red("ours"));
        let passed = |text: &[u8], is_terminal| {
            let (form, pending) = (WrittenForm::Text, Vec::new());
            let mut stream = EscapingStream { stream: Vec::new(), is_terminal, form, pending };
            // However it comes.
            text.chunks(3).for_each(|part| stream.write_all(part).unwrap());
            stream.flush().unwrap();
            stream.stream
        };
        let at_terminal = String::from_utf8(passed(text.as_bytes(), true)).unwrap();
        assert_eq!(at_terminal, "\r\x1b[2K\x1b[31mours\x1b[0m \\x1B[31mred\\x1B]0;t\\x07\\xC2\\x9B2J");
        let in_pipe = String::from_utf8(passed(text.as_bytes(), false)).unwrap();
        assert_eq!(in_pipe, "\r\x1b[2K\x1b[31mours\x1b[0m \x1b[31mred\x1b]0;t\x07\u{9b}2J");
        assert_eq!(passed(b"a\xff\x1b", false), b"a\xff\x1b");
    }

    #[test]
    fn a_line_without_end_is_passed_on_and_cuts_no_letter_and_no_sequence() {
        let (form, pending) = (WrittenForm::Text, Vec::new());
        let mut stream = EscapingStream { stream: Vec::new(), is_terminal: true, form, pending };
        let text = format!("é{}", Paint::ON.red("ü")).repeat(20_000);
        text.as_bytes().chunks(1_000).for_each(|part| stream.write_all(part).unwrap());
        assert!(stream.pending.len() < PENDING_BYTES_MAX);
        stream.flush().unwrap();
        assert_eq!(String::from_utf8(stream.stream).unwrap(), "é\x1b[31mü\x1b[0m".repeat(20_000));
    }

    #[test]
    fn json_says_the_same_and_is_calm() {
        let value = serde_json::json!({ "a": "\u{1b}\u{9b}\u{202e}\u{2066}é\n" });
        let escaped = escape_json(&format!("{value}\n"));
        assert!(!escaped.trim_end().contains(|letter: char| domain::path::is_obeyed(letter)), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }

    #[test]
    fn nothing_hides_in_a_question() {
        assert_eq!(for_question("rm\u{200b} -rf\n\u{202e}x"), "rm\\xE2\\x80\\x8B -rf\n\\xE2\\x80\\xAEx");
    }
}
