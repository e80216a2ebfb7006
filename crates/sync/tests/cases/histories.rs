//! Histories on real threads, and after a panic inside.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sync::KeyedHistories;

use crate::on_threads;

#[test]
fn no_record_is_lost_on_many_threads_and_many_keys() {
    let histories: KeyedHistories<usize, Vec<usize>> = KeyedHistories::default();
    on_threads(8, |thread| {
        for n in 0..20_000 {
            histories.update(&(n % 64), |history| history.push(thread));
        }
    });
    assert_eq!(histories.len(), 64);
    let total: usize = (0..64).map(|key| histories.read(&key, |history| history.unwrap().len())).sum();
    assert_eq!(total, 8 * 20_000);
}

#[test]
fn reading_creates_nothing_and_removing_takes_out() {
    let histories: KeyedHistories<&str, Vec<u8>> = KeyedHistories::new();
    assert!(histories.read(&"a", |history| history.is_none()));
    assert_eq!(histories.update_known(&"a", |history| history.push(1)), None);
    assert!(histories.is_empty());
    histories.update(&"a", |history| history.push(1));
    assert!(!histories.is_empty());
    assert_eq!(histories.update_known(&"a", |history| history.len()), Some(1));
    assert_eq!(histories.remove(&"a"), Some(vec![1]));
    assert_eq!(histories.remove(&"a"), None);
    assert_eq!(format!("{histories:?}"), "KeyedHistories { .. }");
}

#[test]
fn all_keys_can_be_seen_in_one_step() {
    let histories: KeyedHistories<u32, u32> = KeyedHistories::new();
    histories.update(&1, |value| *value = 10);
    histories.update(&2, |value| *value = 20);
    let sum = histories.update_all(|all| all.values().sum::<u32>());
    assert_eq!(sum, 30);
}

#[test]
fn a_closure_that_panics_takes_nobody_else_down() {
    let histories: KeyedHistories<u32, Vec<u32>> = KeyedHistories::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| histories.update(&1, |_| panic!("inside"))));
    assert!(panicked.is_err());
    assert_eq!(
        histories.update(&1, |history| {
            history.push(7);
            history.clone()
        }),
        [7]
    );
}
