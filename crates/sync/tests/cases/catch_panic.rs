//! Panics of foreign code, of every kind.

use sync::{Panicked, contained};

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        std::panic::panic_any(PanicsWhenDropped);
    }
}

fn message(act: fn()) -> String {
    contained(act).unwrap_err().message
}

#[test]
fn every_kind_of_panic_becomes_a_bounded_message() {
    assert_eq!(contained(|| 1), Ok(1));
    assert_eq!(message(|| panic!("plain")), "plain");
    assert_eq!(message(|| panic!("{}", "formatted")), "formatted");
    assert_eq!(message(|| std::panic::panic_any(7)), "its panic has no text");
    assert_eq!(message(|| std::panic::panic_any(PanicsWhenDropped)), "its panic has no text");
    assert_eq!(message(|| panic!("x{}", "é".repeat(2000))).len(), 2047, "cut between characters");
    assert_eq!(Panicked { message: "oh".to_owned() }.to_string(), "panicked: oh");
}
