//! Panics of foreign code, made into messages: a store, a runner or an event sink that panics takes nobody down.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

/// How much of a panic's message is kept.
const MESSAGE_BYTES_MAX: usize = 2 * 1024;

/// The message of a contained panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panicked(pub(crate) String);

impl Panicked {
    fn new(payload: Box<dyn Any + Send>) -> Self {
        let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => text,
            (None, Some(text)) => text.as_str(),
            (None, None) => "a panic without a message",
        };
        let kept = text.floor_char_boundary(MESSAGE_BYTES_MAX);
        let message = Self(text[..kept].to_owned());
        // The payload is foreign code too, and its drop may panic in turn.
        let _ = std::panic::catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(std::mem::forget);
        message
    }
}

/// Runs `future`; a panic inside is its error.
pub(crate) async fn contained<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(Panicked::new)
}

/// Runs `act`; a panic inside is its error.
pub(crate) fn contained_now<T>(act: impl FnOnce() -> T) -> Result<T, Panicked> {
    std::panic::catch_unwind(AssertUnwindSafe(act)).map_err(Panicked::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("again");
        }
    }

    #[test]
    fn every_kind_of_panic_becomes_a_bounded_message() {
        assert_eq!(contained_now(|| 1), Ok(1));
        let text = |act: fn()| contained_now(act).unwrap_err().0;
        assert_eq!(text(|| panic!("plain")), "plain");
        assert_eq!(text(|| panic!("{}", "formatted")), "formatted");
        assert_eq!(text(|| std::panic::panic_any(7)), "a panic without a message");
        assert_eq!(text(|| std::panic::panic_any(PanicsWhenDropped)), "a panic without a message");
        assert_eq!(text(|| panic!("{}", "é".repeat(2000))).len(), MESSAGE_BYTES_MAX);
    }
}
