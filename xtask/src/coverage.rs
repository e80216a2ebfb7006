//! `cargo xtask coverage`: which lines of each crate the tests reach.
//!
//! The workspace's tests run once, instrumented, and so do the programs that they start. A crate is the files
//! below `crates/<name>/src`. Each of [`BARS`] must be reached on its own; the other crates are reported. The
//! `llvm-cov` that reads the profile has to be of the compiler's own LLVM version.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::child::Child;
use crate::failure::Failure;
use crate::install;
use crate::workspace::Workspace;

/// The share of lines that the tests have to reach.
struct CoverageBar {
    /// The crate, or a part of one.
    name: &'static str,
    /// The folder that its files are in.
    folder: &'static str,
    percent: u64,
}

const BARS: [CoverageBar; 7] = [
    CoverageBar { name: "sync", folder: "crates/sync/src/", percent: 97 },
    CoverageBar { name: "domain", folder: "crates/domain/src/", percent: 97 },
    CoverageBar { name: "worker", folder: "crates/worker/src/", percent: 97 },
    CoverageBar { name: "store", folder: "crates/store/src/", percent: 97 },
    CoverageBar { name: "strategy executor", folder: "crates/context/src/executor/", percent: 97 },
    CoverageBar { name: "engine", folder: "crates/engine/src/", percent: 90 },
    CoverageBar { name: "sandbox", folder: "crates/sandbox/src/", percent: 90 },
];

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    crate::no_arguments("coverage", arguments)?;
    install::subcommand(workspace, "cargo-llvm-cov", &Child::cargo(["llvm-cov", "--version"]))?;
    let tools = LlvmTools::find_or_install(workspace)?;
    let target = workspace.target("coverage");
    let with_tools = |child: Child| {
        let child = child.variable("CARGO_TARGET_DIR", &target);
        child.variable("LLVM_COV", &tools.cov).variable("LLVM_PROFDATA", &tools.profdata)
    };
    let summary = format!("{target}/summary.json");
    let words = "llvm-cov --workspace --exclude xtask --locked --json --summary-only --output-path";
    let words = words.split(' ').chain([summary.as_str()]);
    with_tools(Child::cargo(words)).run(workspace)?;
    let report: Value = serde_json::from_str(&workspace.read(&summary)?)
        .map_err(|error| Failure::new(format!("{summary} is not JSON: {error}")))?;
    let files = files_of(&report, &workspace.root);
    let crates = by_crate(&files);
    print!("\n{}", table(&crates, &files));
    let details = with_tools(Child::cargo(["llvm-cov", "report", "--show-missing-lines"]));
    judge(&files).map_err(|failure| failure.hint(format!("the missing lines: `{details}`")))
}

/// Lines that could be reached, and those that were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LineCoverage {
    count: u64,
    covered: u64,
}

impl LineCoverage {
    fn percent(self) -> f64 {
        if self.count == 0 { 100.0 } else { self.covered as f64 * 100.0 / self.count as f64 }
    }

    fn reaches(self, bar_percent: u64) -> bool {
        self.count > 0 && self.covered * 100 >= self.count * bar_percent
    }

    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.covered += other.covered;
    }
}

/// The lines of each file, by its path below the root.
fn files_of(report: &Value, root: &Path) -> BTreeMap<String, LineCoverage> {
    let files = report["data"][0]["files"].as_array().into_iter().flatten();
    let lines_of = |file: &Value| {
        let path = Path::new(file["filename"].as_str()?).strip_prefix(root).ok()?.to_str()?.to_owned();
        let lines = &file["summary"]["lines"];
        Some((path, LineCoverage { count: lines["count"].as_u64()?, covered: lines["covered"].as_u64()? }))
    };
    files.filter_map(lines_of).collect()
}

fn by_crate(files: &BTreeMap<String, LineCoverage>) -> BTreeMap<&str, LineCoverage> {
    let mut crates: BTreeMap<&str, LineCoverage> = BTreeMap::new();
    for (path, lines) in files {
        if let Some(name) = crate_of(path) {
            crates.entry(name).or_default().add(*lines);
        }
    }
    crates
}

/// `sync` of `crates/sync/src/…`.
fn crate_of(path: &str) -> Option<&str> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    rest.starts_with("src/").then_some(name)
}

impl CoverageBar {
    fn lines(&self, files: &BTreeMap<String, LineCoverage>) -> LineCoverage {
        let mut total = LineCoverage::default();
        files
            .iter()
            .filter(|(path, _)| path.starts_with(self.folder))
            .for_each(|(_, lines)| total.add(*lines));
        total
    }
}

/// The crates, and below them the parts of crates that have a bar.
fn table(crates: &BTreeMap<&str, LineCoverage>, files: &BTreeMap<String, LineCoverage>) -> String {
    let parts = BARS.iter().filter(|bar| !crates.contains_key(bar.name));
    let parts = parts.map(|bar| (bar.name, bar.lines(files)));
    let mut text = format!("{:18} {:>8} {:>8} {:>9}\n", "crate", "lines", "covered", "percent");
    for (name, lines) in crates.iter().map(|(name, lines)| (*name, *lines)).chain(parts) {
        let bar = BARS.iter().find(|bar| bar.name == name);
        let bar = bar.map_or(String::new(), |bar| format!("  (bar {})", bar.percent));
        text += &format!("{name:18} {:>8} {:>8} {:>9.2}{bar}\n", lines.count, lines.covered, lines.percent());
    }
    text
}

fn judge(files: &BTreeMap<String, LineCoverage>) -> Result<(), Failure> {
    let mut facts = Vec::new();
    for bar in &BARS {
        let lines = bar.lines(files);
        if lines.reaches(bar.percent) {
            continue;
        }
        facts.push(format!(
            "{}: {} of {} lines covered, under the bar of {} %",
            bar.name, lines.covered, lines.count, bar.percent
        ));
        for (path, lines) in files.iter().filter(|(path, _)| path.starts_with(bar.folder)) {
            if lines.covered < lines.count {
                facts.push(format!("  {path}: {} lines missing", lines.count - lines.covered));
            }
        }
    }
    if facts.is_empty() { Ok(()) } else { Err(Failure::new(facts.join("\n"))) }
}

/// The programs that read profiles.
struct LlvmTools {
    cov: String,
    profdata: String,
}

impl LlvmTools {
    fn find_or_install(workspace: &Workspace) -> Result<Self, Failure> {
        let compiler = Child::new("rustc", ["-vV"]).output(workspace)?;
        let Some(major) = llvm_major(&compiler) else {
            return Err(Failure::new("`rustc -vV` does not say which LLVM it carries"));
        };
        if let Some(tools) = Self::find(workspace, major, &compiler) {
            return Ok(tools);
        }
        let why = format!("`llvm-cov-{major}` reads the profiles of this rustc");
        let installed = install::debian_package(workspace, &format!("llvm-{major}"), &why).or_else(|_| {
            println!("installing the toolchain's component llvm-tools instead");
            Child::new("rustup", ["component", "add", "llvm-tools"]).run(workspace)
        });
        match (installed, Self::find(workspace, major, &compiler)) {
            (Ok(()), Some(tools)) => Ok(tools),
            (Ok(()) | Err(_), _) => {
                Err(Failure::new(format!("no llvm-cov of LLVM {major} could be installed"))
                    .hint("install one and name it by the variables LLVM_COV and LLVM_PROFDATA"))
            }
        }
    }

    fn find(workspace: &Workspace, major: u32, compiler: &str) -> Option<Self> {
        let answers = |tools: &Self| {
            [&tools.cov, &tools.profdata].iter().all(|tool| Child::new(tool, ["--version"]).succeeds())
        };
        let named = || {
            let cov = std::env::var("LLVM_COV").ok()?;
            Some(Self { cov, profdata: std::env::var("LLVM_PROFDATA").ok()? })
        };
        let debian =
            || Some(Self { cov: format!("llvm-cov-{major}"), profdata: format!("llvm-profdata-{major}") });
        let component = || {
            let sysroot = Child::new("rustc", ["--print", "sysroot"]).output(workspace).ok()?;
            let host = compiler.lines().find_map(|line| line.strip_prefix("host: "))?;
            let folder = format!("{}/lib/rustlib/{host}/bin", sysroot.trim());
            Some(Self { cov: format!("{folder}/llvm-cov"), profdata: format!("{folder}/llvm-profdata") })
        };
        named().filter(answers).or_else(|| debian().filter(answers)).or_else(|| component().filter(answers))
    }
}

/// `22` of the line `LLVM version: 22.1.2` of `rustc -vV`.
fn llvm_major(compiler: &str) -> Option<u32> {
    let version = compiler.lines().find_map(|line| line.strip_prefix("LLVM version: "))?;
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(files: &[(&str, u64, u64)]) -> Value {
        let file = |&(name, count, covered): &(&str, u64, u64)| serde_json::json!({ "filename": name, "summary": { "lines": { "count": count, "covered": covered } } });
        serde_json::json!({ "data": [{ "files": files.iter().map(file).collect::<Vec<_>>() }] })
    }

    /// The verdict on a report in which every other bar is reached.
    fn judged(folder: &str, count: u64, covered: u64) -> Result<(), Failure> {
        let path = |folder: &str| format!("/tree/{folder}a.rs");
        let lines = |bar: &CoverageBar| if bar.folder == folder { (count, covered) } else { (100, 100) };
        let files: Vec<(String, (u64, u64))> =
            BARS.iter().map(|bar| (path(bar.folder), lines(bar))).collect();
        let files: Vec<(&str, u64, u64)> =
            files.iter().map(|(path, (count, covered))| (path.as_str(), *count, *covered)).collect();
        judge(&files_of(&report(&files), Path::new("/tree")))
    }

    #[test]
    fn each_bar_is_judged_on_its_own() {
        for bar in &BARS {
            assert_eq!(judged(bar.folder, 100, bar.percent), Ok(()));
            let failure = judged(bar.folder, 100, bar.percent - 1);
            let expected = format!(
                "{}: {} of 100 lines covered, under the bar of {} %\n  {}a.rs: {} lines missing",
                bar.name,
                bar.percent - 1,
                bar.percent,
                bar.folder,
                101 - bar.percent
            );
            assert_eq!(failure, Err(Failure::new(expected)));
        }
    }

    #[test]
    fn a_crate_with_a_bar_and_without_lines_fails() {
        let failure = judged("crates/domain/src/", 0, 0);
        assert!(failure.is_err_and(|failure| failure.fact().starts_with("domain: 0 of 0")));
    }

    #[test]
    fn only_the_files_below_src_count() {
        let files = files_of(
            &report(&[
                ("/tree/crates/sync/src/breaker.rs", 10, 10),
                ("/tree/crates/sync/tests/main.rs", 50, 0),
                ("/registry/crates/sync/src/other.rs", 50, 0),
            ]),
            Path::new("/tree"),
        );
        assert_eq!(by_crate(&files), BTreeMap::from([("sync", LineCoverage { count: 10, covered: 10 })]));
    }

    #[test]
    fn the_llvm_version_is_the_compilers() {
        assert_eq!(llvm_major("rustc 1.95.0\nhost: x86_64\nLLVM version: 22.1.2\n"), Some(22));
        assert_eq!(llvm_major("rustc 1.95.0\n"), None);
    }
}
