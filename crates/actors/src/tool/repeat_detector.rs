//! Notices a model that runs in a circle.
//!
//! # Invariants
//! Only the same call with the same result, in a row, counts: a node that waits for something that changes is
//! no loop.

use domain::Hash;

/// The number of times in a row from which the same call with the same result is answered with an error.
pub const REPEATS_TOLD: u32 = 3;
/// The number of times in a row at which the node ends.
pub const REPEATS_MAX: u32 = 5;

/// The last call, and how often it was made in a row.
#[derive(Clone, Debug, Default)]
pub(super) struct RepeatDetector {
    last: Option<Hash>,
    times: u32,
}

impl RepeatDetector {
    /// A call was made and answered; says how often that was so in a row.
    pub(super) fn record_call(&mut self, tool: &str, arguments: &str, answer: &str) -> u32 {
        let lengths = format!("{} {} ", tool.len(), arguments.len());
        let now = Hash::from_content([&lengths, tool, arguments, answer].concat().as_bytes());
        self.times = if self.last == Some(now) { self.times.saturating_add(1) } else { 1 };
        self.last = Some(now);
        self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_call_with_the_same_answer_counts_and_only_in_a_row() {
        let mut repeats = RepeatDetector::default();
        let said = [
            ("a", "1", "x"),
            ("a", "1", "x"),
            ("a", "1", "y"),
            ("a", "1", "x"),
            ("a", "1", "x"),
            ("a", "1x", ""),
        ];
        let times: Vec<u32> = said
            .iter()
            .map(|(tool, arguments, answer)| repeats.record_call(tool, arguments, answer))
            .collect();
        assert_eq!(times, [1, 2, 1, 1, 2, 1]);
    }
}
