//! Resolves a path that a model names.
//!
//! # Invariants
//! 1. With several projects a path names its project: `ALIAS:path`.
//! 2. An absolute path below a project's root means the path below it; any other absolute path leads out.
//!
//! # Not here
//! The check that no link on the way leads out: only the kernel can do it, when the path is opened.

use std::path::{Component, Path, PathBuf};

use domain::{RelPath, RootIndex};

use super::error::ToolError;

/// A project as tools see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolProject {
    /// The prefix of its paths, if there are several projects.
    pub alias: String,
    /// Its root, as commands see it.
    pub root: PathBuf,
    /// Nothing in it is written.
    pub read_only: bool,
}

/// A place in one of the projects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolPath {
    /// The project.
    pub root: RootIndex,
    /// The path in it; `None` for its root.
    pub path: Option<RelPath>,
    /// The prefix of shown paths of the project: its alias, if there are several projects.
    pub prefix: String,
    /// As it is shown.
    pub shown: String,
}

impl ToolPath {
    /// Another path of the same project, as it is shown.
    pub fn beside(&self, path: &RelPath) -> String {
        format!("{}{path}", self.prefix)
    }
}

/// Finds the place of a path.
pub(super) fn resolve(projects: &[ToolProject], given: &str, tool: &str) -> Result<ToolPath, ToolError> {
    let escapes = || ToolError::PathEscapes { path: given.to_owned() };
    let absolute = Path::new(given);
    if absolute.is_absolute() {
        let within = projects.iter().zip(0_u16..).find_map(|(project, no)| {
            absolute.strip_prefix(&project.root).ok().map(|below| (project, no, below.to_path_buf()))
        });
        let (project, no, below) = within.ok_or_else(escapes)?;
        return place(projects, project, no, &below, given);
    }
    if let [only] = projects {
        let own = given.strip_prefix(only.alias.as_str()).and_then(|rest| rest.strip_prefix(':'));
        return place(projects, only, 0, Path::new(own.unwrap_or(given)), given);
    }
    let named = projects.iter().zip(0_u16..).find_map(|(project, no)| {
        let below = given.strip_prefix(project.alias.as_str())?.strip_prefix(':')?;
        Some((project, no, below))
    });
    let Some((project, no, below)) = named else {
        let aliases: Vec<String> = projects.iter().map(|project| format!("{}:", project.alias)).collect();
        let problem =
            format!("`{given}` does not name a project; begin it with one of {}", aliases.join(", "));
        return Err(ToolError::InvalidArguments { tool: tool.to_owned(), problems: vec![problem] });
    };
    place(projects, project, no, Path::new(below), given)
}

fn place(
    projects: &[ToolProject],
    project: &ToolProject,
    no: u16,
    below: &Path,
    given: &str,
) -> Result<ToolPath, ToolError> {
    let escapes = || ToolError::PathEscapes { path: given.to_owned() };
    let mut names: Vec<&str> = Vec::new();
    for component in below.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_str().ok_or_else(escapes)?),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(escapes()),
        }
    }
    let joined = names.join("/");
    let path = match joined.is_empty() {
        true => None,
        false => Some(RelPath::new(&joined).map_err(|_| escapes())?),
    };
    let below = path.as_ref().map_or(".", |_| joined.as_str());
    let prefix = if projects.len() > 1 { format!("{}:", project.alias) } else { String::new() };
    let shown = format!("{prefix}{below}");
    Ok(ToolPath { root: RootIndex(no), path, prefix, shown })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(alias: &str, root: &str) -> ToolProject {
        ToolProject { alias: alias.to_owned(), root: PathBuf::from(root), read_only: false }
    }

    fn found(projects: &[ToolProject], given: &str) -> Result<(u16, String), &'static str> {
        let place = resolve(projects, given, "read_file").map_err(|error| error.code())?;
        Ok((place.root.0, place.shown))
    }

    #[test]
    fn a_path_is_found_below_its_project_or_refused() {
        let one = [project("shop", "/srv/shop")];
        let said = |shown: &str| Ok((0, shown.to_owned()));
        assert_eq!(found(&one, "src/./a.rs"), said("src/a.rs"));
        assert_eq!(found(&one, "."), said("."));
        assert_eq!(found(&one, "shop:src"), said("src"));
        assert_eq!(found(&one, "/srv/shop/src/a.rs"), said("src/a.rs"));
        assert_eq!(found(&one, "/srv/shop"), said("."));
        for out in ["../x", "a/../b", "/etc/passwd", "/srv/shopping/a", "a\0b"] {
            assert_eq!(found(&one, out), Err("PATH_ESCAPES"), "{out}");
        }
        let two = [project("shop", "/srv/shop"), project("lib", "/srv/lib")];
        assert_eq!(found(&two, "lib:src"), Ok((1, "lib:src".to_owned())));
        assert_eq!(found(&two, "/srv/lib/src"), Ok((1, "lib:src".to_owned())));
        assert_eq!(found(&two, "src"), Err("INVALID_ARGUMENTS"));
    }
}
