//! Locks: who may take one, and whose it is then.

use std::time::Duration;

use domain::*;

use crate::sample::{BOOT, LEASE, OTHER_BOOT, PLAN};

const NOW: Ms = Ms(1_000);

fn wish(owner: &str) -> LockRequest {
    LockRequest { resource: LockResource::Plan(PLAN), owner: owner.to_owned(), boot: BOOT, lease: LEASE }
}

fn held_by_ann() -> Lock {
    Lock::take(None, wish("ann"), NOW).unwrap()
}

#[test]
fn a_lock_that_nobody_knows_is_taken_under_the_first_fence() {
    let expected = Lock {
        resource: LockResource::Plan(PLAN),
        owner: "ann".to_owned(),
        fence: Fence(1),
        boot: BOOT,
        lease_until: Ms(1_030),
    };
    assert_eq!(held_by_ann(), expected);
    let endless = LockRequest { lease: Duration::MAX, ..wish("ann") };
    assert_eq!(Lock::take(None, endless, NOW).unwrap().lease_until, Ms(u64::MAX), "no lease wraps");
}

#[test]
fn a_lock_is_taken_when_its_lease_is_over_or_its_boot_is_gone() {
    let held = held_by_ann();
    let refused = LockHeld { resource: held.resource, owner: "ann".to_owned() };
    for (boot, now, taken) in [
        (BOOT, Ms(1_000), false),
        (BOOT, Ms(1_029), false),
        (BOOT, Ms(1_030), true),
        (BOOT, Ms(9_999), true),
        (OTHER_BOOT, Ms(1_000), true),
    ] {
        assert_eq!(held.is_held(boot, now), !taken);
        let answer = Lock::take(Some(&held), LockRequest { boot, ..wish("bob") }, now);
        if taken {
            let lock = answer.unwrap();
            assert_eq!((lock.owner.as_str(), lock.fence, lock.boot), ("bob", Fence(2), boot));
            assert_eq!(lock.lease_until, now.saturating_add(LEASE));
        } else {
            assert_eq!(answer, Err(refused.clone()));
        }
    }
    assert_eq!(refused.to_string(), format!("plan:{PLAN} is locked by ann"));
}

#[test]
fn a_taking_is_told_by_resource_number_and_holder() {
    let held = held_by_ann();
    assert!(held.is_of(&Lock { lease_until: Ms(5), ..held.clone() }), "a renewed one is the same taking");
    assert!(!held.is_of(&Lock { fence: Fence(2), ..held.clone() }));
    assert!(!held.is_of(&Lock { owner: "bob".to_owned(), ..held.clone() }));
    let other = LockResource::Project(Hash::from_content(b"/srv"));
    assert!(!held.is_of(&Lock { resource: other, ..held.clone() }));
    assert_eq!(other.to_string(), format!("project:{}", Hash::from_content(b"/srv")));
}
