//! The three phases of a plan.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The phase of a plan, from thought to the user's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Thinks, read-only.
    Strategize,
    /// Works, in its sandbox only.
    Execute,
    /// Reaches the user's files.
    Apply,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Phase; 3] = [Phase::Strategize, Phase::Execute, Phase::Apply];

    /// Its name, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Strategize => "strategize",
            Phase::Execute => "execute",
            Phase::Apply => "apply",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_has_one_name_everywhere() {
        let names = ["strategize", "execute", "apply"];
        assert_eq!(Phase::ALL.map(Phase::as_str), names);
        for (phase, name) in Phase::ALL.into_iter().zip(names) {
            assert_eq!(format!("{phase:>10}"), format!("{name:>10}"));
            assert_eq!(serde_json::to_string(&phase).unwrap(), format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<Phase>(&format!("\"{name}\"")).unwrap(), phase);
        }
    }
}
