//! Values by key, found or created and changed in one critical section.
//!
//! The seed's race was a `get_or_create` that returned the history. Two threads created one, and the record
//! of the first went into a history that the second had just overwritten. Here no history is returned, so
//! that code cannot be written.
//!
//! # Invariants
//! 1. One mutex around one map; a key has at most one value, ever.
//! 2. No guard and no reference leaves a method.
//! 3. The closure runs under the lock: it must not block, do IO, or call back into the same histories.
//! 4. A closure that panics poisons nothing: the next caller finds the value as the closure left it.

use std::collections::HashMap;
use std::hash::Hash;

use crate::primitives::{Mutex, lock};

/// Histories, or any values, by key.
///
/// ```
/// let errors: sync::KeyedHistories<&str, Vec<&str>> = sync::KeyedHistories::new();
/// let count = errors.update(&"plan-1", |history| {
///     history.push("timeout");
///     history.len()
/// });
/// assert_eq!(count, 1);
/// ```
pub struct KeyedHistories<K, V> {
    map: Mutex<HashMap<K, V>>,
}

impl<K: Eq + Hash + Clone, V: Default> KeyedHistories<K, V> {
    /// No histories yet.
    pub fn new() -> Self {
        Self { map: Mutex::new(HashMap::new()) }
    }

    /// Finds or creates the value of `key` and acts on it, as one step.
    pub fn update<R>(&self, key: &K, act: impl FnOnce(&mut V) -> R) -> R {
        let mut map = lock(&self.map);
        match map.get_mut(key) {
            Some(value) => act(value),
            None => act(map.entry(key.clone()).or_default()),
        }
    }

    /// Acts on the value of `key` if it has one, as one step; creates nothing.
    pub fn update_known<R>(&self, key: &K, act: impl FnOnce(&mut V) -> R) -> Option<R> {
        lock(&self.map).get_mut(key).map(act)
    }

    /// Acts on all values as one step: for what must see several keys at once.
    pub fn update_all<R>(&self, act: impl FnOnce(&mut HashMap<K, V>) -> R) -> R {
        act(&mut lock(&self.map))
    }

    /// Looks at the value of `key` without creating it.
    pub fn read<R>(&self, key: &K, look: impl FnOnce(Option<&V>) -> R) -> R {
        look(lock(&self.map).get(key))
    }

    /// Takes the value of `key` out.
    pub fn remove(&self, key: &K) -> Option<V> {
        lock(&self.map).remove(key)
    }

    /// Returns the number of keys that have a value.
    pub fn len(&self) -> usize {
        lock(&self.map).len()
    }

    /// Returns whether no key has a value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Eq + Hash + Clone, V: Default> Default for KeyedHistories<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> std::fmt::Debug for KeyedHistories<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyedHistories").finish_non_exhaustive()
    }
}
