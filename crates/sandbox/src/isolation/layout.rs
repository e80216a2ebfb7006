//! What lies where for a command: the steps by which its file system is put together.
//!
//! # Invariants
//! 1. Steps are in the order of their depth, so that nothing is covered by what comes later: a project below `/tmp`
//!    comes after the private `/tmp`, a hidden directory inside a project comes after the project.
//! 2. At the same path a project wins over everything, and hiding wins over the rest.
//! 3. Of the user's home nothing is seen but what is named, and what is hidden not even then.
//! 4. All paths are real ones, without links, as they were before anything was mounted.
//!
//! # Not here
//! Doing it: the siblings `mounts` and `bubblewrap`.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::control::Order;
use super::own_network;
use crate::view::Borrowed;

/// Where the private directory for temporary files is, unless a project is there.
const TMP: &str = "/tmp";
/// Where else it can be.
const TMP_ELSEWHERE: &str = "/dev/shm";
/// What some systems keep below `/run` and cannot do without.
const RUN_KEPT: [&str; 2] = ["/run/current-system", "/run/booted-system"];

/// What the kernel tells of the machine, its hardware and its other users, and no program needs to work.
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
pub(super) struct Step {
    pub(super) at: PathBuf,
    pub(super) what: What,
}

impl Step {
    fn depth(&self) -> usize {
        self.at.components().count()
    }

    /// Whether it shows something from outside read-only.
    pub(super) fn is_shown_tree(&self) -> bool {
        matches!(self.what, What::Tree { writable: false, .. })
    }

    /// Whether it decides what is below its path.
    pub(super) fn covers(&self) -> bool {
        match self.what {
            What::Link { .. } => false,
            What::Private
            | What::Processes
            | What::Devices
            | What::Scratch
            | What::Tree { .. }
            | What::Root { .. }
            | What::Text { .. }
            | What::Hidden => true,
            // It is within what another step puts in place, or within the machine's own.
            What::Masked => false,
        }
    }
}

/// What is put at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
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
    /// A link, made anew.
    Link { target: PathBuf },
    /// The tree of a project: which.
    Root { index: usize },
    /// Nothing to be seen.
    Hidden,
    /// The same for what the kernel says of the machine, which no command is told of.
    Masked,
}

/// All steps and what follows from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) steps: Vec<Step>,
    /// What may be written, for Landlock.
    pub(super) writable: Vec<PathBuf>,
    /// What may be read, for Landlock: everything, where mounts already cover the rest.
    pub(super) readable: Vec<PathBuf>,
    /// What is there and cannot be seen.
    pub(super) hidden: Vec<PathBuf>,
    /// The private directory for temporary files.
    pub(super) tmp: PathBuf,
    /// Where each project is.
    pub(super) roots: Vec<PathBuf>,
    /// What cannot be had as asked, in words.
    pub(super) notes: Vec<String>,
    /// Whether no socket of another program can be reached by a path, so that those of the command's own may be allowed.
    pub(super) sockets_sealed: bool,
}

impl Layout {
    /// The step that decides what is at a path: the deepest at it or above it.
    pub(super) fn above(&self, path: &Path) -> Option<&Step> {
        above(&self.steps, path)
    }
}

fn above<'a>(steps: &'a [Step], path: &Path) -> Option<&'a Step> {
    // Of equals the last one is taken, which is the one that is put there last.
    steps.iter().filter(|step| path.starts_with(&step.at)).max_by_key(|step| step.depth())
}

/// The layout for a command with a mount namespace of its own.
pub(super) fn of(order: &Order) -> Result<Layout, String> {
    let is_root = |path: &Path| order.roots.iter().any(|root| root.path == path);
    if is_root(Path::new("/")) {
        return Err("a project at / cannot be kept apart from the rest".to_owned());
    }
    let mut steps = fixed_steps(order);
    steps.retain(|step| !is_root(&step.at));
    let outside = |path: &PathBuf| !below_a_root(order, path);
    steps.extend(
        order.roots.iter().flat_map(|root| &root.borrowed).filter_map(lent).filter(|step| outside(&step.at)),
    );
    let mut notes = Vec::new();
    if let Some(home) = covered_home(order, &mut notes) {
        steps.push(Step { at: home.clone(), what: What::Private });
        steps.extend(shown_of_home(order, &home));
    }
    steps.extend(existing(&order.scratch).filter(outside).map(|at| Step { at, what: What::Scratch }));
    steps.extend(existing(&order.writable).filter(outside).map(|at| {
        let source = at.clone();
        Step { at, what: What::Tree { source, writable: true } }
    }));
    let roots = order.roots.iter().enumerate();
    steps.extend(roots.map(|(index, root)| Step { at: root.path.clone(), what: What::Root { index } }));
    let hidden = existing(&order.hide).filter(|path| !is_root(path));
    steps.extend(hidden.map(|at| Step { at, what: What::Hidden }));
    let masked = MASKED.iter().map(PathBuf::from).filter(|path| path.exists() && !below_a_root(order, path));
    steps.extend(masked.map(|at| Step { at, what: What::Masked }));
    notes.extend(add_missing_scratch(order, &mut steps));
    // Stable: at the same depth, and so at the same path, the order of above.
    steps.sort_by_key(Step::depth);
    let tmp = PathBuf::from(if is_root(Path::new(TMP)) { TMP_ELSEWHERE } else { TMP });
    let writable = steps.iter().filter(|step| is_writable(order, step)).map(|step| step.at.clone()).collect();
    let roots = order.roots.iter().map(|root| root.path.clone()).collect();
    let hidden = steps.iter().filter(|step| step.what == What::Hidden).map(|step| step.at.clone()).collect();
    Ok(Layout {
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

fn fixed_steps(order: &Order) -> Vec<Step> {
    let mut steps = vec![
        Step { at: "/proc".into(), what: What::Processes },
        Step { at: "/dev".into(), what: What::Devices },
        Step { at: "/dev/shm".into(), what: What::Private },
    ];
    let private = [TMP, "/run"].into_iter().filter(|path| Path::new(path).is_dir());
    steps.extend(private.map(|path| Step { at: path.into(), what: What::Private }));
    for kept in RUN_KEPT {
        if let Ok(target) = fs::read_link(kept) {
            steps.push(Step { at: kept.into(), what: What::Link { target } });
        }
    }
    // Where names are resolved by a service, the file that says so lies below `/run`.
    if order.network
        && let Ok(at) = fs::canonicalize("/etc/resolv.conf")
    {
        if order.own_network {
            steps.push(Step { at, what: What::Text { text: own_network::resolvers() } });
        } else if at.starts_with("/run") {
            let source = at.clone();
            steps.push(Step { at, what: What::Tree { source, writable: false } });
        }
    }
    steps
}

/// What a copy borrows, at its second place. What is not there any more is missing outside as well.
fn lent(borrowed: &Borrowed) -> Option<Step> {
    let (source, at) = (fs::canonicalize(&borrowed.from).ok()?, fs::canonicalize(&borrowed.at).ok()?);
    Some(Step { at, what: What::Tree { source, writable: false } })
}

/// Adds the scratch directories that are not there, and tells which cannot be made: a mount needs a place, and places are
/// made in directories of the command's own only. The rest of the machine is the user's.
fn add_missing_scratch(order: &Order, steps: &mut Vec<Step>) -> Vec<String> {
    let mut notes = Vec::new();
    for at in order.scratch.iter().filter_map(|path| real_but_missing(path)) {
        match above(steps, &at).map(|step| &step.what) {
            Some(What::Private | What::Hidden) => steps.push(Step { at, what: What::Private }),
            // The command can make it itself.
            Some(What::Scratch | What::Root { .. } | What::Tree { writable: true, .. }) => {}
            Some(
                What::Tree { writable: false, .. }
                | What::Processes
                | What::Devices
                | What::Text { .. }
                | What::Link { .. }
                | What::Masked,
            )
            | None => notes.push(format!("{} is not there, and cannot be made", at.display())),
        }
    }
    notes
}

/// Where a path that is not there would be, without links.
fn real_but_missing(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() || fs::symlink_metadata(path).is_ok() {
        return None;
    }
    let (above, real) = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)))?;
    let rest = path.strip_prefix(above).ok()?;
    let plain = real.is_dir() && rest.components().all(|component| matches!(component, Component::Normal(_)));
    plain.then(|| real.join(rest))
}

/// The paths that are there, without links. What cannot be reached, the command cannot reach either.
fn existing(paths: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    // Of the paths that are hidden by default most are not there, and one look tells that.
    let there = paths.iter().filter(|path| fs::symlink_metadata(path).is_ok());
    there.filter_map(|path| fs::canonicalize(path).ok())
}

/// Such a path is writable as part of its project, and must not lead to the user's own files.
fn below_a_root(order: &Order, path: &Path) -> bool {
    order.roots.iter().any(|root| path.starts_with(&root.path))
}

fn is_writable(order: &Order, step: &Step) -> bool {
    match &step.what {
        What::Private | What::Devices | What::Scratch => true,
        // The machine's settings are in there, and belong to root, with capabilities or without.
        What::Processes => !rustix::process::geteuid().is_root(),
        What::Tree { writable, .. } => *writable,
        What::Root { index } => order.roots.get(*index).is_some_and(|root| root.writable),
        What::Text { .. } | What::Link { .. } | What::Hidden | What::Masked => false,
    }
}

/// The layout for a command that sees the file system as it is.
pub(super) fn without_mounts(order: &Order) -> Layout {
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
    Layout { writable, readable, hidden, tmp, roots, notes, ..Layout::default() }
}

fn is_a_root(order: &Order, path: &Path) -> bool {
    order.roots.iter().any(|root| root.path == path)
}

/// The home that is covered; none if there is none, if it is shown on purpose, or if it is no home of this user's.
fn covered_home(order: &Order, notes: &mut Vec<String>) -> Option<PathBuf> {
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

/// What is seen of a covered home, read-only, and the links that lead to what is named. A directory that may be written
/// is seen anyway.
fn shown_of_home(order: &Order, home: &Path) -> Vec<Step> {
    let open: Vec<PathBuf> = existing(&order.scratch).chain(existing(&order.writable)).collect();
    let is_open = |path: &Path| open.iter().any(|own| path.starts_with(own));
    let mut shown: Vec<PathBuf> = existing(&order.show)
        .filter(|path| path.starts_with(home) && !below_a_root(order, path) && !is_open(path))
        .collect();
    shown.sort();
    // What is below is part of what is above.
    shown.dedup_by(|below, above| below.starts_with(above));
    let named = order.show.iter().chain(&order.scratch).chain(&order.writable);
    let mut links: Vec<(PathBuf, PathBuf)> = named.flat_map(|path| links_to(order, home, path)).collect();
    links.sort();
    links.dedup_by(|one, other| one.0 == other.0);
    links.retain(|(at, _)| {
        !is_open(at) && !below_a_root(order, at) && !shown.iter().any(|shown| at.starts_with(shown))
    });
    let links = links.into_iter().map(|(at, target)| Step { at, what: What::Link { target } });
    let trees = shown.into_iter().map(|at| {
        let source = at.clone();
        Step { at, what: What::Tree { source, writable: false } }
    });
    links.chain(trees).collect()
}

/// The links in the home that are passed on the way to a path, each with the place that it leads to.
fn links_to(order: &Order, home: &Path, path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let named = order.home.as_deref().unwrap_or(home);
    let Ok(below) = path.strip_prefix(named).or_else(|_| path.strip_prefix(home)) else { return Vec::new() };
    let (mut links, mut at) = (Vec::new(), home.to_owned());
    for name in below.components() {
        at.push(name);
        let is_link = fs::symlink_metadata(&at).is_ok_and(|found| found.is_symlink());
        if !is_link {
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

/// What a command may read that sees the file system as it is: everything but the home and what is hidden, then what is
/// named of the home, the projects, and what it may write.
fn readable(order: &Order, home: Option<&Path>, hidden: &[PathBuf]) -> Vec<PathBuf> {
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

/// Adds a path, or, if something in it is left out, what else is in it. Links are left out: what they lead to counts.
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
    use super::super::IsolationRung;
    use super::super::control::OrderRoot;
    use super::*;

    fn order(roots: &[&Path], writable: &[PathBuf], hide: &[PathBuf], scratch: &[PathBuf]) -> Order {
        let roots = roots.iter().map(|path| OrderRoot {
            path: path.into(),
            copy: None,
            borrowed: Vec::new(),
            writable: true,
        });
        Order {
            rung: IsolationRung::Namespaces,
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

    fn places(layout: &Layout) -> Vec<&Path> {
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
            of(&order(&[&project], std::slice::from_ref(&kept), &[secret.clone(), data.clone()], &[]))
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
        let layout = of(&order(&[&project], &inside, &[], &inside)).unwrap();
        assert!(!places(&layout).contains(&inside[0].as_path()), "{layout:?}");
    }

    #[test]
    fn a_project_at_a_hidden_or_private_path_is_to_be_seen() {
        let tmp = Path::new("/tmp");
        let layout = of(&order(&[tmp], &[], &[tmp.into()], &[])).unwrap();
        let at_tmp: Vec<&What> =
            layout.steps.iter().filter(|step| step.at == tmp).map(|step| &step.what).collect();
        assert_eq!(at_tmp, [&What::Root { index: 0 }]);
        assert_eq!(layout.tmp, Path::new(TMP_ELSEWHERE));
        assert!(of(&order(&[Path::new("/")], &[], &[], &[])).is_err());
    }
}
