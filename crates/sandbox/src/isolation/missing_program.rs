//! Explains why a program that exists is not visible to a command.
//!
//! # Invariants
//! 1. It is only looked for after a command did not find it: nothing that runs depends on it.
//!
//! # Not here
//! What is covered: the sibling `layout`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::control::ChildOrder;
use super::layout;
use super::layout::{MountContent, MountLayout};
use super::{IsolationBackend, exec};

/// A program at a path that commands do not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvisibleProgram {
    /// The program.
    pub path: PathBuf,
    /// The path that covers it: a private directory, or a hidden path.
    pub below: PathBuf,
}

/// Returns the program of the order if it is out of the command's sight; `None` if it does not exist, or is
/// in sight.
pub(super) fn program(order: &ChildOrder) -> Option<InvisibleProgram> {
    let layout = match order.rung {
        IsolationBackend::Namespaces | IsolationBackend::Bubblewrap => layout::build(order).ok()?,
        IsolationBackend::Landlock | IsolationBackend::None => return None,
    };
    exec::candidates(order).into_iter().find_map(|candidate| {
        let path = PathBuf::from(OsStr::from_bytes(candidate.as_bytes()));
        // One that is named from the directory of the command is in a project.
        let real = if path.is_absolute() { path.canonicalize().ok()? } else { return None };
        let below = covered(&layout, &path).or_else(|| covered(&layout, &real))?;
        real.is_file().then(|| InvisibleProgram { path, below: below.to_owned() })
    })
}

/// The deepest thing that is put above the path decides.
fn covered<'a>(layout: &'a MountLayout, path: &Path) -> Option<&'a Path> {
    let above = layout.above(path)?;
    match above.what {
        MountContent::Private | MountContent::Hidden => Some(&above.at),
        MountContent::Processes
        | MountContent::Devices
        | MountContent::Scratch
        | MountContent::Tree { .. }
        | MountContent::Text { .. }
        | MountContent::Link { .. }
        | MountContent::Masked
        | MountContent::Root { .. } => None,
    }
}
