//! A terminal that is painted as a whole: raw keys in, a painted screen out, and everything put back at the
//! end.
//!
//! # Invariants
//! 1. The terminal is as it was before when a [`Screen`] is dropped, however that comes about.
//! 2. No key is read unless a caller waits for it: keys typed after the last wait belong to the next one.

use std::future::Future;
use std::io::{self, Stderr};
use std::sync::mpsc as blocking;

use crossterm::cursor::Show;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture, Event, KeyCode,
    KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind, read,
};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};
use tokio::sync::mpsc;

/// A key, as far as our screens know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPress {
    /// A letter or another character.
    Char(char),
    /// Cursor up.
    Up,
    /// Cursor down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Removes the last character.
    Backspace,
    /// Ctrl-C.
    Interrupt,
}

/// Something that a person did at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalInput {
    /// A key that all screens know.
    Key(KeyPress),
    /// A key that moves about.
    Move(MoveKey),
    /// The mouse.
    Mouse(MouseInput),
    /// A text that was pasted.
    Paste(String),
}

impl From<KeyPress> for TerminalInput {
    fn from(press: KeyPress) -> TerminalInput {
        TerminalInput::Key(press)
    }
}

/// A key that moves about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveKey {
    /// Cursor left.
    Left,
    /// Cursor right.
    Right,
    /// To the first.
    Home,
    /// To the last.
    End,
    /// Tab.
    Tab,
    /// Tab with shift.
    BackTab,
}

/// The event of the mouse and its place: column and row from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseInput {
    /// A click with the left button.
    Click(u16, u16),
    /// The wheel, up.
    WheelUp(u16, u16),
    /// The wheel, down.
    WheelDown(u16, u16),
}

/// The error output's terminal, painted as a whole until this is dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    // Dropped last: it puts everything back.
    _raw: Raw,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// There is none, or it cannot be used.
    pub fn enter() -> io::Result<Screen> {
        let raw = Raw::enter()?;
        Ok(Screen { terminal: Terminal::new(CrosstermBackend::new(io::stderr()))?, _raw: raw })
    }

    /// Asks the terminal to report the mouse, or not to.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn report_mouse(&mut self, on: bool) -> io::Result<()> {
        match on {
            true => execute!(io::stderr(), EnableMouseCapture),
            false => execute!(io::stderr(), DisableMouseCapture),
        }
    }

    /// Gives the terminal back while `run` runs, and takes it again.
    ///
    /// # Errors
    /// The terminal is gone.
    pub async fn lend<T>(&mut self, run: impl Future<Output = T>) -> io::Result<T> {
        Raw::leave();
        let result = run.await;
        Raw::take()?;
        // What is on the screen now is not known: all of it is painted again.
        self.terminal = Terminal::new(CrosstermBackend::new(io::stderr()))?;
        Ok(result)
    }

    /// Paints it; what is there already is not painted again.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, paint: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(paint).map(|_| ())
    }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").finish_non_exhaustive()
    }
}

/// The events of the terminal, read one at a time by a thread of its own: reading cannot be interrupted. That
/// thread is not waited for; it ends with this, or with the program if it waits for a key that is never
/// pressed.
#[derive(Debug)]
pub struct Keys {
    wanted: blocking::Sender<()>,
    read: mpsc::Receiver<io::Result<Event>>,
    /// True if a key is being read for a caller that gave up waiting.
    is_asked: bool,
}

impl Keys {
    /// Begins to read, when first waited for.
    ///
    /// # Errors
    /// No thread is left to read.
    pub fn begin() -> io::Result<Keys> {
        let (wanted, asked) = blocking::channel();
        let (send, receive) = mpsc::channel(1);
        std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || while asked.recv().is_ok() && send.blocking_send(read()).is_ok() {})?;
        Ok(Keys { wanted, read: receive, is_asked: false })
    }

    /// Returns the next event: a key, or `None` for another event, such as a new size of the screen. A caller
    /// that stops waiting loses nothing: the next call returns the key.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub async fn next(&mut self) -> io::Result<Option<KeyPress>> {
        Ok(press_of(&self.next_event().await?))
    }

    /// The same for a screen that knows more keys, and the mouse.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub async fn next_input(&mut self) -> io::Result<Option<TerminalInput>> {
        Ok(input_of(&self.next_event().await?))
    }

    async fn next_event(&mut self) -> io::Result<Event> {
        let gone = || io::Error::other("the thread that reads the terminal has ended");
        if !self.is_asked {
            self.wanted.send(()).map_err(|_| gone())?;
            self.is_asked = true;
        }
        let event = self.read.recv().await.ok_or_else(gone)?;
        self.is_asked = false;
        event
    }
}

/// A terminal that hands out keys as they are pressed, until this is dropped.
struct Raw;

impl Raw {
    fn enter() -> io::Result<Raw> {
        let raw = Raw;
        Raw::take()?;
        Ok(raw)
    }

    fn take() -> io::Result<()> {
        enable_raw_mode()?;
        execute!(io::stderr(), EnterAlternateScreen, EnableBracketedPaste)
    }

    fn leave() {
        // If this fails, the terminal is gone, and the error cannot be shown.
        let _ =
            execute!(io::stderr(), DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        Raw::leave();
    }
}

/// The keys that all screens know, the other keys that move, and the mouse.
#[expect(clippy::wildcard_enum_match_arm, reason = "of all events there are, these are ours")]
fn input_of(event: &Event) -> Option<TerminalInput> {
    if let Some(press) = press_of(event) {
        return Some(TerminalInput::Key(press));
    }
    match event {
        Event::Key(KeyEvent { code, kind, .. }) if *kind != KeyEventKind::Release => {
            Some(TerminalInput::Move(match code {
                KeyCode::Left => MoveKey::Left,
                KeyCode::Right => MoveKey::Right,
                KeyCode::Home => MoveKey::Home,
                KeyCode::End => MoveKey::End,
                KeyCode::Tab => MoveKey::Tab,
                KeyCode::BackTab => MoveKey::BackTab,
                _ => return None,
            }))
        }
        Event::Mouse(MouseEvent { kind, column, row, .. }) => Some(TerminalInput::Mouse(match kind {
            MouseEventKind::Down(MouseButton::Left) => MouseInput::Click(*column, *row),
            MouseEventKind::ScrollUp => MouseInput::WheelUp(*column, *row),
            MouseEventKind::ScrollDown => MouseInput::WheelDown(*column, *row),
            _ => return None,
        })),
        Event::Paste(text) => Some(TerminalInput::Paste(text.clone())),
        _ => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of all keys there are, these are ours")]
fn press_of(event: &Event) -> Option<KeyPress> {
    let Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return None };
    if *kind == KeyEventKind::Release {
        return None;
    }
    if modifiers.contains(KeyModifiers::CONTROL) {
        return (*code == KeyCode::Char('c')).then_some(KeyPress::Interrupt);
    }
    Some(match code {
        KeyCode::Char(letter) => KeyPress::Char(*letter),
        KeyCode::Up => KeyPress::Up,
        KeyCode::Down => KeyPress::Down,
        KeyCode::PageUp => KeyPress::PageUp,
        KeyCode::PageDown => KeyPress::PageDown,
        KeyCode::Enter => KeyPress::Enter,
        KeyCode::Esc => KeyPress::Escape,
        KeyCode::Backspace => KeyPress::Backspace,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_and_ctrl_c_quits() {
        let key = |code, modifiers| press_of(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('?'), KeyModifiers::SHIFT), Some(KeyPress::Char('?')));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(KeyPress::Interrupt));
        assert_eq!(key(KeyCode::Char('j'), KeyModifiers::CONTROL), None);
        assert_eq!(key(KeyCode::Esc, KeyModifiers::NONE), Some(KeyPress::Escape));
        assert_eq!(key(KeyCode::F(1), KeyModifiers::NONE), None);
        assert_eq!(press_of(&Event::Resize(1, 1)), None);
    }

    #[test]
    fn arrows_and_the_mouse_are_input_too() {
        let key = |code| input_of(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        assert_eq!(key(KeyCode::Char('j')), Some(TerminalInput::Key(KeyPress::Char('j'))));
        assert_eq!(key(KeyCode::Left), Some(TerminalInput::Move(MoveKey::Left)));
        assert_eq!(key(KeyCode::F(1)), None);
        let mouse = |kind| {
            let modifiers = KeyModifiers::NONE;
            input_of(&Event::Mouse(MouseEvent { kind, column: 3, row: 7, modifiers }))
        };
        let click = MouseEventKind::Down(MouseButton::Left);
        assert_eq!(mouse(click), Some(TerminalInput::Mouse(MouseInput::Click(3, 7))));
        assert_eq!(mouse(MouseEventKind::ScrollUp), Some(TerminalInput::Mouse(MouseInput::WheelUp(3, 7))));
        assert_eq!(mouse(MouseEventKind::Moved), None);
    }
}
