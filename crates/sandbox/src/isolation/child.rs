//! The `__run` child: receives its order and enters its backend.
//!
//! # Invariants
//! 1. It has one thread, from beginning to end: namespaces can only be entered so.
//! 2. Of its inherited descriptors it retains only the socket, which is closed on exec.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::exit;

use rustix::process::Signal;

use super::control::{self, ChildOrder, ChildReport, DeliveredOrder, StartFailure};
use super::reaper::{self, Kind, StartNotes};
use super::{IsolationBackend, bubblewrap, exec, holder, layout, namespaces};

/// The note if sockets of other programs cannot be separated from the command's own.
pub(super) const UNIX_SOCKETS_REFUSED: &str =
    "UNIX sockets are refused: those of other programs could be reached (`--unix-sockets` allows them)";

/// The body of the child that bubblewrap started, by its arguments.
pub fn child_run() -> ! {
    let arguments: Vec<_> = std::env::args_os().skip(2).collect();
    bubblewrap::run_inside(&arguments)
}

/// The body of a child that the starter forked: waits for its order on the socket.
pub(crate) fn child_run_order(control: OwnedFd) -> ! {
    match DeliveredOrder::receive(&control) {
        Ok(Some(delivered)) => run(delivered, control),
        Ok(None) => exit(1),
        Err(error) => fail(&control, error.to_string()),
    }
}

/// Makes the socket that is our standard input a private descriptor, and closes what else there may be.
pub(crate) fn take_over() -> io::Result<OwnedFd> {
    const FIRST_OF_OURS: i32 = 3;
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_OF_OURS)?;
    close_from(FIRST_OF_OURS, control.as_raw_fd() - 1)?;
    close_from(control.as_raw_fd() + 1, i32::MAX)?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(nothing)?;
    // A terminal's signals are for the user's programs in front, not for us. Fails for one that leads
    // already.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    Ok(control)
}

fn close_from(first: i32, last: i32) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: this is the beginning of the process: no code owns a descriptor yet but the one that is left
    // out.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn run(delivered: DeliveredOrder, control: OwnedFd) -> ! {
    match delivered.order.rung {
        IsolationBackend::Namespaces => namespaces::run(delivered, control),
        IsolationBackend::Bubblewrap => bubblewrap::run(delivered, control),
        IsolationBackend::Landlock | IsolationBackend::None => run_as_it_is(delivered, control),
    }
}

/// Runs the command in the file system as it is, below a subreaper.
fn run_as_it_is(delivered: DeliveredOrder, control: OwnedFd) -> ! {
    if let Err(why) = namespaces::enter(&delivered) {
        fail(&control, why);
    }
    let (delivered, control) = match holder::fork_holder(Signal::TERM, (delivered, control)) {
        Ok(inside) => inside,
        Err(((_, control), error)) => fail_with(&control, error.into()),
    };
    if let Err(why) = become_reaper(&control) {
        fail(&control, why);
    }
    let DeliveredOrder { order, stdio, user_namespace, mount_namespace, trees } = delivered;
    drop((user_namespace, mount_namespace, trees));
    let layout = layout::without_mounts(&order);
    let told = match order.rung {
        IsolationBackend::Landlock => {
            let hidden = layout.hidden.iter().map(|path| path.display().to_string()).collect();
            StartNotes { hidden, notes: layout.notes.iter().cloned().chain(notes(&order)).collect() }
        }
        IsolationBackend::Namespaces | IsolationBackend::Bubblewrap | IsolationBackend::None => {
            StartNotes { hidden: Vec::new(), notes: notes(&order) }
        }
    };
    let (asks, answers) = match order.rung {
        IsolationBackend::Landlock => match control::pair() {
            Ok((asks, answers)) => (Some(asks), Some((answers, layout.writable.clone()))),
            Err(error) => fail(&control, error.to_string()),
        },
        IsolationBackend::Namespaces | IsolationBackend::Bubblewrap | IsolationBackend::None => (None, None),
    };
    let (order_now, layout_now) = (&order, &layout);
    let start = move |tell: std::os::fd::BorrowedFd<'_>| {
        let _ = rustix::io::write(tell, exec::HELLO);
        exec::become_command(order_now, layout_now, stdio, asks.as_ref())
    };
    reaper::hold(Kind::Descendants, control, &order, told, answers, start, || {
        "the command did not begin".to_owned()
    })
}

/// Returns notes about the parts of the order that a file system as it is cannot give.
fn notes(order: &ChildOrder) -> Vec<String> {
    let is_bare = order.rung == IsolationBackend::None;
    let hide = order.hide.iter().filter(|path| is_bare && path.exists());
    let mut notes: Vec<String> = hide.map(|path| format!("{} is not hidden", path.display())).collect();
    notes.extend(
        order.home.iter().filter(|_| is_bare).map(|home| format!("{} is not covered", home.display())),
    );
    let scratch = order.scratch.iter().filter(|path| path.exists());
    notes.extend(scratch.map(|path| format!("{} stays read-only", path.display())));
    if order.rung == IsolationBackend::Landlock && !order.openings.unix_sockets {
        notes.push(UNIX_SOCKETS_REFUSED.to_owned());
    }
    if order.rung == IsolationBackend::Landlock {
        notes.push("extended attributes of files cannot be changed".to_owned());
        if rustix::process::geteuid().is_root() {
            notes.push("what only root can read can be read".to_owned());
        }
    }
    notes
}

/// Makes whatever loses its parent below this process its child.
pub(super) fn become_reaper(control: &OwnedFd) -> Result<(), String> {
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).map_err(|errno| format!("subreaper: {errno}"))?;
    reaper::introduce(control).map_err(|error| format!("pidfd: {error}"))
}

/// Reports why the backend does not work, and ends.
pub(super) fn fail(control: &OwnedFd, why: String) -> ! {
    fail_with(control, StartFailure::Rung(why))
}

/// Reports the failure, and ends.
pub(super) fn fail_with(control: &OwnedFd, failure: StartFailure) -> ! {
    control::report(control, &ChildReport::Failed(failure), &[]);
    exit(1)
}
