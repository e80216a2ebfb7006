//! The definitions that come with the program.

use super::library::Kind;

const ACTORS: [(&str, &str); 7] = [
    ("aider", include_str!("builtin/aider.yaml")),
    ("claude", include_str!("builtin/claude.yaml")),
    ("coder", include_str!("builtin/coder.yaml")),
    ("codex", include_str!("builtin/codex.yaml")),
    ("gemini", include_str!("builtin/gemini.yaml")),
    ("goose", include_str!("builtin/goose.yaml")),
    ("strategist", include_str!("builtin/strategist.yaml")),
];

/// Names and texts, by name.
pub(super) fn of(kind: Kind) -> impl Iterator<Item = (&'static str, &'static str)> {
    let definitions: &[(&str, &str)] = match kind {
        Kind::Action => &[],
        Kind::Actor => &ACTORS,
    };
    definitions.iter().copied()
}
