//! The variables that every command of a plan gets from the environment: `isolation.pass_env`.
//!
//! # Invariants
//! 1. The variables of the built-in list are stored in the plan with their values, which are no secrets. All
//!    others are passed by name, and their values are redacted like those of `--pass-env`.
//! 2. A directory of the home that a toolchain's variable names is shown to commands, or copied for them, as
//!    the usual directory of the toolchain is. The home itself, and what is above it, never is.
//!
//! # Not here
//! The built-in list: `domain::toolchain_env`.

use std::path::{Path, PathBuf};

use domain::builtin_paths::TOOLCHAINS_WORD;
use domain::toolchain_env::{TOOLCHAIN_VARIABLES, ToolchainVariable};

use super::paths::Env;
use crate::config::{SettingKey, Settings};

/// The variables of `isolation.pass_env` in an environment, and the paths that belong to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedVariables {
    /// Variables with their values.
    pub values: Vec<(String, String)>,
    /// Names of variables whose values may be secrets.
    pub names: Vec<String>,
    /// Directories that commands see.
    pub show: Vec<PathBuf>,
    /// Directories that commands get a temporary copy of.
    pub scratch: Vec<PathBuf>,
    /// Paths that commands do not see.
    pub hide: Vec<PathBuf>,
}

/// Returns the variables that the settings pass.
pub fn passed(settings: &Settings, env: &Env) -> PassedVariables {
    from_words(settings.words(SettingKey::IsolationPassEnv), env)
}

fn from_words(words: &[String], env: &Env) -> PassedVariables {
    let mut passed = PassedVariables::default();
    let known = |name: &str| TOOLCHAIN_VARIABLES.iter().find(|variable| variable.name == name);
    for word in words {
        if word == TOOLCHAINS_WORD {
            TOOLCHAIN_VARIABLES.iter().for_each(|variable| passed.add(variable, env));
        } else if let Some(variable) = known(word) {
            passed.add(variable, env);
        } else if env.contains_key(word) {
            passed.names.push(word.clone());
        }
    }
    passed
}

impl PassedVariables {
    fn add(&mut self, variable: &ToolchainVariable, env: &Env) {
        let Some(value) = env.get(variable.name).filter(|value| !value.is_empty()) else { return };
        if self.values.iter().any(|(name, _)| name == variable.name) {
            return;
        }
        self.values.push((variable.name.to_owned(), value.clone()));
        let home = env.get("HOME").map(Path::new).filter(|home| home.is_absolute());
        for dir in std::env::split_paths(value).filter(|dir| dir.is_absolute() && dir.is_dir()) {
            // Of a home that is the whole tree, or of a directory above it, nothing is shown.
            if home.is_some_and(|home| home.starts_with(&dir)) {
                continue;
            }
            let parts = |parts: &'static [&'static str]| {
                parts.iter().map(|part| if part.is_empty() { dir.clone() } else { dir.join(part) })
            };
            if home.is_some_and(|home| dir.starts_with(home)) {
                self.show.extend(parts(variable.shown));
            }
            self.scratch.extend(parts(variable.scratch));
            self.hide.extend(parts(variable.hidden));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolchains_pass_with_their_directories_and_all_else_by_name() {
        let home = tempfile::TempDir::new().unwrap();
        let at = |path: &str| home.path().join(path);
        let text = |path: &str| at(path).display().to_string();
        for dir in ["tools/cargo", "tools/rustup", "work/bin"] {
            std::fs::create_dir_all(at(dir)).unwrap();
        }
        let env: Env = [
            ("HOME", text("")),
            ("CARGO_HOME", text("tools/cargo")),
            ("RUSTUP_HOME", text("tools/rustup")),
            ("RUSTUP_TOOLCHAIN", "stable".to_owned()),
            ("JAVA_HOME", text("")),
            ("GOPATH", text("work")),
            ("MY_TOKEN", "x".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let words = ["@toolchains", "MY_TOKEN", "NOT_SET"].map(str::to_owned);
        let passed = from_words(&words, &env);
        let names: Vec<&str> = passed.values.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["CARGO_HOME", "GOPATH", "JAVA_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"]);
        assert_eq!(passed.names, ["MY_TOKEN"]);
        assert_eq!(passed.show, [at("work/bin"), at("tools/rustup")], "and not the home, for JAVA_HOME");
        assert_eq!(passed.scratch, [at("tools/cargo"), at("work/pkg")]);
        assert_eq!(passed.hide, [at("tools/cargo/credentials"), at("tools/cargo/credentials.toml")]);
        assert_eq!(from_words(&[], &env), PassedVariables::default());
    }
}
