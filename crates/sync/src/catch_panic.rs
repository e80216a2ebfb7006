//! Foreign code that cannot harm others: its panic is caught, and its message bounded.
//!
//! # Invariants
//! 1. No panic leaves [`contained`], not even that of a panic payload's own drop.
//! 2. No message is longer than [`Panicked::MESSAGE_BYTES_MAX`], and each is cut between characters.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A panic that was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// The message of the panic.
    pub message: String,
}

impl Panicked {
    /// The most bytes of a message that are stored.
    pub const MESSAGE_BYTES_MAX: usize = 2048;

    /// The panic of a payload that `catch_unwind` or a thread's `join` gave.
    pub fn from_payload(payload: Box<dyn Any + Send>) -> Self {
        let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => text,
            (None, Some(text)) => text.as_str(),
            (None, None) => "its panic has no text",
        };
        let message = text[..text.floor_char_boundary(Self::MESSAGE_BYTES_MAX)].to_owned();
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            // Its drop may panic as well, and so on for ever. A leak ends that.
            std::mem::forget(second);
        }
        Self { message }
    }
}

impl std::fmt::Display for Panicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "panicked: {}", self.message)
    }
}

impl std::error::Error for Panicked {}

/// Calls `act`; its panic is an error.
///
/// # Errors
/// [`Panicked`] with the message.
///
/// ```
/// let answer: Result<(), _> = sync::contained(|| panic!("out of ideas"));
/// assert_eq!(answer.unwrap_err().message, "out of ideas");
/// ```
pub fn contained<T>(act: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(act)).map_err(Panicked::from_payload)
}
