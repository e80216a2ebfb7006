//! The definitions that come with the program.
//!
//! # Invariants
//! An agent program is used over the Agent Client Protocol if that was seen to work, and if it can log in
//! without a person. Otherwise it is run once as a command.

use actors::agents;

use crate::search_path::Kind;

const ACTORS: [(&str, &str); 7] = [
    ("aider", include_str!("builtin/aider.yaml")),
    ("claude", include_str!("builtin/claude.yaml")),
    ("coder", include_str!("builtin/coder.yaml")),
    ("codex", include_str!("builtin/codex.yaml")),
    ("gemini", include_str!("builtin/gemini.yaml")),
    ("goose", include_str!("builtin/goose.yaml")),
    ("strategist", include_str!("builtin/strategist.yaml")),
];

/// The same agents, spoken to.
const SPOKEN: [(&str, &str); 3] = [
    ("claude", include_str!("builtin/acp/claude.yaml")),
    ("codex", include_str!("builtin/acp/codex.yaml")),
    ("gemini", include_str!("builtin/acp/gemini.yaml")),
];

/// Names and texts, by name.
pub(crate) fn of(kind: Kind) -> impl Iterator<Item = (&'static str, &'static str)> {
    let definitions: &[(&str, &str)] = match kind {
        Kind::Action => &[],
        Kind::Actor => &ACTORS,
    };
    definitions.iter().map(|(name, text)| (*name, spoken(name).unwrap_or(text)))
}

fn spoken(name: &str) -> Option<&'static str> {
    let (_, text) = SPOKEN.iter().find(|(spoken, _)| *spoken == name)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let agent = agents::named(name)?;
    agents::speaks(agent, &path, &|name| std::env::var(name).ok()).then_some(*text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spoken_to_is_the_agent_of_the_table() {
        for (name, text) in SPOKEN {
            let acp = agents::named(name).unwrap().acp.unwrap();
            let words: Vec<String> = acp.argv.iter().map(|word| word.replace('"', "")).collect();
            let line =
                text.lines().find(|line| line.starts_with("external:")).unwrap().replace(['"', '\''], "");
            assert_eq!(line, format!("external: [{}]", words.join(", ")), "{name}");
        }
    }
}
