//! The ways to give a plan a tree of its own, best first, and which of them may be used.
//!
//! # Invariants
//! 1. [`Rung::LADDER`] is the order in which they are tried; [`Rung::InPlace`] is not on it: it is used only when it is
//!    named.
//! 2. Text and rung are one to one.

use std::fmt;
use std::str::FromStr;

/// How the plan's tree is kept apart from the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
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

impl Rung {
    /// What is tried, in this order.
    pub const LADDER: [Rung; 4] = [Rung::Overlay, Rung::Reflink, Rung::Worktree, Rung::Copy];

    /// Its name in settings, records and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Rung::Overlay => "overlay",
            Rung::Reflink => "reflink",
            Rung::Worktree => "worktree",
            Rung::Copy => "copy",
            Rung::InPlace => "none",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// No rung has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no sandbox strategy is named {0:?}: there are auto, overlay, reflink, worktree, copy, none")]
pub struct NoSuchRung(pub String);

impl FromStr for Rung {
    type Err = NoSuchRung;

    fn from_str(text: &str) -> Result<Rung, NoSuchRung> {
        Rung::LADDER
            .into_iter()
            .chain([Rung::InPlace])
            .find(|rung| rung.as_str() == text)
            .ok_or_else(|| NoSuchRung(text.to_owned()))
    }
}

/// What may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first rung of the ladder that works.
    #[default]
    Auto,
    /// This one or none at all.
    Only(Rung),
}

impl Choice {
    /// The rungs to be tried, in order.
    pub fn rungs(self) -> Vec<Rung> {
        match self {
            Choice::Auto => Rung::LADDER.to_vec(),
            Choice::Only(rung) => vec![rung],
        }
    }
}

impl FromStr for Choice {
    type Err = NoSuchRung;

    fn from_str(text: &str) -> Result<Choice, NoSuchRung> {
        if text == "auto" { Ok(Choice::Auto) } else { text.parse().map(Choice::Only) }
    }
}

/// A rung that was tried and does not serve here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// Which.
    pub rung: Rung,
    /// What stood in the way, in words for a user.
    pub why: String,
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rung, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rung_has_one_name() {
        for rung in Rung::LADDER.into_iter().chain([Rung::InPlace]) {
            assert_eq!(rung.to_string().parse(), Ok(rung));
            assert_eq!(rung.as_str().parse(), Ok(Choice::Only(rung)));
        }
        assert_eq!("auto".parse(), Ok(Choice::Auto));
        assert_eq!("Overlay".parse::<Rung>(), Err(NoSuchRung("Overlay".into())));
        assert_eq!("fast".parse::<Choice>(), Err(NoSuchRung("fast".into())));
    }

    #[test]
    fn the_users_own_tree_is_taken_only_when_it_is_named() {
        assert!(!Choice::Auto.rungs().contains(&Rung::InPlace));
        assert_eq!(Choice::Only(Rung::InPlace).rungs(), [Rung::InPlace]);
    }
}
