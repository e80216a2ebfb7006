//! Lines at the end of a terminal that are redrawn while something works.
//!
//! # Invariants
//! 1. There is one block for the process. Whatever else is written to a stream removes it first, so that no
//!    line is written into it. The next drawing brings it back.
//! 2. No line is longer than the screen, so each is one row. There are fewer rows than the screen has.
//! 3. The caller has escaped and coloured the lines; the stream escapes what else a terminal would obey.

use std::sync::{Mutex, PoisonError};

use super::escape::{clear_line, cursor_up, write_err_raw};

/// The number of rows that are drawn.
static DRAWN: Mutex<usize> = Mutex::new(0);

/// Draws the lines in the place of those that were drawn before.
pub fn draw(lines: &[String]) {
    let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    let text = format!("{}{}", erasing(*drawn), lines.join("\n"));
    *drawn = lines.len();
    // Progress that cannot be shown is not worth an error.
    let _ = write_err_raw(&text);
}

/// Removes the block.
pub fn clear() {
    let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    if *drawn > 0 {
        let _ = write_err_raw(&erasing(*drawn));
    }
    *drawn = 0;
}

/// The sequence that removes so many rows, the last of which the cursor is on.
fn erasing(rows: usize) -> String {
    let mut text = String::new();
    for row in 0..rows {
        if row > 0 {
            text.push_str(&cursor_up());
        }
        text.push_str(&clear_line());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_removed_from_its_last_row_up() {
        assert_eq!(erasing(0), "");
        let (clear, up) = (clear_line(), cursor_up());
        assert_eq!(erasing(1), clear);
        assert_eq!(erasing(3), format!("{clear}{up}{clear}{up}{clear}"));
    }
}
