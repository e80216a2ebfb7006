//! The projects of a plan, as they are named on the command line.
//!
//! A project is a directory: `--project [ALIAS=]DIR[:ro]`. Its root is the nearest directory at or above DIR
//! that holds `.cleveragents` or `.git`, else DIR itself.
//!
//! # Invariants
//! 1. Roots are absolute and free of links, no two are alike, and none is inside another.
//! 2. Aliases are unique, and none holds a colon or a slash: `ALIAS:path` is read one way only.
//!
//! # Not here
//! What the files of a project may run and ask for: `cli::consent`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use domain::{ByteText, ProjectLink};

use crate::errors::{CommandError, codes, hints};

/// The length limit of an alias.
const ALIAS_CHARS_MAX: usize = 64;
/// A project as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectArg {
    /// The name that was given.
    pub alias: Option<String>,
    /// The directory that was given.
    pub dir: PathBuf,
    /// True if the project is only read.
    pub read_only: bool,
}

/// Reads `[ALIAS=]DIR[:ro]` as it is typed: the name of a directory need not be UTF-8.
pub fn parser() -> impl TypedValueParser<Value = ProjectArg> {
    OsStringValueParser::new().try_map(|text| ProjectArg::parse(text.as_bytes()))
}

impl ProjectArg {
    /// Reads `[ALIAS=]DIR[:ro]`. The text before `=` is an alias only if it is a valid one: write `./a=b` for
    /// a directory.
    fn parse(text: &[u8]) -> Result<ProjectArg, String> {
        let (text, read_only) = match text.strip_suffix(b":ro") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let equals = text.iter().position(|byte| *byte == b'=');
        let alias =
            equals.and_then(|at| str::from_utf8(text.get(..at)?).ok()).filter(|alias| is_alias(alias));
        let dir = alias.and_then(|alias| text.get(alias.len() + 1..)).unwrap_or(text);
        if dir.is_empty() {
            return Err("a project needs a directory: [ALIAS=]DIR[:ro]".to_owned());
        }
        Ok(ProjectArg { alias: alias.map(str::to_owned), dir: OsStr::from_bytes(dir).into(), read_only })
    }
}

fn is_alias(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= ALIAS_CHARS_MAX
        && text.chars().all(is_alias_char)
        && !text.starts_with('.')
}

fn is_alias_char(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._-".contains(letter)
}

/// Returns the root of the project that contains `dir`.
///
/// # Errors
/// There is no such directory.
pub fn root_of(dir: &Path) -> Result<PathBuf, CommandError> {
    let cannot = |why: &str| {
        CommandError::new(
            &codes::PROJECT_NOT_FOUND,
            format!("the project's directory {} {why}", dir.display()),
        )
    };
    let real = fs::canonicalize(dir).map_err(|error| cannot(&format!("cannot be entered: {error}")))?;
    if !real.is_dir() {
        return Err(cannot("is not a directory"));
    }
    let marked = real.ancestors().find(|place| is_marked(place));
    Ok(marked.map_or_else(|| real.clone(), Path::to_owned))
}

/// Returns whether this is the root of a project. An empty `.git`, as some programs leave in places that they
/// guard, is none.
fn is_marked(place: &Path) -> bool {
    let there = |name: &str| place.join(name).symlink_metadata().is_ok();
    there(".cleveragents") || place.join(".git").is_file() || there(".git/HEAD")
}

/// The projects of a plan, in their order; `here` when none was asked for.
///
/// # Errors
/// Returns an error if one does not exist, two share a name, or one is inside another.
pub fn find_all(args: &[ProjectArg], here: &Path) -> Result<Vec<ProjectLink>, CommandError> {
    let this = [ProjectArg { alias: None, dir: PathBuf::from("."), read_only: false }];
    let args = if args.is_empty() { &this[..] } else { args };
    let mut found: Vec<(String, PathBuf, bool)> = Vec::new();
    for arg in args {
        let root = root_of(&here.join(&arg.dir))?;
        fs::read_dir(&root).map_err(|error| {
            let message = format!("the project's directory {} cannot be read: {error}", root.display());
            CommandError::new(&codes::PROJECT_NOT_FOUND, message).hint(hints::NAME_READABLE_PROJECT)
        })?;
        let alias = arg.alias.clone().unwrap_or_else(|| alias_of(&root));
        refuse_nested(&found, &root)?;
        if let Some((_, other, _)) = found.iter().find(|(known, ..)| *known == alias) {
            let (one, two) = (other.display(), root.display());
            return Err(CommandError::new(
                &codes::PROJECT_ALIAS_TAKEN,
                format!("two projects are called `{alias}`: {one} and {two}"),
            )
            .field("dir", two));
        }
        found.push((alias, root, arg.read_only));
    }
    let link = |(alias, root, read_only): (String, PathBuf, bool)| ProjectLink {
        alias,
        root: ByteText(std::os::unix::ffi::OsStringExt::into_vec(root.into_os_string())),
        read_only,
    };
    Ok(found.into_iter().map(link).collect())
}

/// Directories of the system, and those that hold the directories of others: none of them is a project.
const SYSTEM_DIRS: [&str; 33] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/lost+found",
    "/media",
    "/mnt",
    "/nix",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/snap",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/tmp",
];

/// Below these nothing is a project either.
const SYSTEM_TREES: [&str; 4] = ["/boot", "/dev", "/proc", "/sys"];

/// The directory in which every user may make directories in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// Returns whether this is a directory of the system, the user's home, or a directory that the home is in.
pub fn is_system_dir(root: &Path, home: Option<&Path>) -> bool {
    let home = home.and_then(|home| fs::canonicalize(home).ok());
    // Directories for all, as those below `/tmp`, only in memory.
    let is_in_memory = root.starts_with(SHARED_MEMORY) && root != Path::new(SHARED_MEMORY);
    SYSTEM_DIRS.iter().any(|dir| root == Path::new(dir))
        || (SYSTEM_TREES.iter().any(|dir| root.starts_with(dir)) && !is_in_memory)
        || home.is_some_and(|home| home.starts_with(root))
}

fn refuse_nested(found: &[(String, PathBuf, bool)], root: &Path) -> Result<(), CommandError> {
    for (_, other, _) in found {
        if other == root {
            let message = format!("the project {} is given twice", root.display());
            return Err(CommandError::new(&codes::PROJECT_NESTED, message).hint(hints::GIVE_IT_ONCE));
        }
        let message = if root.starts_with(other) {
            format!("the project {} is inside {}", root.display(), other.display())
        } else if other.starts_with(root) {
            format!("the project {} is inside {}", other.display(), root.display())
        } else {
            continue;
        };
        return Err(CommandError::new(&codes::PROJECT_NESTED, message));
    }
    Ok(())
}

/// The directory's own name, with what an alias cannot hold replaced.
fn alias_of(root: &Path) -> String {
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain: String = name
        .chars()
        .map(|letter| if is_alias_char(letter) { letter } else { '-' })
        .take(ALIAS_CHARS_MAX)
        .collect();
    let plain = plain.trim_start_matches('.');
    if plain.is_empty() { "root".to_owned() } else { plain.to_owned() }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn directories_of_the_system_and_the_home_are_no_projects() {
        let dir = TempDir::new().unwrap();
        let home = fs::canonicalize(dir.path()).unwrap();
        let is = |root: &Path| is_system_dir(root, Some(&home));
        for root in ["/", "/usr", "/etc", "/proc/self", "/var", "/home", "/dev/shm", "/dev/disk"] {
            assert!(is(Path::new(root)), "{root}");
        }
        assert!(is(&home) && is(home.parent().unwrap()));
        assert!(
            !is(&home.join("shop")) && !is(Path::new("/srv/shop")) && !is(Path::new("/usr/local/src/shop"))
        );
        assert!(!is(Path::new("/dev/shm/shop")));
        assert!(!is_system_dir(&home, None));
    }

    fn arg(text: &str) -> ProjectArg {
        ProjectArg::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_project_is_an_alias_a_directory_and_a_mark() {
        let parsed = |alias: Option<&str>, dir: &str, read_only| ProjectArg {
            alias: alias.map(str::to_owned),
            dir: dir.into(),
            read_only,
        };
        assert_eq!(arg("lib"), parsed(None, "lib", false));
        assert_eq!(arg("web=../shop:ro"), parsed(Some("web"), "../shop", true));
        assert_eq!(arg("./a=b"), parsed(None, "./a=b", false));
        assert_eq!(arg("x:ro/"), parsed(None, "x:ro/", false));
        assert!(ProjectArg::parse(b"web=").is_err() && ProjectArg::parse(b":ro").is_err());
        let odd = ProjectArg::parse(b"web=\xff:ro").unwrap();
        assert_eq!((odd.alias.as_deref(), odd.dir.as_os_str().as_bytes()), (Some("web"), b"\xff".as_slice()));
    }

    #[test]
    fn the_root_is_the_nearest_marked_directory() {
        let dir = TempDir::new().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(top.join("repo/.git")).unwrap();
        fs::write(top.join("repo/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::create_dir_all(top.join("plain/.git")).unwrap();
        fs::create_dir_all(top.join("repo/inner/.cleveragents")).unwrap();
        fs::create_dir_all(top.join("repo/inner/src")).unwrap();
        fs::create_dir_all(top.join("repo/other")).unwrap();
        fs::create_dir_all(top.join("plain/sub")).unwrap();
        // A worktree's `.git` is a file.
        fs::create_dir_all(top.join("tree/src")).unwrap();
        fs::write(top.join("tree/.git"), "gitdir: elsewhere").unwrap();
        for (from, root) in [
            ("repo/inner/src", "repo/inner"),
            ("repo/other", "repo"),
            ("plain/sub", "plain/sub"),
            ("tree/src", "tree"),
        ] {
            assert_eq!(root_of(&top.join(from)).unwrap(), top.join(root), "{from}");
        }
        assert_eq!(root_of(&top.join("none")).unwrap_err().code, &codes::PROJECT_NOT_FOUND);
        assert_eq!(root_of(&top.join("tree/.git")).unwrap_err().code, &codes::PROJECT_NOT_FOUND);
    }

    #[test]
    fn two_projects_have_two_names_and_two_places() {
        let dir = TempDir::new().unwrap();
        let here = fs::canonicalize(dir.path()).unwrap();
        for place in ["a/lib", "b/lib", "c d", "a/lib/sub"] {
            fs::create_dir_all(here.join(place)).unwrap();
        }
        let code = |args: &[&str]| {
            let args: Vec<ProjectArg> = args.iter().map(|text| arg(text)).collect();
            find_all(&args, &here).map_err(|failure| failure.code.name)
        };
        assert_eq!(code(&["a/lib", "b/lib"]), Err("PROJECT_ALIAS_TAKEN"));
        assert_eq!(code(&["a/lib", "a/lib"]), Err("PROJECT_NESTED"));
        assert_eq!(code(&["a/lib", "x=a/lib/sub"]), Err("PROJECT_NESTED"));
        assert_eq!(code(&["a/lib/sub", "a/lib"]), Err("PROJECT_NESTED"));
        let links = code(&["a/lib", "two=b/lib:ro", "c d"]).unwrap();
        let aliases: Vec<_> = links.iter().map(|link| (link.alias.as_str(), link.read_only)).collect();
        assert_eq!(aliases, [("lib", false), ("two", true), ("c-d", false)]);
        let this = code(&[]).unwrap();
        assert_eq!(this[0].root.to_string(), here.display().to_string());
    }

    #[test]
    fn every_directory_has_a_name_that_an_address_can_hold() {
        for (root, alias) in [("/", "root"), ("/x/.config", "config"), ("/x/a:b/..", "root"), ("/x/é1", "-1")]
        {
            assert_eq!(alias_of(Path::new(root)), alias, "{root}");
        }
    }
}
