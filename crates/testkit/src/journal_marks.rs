//! The last step of a killed process, read from its journal's file as the specification draws it, and by no
//! code of ours.

use std::fs;
use std::path::Path;

/// The last step that it reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReachedMark {
    /// There is no journal.
    Nothing,
    /// A journal without a commit mark.
    Journal,
    /// A commit mark, and no done mark.
    Commit,
    /// A done mark.
    Done,
    /// The journal was put away.
    Retired,
}

impl ReachedMark {
    pub const ALL: [ReachedMark; 5] = [
        ReachedMark::Nothing,
        ReachedMark::Journal,
        ReachedMark::Commit,
        ReachedMark::Done,
        ReachedMark::Retired,
    ];

    pub fn words(self) -> &'static str {
        match self {
            ReachedMark::Nothing => "before there was a journal",
            ReachedMark::Journal => "before the commit mark",
            ReachedMark::Commit => "between commit and done mark",
            ReachedMark::Done => "after the done mark",
            ReachedMark::Retired => "after the journal was put away",
        }
    }
}

/// Returns the last step of the journal of this name.
pub fn reached(data: &Path, id: &str) -> ReachedMark {
    let name = format!("{id}.journal");
    if data.join("undo").join(&name).exists() {
        return ReachedMark::Retired;
    }
    marked(&data.join("journal").join(&name))
}

/// Returns the last step of this journal; `None` if it is not there.
pub fn marked(journal: &Path) -> ReachedMark {
    let Ok(bytes) = fs::read(journal) else { return ReachedMark::Nothing };
    let kinds = kinds(&bytes);
    if kinds.contains(&b'D') {
        ReachedMark::Done
    } else if kinds.contains(&b'C') {
        ReachedMark::Commit
    } else {
        ReachedMark::Journal
    }
}

/// The kinds of the frames: `AGENTJ01`, then `u32 length | u32 crc32c(kind, payload) | u8 kind | payload`.
fn kinds(bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    let Some(mut rest) = bytes.strip_prefix(b"AGENTJ01") else { return kinds };
    while let Some((head, behind)) = rest.split_at_checked(9) {
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let Some((payload, behind)) = behind.split_at_checked(word(0) as usize) else { break };
        if crc32c::crc32c_append(crc32c::crc32c(&head[8..]), payload) != word(4) {
            break;
        }
        kinds.push(head[8]);
        rest = behind;
    }
    kinds
}
