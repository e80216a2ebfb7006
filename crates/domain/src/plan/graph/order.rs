//! An order in which one look at every step is enough, and the circles that prevent one.

use super::Node;

/// How far a step was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    No,
    OnTheWay,
    Done,
}

/// Needs before those that need them, members before their actor, what an actor needs before its members.
///
/// # Errors
/// The circles that were met, each with its first step repeated at the end.
pub(super) fn order(nodes: &[Node]) -> Result<Vec<usize>, Vec<Vec<usize>>> {
    let mut seen = vec![Seen::No; nodes.len()];
    let (mut order, mut cycles) = (Vec::with_capacity(nodes.len()), Vec::new());
    for start in 0..nodes.len() {
        if seen[start] != Seen::No {
            continue;
        }
        // Depth first without recursion: a chain may be as long as there are steps.
        seen[start] = Seen::OnTheWay;
        let mut way: Vec<(usize, Vec<usize>)> = vec![(start, before(nodes, start))];
        while let Some((at, left)) = way.last_mut() {
            let at = *at;
            match left.pop() {
                None => {
                    seen[at] = Seen::Done;
                    order.push(at);
                    way.pop();
                }
                Some(next) => match seen[next] {
                    Seen::Done => {}
                    Seen::No => {
                        seen[next] = Seen::OnTheWay;
                        way.push((next, before(nodes, next)));
                    }
                    Seen::OnTheWay => {
                        let on_the_way = way.iter().map(|(at, _)| *at).skip_while(|at| *at != next);
                        cycles.push(on_the_way.chain([next]).collect());
                    }
                },
            }
        }
    }
    if cycles.is_empty() { Ok(order) } else { Err(cycles) }
}

/// What is looked at before a step, the last first.
fn before(nodes: &[Node], at: usize) -> Vec<usize> {
    let node = &nodes[at];
    let of_actors = node.around.iter().flat_map(|actor| &nodes[*actor].needs);
    let mut before: Vec<usize> = node.needs.iter().chain(of_actors).chain(&node.members).copied().collect();
    before.reverse();
    before
}
