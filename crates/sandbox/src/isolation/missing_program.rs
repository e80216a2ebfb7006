//! Why a program that is there is not there for a command.
//!
//! # Invariants
//! 1. It is only looked for after a command did not find it: nothing that runs depends on it.
//!
//! # Not here
//! What is covered: the sibling `layout`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::control::Order;
use super::layout;
use super::layout::{Layout, What};
use super::{IsolationRung, exec};

/// A program that lies where commands do not see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// The program.
    pub path: PathBuf,
    /// What covers it: a private directory, or a hidden path.
    pub below: PathBuf,
}

/// Where the program of the order lies out of its sight; none when it lies nowhere, or in sight.
pub(super) fn program(order: &Order) -> Option<Unseen> {
    let layout = match order.rung {
        IsolationRung::Namespaces | IsolationRung::Bubblewrap => layout::of(order).ok()?,
        IsolationRung::Landlock | IsolationRung::None => return None,
    };
    exec::candidates(order).into_iter().find_map(|candidate| {
        let path = PathBuf::from(OsStr::from_bytes(candidate.as_bytes()));
        // One that is named from the directory of the command lies in a project.
        let real = if path.is_absolute() { path.canonicalize().ok()? } else { return None };
        let below = covered(&layout, &path).or_else(|| covered(&layout, &real))?;
        real.is_file().then(|| Unseen { path, below: below.to_owned() })
    })
}

/// The deepest thing that is put above the path decides.
fn covered<'a>(layout: &'a Layout, path: &Path) -> Option<&'a Path> {
    let above = layout.above(path)?;
    match above.what {
        What::Private | What::Hidden => Some(&above.at),
        What::Processes
        | What::Devices
        | What::Scratch
        | What::Tree { .. }
        | What::Text { .. }
        | What::Link { .. }
        | What::Masked
        | What::Root { .. } => None,
    }
}
