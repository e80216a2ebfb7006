//! What the command line asks for: this binary is called like any test of cargo, and like cucumber.

use cucumber::cli::{self, Args, Parser};

/// Options of cargo's own harness that mean nothing here and are passed over; `--x=y` is passed over like
/// `--x y`.
const PASSED_OVER: [&str; 7] =
    ["--nocapture", "--no-capture", "--show-output", "--quiet", "-q", "--include-ignored", "--exact"];
const PASSED_OVER_WITH_VALUE: [&str; 3] = ["--test-threads", "--format", "--logfile"];

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Tell the tests to a program that would run them one by one: there are none of that kind, nor ignored
    /// ones.
    List,
    /// Run the scenarios that have all `words`; `options` are cucumber's.
    Run { words: Vec<String>, options: Vec<String> },
}

pub(crate) fn asked(mut arguments: impl Iterator<Item = String>) -> Asked {
    let mut kept = Vec::new();
    while let Some(argument) = arguments.next() {
        let name = argument.split('=').next().unwrap_or_default();
        if argument == "--list" || argument == "--ignored" {
            return Asked::List;
        } else if PASSED_OVER_WITH_VALUE.contains(&name) {
            if name == argument {
                arguments.next();
            }
        } else if !PASSED_OVER.contains(&name) {
            kept.push(argument);
        }
    }
    let has_options = kept.iter().any(|argument| argument.starts_with('-'));
    let (words, options) = if has_options { (Vec::new(), kept) } else { (kept, Vec::new()) };
    Asked::Run { words, options }
}

/// The options as cucumber takes them; wrong ones end the process with an explanation.
pub(crate) fn cucumber_options<P: Args, R: Args, W: Args>(options: Vec<String>) -> cli::Opts<P, R, W> {
    cli::Opts::parse_from(std::iter::once("features".to_owned()).chain(options))
}
