//! The directory of an attempt's sandbox: one of its name, or another next to it while a process holds that
//! one.
//!
//! An owner that was stopped past its lease still holds its sandbox open, and no other process can remove it.
//! Its successor opens another one; the first goes with its holder, or is swept when that is gone.
//!
//! # Invariants
//! 1. Each directory that is tried has plan and attempt in its name: a process that clears sandboxes knows
//!    the owner.
//! 2. A retained sandbox of this attempt is opened again before a new one is made, whichever of them it is.
//!
//! # Not here
//! Holding and removing a directory: crate `sandbox`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{CallNumber, Plan, PlanId};
use sandbox::{CopyWatch, OpenRequest, Sandbox, SandboxOpenError};

use crate::engine::EngineInner;

/// The maximum number of sandboxes of one attempt that may be held at once: each but one by an owner that is
/// blocked.
const HOMES_MAX: u32 = 8;
/// The number of tries with the first directory before another one is taken: a search for leftovers holds
/// each for a moment.
const LOOKS_MAX: u32 = 20;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

impl EngineInner {
    /// Returns the directory of the sandbox of the plan's present attempt, if no other owner holds that.
    pub(crate) fn sandbox_home(&self, plan: &Plan) -> PathBuf {
        self.options.sandbox_dir.join(format!("{}-{}", plan.id, plan.attempt))
    }
}

/// Returns the directory of the output of a call that runs in this sandbox.
pub(crate) fn log_dir(sandbox: &Path, call: CallNumber) -> PathBuf {
    sandbox.join(format!("call-{}", call.0))
}

/// The plan and the attempt that a sandbox is of, by its directory; none when it is not one of ours.
pub(crate) fn owner_of(dir: &Path) -> Option<(PlanId, u32)> {
    let (plan, rest) = dir.file_name()?.to_str()?.rsplit_once('-')?;
    let attempt = match rest.split_once('.') {
        Some((attempt, no)) => no.parse::<u32>().ok().and(Some(attempt))?,
        None => rest,
    };
    Some((plan.parse().ok()?, attempt.parse().ok()?))
}

/// Opens the retained sandbox of the attempt, and returns its note; otherwise opens a new one, in the first
/// free directory.
pub(crate) fn open(
    request: &OpenRequest,
    watch: &CopyWatch,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(Sandbox, Option<String>), SandboxOpenError> {
    let homes: Vec<PathBuf> = (1..=HOMES_MAX).map(|no| dir_for(&request.dir, no)).collect();
    let at = |dir: &PathBuf| OpenRequest { dir: dir.clone(), ..request.clone() };
    let new = |dir: &PathBuf| sandbox::open_watched(at(dir), watch, stop).map(|sandbox| (sandbox, None));
    for _ in 0..LOOKS_MAX {
        if let Some(kept) = homes.iter().find(|dir| sandbox::is_retained(dir)) {
            return sandbox::reopen(at(kept)).map(|(sandbox, note)| (sandbox, Some(note)));
        }
        match new(&request.dir) {
            Err(SandboxOpenError::Busy { .. }) if !stop() => std::thread::sleep(LOOK_AGAIN_AFTER),
            other => return other,
        }
    }
    let mut opened = Err(SandboxOpenError::Busy { dir: request.dir.clone() });
    for dir in homes.iter().skip(1) {
        opened = new(dir);
        if !matches!(opened, Err(SandboxOpenError::Busy { .. })) {
            break;
        }
    }
    opened
}

/// Opens a new sandbox in the first free spare directory of the attempt. A retained sandbox of the attempt is
/// not touched.
pub(crate) fn open_spare(
    request: &OpenRequest,
    watch: &CopyWatch,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Sandbox, SandboxOpenError> {
    let mut opened = Err(SandboxOpenError::Busy { dir: request.dir.clone() });
    for no in HOMES_MAX + 1..=2 * HOMES_MAX {
        let at = OpenRequest { dir: dir_for(&request.dir, no), ..request.clone() };
        opened = sandbox::open_watched(at, watch, stop);
        if !matches!(opened, Err(SandboxOpenError::Busy { .. })) {
            break;
        }
    }
    opened
}

/// Returns the retained sandbox of the attempt. `None` if there is none, or if it is in use.
pub(crate) fn kept(first: &Path) -> Option<PathBuf> {
    (1..=HOMES_MAX).map(|no| dir_for(first, no)).find(|dir| sandbox::is_retained(dir))
}

/// The first has the name of the attempt alone.
fn dir_for(first: &Path, no: u32) -> PathBuf {
    let mut name = first.as_os_str().to_owned();
    if no > 1 {
        name.push(format!(".{no}"));
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_sandbox_tells_its_plan_and_attempt() {
        let first = Path::new("/data/sandboxes/01JB3QK7XM0000000000000000-12");
        let plan = "01JB3QK7XM0000000000000000".parse().unwrap();
        for no in [1, 2, HOMES_MAX] {
            assert_eq!(owner_of(&dir_for(first, no)), Some((plan, 12)));
        }
        for other in
            ["probe-1-copy", "01JB3QK7XM0000000000000000-12.x", "01JB3QK7XM0000000000000000.2", ".gone-1"]
        {
            assert_eq!(owner_of(&Path::new("/data/sandboxes").join(other)), None, "{other}");
        }
    }

    #[test]
    fn a_sandbox_that_somebody_holds_is_left_alone_and_another_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let project = place.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let root = sandbox::RootSpec { no: domain::RootIndex(0), path: project, read_only: false };
        let request = OpenRequest {
            dir: place.path().join("sandboxes/01JB3QK7XM0000000000000000-1"),
            roots: vec![root],
            choice: "copy".parse().unwrap(),
            include: Vec::new(),
        };
        let open = || open(&request, &CopyWatch::default(), &|| false).unwrap();
        let (first, _) = open();
        let (mut second, _) = open();
        assert_eq!((first.dir(), second.dir()), (&*request.dir, &*dir_for(&request.dir, 2)));
        // A retained sandbox is found at either place, also when the first is free again.
        second.retain("for later").unwrap();
        second.close().unwrap();
        first.close().unwrap();
        let (again, note) = open();
        assert_eq!((again.dir(), note.as_deref()), (&*dir_for(&request.dir, 2), Some("for later")));
    }
}
