//! An open sandbox: the tree of each project as the plan sees it, what changed in it, and its end.
//!
//! # Invariants
//! 1. It exists as long as this value: dropping it closes the descriptors that hold its mounts and removes
//!    its directory. A process that is killed leaves a directory that can be swept, and no mount.
//!    One that is to be retained leaves its directory whatever happens, until it is opened again or
//!    discarded.
//! 2. The first use waits until the kernel's file clock has passed the opening, so that every base is judged
//!    rightly.
//!
//! # Not here
//! The opening: [`open`](mod@crate::open). There is no commit: applying is the journal's business.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use domain::{Base, FileState, NetChange, RelPath, RootIndex};
use rustix::fs::{Mode, OFlags};

use crate::capture;
use crate::capture::{
    CaptureError, CaptureReport, CaptureRoot, CaptureRules, ScanContext, ScanSource, ScannedPath, read_state,
};
use crate::content::{ContentSink, ContentSource};
use crate::fs::beneath;
use crate::fs::beneath::LinkPolicy;
use crate::hidden_path_matcher::{HiddenInProject, HiddenPathMatcher};
use crate::layer::{Layer, LayerError, LayerRoot};
use crate::open::baseline::OpenTimes;
use crate::open::copy::SkippedFiles;
use crate::open::dir::{RetainHandle, SandboxDir};
use crate::open::identity;
use crate::open::overlay;
use crate::open::overlay::{Namespaces, OverlayTarget};
use crate::open::strategy::{SandboxStrategy, SkippedSandboxStrategy};
use crate::restore;
use crate::restore::RestoreError;
use crate::tree_stamp::TreeStamp;
use crate::view::{SandboxView, ViewRoot};

/// One project in a sandbox.
#[derive(Debug)]
pub(crate) struct SandboxRoot {
    pub(crate) path: PathBuf,
    pub(crate) copy: Option<PathBuf>,
    pub(crate) read_only: bool,
}

/// The parts that a strategy created for a sandbox.
#[derive(Debug)]
pub(crate) struct SandboxParts {
    pub(crate) opened: OpenTimes,
    pub(crate) namespaces: Option<Namespaces>,
    pub(crate) watched: Vec<CaptureRoot>,
    pub(crate) roots: Vec<SandboxRoot>,
    pub(crate) skipped: SkippedFiles,
}

/// An open sandbox.
#[derive(Debug)]
pub struct Sandbox {
    rung: SandboxStrategy,
    passed_over: Vec<SkippedSandboxStrategy>,
    made: SandboxParts,
    layers: AtomicU32,
    claimed: SandboxDir,
    hidden: HiddenPathMatcher,
}

/// No such project is open in the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sandbox has no project {}", .0.0)]
pub struct NoSuchRoot(pub RootIndex);

impl Sandbox {
    pub(crate) fn new(
        rung: SandboxStrategy,
        passed_over: Vec<SkippedSandboxStrategy>,
        made: SandboxParts,
        claimed: SandboxDir,
    ) -> Sandbox {
        let (layers, hidden) = (AtomicU32::new(0), HiddenPathMatcher::default());
        Sandbox { rung, passed_over, made, layers, claimed, hidden }
    }

    /// The same sandbox, in which these paths are neither captured nor written by a tool.
    #[must_use]
    pub fn with_hidden(self, hidden: HiddenPathMatcher) -> Sandbox {
        Sandbox { hidden, ..self }
    }

    /// The hidden paths of a project.
    pub fn hidden(&self, no: RootIndex) -> HiddenInProject {
        let root = self.made.watched.iter().find(|root| root.no == no);
        root.map(|root| self.hidden.within(&root.path)).unwrap_or_default()
    }

    /// Returns the strategy that separates the plan's tree from the user's.
    pub fn strategy(&self) -> SandboxStrategy {
        self.rung
    }

    /// Returns the better strategies that do not work here, with the reasons.
    pub fn skipped_strategies(&self) -> &[SkippedSandboxStrategy] {
        &self.passed_over
    }

    /// Returns the counts of files that a copy does not have; nothing is missing from an overlay.
    pub fn skipped(&self) -> SkippedFiles {
        self.made.skipped
    }

    /// Returns its directory.
    pub fn dir(&self) -> &Path {
        self.claimed.path()
    }

    /// When it was opened, by the wall clock.
    pub fn opened_at_ms(&self) -> u64 {
        self.made.opened.at_ms()
    }

    /// The user's trees at the moment of the opening; what is seen in the sandbox is theirs as they were
    /// then.
    ///
    /// # Errors
    /// A project cannot be looked at.
    pub fn stamp(&self) -> io::Result<TreeStamp> {
        let roots =
            self.made.watched.iter().map(|root| identity(&root.original)).collect::<io::Result<_>>()?;
        TreeStamp::new(&self.made.opened, roots)
    }

    /// The tree of a project as the plan sees it, to resolve paths beneath.
    ///
    /// # Errors
    /// There is no such project.
    pub fn root(&self, no: RootIndex) -> Result<BorrowedFd<'_>, NoSuchRoot> {
        self.made.opened.wait();
        let root = self.made.watched.iter().find(|root| root.no == no);
        root.map(|root| root.tree.as_fd()).ok_or(NoSuchRoot(no))
    }

    /// Returns the view that a command needs to run in it.
    ///
    /// # Errors
    /// There are no more descriptors to be had.
    pub fn view(&self) -> io::Result<SandboxView> {
        self.made.opened.wait();
        let namespaces = self.made.namespaces.as_ref();
        let user = namespaces.and_then(|namespaces| namespaces.user.as_ref());
        let roots = self.made.watched.iter().zip(&self.made.roots).map(|(watched, root)| {
            Ok(ViewRoot {
                no: watched.no,
                path: root.path.clone(),
                tree: watched.tree.try_clone()?,
                copy: root.copy.clone(),
                read_only: root.read_only,
            })
        });
        Ok(SandboxView {
            user_namespace: user.map(OwnedFd::try_clone).transpose()?,
            mount_namespace: namespaces.map(|namespaces| namespaces.mount.try_clone()).transpose()?,
            roots: roots.collect::<io::Result<_>>()?,
        })
    }

    /// Returns the changes since the last scan. No command may be running.
    ///
    /// # Errors
    /// Returns an error if something could not be read or stored. Then nothing was reported, and the next
    /// scan finds it all.
    pub fn scan(
        &mut self,
        sink: &dyn ContentSink,
        rules: &CaptureRules,
    ) -> Result<CaptureReport, CaptureError> {
        self.made.opened.wait();
        let scan = ScanContext { sink, rules, opened: &self.made.opened, hidden: &self.hidden };
        capture::scan(&mut self.made.watched, scan)
    }

    /// Saves the bases of the files that a long command has changed so far, before the user changes them too.
    /// Reports nothing.
    ///
    /// # Errors
    /// As [`Sandbox::scan`]; the bases that were stored until then stay stored.
    pub fn save_bases(&mut self, sink: &dyn ContentSink, rules: &CaptureRules) -> Result<(), CaptureError> {
        self.made.opened.wait();
        let scan = ScanContext { sink, rules, opened: &self.made.opened, hidden: &self.hidden };
        capture::save_bases(&mut self.made.watched, scan)
    }

    /// Stores the entry at `path` as its known base, because a file tool is about to replace or remove it.
    /// Returns it, so that the tool can compare it with what the model has read.
    ///
    /// On an overlay the file is brought up first: from then on no other process changes the file that the
    /// tool replaces.
    ///
    /// # Errors
    /// Returns an error if it cannot be read or stored.
    pub fn keep_base(
        &mut self,
        no: RootIndex,
        path: &RelPath,
        sink: &dyn ContentSink,
        rules: &CaptureRules,
    ) -> Result<Option<FileState>, CaptureError> {
        self.made.opened.wait();
        let Some(root) = self.made.watched.iter_mut().find(|root| root.no == no) else { return Ok(None) };
        if let ScanSource::Upper(_) = root.changes {
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            // If that is refused, the file is read as it is: the rule of the unchanged original then applies.
            drop(beneath::open(root.tree.as_fd(), path, flags, Mode::empty(), LinkPolicy::Refuse));
        }
        let read = read_state(root.tree.as_fd(), path, root.whose(), sink, rules.max_file_bytes)?;
        let state = read.map(|(state, _)| state);
        let first = || ScannedPath::first(state, Base::Known);
        root.memory.paths.entry(path.clone()).or_insert_with(first);
        Ok(state)
    }

    /// Puts recorded changes into the sandbox; the next scan does not report them.
    ///
    /// # Errors
    /// One of them could not be put in; those before it are.
    pub fn restore(&mut self, changes: &[NetChange], source: &dyn ContentSource) -> Result<(), RestoreError> {
        self.made.opened.wait();
        restore::restore(&mut self.made.watched, changes, source)
    }

    /// A throw-away layer over the sandbox.
    ///
    /// # Errors
    /// [`LayerError::Unavailable`] with every strategy but the overlay, and where overlays cannot be stacked
    /// further.
    pub fn layer(&self) -> Result<Layer, LayerError> {
        self.made.opened.wait();
        let unavailable = |why: String| LayerError::Unavailable { why };
        let Some(namespaces) = &self.made.namespaces else {
            return Err(unavailable(format!("it is a {}, not an overlay", self.rung)));
        };
        let number = self.layers.fetch_add(1, Ordering::Relaxed);
        let dir = self.dir().join(format!("layer-{number}"));
        let covers: Vec<OverlayTarget<'_>> = self
            .made
            .watched
            .iter()
            .zip(&self.made.roots)
            .map(|(watched, root)| OverlayTarget {
                path: &root.path,
                lower: watched.tree.as_fd(),
                dir: dir.join(watched.no.0.to_string()),
                read_only: root.read_only,
            })
            .collect();
        let mounted = overlay::mount_over(&covers, namespaces).and_then(|mounted| {
            let user = namespaces.user.as_ref().map(OwnedFd::try_clone).transpose();
            user.map(|user| (mounted, user)).map_err(|source| source.to_string())
        });
        let (mounted, user) = mounted.map_err(|why| {
            // No command has seen it yet; if it cannot be removed, it goes with the sandbox.
            let _ = crate::layer::remove_dir(&dir);
            unavailable(why)
        })?;
        let roots = self.made.watched.iter().zip(&self.made.roots).zip(mounted.roots);
        let roots = roots.map(|((watched, root), (tree, _))| LayerRoot {
            no: watched.no,
            path: root.path.clone(),
            tree,
            read_only: root.read_only,
        });
        let roots = roots.collect();
        Ok(Layer::new(dir, Namespaces { user, mount: mounted.namespaces.mount }, roots))
    }

    /// Makes it outlive its owner, because its changes could not be captured. From now on its directory stays
    /// until it is discarded, or opened again by [`reopen`](crate::reopen()), which returns `note`. The note
    /// may have [`NOTE_BYTES_MAX`](crate::NOTE_BYTES_MAX) bytes.
    ///
    /// It takes no space: a disk that is full is the usual reason.
    ///
    /// # Errors
    /// It could not be marked, or what is in it may not survive a crash of the machine.
    pub fn retain(&mut self, note: &str) -> io::Result<()> {
        self.claimed.retain(note)
    }

    /// Returns a handle that retains it while another thread works in it.
    pub fn retain_handle(&self) -> Option<RetainHandle> {
        self.claimed.retain_handle()
    }

    /// Ends the retention: the work in it is captured, and it is removed with its owner again.
    ///
    /// # Errors
    /// The mark could not be removed; it goes all the same, unless its owner dies before.
    pub fn unretain(&mut self) -> io::Result<()> {
        self.claimed.unretain()
    }

    /// Ends it and removes its directory, unless it is to be retained. Dropping does the same, without saying
    /// what failed.
    ///
    /// # Errors
    /// Something could not be removed; it will be swept at the next start.
    pub fn close(self) -> io::Result<()> {
        let Sandbox { made, mut claimed, .. } = self;
        drop(made);
        claimed.remove()
    }
}
