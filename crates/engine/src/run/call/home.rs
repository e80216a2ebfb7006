//! The user's home as the commands of a plan see it, and why one of them may have failed because of it.
//!
//! # Invariants
//! 1. A command sees of the home what the plan's settings name, the directories of its search path, and the
//!    projects.
//! 2. A configuration of git that holds a credential is not seen at all.
//!
//! # Not here
//! Covering the rest: `sandbox::isolation`.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use domain::Plan;
use sandbox::command::{CommandExit, CommandSpec, ExitKind};

use crate::plan::create::path_of;

/// The maximum number of bytes of a configuration that are searched.
const CONFIG_BYTES_MAX: u64 = 256 << 10;
/// The number of bytes at the end of an output that are searched.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// The configurations of git below the home.
const GIT_CONFIGS: [&str; 2] = [".gitconfig", ".config/git/config"];
/// The directory in which programs and other files are installed together: only the directory itself is
/// shown.
const SHARED_PREFIX: &str = ".local";

/// Says in a command's specification what of the home it sees. A plan that was made before this was a setting
/// sees all.
pub(crate) fn show(plan: &Plan, spec: &mut CommandSpec) {
    let Some(named) = plan.spec.shown_paths() else { return };
    let Some(home) = std::env::home_dir().filter(|home| home.is_absolute()) else { return };
    let path = spec.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    spec.show = named.iter().map(path_of).chain(programs(&home, &path.unwrap_or_default())).collect();
    spec.hide.extend(
        GIT_CONFIGS.map(|config| home.join(config)).into_iter().filter(|file| holds_credential(file)),
    );
    spec.home = Some(home);
}

/// The directories of a search path that lie in the home, each with what is installed around it.
fn programs(home: &Path, path: &OsString) -> Vec<PathBuf> {
    let real = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let mut shown = Vec::new();
    for dir in std::env::split_paths(path) {
        let Some(below) = dir.strip_prefix(home).or_else(|_| dir.strip_prefix(&real)).ok() else { continue };
        if below.as_os_str().is_empty() {
            continue;
        }
        let prefix = dir.parent().filter(|prefix| {
            let is_own = below.components().count() > 1 && below.parent() != Some(Path::new(SHARED_PREFIX));
            is_own && dir.file_name() == Some(OsStr::new("bin")) && prefix.join("lib").is_dir()
        });
        shown.extend(prefix.map(Path::to_owned));
        shown.push(dir);
    }
    shown
}

/// Returns whether a configuration of git has a password or a token in it.
fn holds_credential(file: &Path) -> bool {
    let mut text = String::new();
    let read =
        std::fs::File::open(file).and_then(|file| file.take(CONFIG_BYTES_MAX).read_to_string(&mut text));
    read.is_ok() && text.lines().any(is_credential)
}

fn is_credential(line: &str) -> bool {
    let line = line.trim().to_lowercase();
    let is_comment = line.starts_with(['#', ';']);
    let has_user_part = line.match_indices("://").any(|(at, mark)| {
        let host = line[at + mark.len()..].split(['/', '"', ' ']).next().unwrap_or_default();
        host.split_once('@').is_some_and(|(user, _)| user.contains(':') || user.len() > USER_CHARS_MAX)
    });
    let name = line.split_once('=').map(|(name, _)| name.trim().to_owned()).unwrap_or_default();
    let is_named = ["extraheader", "password", "token", "cookie"].iter().any(|word| name.ends_with(word));
    !is_comment && (has_user_part || is_named)
}

/// A longer name in front of a host is a token.
const USER_CHARS_MAX: usize = 15;

/// A sentence about what of the machine a failed command seems to have missed; `None` if its output does not
/// show any.
pub(crate) fn missed(
    spec: &CommandSpec,
    projects: &[PathBuf],
    ended: &CommandExit,
    is_overlay: bool,
) -> Option<String> {
    if ended.how == ExitKind::Exited(0) {
        return None;
    }
    let outputs = [&ended.stderr, &ended.stdout].map(|output| output.bounded(0, OUTPUT_BYTES_MAX));
    let missed = outputs.iter().find_map(|output| missed_in(spec, projects, output));
    let is_rename = || is_overlay && outputs.iter().any(|output| is_rename_refused_in(output));
    missed.or_else(|| is_rename().then(|| RENAME_REFUSED.to_owned()))
}

/// The note on the limit of an overlay: the kernel renames no directory of its lower layer for a user who is
/// not root.
const RENAME_REFUSED: &str = "an overlay does not rename directories of the project: `mv` copies them, and with \
                              `sandbox.strategy=copy` they can be renamed";

/// Returns true if the output shows that a rename was refused because it would go from one file system to
/// another.
fn is_rename_refused_in(output: &str) -> bool {
    let lower = output.to_lowercase();
    ["cross-device link", "exdev"].iter().any(|sign| lower.contains(sign))
}

fn missed_in(spec: &CommandSpec, projects: &[PathBuf], output: &str) -> Option<String> {
    let is_of_project = |path: &Path| projects.iter().any(|project| path.starts_with(project));
    let is_open = |path: &Path| spec.writable.iter().chain(&spec.scratch).any(|open| path.starts_with(open));
    for line in output.lines() {
        let lower = line.to_lowercase();
        let is_write = ["read-only file system", "erofs"].iter().any(|sign| lower.contains(sign));
        for path in paths_in(line).filter(|path| !is_of_project(path) && !is_open(path)) {
            if is_write {
                return Some(format!(
                    "it could not write {0}: allow that with `--writable {0}`, or in an actor's `writable`",
                    path.display()
                ));
            }
            let is_unseen = spec.home.as_ref().is_some_and(|home| {
                let is_shown = spec.show.iter().any(|shown| path.starts_with(shown));
                path != *home && path.starts_with(home) && !is_shown && path.symlink_metadata().is_ok()
            });
            if is_unseen {
                return Some(format!(
                    "commands do not see {}: add it to `isolation.show` to allow that",
                    path.display()
                ));
            }
        }
    }
    None
}

/// The absolute paths that a line names.
fn paths_in(line: &str) -> impl Iterator<Item = PathBuf> {
    let words = line.split(|letter: char| letter.is_whitespace() || "'\"`()<>,;=‘’“”".contains(letter));
    words.filter_map(|word| {
        let word = word.trim_end_matches([':', '.']);
        let word = word.split(':').find(|part| part.starts_with('/'))?;
        (word.len() > 1 && !word.as_bytes().starts_with(b"//"))
            .then(|| PathBuf::from(OsStr::from_bytes(word.as_bytes())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_in_a_configuration_of_git_is_recognized() {
        for line in [
            "[url \"https://alice:pass@example.com/\"]",
            "insteadOf = https://ghp_0123456789abcdefghij@example.com/",
            "\textraheader = Authorization: Basic abc",
            "oauthToken = 0123",
        ] {
            assert!(is_credential(line), "{line}");
        }
        for line in [
            "[user]",
            "email = alice@example.com",
            "[url \"ssh://git@example.com/\"]",
            "# token = x",
            "name = A",
        ] {
            assert!(!is_credential(line), "{line}");
        }
    }

    #[test]
    fn programs_of_the_search_path_are_shown_with_what_is_installed_around_them() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        for path in ["tool/bin", "tool/lib", "bin", ".local/bin", ".local/lib", "src/bin"] {
            std::fs::create_dir_all(home.join(path)).unwrap();
        }
        let at = |path: &str| home.join(path);
        let path = std::env::join_paths([
            PathBuf::from("/usr/bin"),
            at("tool/bin"),
            at("bin"),
            at(".local/bin"),
            at("src/bin"),
            home.to_owned(),
        ]);
        let shown = programs(home, &path.unwrap());
        assert_eq!(shown, [at("tool"), at("tool/bin"), at("bin"), at(".local/bin"), at("src/bin")]);
    }

    #[test]
    fn paths_are_found_in_what_programs_print() {
        let found = |line: &str| paths_in(line).map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(found("cat: /users/a/.npmrc: No such file"), ["/users/a/.npmrc"]);
        assert_eq!(found("open '/users/a/x y'"), ["/users/a/x"]);
        assert_eq!(found("see https://example.com/a"), Vec::<String>::new());
        assert_eq!(found("mkdir ‘/users/a/.x’: Read-only"), ["/users/a/.x"]);
    }
}
