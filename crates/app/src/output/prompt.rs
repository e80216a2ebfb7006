//! One question to a person at a terminal.
//!
//! # Invariants
//! 1. Nothing of a question is obeyed by the terminal or hidden on it.
//! 2. Only `y` and `yes` are a yes: an empty line, an end of input and anything else are a no.

use std::io::{self, BufRead, Write};

use super::escape::for_question;

/// Asks, on the error output, and waits for a line.
///
/// # Errors
/// The terminal cannot be read or written.
pub fn confirm(question: &str) -> io::Result<bool> {
    answered(&for_question(question), &mut io::stdin().lock(), &mut io::stderr())
}

fn answered(question: &str, input: &mut impl BufRead, output: &mut impl Write) -> io::Result<bool> {
    write!(output, "{question} [y/N] ")?;
    output.flush()?;
    let mut line = String::new();
    input.read_line(&mut line)?;
    if !line.ends_with('\n') {
        // The end of the input moves no cursor, and the next output begins a line.
        writeln!(output)?;
    }
    let answer = line.trim().to_lowercase();
    Ok(answer == "y" || answer == "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (typed, yes) in
            [("y\n", true), ("YES\n", true), ("", false), ("\n", false), ("n\n", false), ("yonder\n", false)]
        {
            let mut asked = Vec::new();
            assert_eq!(answered("apply?", &mut typed.as_bytes(), &mut asked).unwrap(), yes, "{typed:?}");
            let end = if typed.is_empty() { "\n" } else { "" };
            assert_eq!(String::from_utf8(asked).unwrap(), format!("apply? [y/N] {end}"));
        }
    }
}
