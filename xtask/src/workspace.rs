//! The workspace as cargo describes it: the root, the target directory, the packages and their dependencies.
//!
//! Read once by `cargo metadata --no-deps`, which needs neither a network nor a lock file.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::child::Child;
use crate::failure::Failure;

/// The workspace that we were started in.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One package of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Relative to the root.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) benches: Vec<String>,
}

/// An arrow from a package to another, of the workspace or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// For what a dependency is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self, Failure> {
        let text = Child::cargo(["metadata", "--format-version", "1", "--no-deps"]).output_here()?;
        let metadata: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("`cargo metadata` printed what is not JSON: {error}")))?;
        Ok(Self::from_metadata(&metadata))
    }

    pub(crate) fn from_metadata(metadata: &Value) -> Self {
        let root = PathBuf::from(text(metadata, "workspace_root"));
        let packages =
            items(metadata, "packages").map(|package| Package::from_metadata(package, &root)).collect();
        Self { target: PathBuf::from(text(metadata, "target_directory")), root, packages }
    }

    /// The build directory of a variant: artefacts made under other flags must not meet.
    pub(crate) fn target(&self, variant: &str) -> String {
        let path = self.target.join(variant);
        path.strip_prefix(&self.root).unwrap_or(&path).display().to_string()
    }

    /// The text of a file below the root.
    pub(crate) fn read(&self, path: &str) -> Result<String, Failure> {
        std::fs::read_to_string(self.root.join(path))
            .map_err(|error| Failure::new(format!("{path} cannot be read: {error}")))
    }

    /// The files that git knows or would know: tracked, or new and not ignored.
    pub(crate) fn files(&self) -> Result<Vec<String>, Failure> {
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = Child::new("git", list).output(self)?;
        let mut files: Vec<String> =
            listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
        files.retain(|path| self.root.join(path).is_file());
        files.sort();
        files.dedup();
        Ok(files)
    }
}

impl Package {
    fn from_metadata(package: &Value, root: &Path) -> Self {
        let manifest = PathBuf::from(text(package, "manifest_path"));
        let manifest = manifest.strip_prefix(root).unwrap_or(&manifest).display().to_string();
        let is_bench = |target: &&Value| items(target, "kind").any(|kind| kind == "bench");
        Self {
            name: text(package, "name"),
            manifest,
            dependencies: items(package, "dependencies").map(Dependency::from_metadata).collect(),
            benches: items(package, "targets").filter(is_bench).map(|target| text(target, "name")).collect(),
        }
    }
}

impl Dependency {
    fn from_metadata(dependency: &Value) -> Self {
        let kind = match dependency["kind"].as_str() {
            Some("dev") => Kind::Dev,
            Some("build") => Kind::Build,
            Some(_) | None => Kind::Normal,
        };
        Self { name: text(dependency, "name"), kind }
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_targets_and_arrows_come_from_the_metadata() {
        let metadata = serde_json::json!({
            "workspace_root": "/tree",
            "target_directory": "/tree/target",
            "packages": [{
                "name": "engine",
                "manifest_path": "/tree/crates/engine/Cargo.toml",
                "dependencies": [
                    { "name": "domain", "kind": null },
                    { "name": "proof", "kind": "dev" },
                    { "name": "cc", "kind": "build" },
                ],
                "targets": [{ "name": "engine", "kind": ["lib"] }, { "name": "core", "kind": ["bench"] }],
            }],
        });
        let workspace = Workspace::from_metadata(&metadata);
        let arrow = |name: &str, kind| Dependency { name: name.to_owned(), kind };
        let engine = Package {
            name: "engine".to_owned(),
            manifest: "crates/engine/Cargo.toml".to_owned(),
            dependencies: vec![
                arrow("domain", Kind::Normal),
                arrow("proof", Kind::Dev),
                arrow("cc", Kind::Build),
            ],
            benches: vec!["core".to_owned()],
        };
        assert_eq!(workspace.packages, [engine]);
        assert_eq!(workspace.target("loom"), "target/loom");
    }
}
