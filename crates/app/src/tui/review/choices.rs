//! The choices of a review: what is taken, whose side wins over a conflict, and the way back.

use std::collections::BTreeSet;

use domain::{ChangeChoice, LineRanges, TakenShare};

use super::file::{ReviewConflict, ReviewFile};
use super::{Review, ReviewChoice};

/// The maximum number of choices that can be undone.
const UNDO_STEPS_MAX: usize = 200;

/// The earlier choices of files, newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChoiceHistory(Vec<Vec<EarlierChoice>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct EarlierChoice {
    file: usize,
    choice: ChangeChoice,
    wins: BTreeSet<u32>,
}

impl Review {
    /// Remembers the choices of these files, to come back to.
    fn remember(&mut self, files: impl IntoIterator<Item = usize>) {
        let earlier = |file: usize| {
            let ReviewFile { choice, wins, .. } = self.files.get(file)?;
            Some(EarlierChoice { file, choice: choice.clone(), wins: wins.clone() })
        };
        let step: Vec<EarlierChoice> = files.into_iter().filter_map(earlier).collect();
        if self.history.0.len() == UNDO_STEPS_MAX {
            self.history.0.remove(0);
        }
        self.history.0.push(step);
    }

    pub(super) fn undo_choice(&mut self) {
        let Some(step) = self.history.0.pop() else {
            self.say("there is no choice to take back");
            return;
        };
        let first = step.first().map(|earlier| earlier.file);
        let count = step.len();
        for EarlierChoice { file, choice, wins } in step {
            if let Some(file) = self.files.get_mut(file) {
                (file.choice, file.wins) = (choice, wins);
            }
        }
        if let Some(first) = first.filter(|first| count == 1 && *first != self.cursor.file)
            && self.shown.binary_search(&first).is_ok()
        {
            self.go_to_file(first);
        }
    }

    pub(super) fn toggle_part(&mut self) {
        let Some((part, (file, hunk))) = self.part_here().zip(self.hunk_here()) else { return };
        let (number, taken) = (hunk.number, file.share(&part) != TakenShare::All);
        self.remember([self.cursor.file]);
        let Some(file) = self.files.get_mut(self.cursor.file) else { return };
        match part.chosen {
            Some(lines) => file.choice.set_lines(number, &LineRanges::from_numbers(lines), taken),
            None => file.choice.set_hunk(number, taken),
        }
    }

    pub(super) fn toggle_line(&mut self) {
        let Some((file, hunk)) = self.hunk_here() else { return };
        let Some(line) = hunk.lines.get(self.cursor.line).filter(|line| line.number > 0) else { return };
        let (number, lines) = (hunk.number, LineRanges::from_numbers([line.number]));
        let taken = !file.takes_line(hunk, line);
        self.remember([self.cursor.file]);
        if let Some(file) = self.files.get_mut(self.cursor.file) {
            file.choice.set_lines(number, &lines, taken);
        }
    }

    pub(super) fn set_file(&mut self, taken: bool) {
        if self.file_here().is_some() {
            self.remember([self.cursor.file]);
            if let Some(file) = self.files.get_mut(self.cursor.file) {
                file.choice.set_all(taken);
            }
        }
    }

    /// Takes or leaves all files that are shown.
    pub(super) fn set_all(&mut self, taken: bool) {
        let shown = self.shown.clone();
        self.remember(shown.iter().copied());
        for file in shown {
            if let Some(file) = self.files.get_mut(file) {
                file.choice.set_all(taken);
            }
        }
        let what = if self.filter.is_empty() { "all" } else { "all that is shown" };
        self.say(format!("{what} is {}: u takes it back", if taken { "taken" } else { "left out" }));
    }

    pub(super) fn toggle_split(&mut self) {
        let (file, at) = (self.cursor.file, self.cursor.hunk);
        let Some((_, hunk)) = self.hunk_here() else { return };
        if !hunk.can_split() {
            self.say("this hunk is one piece: v chooses single lines");
            return;
        }
        if let Some(hunk) = self.files.get_mut(file).and_then(|file| file.hunks.get_mut(at)) {
            hunk.is_split = !hunk.is_split;
        }
        self.go_to(at, 0);
    }

    pub(super) fn toggle_fold(&mut self) {
        let (file, at) = (self.cursor.file, self.cursor.hunk);
        if self.hunk_here().is_some()
            && let Some(hunk) = self.files.get_mut(file).and_then(|file| file.hunks.get_mut(at))
        {
            hunk.is_folded = !hunk.is_folded;
            self.leave_lines();
            self.cursor.has_moved = true;
        }
    }

    /// Lets the plan's side win over the conflict under the cursor, or the user's again.
    pub(super) fn toggle_take(&mut self) {
        let Some((file, hunk)) = self.hunk_here() else { return };
        let mut numbers: BTreeSet<u32> = BTreeSet::new();
        for conflict in file.conflicts_of(hunk.number) {
            numbers.extend(if conflict.hunks.is_empty() {
                BTreeSet::from([1])
            } else {
                conflict.hunks.clone()
            });
        }
        if numbers.is_empty() {
            self.say("there is no conflict here");
            return;
        }
        let wins = !numbers.is_subset(&file.wins);
        self.remember([self.cursor.file]);
        if let Some(file) = self.files.get_mut(self.cursor.file) {
            for number in &numbers {
                if wins {
                    file.wins.insert(*number);
                    if file.choice.hunk(*number) == TakenShare::None {
                        file.choice.set_hunk(*number, true);
                    }
                } else {
                    file.wins.remove(number);
                }
            }
        }
    }

    /// Replaces the conflicts: those of each file, by its address. The choices stay.
    pub fn set_conflicts(&mut self, mut conflicts: impl FnMut(&str) -> Vec<ReviewConflict>) {
        for file in &mut self.files {
            file.conflicts = conflicts(&file.address);
        }
    }

    /// Lets the user's side win again in these files: the plan's side was not to be had.
    pub fn reopen<'a>(&mut self, files: impl Iterator<Item = &'a str>) {
        let files: BTreeSet<&str> = files.collect();
        for file in self.files.iter_mut().filter(|file| files.contains(file.address.as_str())) {
            file.wins.clear();
        }
    }

    /// Replaces the files, after one was edited. The choices of the others stay, and so does the cursor.
    pub fn replace_files(&mut self, files: Vec<ReviewFile>) {
        let mut earlier: std::collections::BTreeMap<String, ReviewFile> =
            self.files.drain(..).map(|file| (file.address.clone(), file)).collect();
        self.files = files;
        for file in &mut self.files {
            let Some(old) = earlier.remove(&file.address) else { continue };
            let is_same = old.hunks.len() == file.hunks.len()
                && old.hunks.iter().zip(&file.hunks).all(|(old, new)| old.lines == new.lines);
            if is_same {
                (file.choice, file.wins, file.hunks) = (old.choice, old.wins, old.hunks);
            }
        }
        self.history = ChoiceHistory::default();
        let (file, hunk) = (self.cursor.file.min(self.files.len().saturating_sub(1)), self.cursor.hunk);
        self.cursor.file = file;
        self.refilter();
        let hunks = self.file_here().map_or(0, |file| file.hunks.len());
        self.go_to(hunk.min(hunks.saturating_sub(1)), 0);
    }

    /// The number of conflicts that are obstacles.
    pub fn open_conflicts(&self) -> usize {
        let open = |file: &ReviewFile| file.conflicts.iter().filter(|one| file.is_open(one)).count();
        self.files.iter().map(open).sum()
    }

    /// Goes to the next conflict that is an obstacle, if there is one.
    pub(super) fn next_conflict(&mut self) {
        let mut all = Vec::new();
        for index in &self.shown {
            let Some(file) = self.files.get(*index) else { continue };
            let hunks = file.hunks.iter().enumerate();
            let open = hunks.filter(|(_, hunk)| file.is_hunk_open(hunk.number));
            all.extend(open.map(|(at, _)| (*index, at)));
        }
        let here = (self.cursor.file, self.cursor.hunk);
        let next = all.iter().find(|place| **place > here).or_else(|| all.first()).copied();
        match next {
            Some((file, hunk)) => {
                if file != self.cursor.file {
                    self.go_to_file(file);
                }
                self.go_to(hunk, 0);
            }
            None => self.say("there is no conflict in what is taken"),
        }
    }

    /// Goes to a conflict and says what to do.
    pub fn say_conflicts(&mut self) {
        let is_here = self.hunk_here().is_some_and(|(file, hunk)| file.is_hunk_open(hunk.number));
        if !is_here {
            self.next_conflict();
        }
        let count = crate::render::diff::counted(self.open_conflicts(), "conflict");
        self.say(format!("{count}: space leaves the hunk out, t takes the plan's side"));
    }

    /// The numbers of hunks of which something is taken, and of all.
    pub fn taken(&self) -> (usize, usize) {
        let add = |(taken, all): (usize, usize), file: &ReviewFile| {
            let (some, of) = file.choice.count();
            (taken + some, all + of)
        };
        self.files.iter().fold((0, 0), add)
    }

    /// The choice, in the words of the flags.
    pub fn choice(&self) -> ReviewChoice {
        ReviewChoice {
            reject: self.files.iter().flat_map(|file| file.choice.left_out(&file.address)).collect(),
            take: self.files.iter().flat_map(ReviewFile::taken_over).collect(),
        }
    }
}
