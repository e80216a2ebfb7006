//! The errors of loading a definition, and the diagnostics in one: a problem with its position.

use std::fmt;
use std::io;
use std::path::PathBuf;

use domain::ArgError;

/// A place in a file, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePosition {
    /// The line.
    pub line: u64,
    /// The letter in it.
    pub column: u64,
}

/// The rule that a diagnostic is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiagnosticKind {
    /// It is not what an action or an actor looks like.
    Invalid,
    /// A placeholder names no value.
    TemplateUnknown,
    /// A placeholder is in a line for the shell.
    TemplateInShell,
    /// Actors are made of each other.
    ActorCycle,
    /// An actor has too many nodes, or is nested too deep.
    ActorTooLarge,
    /// An actor that is named is not there.
    ActorNotFound,
}

/// A problem of a definition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file, as people know it.
    pub file: String,
    /// The position in it.
    pub at: SourcePosition,
    /// The rule.
    pub kind: DiagnosticKind,
    /// The error, and the probable intention.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { file, at: SourcePosition { line, column }, message, .. } = self;
        match line {
            0 => write!(f, "{file}: {message}"),
            line => write!(f, "{file}:{line}:{column}: {message}"),
        }
    }
}

/// An error of loading a definition.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// Nothing has this name.
    #[error("there is no {kind} `{name}`{meant}")]
    NotFound {
        /// `action` or `actor`.
        kind: &'static str,
        /// The argument as it was given.
        name: String,
        /// The probable intention, in words.
        meant: String,
        /// The places that were searched.
        places: Vec<String>,
    },
    /// Its file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// It is not sound; all that was found.
    #[error("{}", headline(.0))]
    Invalid(Vec<Diagnostic>),
    /// Its arguments are not what they have to be; all that was found.
    #[error("{}", args_headline(.0))]
    Args(Vec<ArgError>),
    /// A task without an actor to do it.
    #[error("there is no actor to do this")]
    NoActor,
}

fn headline(findings: &[Diagnostic]) -> String {
    match findings {
        [only] => only.to_string(),
        [first, ..] => format!("{} has {} faults", first.file, findings.len()),
        [] => "the definition is not valid".to_owned(),
    }
}

fn args_headline(errors: &[ArgError]) -> String {
    match errors {
        [only] => only.to_string(),
        _ => format!("{} arguments are wrong", errors.len()),
    }
}
