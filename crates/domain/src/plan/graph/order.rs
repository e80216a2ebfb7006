//! An order in which each step is visited once, and the cycles that prevent one.

use super::GraphNode;

/// The state of the visit of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VisitState {
    No,
    OnTheWay,
    Done,
}

/// Needs before those that need them, members before their actor, what an actor needs before its members.
///
/// # Errors
/// Returns the circles that were met, each with its first step repeated at the end.
pub(super) fn order(nodes: &[GraphNode]) -> Result<Vec<usize>, Vec<Vec<usize>>> {
    let mut seen = vec![VisitState::No; nodes.len()];
    let (mut order, mut cycles) = (Vec::with_capacity(nodes.len()), Vec::new());
    for start in 0..nodes.len() {
        if seen[start] != VisitState::No {
            continue;
        }
        // Depth first without recursion: a chain may be as long as there are steps.
        seen[start] = VisitState::OnTheWay;
        let mut way: Vec<(usize, Vec<usize>)> = vec![(start, before(nodes, start))];
        while let Some((at, left)) = way.last_mut() {
            let at = *at;
            match left.pop() {
                None => {
                    seen[at] = VisitState::Done;
                    order.push(at);
                    way.pop();
                }
                Some(next) => match seen[next] {
                    VisitState::Done => {}
                    VisitState::No => {
                        seen[next] = VisitState::OnTheWay;
                        way.push((next, before(nodes, next)));
                    }
                    VisitState::OnTheWay => {
                        let on_the_way = way.iter().map(|(at, _)| *at).skip_while(|at| *at != next);
                        cycles.push(on_the_way.chain([next]).collect());
                    }
                },
            }
        }
    }
    if cycles.is_empty() { Ok(order) } else { Err(cycles) }
}

/// Returns what is looked at before a step, the last first.
fn before(nodes: &[GraphNode], at: usize) -> Vec<usize> {
    let node = &nodes[at];
    let of_actors = node.around.iter().flat_map(|actor| &nodes[*actor].needs);
    let mut before: Vec<usize> = node.needs.iter().chain(of_actors).chain(&node.members).copied().collect();
    before.reverse();
    before
}
