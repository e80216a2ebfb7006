//! Tools that a fresh machine lacks: each installation says what is installed and why before it begins.

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

fn is_root() -> bool {
    Child::new("id", ["-u"]).output_here().is_ok_and(|user| user.trim() == "0")
}
