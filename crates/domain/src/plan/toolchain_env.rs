//! The variables by which toolchains are found, which commands get by default: `@toolchains` of the setting
//! `isolation.pass_env`.
//!
//! # Invariants
//! 1. A variable of this list names a directory, a version or a file of certificates: it is no secret, and
//!    its value is not redacted.
//! 2. A credential below a directory that a variable names is hidden, as below the usual directory.
//!
//! # Not here
//! Reading the environment: the program. Showing and hiding paths: `sandbox::isolation`.

/// A variable by which a toolchain is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolchainVariable {
    /// Its name.
    pub name: &'static str,
    /// The parts of its directory that commands see, if it is in the home; empty for none.
    pub shown: &'static [&'static str],
    /// The parts of its directory that commands get a temporary copy of, to write to.
    pub scratch: &'static [&'static str],
    /// The parts of its directory that hold credentials.
    pub hidden: &'static [&'static str],
}

/// The directory itself.
const WHOLE: &[&str] = &[""];

const fn shown(name: &'static str) -> ToolchainVariable {
    ToolchainVariable { name, shown: WHOLE, scratch: &[], hidden: &[] }
}

const fn scratch(name: &'static str) -> ToolchainVariable {
    ToolchainVariable { name, shown: &[], scratch: WHOLE, hidden: &[] }
}

const fn value(name: &'static str) -> ToolchainVariable {
    ToolchainVariable { name, shown: &[], scratch: &[], hidden: &[] }
}

/// All of them, in the order of their names.
pub const TOOLCHAIN_VARIABLES: &[ToolchainVariable] = &[
    shown("ANDROID_HOME"),
    shown("ANDROID_SDK_ROOT"),
    shown("ASDF_DATA_DIR"),
    shown("ASDF_DIR"),
    shown("BUN_INSTALL"),
    ToolchainVariable {
        name: "CARGO_HOME",
        shown: &[],
        scratch: WHOLE,
        hidden: &["credentials", "credentials.toml"],
    },
    shown("CONDA_PREFIX"),
    shown("DENO_INSTALL"),
    shown("DOTNET_ROOT"),
    shown("FNM_DIR"),
    shown("GEM_HOME"),
    scratch("GOCACHE"),
    scratch("GOMODCACHE"),
    ToolchainVariable { name: "GOPATH", shown: &["bin"], scratch: &["pkg"], hidden: &[] },
    shown("GOROOT"),
    value("GOTOOLCHAIN"),
    shown("GRADLE_HOME"),
    ToolchainVariable {
        name: "GRADLE_USER_HOME",
        shown: &[],
        scratch: WHOLE,
        hidden: &["gradle.properties"],
    },
    shown("JAVA_HOME"),
    shown("JULIA_DEPOT_PATH"),
    shown("M2_HOME"),
    shown("MAVEN_HOME"),
    shown("MISE_DATA_DIR"),
    shown("NVM_DIR"),
    shown("OPAMROOT"),
    scratch("PIP_CACHE_DIR"),
    shown("PNPM_HOME"),
    shown("PYENV_ROOT"),
    shown("RBENV_ROOT"),
    shown("RUSTUP_HOME"),
    value("RUSTUP_TOOLCHAIN"),
    shown("SDKMAN_DIR"),
    value("SSL_CERT_DIR"),
    value("SSL_CERT_FILE"),
    shown("STACK_ROOT"),
    scratch("UV_CACHE_DIR"),
    shown("UV_PYTHON_INSTALL_DIR"),
    shown("VIRTUAL_ENV"),
    shown("VOLTA_HOME"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_in_order_and_none_is_of_a_secret() {
        assert!(TOOLCHAIN_VARIABLES.is_sorted_by(|one, other| one.name < other.name));
        for variable in TOOLCHAIN_VARIABLES {
            let words = ["TOKEN", "KEY", "SECRET", "PASSWORD", "AUTH"];
            assert!(!words.iter().any(|word| variable.name.contains(word)), "{}", variable.name);
        }
    }
}
