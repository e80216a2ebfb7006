//! Writing, editing, removing, moving.
//!
//! # Invariants
//! 1. A file is copied up into the sandbox before it is compared with the text that the model has read. So
//!    the compared file is the one that is replaced.
//! 2. No mark is written over a secret.
//! 3. A file that the plan protects is refused before anything of it is read.

use std::io::ErrorKind;

use actors::tool::{FileKnowledge, HEAD_BYTES, TAIL_BYTES, ToolError, ToolPath, ToolRequest, head_and_tail};
use domain::{
    Base, FileState, Hash, NetChange, Redactor, RelPath, RootIndex, TEXT_BYTES_MAX, is_text, unified,
};
use sandbox::capture::ProtectedPaths;
use sandbox::content::ContentSink;
use sandbox::{CaptureRules, Sandbox};
use serde_json::json;

use super::edit::{EditFailure, EditOutcome, edit};
use super::{ToolOutput, not_changed, not_done};

/// The parts that changing needs. No other call may be at work in the sandbox.
pub struct WriteTools<'a> {
    /// The sandbox.
    pub sandbox: &'a mut Sandbox,
    /// Stores the replaced content.
    pub sink: &'a dyn ContentSink,
    /// The rules of the capture.
    pub rules: &'a CaptureRules,
    /// Takes secrets out, and puts them back.
    pub redactor: &'a Redactor,
}

/// Does what changes files; none when the work is none of that kind.
///
/// # Errors
/// Returns an error for the model if the work cannot be done.
pub fn write(with: &mut WriteTools<'_>, work: &ToolRequest) -> Option<Result<ToolOutput, ToolError>> {
    match work {
        ToolRequest::Write { place, content, known } => Some(with.write(place, content, *known)),
        ToolRequest::Edit { place, old, new, replace_all, known } => {
            Some(with.edit(place, (old, new), *replace_all, *known))
        }
        ToolRequest::Delete { place, recursive } => Some(with.delete(place, *recursive)),
        ToolRequest::Move { from, to, overwrite } => Some(with.move_file(from, to, *overwrite)),
        ToolRequest::Read { .. }
        | ToolRequest::List { .. }
        | ToolRequest::Search { .. }
        | ToolRequest::Run { .. }
        | ToolRequest::Decide { .. }
        | ToolRequest::Context { .. }
        | ToolRequest::History(_)
        | ToolRequest::ContextBudget
        | ToolRequest::Foreign { .. } => None,
    }
}

impl WriteTools<'_> {
    fn write(
        &mut self,
        place: &ToolPath,
        content: &str,
        known: FileKnowledge,
    ) -> Result<ToolOutput, ToolError> {
        let path = self.target(place)?;
        let present = self.present("write_file", place, path, known)?;
        let before = present.as_deref().unwrap_or_default();
        let bytes = self.restored(place, content, before)?;
        let bytes = match known {
            // A person wrote the content, and means it.
            FileKnowledge::Whatever => bytes,
            // A model was shown the lines without their ends.
            FileKnowledge::As(_) | FileKnowledge::Unread => with_line_ends_of(before, bytes),
        };
        self.put("write_file", place, path, &bytes)?;
        let hash = Hash::from_content(&bytes);
        let result = json!({ "created": present.is_none(), "hash": hash.to_string(), "bytes": bytes.len() });
        Ok(ToolOutput { result, seen: vec![(place.clone(), Some(hash))] })
    }

    fn edit(
        &mut self,
        place: &ToolPath,
        (old, new): (&str, &str),
        replace_all: bool,
        known: FileKnowledge,
    ) -> Result<ToolOutput, ToolError> {
        let path = self.target(place)?;
        let not_found = || ToolError::NotFound { path: place.shown.clone() };
        let not_text = || ToolError::NotText { path: place.shown.clone() };
        let before = self.present("edit_file", place, path, known)?.ok_or_else(not_found)?;
        if !is_text(&before, before.len() as u64) {
            return Err(not_text());
        }
        let (old, new) = (self.restored(place, old, &before)?, self.restored(place, new, &before)?);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| not_text());
        let (now, old, new) = (text(before)?, text(old)?, text(new)?);
        let edited = edit(&now, &old, &new, replace_all).map_err(|why| match why {
            EditFailure::NoMatch => ToolError::NoMatch { path: place.shown.clone() },
            EditFailure::NotUnique(count) => ToolError::NotUnique { path: place.shown.clone(), count },
        })?;
        let EditOutcome { text: after, count, rule } = edited;
        self.put("edit_file", place, path, after.as_bytes())?;
        let hash = Hash::from_content(after.as_bytes());
        let diff = self.diff(path, now.as_bytes(), after.as_bytes());
        let result = json!({
            "hash": hash.to_string(), "replacements": count, "matched": rule.as_str(), "diff": diff,
        });
        Ok(ToolOutput { result, seen: vec![(place.clone(), Some(hash))] })
    }

    fn delete(&mut self, place: &ToolPath, recursive: bool) -> Result<ToolOutput, ToolError> {
        let path = self.target(place)?;
        let deleted = self.sandbox.delete_file(place.root, path, recursive, self.sink, self.rules);
        let count = deleted.map_err(|error| not_changed("delete_file", place, error))?;
        Ok(ToolOutput { result: json!({ "count": count }), seen: vec![(place.clone(), None)] })
    }

    fn move_file(
        &mut self,
        from: &ToolPath,
        to: &ToolPath,
        overwrite: bool,
    ) -> Result<ToolOutput, ToolError> {
        let paths = (self.target(from)?, self.target(to)?);
        let moved = self.sandbox.move_file(from.root, paths, overwrite, self.sink, self.rules);
        let count = moved.map_err(|error| not_changed("move_file", from, error))?;
        let seen = vec![(from.clone(), None), (to.clone(), None)];
        Ok(ToolOutput { result: json!({ "count": count }), seen })
    }

    /// The path that is written.
    fn target<'p>(&self, place: &'p ToolPath) -> Result<&'p RelPath, ToolError> {
        let protected = || ToolError::ProtectedPath { path: place.shown.clone() };
        let by_rules = ProtectedPaths::new(self.rules).and(self.sandbox.hidden(place.root));
        place.path.as_ref().filter(|path| !by_rules.has(path, false)).ok_or_else(protected)
    }

    /// Returns the present content at the path, after a check that the model knows it; `None` if there is no
    /// file.
    fn present(
        &mut self,
        tool: &str,
        place: &ToolPath,
        path: &RelPath,
        known: FileKnowledge,
    ) -> Result<Option<Vec<u8>>, ToolError> {
        let failed = |message: String| ToolError::Failed { tool: tool.to_owned(), message };
        // Links are refused before anything of their targets is stored.
        let root = |sandbox: &Sandbox| sandbox.root(place.root).map(|root| root.try_clone_to_owned());
        let root = root(self.sandbox).map_err(|error| failed(error.to_string()))?;
        let root = root.map_err(|error| failed(error.to_string()))?;
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW;
        let mode = rustix::fs::Mode::empty();
        let links = sandbox::fs::beneath::LinkPolicy::Refuse;
        match sandbox::fs::beneath::open(std::os::fd::AsFd::as_fd(&root), path, flags, mode, links) {
            Ok(held) => {
                let stat = rustix::fs::fstat(&held).map_err(|errno| failed(errno.to_string()))?;
                if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
                    let what = "is not a regular file: it is a directory, a link or a device".to_owned();
                    return Err(ToolError::InTheWay { path: place.shown.clone(), what });
                }
            }
            Err(error) if error.is_not_found() => {
                return match known {
                    // It was there when it was read.
                    FileKnowledge::As(_) => Err(ToolError::StaleFile { path: place.shown.clone() }),
                    FileKnowledge::Unread | FileKnowledge::Whatever => Ok(None),
                };
            }
            Err(error) => return Err(super::not_opened(tool, place, error)),
        }
        let state = self
            .sandbox
            .keep_base(place.root, path, self.sink, self.rules)
            .map_err(|error| failed(error.to_string()))?;
        let Some(state) = state else { return Ok(None) };
        judge(place, known, &state)?;
        let read = sandbox::read_file(std::os::fd::AsFd::as_fd(&root), path, TEXT_BYTES_MAX + 1);
        match read {
            Ok((bytes, _)) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(not_done(tool, place, &error)),
        }
    }

    fn restored(&self, place: &ToolPath, text: &str, present: &[u8]) -> Result<Vec<u8>, ToolError> {
        self.redactor
            .restore(text.as_bytes(), present)
            .map_err(|unknown| ToolError::RedactedContent { path: place.shown.clone(), mark: unknown.mark })
    }

    fn put(&mut self, tool: &str, place: &ToolPath, path: &RelPath, bytes: &[u8]) -> Result<(), ToolError> {
        let written = self.sandbox.write_file(place.root, path, bytes, self.sink, self.rules);
        written.map_err(|error| not_changed(tool, place, error))
    }

    /// Returns the changes as a diff for display.
    fn diff(&self, path: &RelPath, before: &[u8], after: &[u8]) -> String {
        let before = self.redactor.redact_file(path, before);
        let after = self.redactor.redact_file(path, after);
        let change = NetChange {
            root: RootIndex(0),
            path: path.clone(),
            from: None,
            before: Some(FileState::file(&before, 0o644)),
            after: Some(FileState::file(&after, 0o644)),
            base: Base::Known,
            calls: Vec::new(),
        };
        let diff = unified(&change, Some(&before), Some(&after));
        head_and_tail(&String::from_utf8_lossy(&diff), HEAD_BYTES, TAIL_BYTES)
    }
}

/// Returns a new content with the line ends of the present one, if both are text.
fn with_line_ends_of(before: &[u8], new: Vec<u8>) -> Vec<u8> {
    match (std::str::from_utf8(before), std::str::from_utf8(&new)) {
        (Ok(before), Ok(text)) => super::edit::with_line_ends_of(before, text).into_bytes(),
        (Ok(_) | Err(_), _) => new,
    }
}

/// Returns an error if the node must have seen the present content and has not.
fn judge(place: &ToolPath, known: FileKnowledge, state: &FileState) -> Result<(), ToolError> {
    match known {
        FileKnowledge::Whatever => Ok(()),
        FileKnowledge::As(hash) if hash == state.hash => Ok(()),
        FileKnowledge::As(_) => Err(ToolError::StaleFile { path: place.shown.clone() }),
        FileKnowledge::Unread => Err(ToolError::UnreadFile { path: place.shown.clone() }),
    }
}
