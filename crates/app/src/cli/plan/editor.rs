//! Edits a text in the user's editor: `$VISUAL`, else `$EDITOR`, else `vi`.
//!
//! # Invariants
//! 1. The text is in a directory that only the user can read.
//! 2. An edited text is not deleted before [`EditedText::discard`]: if it cannot be recorded, it is still
//!    there. If the editor fails after it saved, its text is still there too.
//! 3. Each edit has a directory of its own: no edit deletes the text of an earlier one.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tokio::process::Command;

/// The editor of a user who named none.
const DEFAULT_EDITOR: &str = "vi";
/// The number of texts of one review that can be left in their directories.
const EDITS_MAX: u32 = 1_000;

/// The reason why nothing was edited. The texts are for the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditorError {
    /// The text cannot be handed to the editor.
    #[error("the text cannot be written to {}: {source}", dir.display())]
    Prepare { dir: PathBuf, source: io::Error },
    /// The editor cannot be started.
    #[error("the editor `{editor}` cannot be started: {source}; set VISUAL or EDITOR")]
    Start { editor: String, source: io::Error },
    /// The editor failed.
    #[error("the editor `{editor}` failed ({status}), so nothing was changed")]
    Failed { editor: String, status: ExitStatus },
    /// The editor failed after it saved a text.
    #[error("the editor `{editor}` failed ({status}), so nothing was changed; the text that it saved is in {}", file.display())]
    FailedAfterSaving { editor: String, status: ExitStatus, file: PathBuf },
    /// The editor left no file.
    #[error("the editor left no file, so nothing was changed")]
    FileGone,
    /// The edited text cannot be read.
    #[error("the edited text in {} cannot be read: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },
}

/// A text that a user edited, and the file in which it still is.
#[derive(Debug)]
pub(super) struct EditedText {
    pub(super) bytes: Vec<u8>,
    pub(super) file: PathBuf,
    dir: PathBuf,
}

impl EditedText {
    /// Deletes the file.
    pub(super) fn discard(self) {
        // A file that cannot be deleted does no harm.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Lets the user edit a text. `name` gives the file its ending, by which editors know the language; `unique`
/// distinguishes the directory from all others.
pub(super) async fn edit(name: &[u8], text: &[u8], unique: &str) -> Result<EditedText, EditorError> {
    let dir = create_directory(unique)?;
    let file = dir.join(OsStr::from_bytes(name));
    let edited = match std::fs::write(&file, text) {
        Ok(()) => run(&file, text).await,
        Err(source) => Err(EditorError::Prepare { dir: dir.clone(), source }),
    };
    match edited {
        Ok(bytes) => Ok(EditedText { bytes, file, dir }),
        Err(error) => {
            if !matches!(error, EditorError::Read { .. } | EditorError::FailedAfterSaving { .. }) {
                let _ = std::fs::remove_dir_all(&dir);
            }
            Err(error)
        }
    }
}

/// Makes a directory that was not there. Earlier ones may have texts that could not be recorded.
fn create_directory(unique: &str) -> Result<PathBuf, EditorError> {
    let path = |number: u32| std::env::temp_dir().join(format!("agents-edit-{unique}-{number}"));
    let mut number = 1;
    loop {
        let dir = path(number);
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < EDITS_MAX => number += 1,
            Err(source) => return Err(EditorError::Prepare { dir, source }),
        }
    }
}

async fn run(file: &Path, original: &[u8]) -> Result<Vec<u8>, EditorError> {
    let named = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| DEFAULT_EDITOR.to_owned());
    // An editor may come with arguments, so a shell reads it, as git does.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(&editor).arg(file);
    let status = command.status().await;
    let status = status.map_err(|source| EditorError::Start { editor: editor.clone(), source })?;
    if !status.success() {
        let is_saved = std::fs::read(file).is_ok_and(|text| text != original);
        return Err(match is_saved {
            true => EditorError::FailedAfterSaving { editor, status, file: file.to_owned() },
            false => EditorError::Failed { editor, status },
        });
    }
    match std::fs::read(file) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(EditorError::FileGone),
        Err(source) => Err(EditorError::Read { file: file.to_owned(), source }),
    }
}
