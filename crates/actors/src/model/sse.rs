//! Server-sent events out of bytes that come in any pieces.
//!
//! # Invariants
//! 1. The events depend on the bytes alone, not on how they were cut into pieces.
//! 2. An event that is not ended when the stream ends is returned all the same, because some servers leave
//!    the last empty line out. Its reader finds out whether it is whole.
//!
//! # Not here
//! The content of an event, and the limit of bytes: the reader of the body bounds it.

/// An event: its name (empty if it has none) and its data, whose lines are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SseEvent {
    pub(super) name: String,
    pub(super) data: Vec<u8>,
}

/// A line that no server of events would send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is a line that is not an event: {line:?}")]
pub(super) struct NoEvent {
    line: String,
}

/// Takes bytes, gives events.
#[derive(Debug, Default)]
pub(super) struct SseDecoder {
    /// The line that is not ended yet.
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    is_past_first_line: bool,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const SHOWN_BYTES_MAX: usize = 80;

impl SseDecoder {
    /// Reads on; whole events are added to `events`.
    pub(super) fn push(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), NoEvent> {
        let mut rest = bytes;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(&rest[..end]);
            let is_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if is_return {
                self.after_return = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            let line = std::mem::take(&mut self.line);
            events.extend(self.line(&line)?);
        }
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// Returns the event that the end of the stream leaves.
    pub(super) fn finish(mut self) -> Result<Option<SseEvent>, NoEvent> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.line(&line)?;
        }
        Ok(self.take())
    }

    fn line(&mut self, line: &[u8]) -> Result<Option<SseEvent>, NoEvent> {
        let line = match self.is_past_first_line {
            true => line,
            false => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
        };
        self.is_past_first_line = true;
        if line.is_empty() {
            return Ok(self.take());
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.add_data(value),
            b"event" => self.event.name = String::from_utf8_lossy(value).into_owned(),
            // llama.cpp's server has reported failures like this.
            b"error" => {
                "error".clone_into(&mut self.event.name);
                self.add_data(value);
            }
            other if is_field_name(other) => {}
            _ => return Err(NoEvent { line: shown(line) }),
        }
        Ok(None)
    }

    fn add_data(&mut self, value: &[u8]) {
        if self.has_data {
            self.event.data.push(b'\n');
        }
        self.has_data = true;
        self.event.data.extend_from_slice(value);
    }

    fn take(&mut self) -> Option<SseEvent> {
        let event = std::mem::take(&mut self.event);
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

/// A comment (no name), `id`, `retry`, or a field that a later version may have.
fn is_field_name(field: &[u8]) -> bool {
    field.len() <= 32 && field.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Result<Vec<(String, String)>, NoEvent> {
        let mut decoder = SseDecoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            decoder.push(piece, &mut events)?;
        }
        events.extend(decoder.finish()?);
        Ok(events.into_iter().map(|event| (event.name, String::from_utf8(event.data).unwrap())).collect())
    }

    fn named(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn events_are_read_whatever_ends_their_lines() {
        for end in ["\n", "\r\n", "\r"] {
            let text = format!(
                "\u{feff}: hello{end}event: a{end}data: 1{end}data:2{end}{end}{end}data:  x{end}id: 7{end}{end}"
            );
            let whole = events(&[text.as_bytes()]).unwrap();
            assert_eq!(whole, [named("a", "1\n2"), named("", " x")], "{end:?}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(events(&bytes).unwrap(), whole, "{end:?}");
        }
    }

    #[test]
    fn an_event_without_data_is_none_and_its_name_is_forgotten() {
        assert_eq!(events(&[b"event: a\n\ndata: 1\n\n"]).unwrap(), [named("", "1")]);
        assert_eq!(events(&[b"data\n\ndata:\n\n"]).unwrap(), [named("", ""), named("", "")]);
    }

    #[test]
    fn an_event_that_is_not_ended_is_given_at_the_end() {
        assert_eq!(events(&[b"data: 1\n\ndata: [DONE]"]).unwrap(), [named("", "1"), named("", "[DONE]")]);
        assert_eq!(events(&[b"data: 1\n"]).unwrap(), [named("", "1")]);
    }

    #[test]
    fn a_failure_told_in_a_field_of_its_own_is_an_event() {
        assert_eq!(events(&[b"error: {}\n\n"]).unwrap(), [named("error", "{}")]);
    }

    #[test]
    fn what_is_no_field_is_garbage() {
        for line in [&b"<html>"[..], b"\xff\xfe\x00", b"a b: c", b"{\"a\": 1}"] {
            let stream = [b"data: 1\n\n", line, b"\n\n"].concat();
            assert!(events(&[&stream]).is_err(), "{line:?}");
        }
        assert_eq!(events(&[b"retry: 3\nx-new: 1\ndata: 1\n\n"]).unwrap(), [named("", "1")]);
    }
}
