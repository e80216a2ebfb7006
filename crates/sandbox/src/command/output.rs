//! The retained part of an output stream: all of it, or its beginning and its end.
//!
//! # Invariants
//! 1. At most `keep_bytes_max` bytes are stored, whatever comes; the beginning and the end get half each.
//! 2. `total` counts every byte that came, stored or not.
//!
//! # Not here
//! The source of the bytes: the sibling `drain`.

use std::collections::VecDeque;

/// The bytes of the beginning of a stream that are shown to a model.
pub const BOUNDED_HEAD_BYTES: usize = 16 << 10;
/// The bytes of the end of a stream that are shown to a model.
pub const BOUNDED_TAIL_BYTES: usize = 48 << 10;

/// The bytes that a command wrote to one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    head: Vec<u8>,
    tail: Vec<u8>,
    total: u64,
    log_error: Option<String>,
}

impl Output {
    /// Returns the number of bytes that it wrote.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of bytes that were not retained.
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }

    /// Returns the reason that the live file is incomplete; `None` if it is complete.
    pub fn log_error(&self) -> Option<&str> {
        self.log_error.as_deref()
    }

    /// Returns the retained bytes; where bytes were left out, a line says how many.
    ///
    /// ```
    /// assert_eq!(sandbox::command::Output::default().bytes(), b"");
    /// ```
    pub fn bytes(&self) -> Vec<u8> {
        joined(&self.head, self.left_out(), &self.tail)
    }

    /// The beginning and the end as text, for a model: at most `head` and `tail` bytes, cut between
    /// characters.
    pub fn bounded(&self, head: usize, tail: usize) -> String {
        let kept: Vec<u8> = [self.head.as_slice(), self.tail.as_slice()].concat();
        if self.left_out() == 0 && kept.len() <= head.saturating_add(tail) {
            return String::from_utf8_lossy(&kept).into_owned();
        }
        let (first_of, last_of) =
            if self.left_out() == 0 { (&kept, &kept) } else { (&self.head, &self.tail) };
        let first = &first_of[..cut_before(first_of, head.min(first_of.len()))];
        let from = last_of.len().saturating_sub(tail);
        let last = &last_of[cut_after(last_of, from)..];
        let left_out = self.total.saturating_sub((first.len() + last.len()) as u64);
        String::from_utf8_lossy(&joined(first, left_out, last)).into_owned()
    }

    /// The same of an output from which `take_out` takes something first, secrets for example: no part of
    /// that is left where the output is cut. A word that was cut when the output was stored is left out.
    pub fn bounded_after(&self, head: usize, tail: usize, take_out: impl Fn(&[u8]) -> Vec<u8>) -> String {
        let kept: Vec<u8> = [self.head.as_slice(), self.tail.as_slice()].concat();
        let (near_head, near_tail) = (head.saturating_add(MARGIN_BYTES), tail.saturating_add(MARGIN_BYTES));
        let left = if self.is_whole() && kept.len() <= near_head.saturating_add(near_tail) {
            let whole = take_out(&kept);
            Output { total: whole.len() as u64, head: whole, tail: Vec::new(), log_error: None }
        } else {
            let (first, last) = if self.is_whole() { (&kept, &kept) } else { (&self.head, &self.tail) };
            let first = without_last_word(&first[..near_head.min(first.len())]);
            let last = without_first_word(&last[last.len().saturating_sub(near_tail)..]);
            let left_out = self.total.saturating_sub((first.len() + last.len()) as u64).max(1);
            let (head, tail) = (take_out(first), take_out(last));
            Output { total: left_out + (head.len() + tail.len()) as u64, head, tail, log_error: None }
        };
        left.bounded(head, tail)
    }

    /// Returns the retained bytes, as [`Output::bytes`], after `take_out` took something out of them.
    pub fn bytes_after(&self, take_out: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        if self.is_whole() {
            return take_out(&self.bytes());
        }
        let (head, tail) = (without_last_word(&self.head), without_first_word(&self.tail));
        let left_out = self.total.saturating_sub((head.len() + tail.len()) as u64);
        joined(&take_out(head), left_out, &take_out(tail))
    }

    /// Returns true if it is all there.
    pub fn is_whole(&self) -> bool {
        self.left_out() == 0
    }
}

fn joined(head: &[u8], left_out: u64, tail: &[u8]) -> Vec<u8> {
    if left_out == 0 {
        return [head, tail].concat();
    }
    [head, b"\n", format!("… {left_out} bytes left out …").as_bytes(), b"\n", tail].concat()
}

/// The number of bytes around the shown parts that are read too, so that `take_out` sees whole secrets.
const MARGIN_BYTES: usize = 64 << 10;
/// The most bytes of a cut word that are left out; anything longer is no word.
const WORD_BYTES_MAX: usize = 4 << 10;

fn without_last_word(bytes: &[u8]) -> &[u8] {
    let word = bytes.iter().rev().take(WORD_BYTES_MAX).take_while(|byte| !byte.is_ascii_whitespace()).count();
    &bytes[..bytes.len() - word]
}

fn without_first_word(bytes: &[u8]) -> &[u8] {
    let word = bytes.iter().take(WORD_BYTES_MAX).take_while(|byte| !byte.is_ascii_whitespace()).count();
    &bytes[word..]
}

/// The last place at or before `at` that is not inside a character.
fn cut_before(bytes: &[u8], at: usize) -> usize {
    (at.saturating_sub(3)..=at).rev().find(|place| is_boundary(bytes, *place)).unwrap_or(at)
}

/// The first place at or after `at` that is not inside a character.
fn cut_after(bytes: &[u8], at: usize) -> usize {
    (at..=at.saturating_add(3).min(bytes.len())).find(|place| is_boundary(bytes, *place)).unwrap_or(at)
}

fn is_boundary(bytes: &[u8], place: usize) -> bool {
    bytes.get(place).is_none_or(|byte| byte & 0xC0 != 0x80)
}

/// An [`Output`] that still grows.
#[derive(Debug)]
pub(super) struct OutputBuffer {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    total: u64,
}

impl OutputBuffer {
    pub(super) fn new(keep_bytes_max: usize) -> Self {
        let tail_max = keep_bytes_max / 2;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_max: keep_bytes_max - tail_max,
            tail_max,
            total: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_max - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// Returns the number of bytes that have come.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn head_len(&self) -> usize {
        self.head.len()
    }

    pub(super) fn finish(self) -> Output {
        Output { head: self.head, tail: self.tail.into(), total: self.total, log_error: None }
    }
}

impl Output {
    pub(super) fn with_log_error(self, log_error: Option<String>) -> Self {
        Self { log_error, ..self }
    }

    /// Returns the text that follows the beginning in a live file that left something out.
    pub(super) fn log_end(&self) -> Vec<u8> {
        joined(b"", self.left_out(), &self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(keep_bytes_max: usize, pieces: &[&[u8]]) -> Output {
        let mut growing = OutputBuffer::new(keep_bytes_max);
        for piece in pieces {
            growing.push(piece);
        }
        growing.finish()
    }

    #[test]
    fn what_fits_is_kept_whole_however_it_comes() {
        for pieces in [&[b"0123456789".as_slice()][..], &[b"01234", b"56", b"", b"789"]] {
            let output = output(10, pieces);
            assert_eq!((output.bytes(), output.total(), output.left_out()), (b"0123456789".to_vec(), 10, 0));
            assert!(output.is_whole());
        }
    }

    #[test]
    fn of_what_does_not_fit_the_beginning_and_the_end_are_kept() {
        for pieces in [&[b"0123456789abc".as_slice()][..], &[b"0123", b"45678", b"9ab", b"c"]] {
            let output = output(6, pieces);
            assert_eq!(output.bytes(), "012\n… 7 bytes left out …\nabc".as_bytes());
            assert_eq!((output.total(), output.left_out()), (13, 7));
        }
    }

    #[test]
    fn the_bounded_text_counts_what_it_leaves_out_itself() {
        let whole = output(100, &[b"0123456789abc"]);
        assert_eq!(whole.bounded(20, 20), "0123456789abc");
        assert_eq!(whole.bounded(10, 3), "0123456789abc");
        assert_eq!(whole.bounded(2, 3), "01\n… 8 bytes left out …\nabc");
        let cut = output(6, &[b"0123456789abc"]);
        assert_eq!(cut.bounded(2, 2), "01\n… 9 bytes left out …\nbc");
        assert_eq!(cut.bounded(100, 100), "012\n… 7 bytes left out …\nabc");
    }

    #[test]
    fn the_bounded_text_cuts_no_character_in_two() {
        let whole = output(100, &["ää-öö".as_bytes()]);
        assert_eq!(whole.bounded(3, 3), "ä\n… 5 bytes left out …\nö");
    }
}
