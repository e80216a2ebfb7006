//! Files that the requesting plan changed, that its messages name or that it decided on.
//!
//! # Not here
//! The decisions as text: they are shown for themselves, before all files.

use std::collections::BTreeMap;

use domain::context::{Candidate, DecisionFact, FileLocation, Name, PlanFacts};

use super::{Confidence, ContextStrategy};
use crate::focus::mentions;
use crate::request_inputs::RequestInputs;
use crate::{SearchStrategy, StopCheck, StrategyError};

const TOUCHED: f32 = 1.0;
const FINDING: f32 = 0.9;
const DECIDED: f32 = 0.6;
/// The weight of a parent plan's decision, relative to one of this plan.
const PER_PLAN_UP: f32 = 0.8;
/// From so far up a decision says nothing any more.
const PLANS_UP_MAX: u32 = 32;

/// Proposes what the plan itself points at.
#[derive(Clone, Debug)]
pub struct PlanDecisionContext {
    pub(super) name: Name,
}

impl SearchStrategy for PlanDecisionContext {
    type Prepared = RequestInputs;
    type Candidate = Candidate;

    fn name(&self) -> &Name {
        &self.name
    }

    fn find(
        &self,
        prepared: &RequestInputs,
        limit: usize,
        stop: &StopCheck,
    ) -> Result<Vec<Candidate>, StrategyError> {
        let Some(plan) = prepared.plan() else {
            return Ok(Vec::new());
        };
        let mut best: BTreeMap<FileLocation, f32> = BTreeMap::new();
        let mut propose = |place: FileLocation, score: f32| {
            let kept = best.entry(place).or_insert(score);
            *kept = kept.max(score);
        };
        plan.touched.iter().for_each(|place| propose(place.clone(), TOUCHED));
        plan.findings.iter().for_each(|(place, _)| propose(place.clone(), FINDING));
        for decision in &plan.decisions {
            stop.check()?;
            let score = DECIDED * PER_PLAN_UP.powi(decision.distance.min(PLANS_UP_MAX) as i32);
            for anchor in mentions(&prepared.ground, &words(decision)) {
                let place = prepared.place(anchor.file);
                propose(FileLocation { span: anchor.span, ..place }, score);
            }
        }
        let mut found: Vec<Candidate> =
            best.into_iter().map(|(place, score)| Candidate { place, score }).collect();
        // Stable: of equals the first by place.
        found.sort_by(|one, other| other.score.total_cmp(&one.score));
        found.truncate(limit);
        Ok(found)
    }
}

impl ContextStrategy for PlanDecisionContext {
    fn confidence(&self, prepared: &RequestInputs) -> Confidence {
        match prepared.plan() {
            None => Confidence::none("no plan asks"),
            Some(PlanFacts { decisions, touched, findings, .. })
                if decisions.is_empty() && touched.is_empty() && findings.is_empty() =>
            {
                Confidence::none("the plan has no decisions, changes or findings yet")
            }
            Some(_) => Confidence::Of(1.0),
        }
    }
}

fn words(decision: &DecisionFact) -> String {
    format!("{} {} {}", decision.question, decision.chosen, decision.why)
}
