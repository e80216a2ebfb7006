//! What the command line asks for: this binary is called like any test of cargo, and like cucumber.

use cucumber::cli::{self, Args, Parser};

/// Options that cargo's own harness has, which mean nothing here and are passed over.
const PASSED_OVER: [&str; 8] = [
    "--nocapture",
    "--no-capture",
    "--show-output",
    "--quiet",
    "-q",
    "--include-ignored",
    "--exact",
    "--format=terse",
];

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Tell the tests to a program that would run them one by one: there are none of that kind, nor ignored ones.
    List,
    /// Run the scenarios that have all `words`; `options` are cucumber's.
    Run { words: Vec<String>, options: Vec<String> },
}

pub(crate) fn asked(arguments: impl Iterator<Item = String>) -> Asked {
    let arguments: Vec<String> = arguments
        .filter(|argument| !PASSED_OVER.contains(&argument.as_str()))
        .filter(|argument| !argument.starts_with("--test-threads="))
        .collect();
    let is_list = |argument: &String| argument == "--list" || argument == "--ignored";
    if arguments.iter().any(is_list) {
        return Asked::List;
    }
    let is_all_words = !arguments.iter().any(|argument| argument.starts_with('-'));
    if is_all_words {
        Asked::Run { words: arguments, options: Vec::new() }
    } else {
        Asked::Run { words: Vec::new(), options: arguments }
    }
}

/// The options as cucumber takes them; wrong ones end the process with an explanation.
pub(crate) fn cucumber_options<P: Args, R: Args, W: Args>(options: Vec<String>) -> cli::Opts<P, R, W> {
    cli::Opts::parse_from(std::iter::once("features".to_owned()).chain(options))
}
