//! A cache of the specs that were read lately. A plan is read many times while it is worked on, and its spec
//! hardly ever changes. The spec takes longer to read than all else that is stored of a plan.
//!
//! # Invariants
//! 1. A spec is found by its text alone, so the answer is the one that another read of the text would give.
//! 2. At most [`SPECS_MAX`] are cached, none of a text over [`TEXT_BYTES_MAX`], and their texts have at most
//!    [`TEXTS_BYTES_MAX`] in all.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::PlanSpec;
use sync::primitives::{Mutex, lock};

/// The most specs that are cached: more than the plans that a worker usually runs at once.
const SPECS_MAX: usize = 128;
/// The length limit of a text whose spec is cached.
const TEXT_BYTES_MAX: usize = 256 << 10;
/// The limit of all texts whose specs are cached.
const TEXTS_BYTES_MAX: usize = 2 << 20;

static LATELY: Mutex<VecDeque<(Box<str>, Arc<PlanSpec>)>> = Mutex::new(VecDeque::new());

/// The spec that was stored as this text.
pub(super) fn spec_of(text: &str) -> serde_json::Result<Arc<PlanSpec>> {
    if let Some(known) = known(text) {
        return Ok(known);
    }
    let spec: Arc<PlanSpec> = Arc::new(serde_json::from_str(text)?);
    if text.len() <= TEXT_BYTES_MAX {
        let kept = (text.into(), Arc::clone(&spec));
        let mut lately = lock(&LATELY);
        lately.push_front(kept);
        let count = count_within_limits(lately.iter().map(|(text, _)| text.len()));
        lately.truncate(count);
    }
    Ok(spec)
}

/// Returns how many texts of these lengths, from the first one on, are within the limits.
fn count_within_limits(lengths: impl Iterator<Item = usize>) -> usize {
    let mut bytes: usize = 0;
    let fits = |length: &usize| {
        bytes = bytes.saturating_add(*length);
        bytes <= TEXTS_BYTES_MAX
    };
    lengths.take(SPECS_MAX).take_while(fits).count()
}

fn known(text: &str) -> Option<Arc<PlanSpec>> {
    lock(&LATELY).iter().find(|(known, _)| **known == *text).map(|(_, spec)| Arc::clone(spec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_what_its_text_says_however_often_and_whatever_was_read_before() {
        let saying = |prompt: &str| {
            let spec = serde_json::json!({
                "steps": [], "max_file_bytes": 1, "sandbox": "auto", "isolation_required": true,
                "time_limit_s": 1, "prompt": prompt,
            });
            spec.to_string()
        };
        let text = |n: usize| saying(&n.to_string());
        let anew = |text: &str| Arc::new(serde_json::from_str::<PlanSpec>(text).unwrap());
        for _ in 0..2 {
            for n in 0..2 * SPECS_MAX {
                assert_eq!(spec_of(&text(n)).unwrap(), anew(&text(n)));
                assert_eq!(spec_of(&text(n)).unwrap(), anew(&text(n)), "known by now");
                assert!(lock(&LATELY).len() <= SPECS_MAX);
            }
        }
        let long = saying(&"x".repeat(TEXT_BYTES_MAX));
        assert_eq!(spec_of(&long).unwrap(), anew(&long));
        assert!(known(&long).is_none(), "it is too long to be kept");
        assert!(spec_of("{").is_err());
        let large = |letter: char| saying(&letter.to_string().repeat(TEXT_BYTES_MAX / 4 * 3));
        for letter in 'a'..='z' {
            spec_of(&large(letter)).unwrap();
        }
        let bytes: usize = lock(&LATELY).iter().map(|(text, _)| text.len()).sum();
        assert!(bytes <= TEXTS_BYTES_MAX, "{bytes}");
        assert!(known(&large('z')).is_some() && known(&large('a')).is_none());
    }
}
