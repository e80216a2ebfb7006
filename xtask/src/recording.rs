//! `cargo xtask recording`: runs the commands of [`STORY`] on a copy of the sample project and draws the
//! terminal as `docs/recording.svg`, the picture at the top of the README.
//!
//! The program is the one that `cargo run --release` builds. Its answers are drawn as they come, with their
//! colours. Times and plan ids differ from run to run, so no check compares the picture.
//!
//! # Invariants
//! 1. Nothing of the machine is in the picture: the project is a copy in a temporary directory, the home is
//!    empty, and the picture is refused if it names either.
//! 2. Without animation (a reader may prefer reduced motion) all lines are visible.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::child::Child;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The command lines, as a user types them.
const STORY: [&str; 4] = [
    "agents run --trust --check 'sh test.sh' -- sh rename.sh greet welcome",
    "agents diff lib",
    "agents apply --yes",
    "agents undo --yes",
];

/// The picture, below the workspace's root.
const PICTURE: &str = "docs/recording.svg";

/// Puts a terminal's settings on every call: the answers go to a pipe.
const PRELUDE: &str = "agents() { command agents --format rich --color always \"$@\"; }";

const FONT_PX: f32 = 14.0;
const COLUMN_PX: f32 = 8.4;
const LINE_PX: f32 = 19.0;
const MARGIN_PX: f32 = 18.0;
const COLUMNS: usize = 84;
/// The time between two lines of an answer, and the time to read before the next command.
const LINE_SECONDS: f32 = 0.06;
const PAUSE_SECONDS: f32 = 1.6;

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    crate::no_arguments("recording", arguments)?;
    Child::cargo(["build", "--release", "--locked", "-p", "app"]).run(workspace)?;
    let scratch = workspace.root.join(workspace.target("recording"));
    let failed =
        |error: std::io::Error| Failure::new(format!("{} cannot be used: {error}", scratch.display()));
    if scratch.exists() {
        fs::remove_dir_all(&scratch).map_err(failed)?;
    }
    let home = scratch.join("home");
    fs::create_dir_all(&home).map_err(failed)?;
    let sample = scratch.join("sample");
    let (from, to) = (workspace.root.join("examples/sample"), sample.display().to_string());
    Child::new("cp", ["-r", &from.display().to_string(), &to]).run(workspace)?;
    let answers = STORY
        .iter()
        .map(|line| Ok((*line, play(workspace, &home, &sample, line)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let picture = draw(&answers);
    if picture.contains(&*scratch.to_string_lossy()) {
        return Err(Failure::new("the answers name a directory of this machine, so no picture was made"));
    }
    fs::write(workspace.root.join(PICTURE), picture)
        .map_err(|error| Failure::new(format!("{PICTURE} cannot be written: {error}")))?;
    println!("{PICTURE}: drawn");
    Ok(())
}

/// Runs one line in the project; returns both streams, as a terminal shows them.
fn play(workspace: &Workspace, home: &Path, sample: &Path, line: &str) -> Result<String, Failure> {
    let program = workspace.root.join(workspace.target("release"));
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let script = format!("{PRELUDE}\ncd \"$SAMPLE\" && {{ {line}\n}} 2>&1");
    Child::new("sh", ["-c", &script])
        .variable("PATH", path)
        .variable("HOME", home.display().to_string())
        .variable("SAMPLE", sample.display().to_string())
        .variable("CLEVERAGENTS_DATA_DIR", home.join("data").display().to_string())
        .output(workspace)
}

fn draw(answers: &[(&str, String)]) -> String {
    let mut lines = String::new();
    let (mut at, mut row) = (0.4, 0);
    let mut add = |spans: &str, at: f32| {
        row += 1;
        let y = MARGIN_PX + LINE_PX * (row as f32);
        let _ = writeln!(
            lines,
            r#"<text class="l" x="{MARGIN_PX}" y="{y:.1}" style="animation-delay:{at:.2}s">{spans}</text>"#
        );
    };
    for (no, (command, answer)) in answers.iter().enumerate() {
        if no > 0 {
            add("", at);
        }
        add(&format!(r#"<tspan class="p">$ </tspan><tspan class="b">{}</tspan>"#, escape(command)), at);
        at += PAUSE_SECONDS / 2.0;
        for line in answer.lines() {
            at += LINE_SECONDS;
            add(&spans(line), at);
        }
        at += PAUSE_SECONDS;
    }
    let width = MARGIN_PX * 2.0 + COLUMN_PX * COLUMNS as f32;
    let height = MARGIN_PX * 2.0 + LINE_PX * row as f32;
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-label="A terminal: agents runs a codemod in a sandbox, checks it, shows the diff, applies it and undoes it">
<style>
text {{ font: {FONT_PX}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d8dee9; white-space: pre }}
.b {{ font-weight: 700; fill: #eceff4 }} .d {{ opacity: .6 }} .p {{ fill: #88c0d0 }}
.c31 {{ fill: #e06c75 }} .c32 {{ fill: #98c379 }} .c33 {{ fill: #e5c07b }} .c34 {{ fill: #61afef }} .c35 {{ fill: #c678dd }} .c36 {{ fill: #56b6c2 }}
@media (prefers-reduced-motion: no-preference) {{ .l {{ opacity: 0; animation: show .01s forwards }} @keyframes show {{ to {{ opacity: 1 }} }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#1e222a"/>
{lines}</svg>
"##
    )
}

/// One line with the colours of its terminal sequences; other sequences are left out.
fn spans(line: &str) -> String {
    let mut drawn = String::new();
    let mut classes: Vec<String> = Vec::new();
    for (no, part) in line.split('\u{1b}').enumerate() {
        let text = match part.strip_prefix('[').filter(|_| no > 0) {
            Some(sequence) => {
                let end = sequence.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(0);
                let (codes, rest) = sequence.split_at(end);
                if rest.starts_with('m') {
                    codes.split(';').for_each(|code| set_code(&mut classes, code));
                }
                rest.get(1..).unwrap_or_default()
            }
            None => part,
        };
        if !text.is_empty() {
            let _ = write!(drawn, r#"<tspan class="{}">{}</tspan>"#, classes.join(" "), escape(text));
        }
    }
    drawn
}

fn set_code(classes: &mut Vec<String>, code: &str) {
    let is_colour = |class: &String| class.starts_with('c');
    match code {
        "" | "0" => classes.clear(),
        "1" => classes.push("b".to_owned()),
        "2" => classes.push("d".to_owned()),
        "22" => classes.retain(is_colour),
        "39" => classes.retain(|class| !is_colour(class)),
        "31" | "32" | "33" | "34" | "35" | "36" => {
            classes.retain(|class| !is_colour(class));
            classes.push(format!("c{code}"));
        }
        _ => {}
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_classes_and_text_cannot_become_markup() {
        let drawn = spans("a \u{1b}[1;32m+<b>\u{1b}[0m c\u{1b}[2K");
        assert_eq!(
            drawn,
            r#"<tspan class="">a </tspan><tspan class="b c32">+&lt;b&gt;</tspan><tspan class=""> c</tspan>"#
        );
    }

    #[test]
    fn every_command_and_line_is_drawn_in_order() {
        let picture = draw(&[("agents run", "one\ntwo\n".to_owned()), ("agents undo", "three\n".to_owned())]);
        let places: Vec<_> = ["agents run", "one", "two", "agents undo", "three"]
            .map(|word| picture.find(&format!(">{word}<")))
            .into();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {picture}");
    }
}
