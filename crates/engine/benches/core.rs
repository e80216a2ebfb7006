//! What the four pillars cost, beside their peers, in one run.
//!
//! `cargo xtask bench core` prints, after the measured values, one line a row: `bench NAME/PEER ours=N peer=N
//! ratio=N unit=U`. Times are CPU nanoseconds of the measuring thread, the least of several rounds; a ratio
//! above 1 means that ours is better, whatever the unit. Checks are measured while another thread writes the
//! checked word every millisecond, and every result goes through `black_box`.
//!
//! # Fairness
//! `failsafe` and `recloser` keep more statistics than a count. `Mutex<HashMap>` does the bare append that
//! `record_change` and `record_error` do under a fence, idempotently and with a decision: there the ratio
//! says what that costs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[cfg(shuttle)]
fn main() {}

#[cfg(not(shuttle))]
fn main() {
    rows::run();
}

#[cfg(not(shuttle))]
mod rows {
    use std::collections::HashMap;
    use std::future::Future;
    use std::hint::black_box;
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Arc, Barrier, Mutex};
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    use domain::{
        Base, BootId, CallNumber, ChangeDraft, ChangeId, Claim, ClaimRequest, ErrorCategory, ErrorId,
        FileState, JobId, Ms, NewChange, NewError, NewJob, Phase, PlanId, RecoveryPolicy, RelPath, RootIndex,
        StepId, WorkerId,
    };
    use engine::{ErrorRecoveryService, PlanExecutionContext, RandomIds};
    use failsafe::CircuitBreaker as _;
    use rustix::time::{ClockId, clock_gettime};
    use store::{JobStore, MemoryStore};
    use sync::{BreakerConfig, CancelReason, CancellationToken, CircuitBreaker, EffectGate, SystemClock};

    const ROUNDS: usize = 15;
    const UNROLLED: u64 = 8;

    pub(super) fn run() {
        let mut rows = Vec::new();
        breaker_check(&mut rows);
        breaker_permit(&mut rows);
        token_check(&mut rows);
        cancel_to_wake(&mut rows);
        record_change(&mut rows);
        record_error(&mut rows);
        println!();
        for row in rows {
            println!("{row}");
        }
    }

    enum Better {
        Less,
        More,
    }

    fn row(name: &str, peer_name: &str, ours: f64, peer: f64, better: Better, unit: &str) -> String {
        let ratio = match better {
            Better::Less => peer / ours,
            Better::More => ours / peer,
        };
        format!("bench {name}/{peer_name} ours={ours:.2} peer={peer:.2} ratio={ratio:.2} unit={unit}")
    }

    fn thread_cpu() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// CPU nanoseconds of one call of `op`, on so many threads at once: the least of several rounds.
    fn cpu_ns(threads: usize, calls: u64, op: impl Fn(usize) + Sync) -> f64 {
        let mut least = f64::INFINITY;
        for _ in 0..ROUNDS {
            let start = Barrier::new(threads);
            let spent: Vec<Duration> = std::thread::scope(|scope| {
                let run = |thread| {
                    let (start, op) = (&start, &op);
                    scope.spawn(move || {
                        start.wait();
                        let before = thread_cpu();
                        for _ in 0..calls / UNROLLED {
                            // Unrolled, so that what is measured is the call and not the loop round it.
                            op(thread);
                            op(thread);
                            op(thread);
                            op(thread);
                            op(thread);
                            op(thread);
                            op(thread);
                            op(thread);
                        }
                        thread_cpu() - before
                    })
                };
                let running: Vec<_> = (0..threads).map(run).collect();
                running.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let total: Duration = spent.iter().sum();
            least = least.min(total.as_nanos() as f64 / (calls * threads as u64) as f64);
        }
        least
    }

    /// Runs `body` while another thread calls `write` every millisecond.
    fn while_written<R>(write: impl Fn() + Sync, body: impl FnOnce() -> R) -> R {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    write();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let result = body();
            done.store(true, Ordering::Relaxed);
            result
        })
    }

    fn breakers() -> CircuitBreaker {
        let config = BreakerConfig { threshold: 1000, ..BreakerConfig::default() };
        CircuitBreaker::new(config, Arc::new(SystemClock::new())).unwrap()
    }

    fn breaker_check(rows: &mut Vec<String>) {
        const CALLS: u64 = 2_000_000;
        let breakers = breakers();
        let handle = breakers.handle("strategy");
        let write = || {
            breakers.record_failure("strategy");
            breakers.record_success("strategy");
        };
        let check = |threads| {
            while_written(write, || {
                cpu_ns(threads, CALLS, |_| {
                    black_box(handle.is_open());
                })
            })
        };
        let (one, two, four) = (check(1), check(2), check(4));
        println!("breaker check on a handle: {one:.2} / {two:.2} / {four:.2} ns at 1 / 2 / 4 threads");
        let by_name = while_written(write, || {
            cpu_ns(1, CALLS / 4, |_| {
                black_box(breakers.is_open(black_box("strategy")));
            })
        });
        println!("breaker check by name: {by_name:.2} ns");

        let failsafe = failsafe::Config::new().build();
        let peer = while_written(
            || drop(failsafe.call(|| Ok::<(), ()>(()))),
            || {
                cpu_ns(1, CALLS / 4, |_| {
                    black_box(failsafe.is_call_permitted());
                })
            },
        );
        rows.push(row("breaker_check", "failsafe", one, peer, Better::Less, "ns"));

        let map: Mutex<HashMap<String, (u32, bool)>> =
            Mutex::new(HashMap::from([("strategy".to_owned(), (0, false))]));
        let peer = while_written(
            || map.lock().unwrap().get_mut("strategy").unwrap().0 += 1,
            || {
                cpu_ns(1, CALLS / 4, |_| {
                    black_box(map.lock().unwrap().get(black_box("strategy")).is_some_and(|state| state.1));
                })
            },
        );
        rows.push(row("breaker_check", "mutex+map", one, peer, Better::Less, "ns"));
        rows.push(row("breaker_check_by_name", "mutex+map", by_name, peer, Better::Less, "ns"));
        rows.push(row("breaker_check_at_4_threads", "1-thread", four, one, Better::Less, "ns"));
    }

    fn breaker_permit(rows: &mut Vec<String>) {
        const CALLS: u64 = 500_000;
        let breakers = breakers();
        let handle = breakers.handle("strategy");
        let ours = cpu_ns(1, CALLS, |_| {
            let permit = handle.try_acquire().unwrap();
            black_box(permit.succeed());
        });
        let failsafe = failsafe::Config::new().build();
        let peer = cpu_ns(1, CALLS, |_| {
            let _ = black_box(failsafe.call(|| Ok::<(), ()>(())));
        });
        rows.push(row("breaker_permit", "failsafe", ours, peer, Better::Less, "ns"));
        let recloser = recloser::Recloser::default();
        let peer = cpu_ns(1, CALLS, |_| {
            let _ = black_box(recloser.call(|| Ok::<(), ()>(())));
        });
        rows.push(row("breaker_permit", "recloser", ours, peer, Better::Less, "ns"));
    }

    fn token_check(rows: &mut Vec<String>) {
        const CALLS: u64 = 2_000_000;
        // Its word is written by cancels and resets of the generation after the observed one's parent.
        let token = CancellationToken::new();
        let write = || {
            token.cancel(CancelReason::User);
            token.reset();
        };
        let check = |threads| {
            while_written(write, || {
                cpu_ns(threads, CALLS, |_| {
                    black_box(token.is_cancelled());
                })
            })
        };
        let (one, two, four) = (check(1), check(2), check(4));
        println!("token check: {one:.2} / {two:.2} / {four:.2} ns at 1 / 2 / 4 threads");
        let grandchild = CancellationToken::new().child().child();
        let three_levels = cpu_ns(1, CALLS, |_| {
            black_box(grandchild.is_cancelled());
        });
        println!("token check, three levels: {three_levels:.2} ns");

        // tokio_util has no reset: children made and cancelled write the same node.
        let peer_token = tokio_util::sync::CancellationToken::new();
        let peer = while_written(
            || peer_token.child_token().cancel(),
            || {
                cpu_ns(1, CALLS / 4, |_| {
                    black_box(peer_token.is_cancelled());
                })
            },
        );
        rows.push(row("token_check", "tokio_util", one, peer, Better::Less, "ns"));
        rows.push(row("token_check_at_4_threads", "1-thread", four, one, Better::Less, "ns"));
        let peer_grandchild = tokio_util::sync::CancellationToken::new().child_token().child_token();
        let peer = cpu_ns(1, CALLS / 4, |_| {
            black_box(peer_grandchild.is_cancelled());
        });
        rows.push(row("token_check_three_levels", "tokio_util", three_levels, peer, Better::Less, "ns"));
    }

    /// Microseconds from a cancel to the waiting thread's next instruction: the median.
    fn wake_us<F: Future + Send>(begin: impl Fn() -> (F, Box<dyn FnOnce() + Send>)) -> f64 {
        const WAKES: usize = 400;
        let mut waits = Vec::with_capacity(WAKES);
        for _ in 0..WAKES {
            let (future, cancel) = begin();
            let asleep = AtomicBool::new(false);
            let woken = std::thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    block_on(future, &asleep);
                    Instant::now()
                });
                while !asleep.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                // Long enough for the waiter to be parked, not only registered.
                std::thread::sleep(Duration::from_micros(200));
                let cancelled_at = Instant::now();
                cancel();
                waiter.join().unwrap() - cancelled_at
            });
            waits.push(woken);
        }
        waits.sort_unstable();
        waits[WAKES / 2].as_nanos() as f64 / 1000.0
    }

    struct Unpark(std::thread::Thread);

    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn block_on<F: Future>(future: F, asleep: &AtomicBool) -> F::Output {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => {
                    asleep.store(true, Ordering::Release);
                    std::thread::park();
                }
            }
        }
    }

    fn cancel_to_wake(rows: &mut Vec<String>) {
        let ours = wake_us(|| {
            let token = CancellationToken::new();
            let future = token.cancelled();
            (
                future,
                Box::new(move || {
                    let _ = token.cancel(CancelReason::User);
                }) as Box<dyn FnOnce() + Send>,
            )
        });
        let peer = wake_us(|| {
            let token = tokio_util::sync::CancellationToken::new();
            let future = token.clone().cancelled_owned();
            (future, Box::new(move || token.cancel()) as Box<dyn FnOnce() + Send>)
        });
        rows.push(row("cancel_to_wake", "tokio_util", ours, peer, Better::Less, "us"));
    }

    fn ready<F: Future>(future: F) -> F::Output {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("the in-memory store answers at once"),
        }
    }

    fn claimed() -> (Arc<MemoryStore>, Claim) {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
        let (id, plan) = (JobId::from_u128(1), PlanId::from_u128(1));
        ready(store.enqueue(NewJob { id, plan, phase: Phase::Execute, not_before: Ms(0) })).unwrap();
        let request = ClaimRequest {
            worker: WorkerId::from_u128(1),
            boot: BootId::from_u128(1),
            lease: Duration::from_secs(3600),
            concurrency_max: 4,
            only: None,
            variables: Default::default(),
        };
        let claim = ready(store.claim(&request)).unwrap().unwrap().claim();
        (store, claim)
    }

    const RECORDS: u64 = 80_000;

    /// Operations a second of wall time, on so many threads: the best of several rounds, each on a fresh
    /// `make()`.
    fn per_second<T: Sync>(threads: usize, make: impl Fn() -> T, op: impl Fn(&T, u64) + Sync) -> f64 {
        let mut best = 0_f64;
        for _ in 0..5 {
            let subject = make();
            let start = Barrier::new(threads);
            let next = AtomicU64::new(0);
            let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
                let run = |_| {
                    scope.spawn(|| {
                        start.wait();
                        let began = Instant::now();
                        for _ in 0..RECORDS / threads as u64 {
                            op(&subject, next.fetch_add(1, Ordering::Relaxed));
                        }
                        (began, Instant::now())
                    })
                };
                let running: Vec<_> = (0..threads).map(run).collect();
                running.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let began = times.iter().map(|(began, _)| *began).min().unwrap();
            let ended = times.iter().map(|(_, ended)| *ended).max().unwrap();
            best = best.max(RECORDS as f64 / (ended - began).as_secs_f64());
        }
        best
    }

    fn change(n: u64) -> NewChange {
        let path = RelPath::new(format!("src/{n}.rs")).unwrap();
        let draft =
            ChangeDraft::between(path, None, Some(FileState::file(b"fn main() {}\n", 0o644))).unwrap();
        let id = ChangeId::from_u128(n.into());
        NewChange { id, call: CallNumber(1), root: RootIndex(0), base: Base::Known, draft }
    }

    /// The peer of both records: find or create a list by key, and append.
    fn bare_append<T: Send>(threads: usize, make: impl Fn(u64) -> T + Sync) -> f64 {
        per_second(threads, Mutex::<HashMap<u64, Vec<T>>>::default, |map, n| {
            let value = make(n);
            map.lock().unwrap().entry(1).or_default().push(value);
        })
    }

    fn record_change(rows: &mut Vec<String>) {
        for threads in [1, 2, 4, 8] {
            let make = || {
                let (store, claim) = claimed();
                let context = PlanExecutionContext::new(
                    claim,
                    CancellationToken::new().observe(),
                    EffectGate::new(),
                    store,
                    Arc::new(RandomIds::new()),
                );
                ready(context.start_changeset()).unwrap();
                context
            };
            let ours = per_second(threads, make, |context, n| {
                black_box(ready(context.record_change(change(n))).unwrap());
            });
            let peer = bare_append(threads, change);
            let name = format!("record_change_{threads}_threads");
            rows.push(row(&name, "mutex+map", ours, peer, Better::More, "per_s"));
        }
    }

    fn error(n: u64) -> NewError {
        let step = StepId { attempt: 1, node: "code".to_owned(), visit: 1 };
        NewError::new(
            ErrorId::from_u128(n.into()),
            Phase::Execute,
            step,
            ErrorCategory::Tool,
            "exit status 1",
        )
    }

    fn record_error(rows: &mut Vec<String>) {
        for threads in [1, 2, 4, 8] {
            let make = || {
                let (store, claim) = claimed();
                (ErrorRecoveryService::new(store, RecoveryPolicy::default()), claim)
            };
            let ours = per_second(threads, make, |(service, claim), n| {
                black_box(ready(service.record_error(claim, error(n))).unwrap());
            });
            let peer = bare_append(threads, error);
            let name = format!("record_error_{threads}_threads");
            rows.push(row(&name, "mutex+map", ours, peer, Better::More, "per_s"));
        }
    }
}
