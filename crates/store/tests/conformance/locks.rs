//! Locks: one holder, known by name; nobody holds what it let go or let run out.

use domain::{Fence, Hash, Lock, LockHeld, LockRequest, LockResource};
use store::{LockStoreError, StoreError};

use super::bench::Bench;
use super::sample::{BOOT, LEASE, ONE_MS, OTHER_BOOT, plan_id};

fn project(name: &str) -> LockResource {
    LockResource::Project(Hash::from_content(name.as_bytes()))
}

fn wish(owner: &str, resource: LockResource) -> LockRequest {
    LockRequest { resource, owner: owner.to_owned(), boot: BOOT, lease: LEASE }
}

fn held_by(owner: &str, resource: LockResource) -> Result<Lock, LockStoreError> {
    Err(LockHeld { resource, owner: owner.to_owned() }.into())
}

pub(crate) async fn a_lock_has_one_holder_who_is_named(bench: Bench) {
    let web = project("web");
    let expected = Lock {
        resource: web,
        owner: "ann: é".to_owned(),
        fence: Fence(1),
        boot: BOOT,
        lease_until: bench.after(LEASE),
    };
    assert_eq!(bench.store.take_lock(wish("ann: é", web)).await, Ok(expected.clone()));
    assert_eq!(bench.store.take_lock(wish("bob", web)).await, held_by("ann: é", web));
    let again = bench.store.take_lock(wish("ann: é", web)).await;
    assert_eq!(
        again,
        held_by("ann: é", web),
        "not by the same either: its two hands would not know of each other"
    );
    assert_eq!(bench.store.locks().await, Ok(vec![expected]));
    for free in [project("api"), LockResource::Plan(plan_id(1))] {
        assert_eq!(bench.store.take_lock(wish("bob", free)).await.unwrap().fence, Fence(1));
    }
    let told: Vec<_> = bench.store.locks().await.unwrap().into_iter().map(|lock| lock.resource).collect();
    let mut sorted = told.clone();
    sorted.sort();
    assert_eq!((told.len(), &told), (3, &sorted), "in order of resource");
}

pub(crate) async fn a_lock_that_was_let_go_or_ran_out_is_taken_under_the_next_fence(bench: Bench) {
    let web = project("web");
    let first = bench.store.take_lock(wish("ann", web)).await.unwrap();
    bench.pass(LEASE - ONE_MS);
    assert_eq!(bench.store.take_lock(wish("bob", web)).await, held_by("ann", web));
    bench.pass(ONE_MS);
    let second = bench.store.take_lock(wish("bob", web)).await.unwrap();
    assert_eq!((second.fence, second.lease_until), (Fence(2), bench.after(LEASE)));
    bench.store.release_lock(&second).await.unwrap();
    assert_eq!(bench.store.locks().await.unwrap().len(), 1, "the row stays");
    let third = bench.store.take_lock(wish("cid", web)).await.unwrap();
    assert_eq!(third.fence, Fence(3));
    assert!(first.fence < second.fence && second.fence < third.fence);
}

pub(crate) async fn a_late_release_or_renewal_touches_nothing_of_others(bench: Bench) {
    let web = project("web");
    let late = bench.store.take_lock(wish("ann", web)).await.unwrap();
    bench.pass(LEASE);
    // Under the same words, so that only the number tells them apart.
    let held = bench.store.take_lock(wish("ann", web)).await.unwrap();
    let stranger = Lock { owner: "bob".to_owned(), ..held.clone() };
    for other in [&late, &stranger] {
        bench.store.release_lock(other).await.unwrap();
        assert_eq!(bench.store.renew_lock(other, LEASE * 9).await, Ok(false));
        assert_eq!(bench.store.locks().await, Ok(vec![held.clone()]));
        assert_eq!(bench.store.take_lock(wish("bob", web)).await, held_by("ann", web));
    }
    let unknown = Lock { resource: project("never taken"), ..held };
    bench.store.release_lock(&unknown).await.unwrap();
    assert_eq!(bench.store.renew_lock(&unknown, LEASE).await, Ok(false));
    assert_eq!(bench.store.locks().await.unwrap().len(), 1);
}

pub(crate) async fn a_holder_that_renews_keeps_its_lock(bench: Bench) {
    let web = project("web");
    let held = bench.store.take_lock(wish("ann", web)).await.unwrap();
    for _ in 0..3 {
        bench.pass(LEASE - ONE_MS);
        assert_eq!(bench.store.renew_lock(&held, LEASE).await, Ok(true));
        assert_eq!(bench.store.take_lock(wish("bob", web)).await, held_by("ann", web));
    }
    assert_eq!(bench.store.locks().await.unwrap()[0].lease_until, bench.after(LEASE));
    bench.pass(LEASE);
    let taken = bench.store.take_lock(wish("bob", web)).await.unwrap();
    assert_eq!(bench.store.renew_lock(&held, LEASE).await, Ok(false), "its lock is another's");
    assert_eq!(bench.store.locks().await, Ok(vec![taken]));
}

pub(crate) async fn a_lock_of_another_boot_is_free_at_once(bench: Bench) {
    let web = project("web");
    bench.store.take_lock(wish("ann", web)).await.unwrap();
    let rebooted = LockRequest { boot: OTHER_BOOT, ..wish("bob", web) };
    let taken = bench.store.take_lock(rebooted.clone()).await.unwrap();
    assert_eq!((taken.fence, taken.boot), (Fence(2), OTHER_BOOT));
    assert_eq!(bench.store.take_lock(rebooted).await, held_by("bob", web));
}

pub(crate) async fn one_of_eight_takes_a_lock(bench: Bench) {
    for round in 1..=100 {
        let taken = bench.on_threads(8, |thread| {
            bench.store.take_lock(wish(&format!("thread {thread}"), LockResource::Plan(plan_id(1))))
        });
        let holders: Vec<&Lock> = taken.iter().flatten().collect();
        assert_eq!(holders.len(), 1, "{taken:?}");
        assert_eq!(holders[0].fence, Fence(round));
        for refused in taken.iter().filter_map(|taken| taken.as_ref().err()) {
            assert_eq!(Err(refused.clone()), held_by(&holders[0].owner, holders[0].resource));
        }
        bench.store.release_lock(holders[0]).await.unwrap();
    }
}

pub(crate) async fn whoever_holds_the_lock_is_alone_until_it_lets_go(bench: Bench) {
    let inside = std::sync::atomic::AtomicUsize::new(0);
    let entered = bench.on_threads(8, async |thread| {
        let mut entered = 0;
        for _ in 0..200 {
            let wish = wish(&format!("thread {thread}"), project("web"));
            match bench.store.take_lock(wish).await {
                Err(LockStoreError::Held(_)) => {}
                Err(LockStoreError::Store(error)) => panic!("{error}"),
                Ok(lock) => {
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    entered += 1;
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    let freed: Result<(), StoreError> = bench.store.release_lock(&lock).await;
                    freed.unwrap();
                }
            }
        }
        entered
    });
    let locks = bench.store.locks().await.unwrap();
    assert_eq!(locks[0].fence, Fence(entered.iter().sum()), "each taking has its number");
}
