//! `cargo xtask coverage`: which lines of each crate the tests reach.
//!
//! The workspace's tests run once, instrumented. A crate is the files below `crates/<name>/src`; those in
//! [`BARRED`] must reach [`BAR_PERCENT`] each on its own, the others are reported. The `llvm-cov` that reads
//! the profile has to be of the compiler's own LLVM version.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::child::Child;
use crate::failure::Failure;
use crate::install;
use crate::workspace::Workspace;

const BARRED: [&str; 2] = ["sync", "domain"];
const BAR_PERCENT: u64 = 97;

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
    print!("\n{}", table(&crates));
    let details = with_tools(Child::cargo(["llvm-cov", "report", "--show-missing-lines"]));
    judge(&crates, &files).map_err(|failure| failure.hint(format!("the missing lines: `{details}`")))
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

    fn reaches_bar(self) -> bool {
        self.count > 0 && self.covered * 100 >= self.count * BAR_PERCENT
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
            let total = crates.entry(name).or_default();
            total.count += lines.count;
            total.covered += lines.covered;
        }
    }
    crates
}

/// `sync` of `crates/sync/src/…`.
fn crate_of(path: &str) -> Option<&str> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    rest.starts_with("src/").then_some(name)
}

fn table(crates: &BTreeMap<&str, LineCoverage>) -> String {
    let mut text = format!("{:10} {:>8} {:>8} {:>9}\n", "crate", "lines", "covered", "percent");
    for (name, lines) in crates {
        let bar = if BARRED.contains(name) { format!("  (bar {BAR_PERCENT})") } else { String::new() };
        text += &format!("{name:10} {:>8} {:>8} {:>9.2}{bar}\n", lines.count, lines.covered, lines.percent());
    }
    text
}

fn judge(
    crates: &BTreeMap<&str, LineCoverage>,
    files: &BTreeMap<String, LineCoverage>,
) -> Result<(), Failure> {
    let mut facts = Vec::new();
    for name in BARRED {
        let lines = crates.get(name).copied().unwrap_or_default();
        if lines.reaches_bar() {
            continue;
        }
        facts.push(format!(
            "{name}: {} of {} lines covered, under the bar of {BAR_PERCENT} %",
            lines.covered, lines.count
        ));
        for (path, lines) in files.iter().filter(|(path, _)| crate_of(path) == Some(name)) {
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

    fn judged(files: &[(&str, u64, u64)]) -> Result<(), Failure> {
        let files = files_of(&report(files), Path::new("/tree"));
        judge(&by_crate(&files), &files)
    }

    #[test]
    fn each_barred_crate_is_judged_on_its_own() {
        let sync = ("/tree/crates/sync/src/breaker.rs", 1000, 1000);
        assert_eq!(judged(&[sync, ("/tree/crates/domain/src/job.rs", 100, 97)]), Ok(()));
        let failure = judged(&[sync, ("/tree/crates/domain/src/job.rs", 100, 96)]);
        let expected = "domain: 96 of 100 lines covered, under the bar of 97 %\n  \
                        crates/domain/src/job.rs: 4 lines missing";
        assert_eq!(failure, Err(Failure::new(expected)));
    }

    #[test]
    fn a_barred_crate_without_lines_fails() {
        let failure = judged(&[("/tree/crates/sync/src/breaker.rs", 10, 10)]);
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
