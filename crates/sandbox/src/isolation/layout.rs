//! The layout of a command's file system: the steps that build it.
//!
//! # Invariants
//! 1. Steps are in the order of their depth, so that no later step covers an earlier one. A project below
//!    `/tmp` comes after the private `/tmp`, and a hidden directory inside a project comes after the project.
//! 2. At the same path a project wins over everything, and hiding wins over the rest.
//! 3. Of the user's home only named paths are seen, and hidden ones not even if they are named.
//! 4. All paths are real ones, without links, as they were before anything was mounted.
//!
//! # Not here
//! Doing it: the siblings `mounts` and `bubblewrap`.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::control::ChildOrder;
use super::own_network;
use crate::view::BorrowedDir;

/// The private directory for temporary files, unless a project is there.
const TMP: &str = "/tmp";
/// The private directory for temporary files if a project is at [`TMP`].
const TMP_ELSEWHERE: &str = "/dev/shm";
/// Paths below `/run` that some systems need.
const RUN_KEPT: [&str; 2] = ["/run/current-system", "/run/booted-system"];

/// Files in which the kernel describes the machine, its hardware and its other users; no program needs them.
const MASKED: [&str; 36] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/mtrr",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/vmallocinfo",
    "/sys/devices/virtual/dmi",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/fs/cgroup",
    "/sys/fs/pstore",
    "/sys/hypervisor",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
    "/sys/power",
];

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LayoutStep {
    pub(super) at: PathBuf,
    pub(super) what: MountContent,
}

impl LayoutStep {
    pub(super) fn depth(&self) -> usize {
        self.at.components().count()
    }

    /// Returns true if it shows something from outside read-only.
    pub(super) fn is_shown_tree(&self) -> bool {
        matches!(self.what, MountContent::Tree { writable: false, .. })
    }

    /// Returns true if it decides what is below its path.
    pub(super) fn covers(&self) -> bool {
        match self.what {
            MountContent::Link { .. } => false,
            MountContent::Private
            | MountContent::Processes
            | MountContent::Devices
            | MountContent::Scratch
            | MountContent::Tree { .. }
            | MountContent::Root { .. }
            | MountContent::Text { .. }
            | MountContent::Hidden => true,
            // It is within what another step puts in place, or within the machine's own.
            MountContent::Masked => false,
        }
    }
}

/// The content that is put at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MountContent {
    /// An empty directory that may be written and is thrown away.
    Private,
    /// The processes that the command may see.
    Processes,
    /// The devices that every program needs.
    Devices,
    /// A directory whose changes are thrown away.
    Scratch,
    /// A tree or a file from outside, writable or not.
    Tree { source: PathBuf, writable: bool },
    /// A file with this text.
    Text { text: String },
    /// A link that is made for the command.
    Link { target: PathBuf },
    /// The tree of a project: which.
    Root { index: usize },
    /// Nothing to be seen.
    Hidden,
    /// The same for files in which the kernel describes the machine; no command sees them. They may be
    /// absent.
    Masked,
}

/// All steps and what follows from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MountLayout {
    pub(super) steps: Vec<LayoutStep>,
    /// The paths that may be written, for Landlock.
    pub(super) writable: Vec<PathBuf>,
    /// The paths that may be read, for Landlock: everything if mounts already cover the rest.
    pub(super) readable: Vec<PathBuf>,
    /// Paths that exist and cannot be seen.
    pub(super) hidden: Vec<PathBuf>,
    /// The private directory for temporary files.
    pub(super) tmp: PathBuf,
    /// The path of each project.
    pub(super) roots: Vec<PathBuf>,
    /// Notes about the parts of the order that cannot be had.
    pub(super) notes: Vec<String>,
    /// True if no socket of another program can be reached by a path, so that those of the command's own may
    /// be allowed.
    pub(super) sockets_sealed: bool,
}

impl MountLayout {
    /// The step that decides what is at a path: the deepest at it or above it.
    pub(super) fn above(&self, path: &Path) -> Option<&LayoutStep> {
        above(&self.steps, path)
    }
}

fn above<'a>(steps: &'a [LayoutStep], path: &Path) -> Option<&'a LayoutStep> {
    // Of equals the last one is taken, which is the one that is put there last.
    steps.iter().filter(|step| path.starts_with(&step.at)).max_by_key(|step| step.depth())
}

/// The layout for a command with a mount namespace of its own.
pub(super) fn build(order: &ChildOrder) -> Result<MountLayout, String> {
    let is_root = |path: &Path| order.roots.iter().any(|root| root.path == path);
    if is_root(Path::new("/")) {
        return Err("a project at / cannot be isolated from the rest".to_owned());
    }
    let mut steps = fixed_steps(order);
    steps.retain(|step| !is_root(&step.at));
    let outside = |path: &PathBuf| !below_a_root(order, path);
    steps.extend(
        order
            .roots
            .iter()
            .flat_map(|root| &root.borrowed)
            .filter_map(borrowed_step)
            .filter(|step| outside(&step.at)),
    );
    let mut notes = Vec::new();
    let scratch: Vec<PathBuf> = existing(&order.scratch).collect();
    let writable: Vec<PathBuf> = existing(&order.writable).collect();
    if let Some(home) = covered_home(order, &mut notes) {
        steps.push(LayoutStep { at: home.clone(), what: MountContent::Private });
        steps.extend(shown_of_home(order, &home, &[&scratch[..], &writable].concat()));
    }
    steps
        .extend(scratch.into_iter().filter(outside).map(|at| LayoutStep { at, what: MountContent::Scratch }));
    steps.extend(writable.into_iter().filter(outside).map(|at| {
        let source = at.clone();
        LayoutStep { at, what: MountContent::Tree { source, writable: true } }
    }));
    let roots = order.roots.iter().enumerate();
    steps.extend(
        roots.map(|(index, root)| LayoutStep { at: root.path.clone(), what: MountContent::Root { index } }),
    );
    let hidden = existing(&order.hide).filter(|path| !is_root(path));
    steps.extend(hidden.map(|at| LayoutStep { at, what: MountContent::Hidden }));
    let masked = MASKED.iter().map(PathBuf::from).filter(|path| !below_a_root(order, path));
    steps.extend(masked.map(|at| LayoutStep { at, what: MountContent::Masked }));
    notes.extend(add_missing_scratch(order, &mut steps));
    // Stable: at the same depth, and so at the same path, the order of above.
    steps.sort_by_key(LayoutStep::depth);
    let tmp = PathBuf::from(if is_root(Path::new(TMP)) { TMP_ELSEWHERE } else { TMP });
    let writable = steps.iter().filter(|step| is_writable(order, step)).map(|step| step.at.clone()).collect();
    let roots = order.roots.iter().map(|root| root.path.clone()).collect();
    let hidden =
        steps.iter().filter(|step| step.what == MountContent::Hidden).map(|step| step.at.clone()).collect();
    Ok(MountLayout {
        steps,
        writable,
        readable: vec![PathBuf::from("/")],
        hidden,
        tmp,
        roots,
        notes,
        sockets_sealed: false,
    })
}

fn fixed_steps(order: &ChildOrder) -> Vec<LayoutStep> {
    let mut steps = vec![
        LayoutStep { at: "/proc".into(), what: MountContent::Processes },
        LayoutStep { at: "/dev".into(), what: MountContent::Devices },
        LayoutStep { at: "/dev/shm".into(), what: MountContent::Private },
    ];
    let private = [TMP, "/run"].into_iter().filter(|path| Path::new(path).is_dir());
    steps.extend(private.map(|path| LayoutStep { at: path.into(), what: MountContent::Private }));
    for kept in RUN_KEPT {
        if let Ok(target) = fs::read_link(kept) {
            steps.push(LayoutStep { at: kept.into(), what: MountContent::Link { target } });
        }
    }
    // If a service resolves names, the file that says so is below `/run`.
    if order.network
        && let Ok(at) = fs::canonicalize("/etc/resolv.conf")
    {
        if order.own_network {
            steps.push(LayoutStep { at, what: MountContent::Text { text: own_network::resolvers() } });
        } else if at.starts_with("/run") {
            let source = at.clone();
            steps.push(LayoutStep { at, what: MountContent::Tree { source, writable: false } });
        }
    }
    steps
}

/// Returns the step for a directory that a copy borrows, at its second place. `None` if it is gone; then it
/// is missing outside as well.
fn borrowed_step(borrowed: &BorrowedDir) -> Option<LayoutStep> {
    let (source, at) = (fs::canonicalize(&borrowed.from).ok()?, fs::canonicalize(&borrowed.at).ok()?);
    Some(LayoutStep { at, what: MountContent::Tree { source, writable: false } })
}

/// Adds the scratch directories that are not there, and returns a note for each that cannot be made. A mount
/// needs a place, and places are made only in directories of the command's own. The rest of the machine is
/// the user's.
fn add_missing_scratch(order: &ChildOrder, steps: &mut Vec<LayoutStep>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut known = HashMap::new();
    for at in order.scratch.iter().filter_map(|path| real_but_missing(path, &mut known)) {
        match above(steps, &at).map(|step| &step.what) {
            Some(MountContent::Private | MountContent::Hidden) => {
                steps.push(LayoutStep { at, what: MountContent::Private })
            }
            // The command can make it itself.
            Some(
                MountContent::Scratch | MountContent::Root { .. } | MountContent::Tree { writable: true, .. },
            ) => {}
            Some(
                MountContent::Tree { writable: false, .. }
                | MountContent::Processes
                | MountContent::Devices
                | MountContent::Text { .. }
                | MountContent::Link { .. }
                | MountContent::Masked,
            )
            | None => notes.push(format!("{} is not there, and cannot be made", at.display())),
        }
    }
    notes
}

/// Returns where a path that does not exist would be, without links. `known` has the directories that were
/// looked at before: most such paths are in the same one.
fn real_but_missing(path: &Path, known: &mut HashMap<PathBuf, Option<PathBuf>>) -> Option<PathBuf> {
    if !path.is_absolute() || fs::symlink_metadata(path).is_ok() {
        return None;
    }
    let mut real_of =
        |above: &Path| known.entry(above.to_owned()).or_insert_with(|| fs::canonicalize(above).ok()).clone();
    let (above, real) = path.ancestors().skip(1).find_map(|above| Some((above, real_of(above)?)))?;
    let rest = path.strip_prefix(above).ok()?;
    let plain = real.is_dir() && rest.components().all(|component| matches!(component, Component::Normal(_)));
    plain.then(|| real.join(rest))
}

/// The paths that are there, without links. A path that we cannot reach, the command cannot reach either.
fn existing(paths: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    // Of the paths that are hidden by default most are not there, and one look shows that.
    let there = paths.iter().filter(|path| fs::symlink_metadata(path).is_ok());
    there.filter_map(|path| fs::canonicalize(path).ok())
}

/// Such a path is writable as part of its project, and must not lead to the user's own files.
fn below_a_root(order: &ChildOrder, path: &Path) -> bool {
    order.roots.iter().any(|root| path.starts_with(&root.path))
}

fn is_writable(order: &ChildOrder, step: &LayoutStep) -> bool {
    match &step.what {
        MountContent::Private | MountContent::Devices | MountContent::Scratch => true,
        // The machine's settings are in there, and belong to root, with capabilities or without.
        MountContent::Processes => !rustix::process::geteuid().is_root(),
        MountContent::Tree { writable, .. } => *writable,
        MountContent::Root { index } => order.roots.get(*index).is_some_and(|root| root.writable),
        MountContent::Text { .. }
        | MountContent::Link { .. }
        | MountContent::Hidden
        | MountContent::Masked => false,
    }
}

/// The layout for a command that sees the file system as it is.
pub(super) fn without_mounts(order: &ChildOrder) -> MountLayout {
    const DEVICES: [&str; 6] =
        ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
    let tmp = order.tmp.clone().unwrap_or_else(|| TMP.into());
    let roots = order.roots.iter().filter(|root| root.writable).map(|root| root.source().clone());
    let outside = existing(&order.writable).filter(|path| !below_a_root(order, path));
    let mut writable: Vec<PathBuf> = roots.chain(outside).collect();
    writable.push(tmp.clone());
    writable.extend(DEVICES.map(PathBuf::from));
    let mut notes = Vec::new();
    let home = covered_home(order, &mut notes);
    let hidden: Vec<PathBuf> = existing(&order.hide).filter(|path| !is_a_root(order, path)).collect();
    let readable = readable(order, home.as_deref(), &hidden);
    let roots = order.roots.iter().map(|root| root.source().clone()).collect();
    MountLayout { writable, readable, hidden, tmp, roots, notes, ..MountLayout::default() }
}

fn is_a_root(order: &ChildOrder, path: &Path) -> bool {
    order.roots.iter().any(|root| root.path == path)
}

/// The home that is covered; none if there is none, if it is shown on purpose, or if it is no home of this
/// user's.
fn covered_home(order: &ChildOrder, notes: &mut Vec<String>) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let home = fs::canonicalize(order.home.as_ref()?).ok()?;
    let is_shown = existing(&order.show).any(|shown| home.starts_with(shown));
    if is_shown || below_a_root(order, &home) {
        return None;
    }
    let is_own = fs::metadata(&home).is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw());
    if !is_own || home == Path::new("/") {
        notes.push(format!("the home {} belongs to the system, and is not covered", home.display()));
        return None;
    }
    Some(home)
}

/// Returns the visible parts of a covered home, read-only, and the links that lead to them. A directory that
/// may be written is seen anyway: `open` has them.
fn shown_of_home(order: &ChildOrder, home: &Path, open: &[PathBuf]) -> Vec<LayoutStep> {
    let is_open = |path: &Path| open.iter().any(|own| path.starts_with(own));
    let mut shown: Vec<PathBuf> = existing(&order.show)
        .filter(|path| path.starts_with(home) && !below_a_root(order, path) && !is_open(path))
        .collect();
    shown.sort();
    // A path below another is part of it.
    shown.dedup_by(|below, above| below.starts_with(above));
    let named = order.show.iter().chain(&order.scratch).chain(&order.writable);
    let mut links: Vec<(PathBuf, PathBuf)> = named.flat_map(|path| links_to(order, home, path)).collect();
    links.sort();
    links.dedup_by(|one, other| one.0 == other.0);
    links.retain(|(at, _)| {
        !is_open(at) && !below_a_root(order, at) && !shown.iter().any(|shown| at.starts_with(shown))
    });
    let links = links.into_iter().map(|(at, target)| LayoutStep { at, what: MountContent::Link { target } });
    let trees = shown.into_iter().map(|at| {
        let source = at.clone();
        LayoutStep { at, what: MountContent::Tree { source, writable: false } }
    });
    links.chain(trees).collect()
}

/// The links in the home that are passed on the way to a path, each with the place that it leads to.
fn links_to(order: &ChildOrder, home: &Path, path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let named = order.home.as_deref().unwrap_or(home);
    let Ok(below) = path.strip_prefix(named).or_else(|_| path.strip_prefix(home)) else { return Vec::new() };
    let (mut links, mut at) = (Vec::new(), home.to_owned());
    for name in below.components() {
        at.push(name);
        let Ok(found) = fs::symlink_metadata(&at) else { break };
        if !found.is_symlink() {
            continue;
        }
        let Ok(target) = fs::canonicalize(&at) else { break };
        if at.starts_with(home) {
            links.push((at, target.clone()));
        }
        at = target;
    }
    links
}

/// Returns the paths that a command may read if it sees the file system as it is. First everything but the
/// home and the hidden paths, then the named paths of the home, the projects, and the writable paths.
fn readable(order: &ChildOrder, home: Option<&Path>, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut readable = Vec::new();
    let holes: Vec<PathBuf> = home.map(Path::to_owned).into_iter().chain(hidden.iter().cloned()).collect();
    add_readable(Path::new("/"), &holes, &mut readable);
    // Of a project the copy is seen, at a place of its own.
    for root in &order.roots {
        let in_copy = hidden.iter().filter_map(|path| path.strip_prefix(&root.path).ok());
        let holes: Vec<PathBuf> = in_copy.map(|way| root.source().join(way)).collect();
        add_readable(root.source(), &holes, &mut readable);
    }
    let roots = order.roots.iter().map(|root| root.path.clone());
    let borrowed = order.roots.iter().flat_map(|root| &root.borrowed).map(|borrowed| borrowed.from.clone());
    let of_home = existing(&order.show).chain(existing(&order.scratch));
    for path in of_home.chain(roots).chain(borrowed) {
        let holes: Vec<PathBuf> = hidden.iter().filter(|hole| hole.starts_with(&path)).cloned().collect();
        add_readable(&path, &holes, &mut readable);
    }
    readable
}

/// Adds a path, or, if something in it is left out, what else is in it. Links are left out: what they lead to
/// counts.
fn add_readable(path: &Path, holes: &[PathBuf], readable: &mut Vec<PathBuf>) {
    if holes.iter().any(|hole| path.starts_with(hole)) {
        return;
    }
    if !holes.iter().any(|hole| hole.starts_with(path)) {
        readable.push(path.to_owned());
        return;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink())) {
        add_readable(&entry.path(), holes, readable);
    }
}

#[cfg(test)]
mod tests {
    use super::super::IsolationBackend;
    use super::super::control::OrderRoot;
    use super::*;

    fn order(roots: &[&Path], writable: &[PathBuf], hide: &[PathBuf], scratch: &[PathBuf]) -> ChildOrder {
        let roots = roots.iter().map(|path| OrderRoot {
            path: path.into(),
            copy: None,
            borrowed: Vec::new(),
            writable: true,
        });
        ChildOrder {
            rung: IsolationBackend::Namespaces,
            argv: Vec::new(),
            env: Vec::new(),
            cwd: None,
            roots: roots.collect(),
            timeout_ms: None,
            grace_ms: 0,
            network: false,
            own_network: false,
            loopback_ports: Vec::new(),
            openings: Default::default(),
            bounds: Default::default(),
            writable: writable.to_vec(),
            hide: hide.to_vec(),
            home: None,
            show: Vec::new(),
            scratch: scratch.to_vec(),
            tmp: None,
            user_namespace: false,
            mount_namespace: false,
            open_files: None,
        }
    }

    fn places(layout: &MountLayout) -> Vec<&Path> {
        layout.steps.iter().map(|step| step.at.as_path()).collect()
    }

    #[test]
    fn what_lies_deeper_is_put_in_place_later() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = dir.path().canonicalize().unwrap().join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let (data, project, kept) = (at("data"), at("data/project"), at("data/project-files"));
        let secret = at("data/project/.ssh");
        let layout =
            build(&order(&[&project], std::slice::from_ref(&kept), &[secret.clone(), data.clone()], &[]))
                .unwrap();
        let places = places(&layout);
        let order_of = |path: &Path| places.iter().position(|place| *place == path).unwrap();
        let wanted = [Path::new("/tmp"), &data, &kept, &project, &secret];
        assert!(wanted.windows(2).all(|pair| order_of(pair[0]) < order_of(pair[1])), "{places:?}");
        assert!(layout.writable.contains(&project) && layout.writable.contains(&kept));
        assert!(!layout.writable.contains(&data) && !layout.writable.contains(&secret));
    }

    #[test]
    fn what_lies_in_a_project_is_the_projects_own() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().canonicalize().unwrap();
        let inside = project.join("target");
        fs::create_dir(&inside).unwrap();
        let inside = [inside];
        let layout = build(&order(&[&project], &inside, &[], &inside)).unwrap();
        assert!(!places(&layout).contains(&inside[0].as_path()), "{layout:?}");
    }

    #[test]
    fn a_project_at_a_hidden_or_private_path_is_to_be_seen() {
        let tmp = Path::new("/tmp");
        let layout = build(&order(&[tmp], &[], &[tmp.into()], &[])).unwrap();
        let at_tmp: Vec<&MountContent> =
            layout.steps.iter().filter(|step| step.at == tmp).map(|step| &step.what).collect();
        assert_eq!(at_tmp, [&MountContent::Root { index: 0 }]);
        assert_eq!(layout.tmp, Path::new(TMP_ELSEWHERE));
        assert!(build(&order(&[Path::new("/")], &[], &[], &[])).is_err());
    }
}
