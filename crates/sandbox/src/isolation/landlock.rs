//! Landlock: the paths that a command may write, whatever the mounts say, and the processes that it may
//! signal.
//!
//! # Invariants
//! 1. Only what is named may be read, run and written. Within namespaces everything may be read: mounts cover
//!    the rest.
//! 2. If it is used alone ([`LandlockRole::Alone`]), a kernel that cannot prevent truncation is refused,
//!    because truncation is a write. The rights that only newer kernels know are used if they are available.
//!
//! # Not here
//! Modes, owners and times of files: Landlock does not know of them, so if it is used alone the sibling
//! `broker` judges their changes. Names, sizes and times can be asked for wherever they are.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

/// The newest version whose rights are known here.
const NEWEST: ABI = ABI::V9;
/// The oldest that holds back every way to write.
const OLDEST_ALONE: ABI = ABI::V3;

/// The part that Landlock plays: the second wall, or the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LandlockRole {
    /// Namespaces: Landlock is the second wall, and may be missing.
    Second,
    /// Nothing: Landlock has to be there.
    Alone,
}

/// The rules, made while the paths can still be opened.
#[derive(Debug)]
pub(super) struct LandlockRules {
    ruleset: RulesetCreated,
    strength: LandlockRole,
}

impl LandlockRules {
    /// Rules that let `readable` be read and `writable` be written; a path that is not there is passed over.
    pub(super) fn new(
        readable: &[PathBuf],
        writable: &[PathBuf],
        network: bool,
        strength: LandlockRole,
    ) -> Result<Self, String> {
        Self::build(readable, writable, network, strength).map_err(|error| format!("landlock: {error}"))
    }

    fn build(
        readable: &[PathBuf],
        writable: &[PathBuf],
        network: bool,
        strength: LandlockRole,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let needed = match strength {
            LandlockRole::Second => CompatLevel::BestEffort,
            LandlockRole::Alone => CompatLevel::HardRequirement,
        };
        let mut ruleset = Ruleset::default()
            .set_compatibility(needed)
            .handle_access(AccessFs::from_all(OLDEST_ALONE))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?;
        if !network && strength == LandlockRole::Alone {
            ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
        }
        let mut created = ruleset.create()?;
        for path in readable {
            let Ok(opened) = PathFd::new(path) else { continue };
            let read = AccessFs::from_read(NEWEST) & access_of(path);
            created = created.add_rule(PathBeneath::new(opened, read))?;
        }
        for path in writable {
            let Ok(opened) = PathFd::new(path) else { continue };
            created = created.add_rule(PathBeneath::new(opened, access_of(path)))?;
        }
        Ok(Self { ruleset: created, strength })
    }

    /// The ruleset, for a process that binds itself; none if the kernel has no Landlock.
    pub(super) fn into_fd(self) -> Option<OwnedFd> {
        self.ruleset.into()
    }

    /// Binds this process and all that come from it. It must not gain privileges any more.
    pub(super) fn restrict(self) -> Result<(), String> {
        let status = self.ruleset.restrict_self().map_err(|error| format!("landlock: {error}"))?;
        match (status.ruleset, self.strength) {
            (RulesetStatus::NotEnforced, LandlockRole::Alone) => Err("landlock: not enforced".to_owned()),
            (RulesetStatus::NotEnforced, LandlockRole::Second)
            | (RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced, _) => Ok(()),
        }
    }
}

/// Rights that only directories have are an error on a file.
fn access_of(path: &Path) -> BitFlags<AccessFs> {
    if path.is_dir() { AccessFs::from_all(NEWEST) } else { AccessFs::from_file(NEWEST) }
}
