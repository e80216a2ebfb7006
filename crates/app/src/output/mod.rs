//! How answers are shown: to people with or without colour, to programs as one envelope.
//!
//! # Where to look
//! `envelope` is what programs read, `terminal` what is known of the screen, `table` columns, `prompt` a question.
//!
//! # Invariants
//! 1. Data goes to the output, all else (progress, notes, failures) to the error output. With `json` and `yaml` the
//!    output is one envelope, whatever happened.
//! 2. Nothing is told by colour alone.
//! 3. A reader that goes away early (`| head`) ends the program in silence.
//!
//! # Not here
//! What the answers are: each command makes its own [`Report`].

mod envelope;
mod prompt;
mod table;
mod terminal;

pub use envelope::{Envelope, Timing};
pub use prompt::confirm;
pub use table::Table;
pub use terminal::{ColorWhen, Look, Paint, calm, calm_bytes, one_line, one_line_of};

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::failure::{Exit, Failure, codes};

/// Takes away the line that the cursor is on.
pub const CLEAR_LINE: &str = "\r\x1b[2K";

/// In which form answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For a person at a terminal.
    Rich,
    /// For a person, a file or a pipe: no colour, nothing that depends on the screen.
    Plain,
    /// One envelope in JSON.
    Json,
    /// The same envelope in YAML.
    Yaml,
}

impl Format {
    /// Whether a program reads it.
    pub const fn is_for_programs(self) -> bool {
        match self {
            Format::Json | Format::Yaml => true,
            Format::Rich | Format::Plain => false,
        }
    }
}

/// Something that is told beside the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// What.
    pub message: String,
    /// Whether it deserves attention.
    pub is_warning: bool,
}

impl Note {
    /// Worth knowing.
    pub fn info(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_warning: false }
    }

    /// Worth attention.
    pub fn warning(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_warning: true }
    }

    /// As it stands among the messages of the envelope.
    pub fn to_json(&self) -> Value {
        let level = if self.is_warning { "warning" } else { "info" };
        json!({ "level": level, "code": null, "message": self.message, "detail": null, "suggestions": [] })
    }

    /// As it is written to the error output.
    pub fn shown(&self, paint: Paint) -> String {
        let word = if self.is_warning { paint.yellow("warning") } else { paint.cyan("note") };
        format!("{word}: {}\n", calm(&self.message))
    }
}

/// The answer of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// For programs.
    pub data: Value,
    /// For people, as it is written: bytes, since file contents need not be UTF-8.
    pub text: Vec<u8>,
    /// How the program ends.
    pub exit: Exit,
    /// What is told beside it.
    pub notes: Vec<Note>,
    /// Why it did not end well, when it did not: the answer is shown all the same.
    pub failure: Option<Failure>,
}

impl Report {
    /// An answer that is done.
    pub fn new(data: Value, text: impl Into<Vec<u8>>) -> Self {
        Self { data, text: text.into(), exit: Exit::Done, notes: Vec::new(), failure: None }
    }

    /// Adds something to tell.
    #[must_use]
    pub fn note(mut self, note: Note) -> Self {
        self.notes.push(note);
        self
    }

    /// The answer stands, and yet this went wrong.
    #[must_use]
    pub fn failed(mut self, failure: Failure) -> Self {
        self.exit = failure.exit();
        self.failure = Some(failure);
        self
    }
}

/// A failure without an answer.
impl From<Failure> for Report {
    fn from(failure: Failure) -> Self {
        Report::new(Value::Null, Vec::new()).failed(failure)
    }
}

/// Writes the answer in the chosen format and says how the program ends.
pub fn write(report: &Report, command: &str, timing: Timing, look: &Look) -> Exit {
    let written = match look.format {
        Format::Json | Format::Yaml => write_envelope(report, command, timing, look.format),
        Format::Rich | Format::Plain => write_for_people(report, look),
    };
    match written {
        Ok(()) => report.exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => report.exit,
        Err(error) => {
            tell_unwritten(&error, look);
            // Worse news than an unread answer stays: a closed terminal does not make a cancel a failure.
            if report.exit == Exit::Done { Exit::Failed } else { report.exit }
        }
    }
}

/// Says that an answer could not be written, where there is somebody to hear it.
pub fn tell_unwritten(error: &io::Error, look: &Look) {
    let failure = Failure::new(&codes::IO_FAILED, format!("the answer cannot be written: {error}"));
    let _ = io::stderr().write_all(failure.shown(look.err_paint).as_bytes());
}

fn write_envelope(report: &Report, command: &str, timing: Timing, format: Format) -> io::Result<()> {
    let messages = report.notes.iter().map(Note::to_json).chain(report.failure.iter().map(Failure::to_json));
    let envelope = Envelope {
        command,
        status: report.exit.word(),
        exit_code: report.exit.number(),
        data: &report.data,
        timing,
        messages: messages.collect(),
    };
    let mut out = io::stdout().lock();
    out.write_all(envelope.encoded(format)?.as_bytes())?;
    out.flush()
}

fn write_for_people(report: &Report, look: &Look) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(&report.text).and_then(|()| out.flush());
    let mut err = io::stderr().lock();
    for note in &report.notes {
        err.write_all(note.shown(look.err_paint).as_bytes())?;
    }
    if let Some(failure) = &report.failure {
        err.write_all(failure.shown(look.err_paint).as_bytes())?;
    }
    written
}

/// Writes a line beside the answer at once, while the command still works; programs read it from the envelope only.
pub fn tell(note: &Note, look: &Look) {
    if !look.format.is_for_programs() {
        let gone = if look.is_live { CLEAR_LINE } else { "" };
        // Nobody can be told that nobody can be told.
        let _ = io::stderr().write_all(format!("{gone}{}", note.shown(look.err_paint)).as_bytes());
    }
}
