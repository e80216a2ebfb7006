//! Collects the last message of an agent, bounded.
//!
//! # Invariants
//! 1. A message ends where the agent does something else; the last one with any text is stored.
//! 2. At most a head and twice a tail are held, however much is said.

use crate::tool::{HEAD_BYTES, TAIL_BYTES};

/// Collects what an agent says.
#[derive(Debug, Default)]
pub(super) struct MessageCollector {
    head: String,
    tail: String,
    left_out: usize,
    is_over: bool,
}

impl MessageCollector {
    /// A piece of a message.
    pub(super) fn push_piece(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_over) {
            *self = MessageCollector::default();
        }
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        let fits = if self.tail.is_empty() { piece.floor_char_boundary(room) } else { 0 };
        self.head.push_str(&piece[..fits]);
        self.tail.push_str(&piece[fits..]);
        if self.tail.len() > 2 * TAIL_BYTES {
            let beyond = self.tail.ceil_char_boundary(self.tail.len() - TAIL_BYTES);
            self.left_out += beyond;
            self.tail.drain(..beyond);
        }
    }

    /// The message is over.
    pub(super) fn pause(&mut self) {
        self.is_over = true;
    }

    /// The last message.
    pub(super) fn last(self) -> String {
        let MessageCollector { head, mut tail, mut left_out, .. } = self;
        if tail.len() > TAIL_BYTES {
            let beyond = tail.ceil_char_boundary(tail.len() - TAIL_BYTES);
            left_out += beyond;
            tail.drain(..beyond);
        }
        match left_out {
            0 => head + &tail,
            left_out => format!("{head}\n… {left_out} bytes left out …\n{tail}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::head_and_tail;

    #[test]
    fn the_last_message_that_says_anything_is_kept() {
        let mut said = MessageCollector::default();
        for piece in ["first ", "message"] {
            said.push_piece(piece);
        }
        said.pause();
        said.pause();
        said.push_piece("second ");
        said.push_piece("one");
        said.pause();
        said.push_piece("");
        assert_eq!(said.last(), "second one");
    }

    #[test]
    fn a_message_without_end_is_kept_as_any_long_text_is() {
        for length in [1, HEAD_BYTES, HEAD_BYTES + TAIL_BYTES, HEAD_BYTES + TAIL_BYTES + 1, 10 * TAIL_BYTES] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            let mut said = MessageCollector::default();
            for piece in text.as_bytes().chunks(1000) {
                said.push_piece(std::str::from_utf8(piece).unwrap());
                assert!(said.head.len() + said.tail.len() <= HEAD_BYTES + 2 * TAIL_BYTES);
            }
            assert_eq!(said.last(), head_and_tail(&text, HEAD_BYTES, TAIL_BYTES));
        }
    }
}
