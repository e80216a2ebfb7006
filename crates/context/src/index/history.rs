//! The newest commits: which words their messages have, and which paths changed together.
//!
//! # Invariants
//! 1. The stored history after any number of updates equals the result of a look at all of history. History
//!    is read again from the beginning if new commits are not all younger than the known ones. The same holds
//!    if HEAD does not descend from its former commit, or a clone was made deeper.
//! 2. Only commits of 1 to [`COMMIT_PATHS_MAX`] paths are stored; the others count in the ranks.

use std::sync::Arc;

use domain::RelPath;
use domain::text::first_bytes;
use rusqlite::{OptionalExtension, params};

use super::codec::{decode_counts, encode_counts};
use super::disk::{DiskError, DiskIndex};
use super::snapshot::{CommitFacts, Oid};
use super::terms;
use crate::StopCheck;
use crate::ports::{COMMIT_PATHS_MAX, Commit, History, PortError};

/// The number of bytes of a message that are indexed.
const MESSAGE_BYTES_MAX: usize = 600;

/// The number of bytes of its first line that are stored.
const SUBJECT_BYTES_MAX: usize = 200;

/// The known part of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownHistory {
    /// The newest commit at that time.
    pub(super) head: Option<Oid>,
    /// The mark of the place at which history was cut off then.
    pub(super) cut_at: String,
    /// The number of commits that were asked for.
    pub(super) max: u32,
    /// The time of the youngest of all commits, including those that are not reported.
    pub(super) youngest_at: Option<i64>,
    pub(super) commits: Arc<[CommitFacts]>,
}

/// Returns the updated history; `None` if nothing changed.
pub(super) fn refresh(
    history: &dyn History,
    known: &KnownHistory,
    max: u32,
    stop: &StopCheck,
) -> Result<Option<KnownHistory>, PortError> {
    let head = if max == 0 { None } else { history.head(stop)? };
    let cut_at = if max == 0 { String::new() } else { history.cut_at() };
    let is_as_long = max == known.max && cut_at == known.cut_at;
    if head == known.head && is_as_long {
        return Ok(None);
    }
    let Some(head) = head else { return Ok(Some(KnownHistory { max, cut_at, ..KnownHistory::default() })) };
    if let Some(old) = known.head.as_ref().filter(|_| is_as_long) {
        let log = history.log(Some(old), max, stop)?;
        if log.joins && log.commits.iter().all(|commit| Some(commit.at) > known.youngest_at) {
            return Ok(Some(known.with(head, &log.commits)));
        }
    }
    let log = history.log(None, max, stop)?;
    Ok(Some(KnownHistory { max, cut_at, ..KnownHistory::default() }.with(head, &log.commits)))
}

impl KnownHistory {
    /// The same with newer commits.
    fn with(&self, head: Oid, new: &[Commit]) -> KnownHistory {
        let youngest_at = new.iter().map(|commit| commit.at).max().max(self.youngest_at);
        let commits = join_commits(new, &self.commits, self.max);
        KnownHistory { head: Some(head), cut_at: self.cut_at.clone(), max: self.max, youngest_at, commits }
    }
}

fn join_commits(new: &[Commit], old: &[CommitFacts], max: u32) -> Arc<[CommitFacts]> {
    let shift = u32::try_from(new.len()).unwrap_or(u32::MAX);
    let told =
        new.iter().enumerate().filter(|(_, commit)| (1..=COMMIT_PATHS_MAX).contains(&commit.paths.len()));
    let told = told.map(|(rank, commit)| facts(commit, rank as u32));
    let kept =
        old.iter().map(|commit| CommitFacts { rank: commit.rank.saturating_add(shift), ..commit.clone() });
    told.chain(kept).filter(|commit| commit.rank < max).collect()
}

fn facts(commit: &Commit, rank: u32) -> CommitFacts {
    let message = without_trailers(&commit.message);
    let mut paths = commit.paths.clone();
    paths.sort();
    CommitFacts {
        oid: commit.oid.clone(),
        rank,
        at: commit.at,
        subject: first_bytes(message.lines().next().unwrap_or_default(), SUBJECT_BYTES_MAX).to_owned(),
        terms: terms::of_text(first_bytes(message, MESSAGE_BYTES_MAX)),
        paths,
    }
}

/// A message without a last paragraph that is made of `Name: value` lines.
pub(super) fn without_trailers(message: &str) -> &str {
    let message = message.trim();
    let Some((before, last)) = message.rsplit_once("\n\n") else { return message };
    if last.lines().all(is_trailer) { before.trim_end() } else { message }
}

fn is_trailer(line: &str) -> bool {
    let name = line.split_once(": ").map_or("", |(name, _)| name);
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name || line.starts_with("(cherry picked from")
}

impl DiskIndex {
    /// The stored history; what cannot be read is none.
    pub(super) fn history(&self) -> Result<KnownHistory, DiskError> {
        let meta = |key: &str| {
            let mut select = self.connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
            select.query_row([key], |row| row.get::<_, String>(0)).optional()
        };
        let (head, max, youngest) = (meta("head")?, meta("history_commits")?, meta("youngest_at")?);
        let cut_at = meta("history_cut_at")?.unwrap_or_default();
        let Some(head) = head.and_then(|head| Oid::new(&head)) else { return Ok(KnownHistory::default()) };
        let mut select = self
            .connection
            .prepare_cached("SELECT rank, oid, at, subject, terms, paths FROM commits ORDER BY rank")?;
        let mut found = select.query([])?;
        let mut commits = Vec::new();
        while let Some(row) = found.next()? {
            let (oid, terms, paths): (String, Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(4)?, row.get(5)?);
            let (Some(oid), Some(terms)) = (Oid::new(&oid), decode_counts(&terms)) else {
                return Ok(KnownHistory::default());
            };
            let paths = paths.split(|byte| *byte == 0).filter_map(|path| RelPath::new(path).ok()).collect();
            commits.push(CommitFacts {
                oid,
                rank: row.get(0)?,
                at: row.get(2)?,
                subject: row.get(3)?,
                terms,
                paths,
            });
        }
        let max = max.and_then(|max| max.parse().ok()).unwrap_or(0);
        let youngest_at = youngest.and_then(|at| at.parse().ok());
        Ok(KnownHistory { head: Some(head), cut_at, max, youngest_at, commits: commits.into() })
    }

    pub(super) fn save_history(&mut self, known: &KnownHistory) -> Result<(), DiskError> {
        let transaction = self.begin()?;
        transaction.execute("DELETE FROM commits", [])?;
        for commit in known.commits.iter() {
            let paths = commit.paths.iter().map(RelPath::as_bytes).collect::<Vec<_>>().join(&0);
            transaction
                .prepare_cached("INSERT INTO commits(rank, oid, at, subject, terms, paths) VALUES(?1, ?2, ?3, ?4, ?5, ?6)")?
                .execute(params![
                    commit.rank,
                    commit.oid.as_str(),
                    commit.at,
                    commit.subject,
                    encode_counts(&commit.terms),
                    paths
                ])?;
        }
        let head = known.head.as_ref().map_or("", Oid::as_str);
        let youngest = known.youngest_at.map(|at| at.to_string()).unwrap_or_default();
        let max = known.max.to_string();
        let all = [
            ("head", head),
            ("history_cut_at", &known.cut_at),
            ("history_commits", &max),
            ("youngest_at", &youngest),
        ];
        for (key, value) in all {
            transaction
                .prepare_cached("INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)")?
                .execute(params![key, value])?;
        }
        Ok(transaction.commit()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_are_no_part_of_what_a_commit_says() {
        let table = [
            ("fix it", "fix it"),
            ("fix it\n\nSigned-off-by: A <a@b>\nRefs: 12\n", "fix it"),
            ("fix it\n\nbecause: of this\nand that", "fix it\n\nbecause: of this\nand that"),
            ("Refs: 12", "Refs: 12"),
            ("a\n\n(cherry picked from commit 12)", "a"),
        ];
        for (message, said) in table {
            assert_eq!(without_trailers(message), said);
        }
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        assert_eq!(first_bytes("aä", 2), "a");
        assert_eq!(first_bytes("aä", 3), "aä");
        assert_eq!(first_bytes("a", 9), "a");
    }
}
