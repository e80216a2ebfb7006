//! The arrows between crates: `app → engine → worker → store → domain` and
//! `engine → {context, sandbox, actors} → domain`.
//!
//! A crate may use the crates below it. The four in the middle never see each other: they meet in the engine
//! through small traits. `sync` is a leaf that all but `domain` may use, `domain` is pure and uses nothing of
//! ours. `proof` and `testkit` are for tests, `sim` and `xtask` are for contributors, so nothing is built on
//! them. Tests may look sideways, but not up: a crate whose tests need a higher one cannot be worked on
//! alone.

use super::Finding;
use crate::workspace::{Dependency, Kind, Package};

/// The layer of a crate; an arrow points to a lower number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CrateLayer {
    /// `sync`, `proof` and `testkit`, which use nothing of ours.
    Leaf,
    Domain,
    Middle,
    Worker,
    Engine,
    App,
    Tool,
}

const LAYERS: [(&str, CrateLayer); 14] = [
    ("xtask", CrateLayer::Tool),
    ("app", CrateLayer::App),
    ("sim", CrateLayer::App),
    ("engine", CrateLayer::Engine),
    ("definitions", CrateLayer::Worker),
    ("worker", CrateLayer::Worker),
    ("context", CrateLayer::Middle),
    ("sandbox", CrateLayer::Middle),
    ("store", CrateLayer::Middle),
    ("actors", CrateLayer::Middle),
    ("domain", CrateLayer::Domain),
    ("sync", CrateLayer::Leaf),
    ("proof", CrateLayer::Leaf),
    ("testkit", CrateLayer::Leaf),
];

/// Judges every arrow; `text_of` gives the text of a manifest, in which the line is looked up.
pub(crate) fn check<'a>(packages: &[Package], text_of: impl Fn(&str) -> Option<&'a str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let manifest = package.manifest.as_str();
        if layer_of(&package.name).is_none() {
            let what = format!(
                "{} has no place among the arrows: give it one in xtask/src/tidy/arrows.rs",
                package.name
            );
            findings.push(Finding::new(manifest, 1, what));
        }
        for dependency in &package.dependencies {
            if let Some(what) = refused(&package.name, dependency) {
                let line = line_of(text_of(manifest).unwrap_or_default(), dependency);
                findings.push(Finding::new(manifest, line, what));
            }
        }
    }
    findings
}

/// Why an arrow is refused; `None` also for one that leaves the workspace.
fn refused(from: &str, Dependency { name: to, kind }: &Dependency) -> Option<String> {
    let (from_layer, to_layer) = (layer_of(from)?, layer_of(to)?);
    let is_built_on = *kind != Kind::Dev;
    let why = if to == "xtask" {
        "nothing depends on xtask"
    } else if matches!(to.as_str(), "proof" | "testkit") && is_built_on {
        "it is for tests: make it a dev-dependency"
    } else if from == "domain" && is_built_on {
        "domain is pure and uses nothing of ours"
    } else if to_layer > from_layer {
        "the arrow points up"
    } else if from_layer == CrateLayer::Leaf && is_built_on {
        "a leaf uses nothing of ours"
    } else if from_layer == to_layer && is_built_on {
        "crates of one layer never see each other"
    } else {
        return None;
    };
    Some(format!("{from} must not depend on {to}: {why}"))
}

fn layer_of(name: &str) -> Option<CrateLayer> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|&(_, layer)| layer)
}

/// The line of the manifest that declares the dependency, in the table of its kind; 1 if it is written
/// otherwise.
fn line_of(manifest: &str, dependency: &Dependency) -> usize {
    let table = match dependency.kind {
        Kind::Normal => "dependencies]",
        Kind::Build => "build-dependencies]",
        Kind::Dev => "dev-dependencies]",
    };
    let mut in_table = false;
    for (index, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            let header = line.trim_start_matches('[');
            in_table = header == table || header.ends_with(&format!(".{table}"));
        }
        let declares =
            line.strip_prefix(&dependency.name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']));
        if in_table && declares {
            return index + 1;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(from: &str, to: &str, kind: Kind) -> bool {
        refused(from, &Dependency { name: to.to_owned(), kind }).is_some()
    }

    #[test]
    fn arrows_down_pass() {
        for (from, to) in [
            ("app", "engine"),
            ("app", "store"),
            ("engine", "context"),
            ("engine", "domain"),
            ("engine", "sync"),
            ("context", "sync"),
            ("store", "domain"),
            ("domain", "serde"),
            ("xtask", "domain"),
        ] {
            assert!(!is_refused(from, to, Kind::Normal), "{from} → {to}");
        }
    }

    #[test]
    fn arrows_up_and_sideways_are_refused() {
        for (from, to) in [
            ("engine", "app"),
            ("context", "engine"),
            ("domain", "store"),
            ("domain", "sync"),
            ("sync", "domain"),
            ("context", "store"),
            ("actors", "sandbox"),
            ("engine", "proof"),
            ("sync", "proof"),
            ("proof", "sync"),
            ("app", "xtask"),
        ] {
            assert!(is_refused(from, to, Kind::Normal), "{from} → {to}");
            assert!(is_refused(from, to, Kind::Build), "{from} → {to}");
        }
    }

    #[test]
    fn tests_may_look_sideways_but_not_up() {
        for (from, to) in [("sync", "proof"), ("context", "store"), ("domain", "sync"), ("engine", "store")] {
            assert!(!is_refused(from, to, Kind::Dev), "{from} → {to}");
        }
        for (from, to) in [("store", "engine"), ("sync", "domain"), ("domain", "store"), ("engine", "xtask")]
        {
            assert!(is_refused(from, to, Kind::Dev), "{from} → {to}");
        }
    }

    #[test]
    fn a_finding_points_at_the_line_of_the_dependency() {
        let manifest = "[package]\nname = \"context\"\n[dev-dependencies]\nstore.workspace = true\n\n\
                        [target.'cfg(unix)'.dependencies]\nstore.workspace = true\n";
        let package = Package {
            name: "context".to_owned(),
            manifest: "crates/context/Cargo.toml".to_owned(),
            dependencies: vec![Dependency { name: "store".to_owned(), kind: Kind::Normal }],
            benches: Vec::new(),
        };
        let what = "context must not depend on store: crates of one layer never see each other";
        let expected = Finding::new("crates/context/Cargo.toml", 7, what);
        assert_eq!(check(&[package], |_| Some(manifest)), [expected]);
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        let package = Package {
            name: "common".to_owned(),
            manifest: "crates/common/Cargo.toml".to_owned(),
            dependencies: Vec::new(),
            benches: Vec::new(),
        };
        assert_eq!(check(&[package], |_| None).len(), 1);
    }
}
