//! The built-in lists of paths below a home: toolchains, which commands see, and credentials, which nothing
//! of a plan sees.
//!
//! # Invariants
//! 1. A plan stores the word for a list, not its paths, so that its row stays small and a newer program hides
//!    more.
//!
//! # Not here
//! Covering the paths: `sandbox::isolation`. The settings that name them: `isolation.show` and
//! `isolation.hide` of app.

use super::spec::ByteText;

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

/// Returns the paths with each word for a built-in list replaced by its paths below `home`. Without a home
/// the lists are empty.
pub fn expand(paths: &[ByteText], home: &ByteText) -> Vec<ByteText> {
    let below_home = |path: &&str| {
        let below = path.strip_prefix('~')?;
        Some(ByteText([home.as_bytes(), below.as_bytes()].concat()))
    };
    let mut expanded = Vec::new();
    for path in paths {
        match builtin_list(path) {
            Some(list) if !home.as_bytes().is_empty() => expanded.extend(list.iter().filter_map(below_home)),
            Some(_) => {}
            None => expanded.push(path.clone()),
        }
    }
    expanded
}

/// Returns the built-in list that the word names; `None` if it is a path.
fn builtin_list(word: &ByteText) -> Option<&'static [&'static str]> {
    match std::str::from_utf8(word.as_bytes()) {
        Ok(CREDENTIALS_WORD) => Some(&CREDENTIALS),
        Ok(TOOLCHAINS_WORD) => Some(&TOOLCHAINS),
        Ok(_) | Err(_) => None,
    }
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
        let words = [CREDENTIALS_WORD, "/h/vault", "@other"].map(ByteText::from);
        let paths = expand(&words, &ByteText::from("/h"));
        assert_eq!(paths.len(), CREDENTIALS.len() + 2);
        assert!(paths.contains(&ByteText::from("/h/.ssh")) && paths.contains(&ByteText::from("/h/vault")));
        assert_eq!(expand(&words, &ByteText::default()), words[1..], "without a home");
    }
}
