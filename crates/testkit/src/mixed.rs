//! The trees that the killed applies lead between: edits that grow, shrink and stay, new files, removed
//! files.

use crate::trees::{BenchTree, PlantedFile, line, text};

/// One in so many edited files has a second name outside the project.
const LINKED_EVERY: usize = 50;

/// The change of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Edited,
    Made,
    Removed,
}

fn fate(file: usize) -> Fate {
    match file % 10 {
        8 => Fate::Made,
        9 => Fate::Removed,
        _ => Fate::Edited,
    }
}

fn path(file: usize) -> String {
    match fate(file) {
        // A directory that is made too.
        Fate::Made if file % 100 == 8 => format!("new/n{file:05}/f{file:05}.txt"),
        Fate::Made | Fate::Edited | Fate::Removed => format!("src/d{:03}/f{file:05}.txt", file / 25),
    }
}

/// The trees before and after.
pub fn trees(files: usize) -> (BenchTree, BenchTree) {
    let (mut before, mut after) = (BenchTree::new(), BenchTree::new());
    for file in 0..files {
        let mode = if file % 7 == 0 { 0o755 } else { 0o644 };
        let old = text(file, if file % 100 == 1 { 1000 } else { 20 });
        let edited = old.replacen(&line(file, 9, "line"), &line(file, 9, "LINE"), 1);
        let new = match file % 3 {
            0 => edited,
            1 => format!("{edited}{}", line(file, 5000, "more")),
            _ => edited.replacen(&line(file, 15, "line"), "", 1),
        };
        let fate = fate(file);
        if fate != Fate::Made {
            before.insert(path(file), PlantedFile { bytes: old.into_bytes(), mode });
        }
        if fate != Fate::Removed {
            after.insert(path(file), PlantedFile { bytes: new.into_bytes(), mode });
        }
    }
    (before, after)
}

/// Edited files that have a second name.
pub fn linked(files: usize) -> impl Iterator<Item = String> {
    (0..files).step_by(LINKED_EVERY).filter(|file| fate(*file) == Fate::Edited).map(path)
}
