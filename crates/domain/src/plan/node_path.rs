//! The path under which the calls and the end of a node are recorded.
//!
//! | path | form |
//! |---|---|
//! | a step of the plan | `ID`, or `ID/CHILD` in a nested actor |
//! | a repair round of a step | `ID.fixN`, N from 1 |
//! | a check at the end of execute | `validate/NAME` |
//! | the same check before an apply | `recheck/NAME` |

use std::fmt;

const REPAIR_MARK: &str = ".fix";
const CHECK_PREFIX: &str = "validate/";
const RECHECK_PREFIX: &str = "recheck/";

/// The path of a node, by the kind of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodePath<'a> {
    /// A step.
    Step(&'a str),
    /// A step that runs again to repair the findings of the checks.
    Repair {
        /// The step.
        step: &'a str,
        /// The number of the round, from 1.
        round: u32,
    },
    /// A check.
    Check(&'a str),
    /// A check that runs again before an apply.
    Recheck(&'a str),
}

impl<'a> NodePath<'a> {
    /// Reads a recorded path.
    pub fn parse(path: &'a str) -> NodePath<'a> {
        if let Some(name) = path.strip_prefix(CHECK_PREFIX) {
            return NodePath::Check(name);
        }
        if let Some(name) = path.strip_prefix(RECHECK_PREFIX) {
            return NodePath::Recheck(name);
        }
        let repair =
            path.rsplit_once(REPAIR_MARK).and_then(|(step, round)| Some((step, round.parse().ok()?)));
        match repair {
            Some((step, round)) => NodePath::Repair { step, round },
            None => NodePath::Step(path),
        }
    }

    /// Returns the step that runs; `None` if it is a check.
    pub fn step(self) -> Option<&'a str> {
        match self {
            NodePath::Step(step) | NodePath::Repair { step, .. } => Some(step),
            NodePath::Check(_) | NodePath::Recheck(_) => None,
        }
    }

    /// Returns the name of the check that runs; `None` if it is a step.
    pub fn check(self) -> Option<&'a str> {
        match self {
            NodePath::Check(name) | NodePath::Recheck(name) => Some(name),
            NodePath::Step(_) | NodePath::Repair { .. } => None,
        }
    }
}

impl fmt::Display for NodePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodePath::Step(step) => f.write_str(step),
            NodePath::Repair { step, round } => write!(f, "{step}{REPAIR_MARK}{round}"),
            NodePath::Check(name) => write!(f, "{CHECK_PREFIX}{name}"),
            NodePath::Recheck(name) => write!(f, "{RECHECK_PREFIX}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_as_it_was_written() {
        let paths = [
            ("main", NodePath::Step("main")),
            ("a/b", NodePath::Step("a/b")),
            ("a/b.fix2", NodePath::Repair { step: "a/b", round: 2 }),
            ("a.fixed", NodePath::Step("a.fixed")),
            ("validate/cargo test", NodePath::Check("cargo test")),
            ("validate/a.fix1", NodePath::Check("a.fix1")),
            ("recheck/cargo test", NodePath::Recheck("cargo test")),
        ];
        for (text, path) in paths {
            assert_eq!(NodePath::parse(text), path);
            assert_eq!(path.to_string(), text);
        }
    }
}
