//! Hints between the processes of one data directory: "look now". A lost one costs a poll, never a job.
//!
//! Each worker, and whoever waits for one, has a datagram socket in `workers/`. A sender writes a word to every socket
//! that it concerns and waits for no answer.
//!
//! # Invariants
//! 1. The store is the truth: a hint says what to look at, and nothing is done because of a hint alone.
//! 2. Sending never blocks and never fails: who has too many hints to take another one will look anyway.
//! 3. A socket goes with whoever listens to it. One that a killed process left is removed by the first who sends to it.
//!
//! # Not here
//! Which workers live: `presence`.

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
use crate::engine::{Engine, House};

/// The socket of a worker that takes any plan.
const ANY: &str = ".sock";
/// The socket of somebody who is concerned with one plan: a worker that serves it, or who waits for it.
const ONE: &str = ".one.sock";
/// The socket of somebody who looks at all plans and serves none.
const ALL: &str = ".all.sock";
/// Longer than any hint.
const HINT_BYTES_MAX: usize = 64;
/// How many hints wait for whoever listens; the rest waits in the socket.
const HINTS_MAX: usize = 64;
const THREAD_STACK_BYTES: usize = 64 * 1024;

/// Something to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// There may be a job to claim.
    Work,
    /// Somebody asked for the cancel of this job.
    Cancel(JobId),
    /// A job of this plan has come to an end, and left its slot.
    Ended(PlanId),
}

impl Hint {
    fn written(self) -> String {
        match self {
            Hint::Work => "work".to_owned(),
            Hint::Cancel(job) => format!("cancel {job}"),
            Hint::Ended(plan) => format!("ended {plan}"),
        }
    }

    fn read(text: &[u8]) -> Option<Hint> {
        let text = std::str::from_utf8(text).ok()?;
        match text.split_once(' ') {
            None => (text == "work").then_some(Hint::Work),
            Some(("cancel", job)) => Some(Hint::Cancel(job.parse().ok()?)),
            Some(("ended", plan)) => Some(Hint::Ended(plan.parse().ok()?)),
            Some(_) => None,
        }
    }
}

/// Whom a socket belongs to, or a hint concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ear {
    /// Workers that take any plan.
    Any,
    /// Who is concerned with one plan.
    One,
    /// Who looks at all plans.
    All,
}

impl Ear {
    fn of(name: &str) -> Option<Ear> {
        // In this order: the last ending is also that of the others.
        if name.ends_with(ONE) {
            return Some(Ear::One);
        }
        if name.ends_with(ALL) {
            return Some(Ear::All);
        }
        name.ends_with(ANY).then_some(Ear::Any)
    }
}

/// Hears hints until it is dropped.
#[derive(Debug)]
pub(crate) struct Hearing {
    socket: UnixDatagram,
    path: PathBuf,
    heard: mpsc::Receiver<Hint>,
}

impl Hearing {
    /// Begins to listen under the name of a worker, or one that is as good.
    ///
    /// # Errors
    /// The socket cannot be made, or no thread is left to listen.
    pub(crate) fn begin(data_dir: &Path, name: WorkerId, ear: Ear) -> io::Result<Self> {
        let dir = workers_dir(data_dir);
        fs::create_dir_all(&dir)?;
        let name = match ear {
            Ear::Any => format!("{name}{ANY}"),
            Ear::One => format!("{name}{ONE}"),
            Ear::All => format!("{name}{ALL}"),
        };
        let path = dir.join(&name);
        let socket = UnixDatagram::bind(short(&File::open(&dir)?, &name))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let (sender, heard) = mpsc::channel(HINTS_MAX);
        let own = socket.try_clone()?;
        let thread = std::thread::Builder::new().name("agents-hints".to_owned());
        thread.stack_size(THREAD_STACK_BYTES).spawn(move || listen(&own, &sender))?;
        Ok(Self { socket, path, heard })
    }

    /// The next hint. Without a thread to listen nothing is heard any more, and this never completes.
    pub(crate) async fn next(&mut self) -> Hint {
        match self.heard.recv().await {
            Some(hint) => hint,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // Wakes the thread, which finds that nothing more can come.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

fn listen(socket: &UnixDatagram, heard: &mpsc::Sender<Hint>) {
    let mut text = [0; HINT_BYTES_MAX];
    loop {
        let length = match socket.recv(&mut text) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let hint = text.get(..length).and_then(Hint::read);
        if hint.is_some_and(|hint| heard.blocking_send(hint).is_err()) {
            return;
        }
    }
}

/// Sends a hint to all whom it concerns.
pub(crate) fn send(data_dir: &Path, to: &[Ear], hint: Hint) {
    let dir = workers_dir(data_dir);
    let (Ok(files), Ok(open)) = (fs::read_dir(&dir), File::open(&dir)) else { return };
    let mut sender = None;
    for file in files.flatten() {
        let name = file.file_name();
        let Some(name) = name.to_str().filter(|name| Ear::of(name).is_some_and(|ear| to.contains(&ear)))
        else {
            continue;
        };
        let Some(sender) = sender.get_or_insert_with(unbound).as_ref() else { return };
        let sent = sender.send_to(hint.written().as_bytes(), short(&open, name));
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
fn short(dir: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}

/// Wakes whoever waits for a plan when something of it has ended, in whichever process.
#[derive(Debug)]
pub struct Waiter {
    plan: PlanId,
    /// None when hints cannot be heard: then only time passes.
    hearing: Option<Hearing>,
}

impl Waiter {
    /// Completes when a job of the plan has ended, or after `at_most`.
    pub async fn wait(&mut self, at_most: Duration) {
        let ended = async {
            let Some(hearing) = &mut self.hearing else { return std::future::pending().await };
            while hearing.next().await != Hint::Ended(self.plan) {}
        };
        let _ = tokio::time::timeout(at_most, ended).await;
    }
}

/// Wakes whoever looks at all plans when one of them may have moved, in whichever process.
#[derive(Debug)]
pub struct Onlooker {
    /// None when hints cannot be heard: then only time passes.
    hearing: Option<Hearing>,
}

impl Onlooker {
    /// Completes when there is something to look at. What a running plan does between its beginning and its end is told
    /// by nobody.
    pub async fn stirred(&mut self) {
        match &mut self.hearing {
            Some(hearing) => drop(hearing.next().await),
            None => std::future::pending().await,
        }
    }
}

impl Engine {
    /// Hears of all plans, from this moment on.
    pub fn onlooker(&self) -> Onlooker {
        let name = WorkerId::from_u128(self.house.ids.ulid());
        Onlooker { hearing: Hearing::begin(&self.house.options.data_dir, name, Ear::All).ok() }
    }

    /// Waits for news of a plan, from this moment on.
    pub fn waiter(&self, plan: PlanId) -> Waiter {
        let name = WorkerId::from_u128(self.house.ids.ulid());
        Waiter { plan, hearing: Hearing::begin(&self.house.options.data_dir, name, Ear::One).ok() }
    }
}

impl House {
    /// Tells that a job of this plan has ended in a worker that takes no other: its slot is for whoever comes.
    pub(crate) fn tell_ended(&self, plan: PlanId) {
        self.send_hint(Hint::Ended(plan));
        self.send_hint(Hint::Work);
    }

    /// Sends a hint to all whom it concerns, in every process.
    pub(crate) fn send_hint(&self, hint: Hint) {
        let to: &[Ear] = match hint {
            Hint::Work => &[Ear::Any, Ear::All],
            Hint::Cancel(_) => &[Ear::Any, Ear::One, Ear::All],
            Hint::Ended(_) => &[Ear::One, Ear::All],
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
        let mut any = Hearing::begin(&dir, id(1), Ear::Any).unwrap();
        let mut one = Hearing::begin(&dir, id(2), Ear::One).unwrap();
        let (job, plan) = (JobId::from_u128(7), PlanId::from_u128(8));
        let mut all = Hearing::begin(&dir, id(3), Ear::All).unwrap();
        send(&dir, &[Ear::Any], Hint::Work);
        send(&dir, &[Ear::One, Ear::All], Hint::Ended(plan));
        send(&dir, &[Ear::Any, Ear::One], Hint::Cancel(job));
        send(&dir, &[Ear::All], Hint::Work);
        assert_eq!([any.next().await, any.next().await], [Hint::Work, Hint::Cancel(job)]);
        assert_eq!([one.next().await, one.next().await], [Hint::Ended(plan), Hint::Cancel(job)]);
        assert_eq!([all.next().await, all.next().await], [Hint::Ended(plan), Hint::Work]);
        let mode = fs::metadata(workers_dir(&dir).join(format!("{}.sock", id(1)))).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_socket_goes_with_its_listener_and_a_dead_one_with_the_next_hint() {
        let (_top, dir) = deep_dir();
        drop(Hearing::begin(&dir, id(1), Ear::Any).unwrap());
        let workers = workers_dir(&dir);
        // Left by somebody who was killed: the file is there, and nobody listens.
        drop(UnixDatagram::bind(short(&File::open(&workers).unwrap(), "x.sock")).unwrap());
        let mut lives = Hearing::begin(&dir, id(2), Ear::Any).unwrap();
        send(&dir, &[Ear::Any], Hint::Work);
        assert_eq!(lives.next().await, Hint::Work);
        let left: Vec<_> = fs::read_dir(&workers).unwrap().flatten().map(|file| file.file_name()).collect();
        assert_eq!(left, [std::ffi::OsString::from(format!("{}.sock", id(2)))]);
    }

    #[test]
    fn nobody_is_disturbed_by_what_is_no_hint() {
        for text in ["", "work ", "cancel", "cancel x", "ended 1", "stop"] {
            assert_eq!(Hint::read(text.as_bytes()), None, "{text}");
        }
    }
}
