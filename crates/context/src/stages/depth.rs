//! Stage 5: what of each file can be shown, at which cost.
//!
//! # Invariants
//! 1. Every hit becomes an [`Item`] or a [`LeftOut`].
//! 2. Secrets are taken out before anything is counted; files that hold nothing else are listed and never read.
//! 3. Files are looked at in parallel; the answer is in the order of the files.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use domain::context::{FragmentKind, Reason};
use domain::{Hash, Redactor};

use super::ladder::{Ladder, kind, lines_of};
use super::{Hit, Item, LeftOut, Piece, Rung};
use crate::index::{Facts, Outline, PathOnly, Span, scanned_outline};
use crate::parallel::in_parallel;
use crate::prepared::{FileNo, Prepared};
use crate::reading::{ReadFile, left_out};
use crate::render::{Header, header_line, listed_line};
use crate::weigh::{Stretch, Weigher, Words};
use crate::{Stop, TokenCounter};

/// One file for so many tokens is looked into: about as many as could be listed.
const TOKENS_PER_FILE: usize = 24;
const FILES_MIN: usize = 40;
/// How many files are looked into at most.
const FILES_MAX: usize = 120;
/// One file for so many tokens is parsed, not just scanned.
const TOKENS_PER_OUTLINE: usize = 128;
const OUTLINES_MIN: usize = 8;
const FILES_AT_A_TIME: usize = 2;
/// What a part of a named file is worth at least, of the best part.
const NAMED_FILE_PART: f32 = 0.5;

/// What a definition is called whose name holds a secret.
const NAME_WITHHELD: &str = "(a secret)";

/// What is needed to make text of files.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// Who counts.
    pub counter: &'a dyn TokenCounter,
    /// Takes secrets out.
    pub redactor: &'a Redactor,
    /// The tokens for files.
    pub tokens: u32,
}

/// What can be shown.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// The files, by number.
    pub items: Vec<Item>,
    /// What cannot be shown.
    pub left_out: Vec<LeftOut>,
}

/// Decides what of each file can be shown.
pub trait DetailDepthResolver: Send + Sync {
    /// Reads the best of `hits`.
    fn resolve(&self, prepared: &Prepared, hits: Vec<Hit>, means: &Means<'_>, stop: &Stop) -> Resolved;
}

/// Listing, outline, signatures, full.
#[derive(Clone, Copy, Debug, Default)]
pub struct LadderDepthResolver;

impl DetailDepthResolver for LadderDepthResolver {
    fn resolve(&self, prepared: &Prepared, hits: Vec<Hit>, means: &Means<'_>, stop: &Stop) -> Resolved {
        let pinned: BTreeSet<FileNo> =
            prepared.anchors().iter().filter(|anchor| anchor.is_pinned).map(|anchor| anchor.file).collect();
        let mut hits = hits;
        hits.sort_by(|one, other| {
            let is_pinned = |hit: &Hit| pinned.contains(&hit.file);
            let by_worth = other.fused().total_cmp(&one.fused()).then(one.file.cmp(&other.file));
            is_pinned(other).cmp(&is_pinned(one)).then(by_worth)
        });
        let files = (means.tokens as usize / TOKENS_PER_FILE).clamp(FILES_MIN, FILES_MAX).max(pinned.len());
        let beyond = hits.split_off(hits.len().min(files));
        let outlines = (means.tokens as usize / TOKENS_PER_OUTLINE).clamp(OUTLINES_MIN, FILES_MAX);
        let weigher = Weigher::new(prepared.terms());
        let look =
            |hit: &Hit| Look { prepared, means, weigher: &weigher, is_pinned: pinned.contains(&hit.file) };
        let looked: Vec<Looked> =
            in_parallel(hits.len(), FILES_AT_A_TIME, |at| look(&hits[at]).open(hits[at].clone()));
        let outlines = parsed(prepared, &looked, outlines, stop);
        let items = in_parallel(looked.len(), FILES_AT_A_TIME, |at| match &looked[at] {
            Looked::Open(open) => Ok(look(&open.hit).item(open, outlines[at].as_ref())),
            Looked::Listed(item) => Ok((**item).clone()),
            Looked::LeftOut(left_out) => Err(left_out.clone()),
        });
        let mut resolved = Resolved::default();
        for item in items {
            match item {
                Ok(item) => resolved.items.push(item),
                Err(left_out) => resolved.left_out.push(left_out),
            }
        }
        resolved.left_out.extend(beyond.iter().map(|hit| not_shown(prepared, hit, Reason::Budget)));
        resolved.items.sort_by_key(|item| item.file);
        weigh_named(prepared, &mut resolved.items);
        resolved
    }
}

fn not_shown(prepared: &Prepared, hit: &Hit, reason: Reason) -> LeftOut {
    LeftOut { place: prepared.place(hit.file), reason, score: hit.fused() }
}

/// A file that was looked at.
enum Looked {
    Open(Open),
    Listed(Box<Item>),
    LeftOut(LeftOut),
}

/// A file that can be shown.
struct Open {
    hit: Hit,
    read: Arc<ReadFile>,
    /// The text without its secrets, if it has any.
    redacted: Option<String>,
}

impl Open {
    fn text(&self) -> &str {
        self.redacted.as_deref().unwrap_or(&self.read.text)
    }

    fn is_redacted(&self) -> bool {
        self.redacted.is_some()
    }
}

/// Outlines of the first `count` of the files that hold no secret: what is kept of them elsewhere was made of the bytes as
/// they are.
fn parsed(prepared: &Prepared, looked: &[Looked], count: usize, stop: &Stop) -> Vec<Option<Arc<Outline>>> {
    let mut outlines = vec![None; looked.len()];
    if stop.should_stop() {
        return outlines;
    }
    for (number, known) in prepared.ground.known.iter().enumerate() {
        let of_project = looked.iter().enumerate().take(count).filter_map(|(at, looked)| match looked {
            Looked::Open(open) if !open.is_redacted() => {
                let is_here = prepared.ground.files[open.hit.file.0 as usize].0 as usize == number;
                is_here.then_some((at, open))
            }
            Looked::Open(_) | Looked::Listed(_) | Looked::LeftOut(_) => None,
        });
        let (places, texts): (Vec<usize>, Vec<(Hash, &str, &Facts)>) =
            of_project.map(|(at, open)| (at, (open.read.hash, open.text(), &*open.read.facts))).unzip();
        let made = known.project.source.outlines(&texts, stop);
        places.into_iter().zip(made).for_each(|(at, outline)| outlines[at] = Some(outline));
    }
    outlines
}

/// The outline by the scanner's definitions. Their names are of the bytes as they are, so one whose line lost a secret is
/// told only as far as the line still has it.
fn scanned(open: &Open) -> Outline {
    let mut outline = scanned_outline(open.text(), &open.read.facts);
    if open.is_redacted() {
        let before: Vec<&str> = open.read.text.lines().collect();
        let after: Vec<&str> = open.text().lines().collect();
        for item in &mut outline.items {
            let at = item.line as usize - 1;
            let is_touched = before.get(at) != after.get(at);
            let is_there = after.get(at).is_some_and(|line| line.contains(&item.name));
            if is_touched && !is_there {
                item.name = NAME_WITHHELD.to_owned();
            }
        }
    }
    outline
}

/// Looking at one file.
struct Look<'a> {
    prepared: &'a Prepared,
    means: &'a Means<'a>,
    weigher: &'a Weigher<'a>,
    is_pinned: bool,
}

impl Look<'_> {
    fn open(&self, hit: Hit) -> Looked {
        let known = self.prepared.ground.known(hit.file);
        let file = self.prepared.file(hit.file);
        let size = u64::from(file.facts.bytes);
        let why_not = match file.path_only {
            Some(PathOnly::Secret) => return Looked::Listed(Box::new(self.listed(hit, Reason::Secret))),
            Some(why) => Some(left_out(why)),
            None if !known.filter.admits_size(size) => Some(Reason::TooLarge),
            None => None,
        };
        let read = match why_not.map_or_else(|| self.prepared.reading(hit.file), Err) {
            Ok(read) => read,
            // What is named for sure is named at least, unless it is gone.
            Err(reason) if self.is_pinned && reason != Reason::Changed => {
                return Looked::Listed(Box::new(self.listed(hit, reason)));
            }
            Err(reason) => return Looked::LeftOut(not_shown(self.prepared, &hit, reason)),
        };
        let shown = self.means.redactor.redact_file_lines(&file.path, read.bytes());
        let redacted = match &shown {
            Cow::Borrowed(_) => None,
            Cow::Owned(redacted) => Some(String::from_utf8_lossy(redacted).into_owned()),
        };
        Looked::Open(Open { hit, read, redacted })
    }

    fn item(&self, open: &Open, outline: Option<&Arc<Outline>>) -> Item {
        let Open { hit, read, .. } = open;
        let (text, is_redacted) = (open.text(), open.is_redacted());
        let lines = lines_of(text);
        let outline = outline.cloned().unwrap_or_else(|| Arc::new(scanned(open)));
        let title = (kind(&read.facts) == FragmentKind::Doc).then(|| read.facts.defs.first()).flatten();
        let header = Header {
            alias: self.alias(hit.file),
            path: &self.prepared.file(hit.file).path,
            what: read.facts.language.name(),
            lines: Some(read.facts.lines),
            title: title.map(|def| &*def.name).filter(|_| !is_redacted),
        };
        // What is named for sure is told as it is, even if there is room for no more.
        let listed = if self.is_pinned { header_line(&header) } else { listed_line(&header) };
        Item {
            file: hit.file,
            place: self.prepared.place(hit.file),
            kind: kind(&read.facts),
            header: self.rung(header_line(&header)),
            listed: self.rung(listed),
            pieces: self.pieces(open, &lines, &outline),
            lines,
            hash: Some(read.hash),
            is_verbatim: !is_redacted && read.facts.is_utf8,
            is_redacted,
            is_pinned: self.is_pinned,
            only_listed: None,
            score: 0.0,
            why: Vec::new(),
            hit: hit.clone(),
        }
    }

    /// The parts of a file, with what each costs and how well it matches.
    fn pieces(&self, open: &Open, lines: &[String], outline: &Outline) -> Vec<Piece> {
        let spans = outline.spans(open.text());
        let ladder = Ladder::new(lines, outline, open.read.facts.language.kind(), self.means.counter);
        let mut pieces: Vec<Piece> = spans.iter().map(|span| ladder.piece(span)).collect();
        let stretch = |span: &Span| Stretch {
            from: span.from,
            to: span.to,
            name: span.def.and_then(|def| outline.items.get(def)).map(|item| item.name.as_str()),
        };
        let stretches: Vec<Stretch<'_>> = spans.iter().map(stretch).collect();
        let mut words = Words::default();
        let scores = if open.is_redacted() {
            self.weigher.scores(&self.weigher.met(open.text(), &mut words), &stretches)
        } else {
            self.weigher.scores(open.read.met(self.weigher, &mut words), &stretches)
        };
        pieces.iter_mut().zip(scores).for_each(|(piece, score)| piece.score = score);
        pieces
    }

    /// A file that is named and not looked into.
    fn listed(&self, hit: Hit, reason: Reason) -> Item {
        let file = self.prepared.file(hit.file);
        let what = format!("{reason}, not shown");
        let header =
            Header { alias: self.alias(hit.file), path: &file.path, what: &what, lines: None, title: None };
        Item {
            file: hit.file,
            place: self.prepared.place(hit.file),
            kind: kind(&file.facts),
            header: self.rung(header_line(&header)),
            listed: self.rung(header_line(&header)),
            pieces: Vec::new(),
            lines: Arc::from([]),
            hash: None,
            is_verbatim: false,
            is_redacted: false,
            is_pinned: self.is_pinned,
            only_listed: Some(reason),
            score: 0.0,
            why: Vec::new(),
            hit,
        }
    }

    /// The name of the file's project, where there are several.
    fn alias(&self, file: FileNo) -> Option<&str> {
        let is_one_of_several = self.prepared.ground.known.len() > 1;
        is_one_of_several.then(|| self.prepared.ground.known(file).project.alias.as_str())
    }

    fn rung(&self, text: String) -> Rung {
        let cost = self.means.counter.hundredths(&text);
        Rung { text, cost }
    }
}

/// Scores of parts as shares of the largest. Lines that are named or were proposed have all of it, those of named files
/// at least half.
fn weigh_named(prepared: &Prepared, items: &mut [Item]) {
    let largest = items.iter().flat_map(|item| &item.pieces).map(|piece| piece.score).fold(0.0, f32::max);
    for item in items {
        let anchors: Vec<_> = prepared.anchors().iter().filter(|anchor| anchor.file == item.file).collect();
        for piece in &mut item.pieces {
            let overlaps = |span: &(u32, u32)| span.0 <= piece.to && piece.from <= span.1;
            let mut share = if largest > 0.0 { piece.score / largest } else { 0.0 };
            for anchor in &anchors {
                share = match anchor.span {
                    None => share.max(NAMED_FILE_PART),
                    Some(span) if overlaps(&span) => {
                        piece.is_pinned |= anchor.is_pinned;
                        1.0
                    }
                    Some(_) => share,
                };
            }
            if item.hit.lines.iter().any(overlaps) {
                share = 1.0;
            }
            piece.score = share;
        }
    }
}
