//! The bounds of a text that a model is shown: its beginning and its end.

/// The length of the beginning that is shown.
pub const HEAD_BYTES: usize = 16 << 10;
/// The length of the end that is shown.
pub const TAIL_BYTES: usize = 48 << 10;
