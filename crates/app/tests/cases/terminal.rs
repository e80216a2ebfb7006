//! People at a terminal: the review on the screen, questions, and Ctrl-C, in a real pseudo-terminal.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{InputModes, LocalModes, OutputModes, Winsize, tcgetattr, tcsetwinsize};

use super::support::{TestUser, alive};

pub(super) const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
pub(super) const ENTER: &str = "\r";

/// After so long nothing more is going to be shown.
const STUCK: Duration = Duration::from_secs(120);

type Modes = (InputModes, OutputModes, LocalModes);

/// What a terminal has shown so far.
#[derive(Default)]
struct Shown {
    text: Mutex<Vec<u8>>,
    more: Condvar,
}

/// A program at a terminal of its own.
pub(super) struct Terminal {
    child: Child,
    keyboard: File,
    line: OwnedFd,
    before: Modes,
    shown: Arc<Shown>,
    reader: JoinHandle<()>,
}

/// What a program left behind at its end.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) exit: Option<i32>,
    pub(super) text: String,
    pub(super) is_restored: bool,
}

fn modes(line: &OwnedFd) -> Modes {
    let all = tcgetattr(line).unwrap();
    (all.input_modes, all.output_modes, all.local_modes)
}

impl Terminal {
    /// Calls the program in the project, as a shell at a terminal would.
    pub(super) fn call(person: &TestUser, args: &[&str]) -> Terminal {
        Terminal::start(&person.command(&person.project(), args))
    }

    /// Starts a command at a terminal of 160 columns.
    pub(super) fn start(agents: &Command) -> Terminal {
        Terminal::with_columns(agents, 160)
    }

    /// The same at one that says to have so many columns.
    pub(super) fn with_columns(agents: &Command, columns: u16) -> Terminal {
        Terminal::with_size(agents, columns, 40)
    }

    /// The same at one of this size.
    pub(super) fn with_size(agents: &Command, columns: u16, rows: u16) -> Terminal {
        let mut command = with_terminal(agents);
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = rustix::fs::open(name, flags, Mode::empty()).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&line, size).unwrap();
        let before = modes(&line);
        for end in [Command::stdin, Command::stdout, Command::stderr] {
            end(&mut command, Stdio::from(line.try_clone().unwrap()));
        }
        let child = command.spawn().unwrap();
        let keyboard = File::from(keyboard);
        let shown = Arc::<Shown>::default();
        let screen = keyboard.try_clone().unwrap();
        let reader = std::thread::spawn({
            let shown = Arc::clone(&shown);
            move || read_all(screen, &shown)
        });
        Terminal { child, keyboard, line, before, shown, reader }
    }

    /// Waits until the text stands on the screen.
    pub(super) fn sees(&self, text: &str) {
        let missing = |shown: &mut Vec<u8>| !String::from_utf8_lossy(shown).contains(text);
        let shown = self.shown.text.lock().unwrap();
        let (shown, waited) = self.shown.more.wait_timeout_while(shown, STUCK, missing).unwrap();
        assert!(!waited.timed_out(), "{text:?} is not shown: {}", String::from_utf8_lossy(&shown));
    }

    /// Waits until the text stands on the screen, however it came to stand there: what is blank or the same
    /// is not drawn again.
    pub(super) fn shows(&self, text: &str) {
        let missing = |shown: &mut Vec<u8>| !painted(&String::from_utf8_lossy(shown)).contains(text);
        let shown = self.shown.text.lock().unwrap();
        let (shown, waited) = self.shown.more.wait_timeout_while(shown, STUCK, missing).unwrap();
        assert!(!waited.timed_out(), "{text:?} is not on:\n{}", painted(&String::from_utf8_lossy(&shown)));
    }

    /// Gives the terminal another size, which the program hears of.
    pub(super) fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.line, size).unwrap();
    }

    pub(super) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn kill(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal).unwrap();
    }

    /// Waits for the program's end.
    pub(super) fn ends(mut self) -> Left {
        let exit = self.child.wait().unwrap().code();
        let is_cooked = modes(&self.line) == self.before;
        // Whoever reads the screen is at its end when nobody has the line open any more.
        drop(self.line);
        self.reader.join().unwrap();
        let text = String::from_utf8_lossy(&self.shown.text.lock().unwrap()).into_owned();
        let has_cursor = last_of(&text, ["\x1b[?25h", "\x1b[?25l"]);
        let is_main_screen = last_of(&text, ["\x1b[?1049l", "\x1b[?1049h"]);
        Left { exit, text, is_restored: is_cooked && has_cursor && is_main_screen }
    }
}

/// The screen after all that was written to it: text, and where it was put.
fn painted(written: &str) -> String {
    let mut rows = vec![vec![' '; 200]; 60];
    let (mut row, mut column) = (0, 0);
    let mut letters = written.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' => column = 0,
            '\n' => row += 1,
            '\x1b' => {
                let mut code = String::new();
                for letter in letters.by_ref().skip(1) {
                    code.push(letter);
                    if letter.is_ascii_alphabetic() {
                        break;
                    }
                }
                match code.strip_suffix('H') {
                    Some(place) => {
                        let mut place = place.split(';').map(|number| number.parse().unwrap_or(1_usize));
                        (row, column) = (place.next().unwrap_or(1) - 1, place.next().unwrap_or(1) - 1);
                    }
                    None if code == "2J" || code == "?1049h" => rows = vec![vec![' '; 200]; 60],
                    None => {}
                }
            }
            letter => {
                if let Some(cell) = rows.get_mut(row).and_then(|row| row.get_mut(column)) {
                    *cell = letter;
                }
                column += 1;
            }
        }
    }
    rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n").collect()
}

/// The program as leader of a session whose terminal is its input.
fn with_terminal(agents: &Command) -> Command {
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(agents.get_program()).args(agents.get_args());
    command.env_clear().env("TERM", "xterm-256color");
    if let Some(dir) = agents.get_current_dir() {
        command.current_dir(dir);
    }
    command.envs(agents.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

fn read_all(mut screen: File, shown: &Shown) {
    let mut buffer = [0; 4096];
    loop {
        match screen.read(&mut buffer) {
            Ok(count @ 1..) => {
                shown.text.lock().unwrap().extend_from_slice(&buffer[..count]);
                shown.more.notify_all();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// Whether the first of two switches was the last that was thrown; so, too, when none was.
fn last_of(text: &str, [wanted, other]: [&str; 2]) -> bool {
    text.rfind(other).is_none_or(|place| text.rfind(wanted).is_some_and(|last| last > place))
}

const OLD: &str = "one\n2\n3\n4\n5\n6\n7\n8\n9\nten\n11\n12\n13\n14\n15\n16\n17\n18\n19\ntwenty\n";

/// A plan that changes three places of one file, and two other files.
fn person_with_a_plan() -> TestUser {
    let person = TestUser::new();
    person.write("a.txt", OLD);
    person.write("b.txt", "old\n");
    person.plan("sed -i 's/one/ONE/; s/ten/TEN/; s/twenty/TWENTY/' a.txt; echo new > b.txt; echo c > c.txt");
    person
}

/// Opens the review of the last plan and waits until it is drawn.
fn review(person: &TestUser) -> Terminal {
    let terminal = Terminal::call(person, &["plan", "apply", "@last", "-i"]);
    // Drawn last. What is blank already is not drawn, so only single words are found.
    terminal.sees("quit");
    terminal
}

#[test]
fn the_hunks_that_were_taken_on_the_screen_and_no_others_reach_the_files() {
    let person = person_with_a_plan();
    let mut terminal = review(&person);
    // The second hunk of the first file, and the whole of the second file, are left out.
    terminal.types("j ");
    terminal.types("nr");
    terminal.types(ENTER);
    let left = terminal.ends();
    assert_eq!((left.exit, left.is_restored), (Some(0), true), "{left:?}");
    assert!(left.text.contains("left out: a.txt#2, b.txt"), "{left:?}");
    assert_eq!(person.read("a.txt"), OLD.replace("one", "ONE").replace("twenty", "TWENTY"));
    assert_eq!((person.read("b.txt"), person.read("c.txt")), ("old\n".to_owned(), "c\n".to_owned()));
}

#[test]
fn arrows_pages_filter_and_help_are_keys_of_the_review_too() {
    let person = person_with_a_plan();
    let mut terminal = review(&person);
    terminal.types("?");
    terminal.sees("goes");
    terminal.types("x\x1b[B\x1b[A\x1b[6~\x1b[5~");
    terminal.types("/C.TXT\r");
    terminal.sees(": C.TXT");
    terminal.types(" ");
    terminal.types(ENTER);
    let left = terminal.ends();
    assert_eq!((left.exit, left.is_restored), (Some(0), true), "{left:?}");
    assert_eq!(person.read("b.txt"), "new\n");
    assert!(!person.project().join("c.txt").exists());
}

#[test]
fn however_a_review_is_left_nothing_is_written_and_the_terminal_is_as_before() {
    type Leave = fn(&mut Terminal);
    let ways: [(&str, Leave, i32); 4] = [
        ("q", |terminal| terminal.types("q"), 0),
        ("Ctrl-C", |terminal| terminal.types(CTRL_C), 5),
        ("SIGTERM", |terminal| terminal.kill(Signal::TERM), 5),
        ("SIGINT", |terminal| terminal.kill(Signal::INT), 5),
    ];
    let person = person_with_a_plan();
    for (way, leave, exit) in ways {
        let mut terminal = review(&person);
        terminal.types(" ");
        leave(&mut terminal);
        let left = terminal.ends();
        assert_eq!((left.exit, left.is_restored), (Some(exit), true), "{way}: {left:?}");
        assert!(
            left.text.contains("\x1b[?1049h") && left.text.contains("nothing was applied"),
            "{way}: {left:?}"
        );
        assert_eq!(
            (person.read("a.txt"), person.read("b.txt")),
            (OLD.to_owned(), "old\n".to_owned()),
            "{way}"
        );
        assert_eq!(person.json(&["plan", "status"]).data()["state"], "complete", "{way}");
    }
}

/// Calls the program, answers its question, and tells what it did.
fn answered(person: &TestUser, args: &[&str], question: &str, answer: &str) -> Left {
    let mut terminal = Terminal::call(person, args);
    terminal.sees(question);
    terminal.sees("[y/N] ");
    terminal.types(answer);
    terminal.ends()
}

#[test]
fn only_a_yes_at_the_terminal_changes_files() {
    let person = person_with_a_plan();
    let apply = |answer| answered(&person, &["plan", "apply", "@last"], "to your files: 3 files", answer);
    for no in ["n\r", "\r", CTRL_D, "yep\r"] {
        let left = apply(no);
        assert_eq!((left.exit, left.is_restored), (Some(0), true), "{no:?}: {left:?}");
        assert!(left.text.ends_with("\nnothing was applied\r\n"), "{no:?}: {left:?}");
        assert_eq!(person.read("a.txt"), OLD, "{no:?}");
    }
    let left = apply("y\r");
    assert!(left.exit == Some(0) && left.text.contains("applied "), "{left:?}");
    assert_eq!(person.read("b.txt"), "new\n");

    let undo = |answer| answered(&person, &["plan", "undo", "@last"], "(3 files) out of your files?", answer);
    for no in ["n\r", CTRL_D] {
        let left = undo(no);
        assert!(left.text.ends_with("\nnothing was undone\r\n") && left.exit == Some(0), "{no:?}: {left:?}");
        assert_eq!(person.read("b.txt"), "new\n", "{no:?}");
    }
    let left = undo("yes\r");
    assert!(left.exit == Some(0) && left.text.contains("undone "), "{left:?}");
    assert_eq!((person.read("a.txt"), person.read("b.txt")), (OLD.to_owned(), "old\n".to_owned()));
}

#[test]
fn ctrl_c_at_the_question_is_no_yes() {
    let person = person_with_a_plan();
    let left = answered(&person, &["plan", "apply", "@last"], "to your files", CTRL_C);
    assert!(left.exit != Some(0) && left.is_restored, "{left:?}");
    assert_eq!(person.read("a.txt"), OLD);
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
}

/// The sandboxes that are there.
fn sandboxes(person: &TestUser) -> Vec<PathBuf> {
    let all = std::fs::read_dir(person.home().join("data/sandboxes")).into_iter().flatten();
    all.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[test]
fn ctrl_c_at_a_run_interrupts_it_and_keeps_what_was_done() {
    let person = TestUser::new();
    let script = "echo half > f; (sleep 600 &); echo it is ready; sleep 600";
    let mut terminal = Terminal::call(&person, &["run", "--", "sh", "-c", script]);
    terminal.sees("it is ready");
    terminal.types(CTRL_C);
    let left = terminal.ends();
    assert_eq!((left.exit, left.is_restored), (Some(5), true), "{left:?}");
    assert!(left.text.contains("Ctrl-C again cancels it"), "{left:?}");
    assert!(left.text.contains("agents plan resume"), "{left:?}");
    assert_eq!(alive(&person), 0);
    assert_eq!(person.json(&["plan", "status"]).data()["interrupted"], true);
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "f\n");
}

#[test]
fn a_third_ctrl_c_ends_at_once_and_the_next_command_finishes_the_cancel() {
    let person = TestUser::new();
    // So much to capture that the others come while the first is obeyed.
    let script =
        "i=0; while [ $i -lt 4000 ]; do echo $i > f$i; i=$((i+1)); done; echo it is ready; sleep 600";
    let mut terminal = Terminal::call(&person, &["run", "--", "sh", "-c", script]);
    terminal.sees("it is ready");
    terminal.types(CTRL_C);
    terminal.sees("Ctrl-C again cancels it");
    terminal.types(CTRL_C);
    terminal.sees("Ctrl-C again ends at once");
    terminal.types(CTRL_C);
    let left = terminal.ends();
    assert_eq!((left.exit, left.is_restored), (Some(5), true), "{left:?}");

    let status = person.json(&["plan", "status"]);
    assert_eq!(status.data()["state"], "cancelled", "{status:?}");
    assert_eq!((alive(&person), sandboxes(&person)), (0, Vec::new()));
    assert_eq!(
        std::fs::read_dir(person.project()).unwrap().count(),
        1,
        "only .git: nothing reached the files"
    );
    assert_eq!(person.agents(&["run", "--", "touch", "next"]).exit, 0);
}
