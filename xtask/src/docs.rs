//! `cargo xtask docs`: rewrites the parts of the docs that are printed from code.
//!
//! Such a part is in any Markdown file between a line `<!-- generated: NAME -->` and a line `<!-- end -->`.
//! The names are in [`GENERATED`]. `cargo xtask tidy` fails if a part differs from what the code prints, or
//! if a name is in no file. Files that are printed whole are in [`FILES`].

use crate::child::Child;
use crate::failure::Failure;
use crate::tidy::{self, File, Finding};
use crate::workspace::Workspace;

/// A name, and who prints it.
struct GeneratedSection {
    name: &'static str,
    print: fn(&Workspace) -> Result<String, Failure>,
}

const GENERATED: [GeneratedSection; 5] = [
    GeneratedSection { name: "commands", print: |_| Ok(commands()) },
    GeneratedSection { name: "errors", print: |workspace| from_example(workspace, "errors") },
    GeneratedSection { name: "plans", print: |workspace| from_example(workspace, "plans") },
    GeneratedSection { name: "strategies", print: |workspace| from_example(workspace, "strategies") },
    GeneratedSection { name: "jobs", print: |workspace| from_example(workspace, "jobs") },
];

/// The files that are printed whole, each with its path and its name in the example.
const FILES: [(&str, &str); 3] = [
    ("schema/action.json", "action-schema"),
    ("schema/actor.json", "actor-schema"),
    ("schema/envelope.json", "envelope-schema"),
];

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    crate::no_arguments("docs", arguments)?;
    let files = tidy::read_all(workspace)?;
    for part in &GENERATED {
        let printed = (part.print)(workspace)?;
        for file in files.iter().filter(|file| is_markdown(file)) {
            let Some(text) = rewritten(&file.text, part.name, &printed).filter(|text| *text != file.text)
            else {
                continue;
            };
            std::fs::write(workspace.root.join(&file.path), text)
                .map_err(|error| Failure::new(format!("{} cannot be written: {error}", file.path)))?;
            println!("{}: rewrote `{}`", file.path, part.name);
        }
    }
    for (path, name) in FILES {
        let printed = from_example(workspace, name)?;
        if files.iter().any(|file| file.path == path && file.text == printed) {
            continue;
        }
        let place = workspace.root.join(path);
        let made = place.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&place, printed))
            .map_err(|error| Failure::new(format!("{path} cannot be written: {error}")))?;
        println!("{path}: rewrote it");
    }
    let left = stale(workspace, &tidy::read_all(workspace)?);
    left.iter().for_each(|finding| println!("{finding}"));
    if left.is_empty() { Ok(()) } else { Err(Failure::new("some generated parts have no place in the docs")) }
}

/// The parts that are not what the code prints, and the names that are in no file.
pub(crate) fn stale(workspace: &Workspace, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for part in &GENERATED {
        match (part.print)(workspace) {
            Ok(printed) => findings.extend(stale_part(files, part.name, &printed)),
            Err(failure) => {
                let what = format!("`{}` cannot be printed: {}", part.name, failure.fact());
                findings.push(Finding::new("xtask/src/docs.rs", 1, what));
            }
        }
    }
    for (path, name) in FILES {
        findings.extend(match from_example(workspace, name) {
            Ok(printed) => stale_file(files, path, &printed),
            Err(failure) => {
                let what = format!("`{name}` cannot be printed: {}", failure.fact());
                Some(Finding::new("xtask/src/docs.rs", 1, what))
            }
        });
    }
    let known = |name: &str| GENERATED.iter().any(|part| part.name == name);
    for file in files.iter().filter(|file| is_markdown(file)) {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(name) = name_in(line).filter(|name| !known(name)) {
                findings.push(Finding::new(&file.path, index + 1, format!("nothing prints `{name}`")));
            }
        }
    }
    findings
}

fn stale_file(files: &[File], path: &str, printed: &str) -> Option<Finding> {
    let is_fresh = files.iter().any(|file| file.path == path && file.text == printed);
    (!is_fresh).then(|| Finding::new(path, 1, "is not what the code prints: run `cargo xtask docs`"))
}

fn stale_part(files: &[File], name: &str, printed: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut places = 0;
    for file in files.iter().filter(|file| is_markdown(file)) {
        let Some(begin) = file.text.lines().position(|line| name_in(line) == Some(name)) else {
            continue;
        };
        places += 1;
        let what = match rewritten(&file.text, name, printed) {
            None => format!("`{name}` has no line `{END}` after it"),
            Some(text) if text != file.text => {
                format!("`{name}` is not what the code prints: run `cargo xtask docs`")
            }
            Some(_) => continue,
        };
        findings.push(Finding::new(&file.path, begin + 1, what));
    }
    if places == 0 {
        let what =
            format!("`{name}` stands in no file: put `{BEGIN}{name} -->` and `{END}` where it belongs");
        findings.push(Finding::new("xtask/src/docs.rs", 1, what));
    }
    findings
}

const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";

fn name_in(line: &str) -> Option<&str> {
    line.trim().strip_prefix(BEGIN)?.strip_suffix(" -->")
}

fn is_markdown(file: &File) -> bool {
    file.path.ends_with(".md")
}

/// The text with the part replaced; `None` where it has no such part, or one without an end.
fn rewritten(text: &str, name: &str, printed: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().position(|line| name_in(line) == Some(name))?;
    let end = begin + lines[begin..].iter().position(|line| line.trim() == END)?;
    let mut new: Vec<&str> = lines[..=begin].to_vec();
    new.extend(["", printed.trim(), ""]);
    new.extend(&lines[end..]);
    Some(new.join("\n") + "\n")
}

/// The table of commands in CONTRIBUTING.md.
fn commands() -> String {
    let mut table = String::from("| `cargo xtask …` | what it does | takes |\n|---|---|---|\n");
    for command in &crate::COMMANDS {
        let usage = format!("{} {}", command.name, command.arguments);
        table += &format!("| `{}` | {} | {} |\n", usage.trim(), command.summary, command.takes);
    }
    table
}

/// Prints texts of the product's crates through an example, so that this program does not depend on them.
fn from_example(workspace: &Workspace, name: &str) -> Result<String, Failure> {
    // `--workspace`: the features of the tests' build, whose dependencies are then compiled once for both.
    let build = "build --quiet --workspace --locked --example generated";
    Child::cargo(build.split(' ')).output(workspace)?;
    let program = workspace.target("debug/examples/generated");
    Child::new(&workspace.root.join(program).display().to_string(), [name]).output(workspace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> [File; 1] {
        [File { path: "docs/a.md".to_owned(), text: text.to_owned() }]
    }

    const FRESH: &str = "# A\n<!-- generated: table -->\n\nnew\n\n<!-- end -->\nrest\n";

    #[test]
    fn a_part_is_replaced_and_the_rest_stays() {
        let text = "# A\n<!-- generated: table -->\nold\nolder\n<!-- end -->\nrest\n";
        assert_eq!(rewritten(text, "table", "new\n").as_deref(), Some(FRESH));
        assert_eq!(rewritten(FRESH, "table", "new\n").as_deref(), Some(FRESH));
        assert_eq!(rewritten(FRESH, "other", "new\n"), None);
    }

    #[test]
    fn a_fresh_part_passes_and_a_stale_one_is_found() {
        assert_eq!(stale_part(&file(FRESH), "table", "new\n"), []);
        let what = "`table` is not what the code prints: run `cargo xtask docs`";
        assert_eq!(stale_part(&file(FRESH), "table", "newer\n"), [Finding::new("docs/a.md", 2, what)]);
    }

    #[test]
    fn a_printed_file_has_to_be_there_and_to_be_what_the_code_prints() {
        let found = |printed: &str| stale_file(&file("{}\n"), "docs/a.md", printed).is_some();
        assert!(!found("{}\n") && found("[]\n"));
        assert!(stale_file(&file("{}\n"), "schema/none.json", "{}\n").is_some());
    }

    #[test]
    fn a_part_without_an_end_is_found_and_left_alone() {
        let text = "<!-- generated: table -->\nold\n";
        assert_eq!(rewritten(text, "table", "new"), None);
        let what = "`table` has no line `<!-- end -->` after it";
        assert_eq!(stale_part(&file(text), "table", "new"), [Finding::new("docs/a.md", 1, what)]);
    }

    #[test]
    fn a_name_that_stands_in_no_file_is_found() {
        assert_eq!(stale_part(&file("# A\n"), "table", "new").len(), 1);
    }

    #[test]
    fn the_table_has_every_command() {
        let table = commands();
        assert!(crate::COMMANDS.iter().all(|command| table.contains(&format!("| `{}", command.name))));
    }
}
