//! A review on the screen.

use std::future::Future;
use std::io;
use std::pin::pin;

use super::{Review, ReviewEnding, ReviewStep, draw};
use crate::tui::screen::{Keys, Screen};

/// Lets a person review, on the error output's terminal, until they end it or `stopped` completes. The
/// terminal is as it was before when this returns, however it returns.
///
/// # Errors
/// The terminal cannot be used.
pub async fn on_screen(
    review: Review,
    with_colour: bool,
    stopped: impl Future<Output = ()>,
) -> io::Result<ReviewEnding> {
    let mut keys = Keys::begin()?;
    let mut screen = Screen::enter()?;
    let mut stopped = pin!(stopped);
    tokio::select! {
        ending = go_through(review, with_colour, &mut screen, &mut keys) => ending,
        () = &mut stopped => Ok(ReviewEnding::Interrupted),
    }
}

/// Runs the same on a screen that the caller has already.
///
/// # Errors
/// The terminal cannot be used.
pub async fn go_through(
    mut review: Review,
    with_colour: bool,
    screen: &mut Screen,
    keys: &mut Keys,
) -> io::Result<ReviewEnding> {
    loop {
        screen.draw(|frame| draw(&review, with_colour, frame))?;
        let Some(press) = keys.next().await? else { continue };
        match review.press(press) {
            ReviewStep::Stay => {}
            ReviewStep::Apply => return Ok(ReviewEnding::Apply(review.left_out())),
            ReviewStep::Quit => return Ok(ReviewEnding::Quit),
            ReviewStep::Interrupt => return Ok(ReviewEnding::Interrupted),
        }
    }
}
