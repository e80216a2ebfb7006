//! The words of a strategy's error, with its causes, bounded however much its author writes.

use std::error::Error;
use std::fmt::{self, Write};

use sync::Panicked;

/// The most causes of an error that are reported.
const CAUSES_MAX: usize = 16;

/// An error with its causes in one line.
pub(super) fn error_message(error: &dyn Error) -> String {
    let mut message = Bounded::default();
    let mut cause = Some(error);
    for _ in 0..CAUSES_MAX {
        let Some(told) = cause else { break };
        cause = told.source();
        let written = match message.text.is_empty() {
            true => write!(message, "{told}"),
            false => write!(message, ": {told}"),
        };
        if written.is_err() {
            break;
        }
    }
    message.text
}

/// Text that takes what fits and refuses the rest.
#[derive(Default)]
struct Bounded {
    text: String,
}

impl Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let fits = more.floor_char_boundary(Panicked::MESSAGE_BYTES_MAX - self.text.len());
        self.text.push_str(&more[..fits]);
        if fits < more.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
