//! Graphs of steps: when a step may begin, what a failure does, and how nested actors end.

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

fn step(node: &str, needs: &[&str], on: NeedsCondition) -> PlanStep {
    PlanStep {
        needs: Some(needs.iter().map(|need| (*need).to_owned()).collect()),
        on,
        ..PlanStep::new(node, NodeKind::Wait { seconds: 0 })
    }
}

fn actor(node: &str, needs: &[&str], on: NeedsCondition) -> PlanStep {
    let does = NodeKind::Actor { name: "other".to_owned(), result: format!("{node}/a") };
    PlanStep { does, ..step(node, needs, on) }
}

fn flaws(steps: &[PlanStep]) -> Vec<String> {
    PlanGraph::new(steps).unwrap_err().iter().map(ToString::to_string).collect()
}

/// A run by hand: steps are named, everything else follows.
struct Run {
    names: Vec<String>,
    graph: PlanGraph,
    states: Vec<NodeState>,
}

impl Run {
    fn new(steps: &[PlanStep]) -> Run {
        let graph = PlanGraph::new(steps).unwrap();
        let names = steps.iter().map(|step| step.node.clone()).collect();
        Run { names, states: vec![NodeState::Waiting; graph.len()], graph }
    }

    /// Settles a step, and all that follows from it; answers with those that can begin.
    fn settle(&mut self, node: &str, outcome: NodeOutcome) -> Vec<String> {
        let at = self.graph.place(node).unwrap();
        assert!(self.ready().contains(&node.to_owned()) || self.states[at] == NodeState::Running, "{node}");
        self.states[at] = NodeState::Settled(outcome);
        self.follow();
        self.ready()
    }

    fn start(&mut self, node: &str) {
        let at = self.graph.place(node).unwrap();
        assert!(self.ready().contains(&node.to_owned()), "{node}");
        self.states[at] = NodeState::Running;
    }

    fn follow(&mut self) -> NextSteps {
        let next = self.graph.next(&self.states);
        for (at, outcome) in &next.settled {
            assert_eq!(self.states[*at], NodeState::Waiting);
            self.states[*at] = NodeState::Settled(*outcome);
        }
        next
    }

    fn ready(&self) -> Vec<String> {
        self.graph.next(&self.states).ready.into_iter().map(|at| self.names[at].clone()).collect()
    }

    fn end(&self) -> Option<GraphEnd> {
        self.graph.next(&self.states).end
    }

    fn state(&self, node: &str) -> NodeState {
        self.states[self.graph.place(node).unwrap()]
    }
}

use NodeOutcome::{Cancelled, Failed, Skipped, Succeeded};

#[test]
fn steps_fork_and_join() {
    let mut run = Run::new(&[
        step("survey", &[], NeedsCondition::Success),
        step("history", &[], NeedsCondition::Success),
        step("code", &["survey", "history"], NeedsCondition::Success),
        step("review", &["code"], NeedsCondition::Success),
    ]);
    assert_eq!(run.ready(), ["survey", "history"], "beside each other, in the order of the file");
    assert_eq!(run.settle("history", Succeeded), ["survey"]);
    assert_eq!(run.settle("survey", Succeeded), ["code"]);
    assert_eq!((run.settle("code", Succeeded), run.end()), (vec!["review".to_owned()], None));
    assert_eq!((run.settle("review", Succeeded), run.end()), (vec![], Some(GraphEnd::Succeeded)));
}

#[test]
fn skipped_needs_do_not_block_a_join_and_all_skipped_skip_it() {
    let steps = [
        step("a", &[], NeedsCondition::Success),
        step("b", &[], NeedsCondition::Success),
        step("join", &["a", "b"], NeedsCondition::Success),
    ];
    let mut run = Run::new(&steps);
    run.settle("a", Skipped);
    assert_eq!(run.settle("b", Succeeded), ["join"]);
    let mut run = Run::new(&steps);
    run.settle("a", Skipped);
    assert_eq!(run.settle("b", Skipped), [] as [&str; 0]);
    assert_eq!((run.state("join"), run.end()), (NodeState::Settled(Skipped), Some(GraphEnd::Succeeded)));
}

#[test]
fn a_handled_failure_goes_to_its_handlers_and_the_rest_goes_on() {
    let mut run = Run::new(&[
        step("try", &[], NeedsCondition::Success),
        step("then", &["try"], NeedsCondition::Success),
        step("mend", &["try"], NeedsCondition::Failure),
        step("report", &["then", "mend"], NeedsCondition::Always),
        step("other", &[], NeedsCondition::Success),
    ]);
    assert!(run.graph.is_handled(0) && !run.graph.is_handled(4));
    assert_eq!(run.settle("try", Failed), ["mend", "other"]);
    assert_eq!(run.state("then"), NodeState::Settled(Skipped));
    assert_eq!(run.settle("mend", Succeeded), ["report", "other"]);
    run.settle("report", Succeeded);
    run.settle("other", Succeeded);
    assert_eq!(run.end(), Some(GraphEnd::Succeeded));
}

#[test]
fn an_unhandled_failure_stops_what_runs_and_cancels_what_waits() {
    let mut run = Run::new(&[
        step("runs", &[], NeedsCondition::Success),
        step("fails", &[], NeedsCondition::Success),
        step("waits", &["runs"], NeedsCondition::Always),
        step("never", &["fails"], NeedsCondition::Success),
    ]);
    run.start("runs");
    run.start("fails");
    run.states[1] = NodeState::Settled(Failed);
    let next = run.follow();
    assert_eq!((next.ready, next.stop, next.end), (vec![], vec![0], None), "the running one is still there");
    assert_eq!(
        (run.state("waits"), run.state("never")),
        (NodeState::Settled(Cancelled), NodeState::Settled(Cancelled))
    );
    run.states[0] = NodeState::Settled(Cancelled);
    assert_eq!(run.end(), Some(GraphEnd::Failed { node: 1 }));
    let mut first = run.states.clone();
    first[0] = NodeState::Settled(Failed);
    assert_eq!(run.graph.next(&first).end, Some(GraphEnd::Failed { node: 1 }), "the handled one is no cause");
}

#[test]
fn a_nested_actor_begins_when_its_node_could_and_ends_with_its_members() {
    let mut run = Run::new(&[
        step("first", &[], NeedsCondition::Success),
        step("sub/a", &[], NeedsCondition::Success),
        step("sub/b", &["sub/a"], NeedsCondition::Success),
        actor("sub", &["first"], NeedsCondition::Success),
        step("last", &["sub"], NeedsCondition::Success),
    ]);
    assert_eq!(run.ready(), ["first"], "members wait for what their actor needs");
    assert_eq!(run.settle("first", Succeeded), ["sub/a"]);
    assert_eq!(run.settle("sub/a", Succeeded), ["sub/b"]);
    assert_eq!(run.settle("sub/b", Succeeded), ["last"]);
    assert_eq!(run.state("sub"), NodeState::Settled(Succeeded));
    assert_eq!(run.graph.last_sink(), Some(4));
    let names = |at| run.graph.ancestors(at).into_iter().map(|at| run.names[at].as_str()).collect::<Vec<_>>();
    assert_eq!(names(2), ["first", "sub/a"]);
}

#[test]
fn a_nested_actor_that_is_not_entered_is_skipped_whole() {
    let mut run = Run::new(&[
        step("first", &[], NeedsCondition::Success),
        step("sub/a", &[], NeedsCondition::Success),
        step("sub/b", &["sub/a"], NeedsCondition::Always),
        actor("sub", &["first"], NeedsCondition::Failure),
        step("last", &["sub"], NeedsCondition::Always),
    ]);
    assert_eq!(run.settle("first", Succeeded), ["last"]);
    for node in ["sub/a", "sub/b", "sub"] {
        assert_eq!(run.state(node), NodeState::Settled(Skipped), "{node}");
    }
}

#[test]
fn a_failure_in_a_nested_actor_is_its_own_and_then_its_nodes() {
    let inner = |handled: NeedsCondition| {
        [
            step("sub/a", &[], NeedsCondition::Success),
            step("sub/side", &[], NeedsCondition::Success),
            step("sub/b", &["sub/a"], handled),
            actor("sub", &[], NeedsCondition::Success),
            step("mend", &["sub"], NeedsCondition::Failure),
            step("beside", &[], NeedsCondition::Success),
        ]
    };
    let mut run = Run::new(&inner(NeedsCondition::Failure));
    assert_eq!(run.settle("sub/a", Failed), ["sub/side", "sub/b", "beside"], "handled inside");
    run.settle("sub/b", Succeeded);
    assert_eq!(run.settle("sub/side", Succeeded), ["beside"]);
    assert_eq!(
        (run.state("sub"), run.state("mend")),
        (NodeState::Settled(Succeeded), NodeState::Settled(Skipped))
    );

    let mut run = Run::new(&inner(NeedsCondition::Success));
    run.start("sub/side");
    run.states[0] = NodeState::Running;
    run.states[0] = NodeState::Settled(Failed);
    let next = run.follow();
    assert_eq!(next.stop, [1], "its sibling is stopped, who stands outside is not");
    assert_eq!((run.state("sub/b"), run.state("sub")), (NodeState::Settled(Cancelled), NodeState::Waiting));
    run.states[1] = NodeState::Settled(Cancelled);
    run.follow();
    assert_eq!(
        (run.state("sub"), run.ready()),
        (NodeState::Settled(Failed), vec!["mend".to_owned(), "beside".to_owned()])
    );

    let mut steps = inner(NeedsCondition::Success).to_vec();
    steps.remove(4);
    let mut run = Run::new(&steps);
    run.settle("sub/side", Succeeded);
    run.settle("sub/a", Failed);
    assert_eq!(run.state("sub"), NodeState::Settled(Failed));
    assert_eq!(run.state("beside"), NodeState::Settled(Cancelled), "nobody handles the actor's failure");
    assert_eq!(run.end(), Some(GraphEnd::Failed { node: 3 }));
}

#[test]
fn what_is_no_graph_says_why() {
    let on = NeedsCondition::Success;
    assert_eq!(
        flaws(&[step("a", &["b"], on), step("b", &["c"], on), step("c", &["a"], on)]),
        ["nodes need each other in a circle: a → b → c → a"]
    );
    assert_eq!(flaws(&[step("a", &["a"], on)]), ["nodes need each other in a circle: a → a"]);
    assert_eq!(flaws(&[step("a", &[], on), step("a", &[], on)]), ["two nodes are called `a`"]);
    assert_eq!(
        flaws(&[step("survey", &[], on), step("code", &["surve"], on), step("z", &["what"], on)]),
        [
            "node `code` needs `surve`, which is not a node; did you mean `survey`?",
            "node `z` needs `what`, which is not a node"
        ]
    );
    assert_eq!(
        flaws(&[step("sub/a", &[], on), actor("sub", &[], on), step("b", &["sub/a"], on)]).len(),
        1,
        "the inside of an actor is its own"
    );
}

#[test]
fn steps_of_older_plans_come_one_after_the_other() {
    let steps: Vec<PlanStep> =
        ["a", "b", "c"].map(|node| PlanStep::new(node, NodeKind::Wait { seconds: 0 })).to_vec();
    let mut run = Run::new(&steps);
    assert_eq!(run.ready(), ["a"]);
    assert_eq!(run.settle("a", Succeeded), ["b"]);
    assert_eq!(run.settle("b", Failed), [] as [&str; 0]);
    assert_eq!(run.end(), Some(GraphEnd::Failed { node: 1 }));
    assert!(PlanGraph::new(&[]).unwrap().is_empty());
}

/// A graph without nesting, what each step would come to if it ran, and in which order things happen.
#[derive(Clone, Debug)]
struct Story {
    steps: Vec<PlanStep>,
    comes_to: Vec<NodeOutcome>,
    picks: Vec<usize>,
}

fn any_story() -> impl Strategy<Value = Story> {
    (1..9_usize).prop_flat_map(|count| {
        let needs = prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), count);
        let on = prop::collection::vec(prop::sample::select(NeedsCondition::ALL.to_vec()), count);
        let comes_to =
            prop::collection::vec(prop::sample::select(vec![Succeeded, Succeeded, Failed, Skipped]), count);
        let picks = prop::collection::vec(any::<usize>(), count * 3);
        let order = Just((0..count).collect::<Vec<_>>()).prop_shuffle();
        (needs, on, comes_to, picks, order).prop_map(move |(needs, on, comes_to, picks, order)| {
            // Needs go to lower numbers, so there is no circle; the file has them in any order.
            let name = |at: usize| format!("n{at}");
            let whole = |at: usize| {
                let lower: Vec<String> =
                    needs[at].iter().filter(|_| at > 0).map(|index| name(index.index(at))).collect();
                PlanStep {
                    needs: Some(lower),
                    on: on[at],
                    ..PlanStep::new(name(at), NodeKind::Wait { seconds: 0 })
                }
            };
            Story { steps: order.iter().map(|at| whole(*at)).collect(), comes_to, picks }
        })
    })
}

/// The rules once more, on names and without any order, until nothing changes.
fn naive(steps: &[PlanStep], comes_to: &[NodeOutcome]) -> (Vec<Option<NodeOutcome>>, bool) {
    let mut settled: Vec<Option<NodeOutcome>> = vec![None; steps.len()];
    let place = |name: &str| steps.iter().position(|step| step.node == name).unwrap();
    loop {
        let before = settled.clone();
        for (at, step) in steps.iter().enumerate() {
            let needs: Vec<usize> = step.needs.iter().flatten().map(|need| place(need)).collect();
            if settled[at].is_some() || needs.iter().any(|need| settled[*need].is_none()) {
                continue;
            }
            let has = |outcome| needs.iter().any(|need| settled[*need] == Some(outcome));
            let runs = match step.on {
                NeedsCondition::Success => needs.is_empty() || (has(Succeeded) && !has(Failed)),
                NeedsCondition::Failure => has(Failed),
                NeedsCondition::Always => true,
            };
            settled[at] = Some(if runs { comes_to[at] } else { Skipped });
        }
        if settled == before {
            break;
        }
    }
    let unhandled = (0..steps.len()).any(|at| {
        let handles = |step: &PlanStep| {
            step.on != NeedsCondition::Success && step.needs.iter().flatten().any(|need| place(need) == at)
        };
        settled[at] == Some(Failed) && !steps.iter().any(handles)
    });
    (settled, unhandled)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_schedule_ends_as_a_naive_reading_says(story in any_story()) {
        let Story { steps, comes_to, picks } = story;
        let graph = PlanGraph::new(&steps).unwrap();
        let mut states = vec![NodeState::Waiting; steps.len()];
        let mut picks = picks.into_iter().cycle();
        let end = loop {
            let next = graph.next(&states);
            prop_assert!(next.ready.is_sorted());
            let is_broken = !next.stop.is_empty();
            for (at, outcome) in next.settled {
                prop_assert_eq!(states[at], NodeState::Waiting);
                states[at] = NodeState::Settled(outcome);
            }
            prop_assert_eq!(&graph.next(&states).settled, &vec![], "all at once");
            if let Some(end) = next.end {
                break end;
            }
            let running: Vec<usize> = (0..steps.len()).filter(|at| states[*at] == NodeState::Running).collect();
            if is_broken {
                prop_assert_eq!(&next.stop, &running);
                prop_assert!(next.ready.is_empty());
                next.stop.iter().for_each(|at| states[*at] = NodeState::Settled(Cancelled));
                continue;
            }
            let choices = next.ready.len() + running.len();
            prop_assert!(choices > 0, "it never stands still");
            let pick = picks.next().unwrap() % choices;
            match next.ready.get(pick) {
                Some(at) => states[*at] = NodeState::Running,
                None => {
                    let at = running[pick - next.ready.len()];
                    states[at] = NodeState::Settled(comes_to[at]);
                }
            }
        };
        let (reference, unhandled) = naive(&steps, &comes_to);
        prop_assert_eq!(matches!(end, GraphEnd::Failed { .. }), unhandled);
        for (state, reference) in states.iter().zip(reference) {
            let NodeState::Settled(outcome) = state else { panic!("{state:?}") };
            prop_assert!(Some(*outcome) == reference || (unhandled && *outcome == Cancelled));
        }
    }

    #[test]
    fn no_needs_make_a_graph_panic(needs in prop::collection::vec(prop::collection::vec(0..6_usize, 0..4), 0..6)) {
        let names: Vec<String> = (0..6).map(|at| format!("n{at}")).collect();
        let steps: Vec<PlanStep> = needs.iter().enumerate().map(|(at, needs)| {
            let needs: Vec<&str> = needs.iter().map(|need| names[*need].as_str()).collect();
            step(&names[at], &needs, NeedsCondition::Success)
        }).collect();
        let has_circle = {
            let mut left: Vec<usize> = (0..steps.len()).collect();
            let all_there = needs.iter().flatten().all(|need| *need < steps.len());
            while let Some(place) = left.iter().position(|at| needs[*at].iter().all(|need| !left.contains(need))) {
                left.remove(place);
            }
            !all_there || !left.is_empty()
        };
        prop_assert_eq!(PlanGraph::new(&steps).is_err(), has_circle);
    }
}

#[test]
fn a_run_that_goes_on_does_what_failed_again_and_keeps_what_was_handled() {
    use NodeOutcome::{Cancelled, Failed, Skipped, Succeeded};
    let steps = [
        step("flaky", &[], NeedsCondition::Success),
        step("mend", &["flaky"], NeedsCondition::Failure),
        step("build", &["mend"], NeedsCondition::Success),
        step("beside", &["mend"], NeedsCondition::Success),
        step("other", &["build"], NeedsCondition::Failure),
        step("ship", &["beside"], NeedsCondition::Success),
    ];
    let mut run = Run::new(&steps[..4]);
    run.settle("flaky", Failed);
    run.settle("mend", Succeeded);
    run.start("beside");
    run.settle("build", Failed);
    let ends = [Some(Failed), Some(Succeeded), Some(Failed), Some(Cancelled)];
    let settled = NodeState::Settled;
    assert_eq!(
        run.graph.resumed(&ends),
        [settled(Failed), settled(Succeeded), NodeState::Waiting, NodeState::Waiting],
        "the handled failure stands, what nobody handled and what it cancelled do not"
    );
    let graph = PlanGraph::new(&steps).unwrap();
    let ends = [Some(Succeeded), Some(Skipped), Some(Skipped), Some(Skipped), Some(Skipped), None];
    let stands = graph.resumed(&ends);
    assert_eq!(stands[1..5], [settled(Skipped); 4], "a branch that was not taken stays so");
    assert_eq!(stands[5], NodeState::Waiting);
}

#[test]
fn what_was_skipped_because_of_a_failure_is_looked_at_again() {
    use NodeOutcome::{Failed, Skipped, Succeeded};
    let steps = [
        step("a", &[], NeedsCondition::Success),
        step("b", &["a"], NeedsCondition::Success),
        step("c", &["b"], NeedsCondition::Success),
    ];
    let graph = PlanGraph::new(&steps).unwrap();
    let stands = graph.resumed(&[Some(Failed), Some(Skipped), Some(Skipped)]);
    assert_eq!(stands, [NodeState::Waiting; 3]);
    let nested = [
        actor("group", &[], NeedsCondition::Success),
        step("group/a", &[], NeedsCondition::Success),
        step("group/b", &["group/a"], NeedsCondition::Success),
        step("after", &["group"], NeedsCondition::Failure),
    ];
    let graph = PlanGraph::new(&nested).unwrap();
    let all = [Some(Failed), Some(Failed), Some(NodeOutcome::Cancelled), Some(Succeeded)];
    let stands = graph.resumed(&all);
    assert!(stands.iter().all(|state| matches!(state, NodeState::Settled(_))), "{stands:?}");
    let broken_off = graph.resumed(&[None, Some(Failed), None, None]);
    assert_eq!(broken_off, [NodeState::Waiting; 4], "an actor that has not ended handles nothing yet");
}
