//! `cargo xtask bench [name] [arguments…]`: ours and its peers in one run.
//!
//! The names are those of the bench targets in the workspace, so that a new one needs no line here. Without a name
//! all of them run. A row ends in `bench NAME ours=N peer=N ratio=N unit=U`.

use crate::child::Child;
use crate::failure::Failure;
use crate::workspace::{Package, Workspace};

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let benches = benches(&workspace.packages);
    let Some((name, extra)) = arguments.split_first() else {
        return benches.iter().try_for_each(|bench| bench.command(&[]).run(workspace));
    };
    match benches.iter().find(|bench| bench.name == name) {
        Some(bench) => bench.command(extra).run(workspace),
        None => {
            let known: Vec<&str> = benches.iter().map(|bench| bench.name).collect();
            Err(Failure::new(format!("there is no benchmark `{name}`"))
                .hint(format!("benchmarks there are: {}", known.join(", "))))
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Bench<'a> {
    package: &'a str,
    name: &'a str,
}

impl Bench<'_> {
    fn command(&self, extra: &[String]) -> Child {
        let words = ["bench", "--locked", "-p", self.package, "--bench", self.name, "--"];
        Child::cargo(words).arguments(extra)
    }
}

fn benches<'a>(packages: &'a [Package]) -> Vec<Bench<'a>> {
    let of_package = |package: &'a Package| {
        let of_name = |name: &'a String| Bench { package: &package.name, name };
        package.benches.iter().map(of_name)
    };
    packages.iter().flat_map(of_package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_is_found_in_the_package_that_has_it() {
        let package = |name: &str, benches: &[&str]| Package {
            name: name.to_owned(),
            manifest: String::new(),
            dependencies: Vec::new(),
            benches: benches.iter().map(|&bench| bench.to_owned()).collect(),
        };
        let packages = [package("sync", &[]), package("engine", &["core"])];
        let found = benches(&packages);
        assert_eq!(found, [Bench { package: "engine", name: "core" }]);
        let line = found[0].command(&["breaker".to_owned()]).to_string();
        assert_eq!(line, "cargo bench --locked -p engine --bench core -- breaker");
    }
}
