//! The kinds of plans that are worked on, and what each of them has to have changed in the end.
//!
//! What a command appends would be there twice if it were done twice on the same files.

use std::collections::BTreeMap;

use serde_json::Value;

/// The project's files.
pub(crate) const FILES: [(&str, &str); 3] =
    [("a.txt", "one\n"), ("log.txt", "begin\n"), ("gone.txt", "gone\n")];

/// A kind of plan.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Steps without a process.
    Tools,
    /// Steps that are commands.
    Commands,
    /// Both, in turns.
    Mixed,
    /// A command that leaves a process behind which nobody waits for.
    Daemon,
}

/// A path, and what happened to it: a word, then the lines that went and came.
pub(crate) type Changed = BTreeMap<String, Vec<String>>;

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Tools, Kind::Commands, Kind::Mixed, Kind::Daemon];

    pub(crate) fn actor(self) -> &'static str {
        match self {
            Kind::Tools => concat!(
                "nodes:\n",
                "  a: { tool: write, with: { path: made.txt, text: \"one\\n\" } }\n",
                "  b: { tool: edit, with: { path: made.txt, old: one, new: two }, needs: [a] }\n",
                "  c: { tool: edit, with: { path: a.txt, old: one, new: two }, needs: [b] }\n",
            ),
            Kind::Commands => concat!(
                "nodes:\n",
                "  a: { run: 'echo $ITEM >> log.txt; echo $ITEM > made.txt' }\n",
                "  b: { run: 'echo $ITEM >> log.txt; rm gone.txt', needs: [a] }\n",
            ),
            Kind::Mixed => concat!(
                "nodes:\n",
                "  a: { run: 'echo $ITEM >> log.txt' }\n",
                "  b: { tool: edit, with: { path: a.txt, old: one, new: two }, needs: [a] }\n",
                "  c: { run: 'mkdir below; mv gone.txt below/$ITEM.txt; echo $ITEM >> log.txt', needs: [b] }\n",
            ),
            Kind::Daemon => concat!(
                "nodes:\n",
                "  a: { run: '(setsid sleep 600 </dev/null >/dev/null 2>&1 &); echo $ITEM >> log.txt' }\n",
                "  b: { tool: write, with: { path: made.txt, text: \"one\\n\" }, needs: [a] }\n",
            ),
        }
    }

    /// What a plan of it for this item has to have changed.
    pub(crate) fn changes(self, item: &str) -> Changed {
        let line = format!("+{item}");
        let once = ("log.txt", vec!["modify", &line]);
        let twice = ("log.txt", vec!["modify", &line, &line]);
        let two = ("a.txt", vec!["modify", "-one", "+two"]);
        let below = format!("below/{item}.txt");
        let changed = match self {
            Kind::Tools => vec![two, ("made.txt", vec!["create", "+two"])],
            Kind::Commands => {
                vec![twice, ("gone.txt", vec!["delete", "-gone"]), ("made.txt", vec!["create", &line])]
            }
            Kind::Mixed => vec![twice, two, (below.as_str(), vec!["rename gone.txt"])],
            Kind::Daemon => vec![once, ("made.txt", vec!["create", "+one"])],
        };
        let owned = |lines: Vec<&str>| lines.into_iter().map(str::to_owned).collect();
        changed.into_iter().map(|(path, lines)| (path.to_owned(), owned(lines))).collect()
    }
}

/// What `agents plan diff` says, in the same form.
pub(crate) fn told(diff: &Value) -> Changed {
    let lines = |file: &Value| {
        let text = |key: &str| file[key].as_str().unwrap_or_default();
        let mut told = vec![format!("{} {}", text("op"), text("from")).trim_end().to_owned()];
        let hunks = file["hunks"].as_array().into_iter().flatten();
        let lines = hunks.flat_map(|hunk| hunk["lines"].as_array().into_iter().flatten());
        let texts = lines.filter_map(Value::as_str).filter(|line| !line.starts_with(' '));
        told.extend(texts.map(|line| line.trim_end().to_owned()));
        told
    };
    let files = diff["files"].as_array().into_iter().flatten();
    files.map(|file| (file["path"].as_str().unwrap_or_default().to_owned(), lines(file))).collect()
}
