//! The pager: a program that shows a long answer at a terminal page by page.
//!
//! # Invariants
//! 1. Only an answer for people at a terminal is paged, and only one of a command that lists or shows.
//! 2. The pager gets the text that the terminal would have got: our own colours, and nothing else that a
//!    terminal obeys.
//! 3. A pager that cannot be started costs nothing: the answer is written as without one.
//! 4. The command is the user's own, from the environment or the user's settings. No project names it.

use std::ffi::OsString;
use std::io;
use std::process::{Child, ChildStdin, Command, Stdio};

use tokio::signal::unix::{SignalKind, signal};

/// The pager of a user who named none. It ends by itself if all fits on the screen.
const DEFAULT: [&str; 2] = ["less", "-FRX"];
/// The variable that names the pager of this program.
const OWN_VARIABLE: &str = "AGENTS_PAGER";
/// The words that stand for no pager.
const NONE: [&str; 3] = ["", "cat", "off"];
/// The exit codes of a shell that could not start the program.
const NOT_STARTED: [i32; 2] = [126, 127];

/// The command that shows answers page by page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagerCommand {
    argv: Vec<OsString>,
    /// Variables for known pagers, where the user has not set them.
    env: Vec<(&'static str, &'static str)>,
}

impl PagerCommand {
    /// Finds the pager as git does: `$AGENTS_PAGER`, then the setting, then `$PAGER`, then `less -FRX`.
    /// `None` if the first of them that is there says that there is to be none.
    pub fn find(setting: &[String], variable: impl Fn(&str) -> Option<String>) -> Option<PagerCommand> {
        let shell = |line: String| -> Option<Vec<OsString>> {
            (!NONE.contains(&line.trim())).then(|| vec!["sh".into(), "-c".into(), line.into()])
        };
        let argv = match (variable(OWN_VARIABLE), setting) {
            (Some(line), _) => shell(line)?,
            (None, [word]) if NONE.contains(&word.as_str()) => return None,
            (None, [_, ..]) => setting.iter().map(OsString::from).collect(),
            (None, []) => match variable("PAGER") {
                Some(line) => shell(line)?,
                None => DEFAULT.map(OsString::from).to_vec(),
            },
        };
        // Answers are UTF-8 in every locale.
        let usual = [("LESS", "FRX"), ("LESSCHARSET", "utf-8"), ("LV", "-c")];
        let unset = usual.into_iter().filter(|(name, _)| variable(name).is_none());
        Some(PagerCommand { argv, env: unset.collect() })
    }

    /// Starts it.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub(super) fn start(&self) -> io::Result<RunningPager> {
        let (program, args) =
            self.argv.split_first().ok_or_else(|| io::Error::other("a pager without a program"))?;
        let mut command = Command::new(program);
        command.args(args).envs(self.env.iter().copied()).stdin(Stdio::piped());
        // Ctrl-C is for the pager: this program waits for it, else two would read the keyboard.
        outlive_interrupts();
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or_else(|| io::Error::other("a pager without an input"))?;
        Ok(RunningPager { child, input })
    }
}

/// Makes Ctrl-C harmless for the rest of this process. If that is impossible, it ends the process as before.
fn outlive_interrupts() {
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        let _guard = runtime.enter();
        drop(signal(SignalKind::interrupt()));
    }
}

/// A pager that runs.
pub(super) struct RunningPager {
    child: Child,
    input: ChildStdin,
}

impl RunningPager {
    /// The place to write the answer to.
    pub(super) fn input(&mut self) -> &mut ChildStdin {
        &mut self.input
    }

    /// Waits until the user leaves it. Returns whether it had started at all.
    ///
    /// # Errors
    /// Returns an error if it cannot be waited for.
    pub(super) fn wait(self) -> io::Result<bool> {
        let RunningPager { mut child, input } = self;
        drop(input);
        Ok(!child.wait()?.code().is_some_and(|code| NOT_STARTED.contains(&code)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(setting: &[&str], set: &[(&str, &str)]) -> Option<Vec<String>> {
        let setting: Vec<String> = setting.iter().map(|word| (*word).to_owned()).collect();
        let variable =
            |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let pager = PagerCommand::find(&setting, variable)?;
        Some(pager.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect())
    }

    #[test]
    fn the_pager_is_found_in_the_order_of_git() {
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(found(&[], &[]), words(&["less", "-FRX"]));
        assert_eq!(found(&[], &[("PAGER", "more -s")]), words(&["sh", "-c", "more -s"]));
        assert_eq!(found(&["most", "-x"], &[("PAGER", "more")]), words(&["most", "-x"]));
        let all = [("PAGER", "more"), ("AGENTS_PAGER", "delta")];
        assert_eq!(found(&["most"], &all), words(&["sh", "-c", "delta"]));
        for none in ["", "cat", "off"] {
            assert_eq!(found(&["most"], &[("AGENTS_PAGER", none)]), None);
            assert_eq!(found(&[], &[("PAGER", none)]), None);
        }
        assert_eq!(found(&["off"], &[("PAGER", "more")]), None);
    }
}
