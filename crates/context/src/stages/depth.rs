//! Stage 5: reads the files and computes the levels of detail of each, with their costs.
//!
//! # Invariants
//! 1. Every hit becomes an [`ContextItem`] or a [`ExcludedFile`].
//! 2. Secrets are taken out before anything is counted; files that hold nothing else are listed and never
//!    read. Neither are those behind the best: they can be listed, and no more.
//! 3. Files are looked at in parallel; the answer is in the order of the files.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use domain::context::{ExclusionReason, FragmentKind, PriorFragment};
use domain::{Hash, Redactor};

use super::detail_levels::kind;
use super::split_parts::{SplitPart, cut};
use super::{ContextItem, CostedText, ExcludedFile, Hit, ItemPart};
use crate::file_reader::{LoadedFile, is_withheld, left_out};
use crate::focus::Anchor;
use crate::index::{Facts, LineIndex, Outline, SpanKind, scanned_outline};
use crate::parallel_map::{in_parallel, in_parallel_with};
use crate::part_scorer::{NamedLines, PartScorer, WordTerms};
use crate::render::{FileHeader, header_line, listed_line};
use crate::request_inputs::{FileIndex, RequestInputs};
use crate::{StopCheck, TokenCounter};

/// One file for so many tokens may be listed: about as many as could be.
const TOKENS_PER_FILE: usize = 24;
const FILES_MIN: usize = 40;
/// The number of files that may be listed of many tokens, one for so many of more, and at most.
const FILES_OF_MANY: usize = 120;
const TOKENS_PER_FILE_OF_MORE: usize = 512;
const FILES_MAX: usize = 2000;
/// One file for so many tokens is opened: about as many as have something worth showing.
const TOKENS_PER_OPEN: usize = 80;
const OPEN_MIN: usize = 14;
/// One file for so many tokens is parsed, not just scanned.
const TOKENS_PER_OUTLINE: usize = 128;
const OUTLINES_MIN: usize = 8;
const FILES_AT_A_TIME: usize = 2;
/// The least score of a part of a named file, relative to the best part.
const NAMED_FILE_PART: f32 = 0.5;

/// The name shown for a definition whose name holds a secret.
const NAME_WITHHELD: &str = "(a secret)";

/// The settings for making text of files.
#[derive(Clone, Copy)]
pub struct TextSettings<'a> {
    /// The token counter.
    pub counter: &'a dyn TokenCounter,
    /// Takes secrets out.
    pub redactor: &'a Redactor,
    /// The tokens for files.
    pub tokens: u32,
    /// The fragments that were given before.
    pub shown: &'a [PriorFragment],
}

/// The items that can be shown.
#[derive(Clone, Debug, Default)]
pub struct ResolvedItems {
    /// The files, by number.
    pub items: Vec<ContextItem>,
    /// The files that cannot be shown.
    pub left_out: Vec<ExcludedFile>,
}

/// Decides what of each file can be shown.
pub trait DetailDepthResolver: Send + Sync {
    /// Reads the best of `hits`.
    fn resolve(
        &self,
        prepared: &RequestInputs,
        hits: Vec<Hit>,
        means: &TextSettings<'_>,
        stop: &StopCheck,
    ) -> ResolvedItems;
}

/// Listing, outline, signatures, full.
#[derive(Clone, Copy, Debug, Default)]
pub struct LadderDepthResolver;

impl DetailDepthResolver for LadderDepthResolver {
    fn resolve(
        &self,
        prepared: &RequestInputs,
        hits: Vec<Hit>,
        means: &TextSettings<'_>,
        stop: &StopCheck,
    ) -> ResolvedItems {
        let pinned: BTreeSet<FileIndex> =
            prepared.anchors().iter().filter(|anchor| anchor.is_pinned).map(|anchor| anchor.file).collect();
        let mut hits = hits;
        hits.sort_by(|one, other| {
            let is_pinned = |hit: &Hit| pinned.contains(&hit.file);
            let by_worth = other.fused().total_cmp(&one.fused()).then(one.file.cmp(&other.file));
            is_pinned(other).cmp(&is_pinned(one)).then(by_worth)
        });
        let files_max = files_max(means.tokens);
        let files = (means.tokens as usize / TOKENS_PER_FILE).clamp(FILES_MIN, files_max).max(pinned.len());
        let beyond = hits.split_off(hits.len().min(files));
        let outlines = (means.tokens as usize / TOKENS_PER_OUTLINE).clamp(OUTLINES_MIN, files_max);
        let weigher = PartScorer::new(prepared.terms());
        let look = |hit: &Hit| FileInspector {
            prepared,
            means,
            weigher: &weigher,
            is_pinned: pinned.contains(&hit.file),
        };
        let opened = select_opened(prepared, &hits, means);
        let looked: Vec<FileReading> = in_parallel(hits.len(), FILES_AT_A_TIME, |at| {
            let (look, hit) = (look(&hits[at]), hits[at].clone());
            if opened[at] { look.open(hit) } else { look.named(hit) }
        });
        let outlines = parse_outlines(prepared, &looked, outlines, stop);
        let items = in_parallel_with(looked.len(), FILES_AT_A_TIME, WordTerms::default, |words, at| {
            match &looked[at] {
                FileReading::Open(open) => Ok(look(&open.hit).item(open, outlines[at].as_ref(), words)),
                FileReading::Listed(item) => Ok((**item).clone()),
                FileReading::LeftOut(left_out) => Err(left_out.clone()),
            }
        });
        let mut resolved = ResolvedItems::default();
        for item in items {
            match item {
                Ok(item) => resolved.items.push(item),
                Err(left_out) => resolved.left_out.push(left_out),
            }
        }
        resolved.left_out.extend(beyond.iter().map(|hit| not_shown(prepared, hit, ExclusionReason::Budget)));
        resolved.items.sort_by_key(|item| item.file);
        weigh_named(prepared, &mut resolved.items);
        resolved
    }
}

/// Returns the number of files that may be shown for so many tokens.
fn files_max(tokens: u32) -> usize {
    (tokens as usize / TOKENS_PER_FILE_OF_MORE).clamp(FILES_OF_MANY, FILES_MAX)
}

/// Returns for each hit whether it is opened. Hits that the request is about or whose lines were proposed
/// are, and the best of the others that were not given before.
fn select_opened(prepared: &RequestInputs, hits: &[Hit], means: &TextSettings<'_>) -> Vec<bool> {
    let mut left = (means.tokens as usize / TOKENS_PER_OPEN).clamp(OPEN_MIN, files_max(means.tokens));
    let is_meant =
        |hit: &Hit| !hit.lines.is_empty() || prepared.anchors().iter().any(|anchor| anchor.file == hit.file);
    let was_shown = |hit: &Hit| {
        let place = prepared.place(hit.file);
        let is_it =
            |shown: &PriorFragment| (shown.place.project, &shown.place.path) == (place.project, &place.path);
        means.shown.iter().any(is_it)
    };
    let is_opened = |hit: &Hit| {
        let is_one_more = left > 0 && !was_shown(hit);
        left -= usize::from(is_one_more);
        is_one_more || left > 0 || is_meant(hit)
    };
    hits.iter().map(is_opened).collect()
}

fn not_shown(prepared: &RequestInputs, hit: &Hit, reason: ExclusionReason) -> ExcludedFile {
    ExcludedFile { place: prepared.place(hit.file), reason, score: hit.fused() }
}

/// A file that was looked at.
enum FileReading {
    Open(ReadableFile),
    Listed(Box<ContextItem>),
    LeftOut(ExcludedFile),
}

/// A file that can be shown.
struct ReadableFile {
    hit: Hit,
    read: Arc<LoadedFile>,
    /// The text without its secrets, if it has any.
    redacted: Option<Arc<LineIndex>>,
}

impl ReadableFile {
    fn lines(&self) -> &Arc<LineIndex> {
        self.redacted.as_ref().unwrap_or(&self.read.lines)
    }

    fn is_redacted(&self) -> bool {
        self.redacted.is_some()
    }
}

/// Returns outlines of the first `count` of the files that hold no secret: outlines stored elsewhere were
/// made of the bytes as they are.
fn parse_outlines(
    prepared: &RequestInputs,
    looked: &[FileReading],
    count: usize,
    stop: &StopCheck,
) -> Vec<Option<Arc<Outline>>> {
    let mut outlines = vec![None; looked.len()];
    if stop.should_stop() {
        return outlines;
    }
    for (number, known) in prepared.ground.known.iter().enumerate() {
        let of_project = looked.iter().enumerate().take(count).filter_map(|(at, looked)| match looked {
            FileReading::Open(open) if !open.is_redacted() => {
                let is_here = prepared.ground.files[open.hit.file.0 as usize].0 as usize == number;
                is_here.then_some((at, open))
            }
            FileReading::Open(_) | FileReading::Listed(_) | FileReading::LeftOut(_) => None,
        });
        let (places, texts): (Vec<usize>, Vec<(Hash, &str, &Facts)>) = of_project
            .map(|(at, open)| (at, (open.read.hash, open.lines().text(), &*open.read.facts)))
            .unzip();
        let made = known.project.source.outlines(&texts, stop);
        places.into_iter().zip(made).for_each(|(at, outline)| outlines[at] = Some(outline));
    }
    outlines
}

/// Returns the outline by the scanner's definitions. Their names are of the bytes as they are. So a name
/// whose line lost a secret is shown only as far as the line still has it.
fn scan_outline(open: &ReadableFile) -> Outline {
    let mut outline = scanned_outline(open.lines(), &open.read.facts);
    if open.is_redacted() {
        let (before, after) = (&open.read.lines, open.lines());
        for item in &mut outline.items {
            let line = item.line as usize;
            let is_touched = before.get(line) != after.get(line);
            let is_there = after.get(line).is_some_and(|line| line.contains(&item.name));
            if is_touched && !is_there {
                item.name = NAME_WITHHELD.to_owned();
            }
        }
    }
    outline
}

/// Looking at one file.
struct FileInspector<'a> {
    prepared: &'a RequestInputs,
    means: &'a TextSettings<'a>,
    weigher: &'a PartScorer<'a>,
    is_pinned: bool,
}

impl FileInspector<'_> {
    /// Returns the reason why a file is not opened, if so.
    fn why_not(&self, file: FileIndex) -> Option<ExclusionReason> {
        let (known, file) = (self.prepared.ground.known(file), self.prepared.file(file));
        match file.path_only {
            Some(why) if is_withheld(why, self.is_pinned) => Some(left_out(why)),
            Some(_) | None if !known.filter.admits_size(u64::from(file.facts.bytes)) => {
                Some(ExclusionReason::TooLarge)
            }
            Some(_) | None => None,
        }
    }

    /// A file that can be listed, and is not looked into.
    fn named(&self, hit: Hit) -> FileReading {
        match self.why_not(hit.file) {
            Some(ExclusionReason::Secret) => {
                FileReading::Listed(Box::new(self.listed(hit, ExclusionReason::Secret)))
            }
            Some(reason) => FileReading::LeftOut(not_shown(self.prepared, &hit, reason)),
            None => {
                let file = self.prepared.file(hit.file);
                let (alias, what) = (self.alias(hit.file), file.facts.language.name());
                let header = FileHeader { alias, path: &file.path, what, lines: None, title: None };
                FileReading::Listed(Box::new(ContextItem {
                    hash: file.hash,
                    ..self.bare(hit, listed_line(&header), None)
                }))
            }
        }
    }

    fn open(&self, hit: Hit) -> FileReading {
        let file = self.prepared.file(hit.file);
        let read = match self.why_not(hit.file).map_or_else(|| self.prepared.reading(hit.file), Err) {
            Ok(read) => read,
            // A file that the request names is at least listed, unless it is gone; that there is a secret is
            // reported.
            Err(reason)
                if reason == ExclusionReason::Secret
                    || self.is_pinned && reason != ExclusionReason::Changed =>
            {
                return FileReading::Listed(Box::new(self.listed(hit, reason)));
            }
            Err(reason) => return FileReading::LeftOut(not_shown(self.prepared, &hit, reason)),
        };
        let shown = self.means.redactor.redact_file_lines(&file.path, read.bytes());
        let redacted = match &shown {
            Cow::Borrowed(_) => None,
            Cow::Owned(redacted) => {
                Some(Arc::new(LineIndex::new(String::from_utf8_lossy(redacted).into_owned())))
            }
        };
        FileReading::Open(ReadableFile { hit, read, redacted })
    }

    fn item(
        &self,
        open: &ReadableFile,
        outline: Option<&Arc<Outline>>,
        words: &mut WordTerms,
    ) -> ContextItem {
        let ReadableFile { hit, read, .. } = open;
        let is_redacted = open.is_redacted();
        let outline = outline.cloned().unwrap_or_else(|| Arc::new(scan_outline(open)));
        let title = (kind(&read.facts) == FragmentKind::Doc).then(|| read.facts.defs().first()).flatten();
        let header = FileHeader {
            alias: self.alias(hit.file),
            path: &self.prepared.file(hit.file).path,
            what: read.facts.language.name(),
            lines: Some(read.facts.lines),
            title: title.map(|def| &*def.name).filter(|_| !is_redacted),
        };
        // A file that the request names gets its full header, even if there is room for no more.
        let listed = if self.is_pinned { header_line(&header) } else { listed_line(&header) };
        ContextItem {
            file: hit.file,
            place: self.prepared.place(hit.file),
            kind: kind(&read.facts),
            header: self.costed_text(header_line(&header)),
            listed: self.costed_text(listed),
            pieces: self.pieces(open, &outline, words),
            outline,
            lines: Arc::clone(open.lines()),
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

    /// The parts of a file, and how well each matches.
    fn pieces(&self, open: &ReadableFile, outline: &Outline, words: &mut WordTerms) -> Vec<ItemPart> {
        let is_named = |anchor: &&Anchor| anchor.is_pinned && anchor.file == open.hit.file;
        let named = self.prepared.anchors().iter().filter(is_named).filter_map(|anchor| anchor.span);
        let named: Vec<(u32, u32)> = named.collect();
        let cuts = cut(&outline.spans(open.lines()), open.lines(), &named, self.means.tokens);
        let stretch = |SplitPart { part, .. }: &SplitPart| NamedLines {
            from: part.from,
            to: part.to,
            name: part.def.and_then(|def| outline.items.get(def)).map(|item| item.name.as_str()),
        };
        let stretches: Vec<NamedLines<'_>> = cuts.iter().map(stretch).collect();
        let scores = if open.is_redacted() {
            self.weigher.scores(&self.weigher.find_terms(open.lines().text(), words), &stretches, words)
        } else {
            self.weigher.scores(open.read.find_terms(self.weigher, words), &stretches, words)
        };
        let piece = |(SplitPart { part, of }, score): (&SplitPart, f32)| ItemPart {
            from: part.from,
            to: part.to,
            is_head: part.kind == SpanKind::Head,
            is_pinned: false,
            score,
            of: *of,
            defines: part.begins(),
            costs: Default::default(),
        };
        cuts.iter().zip(scores).map(piece).collect()
    }

    /// A file that is named, with the reason why it is not looked into.
    fn listed(&self, hit: Hit, reason: ExclusionReason) -> ContextItem {
        let file = self.prepared.file(hit.file);
        let what = format!("{reason}, not shown");
        let header = FileHeader {
            alias: self.alias(hit.file),
            path: &file.path,
            what: &what,
            lines: None,
            title: None,
        };
        self.bare(hit, header_line(&header), Some(reason))
    }

    /// A file of which this line can be shown.
    fn bare(&self, hit: Hit, line: String, only_listed: Option<ExclusionReason>) -> ContextItem {
        let line = self.costed_text(line);
        ContextItem {
            file: hit.file,
            place: self.prepared.place(hit.file),
            kind: kind(&self.prepared.file(hit.file).facts),
            header: line.clone(),
            listed: line,
            pieces: Vec::new(),
            outline: Arc::default(),
            lines: Arc::default(),
            hash: None,
            is_verbatim: false,
            is_redacted: false,
            is_pinned: self.is_pinned,
            only_listed,
            score: 0.0,
            why: Vec::new(),
            hit,
        }
    }

    /// The name of the file's project, where there are several.
    fn alias(&self, file: FileIndex) -> Option<&str> {
        let is_one_of_several = self.prepared.ground.known.len() > 1;
        is_one_of_several.then(|| self.prepared.ground.known(file).project.alias.as_str())
    }

    fn costed_text(&self, text: String) -> CostedText {
        let cost = self.means.counter.hundredths(&text);
        CostedText { text, cost }
    }
}

/// Scores of parts as shares of the largest. Lines that are named or were proposed have all of it, those of
/// named files at least half.
fn weigh_named(prepared: &RequestInputs, items: &mut [ContextItem]) {
    let largest = items.iter().flat_map(|item| &item.pieces).map(|piece| piece.score).fold(0.0, f32::max);
    for item in items {
        let anchors: Vec<_> = prepared.anchors().iter().filter(|anchor| anchor.file == item.file).collect();
        for piece in &mut item.pieces {
            let meet = |one: (u32, u32), other: (u32, u32)| one.0 <= other.1 && other.0 <= one.1;
            let (own, of) = ((piece.from, piece.to), piece.of);
            let mut share = if largest > 0.0 { piece.score / largest } else { 0.0 };
            for anchor in &anchors {
                share = match anchor.span {
                    None => share.max(NAMED_FILE_PART),
                    // The lines around named lines explain them.
                    Some(span) if meet(span, of) => {
                        piece.is_pinned |= anchor.is_pinned && meet(span, own);
                        1.0
                    }
                    Some(_) => share,
                };
            }
            if item.hit.lines.iter().any(|lines| meet(*lines, of)) {
                share = 1.0;
            }
            piece.score = share;
        }
    }
}
