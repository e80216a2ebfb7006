//! The output of calls that still run, read from the files that their processes are logged to.
//!
//! # Invariants
//! 1. Any process that opens the data directory can read it. Nothing is written for it, so it costs the
//!    running command nothing.
//! 2. A read is bounded, and the text has lost its secrets. A line that is cut at the bound is left out.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use domain::{CallNumber, PlanId};
use store::PlanStoreError;

use crate::engine::Engine;
use crate::run::plan_sandbox::location::log_dir;

/// The bytes of an output that are searched for its last lines.
const TAIL_BYTES_MAX: u64 = 16 * 1024;
/// The bytes that are read at once from an output that is followed.
const PIECE_BYTES_MAX: u64 = 256 * 1024;
/// The files of a call's output.
const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// The live output of a plan's present attempt.
#[derive(Clone, Debug)]
pub struct LiveOutput {
    engine: Engine,
    dir: PathBuf,
}

/// The place up to which the output of a call was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputPosition {
    read: [u64; 2],
    lines: [usize; 2],
}

impl OutputPosition {
    /// Returns the number of lines that were read of either stream. Secrets that are taken out change the number of
    /// bytes.
    pub fn lines(self) -> [usize; 2] {
        self.lines
    }
}

impl Engine {
    /// Finds the files of the running calls of a plan.
    ///
    /// # Errors
    /// Returns an error if there is no such plan, or the store failed.
    pub async fn live_output(&self, id: PlanId) -> Result<LiveOutput, PlanStoreError> {
        let plan = self.inner.store.plan(id).await?;
        let sandboxes = self.inner.store.sandboxes(id).await?;
        let sandbox = sandboxes.into_iter().rfind(|sandbox| sandbox.attempt == plan.attempt);
        let dir = sandbox
            .map_or_else(|| self.inner.sandbox_home(&plan), |sandbox| OsString::from_vec(sandbox.dir).into());
        Ok(LiveOutput { engine: self.clone(), dir })
    }
}

impl LiveOutput {
    /// Returns the last lines that a running call printed, of the stream that it wrote to last; none once the call
    /// has ended and its files are gone.
    pub fn last_lines(&self, call: CallNumber, lines_max: usize) -> Vec<String> {
        let files = STREAMS.map(|name| self.file(call, name));
        let newest = files.iter().max_by_key(|path| modified(path));
        let Some(bytes) = newest.and_then(|path| read_tail(path).ok()) else { return Vec::new() };
        let text = self.redacted(&bytes);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let from = lines.len().saturating_sub(lines_max);
        lines.iter().skip(from).map(|line| (*line).to_owned()).collect()
    }

    /// Returns the whole lines that a running call printed since the position, and moves the position behind them.
    pub fn read_on(&self, call: CallNumber, position: &mut OutputPosition) -> Vec<u8> {
        let mut news = Vec::new();
        let OutputPosition { read, lines } = position;
        for ((name, read), lines) in STREAMS.iter().zip(read).zip(lines) {
            let Ok(bytes) = read_lines_from(&self.file(call, name), *read) else { continue };
            *read = read.saturating_add(bytes.len() as u64);
            *lines += bytes.iter().filter(|byte| **byte == b'\n').count();
            news.extend_from_slice(self.redacted(&bytes).as_bytes());
        }
        news
    }

    fn file(&self, call: CallNumber, name: &str) -> PathBuf {
        log_dir(&self.dir, call).join(name)
    }

    fn redacted(&self, bytes: &[u8]) -> String {
        match self.engine.inner.redactor.redactor() {
            Some(redactor) => redactor.redact_str(&String::from_utf8_lossy(bytes)).into_owned(),
            None => String::new(),
        }
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    let found = std::fs::metadata(path).ok().filter(|found| found.len() > 0)?;
    found.modified().ok()
}

/// The end of a file, from the beginning of a line on.
fn read_tail(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let from = len.saturating_sub(TAIL_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
    let begin = match from {
        0 => 0,
        _ => bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1),
    };
    Ok(bytes.split_off(begin))
}

/// The whole lines of a file from a place on, at most so many bytes. A longer line is cut.
fn read_lines_from(path: &Path, from: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(PIECE_BYTES_MAX).read_to_end(&mut bytes)?;
    let is_full = bytes.len() as u64 == PIECE_BYTES_MAX;
    match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => bytes.truncate(end + 1),
        None if is_full => {}
        None => bytes.clear(),
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_read_and_the_end_begins_with_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        std::fs::write(&path, "one\ntwo\nhal").unwrap();
        assert_eq!(read_lines_from(&path, 0).unwrap(), b"one\ntwo\n");
        assert_eq!(read_lines_from(&path, 8).unwrap(), b"");
        assert_eq!(read_tail(&path).unwrap(), b"one\ntwo\nhal");
        let long = format!("{}\nlast\n", "x".repeat(20_000));
        std::fs::write(&path, &long).unwrap();
        assert_eq!(read_tail(&path).unwrap(), b"last\n");
        assert!(read_tail(&dir.path().join("none")).is_err());
    }
}
