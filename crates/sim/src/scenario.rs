//! The scenario of a run: its workers, its plans with their nodes, and the users' actions. Drawn from the
//! seed at once.

use std::time::Duration;

use domain::{GateDecision, Ms, NewJob, NewPlan, Phase, PlanId, ProjectLink, RecoveryPolicy};
use serde_json::json;

use crate::random::Random;

/// The number of files of the project. A node writes at most two, so that twenty have their own.
pub(crate) const FILES: u32 = 40;
const NODES_MAX: u64 = 20;

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) lease: Duration,
    pub(crate) workers: u64,
    pub(crate) max_workers: usize,
    pub(crate) concurrency: u32,
    pub(crate) idle_poll: Duration,
    pub(crate) plans: Vec<PlanScript>,
    pub(crate) policy: RecoveryPolicy,
    /// The time for which faults may strike.
    pub(crate) stormy: Duration,
    /// True if the processes of a worker die with it, as those of a pid namespace do.
    pub(crate) has_namespaces: bool,
    /// The limit of all plans together for a day, in tokens.
    pub(crate) day_tokens: Option<u64>,
    /// True if the model answers garbage, a hundred times and more.
    pub(crate) has_flood: bool,
    /// The rate at which a step of the store meets a fault, in ten thousand.
    pub(crate) fault_rate: u32,
}

/// One plan, and its person.
#[derive(Clone, Debug)]
pub(crate) struct PlanScript {
    pub(crate) id: PlanId,
    pub(crate) begins_after: Duration,
    pub(crate) nodes: Vec<NodeScript>,
    /// The gate decision: says whether it is applied without asking.
    pub(crate) applies: GateDecision,
    /// The number of times that its person repeats a request.
    pub(crate) patience: u32,
    /// The limit of its spends, in tokens.
    pub(crate) tokens_max: u64,
    /// True if its result is checked.
    pub(crate) has_check: bool,
}

/// One node of the graph.
#[derive(Clone, Debug)]
pub(crate) struct NodeScript {
    pub(crate) name: String,
    /// The nodes that come before, by index.
    pub(crate) after: Vec<usize>,
    pub(crate) actor: NodeActor,
    pub(crate) takes: Duration,
    /// The files that it writes.
    pub(crate) writes: Vec<u32>,
    pub(crate) records: ChangeRecording,
}

/// The actor of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeActor {
    Tool,
    Model,
}

/// The way in which the changes of a node are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeRecording {
    /// With the end of its call.
    WithTheCall,
    /// One by one, through the handle of the changeset.
    ByHandle,
    /// One by one, into whichever changeset is the latest.
    IntoTheLatest,
}

impl Scenario {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let lease = Duration::from_secs(random.pick(&[20, 30, 60]).unwrap_or(30));
        // Few plans and nodes are the rule: many runs find more than long ones.
        let plans = if random.chance(8_500) { random.between(1, 3) } else { random.between(4, 8) };
        let nodes_max = if random.chance(9_000) { 4 } else { NODES_MAX };
        let has_flood = random.chance(100);
        let (per_step, per_plan) = if has_flood { (100, 1_000) } else { (random.between(0, 4) as u32, 30) };
        let replan = if random.chance(5_000) { GateDecision::Auto } else { GateDecision::Ask };
        Self {
            lease,
            workers: random.between(1, 3),
            max_workers: random.between(1, 4) as usize,
            concurrency: random.between(1, 4) as u32,
            idle_poll: lease / 12,
            plans: (0..plans).map(|_| PlanScript::draw(random, lease, nodes_max)).collect(),
            policy: RecoveryPolicy::new(per_step, per_plan, replan, 3).unwrap_or_default(),
            stormy: lease * random.between(2, 8) as u32,
            has_namespaces: random.chance(7_000),
            day_tokens: random.chance(1_500).then(|| random.between(5, 40)),
            has_flood,
            fault_rate: random.pick(&[15, 40, 120, 400]).unwrap_or(40) as u32,
        }
    }

    pub(crate) fn plan(&self, id: PlanId) -> Option<&PlanScript> {
        self.plans.iter().find(|plan| plan.id == id)
    }
}

impl PlanScript {
    fn draw(random: &mut Random, lease: Duration, nodes_max: u64) -> Self {
        let count = random.between(1, nodes_max);
        let is_chain = random.chance(5_000);
        let nodes = (0..count).map(|no| NodeScript::draw(random, no, is_chain, lease)).collect();
        Self {
            id: PlanId::from_u128(u128::from(random.next()) << 8),
            begins_after: lease / 10 * random.below(20) as u32,
            nodes,
            applies: if random.chance(7_500) { GateDecision::Auto } else { GateDecision::Ask },
            patience: random.between(0, 3) as u32,
            tokens_max: if random.chance(1_000) { random.between(1, 8) } else { 1_000 },
            has_check: random.chance(7_000),
        }
    }

    pub(crate) fn new_plan(&self) -> NewPlan {
        let spec = json!({
            "task": {"run": "true"}, "max_file_bytes": 1_u64 << 20, "sandbox": "auto",
            "isolation_required": true, "time_limit_s": 7_200, "limits": {"tokens": self.tokens_max},
        });
        let spec = serde_json::from_value(spec);
        // A spec that cannot be read would be a mistake in this file, and every run would show it.
        #[expect(clippy::expect_used, reason = "the value is above")]
        let spec = spec.expect("a spec");
        let root = ProjectLink { alias: "p".to_owned(), root: "/p".into(), read_only: false };
        NewPlan { id: self.id, title: "simulated".to_owned(), spec, projects: vec![root] }
    }

    pub(crate) fn new_job(&self, id: u128, phase: Phase) -> NewJob {
        NewJob { id: domain::JobId::from_u128(id), plan: self.id, phase, not_before: Ms(0) }
    }
}

impl NodeScript {
    fn draw(random: &mut Random, no: u64, is_chain: bool, lease: Duration) -> Self {
        let index = no as usize;
        let after = match index {
            0 => Vec::new(),
            _ if is_chain => vec![index - 1],
            _ => vec![random.below(no) as usize],
        };
        let first = (no as u32 * 2) % FILES;
        let writes = (0..random.below(3) as u32).map(|more| first + more).collect();
        Self {
            name: format!("node/{no}"),
            after,
            actor: if random.chance(6_500) { NodeActor::Tool } else { NodeActor::Model },
            takes: lease / 100 * random.between(0, 3) as u32,
            writes,
            records: random
                .pick(&[
                    ChangeRecording::WithTheCall,
                    ChangeRecording::WithTheCall,
                    ChangeRecording::ByHandle,
                    ChangeRecording::IntoTheLatest,
                ])
                .unwrap_or(ChangeRecording::WithTheCall),
        }
    }
}
