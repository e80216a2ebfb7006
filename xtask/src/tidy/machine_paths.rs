//! No path of a contributor's machine: such a line works for its author only, and names the author.

use super::Finding;

/// Folders at the root of a machine below which people and their tools work. This file must not spell the
/// paths out.
const FOLDERS: [&str; 2] = ["root", "work"];
/// Folders that have one folder per person.
const HOMES: [&str; 2] = ["home", "Users"];

pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(found) = machine_path(line) {
            let what = format!("names a path of one machine, {found}: use a relative path");
            findings.push(Finding::new(path, index + 1, what));
        }
    }
    findings
}

fn machine_path(line: &str) -> Option<String> {
    let begins = |at: usize| {
        !line[..at].ends_with(|letter: char| letter.is_alphanumeric() || "._-~}>".contains(letter))
    };
    line.match_indices('/').filter(|&(at, _)| begins(at)).find_map(|(at, _)| {
        let (folder, rest) = line[at + 1..].split_once('/')?;
        if FOLDERS.contains(&folder) {
            return Some(format!("/{folder}/"));
        }
        let person: String =
            rest.chars().take_while(|letter| letter.is_alphanumeric() || "._-".contains(*letter)).collect();
        (HOMES.contains(&folder) && !person.is_empty()).then(|| format!("/{folder}/{person}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples, put together so that this file passes its own rule.
    fn sample(template: &str) -> String {
        template.replace('%', "/")
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for template in [
            "cd %root%x",
            "\"%work%main\"",
            "see %home%alice%x",
            "file:%%%Users%bob%x",
            "PATH=%bin:%root%bin",
        ] {
            let text = format!("first\n{}\n", sample(template));
            let findings = check("README.md", &text);
            assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2], "{text}");
        }
    }

    #[test]
    fn other_paths_pass() {
        for template in [
            "docs%work%plan.md",
            "$HOME%x",
            "%tmp%x",
            "%home%<name>%x",
            "~%work%x",
            "%rootless%x",
            "{dir}%root%x",
        ] {
            assert_eq!(check("README.md", &sample(template)), [], "{template}");
        }
    }
}
