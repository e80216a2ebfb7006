//! `cargo xtask model-check [words…]`: every promise over thread schedules, and the naive twins that must
//! fail.
//!
//! Three explorers run one after the other, each in a build of its own:
//! 1. loom on the primitives of `sync`: exhaustive within a bound on preemptions.
//! 2. shuttle on the compositions in `worker`, `context` and `store`: many drawn schedules.
//! 3. The search of the lease protocol's whole state space, an ordinary test of `domain`.
//!
//! Words choose the cases whose title contains all of them. Every explorer runs even if one before it failed,
//! and the [`summary`] comes last.
//!
//! # Invariants
//! 1. A run that explored nothing fails. A binary built without its `--cfg` has no cases, and would pass.
//!
//! # Not here
//! The cases. They are next to the code that they explore, on the harness of the crate `proof`.

mod summary;

use crate::child::Child;
use crate::failure::Failure;
use crate::test::LineSink;
use crate::workspace::Workspace;

use summary::ModelCheckSummary;

/// The amount to explore; the binaries read it from [`EFFORT_VARIABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelCheckEffort {
    Quick,
    Full,
}

pub(crate) const EFFORT_VARIABLE: &str = "AGENTS_PROOF_EFFORT";

pub(crate) fn run(workspace: &Workspace, words: &[String]) -> Result<(), Failure> {
    let quick = std::env::var(EFFORT_VARIABLE).is_ok_and(|effort| effort == "quick");
    let effort = if quick { ModelCheckEffort::Quick } else { ModelCheckEffort::Full };
    run_with(workspace, effort, words, &mut |line| println!("{line}"))
}

/// Explores with the given effort. The quick one leaves the lease protocol to the ordinary tests, which
/// search it too.
pub(crate) fn run_with(
    workspace: &Workspace,
    effort: ModelCheckEffort,
    words: &[String],
    show: LineSink<'_>,
) -> Result<(), Failure> {
    let mut summary = ModelCheckSummary::default();
    let mut results = Vec::new();
    for variant in VARIANTS {
        results.push(variant.explore(workspace, effort, words, &mut summary, show));
    }
    if effort == ModelCheckEffort::Full && words.iter().all(|word| LEASE_PROTOCOL.contains(word.as_str())) {
        results.push(search_lease_protocol(workspace, &mut summary, show));
    }
    format!("\n{summary}").lines().for_each(&mut *show);
    results.into_iter().collect::<Result<(), Failure>>()?;
    if summary.is_empty() {
        return Err(Failure::new(format!(
            "no case has all of these words in its title: {}",
            words.join(" ")
        )));
    }
    Ok(())
}

/// A build under a `--cfg`, in which the test of the same name has its cases.
pub(crate) struct Variant {
    pub(crate) cfg: &'static str,
    /// Built together, so that the features of what they share are resolved once.
    packages: &'static [&'static str],
}

pub(crate) const VARIANTS: [Variant; 2] = [
    Variant { cfg: "loom", packages: &["sync"] },
    Variant { cfg: "shuttle", packages: &["worker", "context", "store"] },
];

impl Variant {
    /// The lints of the code that only this variant compiles.
    pub(crate) fn clippy(&self, workspace: &Workspace) -> Child {
        let warnings_denied = ["--", "-D", "warnings"].map(str::to_owned);
        self.cargo("clippy", workspace, &from_environment).arguments(&warnings_denied)
    }

    fn test(
        &self,
        workspace: &Workspace,
        effort: ModelCheckEffort,
        words: &[String],
        given: VariableLookup<'_>,
    ) -> Child {
        let test =
            self.cargo("test", workspace, given).arguments(&["--no-fail-fast".to_owned(), "--".to_owned()]);
        let test = match effort {
            ModelCheckEffort::Quick => test.variable(EFFORT_VARIABLE, "quick"),
            ModelCheckEffort::Full => test,
        };
        test.arguments(words)
    }

    fn cargo(&self, verb: &str, workspace: &Workspace, given: VariableLookup<'_>) -> Child {
        let flags = format!("{} --cfg {}", given("RUSTFLAGS").unwrap_or_default(), self.cfg);
        let packages: Vec<String> =
            self.packages.iter().flat_map(|&name| ["-p".to_owned(), name.to_owned()]).collect();
        Child::cargo([verb, "--profile", "proof", "--locked", "--test", self.cfg])
            .arguments(&packages)
            .variable("RUSTFLAGS", flags.trim())
            .variable("CARGO_TARGET_DIR", workspace.target(self.cfg))
    }

    fn explore(
        &self,
        workspace: &Workspace,
        effort: ModelCheckEffort,
        words: &[String],
        summary: &mut ModelCheckSummary,
        show: LineSink<'_>,
    ) -> Result<(), Failure> {
        let before = summary.binaries_with_cases();
        let test = self.test(workspace, effort, words, &from_environment);
        test.run_watched(workspace, &mut |line| {
            show(line);
            summary.see(line);
        })?;
        let ran = summary.binaries_with_cases() - before;
        if words.is_empty() && ran < self.packages.len() {
            let expected = self.packages.join(", ");
            let fact = format!("of the {} tests in {expected} only {ran} explored any case", self.cfg);
            return Err(Failure::new(fact).hint(format!("repeat it with `{test}`")));
        }
        Ok(())
    }
}

/// The variables that the caller has set.
type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

fn from_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

const LEASE_PROTOCOL: &str = "lease_protocol";

fn search_lease_protocol(
    workspace: &Workspace,
    summary: &mut ModelCheckSummary,
    show: LineSink<'_>,
) -> Result<(), Failure> {
    let words = ["test", "--profile", "proof", "--locked", "-p", "domain", "--test", "main", LEASE_PROTOCOL];
    let test = Child::cargo(words).arguments(&["--".to_owned(), "--nocapture".to_owned()]);
    let before = summary.tests_passed();
    test.run_watched(workspace, &mut |line| {
        show(line);
        summary.see(line);
    })?;
    match summary.tests_passed() - before {
        0 => Err(Failure::new(format!("no test of domain is named {LEASE_PROTOCOL}"))
            .hint(format!("repeat it with `{test}`"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(
        variant: &Variant,
        effort: ModelCheckEffort,
        words: &[&str],
        given: VariableLookup<'_>,
    ) -> String {
        let workspace = Workspace::from_metadata(&serde_json::json!({
            "workspace_root": "/tree",
            "target_directory": "/tree/target",
        }));
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        variant.test(&workspace, effort, &words, given).to_string()
    }

    #[test]
    fn each_variant_has_its_flag_its_folder_and_its_packages() {
        let [loom, shuttle] = VARIANTS;
        assert_eq!(
            line(&loom, ModelCheckEffort::Full, &["one", "trip"], &|_| None),
            "RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom \
             cargo test --profile proof --locked --test loom -p sync --no-fail-fast -- one trip"
        );
        assert_eq!(
            line(&shuttle, ModelCheckEffort::Quick, &[], &|_| None),
            "RUSTFLAGS='--cfg shuttle' CARGO_TARGET_DIR=target/shuttle AGENTS_PROOF_EFFORT=quick \
             cargo test --profile proof --locked --test shuttle -p worker -p context -p store --no-fail-fast --"
        );
    }

    #[test]
    fn what_the_caller_has_set_stays() {
        let given = |name: &str| match name {
            "RUSTFLAGS" => Some("-C target-cpu=native".to_owned()),
            _ => None,
        };
        let shown = line(&VARIANTS[0], ModelCheckEffort::Full, &[], &given);
        assert!(shown.starts_with("RUSTFLAGS='-C target-cpu=native --cfg loom' "), "{shown}");
    }
}
