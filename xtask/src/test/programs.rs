//! The programs that one build of the workspace makes: tests, benchmarks, the product, the simulation.
//!
//! One call of cargo builds them all, so that every dependency is compiled once: `cargo run -p` or `cargo
//! test -p` of a single crate resolves other features and compiles half of the dependencies again. Cargo
//! reports the path of each program, and they are run from there.

use serde_json::Value;

use super::lanes::LineSink;
use crate::child::Child;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// A program that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuiltProgram {
    /// The crate that it belongs to.
    package: String,
    name: String,
    /// `lib`, `bin`, `test`, `bench` or `example`.
    kind: String,
    /// True for the harness of tests, false for the program itself.
    is_test: bool,
    path: String,
}

/// The programs of one build.
#[derive(Debug, Default)]
pub(crate) struct BuiltPrograms(Vec<BuiltProgram>);

const BUILD: &str = "test --workspace --locked --no-run --lib --bins --tests --examples --bench apply \
                     --bench soak --message-format json-render-diagnostics";

/// The build, as a line that can be repeated.
pub(crate) fn build_command() -> Child {
    Child::cargo(BUILD.split_whitespace())
}

impl BuiltPrograms {
    pub(crate) fn build(workspace: &Workspace, show: LineSink<'_>) -> Result<Self, Failure> {
        let mut programs = Vec::new();
        build_command().run_watched(workspace, &mut |line| match serde_json::from_str::<Value>(line) {
            Ok(message) => programs.extend(BuiltProgram::from_message(&message, workspace)),
            Err(_) => show(line),
        })?;
        Ok(Self(programs))
    }

    /// Runs the tests of the crates that `wanted` accepts by their name.
    /// Returns an error if one fails, after the others of the same crates have run.
    pub(crate) fn run_tests(
        &self,
        workspace: &Workspace,
        wanted: impl Fn(&str) -> bool,
        show: LineSink<'_>,
    ) -> Result<(), Failure> {
        let is_test = |program: &&BuiltProgram| {
            program.is_test && matches!(program.kind.as_str(), "lib" | "bin" | "test")
        };
        let tests = self.0.iter().filter(is_test).filter(|program| wanted(&program.package));
        let results: Vec<Result<(), Failure>> =
            tests.map(|program| program.run(workspace, &[], show)).collect();
        if results.is_empty() {
            return Err(Failure::new("the build made no tests"));
        }
        results.into_iter().collect()
    }

    pub(crate) fn run_bench(
        &self,
        workspace: &Workspace,
        package: &str,
        name: &str,
        arguments: &[&str],
        show: LineSink<'_>,
    ) -> Result<(), Failure> {
        let wanted = |program: &BuiltProgram| {
            program.package == package && program.name == name && program.kind == "bench"
        };
        self.find(wanted, name)?.run(workspace, arguments, show)
    }

    pub(crate) fn run_binary(
        &self,
        workspace: &Workspace,
        name: &str,
        arguments: &[&str],
        show: LineSink<'_>,
    ) -> Result<(), Failure> {
        let wanted =
            |program: &BuiltProgram| program.name == name && program.kind == "bin" && !program.is_test;
        self.find(wanted, name)?.run(workspace, arguments, show)
    }

    fn find(&self, wanted: impl Fn(&BuiltProgram) -> bool, name: &str) -> Result<&BuiltProgram, Failure> {
        let found = self.0.iter().find(|program| wanted(program));
        found.ok_or_else(|| Failure::new(format!("the build made no program `{name}`")))
    }
}

impl BuiltProgram {
    /// `None` if the message is not about a program.
    fn from_message(message: &Value, workspace: &Workspace) -> Option<Self> {
        let path = message["executable"].as_str()?.to_owned();
        let manifest = message["manifest_path"].as_str()?;
        let package = workspace
            .packages
            .iter()
            .find(|package| workspace.root.join(&package.manifest).to_str() == Some(manifest))?;
        Some(Self {
            package: package.name.clone(),
            name: message["target"]["name"].as_str()?.to_owned(),
            kind: message["target"]["kind"][0].as_str()?.to_owned(),
            is_test: message["profile"]["test"].as_bool()?,
            path,
        })
    }

    /// Runs it where `cargo test` would: in the folder of its crate.
    fn run(&self, workspace: &Workspace, arguments: &[&str], show: LineSink<'_>) -> Result<(), Failure> {
        let package = workspace.packages.iter().find(|package| package.name == self.package);
        let folder = package.and_then(|package| package.manifest.strip_suffix("/Cargo.toml")).unwrap_or(".");
        Child::new(&self.path, arguments.iter().copied()).directory(folder).run_watched(workspace, show)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        Workspace::from_metadata(&serde_json::json!({
            "workspace_root": "/tree",
            "target_directory": "/tree/target",
            "packages": [{ "name": "sim", "manifest_path": "/tree/crates/sim/Cargo.toml" }],
        }))
    }

    fn message(is_test: bool, executable: Option<&str>) -> Value {
        serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": "/tree/crates/sim/Cargo.toml",
            "target": { "name": "sim", "kind": ["bin"] },
            "profile": { "test": is_test },
            "executable": executable,
        })
    }

    #[test]
    fn programs_are_found_in_what_cargo_reports() {
        let program =
            BuiltProgram::from_message(&message(false, Some("/tree/target/debug/sim")), &workspace());
        let expected = BuiltProgram {
            package: "sim".to_owned(),
            name: "sim".to_owned(),
            kind: "bin".to_owned(),
            is_test: false,
            path: "/tree/target/debug/sim".to_owned(),
        };
        assert_eq!(program, Some(expected));
        assert_eq!(BuiltProgram::from_message(&message(false, None), &workspace()), None);
    }

    #[test]
    fn a_build_without_tests_is_a_failure() {
        let none = BuiltPrograms::default();
        assert!(none.run_tests(&workspace(), |_| true, &mut |_| {}).is_err());
    }

    #[test]
    fn every_test_of_a_crate_runs_though_one_failed() {
        let program = |path: &str| BuiltProgram {
            package: "sim".to_owned(),
            name: "main".to_owned(),
            kind: "test".to_owned(),
            is_test: true,
            path: path.to_owned(),
        };
        let root =
            Workspace::from_metadata(&serde_json::json!({ "workspace_root": "/", "target_directory": "/" }));
        let mut shown = Vec::new();
        let programs = BuiltPrograms(vec![program("false"), program("true")]);
        assert!(programs.run_tests(&root, |_| true, &mut |line| shown.push(line.to_owned())).is_err());
        assert_eq!(shown, ["$ cd . && false", "$ cd . && true"]);
    }
}
