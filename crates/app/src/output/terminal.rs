//! The properties of the terminal: whether there is one, its width, its colours.
//!
//! # Invariants
//! 1. `NO_COLOR` (not empty), `TERM=dumb` and an output that is no terminal switch colour off, `--color`
//!    decides over all.
//! 2. Text from files and programs goes through [`escape_control_chars`] before it is measured and cut.
//!    `escape`, through which everything is written, ensures that nothing else reaches a terminal.

use std::io::IsTerminal;

use domain::path::is_obeyed;
use domain::text::truncate_chars;

use super::Format;
use super::escape::sealed;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorWhen {
    /// At a terminal that can show it.
    #[default]
    Auto,
    /// In any case.
    Always,
    /// In no case.
    Never,
}

/// The style of the answers of one call.
#[derive(Clone, Copy, Debug)]
pub struct OutputStyle {
    /// The form.
    pub format: Format,
    /// Colour of the output.
    pub paint: Paint,
    /// Colour of the error output.
    pub err_paint: Paint,
    /// Columns of the screen; none when the output is no terminal, then nothing is cut.
    pub width: Option<usize>,
    /// True if the error output is a terminal that a live line can be drawn on.
    pub is_live: bool,
    /// True if a person can be asked.
    pub can_ask: bool,
}

impl OutputStyle {
    /// Looks at the terminal and the environment.
    pub fn find(
        format: Option<Format>,
        color: ColorWhen,
        variable: impl Fn(&str) -> Option<String>,
    ) -> OutputStyle {
        let (out, err) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        let is_dumb = variable("TERM").is_some_and(|term| term == "dumb");
        let is_plain = is_dumb || variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        // Whoever wants colour in a pipe wants the form that has it.
        let is_for_people = out || color == ColorWhen::Always;
        let format = format.unwrap_or(if is_for_people { Format::Rich } else { Format::Plain });
        let colour = |is_terminal: bool| match color {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => is_terminal && !is_plain && format != Format::Plain,
        };
        OutputStyle {
            format,
            paint: Paint { on: colour(out) && !format.is_for_programs() },
            err_paint: Paint { on: colour(err) },
            width: if out { screen_width() } else { None },
            is_live: err && !is_dumb && format == Format::Rich,
            can_ask: std::io::stdin().is_terminal() && err,
        }
    }

    /// The same without colour, and nothing cut.
    #[must_use]
    pub fn plain(&self) -> OutputStyle {
        OutputStyle { paint: Paint::OFF, err_paint: Paint::OFF, width: None, ..*self }
    }

    /// Cuts the text to the columns of the screen that are left after `taken` columns.
    pub fn cut(&self, text: &str, taken: usize) -> String {
        match self.width {
            Some(width) => truncate_chars(text, width.saturating_sub(taken).max(10)),
            None => text.to_owned(),
        }
    }
}

/// The characters of a command or a check that are shown where it is only named.
const NAMED_CHARS_MAX: usize = 80;

/// A command, a check or a title on one line of bounded length.
pub fn one_line(text: &str) -> String {
    one_line_of(text, NAMED_CHARS_MAX)
}

/// The same, of at most so many characters.
pub fn one_line_of(text: &str, chars_max: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    truncate_chars(&lines.join(" "), chars_max)
}

/// Cuts a line to so many columns of the screen, in which some letters take two.
pub fn cut_columns(text: &str, columns: usize) -> String {
    let width = |text: &str| ratatui::text::Span::raw(text).width();
    if width(text) <= columns {
        return text.to_owned();
    }
    let (mut shown, mut taken) = (String::new(), 0);
    for letter in text.chars() {
        let letter_width = width(letter.encode_utf8(&mut [0; 4]));
        if taken + letter_width + 1 > columns {
            break;
        }
        taken += letter_width;
        shown.push(letter);
    }
    shown + "…"
}

/// Returns the columns and rows of the screen that the error output is on.
pub fn screen_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((usize::from(size.ws_col), usize::from(size.ws_row)))
}

fn screen_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Puts colour on words, or leaves them as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Never colour.
    pub const OFF: Paint = Paint { on: false };
    /// Always colour.
    pub const ON: Paint = Paint { on: true };

    /// Returns whether words get colour.
    pub const fn is_on(self) -> bool {
        self.on
    }

    /// Marks text as bad, or removed.
    pub fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// Marks text as good, or added.
    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Marks text that deserves attention.
    pub fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Marks text that leads to a next step.
    pub fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }

    /// Emphasises text.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Makes text less prominent.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on && !text.is_empty() {
            format!("{}{text}{}", sealed(&format!("[{code}m")), sealed("[0m"))
        } else {
            text.to_owned()
        }
    }
}

/// The text without characters that a terminal obeys; line ends and tabs stay.
pub fn escape_control_chars(text: &str) -> String {
    let mut calmed = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '\n' || letter == '\t' || !is_obeyed(letter) {
            calmed.push(letter);
        } else {
            for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                calmed.push_str(&format!("\\x{byte:02X}"));
            }
        }
    }
    calmed
}

/// The same for bytes that need not be UTF-8.
pub fn escape_control_bytes(bytes: &[u8]) -> String {
    let mut calmed = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        calmed.push_str(&escape_control_chars(chunk.valid()));
        for byte in chunk.invalid() {
            calmed.push_str(&format!("\\x{byte:02X}"));
        }
    }
    calmed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(format: Option<Format>, color: ColorWhen, set: &[(&str, &str)]) -> OutputStyle {
        OutputStyle::find(format, color, |name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn colour_is_off_where_it_cannot_be_shown_or_is_not_wanted() {
        // The output of a test is no terminal, unless a person runs it at one.
        assert!(!style(Some(Format::Plain), ColorWhen::Auto, &[]).paint.is_on());
        assert!(!style(Some(Format::Rich), ColorWhen::Auto, &[("NO_COLOR", "1")]).paint.is_on());
        assert!(!style(Some(Format::Rich), ColorWhen::Auto, &[("TERM", "dumb")]).paint.is_on());
        assert!(!style(Some(Format::Rich), ColorWhen::Never, &[]).paint.is_on());
        assert!(style(Some(Format::Rich), ColorWhen::Always, &[("NO_COLOR", "1")]).paint.is_on());
        assert!(!style(Some(Format::Json), ColorWhen::Always, &[]).paint.is_on());
        let piped = style(None, ColorWhen::Always, &[]);
        assert_eq!((piped.format, piped.paint.is_on()), (Format::Rich, true), "in a pipe too");
        assert!(style(Some(Format::Plain), ColorWhen::Always, &[]).paint.is_on());
    }

    #[test]
    fn paint_that_is_off_leaves_the_words_alone() {
        assert_eq!(Paint::OFF.red("x"), "x");
        assert_eq!(Paint::ON.red("x"), format!("{}x{}", sealed("[31m"), sealed("[0m")));
        assert_eq!(Paint::ON.dim(""), "");
    }

    #[test]
    fn calm_text_has_nothing_that_a_terminal_obeys() {
        assert_eq!(escape_control_chars("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(
            escape_control_chars("\x1b]0;t\x07\r\u{9b}\u{202e}"),
            r"\x1B]0;t\x07\x0D\xC2\x9B\xE2\x80\xAE"
        );
        assert_eq!(escape_control_bytes(b"ok\xff\x1b"), r"ok\xFF\x1B");
    }

    #[test]
    fn a_script_is_named_on_one_line() {
        assert_eq!(one_line("sh -c '\n  set -e\n\n  make\n'"), "sh -c ' set -e make '");
        assert_eq!(one_line(&"é".repeat(80)), "é".repeat(80));
        assert_eq!(one_line(&"é".repeat(81)), format!("{}…", "é".repeat(79)));
        assert_eq!(one_line_of("abcdef", 3), "ab…");
    }

    #[test]
    fn long_text_is_cut_to_the_screen_and_says_so() {
        let mut wide = style(None, ColorWhen::Auto, &[]);
        wide.width = None;
        assert_eq!(wide.cut("abcdefghijklmnop", 70), "abcdefghijklmnop");
        wide.width = Some(72);
        assert_eq!(wide.cut("abcdefghijklmnop", 60), "abcdefghijk…");
    }
}
