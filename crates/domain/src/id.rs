//! The names of things: ULIDs for what is made anywhere, small numbers for what a plan counts.
//!
//! # Invariants
//! 1. Two ids of different kinds never compare, mix or convert into each other.
//! 2. Text and id are one to one: what is printed parses back, and no two upper-case texts name one id.
//!
//! # Not here
//! Making ids: that needs a clock and randomness, which are passed in from outside.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use ulid::Ulid;

macro_rules! ulid_id {
    ($(#[$doc:meta])* $name:ident, $noun:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Ulid);

        impl $name {
            /// The id with this value.
            pub const fn from_u128(value: u128) -> Self {
                Self(Ulid(value))
            }

            /// Its value.
            pub const fn as_u128(self) -> u128 {
                self.0.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut text = [0; ulid::ULID_LEN];
                f.pad(self.0.array_to_str(&mut text))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                parse_ulid($noun, text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

ulid_id! {
    /// One run of an action, or of free text.
    ///
    /// ```
    /// use domain::PlanId;
    ///
    /// let plan: PlanId = "01JB3QK7XM0000000000000000".parse()?;
    /// assert_eq!(plan.to_string(), "01JB3QK7XM0000000000000000");
    /// assert_eq!(PlanId::from_u128(plan.as_u128()), plan);
    /// # Ok::<(), domain::IdError>(())
    /// ```
    PlanId, "a plan id"
}
ulid_id! {
    /// One phase of one plan, to be run by a worker. Jobs are served in the order of their ids.
    JobId, "a job id"
}
ulid_id! {
    /// An ordered set of change entries of one plan.
    ChangesetId, "a changeset id"
}
ulid_id! {
    /// Names a change before it is recorded, so that recording it again records it once.
    ChangeId, "a change id"
}
ulid_id! {
    /// Names an error before it is recorded, so that recording it again counts it once.
    ErrorId, "an error id"
}
ulid_id! {
    /// Names what is about to be spent before it is reserved, so that reserving it again reserves it once.
    SpendId, "a spend id"
}
ulid_id! {
    /// One recorded choice of a plan.
    DecisionId, "a decision id"
}
ulid_id! {
    /// One assembled context: what a model was given.
    ContextId, "a context id"
}
ulid_id! {
    /// One apply or undo, and its journal.
    ApplyId, "an apply id"
}
ulid_id! {
    /// One worker process: a fresh one for each start.
    WorkerId, "a worker id"
}

/// The reason why a text is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Too short or too long.
    #[error("{what} has 26 characters, this has {found}")]
    Length {
        /// The kind of id that was wanted.
        what: &'static str,
        /// The number of characters.
        found: usize,
    },
    /// A character outside Crockford's base 32.
    #[error("{what} is written with digits and letters other than I, L, O and U")]
    Character {
        /// The kind of id that was wanted.
        what: &'static str,
    },
    /// 26 characters that say more than 128 bits.
    #[error("{what} begins with a digit from 0 to 7")]
    TooLarge {
        /// The kind of id that was wanted.
        what: &'static str,
    },
}

fn parse_ulid(what: &'static str, text: &str) -> Result<Ulid, IdError> {
    if text.len() != ulid::ULID_LEN {
        return Err(IdError::Length { what, found: text.chars().count() });
    }
    let ulid = Ulid::from_string(text).map_err(|_| IdError::Character { what })?;
    // 26 characters hold 130 bits and the decoder drops the first two: such a text would name another id.
    if text.as_bytes().first().is_some_and(|first| *first > b'7') {
        return Err(IdError::TooLarge { what });
    }
    Ok(ulid)
}

/// The number of a tool call within a plan's attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallNumber(pub u32);

/// The index of a project among a plan's projects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RootIndex(pub u16);

/// The ownership of a job that a write belongs to: each new owner gets the next fence, which distinguishes it
/// from older owners.
///
/// ```
/// use domain::Fence;
///
/// assert!(Fence::NONE < Fence::NONE.next());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

impl Fence {
    /// The fence of a job that has had no owner yet.
    pub const NONE: Fence = Fence(0);

    /// The fence of the next owner.
    #[must_use]
    pub const fn next(self) -> Fence {
        // A claim every nanosecond would take 584 years to get here.
        Fence(self.0.saturating_add(1))
    }
}

/// A boot of a machine. Only compared: times and leases of another boot mean nothing in this one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootId(u128);

impl BootId {
    /// The boot with this value.
    pub const fn from_u128(value: u128) -> Self {
        Self(value)
    }

    /// Its value.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BootId({self})")
    }
}

/// Reads hexadecimal digits, with or without the hyphens in which the kernel prints a boot's id.
impl FromStr for BootId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u128::from_str_radix(&text.replace('-', ""), 16).map(Self)
    }
}

/// A worker's right to write for a job: valid as long as the job runs under this very fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// The plan of the job.
    pub plan: PlanId,
    /// The job.
    pub job: JobId,
    /// The ownership that was granted.
    pub fence: Fence,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "01JB3QK7XM0123456789ABCDEF";

    #[test]
    fn an_id_prints_as_26_characters_that_parse_back() {
        let id: WorkerId = TEXT.parse().unwrap();
        assert_eq!(id.to_string(), TEXT);
        assert_eq!(format!("{id:?}"), format!("WorkerId({TEXT})"));
        assert_eq!(format!("{id:>28}|{id:.4}"), format!("  {TEXT}|01JB"));
        assert_eq!(PlanId::from_u128(u128::MAX).to_string(), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        assert_eq!(JobId::from_u128(33).to_string(), "00000000000000000000000011");
        assert_eq!("00000000000000000000000011".parse(), Ok(ChangeId::from_u128(33)));
        assert_eq!("7ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse(), Ok(PlanId::from_u128(u128::MAX)));
        assert_eq!(ErrorId::from_u128(33).as_u128(), 33);
    }

    #[test]
    fn lower_case_names_the_same_id() {
        assert_eq!(TEXT.to_lowercase().parse::<PlanId>(), TEXT.parse::<PlanId>());
    }

    #[test]
    fn what_is_not_an_id_says_why() {
        let why = |text: &str| text.parse::<ChangesetId>().unwrap_err();
        let what = "a changeset id";
        assert_eq!(why("01JB"), IdError::Length { what, found: 4 });
        assert_eq!(why("0".repeat(27).as_str()), IdError::Length { what, found: 27 });
        assert_eq!(why("é".repeat(13).as_str()), IdError::Character { what });
        for letter in ["I", "L", "O", "U"] {
            assert_eq!(why(&format!("01JB3QK7XM0123456789ABCDE{letter}")), IdError::Character { what });
        }
        assert_eq!(why("8ZZZZZZZZZZZZZZZZZZZZZZZZZ"), IdError::TooLarge { what });
        assert_eq!(why("01JB").to_string(), "a changeset id has 26 characters, this has 4");
    }

    #[test]
    fn ids_travel_as_strings_and_numbers_as_numbers() {
        let id: JobId = TEXT.parse().unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{TEXT}\""));
        assert_eq!(serde_json::from_str::<JobId>(&format!("\"{TEXT}\"")).unwrap(), id);
        assert!(serde_json::from_str::<JobId>("\"no id\"").is_err());
        assert!(serde_json::from_str::<JobId>("7").is_err());
        assert_eq!(serde_json::to_string(&(CallNumber(1), RootIndex(2), Fence(3))).unwrap(), "[1,2,3]");
    }

    #[test]
    fn each_owner_gets_the_next_fence() {
        assert_eq!(Fence::NONE, Fence(0));
        assert_eq!(Fence(7).next(), Fence(8));
        assert_eq!(Fence(u64::MAX).next(), Fence(u64::MAX));
    }

    #[test]
    fn a_boot_is_read_as_the_kernel_prints_it() {
        let boot: BootId = "0f3b1c2d-0000-4000-8000-00000000abcd".parse().unwrap();
        assert_eq!(boot, BootId::from_u128(0x0f3b_1c2d_0000_4000_8000_0000_0000_abcd));
        assert_eq!(boot.as_u128(), 0x0f3b_1c2d_0000_4000_8000_0000_0000_abcd);
        assert_eq!(boot.to_string(), "0f3b1c2d00004000800000000000abcd");
        assert_eq!(format!("{boot:?}"), "BootId(0f3b1c2d00004000800000000000abcd)");
        assert_eq!(boot.to_string().parse(), Ok(boot));
        assert!("boot".parse::<BootId>().is_err());
    }
}
