//! The order of the lines.

use crate::support::{Events, Gate, Rig, eventually, hangs, ok, strategy};

/// Every order of four.
fn orders() -> Vec<[usize; 4]> {
    let mut orders = Vec::new();
    for code in 0..256_usize {
        let order = [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6];
        if (0..4).all(|index| order.contains(&index)) {
            orders.push(order);
        }
    }
    orders
}

#[test]
fn lines_come_in_the_order_of_the_tasks_whatever_ends_first() {
    let orders = orders();
    assert_eq!(orders.len(), 24);
    for order in orders {
        let rig = Rig::new();
        let (began, heard) = Events::new();
        let gates: [Gate; 4] = Default::default();
        let names = ["a", "b", "c", "d"];
        let strategies: Vec<_> =
            names.iter().zip(&gates).map(|(name, gate)| hangs(name, &began, gate)).collect();
        let pending = rig.begin(&strategies, rig.never());
        for _ in 0..4 {
            heard.expect("began");
        }
        for (ended, index) in order.into_iter().enumerate() {
            gates[index].open();
            eventually("this one has ended", || rig.executor.pool().running == 3 - ended);
        }
        assert_eq!(pending.result(), Ok(names.map(|name| ok(name, &[7])).to_vec()), "order {order:?}");
    }
}

#[test]
fn one_worker_takes_strategies_first_in_first_out() {
    let rig = Rig::with_workers(1);
    let (order, heard) = Events::new();
    let names = ["a", "b", "c", "d", "e"];
    let strategies: Vec<_> = names
        .into_iter()
        .map(|name| {
            let order = order.clone();
            strategy(name, move |_, _| {
                order.say(name);
                Ok(vec![1])
            })
        })
        .collect();
    assert_eq!(rig.run(&strategies), names.map(|name| ok(name, &[1])));
    for name in names {
        heard.expect(name);
    }
}

#[test]
fn the_strategies_of_one_call_stand_together_in_the_queue() {
    let rig = Rig::with_workers(1);
    let (said, heard) = Events::new();
    let gate = Gate::default();
    let blocker = rig.begin(&[hangs("blocker", &said, &gate)], rig.never());
    heard.expect("began");
    let says = |what: &'static str| {
        let said = said.clone();
        strategy(what, move |_, _| {
            said.say(what);
            Ok(vec![])
        })
    };
    let first = rig.begin(&[says("first"), says("first"), says("first")], rig.never());
    eventually("the first call is queued", || rig.executor.pool().queued == 3);
    let second = rig.begin(&[says("second")], rig.never());
    eventually("the second call is queued", || rig.executor.pool().queued == 4);
    gate.open();
    for what in ["first", "first", "first", "second"] {
        heard.expect(what);
    }
    for pending in [blocker, first, second] {
        pending.result().expect("nobody cancels");
    }
}
