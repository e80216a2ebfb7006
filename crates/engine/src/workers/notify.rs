//! Notifications between the processes of one data directory: "look now". A lost one costs a poll, never a
//! job.
//!
//! Each worker, and each process that waits for one, has a datagram socket in `workers/`. A sender writes a
//! word to every socket that it concerns and waits for no answer.
//!
//! # Invariants
//! 1. The store is the truth: a notification says what to look at, and nothing is done because of a
//!    notification alone.
//! 2. Sending never blocks and never fails: a listener whose queue is full will look anyway.
//! 3. A socket is removed with its listener. One that a killed process left is removed by the first process
//!    that sends to it.
//!
//! # Not here
//! The list of live workers: `registry`.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{JobId, PlanId, WorkerId};
use tokio::sync::mpsc;

use super::registry::workers_dir;
use crate::engine::{Engine, EngineInner};

/// The socket of a worker that takes any plan.
const ANY: &str = ".sock";
/// The socket of a process that is concerned with one plan: a worker that serves it, or a process that waits
/// for it.
const ONE: &str = ".one.sock";
/// The socket of a process that looks at all plans and serves none.
const ALL: &str = ".all.sock";
/// Longer than any hint.
const HINT_BYTES_MAX: usize = 64;
/// The maximum number of hints that wait for the listener; the rest waits in the socket.
const HINTS_MAX: usize = 64;
const THREAD_STACK_BYTES: usize = 64 * 1024;

/// A notification: something to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notification {
    /// There may be a job to claim.
    Work,
    /// A cancel of this job is requested.
    Cancel(JobId),
    /// A job of this plan has come to an end, and left its slot.
    Ended(PlanId),
}

impl Notification {
    fn written(self) -> String {
        match self {
            Notification::Work => "work".to_owned(),
            Notification::Cancel(job) => format!("cancel {job}"),
            Notification::Ended(plan) => format!("ended {plan}"),
        }
    }

    fn read(text: &[u8]) -> Option<Notification> {
        let text = std::str::from_utf8(text).ok()?;
        match text.split_once(' ') {
            None => (text == "work").then_some(Notification::Work),
            Some(("cancel", job)) => Some(Notification::Cancel(job.parse().ok()?)),
            Some(("ended", plan)) => Some(Notification::Ended(plan.parse().ok()?)),
            Some(_) => None,
        }
    }
}

/// The kind of listener that a socket belongs to, or that a notification concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    /// Workers that take any plan.
    Any,
    /// Processes that are concerned with one plan.
    One,
    /// Processes that look at all plans.
    All,
}

impl ListenerKind {
    fn from_name(name: &str) -> Option<ListenerKind> {
        // In this order: the last ending is also that of the others.
        if name.ends_with(ONE) {
            return Some(ListenerKind::One);
        }
        if name.ends_with(ALL) {
            return Some(ListenerKind::All);
        }
        name.ends_with(ANY).then_some(ListenerKind::Any)
    }
}

/// Receives notifications until it is dropped.
#[derive(Debug)]
pub(crate) struct NotificationListener {
    socket: UnixDatagram,
    path: PathBuf,
    heard: mpsc::Receiver<Notification>,
}

impl NotificationListener {
    /// Begins to listen under the name of a worker, or one that is as good.
    ///
    /// # Errors
    /// The socket cannot be made, or no thread is left to listen.
    pub(crate) fn begin(data_dir: &Path, name: WorkerId, ear: ListenerKind) -> io::Result<Self> {
        let dir = workers_dir(data_dir);
        fs::create_dir_all(&dir)?;
        let name = match ear {
            ListenerKind::Any => format!("{name}{ANY}"),
            ListenerKind::One => format!("{name}{ONE}"),
            ListenerKind::All => format!("{name}{ALL}"),
        };
        let path = dir.join(&name);
        let socket = UnixDatagram::bind(socket_address(&File::open(&dir)?, &name))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let (sender, heard) = mpsc::channel(HINTS_MAX);
        let own = socket.try_clone()?;
        let thread = std::thread::Builder::new().name("agents-hints".to_owned());
        thread.stack_size(THREAD_STACK_BYTES).spawn(move || listen(&own, &sender))?;
        Ok(Self { socket, path, heard })
    }

    /// The next notification. Without a thread that listens none arrives any more, and this never completes.
    pub(crate) async fn next(&mut self) -> Notification {
        match self.heard.recv().await {
            Some(hint) => hint,
            None => std::future::pending().await,
        }
    }
}

impl Drop for NotificationListener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // Wakes the thread, which finds that nothing more can come.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

fn listen(socket: &UnixDatagram, heard: &mpsc::Sender<Notification>) {
    let mut text = [0; HINT_BYTES_MAX];
    loop {
        let length = match socket.recv(&mut text) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let hint = text.get(..length).and_then(Notification::read);
        if hint.is_some_and(|hint| heard.blocking_send(hint).is_err()) {
            return;
        }
    }
}

/// Sends a notification to all listeners that it concerns.
pub(crate) fn send(data_dir: &Path, to: &[ListenerKind], hint: Notification) {
    let dir = workers_dir(data_dir);
    let (Ok(files), Ok(open)) = (fs::read_dir(&dir), File::open(&dir)) else { return };
    let mut sender = None;
    for file in files.flatten() {
        let name = file.file_name();
        let Some(name) =
            name.to_str().filter(|name| ListenerKind::from_name(name).is_some_and(|ear| to.contains(&ear)))
        else {
            continue;
        };
        let Some(sender) = sender.get_or_insert_with(unbound).as_ref() else { return };
        let sent = sender.send_to(hint.written().as_bytes(), socket_address(&open, name));
        if sent.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            let _ = fs::remove_file(file.path());
        }
    }
}

fn unbound() -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

/// A name of the socket that fits into an address, however long the path of the data directory is.
fn socket_address(dir: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}

/// Waits for a plan: wakes when a job of it has ended, in whichever process.
#[derive(Debug)]
pub struct PlanWaiter {
    plan: PlanId,
    /// None when hints cannot be heard: then only time passes.
    listener: Option<NotificationListener>,
}

impl PlanWaiter {
    /// Completes when a job of the plan has ended, or after `at_most`.
    pub async fn wait(&mut self, at_most: Duration) {
        let ended = async {
            let Some(listener) = &mut self.listener else { return std::future::pending().await };
            while listener.next().await != Notification::Ended(self.plan) {}
        };
        let _ = tokio::time::timeout(at_most, ended).await;
    }
}

/// Watches all plans: wakes when one of them may have changed, in whichever process.
#[derive(Debug)]
pub struct StoreWatcher {
    /// None when hints cannot be heard: then only time passes.
    listener: Option<NotificationListener>,
}

impl StoreWatcher {
    /// Completes when there is something to look at. No hint reports the progress of a running plan between
    /// its beginning and its end.
    pub async fn changed(&mut self) {
        match &mut self.listener {
            Some(listener) => drop(listener.next().await),
            None => std::future::pending().await,
        }
    }
}

impl Engine {
    /// Watches all plans, from this moment on.
    pub fn store_watcher(&self) -> StoreWatcher {
        let name = WorkerId::from_u128(self.inner.ids.ulid());
        StoreWatcher {
            listener: NotificationListener::begin(&self.inner.options.data_dir, name, ListenerKind::All).ok(),
        }
    }

    /// Waits for news of a plan, from this moment on.
    pub fn plan_waiter(&self, plan: PlanId) -> PlanWaiter {
        let name = WorkerId::from_u128(self.inner.ids.ulid());
        PlanWaiter {
            plan,
            listener: NotificationListener::begin(&self.inner.options.data_dir, name, ListenerKind::One).ok(),
        }
    }
}

impl EngineInner {
    /// Notifies that a job of this plan has ended in a worker that takes no other: its slot is free.
    pub(crate) fn notify_ended(&self, plan: PlanId) {
        self.send_notification(Notification::Ended(plan));
        self.send_notification(Notification::Work);
    }

    /// Sends a notification to all listeners that it concerns, in every process.
    pub(crate) fn send_notification(&self, hint: Notification) {
        let to: &[ListenerKind] = match hint {
            Notification::Work => &[ListenerKind::Any, ListenerKind::All],
            Notification::Cancel(_) => &[ListenerKind::Any, ListenerKind::One, ListenerKind::All],
            Notification::Ended(_) => &[ListenerKind::One, ListenerKind::All],
        };
        send(&self.options.data_dir, to, hint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory whose path is longer than the address of a socket can be.
    fn deep_dir() -> (tempfile::TempDir, PathBuf) {
        let top = tempfile::TempDir::new().unwrap();
        let deep = top.path().join("d".repeat(100)).join("e".repeat(100));
        fs::create_dir_all(&deep).unwrap();
        (top, deep)
    }

    fn id(n: u128) -> WorkerId {
        WorkerId::from_u128(n)
    }

    #[tokio::test]
    async fn a_hint_reaches_whom_it_concerns_however_long_the_path_is() {
        let (_top, dir) = deep_dir();
        let mut any = NotificationListener::begin(&dir, id(1), ListenerKind::Any).unwrap();
        let mut one = NotificationListener::begin(&dir, id(2), ListenerKind::One).unwrap();
        let (job, plan) = (JobId::from_u128(7), PlanId::from_u128(8));
        let mut all = NotificationListener::begin(&dir, id(3), ListenerKind::All).unwrap();
        send(&dir, &[ListenerKind::Any], Notification::Work);
        send(&dir, &[ListenerKind::One, ListenerKind::All], Notification::Ended(plan));
        send(&dir, &[ListenerKind::Any, ListenerKind::One], Notification::Cancel(job));
        send(&dir, &[ListenerKind::All], Notification::Work);
        assert_eq!([any.next().await, any.next().await], [Notification::Work, Notification::Cancel(job)]);
        assert_eq!(
            [one.next().await, one.next().await],
            [Notification::Ended(plan), Notification::Cancel(job)]
        );
        assert_eq!([all.next().await, all.next().await], [Notification::Ended(plan), Notification::Work]);
        let mode = fs::metadata(workers_dir(&dir).join(format!("{}.sock", id(1)))).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_socket_goes_with_its_listener_and_a_dead_one_with_the_next_hint() {
        let (_top, dir) = deep_dir();
        drop(NotificationListener::begin(&dir, id(1), ListenerKind::Any).unwrap());
        let workers = workers_dir(&dir);
        // Left by a process that was killed: the file is there, and no process listens.
        drop(UnixDatagram::bind(socket_address(&File::open(&workers).unwrap(), "x.sock")).unwrap());
        let mut lives = NotificationListener::begin(&dir, id(2), ListenerKind::Any).unwrap();
        send(&dir, &[ListenerKind::Any], Notification::Work);
        assert_eq!(lives.next().await, Notification::Work);
        let left: Vec<_> = fs::read_dir(&workers).unwrap().flatten().map(|file| file.file_name()).collect();
        assert_eq!(left, [std::ffi::OsString::from(format!("{}.sock", id(2)))]);
    }

    #[test]
    fn nobody_is_disturbed_by_what_is_no_hint() {
        for text in ["", "work ", "cancel", "cancel x", "ended 1", "stop"] {
            assert_eq!(Notification::read(text.as_bytes()), None, "{text}");
        }
    }
}
