//! The paths of a home that commands see, and those that nothing of a plan sees.
//!
//! # Invariants
//! 1. The settings' directory and every file of a key that the settings name are hidden, whatever `isolation.hide` says.
//! 2. Hiding wins: a credential below a directory that is shown is not seen.

use std::path::PathBuf;

use crate::config::{Key, Settings};
use crate::places::{self, Env};

/// The word for the built-in list of toolchains in `isolation.show`.
pub const TOOLCHAINS_WORD: &str = "@toolchains";
/// The word for the built-in list of credentials in `isolation.hide`.
pub const CREDENTIALS_WORD: &str = "@credentials";

/// Toolchains, what package managers install, and harmless configuration.
const TOOLCHAINS: [&str; 62] = [
    "~/.asdf",
    "~/.bun",
    "~/.cabal",
    "~/.cargo",
    "~/.composer/vendor",
    "~/.conda",
    "~/.config/composer/vendor",
    "~/.config/fish",
    "~/.config/git",
    "~/.config/go",
    "~/.config/mise",
    "~/.deno",
    "~/.dotnet",
    "~/.editorconfig",
    "~/.elan",
    "~/.gem",
    "~/.ghcup",
    "~/.gitconfig",
    "~/.gitignore",
    "~/.gitignore_global",
    "~/.goenv",
    "~/.gradle",
    "~/.hex",
    "~/.ivy2",
    "~/.jenv",
    "~/.julia",
    "~/.juliaup",
    "~/.linuxbrew",
    "~/.local/bin",
    "~/.local/lib",
    "~/.local/pipx",
    "~/.local/share/fnm",
    "~/.local/share/mise",
    "~/.local/share/pipx",
    "~/.local/share/pnpm",
    "~/.local/share/rtx",
    "~/.local/share/uv",
    "~/.local/share/virtualenv",
    "~/.local/share/virtualenvs",
    "~/.local/state/nix",
    "~/.m2",
    "~/.mix",
    "~/.nix-profile",
    "~/.nodenv",
    "~/.npm-global",
    "~/.nuget",
    "~/.nvm",
    "~/.opam",
    "~/.pixi",
    "~/.proto",
    "~/.pub-cache",
    "~/.pyenv",
    "~/.rbenv",
    "~/.rustup",
    "~/.rvm",
    "~/.sbt",
    "~/.sdkman",
    "~/.stack",
    "~/.tool-versions",
    "~/.volta",
    "~/.yarn",
    "~/go",
];

/// Keys, tokens, passwords, what browsers and shells remember.
const CREDENTIALS: [&str; 75] = [
    "~/.1password",
    "~/.aws",
    "~/.azure",
    "~/.bash_history",
    "~/.boto",
    "~/.bundle/config",
    "~/.cache/BraveSoftware",
    "~/.cache/chromium",
    "~/.cache/google-chrome",
    "~/.cache/huggingface/stored_tokens",
    "~/.cache/huggingface/token",
    "~/.cache/mozilla",
    "~/.cargo/credentials",
    "~/.cargo/credentials.toml",
    "~/.composer/auth.json",
    "~/.config/BraveSoftware",
    "~/.config/age",
    "~/.config/chromium",
    "~/.config/composer/auth.json",
    "~/.config/containers/auth.json",
    "~/.config/doctl",
    "~/.config/fish/fish_variables",
    "~/.config/gcloud",
    "~/.config/gh",
    "~/.config/git/credentials",
    "~/.config/glab-cli",
    "~/.config/google-chrome",
    "~/.config/hcloud",
    "~/.config/heroku",
    "~/.config/hub",
    "~/.config/microsoft-edge",
    "~/.config/op",
    "~/.config/pip",
    "~/.config/pypoetry",
    "~/.config/rclone",
    "~/.config/sops",
    "~/.databrickscfg",
    "~/.docker",
    "~/.fly",
    "~/.gem/credentials",
    "~/.git-credentials",
    "~/.gnupg",
    "~/.gradle/gradle.properties",
    "~/.hex/hex.config",
    "~/.huggingface",
    "~/.kube",
    "~/.lesshst",
    "~/.local/share/fish/fish_history",
    "~/.local/share/keyrings",
    "~/.local/share/kwalletd",
    "~/.m2/settings-security.xml",
    "~/.m2/settings.xml",
    "~/.mozilla",
    "~/.my.cnf",
    "~/.mysql_history",
    "~/.netrc",
    "~/.node_repl_history",
    "~/.npmrc",
    "~/.nuget/NuGet",
    "~/.oci",
    "~/.password-store",
    "~/.pgpass",
    "~/.psql_history",
    "~/.pypirc",
    "~/.python_history",
    "~/.s3cfg",
    "~/.sbt/.credentials",
    "~/.ssh",
    "~/.terraform.d/credentials.tfrc.json",
    "~/.terraformrc",
    "~/.thunderbird",
    "~/.vault-token",
    "~/.viminfo",
    "~/.yarnrc.yml",
    "~/.zsh_history",
];

/// What commands see of the home: `isolation.show`.
pub fn shown(settings: &Settings, env: &Env) -> Vec<PathBuf> {
    expanded(settings.words(Key::IsolationShow), (TOOLCHAINS_WORD, &TOOLCHAINS), env)
}

/// What nothing of a plan sees: `isolation.hide`, the settings, and the files of keys.
pub fn hidden(settings: &Settings, env: &Env) -> Vec<PathBuf> {
    let mut hidden = expanded(settings.words(Key::IsolationHide), (CREDENTIALS_WORD, &CREDENTIALS), env);
    hidden.extend(places::user_config(env).and_then(|file| Some(file.parent()?.to_owned())));
    let providers = places::providers(settings.providers.clone(), env);
    hidden.extend(providers.into_values().filter_map(|provider| provider.key_file));
    hidden
}

fn expanded(words: &[String], (word, all): (&str, &[&str]), env: &Env) -> Vec<PathBuf> {
    let words = words.iter().flat_map(|named| match named == word {
        true => all.to_vec(),
        false => vec![named.as_str()],
    });
    words.map(|path| places::expanded(path, env)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_begin_in_the_home() {
        for list in [&TOOLCHAINS[..], &CREDENTIALS[..]] {
            assert!(list.is_sorted() && list.iter().all(|path| path.starts_with("~/")), "{list:?}");
        }
    }

    #[test]
    fn a_word_of_a_list_stands_for_all_of_it() {
        let env = [("HOME".to_owned(), "/h".to_owned())].into();
        let words = [CREDENTIALS_WORD.to_owned(), "~/vault".to_owned(), "~".to_owned()];
        let paths = expanded(&words, (CREDENTIALS_WORD, &CREDENTIALS), &env);
        assert_eq!(paths.len(), CREDENTIALS.len() + 2);
        assert!(paths.contains(&"/h/.ssh".into()) && paths.contains(&"/h/vault".into()));
        assert_eq!(paths.last(), Some(&PathBuf::from("/h")));
    }
}
