//! The terminal of a review: raw keys in, a painted screen out, and everything put back at the end.
//!
//! # Invariants
//! 1. The terminal is as it was before when [`on_screen`] returns, however it returns.
//! 2. No key is read that nobody waits for: what was typed after the review belongs to what comes then.

use std::future::Future;
use std::io::{self, Stderr};
use std::pin::pin;
use std::sync::mpsc as blocking;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, read};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use tokio::sync::mpsc;

use super::{Ending, Press, Review, Step, draw};

/// Lets a person review, on the error output's terminal, until they end it or `stopped` completes.
///
/// # Errors
/// The terminal cannot be used.
pub async fn on_screen(
    mut review: Review,
    with_colour: bool,
    stopped: impl Future<Output = ()>,
) -> io::Result<Ending> {
    let mut stopped = pin!(stopped);
    let mut events = Events::begin()?;
    let _raw = Raw::enter()?;
    let mut terminal: Terminal<CrosstermBackend<Stderr>> =
        Terminal::new(CrosstermBackend::new(io::stderr()))?;
    loop {
        terminal.draw(|frame| draw(&review, with_colour, frame))?;
        let event = tokio::select! {
            event = events.next() => event?,
            () = &mut stopped => return Ok(Ending::Interrupted),
        };
        let Some(press) = press_of(&event) else { continue };
        match review.press(press) {
            Step::Stay => {}
            Step::Apply => return Ok(Ending::Apply(review.left_out())),
            Step::Quit => return Ok(Ending::Quit),
            Step::Interrupt => return Ok(Ending::Interrupted),
        }
    }
}

/// What happens at the terminal, read one at a time by a thread of its own: reading cannot be broken off. That thread is
/// not waited for; it ends with this, or with the program when it waits for a key that nobody presses.
struct Events {
    wanted: blocking::Sender<()>,
    read: mpsc::Receiver<io::Result<Event>>,
}

impl Events {
    fn begin() -> io::Result<Events> {
        let (wanted, asked) = blocking::channel();
        let (send, receive) = mpsc::channel(1);
        std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || while asked.recv().is_ok() && send.blocking_send(read()).is_ok() {})?;
        Ok(Events { wanted, read: receive })
    }

    async fn next(&mut self) -> io::Result<Event> {
        let gone = || io::Error::other("nobody reads the terminal any more");
        self.wanted.send(()).map_err(|_| gone())?;
        self.read.recv().await.ok_or_else(gone)?
    }
}

/// A terminal that hands out keys as they are pressed, until this is dropped.
struct Raw;

impl Raw {
    fn enter() -> io::Result<Raw> {
        enable_raw_mode()?;
        let raw = Raw;
        execute!(io::stderr(), EnterAlternateScreen)?;
        Ok(raw)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // The terminal is gone when this fails, and nobody is left to tell.
        let _ = execute!(io::stderr(), LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of all keys there are, these are ours")]
fn press_of(event: &Event) -> Option<Press> {
    let Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return None };
    if *kind == KeyEventKind::Release {
        return None;
    }
    if modifiers.contains(KeyModifiers::CONTROL) {
        return (*code == KeyCode::Char('c')).then_some(Press::Interrupt);
    }
    Some(match code {
        KeyCode::Char(letter) => Press::Char(*letter),
        KeyCode::Up => Press::Up,
        KeyCode::Down => Press::Down,
        KeyCode::PageUp => Press::PageUp,
        KeyCode::PageDown => Press::PageDown,
        KeyCode::Enter => Press::Enter,
        KeyCode::Esc => Press::Escape,
        KeyCode::Backspace => Press::Backspace,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_and_ctrl_c_quits() {
        let key = |code, modifiers| press_of(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('?'), KeyModifiers::SHIFT), Some(Press::Char('?')));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Press::Interrupt));
        assert_eq!(key(KeyCode::Char('j'), KeyModifiers::CONTROL), None);
        assert_eq!(key(KeyCode::Esc, KeyModifiers::NONE), Some(Press::Escape));
        assert_eq!(key(KeyCode::F(1), KeyModifiers::NONE), None);
        assert_eq!(press_of(&Event::Resize(1, 1)), None);
    }
}
