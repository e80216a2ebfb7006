//! No host of a package registry: the configuration of each machine decides where packages come from. A
//! mirror or a closed network must be able to answer instead. Only a lock file may name the host.

use super::Finding;

/// Host and top-level domain apart, so that this file passes its own rule.
const HOSTS: [(&str, &str); 13] = [
    ("crates", "io"),
    ("debian", "org"),
    ("docker", "com"),
    ("docker", "io"),
    ("ghcr", "io"),
    ("npmjs", "com"),
    ("npmjs", "org"),
    ("pypi", "org"),
    ("pypi", "python.org"),
    ("pythonhosted", "org"),
    ("rubygems", "org"),
    ("ubuntu", "com"),
    ("yarnpkg", "com"),
];

pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    if path.rsplit('/').next() == Some("Cargo.lock") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (host, domain) in HOSTS {
            let name = format!("{host}.{domain}");
            if names(line, &name) {
                findings.push(Finding::new(path, index + 1, format!("names the registry host {name}")));
            }
        }
    }
    findings
}

/// Returns whether the line has the host itself or one below it, and not as part of a longer word.
fn names(line: &str, host: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
    line.match_indices(host).any(|(at, _)| {
        let after = &line[at + host.len()..];
        let goes_on = after.strip_prefix('.').is_some_and(|rest| rest.starts_with(is_word));
        !line[..at].ends_with(is_word) && !after.starts_with(is_word) && !goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples, put together so that this file passes its own rule.
    fn sample(template: &str) -> String {
        template.replace('%', ".")
    }

    #[test]
    fn hosts_of_registries_are_found() {
        for template in
            ["https://index.crates%io/x", "deb%debian%org", "see pypi%org.", "registry.npmjs%org/"]
        {
            assert_eq!(check("README.md", &sample(template)).len(), 1, "{template}");
        }
    }

    #[test]
    fn other_words_and_lock_files_pass() {
        for template in ["crates-io", "mycrates%io", "crates%iota", "the Debian package", "pypi%org%example"]
        {
            assert_eq!(check("README.md", &sample(template)), [], "{template}");
        }
        assert_eq!(check("fuzz/Cargo.lock", &sample("crates%io")), []);
    }
}
