//! How the breakers before providers changed, in every process of a data directory: the last lines of a small file.
//!
//! Breakers live in the memory of the process that asks; whoever looks on is another process. A change is rare, so it is
//! told by a line, and who looks reads what is new enough.
//!
//! # Invariants
//! 1. A change is one append, so that lines of several processes never mix.
//! 2. The file is bounded: beyond [`FILE_BYTES_MAX`] it makes way for a new one.
//! 3. What is told last of a provider is how it stands: who is answered by one that was said to rest says so.
//! 4. Nothing depends on it: what cannot be written or read is not shown.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actors::model::BreakerNews;
use domain::WallMs;
use serde::{Deserialize, Serialize};
use sync::Recorded;

use super::{Engine, wall_now};
use crate::event::{BreakerMove, Event, EventSink};

const FILE_BYTES_MAX: u64 = 64 * 1024;
/// What is older is no news.
const NEWS_MS: u64 = 15 * 60 * 1_000;
/// What breakers of providers are called by.
const PREFIX: &str = "model/";
/// What strategies of the context pipeline are told by.
const STRATEGY_PREFIX: &str = "context/";

/// A provider that was given a rest, or answers again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerChange {
    /// When.
    pub at: WallMs,
    /// The provider.
    pub provider: String,
    /// How long it is not asked; none when it answers again.
    pub rest_ms: Option<u64>,
}

impl BreakerChange {
    /// What is left of its rest.
    pub fn left(&self, now: WallMs) -> Option<Duration> {
        let until = self.at.0.saturating_add(self.rest_ms?);
        Some(until.saturating_sub(now.0)).filter(|left| *left > 0).map(Duration::from_millis)
    }
}

/// Writes down how breakers change.
pub(super) struct Board {
    file: PathBuf,
}

impl Board {
    pub(super) fn of(data_dir: &Path) -> Board {
        Board { file: data_dir.join("breakers.jsonl") }
    }

    fn write(&self, change: &BreakerChange) -> std::io::Result<()> {
        let mut line = serde_json::to_string(change)?;
        line.push('\n');
        if fs::metadata(&self.file).is_ok_and(|found| found.len() > FILE_BYTES_MAX) {
            fs::rename(&self.file, self.file.with_extension("old"))?;
        }
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.file)?;
        file.write_all(line.as_bytes())
    }

    /// The last change of each provider that is news, by name.
    fn read(&self, now: WallMs) -> Vec<BreakerChange> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let mut last = BTreeMap::new();
        for change in text.lines().filter_map(|line| serde_json::from_str::<BreakerChange>(line).ok()) {
            last.insert(change.provider.clone(), change);
        }
        last.into_values().filter(|change| now.0.saturating_sub(change.at.0) <= NEWS_MS).collect()
    }

    /// Tells that a provider answers, if it was last heard of as one that rests: the process that gave it a rest may be
    /// gone, and its breaker with it.
    fn answers(&self, provider: &str) {
        let at = wall_now();
        let rests = |change: &BreakerChange| change.provider == provider && change.rest_ms.is_some();
        if self.read(at).iter().any(rests) {
            let _ = self.write(&BreakerChange { at, provider: provider.to_owned(), rest_ms: None });
        }
    }
}

impl BreakerNews for Board {
    fn answered(&self, breaker: &str) {
        self.answers(breaker.strip_prefix(PREFIX).unwrap_or(breaker));
    }

    fn changed(&self, breaker: &str, how: Recorded) {
        let rest = match how {
            Recorded::Tripped { cool_down } | Recorded::Reopened { cool_down } => Some(cool_down),
            Recorded::Closed => None,
            Recorded::Counted | Recorded::Returned | Recorded::Stale => return,
        };
        let rest_ms = rest.map(|rest| u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
        let provider = breaker.strip_prefix(PREFIX).unwrap_or(breaker).to_owned();
        let _ = self.write(&BreakerChange { at: wall_now(), provider, rest_ms });
    }
}

/// Breakers of strategies are told like those of providers, by what they stand before.
impl EventSink for Board {
    fn emit(&self, event: &Event) {
        let Event::BreakerChanged { name, to } = event;
        let rest = match to {
            BreakerMove::Opened { cool_down } => Some(*cool_down),
            BreakerMove::Closed => None,
        };
        let rest_ms = rest.map(|rest| u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
        let provider = format!("{STRATEGY_PREFIX}{name}");
        let _ = self.write(&BreakerChange { at: wall_now(), provider, rest_ms });
    }
}

/// Where it is told how the breakers of this process change.
pub(crate) fn breakers_told(data_dir: &Path) -> Arc<dyn EventSink> {
    Arc::new(Board::of(data_dir))
}

impl Engine {
    /// Providers that were given a rest or answer again, in any process, in the last quarter of an hour: the last change
    /// of each, by name.
    pub fn breaker_changes(&self) -> Vec<BreakerChange> {
        Board::of(&self.house.options.data_dir).read(wall_now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_each_provider_is_news_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let board = Board::of(dir.path());
        let change = |at, provider: &str, rest_ms| BreakerChange {
            at: WallMs(at),
            provider: provider.to_owned(),
            rest_ms,
        };
        assert_eq!(board.read(WallMs(0)), []);
        for change in [change(1_000, "b", Some(500)), change(1_200, "a", Some(9)), change(2_000, "b", None)] {
            board.write(&change).unwrap();
        }
        assert_eq!(board.read(WallMs(2_000)), [change(1_200, "a", Some(9)), change(2_000, "b", None)]);
        assert_eq!(board.read(WallMs(1_500 + NEWS_MS)), [change(2_000, "b", None)]);
        assert_eq!(board.read(WallMs(2_001 + NEWS_MS)), []);
        let rests = change(1_000, "b", Some(500));
        assert_eq!(rests.left(WallMs(1_400)), Some(Duration::from_millis(100)));
        assert_eq!(rests.left(WallMs(1_500)), None);
        assert_eq!(change(2_000, "b", None).left(WallMs(2_000)), None);
    }

    #[test]
    fn one_that_answers_another_process_is_no_longer_said_to_rest() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (Board::of(dir.path()), Board::of(dir.path()));
        other.answered("model/x");
        assert!(!other.file.exists(), "nobody said that it rests");
        one.changed("model/x", Recorded::Tripped { cool_down: Duration::from_secs(300) });
        one.changed("model/y", Recorded::Tripped { cool_down: Duration::from_secs(300) });
        other.answered("model/x");
        other.answered("model/x");
        let told: Vec<(String, bool)> =
            one.read(wall_now()).into_iter().map(|told| (told.provider, told.rest_ms.is_some())).collect();
        assert_eq!(told, [("x".to_owned(), false), ("y".to_owned(), true)]);
        let lines = fs::read_to_string(&one.file).unwrap().lines().count();
        assert_eq!(lines, 3, "it is told once");
    }

    #[test]
    fn the_file_stays_small_and_a_broken_line_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let board = Board::of(dir.path());
        fs::write(&board.file, "{\"at\":1,\n").unwrap();
        for _ in 0..2_000 {
            board.changed("model/x", Recorded::Closed);
        }
        assert!(fs::metadata(&board.file).unwrap().len() <= FILE_BYTES_MAX + 200);
        assert_eq!(board.read(wall_now()).len(), 1);
    }
}
