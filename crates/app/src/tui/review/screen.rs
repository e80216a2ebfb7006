//! A review on the screen.

use std::io;

use super::{Review, ReviewEnding, ReviewPalette, ReviewStep, draw};
use crate::tui::screen::{Keys, Screen};

/// Lets a person review on a screen that the caller has already, until they end it.
///
/// # Errors
/// The terminal cannot be used.
pub async fn go_through(
    review: &mut Review,
    palette: ReviewPalette,
    screen: &mut Screen,
    keys: &mut Keys,
) -> io::Result<ReviewEnding> {
    screen.report_mouse(true)?;
    let ending = loop {
        screen.draw(|frame| draw(review, palette, frame))?;
        let Some(input) = keys.next_input().await? else { continue };
        match review.press(input) {
            ReviewStep::Stay => {}
            ReviewStep::End(ending) => break ending,
        }
    };
    screen.report_mouse(false)?;
    Ok(ending)
}
