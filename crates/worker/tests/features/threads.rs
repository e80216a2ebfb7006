//! Threads that a scenario drives step by step: named, stopped at chosen points, waited for under a watchdog.
//!
//! # How an interleaving is forced
//! 1. The scenario asks for a hold at a point ([`Pauses::hold`]) and gets its [`Held`].
//! 2. It starts a thread. The first one that comes to the point stops there, and the scenario waits until it
//!    did.
//! 3. Other threads do what the scenario wants to see done meanwhile.
//! 4. The scenario lets the thread go on, and waits for its end.
//!
//! # Invariants
//! 1. Every wait of a scenario ends: with the awaited, or with a panic that names it after [`WATCHDOG`].
//! 2. A dropped [`Held`] lets go, so a scenario that fails leaves nobody stuck.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// Long enough that only a deadlock, or a wake-up that was lost, reaches it.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);

/// Waits for a message; a message that never comes fails the scenario.
pub(crate) fn receive<T>(from: &Receiver<T>, what: &str) -> T {
    match from.recv_timeout(WATCHDOG) {
        Ok(message) => message,
        Err(RecvTimeoutError::Timeout) => panic!("deadlock: {what} did not happen within {WATCHDOG:?}"),
        Err(RecvTimeoutError::Disconnected) => {
            panic!("{what} can no longer happen: who would do it has ended")
        }
    }
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

/// A thread, and what it comes to: its answer, or the message of its panic.
struct Thread<T> {
    name: String,
    end: Receiver<Result<T, String>>,
}

impl<T: Send + 'static> Thread<T> {
    fn start(name: &str, body: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, end) = mpsc::channel();
        let contained = move || {
            let answer = catch_unwind(AssertUnwindSafe(body));
            // A scenario that failed no longer listens.
            let _ = sender.send(answer.map_err(message_of));
        };
        let builder = thread::Builder::new().name(name.to_owned());
        builder.spawn(contained).expect("the system has a thread");
        Self { name: name.to_owned(), end }
    }

    fn end(self) -> Result<T, String> {
        receive(&self.end, &format!("the end of thread {}", self.name))
    }
}

fn message_of(payload: Box<dyn Any + Send>) -> String {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "a panic without a message".to_owned(),
    }
}

/// Runs `body` on a thread of its own, so that a deadlock in it fails the scenario instead of stopping the
/// run.
pub(crate) fn apart<T: Send + 'static>(what: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    match Thread::start(what, body).end() {
        Ok(answer) => answer,
        Err(message) => panic!("{what} panicked: {message}"),
    }
}

/// Runs `body` on `count` threads that all start at once, and gathers what they return, in their order.
pub(crate) fn all_at_once<T: Send + 'static>(
    count: usize,
    body: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let (start, body) = (Arc::new(Barrier::new(count)), Arc::new(body));
    let spawn = |index: usize| {
        let (start, body) = (Arc::clone(&start), Arc::clone(&body));
        Thread::start(&format!("{index} of {count}"), move || {
            start.wait();
            body(index)
        })
    };
    let threads: Vec<Thread<T>> = (0..count).map(spawn).collect();
    let end = |thread: Thread<T>| {
        let name = thread.name.clone();
        thread.end().unwrap_or_else(|message| panic!("thread {name} panicked: {message}"))
    };
    threads.into_iter().map(end).collect()
}

/// Places in code where whoever comes next can be made to stop.
pub(crate) struct Pauses<P> {
    held: Mutex<Vec<(P, Pause)>>,
}

impl<P> Default for Pauses<P> {
    fn default() -> Self {
        Self { held: Mutex::default() }
    }
}

impl<P: PartialEq + std::fmt::Debug> Pauses<P> {
    /// The next one who comes to `point`, and is not stopped by an earlier hold, stops there.
    pub(crate) fn hold(&self, point: P) -> Held {
        let (reached, was_reached) = mpsc::channel();
        let (go, gone) = oneshot::channel();
        let what = format!("{point:?}");
        self.held.lock().unwrap().push((point, Pause { reached, go: gone }));
        Held { what, reached: was_reached, go }
    }

    /// A thread comes to `point`.
    pub(crate) fn at(&self, point: P) {
        if let Some(pause) = self.take(&point) {
            // Sent to a scenario that failed, it has nobody to tell, and goes on.
            let _ = pause.reached.send(());
            let _ = pause.go.blocking_recv();
        }
    }

    /// A task comes to `point`.
    pub(crate) async fn at_async(&self, point: P) {
        if let Some(pause) = self.take(&point) {
            let _ = pause.reached.send(());
            let _ = pause.go.await;
        }
    }

    fn take(&self, point: &P) -> Option<Pause> {
        let mut held = self.held.lock().unwrap();
        let place = held.iter().position(|(known, _)| known == point)?;
        Some(held.remove(place).1)
    }
}

struct Pause {
    reached: Sender<()>,
    go: oneshot::Receiver<()>,
}

/// One stop at one point, as the scenario holds it; dropping it lets go.
pub(crate) struct Held {
    what: String,
    reached: Receiver<()>,
    go: oneshot::Sender<()>,
}

impl Held {
    /// Waits until somebody stands there.
    pub(crate) fn wait_until_reached(&self) {
        receive(&self.reached, &format!("somebody coming to {}", self.what));
    }

    /// Lets whoever stands there go on.
    pub(crate) fn go(self) {
        self.go.send(()).expect("somebody stands there");
    }

    /// Waits until somebody came there, and lets it go on: for what has happened, and not for what is to
    /// happen next.
    pub(crate) fn pass(self) {
        self.wait_until_reached();
        self.go();
    }
}

/// What a thread answers: each step knows of which type.
type Answer = Box<dyn Any + Send>;

struct Running {
    thread: Thread<Answer>,
    /// Where it stands.
    held: Option<Held>,
}

/// The threads of a scenario, by the names that it gives them.
#[derive(Default)]
pub(crate) struct Threads {
    running: BTreeMap<String, Running>,
    ended: BTreeMap<String, Result<Answer, String>>,
}

impl Threads {
    /// Starts a thread that comes to `held`, and waits until it stands there.
    pub(crate) fn start_until<T: Send + 'static>(
        &mut self,
        name: &str,
        held: Held,
        body: impl FnOnce() -> T + Send + 'static,
    ) {
        self.spawn(name, body);
        held.wait_until_reached();
        self.hold(name, held);
    }

    /// Starts a thread, of which nothing is known until it ends.
    pub(crate) fn spawn<T: Send + 'static>(&mut self, name: &str, body: impl FnOnce() -> T + Send + 'static) {
        let is_busy = self.running.contains_key(name);
        assert!(!is_busy, "thread {name} is in the middle of something else");
        let thread = Thread::start(name, move || Box::new(body()) as Answer);
        self.running.insert(name.to_owned(), Running { thread, held: None });
    }

    /// The thread stands at `held`.
    pub(crate) fn hold(&mut self, name: &str, held: Held) {
        self.running.get_mut(name).expect("the thread runs").held = Some(held);
    }

    /// Lets the thread go on from where it stands, and does not wait.
    pub(crate) fn go(&mut self, name: &str) {
        let running = self.running.get_mut(name).expect("the thread runs");
        running.held.take().expect("the thread stands somewhere").go();
    }

    /// Lets the thread go on if it stands somewhere, and waits for its end.
    pub(crate) fn finish(&mut self, name: &str) {
        let running = self.running.remove(name);
        let Running { thread, held } = running.unwrap_or_else(|| panic!("no thread {name} runs"));
        if let Some(held) = held {
            held.go();
        }
        self.ended.insert(name.to_owned(), thread.end());
    }

    /// Runs a thread from beginning to end.
    pub(crate) fn run<T: Send + 'static>(&mut self, name: &str, body: impl FnOnce() -> T + Send + 'static) {
        self.spawn(name, body);
        self.finish(name);
    }

    /// What the thread answered.
    pub(crate) fn answer<T: Clone + 'static>(&self, name: &str) -> T {
        match self.ended.get(name) {
            Some(Ok(answer)) => {
                answer.downcast_ref::<T>().expect("the answer is of the kind that the step asks for").clone()
            }
            Some(Err(message)) => panic!("thread {name} panicked: {message}"),
            None => panic!("thread {name} has not ended"),
        }
    }

    /// The message in which the thread crashed; afterwards the crash is taken note of.
    pub(crate) fn crash(&mut self, name: &str) -> String {
        match self.ended.remove(name) {
            Some(Err(message)) => message,
            Some(Ok(_)) => panic!("thread {name} did not crash"),
            None => panic!("thread {name} has not ended"),
        }
    }

    /// What holds after every scenario: nobody is left in the middle, and no crash went unnoticed.
    pub(crate) fn assert_all_ended_well(&self) {
        let running: Vec<&String> = self.running.keys().collect();
        assert!(running.is_empty(), "threads never ended by the scenario: {running:?}");
        let crashes: Vec<(&String, &String)> = self
            .ended
            .iter()
            .filter_map(|(name, outcome)| outcome.as_ref().err().map(|message| (name, message)))
            .collect();
        assert!(crashes.is_empty(), "threads crashed: {crashes:?}");
    }
}
