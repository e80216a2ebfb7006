//! The errors of a tool call, in words that the model can act on.
//!
//! # Invariants
//! Every one says what was wrong and the way on.

use domain::ErrorCategory;

/// The reason why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// There is no such tool.
    #[error("there is no tool `{name}`{meant}; the tools are {}", .offered.join(", "))]
    UnknownTool {
        /// The name that was called.
        name: String,
        /// The name that was probably meant, as the end of a sentence.
        meant: String,
        /// Those that there are.
        offered: Vec<String>,
    },
    /// The arguments do not fit the tool's schema.
    #[error("the arguments of {tool} are not valid: {}", .problems.join("; "))]
    InvalidArguments {
        /// The tool.
        tool: String,
        /// The fields, their errors, and the allowed values.
        problems: Vec<String>,
    },
    /// The tool may not be used here.
    #[error("{tool} is not allowed: {why}")]
    NotAllowed {
        /// The tool.
        tool: String,
        /// The reason.
        why: String,
    },
    /// The path leads out of the project.
    #[error(
        "{path} leads out of the project or through a symbolic link; use a path below the project's root, without `..`"
    )]
    PathEscapes {
        /// As it was given.
        path: String,
    },
    /// The path is in a place where nothing is written.
    #[error("{path} is protected: read it, but change something else")]
    ProtectedPath {
        /// As it was given.
        path: String,
    },
    /// There is nothing at the path.
    #[error("there is nothing at {path}; list_directory shows what there is")]
    NotFound {
        /// As it was given.
        path: String,
    },
    /// Something is in the way.
    #[error("{path} {what}")]
    InTheWay {
        /// As it was given.
        path: String,
        /// The obstacle, and advice.
        what: String,
    },
    /// The file was not read before it was to be replaced.
    #[error("{path} exists and was not read: read it with read_file first, then change it")]
    UnreadFile {
        /// As it was given.
        path: String,
    },
    /// The file has changed since it was read.
    #[error("{path} has changed since it was read: read it again, then change it")]
    StaleFile {
        /// As it was given.
        path: String,
    },
    /// The text to be replaced is not in the file.
    #[error(
        "`old` does not occur in {path}: read the file and copy the text exactly, with its spaces and line ends"
    )]
    NoMatch {
        /// As it was given.
        path: String,
    },
    /// The text to be replaced is there more than once.
    #[error(
        "`old` occurs {count} times in {path}: take in more of the lines around it, or set `replace_all`"
    )]
    NotUnique {
        /// As it was given.
        path: String,
        /// The number of occurrences.
        count: usize,
    },
    /// The file is no text.
    #[error("{path} is not text, or is too large to be shown: use run_command to look at it")]
    NotText {
        /// As it was given.
        path: String,
    },
    /// A mark represents a secret that the file does not have.
    #[error(
        "{mark} replaces a secret that {path} does not have: leave the text around it as it is, or write another value"
    )]
    RedactedContent {
        /// As it was given.
        path: String,
        /// The mark.
        mark: String,
    },
    /// The decision cannot be recorded.
    #[error("{why}; leave out what you do not know")]
    DecisionInvalid {
        /// The problem.
        why: String,
    },
    /// It took too long.
    #[error("{tool} took longer than {seconds} s and was stopped; do less at once, or allow it more time")]
    TimedOut {
        /// The tool.
        tool: String,
        /// The limit.
        seconds: u64,
    },
    /// The tool answered with something else than it promised.
    #[error("{tool} returned a result that does not match its schema: {}", .problems.join("; "))]
    BadOutput {
        /// The tool.
        tool: String,
        /// The problem.
        problems: Vec<String>,
    },
    /// The same call was made again and again.
    #[error(
        "this is the {times}. time in a row that {tool} was called with the same arguments and gave the same result; do something else, or say that you are done"
    )]
    Repeated {
        /// The tool.
        tool: String,
        /// The number of calls in a row.
        times: u32,
    },
    /// There is no context to give, or none is left.
    #[error("{message}")]
    NoContext {
        /// The code of the case.
        code: &'static str,
        /// The reason, and advice.
        message: String,
    },
    /// Anything else went wrong.
    #[error("{tool} failed: {message}")]
    Failed {
        /// The tool.
        tool: String,
        /// The reason.
        message: String,
    },
}

impl ToolError {
    /// Its code, which comes before its message.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownTool { .. } => "UNKNOWN_TOOL",
            Self::InvalidArguments { .. } => "INVALID_ARGUMENTS",
            Self::NotAllowed { .. } => "NOT_ALLOWED",
            Self::PathEscapes { .. } => "PATH_ESCAPES",
            Self::ProtectedPath { .. } => "PROTECTED_PATH",
            Self::NotFound { .. } => "NOT_FOUND",
            Self::InTheWay { .. } => "IN_THE_WAY",
            Self::UnreadFile { .. } => "UNREAD_FILE",
            Self::StaleFile { .. } => "STALE_FILE",
            Self::NoMatch { .. } => "NO_MATCH",
            Self::NotUnique { .. } => "NOT_UNIQUE",
            Self::NotText { .. } => "NOT_TEXT",
            Self::RedactedContent { .. } => "REDACTED_CONTENT",
            Self::DecisionInvalid { .. } => "DECISION_INVALID",
            Self::TimedOut { .. } => "TIMED_OUT",
            Self::BadOutput { .. } => "BAD_OUTPUT",
            Self::Repeated { .. } => "REPEATED_CALL",
            Self::NoContext { code, .. } => code,
            Self::Failed { .. } => "TOOL_FAILED",
        }
    }

    /// The category of the fault: the model's, which made a call that cannot be made, or the tool's. `None`
    /// if it is a normal part of the work: a thing does not exist, is not read yet, or is not as expected.
    pub const fn fault(&self) -> Option<ErrorCategory> {
        match self {
            Self::UnknownTool { .. }
            | Self::InvalidArguments { .. }
            | Self::NotAllowed { .. }
            | Self::PathEscapes { .. }
            | Self::ProtectedPath { .. }
            | Self::DecisionInvalid { .. }
            | Self::Repeated { .. } => Some(ErrorCategory::ModelOutput),
            Self::TimedOut { .. } | Self::BadOutput { .. } | Self::Failed { .. } => Some(ErrorCategory::Tool),
            Self::NotFound { .. }
            | Self::InTheWay { .. }
            | Self::UnreadFile { .. }
            | Self::StaleFile { .. }
            | Self::NoMatch { .. }
            | Self::NotUnique { .. }
            | Self::NotText { .. }
            | Self::RedactedContent { .. }
            | Self::NoContext { .. } => None,
        }
    }

    /// Code and message, as the model and the records have it.
    pub fn text_with_code(&self) -> String {
        format!("{}: {self}", self.code())
    }
}
