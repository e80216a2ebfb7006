//! The focus of a node: the paths that a strategy or a model names.
//!
//! # Invariants
//! Only files that are there are named: what a strategy wants to be made is nothing to look at yet.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

use actors::tool::ToolProject;
use domain::context::{FOCUS_MAX, Focus};
use domain::plan::strategy::PlanStrategy;
use domain::{RelPath, RootIndex};
use sandbox::file_tools::read_file;

/// The trees of the projects, in their order.
pub(crate) struct ProjectTrees {
    pub(crate) projects: Vec<ToolProject>,
    pub(crate) roots: Vec<OwnedFd>,
}

impl ProjectTrees {
    /// The files that the steps name.
    pub(crate) fn focus(&self, strategy: &PlanStrategy) -> Vec<Focus> {
        let named = strategy.steps.iter().flat_map(|step| &step.paths);
        let mut known = BTreeSet::new();
        let found = named.filter_map(|path| self.file(path)).filter(|at| known.insert(at.clone()));
        found.take(FOCUS_MAX).map(|(no, path)| Focus::Path(no, path)).collect()
    }

    /// The file at a path, with or without its project's name, or below its project's root.
    pub(crate) fn file(&self, given: &str) -> Option<(RootIndex, RelPath)> {
        if !given.contains(['.', '/']) && !given.contains(':') {
            return self.plain(given);
        }
        let mut tries = self.projects.iter().zip(0_u16..).filter_map(|(project, no)| {
            let named = given.strip_prefix(project.alias.as_str()).and_then(|rest| rest.strip_prefix(':'));
            let root = project.root.to_str().and_then(|root| given.strip_prefix(root)?.strip_prefix('/'));
            let path = RelPath::new(named.or(root).unwrap_or(given).trim_start_matches("./")).ok()?;
            Some((RootIndex(no), path))
        });
        tries.find(|at| self.is_file(at))
    }

    fn plain(&self, name: &str) -> Option<(RootIndex, RelPath)> {
        let path = RelPath::new(name).ok()?;
        (0_u16..).take(self.roots.len()).map(|no| (RootIndex(no), path.clone())).find(|at| self.is_file(at))
    }

    fn is_file(&self, (no, path): &(RootIndex, RelPath)) -> bool {
        self.roots.get(usize::from(no.0)).is_some_and(|root| read_file(root.as_fd(), path, 0).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::plan::strategy::StrategyStep;

    fn trees(dir: &std::path::Path) -> ProjectTrees {
        for (path, text) in [("a/src/main.rs", "x"), ("a/Makefile", "x"), ("b/lib.py", "x")] {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let project =
            |alias: &str| ToolProject { alias: alias.to_owned(), root: dir.join(alias), read_only: false };
        let projects = vec![project("a"), project("b")];
        let roots = projects.iter().map(|project| sandbox::fs::beneath::open_root(&project.root).unwrap());
        ProjectTrees { roots: roots.collect(), projects }
    }

    #[test]
    fn of_a_strategy_the_files_that_are_there_are_the_focus_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let trees = trees(dir.path());
        let absolute = dir.path().join("b/lib.py").to_str().unwrap().to_owned();
        let paths = [
            "src/main.rs",
            "./src/main.rs",
            "src/new.rs",
            "b:lib.py",
            &absolute,
            "Makefile",
            "src",
            "../b/lib.py",
        ];
        let step = StrategyStep { paths: paths.map(str::to_owned).to_vec(), ..StrategyStep::default() };
        let focus = trees.focus(&PlanStrategy { summary: String::new(), steps: vec![step] });
        let shown: Vec<String> = focus.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["src/main.rs", "lib.py", "Makefile"]);
    }
}
