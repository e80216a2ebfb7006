//! Writes answers: to people with or without colour, to programs as one envelope.
//!
//! # Where to look
//! `envelope` is the output for programs. `terminal` has the properties of the screen, `table` aligns
//! columns, `prompt` asks a question, `pager` shows long answers. `escape` makes text safe for a terminal.
//!
//! # Invariants
//! 1. Data goes to the output, all else (progress, notes, failures) to the error output. With `json` and
//!    `yaml` the output is one envelope, whatever happened.
//! 2. Nothing is shown by colour alone.
//! 3. A reader that goes away early (`| head`) ends the program in silence.
//!
//! # Not here
//! What the answers are: each command makes its own [`CommandReport`].

pub mod envelope;
mod escape;
pub mod live_block;
mod pager;
mod prompt;
mod table;
mod terminal;

pub use envelope::{Envelope, Timing};
pub use escape::{EscapingStream, WrittenForm, escape_json, write_err, write_out};
pub use pager::PagerCommand;
pub use prompt::confirm;
pub use table::TextTable;
pub use terminal::{
    ColorWhen, OutputStyle, Paint, cut_columns, escape_control_bytes, escape_control_chars, one_line,
    one_line_of, screen_size,
};

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use engine::SecretFilter;
use serde_json::{Map, Value, json};

use crate::errors::{CommandError, Exit, codes};

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
    /// Returns whether the format is for programs.
    pub const fn is_for_programs(self) -> bool {
        match self {
            Format::Json | Format::Yaml => true,
            Format::Rich | Format::Plain => false,
        }
    }
}

/// A message in addition to the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputNote {
    /// The message.
    pub message: String,
    /// True if it deserves attention.
    pub is_warning: bool,
}

impl OutputNote {
    /// Worth knowing.
    pub fn info(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_warning: false }
    }

    /// Worth attention.
    pub fn warning(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_warning: true }
    }

    /// Returns the note in its form among the messages of the envelope.
    pub fn to_json(&self) -> Value {
        let level = if self.is_warning { "warning" } else { "info" };
        json!({ "level": level, "code": null, "message": self.message, "detail": null, "suggestions": [] })
    }

    /// As it is written to the error output.
    pub fn render(&self, paint: Paint) -> String {
        let word = if self.is_warning { paint.yellow("warning") } else { paint.cyan("note") };
        format!("{word}: {}\n", escape_control_chars(&self.message))
    }
}

/// The answer of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandReport {
    /// For programs.
    pub data: Value,
    /// For people, as it is written: bytes, since file contents need not be UTF-8.
    pub text: Vec<u8>,
    /// The exit of the program.
    pub exit: Exit,
    /// The messages in addition to it.
    pub notes: Vec<OutputNote>,
    /// Why it did not end well, when it did not: the answer is shown all the same.
    pub failure: Option<CommandError>,
    /// The answer, where it is made while it is written; then `data` and `text` are empty.
    pub body: Option<StreamedBody>,
    /// True if its secrets are to be shown.
    pub is_revealed: bool,
    /// The pager that shows it at a terminal; `None` for none.
    pub pager: Option<PagerCommand>,
}

/// An answer that is made piece by piece while it is written, so that it is never in memory whole.
#[derive(Clone)]
pub struct StreamedBody(Arc<WriteBody>);

type WriteBody = dyn Fn(BodyForm, &mut dyn Write) -> io::Result<Vec<OutputNote>> + Send + Sync;

/// The form in which an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// Text for people.
    Text,
    /// Data for programs: one JSON value.
    Data,
}

impl StreamedBody {
    /// Creates a body that `write` writes. `write` returns the messages in addition to it.
    pub fn new(
        write: impl Fn(BodyForm, &mut dyn Write) -> io::Result<Vec<OutputNote>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(write))
    }

    fn write(&self, form: BodyForm, out: &mut dyn Write) -> io::Result<Vec<OutputNote>> {
        (self.0)(form, out)
    }
}

impl std::fmt::Debug for StreamedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

impl PartialEq for StreamedBody {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl CommandReport {
    /// An answer that is done.
    pub fn new(data: Value, text: impl Into<Vec<u8>>) -> Self {
        Self {
            data,
            text: text.into(),
            exit: Exit::Done,
            notes: Vec::new(),
            failure: None,
            body: None,
            is_revealed: false,
            pager: None,
        }
    }

    /// The answer with its secrets, which the user asked for.
    #[must_use]
    pub fn revealed(self, is_revealed: bool) -> Self {
        Self { is_revealed, ..self }
    }

    /// The answer without secrets, in the form in which it will be written. One that is made while it is
    /// written takes them out by itself.
    #[must_use]
    pub fn without_secrets(mut self, filter: &SecretFilter, format: Format) -> Self {
        match (self.is_revealed, format.is_for_programs()) {
            (true, _) => {}
            (false, true) => self.data = filter.value(self.data),
            (false, false) => self.text = filter.text(self.text),
        }
        for note in &mut self.notes {
            note.message = filter.words(std::mem::take(&mut note.message));
        }
        self.failure = self.failure.map(|failure| failure.without_secrets(filter));
        self
    }

    /// An answer that is made while it is written.
    pub fn streamed(body: StreamedBody) -> Self {
        Self { body: Some(body), ..Self::new(Value::Null, Vec::new()) }
    }

    /// Returns the same answer as one value, for callers that cannot write it piece by piece.
    ///
    /// # Errors
    /// It could not be made.
    pub fn whole(mut self) -> io::Result<Self> {
        if let Some(body) = self.body.take() {
            let mut data = Vec::new();
            self.notes.extend(body.write(BodyForm::Data, &mut data)?);
            self.data = serde_json::from_slice(&data)?;
        }
        Ok(self)
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: OutputNote) -> Self {
        self.notes.push(note);
        self
    }

    /// Adds a failure to an answer that is shown all the same.
    #[must_use]
    pub fn failed(mut self, failure: CommandError) -> Self {
        self.exit = failure.exit();
        self.failure = Some(failure);
        self
    }
}

/// The object that a value is; an empty one if it is none.
pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// Writes an object in which the list at `key` is written item by item.
///
/// # Errors
/// An item, or the whole, cannot be written.
pub fn write_object_with_list(
    out: &mut dyn Write,
    mut object: Map<String, Value>,
    key: &str,
    mut write_items: impl FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    object.insert(key.to_owned(), Value::Null);
    let mut separator: &[u8] = b"{";
    for (name, value) in &object {
        out.write_all(separator)?;
        separator = b",";
        serde_json::to_writer(&mut *out, name)?;
        out.write_all(b":")?;
        if name == key {
            out.write_all(b"[")?;
            write_items(out)?;
            out.write_all(b"]")?;
        } else {
            serde_json::to_writer(&mut *out, value)?;
        }
    }
    out.write_all(b"}")
}

/// A failure without an answer.
impl From<CommandError> for CommandReport {
    fn from(failure: CommandError) -> Self {
        CommandReport::new(Value::Null, Vec::new()).failed(failure)
    }
}

/// Writes the answer in the chosen format and says how the program ends.
pub fn write(report: &CommandReport, command: &str, timing: Timing, style: &OutputStyle) -> Exit {
    let written = match style.format {
        Format::Json => match &report.body {
            Some(body) => write_json_body(body, report, command, timing),
            None => write_envelope(report, command, timing, style.format),
        },
        // YAML is written in one piece.
        Format::Yaml => {
            report.clone().whole().and_then(|whole| write_envelope(&whole, command, timing, style.format))
        }
        Format::Rich | Format::Plain => write_for_people(report, style),
    };
    match written {
        Ok(()) => report.exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => report.exit,
        Err(error) => {
            tell_unwritten(&error, style);
            // Worse news than an unread answer stays: a closed terminal does not make a cancel a failure.
            if report.exit == Exit::Done { Exit::Failed } else { report.exit }
        }
    }
}

/// Reports that an answer could not be written, if the error output is open.
pub fn tell_unwritten(error: &io::Error, style: &OutputStyle) {
    let failure = CommandError::new(&codes::IO_FAILED, format!("the answer cannot be written: {error}"));
    let _ = write_err(&failure.render(style.err_paint));
}

/// Writes the envelope around an answer that is made meanwhile.
fn write_json_body(
    body: &StreamedBody,
    report: &CommandReport,
    command: &str,
    timing: Timing,
) -> io::Result<()> {
    // The place of the answer in an envelope without one.
    const PLACE: &str = "\"data\":null,";
    let encoded = |messages: Vec<Value>| -> io::Result<String> {
        let (status, exit_code) = (report.exit.word(), report.exit.number());
        let (data, timing) = (&Value::Null, timing.clone());
        Envelope { command, status, exit_code, data, timing, messages, v: envelope::VERSION }
            .encode(Format::Json)
    };
    let around = |text: &str| -> io::Result<(String, String)> {
        let parts =
            text.split_once(PLACE).ok_or_else(|| io::Error::other("an envelope without its answer"))?;
        Ok((parts.0.to_owned(), parts.1.to_owned()))
    };
    let mut out = EscapingStream::out(WrittenForm::Json);
    let (before, _) = around(&encoded(Vec::new())?)?;
    out.write_all(before.as_bytes())?;
    out.write_all(b"\"data\":")?;
    let notes = body.write(BodyForm::Data, &mut out)?;
    let notes = report.notes.iter().chain(&notes).map(OutputNote::to_json);
    let messages = notes.chain(report.failure.iter().map(CommandError::to_json)).collect();
    let (_, after) = around(&encoded(messages)?)?;
    out.write_all(b",")?;
    out.write_all(after.as_bytes())?;
    out.flush()
}

fn write_envelope(report: &CommandReport, command: &str, timing: Timing, format: Format) -> io::Result<()> {
    let messages =
        report.notes.iter().map(OutputNote::to_json).chain(report.failure.iter().map(CommandError::to_json));
    let envelope = Envelope {
        command,
        status: report.exit.word(),
        exit_code: report.exit.number(),
        data: &report.data,
        timing,
        messages: messages.collect(),
        v: envelope::VERSION,
    };
    write_out(envelope.encode(format)?.as_bytes())
}

fn write_for_people(report: &CommandReport, style: &OutputStyle) -> io::Result<()> {
    let mut streamed_notes = Vec::new();
    live_block::clear();
    let written = match page(report, &mut streamed_notes) {
        Some(paged) => paged,
        None => write_text(report, EscapingStream::out(WrittenForm::Text), &mut streamed_notes),
    };
    for note in report.notes.iter().chain(&streamed_notes) {
        write_err(&note.render(style.err_paint))?;
    }
    if let Some(failure) = &report.failure {
        write_err(&failure.render(style.err_paint))?;
    }
    written
}

/// Writes the text of the answer to a stream, and collects the messages in addition to it.
fn write_text<W: Write>(
    report: &CommandReport,
    mut out: EscapingStream<W>,
    notes: &mut Vec<OutputNote>,
) -> io::Result<()> {
    if let Some(body) = &report.body {
        *notes = body.write(BodyForm::Text, &mut out)?;
    }
    out.write_all(&report.text)?;
    out.flush()
}

/// Shows the answer in its pager. `None` if it has none, is for no terminal, or the pager did not start.
fn page(report: &CommandReport, notes: &mut Vec<OutputNote>) -> Option<io::Result<()>> {
    let pager = report.pager.as_ref().filter(|_| report.body.is_some() || !report.text.is_empty())?;
    let mut pager = io::stdout().is_terminal().then(|| pager.start().ok()).flatten()?;
    let written = write_text(report, EscapingStream::paged(pager.input()), notes);
    match pager.wait() {
        Ok(true) => Some(written),
        Ok(false) => None,
        Err(error) => Some(Err(error)),
    }
}

/// Prints a note in addition to the answer at once, while the command still works; programs read it from the
/// envelope only.
pub fn tell(note: &OutputNote, style: &OutputStyle) {
    if !style.format.is_for_programs() {
        // If the error output is closed, that cannot be reported either.
        let _ = write_err(&note.render(style.err_paint));
    }
}
