//! The backend `bubblewrap`: the same file system by the flags of `bwrap`, where only that may make user
//! namespaces.
//!
//! We stay outside as a subreaper. Inside, bubblewrap runs our own program once more, which raises the
//! remaining walls and becomes the command. It reports that over an inherited pipe. If it reports nothing,
//! bubblewrap failed, and its output is the reason.
//!
//! # Invariants
//! 1. bubblewrap dies with us (`--die-with-parent`: our process has one thread, so it is not fooled by one
//!    that ends), and its processes with it.
//! 2. The output of bubblewrap itself never gets into the command's output.
//!
//! # Not here
//! Scratch directories: older versions cannot do them, so they stay read-only and are noted.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

use rustix::io::FdFlags;
use rustix::process::Signal;

use super::child::{UNIX_SOCKETS_REFUSED, become_reaper, fail, fail_with};
use super::control::{ChildOrder, DeliveredOrder, StartFailure, file_of};
use super::layout::{self, MountContent, MountLayout};
use super::reaper::{self, Kind, StartNotes};
use super::{RUN_VERB, exec, holder};

/// The path of our own program inside.
const INSIDE: &str = "/run/agents-run";
/// The program.
const BWRAP: &str = "bwrap";

/// Runs the command.
pub(super) fn run(delivered: DeliveredOrder, control: OwnedFd) -> ! {
    let (delivered, control) = match holder::fork_holder(Signal::TERM, (delivered, control)) {
        Ok(inside) => inside,
        Err(((_, control), error)) => fail_with(&control, error.into()),
    };
    let prepared = prepare(&delivered).and_then(|prepared| become_reaper(&control).map(|()| prepared));
    let (bwrap, layout, complaints) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => fail(&control, why),
    };
    let DeliveredOrder { order, stdio, trees, .. } = delivered;
    drop(trees);
    let told = start_notes(&order, &layout);
    let printed = complaints.try_clone();
    let start = |tell: BorrowedFd<'_>| match wrap(&bwrap, &order, &layout, &stdio, tell, &complaints) {
        Ok(mut command) => StartFailure::Rung(format!("bwrap: {}", command.exec())),
        Err(error) => StartFailure::Rung(format!("bwrap: {error}")),
    };
    reaper::hold(Kind::Wrapped, control, &order, told, None, start, || {
        printed.map_or_else(|e| e.to_string(), read)
    })
}

fn prepare(delivered: &DeliveredOrder) -> Result<(PathBuf, MountLayout, OwnedFd), String> {
    if delivered.mount_namespace.is_some() || delivered.user_namespace.is_some() {
        return Err("the sandbox is a namespace of our own, which bwrap cannot enter".to_owned());
    }
    let bwrap = find(delivered.order.env.iter()).ok_or("bwrap is not there")?;
    let layout = layout::build(&delivered.order)?;
    let complaints = file_of("bwrap-output", b"").map_err(|error| error.to_string())?;
    Ok((bwrap, layout, complaints))
}

/// Looks for it where commands are looked for, then where it usually is.
fn find<'a>(mut env: impl Iterator<Item = &'a (OsString, OsString)>) -> Option<PathBuf> {
    let path = env.find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let usual = ["/usr/bin", "/usr/local/bin", "/bin"].map(PathBuf::from);
    let places = path.iter().flat_map(std::env::split_paths).chain(usual);
    places.filter(|place| place.is_absolute()).map(|place| place.join(BWRAP)).find(|file| file.is_file())
}

fn start_notes(order: &ChildOrder, layout: &MountLayout) -> StartNotes {
    let at = |wanted: MountContent| {
        layout.steps.iter().filter(move |step| step.what == wanted).map(|step| step.at.display().to_string())
    };
    let notes = at(MountContent::Scratch).map(|path| format!("{path} stays read-only: bubblewrap"));
    let refused = (!order.openings.unix_sockets).then(|| UNIX_SOCKETS_REFUSED.to_owned());
    let notes = notes.chain(layout.notes.iter().cloned()).chain(refused);
    StartNotes { hidden: at(MountContent::Hidden).collect(), notes: notes.collect() }
}

fn read(printed: OwnedFd) -> String {
    let mut text = String::new();
    let mut file = File::from(printed);
    match file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_string(&mut text)) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        Ok(_) => "bwrap ended without a word".to_owned(),
        Err(error) => format!("bwrap failed, and what it said is not to be read: {error}"),
    }
}

fn wrap(
    bwrap: &Path,
    order: &ChildOrder,
    layout: &MountLayout,
    stdio: &[OwnedFd; 3],
    tell: BorrowedFd<'_>,
    complaints: &OwnedFd,
) -> io::Result<Command> {
    let text = file_of("agents-order", &serde_json::to_vec(order)?)?;
    let inherited = [text.as_fd(), tell, stdio[0].as_fd(), stdio[1].as_fd(), stdio[2].as_fd()];
    let mut command = Command::new(bwrap);
    command.env_clear().stdin(std::process::Stdio::null());
    command.stdout(complaints.try_clone()?).stderr(complaints.try_clone()?);
    command.args(arguments(order, layout, &std::fs::read_link("/proc/self/exe")?));
    command.arg("--").arg(INSIDE).arg(RUN_VERB);
    for fd in inherited {
        rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
        command.arg(fd.as_raw_fd().to_string());
    }
    // It lives on as the number in the arguments; the process is replaced.
    std::mem::forget(text);
    Ok(command)
}

fn arguments(order: &ChildOrder, layout: &MountLayout, own: &Path) -> Vec<OsString> {
    let mut arguments = Vec::<OsString>::new();
    let mut add = |parts: &[&OsStr]| arguments.extend(parts.iter().map(|part| part.to_os_string()));
    let flag = OsStr::new;
    add(&["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"].map(flag));
    add(&["--cap-drop", "ALL", "--ro-bind", "/", "/"].map(flag));
    if !order.network {
        add(&[flag("--unshare-net")]);
    }
    let mut read_only_later = Vec::new();
    for step in &layout.steps {
        let at = step.at.as_os_str();
        match &step.what {
            MountContent::Private => add(&[flag("--tmpfs"), at]),
            MountContent::Processes => {
                add(&[flag("--proc"), at]);
                if rustix::process::geteuid().is_root() {
                    read_only_later.push(at);
                }
            }
            MountContent::Devices => add(&[flag("--dev"), at]),
            MountContent::Link { target } => add(&[flag("--symlink"), target.as_os_str(), at]),
            MountContent::Tree { source, writable } => add(&[bind(*writable), source.as_os_str(), at]),
            MountContent::Root { index } => {
                if let Some(root) = order.roots.get(*index) {
                    add(&[bind(root.writable), root.source().as_os_str(), at]);
                }
            }
            MountContent::Masked if !step.at.exists() => {}
            MountContent::Hidden | MountContent::Masked if step.at.is_dir() => {
                add(&[flag("--tmpfs"), at]);
                read_only_later.push(at);
            }
            MountContent::Hidden | MountContent::Masked => add(&[flag("--ro-bind"), flag("/dev/null"), at]),
            // It makes no network of its own, for which alone there are texts.
            MountContent::Scratch | MountContent::Text { .. } => {}
        }
    }
    add(&[flag("--ro-bind"), own.as_os_str(), flag(INSIDE)]);
    for at in read_only_later {
        add(&[flag("--remount-ro"), at]);
    }
    arguments
}

fn bind(writable: bool) -> &'static OsStr {
    OsStr::new(if writable { "--bind" } else { "--ro-bind" })
}

/// Our program, started by bubblewrap: the arguments are the numbers of what it inherited.
pub(super) fn run_inside(arguments: &[OsString]) -> ! {
    let Some([text, tell, stdin, stdout, stderr]) = take_over(arguments) else { exit(1) };
    let _ = rustix::io::write(&tell, exec::HELLO);
    let failure = match ChildOrder::read(text) {
        Ok(order) => match layout::build(&order) {
            Ok(layout) => exec::become_command(&order, &layout, [stdin, stdout, stderr], None),
            Err(why) => StartFailure::Rung(why),
        },
        Err(error) => StartFailure::Rung(error.to_string()),
    };
    reaper::report_failure(&tell, &failure)
}

fn take_over(arguments: &[OsString]) -> Option<[OwnedFd; 5]> {
    let numbers = arguments.iter().map(|argument| argument.to_str()?.parse::<RawFd>().ok());
    let fds = numbers.collect::<Option<Vec<RawFd>>>()?.into_iter().map(|number| {
        // SAFETY: the numbers are those that `wrap` passed on, each once, and nothing else has taken them
        // over.
        unsafe { OwnedFd::from_raw_fd(number) }
    });
    let fds: [OwnedFd; 5] = fds.collect::<Vec<_>>().try_into().ok()?;
    for fd in &fds {
        rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC).ok()?;
    }
    Some(fds)
}
