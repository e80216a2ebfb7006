//! Foreign code kept from harming others: its panics are caught, its messages bounded.
//!
//! # Invariants
//! 1. No panic leaves [`contained`], not even that of a panic payload's own drop.
//! 2. No message is longer than [`MESSAGE_BYTES_MAX`], however much its author writes.

use std::any::Any;
use std::error::Error;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most bytes of a message that are kept.
pub(super) const MESSAGE_BYTES_MAX: usize = 2048;

/// The most causes of an error that are told.
const CAUSES_MAX: usize = 16;

/// Calls `act`; if it panics, gives the message.
pub(super) fn contained<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|payload| {
        let message = panic_message(&*payload);
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            // Its drop may panic as well, and so on for ever. A leak ends that.
            std::mem::forget(second);
        }
        message
    })
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    match text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)) {
        Some(text) => bounded(text),
        None => "its panic has no text".to_owned(),
    }
}

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

fn bounded(text: &str) -> String {
    let mut message = Bounded::default();
    // An error only says that the message is full.
    let _ = message.write_str(text);
    message.text
}

/// Text that takes what fits and refuses the rest.
#[derive(Default)]
struct Bounded {
    text: String,
}

impl Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let fits = more.floor_char_boundary(MESSAGE_BYTES_MAX - self.text.len());
        self.text.push_str(&more[..fits]);
        if fits < more.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
