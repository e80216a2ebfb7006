//! Drops every privilege that a command could use to get out.
//!
//! # Invariants
//! 1. Afterwards no capability is left in any set, and no program that is run can gain one.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets};

/// No capability has a number beyond this.
const CAPABILITY_MAX: i32 = 63;

/// Returns true if this process may mount.
pub(super) fn can_mount() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Drops all capabilities and sets `no_new_privs`.
pub(super) fn drop_all() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    drop_bounding_set();
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    Ok(())
}

/// Prevents other processes of the same user from looking into this one.
pub(super) fn shut_off() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Drops the bounding set. Fails for a process without capabilities, which needs it least: `no_new_privs`
/// counts.
fn drop_bounding_set() {
    for capability in 0..=CAPABILITY_MAX {
        // SAFETY: prctl with these arguments touches no memory.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            return;
        }
    }
}
