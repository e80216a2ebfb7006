//! A plan as the context pipeline sees it: its projects with its changes, its decisions and the messages to
//! it.
//!
//! # Invariants
//! 1. A plan that is applied or cancelled is seen without its changes: your files are what they are.
//! 2. The message of a check is reported with the place that it names; a message without a place is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use domain::context::{DecisionFact, FileLocation, PlanFacts, ProjectIndex};
use domain::{
    Decision, DecisionKind, FileState, Hash, Kind, NetChange, Plan, PlanId, RelPath, RootIndex,
    ValidationOutcome, fold,
};
use store::{PlanStoreError, StoreError};

use super::trees::StoredChangesTree;
use super::{ContextProject, ProjectChanges};
use crate::engine::{Engine, EngineInner};
use crate::plan::create::path_of;
use crate::query::details::results_of;

/// The maximum number of places in the messages of checks.
const FINDINGS_MAX: usize = 50;
/// The maximum number of characters of a line that names a place.
const FINDING_CHARS_MAX: usize = 300;

/// A plan as the context pipeline sees it.
pub struct PlanContextView {
    /// Its projects, with what it changed.
    pub projects: Vec<ContextProject>,
    /// The decisions and changes of the plan, and the messages to it.
    pub facts: PlanFacts,
}

impl Engine {
    /// The pipeline of this process.
    pub fn contexts(&self) -> &super::Contexts {
        &self.inner.contexts
    }

    /// Returns the view of a plan for its requests, as the store has it, and the facts about the plan.
    ///
    /// # Errors
    /// There is no such plan, or the store failed.
    pub async fn plan_context_view(&self, id: PlanId) -> Result<PlanContextView, PlanStoreError> {
        let plan = self.inner.store.plan(id).await?;
        Ok(self.inner.plan_context_view(&plan).await?)
    }
}

impl EngineInner {
    /// The projects of a plan with its changes as the store has them, and what is known of it.
    pub(crate) async fn plan_context_view(&self, plan: &Plan) -> Result<PlanContextView, StoreError> {
        let net = match plan.state.is_final() {
            true => Vec::new(),
            false => fold(&self.entries(plan).await?),
        };
        let facts = self.context_facts(plan, &net).await?;
        let numbered = plan.projects.iter().zip(0..);
        let projects = numbered.map(|(project, no)| {
            let of_plan = ContextProject::at(path_of(&project.root), project.alias.clone());
            let files = kept_files(&net, RootIndex(no));
            if files.is_empty() {
                return of_plan;
            }
            let paths = Arc::new(files.keys().cloned().collect::<BTreeSet<_>>());
            let tree = Arc::new(StoredChangesTree { store: Arc::clone(&self.store), files });
            of_plan.with(ProjectChanges { tree, paths })
        });
        Ok(PlanContextView { projects: projects.collect(), facts })
    }

    /// Returns the facts about a plan that has changed `net`. They are its live decisions, newest first, its
    /// changed files, and the places that its failed checks named.
    pub(crate) async fn context_facts(
        &self,
        plan: &Plan,
        net: &[NetChange],
    ) -> Result<PlanFacts, StoreError> {
        let decisions = self.store.decisions(plan.id).await?;
        let stand = decisions.iter().rev().filter(|decision| is_told(decision));
        let touched = net.iter().flat_map(changed_paths).map(|(root, path)| FileLocation::file(root, path));
        let mut findings = Vec::new();
        let net_hash = domain::net_hash(net).to_string();
        for result in results_of(&self.calls(plan).await?) {
            let is_news = result.outcome != ValidationOutcome::Passed && result.net_hash == net_hash;
            if is_news {
                findings.extend(places_in(&result.message, plan));
            }
        }
        findings.truncate(FINDINGS_MAX);
        Ok(PlanFacts {
            plan: plan.id,
            decisions: stand.map(|decision| self.decision_fact(decision)).collect(),
            touched: touched.collect::<BTreeSet<_>>().into_iter().collect(),
            findings,
        })
    }

    fn decision_fact(&self, decision: &Decision) -> DecisionFact {
        let new = &decision.new;
        let shown = |text: &str| self.redactor.redact_text(text);
        DecisionFact {
            question: shown(&new.question),
            chosen: shown(&new.chosen),
            why: shown(&new.rationale),
            distance: 0,
        }
    }
}

/// The prompt is what is asked for anyway.
fn is_told(decision: &Decision) -> bool {
    decision.superseded_by.is_none() && decision.new.kind != DecisionKind::Prompt
}

/// A file's path and, of one that was moved, where it was.
fn changed_paths(change: &NetChange) -> Vec<(ProjectIndex, RelPath)> {
    let paths = std::iter::once(&change.path).chain(&change.from);
    paths.map(|path| (change.root, path.clone())).collect()
}

/// Returns the content and the size at each changed path of a project; `None` if no regular file is there
/// now.
fn kept_files(net: &[NetChange], root: RootIndex) -> BTreeMap<RelPath, Option<(Hash, u64)>> {
    let mut files = BTreeMap::new();
    for change in net.iter().filter(|change| change.root == root) {
        if let Some(from) = &change.from {
            files.entry(from.clone()).or_insert(None);
        }
        let content = |state: FileState| (state.kind == Kind::File).then_some((state.hash, state.size));
        let is_file = |state: Option<FileState>| state.is_some_and(|state| state.kind != Kind::Dir);
        if is_file(change.before) || is_file(change.after) {
            files.insert(change.path.clone(), change.after.and_then(content));
        }
    }
    files
}

/// The places that a check's output names, as `PATH:LINE`, each with the line of output that does.
fn places_in(output: &str, plan: &Plan) -> Vec<(FileLocation, String)> {
    let mut found = BTreeMap::new();
    for line in output.lines() {
        for (path, number) in line.split_whitespace().filter_map(place_in) {
            let Some((project, path)) = in_project(path, plan) else { continue };
            let said = || line.trim().chars().take(FINDING_CHARS_MAX).collect::<String>();
            found.entry(FileLocation::lines(project, path, number, number)).or_insert_with(said);
        }
    }
    found.into_iter().take(FINDINGS_MAX).collect()
}

/// The path and the line of a word such as `src/a.rs:12:5:` or `(a.py:3)`.
fn place_in(word: &str) -> Option<(&str, u32)> {
    let word = word.trim_matches(|mark: char| "`'\"()[]{}<>,;".contains(mark));
    let (path, rest) = word.split_once(':')?;
    let digits = rest.split(|mark: char| !mark.is_ascii_digit()).next()?;
    let number: u32 = digits.parse().ok()?;
    let is_path = path.contains('.') || path.contains('/');
    (is_path && number > 0).then_some((path, number))
}

/// Returns the project that contains a path that a check named. A relative path is relative to the first
/// project's root.
fn in_project(path: &str, plan: &Plan) -> Option<(ProjectIndex, RelPath)> {
    let path = Path::new(path.trim_start_matches("./"));
    if path.is_relative() {
        return Some((RootIndex(0), RelPath::new(path.to_str()?).ok()?));
    }
    let numbered = plan.projects.iter().zip(0..);
    let mut below = numbered.filter_map(|(project, no)| {
        let rest = path.strip_prefix(path_of(&project.root)).ok()?;
        Some((RootIndex(no), RelPath::new(rest.to_str()?).ok()?))
    });
    below.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_path_and_a_line() {
        for (word, place) in [
            ("src/a.rs:12:5:", Some(("src/a.rs", 12))),
            ("(a.py:3)", Some(("a.py", 3))),
            ("`lib/x.go:7`,", Some(("lib/x.go", 7))),
            ("/p/q.c:1:", Some(("/p/q.c", 1))),
            ("error:", None),
            ("12:30", None),
            ("a.rs:0", None),
            ("a.rs:x", None),
            ("http://x", None),
        ] {
            assert_eq!(place_in(word), place, "{word}");
        }
    }
}
