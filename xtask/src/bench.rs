//! `cargo xtask bench [name] [arguments…]`: ours and its peers in one run.
//!
//! The names are those of the bench targets in the workspace, so that a new one needs no line here. Several
//! packages may have one of the same name: each measures its own part, and all of them run. Without a name
//! every benchmark runs. A row ends in `bench NAME ours=N peer=N ratio=N unit=U`.

use crate::child::Child;
use crate::failure::Failure;
use crate::peers;
use crate::workspace::{Package, Workspace};

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let benches = benches(&workspace.packages);
    let Some((name, extra)) = arguments.split_first() else {
        return benches.iter().try_for_each(|bench| {
            peers::for_bench(workspace, bench.name);
            bench.command(&[]).run(workspace)
        });
    };
    let parts = parts(&benches, name)?;
    peers::for_bench(workspace, name);
    parts.iter().try_for_each(|bench| bench.command(extra).run(workspace))
}

/// The benches of this name, one in each package that has a part of it.
fn parts<'b, 'a>(benches: &'b [BenchTarget<'a>], name: &str) -> Result<Vec<&'b BenchTarget<'a>>, Failure> {
    let parts: Vec<_> = benches.iter().filter(|bench| bench.name == name).collect();
    if parts.is_empty() {
        let mut known: Vec<&str> = benches.iter().map(|bench| bench.name).collect();
        known.sort_unstable();
        known.dedup();
        return Err(Failure::new(format!("there is no benchmark `{name}`"))
            .hint(format!("benchmarks there are: {}", known.join(", "))));
    }
    Ok(parts)
}

#[derive(Debug, PartialEq, Eq)]
struct BenchTarget<'a> {
    package: &'a str,
    name: &'a str,
}

impl BenchTarget<'_> {
    fn command(&self, extra: &[String]) -> Child {
        let words = ["bench", "--locked", "-p", self.package, "--bench", self.name, "--"];
        Child::cargo(words).arguments(extra)
    }
}

fn benches<'a>(packages: &'a [Package]) -> Vec<BenchTarget<'a>> {
    let of_package = |package: &'a Package| {
        let of_name = |name: &'a String| BenchTarget { package: &package.name, name };
        package.benches.iter().map(of_name)
    };
    packages.iter().flat_map(of_package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, benches: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            manifest: String::new(),
            dependencies: Vec::new(),
            benches: benches.iter().map(|&bench| bench.to_owned()).collect(),
        }
    }

    #[test]
    fn all_parts_of_a_benchmark_are_found() {
        let packages = [package("app", &["apply", "start"]), package("sandbox", &["apply"])];
        let benches = benches(&packages);
        let found = parts(&benches, "apply").map(|parts| parts.iter().map(|part| part.package).collect());
        assert_eq!(found, Ok(vec!["app", "sandbox"]));
        let none = parts(&benches, "speed").map(|parts| parts.len());
        let expected =
            Failure::new("there is no benchmark `speed`").hint("benchmarks there are: apply, start");
        assert_eq!(none, Err(expected));
    }

    #[test]
    fn a_bench_is_found_in_the_package_that_has_it() {
        let packages = [package("sync", &[]), package("engine", &["core"])];
        let found = benches(&packages);
        assert_eq!(found, [BenchTarget { package: "engine", name: "core" }]);
        let line = found[0].command(&["breaker".to_owned()]).to_string();
        assert_eq!(line, "cargo bench --locked -p engine --bench core -- breaker");
    }
}
