//! The log of breaker changes in every process of a data directory: the last lines of a small file.
//!
//! Breakers are in the memory of the process that asks the provider; the process that displays them is
//! another one. A change is rare, so it is logged as a line, and the reader takes the lines that are new
//! enough.
//!
//! # Invariants
//! 1. A change is one append, so that lines of several processes never mix.
//! 2. The file is bounded: beyond [`FILE_BYTES_MAX`] it makes way for a new one.
//! 3. The last line of a provider is its state: a process that gets an answer from one that was logged as
//!    open logs so.
//! 4. Nothing depends on it: a line that cannot be written or read is not shown.
//! 5. A reset that the user asks for is a line too. Every process that has a context pipeline reads it before
//!    its next context, once, and closes its own breakers.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actors::model::BreakerListener;
use domain::WallMs;
use serde::{Deserialize, Serialize};
use sync::RecordOutcome;
use sync::primitives::{Mutex, lock};

use crate::clock::wall_now;
use crate::data_files::open_file;
use crate::engine::Engine;
use context::{BreakerMove, Event, EventSink};

const FILE_BYTES_MAX: u64 = 64 * 1024;
/// The age at which an entry is no news any more.
const NEWS_MS: u64 = 15 * 60 * 1_000;
/// The prefix of the names of providers' breakers.
const PREFIX: &str = "model/";
/// The prefix of the names of the context pipeline's strategies.
const STRATEGY_PREFIX: &str = "context/";

/// A provider that was given a rest, or answers again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderBreakerChange {
    /// When.
    pub at: WallMs,
    /// The provider.
    pub provider: String,
    /// The time of its rest; `None` if it answers again.
    pub rest_ms: Option<u64>,
}

impl ProviderBreakerChange {
    /// Returns the time that is left of its rest.
    pub fn left(&self, now: WallMs) -> Option<Duration> {
        let until = self.at.0.saturating_add(self.rest_ms?);
        Some(until.saturating_sub(now.0)).filter(|left| *left > 0).map(Duration::from_millis)
    }
}

/// A breaker that a person reset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BreakerReset {
    /// When.
    at: WallMs,
    /// The strategy.
    reset: String,
}

/// Writes down how breakers change.
pub(crate) struct BreakerLog {
    file: PathBuf,
}

impl BreakerLog {
    pub(crate) fn in_dir(data_dir: &Path) -> BreakerLog {
        BreakerLog { file: data_dir.join("breakers.jsonl") }
    }

    fn write(&self, change: &impl Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_string(change)?;
        line.push('\n');
        if self.len() > FILE_BYTES_MAX {
            fs::rename(&self.file, self.file.with_extension("old"))?;
        }
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.file)?;
        file.write_all(line.as_bytes())
    }

    /// The number of bytes that the file has.
    fn len(&self) -> u64 {
        fs::metadata(&self.file).map_or(0, |found| found.len())
    }

    /// The last change of each provider, by name.
    fn last(&self) -> BTreeMap<String, ProviderBreakerChange> {
        let text = open_file(&self.file).and_then(std::io::read_to_string).unwrap_or_default();
        let changes =
            text.lines().filter_map(|line| serde_json::from_str::<ProviderBreakerChange>(line).ok());
        changes.map(|change| (change.provider.clone(), change)).collect()
    }

    /// The last change of each provider that is news, by name.
    fn read(&self, now: WallMs) -> Vec<ProviderBreakerChange> {
        let last = self.last();
        last.into_values().filter(|change| now.0.saturating_sub(change.at.0) <= NEWS_MS).collect()
    }

    /// Records that a provider answers, if its last record is a rest. The process that gave it a rest may be
    /// gone, and its breaker with it.
    fn answers(&self, provider: &str) {
        let at = wall_now();
        let rests = |change: &ProviderBreakerChange| change.provider == provider && change.rest_ms.is_some();
        if self.read(at).iter().any(rests) {
            let _ = self.write(&ProviderBreakerChange { at, provider: provider.to_owned(), rest_ms: None });
        }
    }
}

impl BreakerListener for BreakerLog {
    fn answered(&self, breaker: &str) {
        self.answers(breaker.strip_prefix(PREFIX).unwrap_or(breaker));
    }

    fn changed(&self, breaker: &str, how: RecordOutcome) {
        let rest = match how {
            RecordOutcome::Tripped { cool_down } | RecordOutcome::Reopened { cool_down } => Some(cool_down),
            RecordOutcome::Closed => None,
            RecordOutcome::Counted | RecordOutcome::Returned | RecordOutcome::Stale => return,
        };
        let rest_ms = rest.map(|rest| u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
        let provider = breaker.strip_prefix(PREFIX).unwrap_or(breaker).to_owned();
        let _ = self.write(&ProviderBreakerChange { at: wall_now(), provider, rest_ms });
    }
}

/// Reports breakers of strategies like those of providers, by the name of the strategy.
impl EventSink for BreakerLog {
    fn emit(&self, event: &Event) {
        let Event::BreakerChanged { name, to } = event;
        let rest = match to {
            BreakerMove::Opened { cool_down } => Some(*cool_down),
            BreakerMove::Closed => None,
        };
        let rest_ms = rest.map(|rest| u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
        let provider = format!("{STRATEGY_PREFIX}{name}");
        let _ = self.write(&ProviderBreakerChange { at: wall_now(), provider, rest_ms });
    }
}

/// The resets that people ask for, as one process hears of them.
pub(crate) struct BreakerResets {
    board: BreakerLog,
    /// The number of bytes of the file that were read.
    read_bytes: Mutex<u64>,
}

impl BreakerResets {
    /// Returns the resets that are requested from now on.
    pub(crate) fn from_now(data_dir: &Path) -> BreakerResets {
        let board = BreakerLog::in_dir(data_dir);
        let read_bytes = Mutex::new(board.len());
        BreakerResets { board, read_bytes }
    }

    /// The strategies whose breakers were reset since the last time this was asked.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut read_bytes = lock(&self.read_bytes);
        let len = self.board.len();
        if len == *read_bytes {
            return Vec::new();
        }
        let text = open_file(&self.board.file).and_then(std::io::read_to_string).unwrap_or_default();
        // A file that is shorter than what was read is a new one.
        let from = usize::try_from(*read_bytes).ok().filter(|_| len > *read_bytes).unwrap_or(0);
        // A line that is being written is read the next time.
        let rest = text.get(from..).unwrap_or_default();
        let whole = rest.rfind('\n').map_or("", |end| &rest[..=end]);
        *read_bytes = u64::try_from(from + whole.len()).unwrap_or(u64::MAX);
        let resets = whole.lines().filter_map(|line| serde_json::from_str::<BreakerReset>(line).ok());
        resets.map(|reset| reset.reset).collect()
    }
}

/// The breaker of a strategy of the context pipeline, as the processes of a data directory last reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyBreaker {
    /// The strategy.
    pub name: String,
    /// The time for which it is still skipped; `None` if it is asked.
    pub left: Option<Duration>,
}

/// Returns the breakers of these strategies, as the processes of the data directory last reported them.
pub fn strategy_breakers(data_dir: &Path, names: &[String]) -> Vec<StrategyBreaker> {
    let (now, changes) = (wall_now(), BreakerLog::in_dir(data_dir).last());
    let one = |name: &String| {
        let change = changes.get(&format!("{STRATEGY_PREFIX}{name}"));
        StrategyBreaker { name: name.clone(), left: change.and_then(|change| change.left(now)) }
    };
    names.iter().map(one).collect()
}

/// Resets the breakers of these strategies in every process of the data directory: each closes its own before
/// its next context.
///
/// # Errors
/// The file cannot be written.
pub fn reset_strategy_breakers(data_dir: &Path, names: &[String]) -> std::io::Result<()> {
    let (at, board) = (wall_now(), BreakerLog::in_dir(data_dir));
    // Without a data directory there is no process that has any.
    if !data_dir.is_dir() {
        return Ok(());
    }
    for name in names {
        board.write(&BreakerReset { at, reset: name.clone() })?;
        board.write(&ProviderBreakerChange {
            at,
            provider: format!("{STRATEGY_PREFIX}{name}"),
            rest_ms: None,
        })?;
    }
    Ok(())
}

/// Returns the sink that records the changes of this process's breakers.
pub(crate) fn breaker_event_sink(data_dir: &Path) -> Arc<dyn EventSink> {
    Arc::new(BreakerLog::in_dir(data_dir))
}

impl Engine {
    /// Returns the providers that were skipped or answer again, in any process, in the last quarter of an
    /// hour. Each has its last change; they are sorted by name.
    pub fn breaker_changes(&self) -> Vec<ProviderBreakerChange> {
        BreakerLog::in_dir(&self.inner.options.data_dir).read(wall_now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_each_provider_is_news_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let board = BreakerLog::in_dir(dir.path());
        let change = |at, provider: &str, rest_ms| ProviderBreakerChange {
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
        let (one, other) = (BreakerLog::in_dir(dir.path()), BreakerLog::in_dir(dir.path()));
        other.answered("model/x");
        assert!(!other.file.exists(), "nobody said that it rests");
        one.changed("model/x", RecordOutcome::Tripped { cool_down: Duration::from_secs(300) });
        one.changed("model/y", RecordOutcome::Tripped { cool_down: Duration::from_secs(300) });
        other.answered("model/x");
        other.answered("model/x");
        let changes: Vec<(String, bool)> = one
            .read(wall_now())
            .into_iter()
            .map(|change| (change.provider, change.rest_ms.is_some()))
            .collect();
        assert_eq!(changes, [("x".to_owned(), false), ("y".to_owned(), true)]);
        let lines = fs::read_to_string(&one.file).unwrap().lines().count();
        assert_eq!(lines, 3, "it is told once");
    }

    #[test]
    fn a_reset_is_heard_once_by_each_process_that_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let (one, other) = (BreakerResets::from_now(dir.path()), BreakerResets::from_now(dir.path()));
        let opened = BreakerMove::Opened { cool_down: Duration::from_secs(3_000) };
        BreakerLog::in_dir(dir.path()).emit(&Event::BreakerChanged { name: "symbol".to_owned(), to: opened });
        assert_eq!(one.take(), Vec::<String>::new(), "no reset");
        let open = strategy_breakers(dir.path(), &names(&["keyword", "symbol"]));
        assert_eq!((open[0].left, open[1].left.is_some()), (None, true));
        reset_strategy_breakers(dir.path(), &names(&["symbol"])).unwrap();
        let late = BreakerResets::from_now(dir.path());
        assert_eq!((one.take(), one.take(), late.take()), (names(&["symbol"]), Vec::new(), Vec::new()));
        assert_eq!(other.take(), names(&["symbol"]));
        assert_eq!(strategy_breakers(dir.path(), &names(&["symbol"]))[0].left, None);
        // A file that made way for a new one is read from its beginning.
        fs::remove_file(dir.path().join("breakers.jsonl")).unwrap();
        reset_strategy_breakers(dir.path(), &names(&["keyword"])).unwrap();
        assert_eq!(one.take(), names(&["keyword"]));
        let nowhere = dir.path().join("nowhere");
        reset_strategy_breakers(&nowhere, &names(&["keyword"])).unwrap();
        assert!(!nowhere.exists());
    }

    #[test]
    fn the_file_stays_small_and_a_broken_line_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let board = BreakerLog::in_dir(dir.path());
        fs::write(&board.file, "{\"at\":1,\n").unwrap();
        for _ in 0..2_000 {
            board.changed("model/x", RecordOutcome::Closed);
        }
        assert!(fs::metadata(&board.file).unwrap().len() <= FILE_BYTES_MAX + 200);
        assert_eq!(board.read(wall_now()).len(), 1);
    }
}
