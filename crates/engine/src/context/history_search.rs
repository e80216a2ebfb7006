//! Searches the history for actors that work on a plan: decisions, errors, contexts, commits.
//!
//! # Invariants
//! 1. A match holds the text that was asked for in its own text, whatever the case of its letters. The newest
//!    comes first; of one moment the order is that of the kinds, then of the ids.
//! 2. The matches are redacted, and each is bounded.
//! 3. Commits are those of the projects alone; outside a plan there is nothing else.
//!
//! # Not here
//! Permission to ask, and the record of the call: `run::call::tool`, and the program.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actors::tool::{HISTORY_TEXT_CHARS_MAX, HistoryKind, HistoryQuestion};
use domain::context::ContextRecord;
use domain::text::truncate_chars;
use domain::{Day, Decision, ErrorHistory, PlanId, WallMs};
use sandbox::git::log::{GitHistory, GitLogError};
use serde_json::{Value, json};
use store::{Store, StoreError};

use crate::engine::Engine;
use crate::query::details::{ErrorMoment, error_moments};

/// The number of commits of a project that are looked through.
const COMMITS_MAX: u32 = 2_000;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryMatch {
    /// The kind of the event.
    pub kind: HistoryKind,
    /// Its name.
    pub id: String,
    /// When.
    pub at: WallMs,
    /// In words.
    pub text: String,
}

/// The error if the commits of a project cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the history of {} cannot be read", project.display())]
pub struct ReadCommitsError {
    /// The path of the project.
    pub project: PathBuf,
    /// The error of git.
    #[source]
    pub source: GitLogError,
}

/// Returns the events that the question asks for, in the form of tool answers.
pub fn answer(
    question: &HistoryQuestion,
    mut past: Vec<HistoryMatch>,
    redact: &dyn Fn(&str) -> String,
) -> Value {
    let wanted = question.text.to_lowercase();
    past.retain(|one| question.wants(one.kind));
    past.sort_by(|a, b| (Reverse(a.at), a.kind, &a.id).cmp(&(Reverse(b.at), b.kind, &b.id)));
    // Redacted before it is searched: no caller finds out a secret by asking for parts of it.
    let redacted = past.into_iter().map(|one| HistoryMatch { text: redact(&one.text), ..one });
    let mut found = redacted.filter(|one| one.text.to_lowercase().contains(&wanted));
    let limit = usize::try_from(question.limit).unwrap_or(usize::MAX);
    let matches: Vec<Value> = found.by_ref().take(limit).map(|one| shown(&one)).collect();
    json!({ "matches": matches, "truncated": found.next().is_some() })
}

fn shown(one: &HistoryMatch) -> Value {
    json!({ "kind": one.kind.as_str(), "id": one.id, "at": stamp(one.at), "text": truncate_chars(&one.text, HISTORY_TEXT_CHARS_MAX) })
}

fn stamp(at: WallMs) -> String {
    let seconds = at.0 / 1_000 % 86_400;
    format!("{}T{:02}:{:02}:{:02}Z", Day::from_wall(at), seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Returns the events of a plan.
///
/// # Errors
/// The store failed.
pub(crate) async fn of_plan(store: &dyn Store, plan: PlanId) -> Result<Vec<HistoryMatch>, StoreError> {
    let decisions = store.decisions(plan).await?;
    let (errors, moments) = (store.history(plan).await?, error_moments(store, plan).await?);
    let contexts = store.contexts(plan).await?;
    let all =
        decisions.iter().map(decision).chain(failures(&errors, &moments)).chain(contexts.iter().map(given));
    Ok(all.collect())
}

fn decision(decision: &Decision) -> HistoryMatch {
    let new = &decision.new;
    let parts = [new.question.as_str(), new.chosen.as_str(), new.rationale.as_str()];
    let [question, chosen, why] = parts.map(str::trim);
    let mut text = match (question, chosen) {
        (question, "") => question.to_owned(),
        (question, chosen) => format!("{question} → {chosen}"),
    };
    if !why.is_empty() {
        text.push_str(": ");
        text.push_str(why);
    }
    if !decision.is_live() {
        text.insert_str(0, "(superseded) ");
    }
    HistoryMatch { kind: HistoryKind::Decision, id: decision.id.to_string(), at: decision.created, text }
}

fn failures<'a>(
    history: &'a ErrorHistory,
    moments: &'a [ErrorMoment],
) -> impl Iterator<Item = HistoryMatch> + 'a {
    history.records().map(|record| {
        let of_it = |moment: &&ErrorMoment| moment.seq == record.recovery.seq;
        let error = &record.error;
        let text = format!("{}: {}: {}", error.step().node, error.category().as_str(), error.message());
        let at = moments.iter().find(of_it).map(|moment| moment.at).unwrap_or_default();
        HistoryMatch { kind: HistoryKind::Error, id: error.id().to_string(), at, text }
    })
}

fn given(context: &ContextRecord) -> HistoryMatch {
    let text = format!("{}, {} tokens: {}", context.node, context.tokens(), context.query());
    HistoryMatch { kind: HistoryKind::Context, id: context.id.to_string(), at: context.at, text }
}

/// The commits of a project, the newest first; none where there is no git.
///
/// # Errors
/// Git cannot be run, says no, or was stopped.
pub(crate) fn commits(
    project: &Path,
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<HistoryMatch>, ReadCommitsError> {
    let unread = |source| ReadCommitsError { project: project.to_owned(), source };
    let Some(history) = GitHistory::around(project) else { return Ok(Vec::new()) };
    if history.head(is_over).map_err(unread)?.is_none() {
        return Ok(Vec::new());
    }
    let log = history.log(None, COMMITS_MAX, 1, is_over).map_err(unread)?;
    let past = log.commits.into_iter().map(|commit| HistoryMatch {
        kind: HistoryKind::Commit,
        id: commit.oid,
        at: WallMs(u64::try_from(commit.at).unwrap_or(0).saturating_mul(1_000)),
        text: commit.message.trim().to_owned(),
    });
    Ok(past.collect())
}

impl Engine {
    /// Returns the commits of projects, as the tool `query_history` answers outside a plan.
    ///
    /// # Errors
    /// Git cannot be run, or says no.
    pub async fn project_history(
        &self,
        roots: Vec<PathBuf>,
        question: HistoryQuestion,
    ) -> Result<Value, ReadCommitsError> {
        let engine = Arc::clone(&self.inner);
        let looked = tokio::task::spawn_blocking(move || {
            let wanted = roots.iter().filter(|_| question.wants(HistoryKind::Commit));
            let all = wanted.map(|root| commits(root, &|| false)).collect::<Result<Vec<_>, _>>()?;
            Ok(answer(&question, all.concat(), &|text| engine.redactor.redact_text(text)))
        });
        looked.await.unwrap_or_else(|error| {
            let source = GitLogError::Failed { message: error.to_string() };
            Err(ReadCommitsError { project: PathBuf::new(), source })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(kind: HistoryKind, id: &str, at: u64, text: &str) -> HistoryMatch {
        HistoryMatch { kind, id: id.to_owned(), at: WallMs(at), text: text.to_owned() }
    }

    fn all() -> Vec<HistoryMatch> {
        vec![
            past(HistoryKind::Commit, "c1", 1_000, "Mend the LOGIN\n\nbody"),
            past(HistoryKind::Error, "e1", 3_000, "code: timeout: login hung"),
            past(HistoryKind::Decision, "d1", 2_000, "which way → the short one"),
            past(HistoryKind::Decision, "d2", 3_000, &"Login ".repeat(100)),
        ]
    }

    fn ids(question: &HistoryQuestion) -> (Vec<String>, bool) {
        let answer = answer(question, all(), &|text| text.replace("hung", "[redacted]"));
        let ids = answer["matches"].as_array().unwrap().iter();
        (ids.map(|one| one["id"].as_str().unwrap().to_owned()).collect(), answer["truncated"] == true)
    }

    fn question(text: &str, kinds: &[HistoryKind], limit: u32) -> HistoryQuestion {
        HistoryQuestion { text: text.to_owned(), kinds: kinds.to_vec(), limit }
    }

    #[test]
    fn the_newest_that_holds_the_text_in_any_case_comes_first() {
        let found = |text: &str, kinds: &[HistoryKind], limit| {
            let (ids, truncated) = ids(&question(text, kinds, limit));
            (ids.join(" "), truncated)
        };
        assert_eq!(found("login", &[], 20), ("d2 e1 c1".to_owned(), false));
        assert_eq!(found("", &[], 20), ("d2 e1 d1 c1".to_owned(), false));
        assert_eq!(found("", &[], 2), ("d2 e1".to_owned(), true));
        assert_eq!(found("", &[HistoryKind::Commit, HistoryKind::Error], 20), ("e1 c1".to_owned(), false));
        assert_eq!(found("nowhere", &[], 20), (String::new(), false));
        assert_eq!(found("hung", &[], 20), (String::new(), false), "what is hidden is not found");
    }

    #[test]
    fn a_match_is_bounded_and_says_when() {
        let answer = answer(&question("login", &[HistoryKind::Decision], 1), all(), &str::to_owned);
        let one = &answer["matches"][0];
        assert_eq!(one["text"].as_str().unwrap().chars().count(), HISTORY_TEXT_CHARS_MAX);
        assert_eq!(one["at"], "1970-01-01T00:00:03Z");
        assert_eq!(stamp(WallMs(1_794_787_200_000 + 3_661_000)), "2026-11-16T01:01:01Z");
    }
}
