//! The strategies that give a plan a tree of its own, best first, and the choice among them.
//!
//! # Invariants
//! 1. [`SandboxStrategy::TRY_ORDER`] is the order in which they are tried. [`SandboxStrategy::InPlace`] is
//!    not in it: it is used only if it is named.
//! 2. Text and strategy are one to one.

use std::fmt;
use std::str::FromStr;

/// The way in which the plan's tree is separated from the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxStrategy {
    /// An overlay file system over the live tree: costs the same whatever the size.
    Overlay,
    /// A copy that shares its blocks with the original.
    Reflink,
    /// The files that git knows or would add, copied.
    Worktree,
    /// Everything, copied.
    Copy,
    /// The user's own tree.
    InPlace,
}

impl SandboxStrategy {
    /// The strategies that are tried, in this order.
    pub const TRY_ORDER: [SandboxStrategy; 4] = [
        SandboxStrategy::Overlay,
        SandboxStrategy::Reflink,
        SandboxStrategy::Worktree,
        SandboxStrategy::Copy,
    ];

    /// Its name in settings, records and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            SandboxStrategy::Overlay => "overlay",
            SandboxStrategy::Reflink => "reflink",
            SandboxStrategy::Worktree => "worktree",
            SandboxStrategy::Copy => "copy",
            SandboxStrategy::InPlace => "none",
        }
    }
}

impl fmt::Display for SandboxStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// No strategy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no sandbox strategy {0:?}; the strategies are auto, overlay, reflink, worktree, copy, none"
)]
pub struct UnknownSandboxStrategy(pub String);

impl FromStr for SandboxStrategy {
    type Err = UnknownSandboxStrategy;

    fn from_str(text: &str) -> Result<SandboxStrategy, UnknownSandboxStrategy> {
        SandboxStrategy::TRY_ORDER
            .into_iter()
            .chain([SandboxStrategy::InPlace])
            .find(|rung| rung.as_str() == text)
            .ok_or_else(|| UnknownSandboxStrategy(text.to_owned()))
    }
}

/// The strategies that may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StrategyChoice {
    /// The first strategy of the order that works.
    #[default]
    Auto,
    /// This one or none at all.
    Only(SandboxStrategy),
}

impl StrategyChoice {
    /// The strategies to be tried, in order.
    pub fn strategies(self) -> Vec<SandboxStrategy> {
        match self {
            StrategyChoice::Auto => SandboxStrategy::TRY_ORDER.to_vec(),
            StrategyChoice::Only(rung) => vec![rung],
        }
    }
}

impl FromStr for StrategyChoice {
    type Err = UnknownSandboxStrategy;

    fn from_str(text: &str) -> Result<StrategyChoice, UnknownSandboxStrategy> {
        if text == "auto" { Ok(StrategyChoice::Auto) } else { text.parse().map(StrategyChoice::Only) }
    }
}

/// A strategy that was tried and does not work here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedSandboxStrategy {
    /// The strategy.
    pub rung: SandboxStrategy,
    /// The reason, in words for a user.
    pub why: String,
}

impl fmt::Display for SkippedSandboxStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rung, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rung_has_one_name() {
        for rung in SandboxStrategy::TRY_ORDER.into_iter().chain([SandboxStrategy::InPlace]) {
            assert_eq!(rung.to_string().parse(), Ok(rung));
            assert_eq!(rung.as_str().parse(), Ok(StrategyChoice::Only(rung)));
        }
        assert_eq!("auto".parse(), Ok(StrategyChoice::Auto));
        assert_eq!("Overlay".parse::<SandboxStrategy>(), Err(UnknownSandboxStrategy("Overlay".into())));
        assert_eq!("fast".parse::<StrategyChoice>(), Err(UnknownSandboxStrategy("fast".into())));
    }

    #[test]
    fn the_users_own_tree_is_taken_only_when_it_is_named() {
        assert!(!StrategyChoice::Auto.strategies().contains(&SandboxStrategy::InPlace));
        assert_eq!(StrategyChoice::Only(SandboxStrategy::InPlace).strategies(), [SandboxStrategy::InPlace]);
    }
}
