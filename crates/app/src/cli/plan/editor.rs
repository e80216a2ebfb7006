//! Edits a text in the user's editor: `$VISUAL`, else `$EDITOR`, else `vi`.
//!
//! # Invariants
//! 1. The text is in a directory that only the user can read.
//! 2. An edited text is not deleted before [`EditedText::discard`]: if it cannot be recorded, it is still
//!    there.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tokio::process::Command;

/// The editor of a user who named none.
const DEFAULT_EDITOR: &str = "vi";

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
    let dir = std::env::temp_dir().join(format!("agents-edit-{unique}"));
    let file = dir.join(OsStr::from_bytes(name));
    let prepared =
        std::fs::DirBuilder::new().mode(0o700).create(&dir).and_then(|()| std::fs::write(&file, text));
    let edited = match prepared {
        Ok(()) => run(&file).await,
        Err(source) => Err(EditorError::Prepare { dir: dir.clone(), source }),
    };
    match edited {
        Ok(bytes) => Ok(EditedText { bytes, file, dir }),
        Err(error) => {
            if !matches!(error, EditorError::Read { .. }) {
                let _ = std::fs::remove_dir_all(&dir);
            }
            Err(error)
        }
    }
}

async fn run(file: &Path) -> Result<Vec<u8>, EditorError> {
    let named = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| DEFAULT_EDITOR.to_owned());
    // An editor may come with arguments, so a shell reads it, as git does.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(&editor).arg(file);
    let status = command.status().await;
    let status = status.map_err(|source| EditorError::Start { editor: editor.clone(), source })?;
    if !status.success() {
        return Err(EditorError::Failed { editor, status });
    }
    match std::fs::read(file) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(EditorError::FileGone),
        Err(source) => Err(EditorError::Read { file: file.to_owned(), source }),
    }
}
