//! The index of all files as one file on disk; a request reads only the sections that it needs.
//!
//! The tables hold all that is known; the image is a copy of them as they were, laid out for a reader. It has
//! the facts of each content by themselves, for each word the contents that hold it, and a row for each file.
//! A process reads the rows, the facts of a file at their first use, and of the words those of a query.
//!
//! # Invariants
//! 1. An image is written under another name, then renamed, and never changed: a process that has one open
//!    has all of it.
//! 2. An old image is right where it is believed: newer rows of the tables take precedence over its own. Like
//!    those, each row is valid only as long as its file is as it was.
//! 3. Each piece has a checksum of its own before it. Damaged pieces are taken from the tables, or found from
//!    undamaged ones; and the image is removed, so that the next process draws another.
//! 4. An image with rows from the future is neither drawn nor read: the newer rows of the tables could not be
//!    distinguished.
//! 5. Every process can read an image that another one drew. The reader decides which files are too large, as
//!    it does for the rows of the tables.
//!
//! # Not here
//! The moment at which it is written: `writer`.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File as OsFile, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::{Hash, RelPath};

use super::codec::{Decoder, Encoder};
use super::disk::{self, IndexRow};
use super::facts::{FACTS_VERSION, Facts, FactsHead};
use super::{File, Language, PathOnly};

/// The version of the layout: an image of another is not used.
const IMAGE_VERSION: u32 = 2;

/// The number of bits of a word's hash by which words are grouped.
const SHELF_BITS: u32 = 10;
const SHELVES: usize = 1 << SHELF_BITS;

/// The position of a section in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ImageSection {
    at: u64,
    len: u64,
}

/// The number of bytes at the end, which give the place of the rows.
const END_BYTES: usize = 16;

/// An image that is open.
pub(crate) struct IndexImage {
    path: PathBuf,
    file: OsFile,
    /// The length of the file.
    bytes: u64,
    /// The contents, by their numbers.
    facts: Vec<(Hash, ImageSection)>,
    shelves: Vec<ImageSection>,
    is_damaged: AtomicBool,
}

/// The contents that hold a word: their numbers and how often, in the text and in the names of definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Holders {
    in_text: Vec<(u32, u16)>,
    in_names: Vec<(u32, u16)>,
}

/// An image and its rows.
pub(crate) struct ReadImage {
    pub(crate) rows: Vec<IndexRow>,
    /// The time when the youngest look at a file began.
    pub(crate) newest_ns: i64,
}

/// Returns the path of the image of the index at `path`.
fn image_path(path: &Path) -> PathBuf {
    path.with_extension(EXTENSION)
}

/// The extension of an image, and of one that is being written.
pub(super) const EXTENSION: &str = "image";
pub(super) const UNFINISHED: &str = "image-new";

/// Returns the length of the image of the index at `path`; 0 if there is none.
pub(super) fn bytes(path: &Path) -> u64 {
    fs::metadata(image_path(path)).map_or(0, |found| found.len())
}

/// Opens the image of the index at `path`; none if there is none that can be used.
pub(crate) fn read(path: &Path) -> Option<ReadImage> {
    let path = image_path(path);
    // A pipe in its place would be waited for.
    fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let file = OsFile::open(&path).ok()?;
    let bytes = file.metadata().ok()?.len();
    let mut end = [0; END_BYTES];
    file.read_exact_at(&mut end, bytes.checked_sub(END_BYTES as u64)?).ok()?;
    let (at, len) = (u64::from_le_bytes(*end.first_chunk()?), u64::from_le_bytes(*end.last_chunk()?));
    let rows = read_piece(&file, bytes, ImageSection { at, len })?;
    let mut from = Decoder::checked(&rows)?;
    if (from.number()?, from.number()?) != (IMAGE_VERSION, FACTS_VERSION) {
        return None;
    }
    let contents_len = from.number()?;
    let contents: Vec<(Hash, Language, FactsHead, ImageSection)> = from.many(contents_len, content)?;
    let shelves: Vec<ImageSection> = from.many(SHELVES as u32, piece)?;
    let image = Arc::new(IndexImage {
        path,
        file,
        bytes,
        facts: contents.iter().map(|(hash, .., piece)| (*hash, *piece)).collect(),
        shelves,
        is_damaged: AtomicBool::new(false),
    });
    let of_content =
        |(number, (hash, language, head, _)): (usize, (Hash, Language, FactsHead, ImageSection))| {
            (hash, Arc::new(Facts::of_image(language, head, &image, number as u32)))
        };
    let contents: Vec<(Hash, Arc<Facts>)> = contents.into_iter().enumerate().map(of_content).collect();
    let rows_len = from.number()?;
    let rows: Vec<IndexRow> = from.many(rows_len, |from| row(from, &contents))?;
    let newest_ns = rows.iter().map(|row| row.seen_ns).max().unwrap_or(i64::MIN);
    Some(ReadImage { rows, newest_ns })
}

fn content(from: &mut Decoder<'_>) -> Option<(Hash, Language, FactsHead, ImageSection)> {
    let hash = Hash::from_bytes(*from.take(32)?.first_chunk()?);
    let language = Language::from_code(from.byte()?)?;
    let path_only = match from.byte()? {
        0 => None,
        code => Some(PathOnly::from_code(code)?),
    };
    let is_utf8 = from.byte()? == 1;
    let (bytes, lines) = (from.number()?, from.number()?);
    let (terms_len, def_terms_len) = (from.number()?, from.number()?);
    let head = FactsHead { bytes, lines, is_utf8, path_only, terms_len, def_terms_len };
    Some((hash, language, head, piece(from)?))
}

fn piece(from: &mut Decoder<'_>) -> Option<ImageSection> {
    Some(ImageSection { at: from.long()?, len: from.long()? })
}

fn row(from: &mut Decoder<'_>, contents: &[(Hash, Arc<Facts>)]) -> Option<IndexRow> {
    let len = from.number()? as usize;
    let path = RelPath::new(from.take(len)?).ok()?;
    let size = from.long()?;
    let (mtime_ns, ctime_ns) = (from.long()? as i64, from.long()? as i64);
    let (inode, seen_ns) = (from.long()?, from.long()? as i64);
    let file = match (from.number()? as usize).checked_sub(1) {
        None => File::unread(path, size, PathOnly::from_code(from.byte()?)?),
        Some(content) => {
            let (hash, facts) = contents.get(content)?;
            File::scanned(path, *hash, Arc::clone(facts))
        }
    };
    Some(IndexRow { size, mtime_ns, ctime_ns, inode, seen_ns, file })
}

/// A piece of a file that has so many bytes.
fn read_piece(file: &OsFile, all: u64, piece: ImageSection) -> Option<Vec<u8>> {
    if piece.len > all {
        return None;
    }
    let mut bytes = vec![0; piece.len as usize];
    file.read_exact_at(&mut bytes, piece.at).ok()?;
    Some(bytes)
}

impl IndexImage {
    /// The facts of a content, as they were stored; none if they are damaged here and in the tables.
    pub(super) fn facts(&self, content: u32, language: Language) -> Option<Vec<u8>> {
        let (hash, piece) = self.facts.get(content as usize)?;
        let whole = self.read(*piece).filter(|bytes| Decoder::checked(bytes).is_some());
        let in_tables = || disk::facts_alone(&self.path.with_extension("sqlite"), hash, language);
        self.discard_if_missing(whole).or_else(in_tables)
    }

    /// Returns the contents that hold each of some words; `None` if the image is damaged there.
    fn holders(&self, hashes: &[u32]) -> Option<Vec<Holders>> {
        let mut holders = vec![Holders::default(); hashes.len()];
        let shelves: HashSet<usize> = hashes.iter().map(|hash| shelf(*hash)).collect();
        for number in shelves {
            let found = self.take_from(number, hashes, &mut holders);
            self.discard_if_missing(found)?;
        }
        Some(holders)
    }

    fn take_from(&self, number: usize, hashes: &[u32], holders: &mut [Holders]) -> Option<()> {
        let shelf = self.read(*self.shelves.get(number)?)?;
        let mut from = Decoder::checked(&shelf)?;
        while !from.is_empty() {
            let hash = from.number()?;
            let (in_text, in_names) = (from.counts()?, from.counts()?);
            for (holders, _) in holders.iter_mut().zip(hashes).filter(|(_, asked)| **asked == hash) {
                let (in_text, in_names) = (in_text.iter().collect(), in_names.iter().collect());
                *holders = Holders { in_text, in_names };
            }
        }
        Some(())
    }

    fn read(&self, piece: ImageSection) -> Option<Vec<u8>> {
        read_piece(&self.file, self.bytes, piece)
    }

    /// Takes the image away if something was not found in it that must be there.
    fn discard_if_missing<T>(&self, found: Option<T>) -> Option<T> {
        if found.is_none() && !self.is_damaged.swap(true, Ordering::Relaxed) && is_at(&self.file, &self.path)
        {
            // If that fails, the next process that reads it notices too.
            let _ = fs::remove_file(&self.path);
        }
        found
    }
}

fn shelf(hash: u32) -> usize {
    (hash >> (u32::BITS - SHELF_BITS)) as usize
}

/// Writes the image of these rows next to the index at `path`, unless another process is writing it. Rows
/// whose facts are lost are left out.
pub(crate) fn write<'r>(path: &Path, rows: impl Iterator<Item = &'r IndexRow>) -> io::Result<()> {
    let unfinished = path.with_extension(UNFINISHED);
    let Some(file) = begin(&unfinished)? else { return Ok(()) };
    let written = ImageWriter { out: BufWriter::new(file), at: 0 }
        .all(rows)
        .and_then(|_locked| fs::rename(&unfinished, image_path(path)));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Opens the file to write to and empties it of what a killed process left; `None` if another process is
/// writing.
fn begin(unfinished: &Path) -> io::Result<Option<OsFile>> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(unfinished)?;
    if file.try_lock().is_err() {
        return Ok(None);
    }
    // The process that had the lock may have finished: then this is the image itself.
    if !is_at(&file, unfinished) {
        return Ok(None);
    }
    file.set_len(0)?;
    Ok(Some(file))
}

/// Returns true if an open file is still at a path.
pub(super) fn is_at(file: &OsFile, path: &Path) -> bool {
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    let (own, named) = (file.metadata().map(place), fs::metadata(path).map(place));
    own.ok().zip(named.ok()).is_some_and(|(own, named)| own == named)
}

/// An image that is being written.
struct ImageWriter {
    out: BufWriter<OsFile>,
    at: u64,
}

impl ImageWriter {
    /// Writes all of it; the file is still locked.
    fn all<'r>(mut self, rows: impl Iterator<Item = &'r IndexRow>) -> io::Result<OsFile> {
        let mut numbers: HashMap<(Hash, Language), u32> = HashMap::new();
        let mut contents: Vec<(Hash, &Facts)> = Vec::new();
        let mut listed: Vec<(&IndexRow, u32)> = Vec::new();
        // By path, so that what is known alone decides the bytes.
        let mut rows: Vec<&IndexRow> = rows.collect();
        rows.sort_unstable_by_key(|row| &row.file.path);
        for row in rows {
            let facts = &*row.file.facts;
            let number = match row.file.hash {
                None => 0,
                Some(_) if facts.is_lost() => continue,
                Some(hash) => *numbers.entry((hash, facts.language)).or_insert_with(|| {
                    contents.push((hash, facts));
                    contents.len() as u32
                }),
            };
            listed.push((row, number));
        }
        let mut out = Encoder::default();
        out.number(IMAGE_VERSION);
        out.number(FACTS_VERSION);
        out.number(contents.len() as u32);
        for (hash, facts) in &contents {
            let piece = self.piece(facts.encoded())?;
            put_content(&mut out, hash, facts, piece);
        }
        for shelf in self.shelves(&contents)? {
            put_piece(&mut out, shelf);
        }
        out.number(listed.len() as u32);
        for (row, content) in listed {
            put_row(&mut out, row, content);
        }
        let rows = self.piece(&out.summed())?;
        self.out.write_all(&rows.at.to_le_bytes())?;
        self.out.write_all(&rows.len.to_le_bytes())?;
        Ok(self.out.into_inner()?)
    }

    fn piece(&mut self, bytes: &[u8]) -> io::Result<ImageSection> {
        self.out.write_all(bytes)?;
        let piece = ImageSection { at: self.at, len: bytes.len() as u64 };
        self.at += piece.len;
        Ok(piece)
    }

    /// Writes which contents hold which words, shelf by shelf: the lists of all contents are sorted, so each
    /// is gone through once.
    fn shelves(&mut self, contents: &[(Hash, &Facts)]) -> io::Result<Vec<ImageSection>> {
        let mut lists: Vec<[_; 2]> = contents
            .iter()
            .map(|(_, facts)| [facts.terms(), facts.def_terms()].map(|list| list.iter().peekable()))
            .collect();
        let mut shelves = Vec::with_capacity(SHELVES);
        let mut held: Vec<(u32, usize, u32, u16)> = Vec::new();
        for number in 0..SHELVES {
            held.clear();
            for (content, of_content) in lists.iter_mut().enumerate() {
                for (field, list) in of_content.iter_mut().enumerate() {
                    while let Some((hash, count)) = list.next_if(|(hash, _)| shelf(*hash) == number) {
                        held.push((hash, field, content as u32, count));
                    }
                }
            }
            held.sort_unstable();
            let mut out = Encoder::default();
            for of_word in held.chunk_by(|one, other| one.0 == other.0) {
                out.number(of_word[0].0);
                let names_from = of_word.partition_point(|(_, field, ..)| *field == 0);
                for of_field in [&of_word[..names_from], &of_word[names_from..]] {
                    let list: Vec<(u32, u16)> =
                        of_field.iter().map(|(.., content, count)| (*content, *count)).collect();
                    out.counts(&list);
                }
            }
            shelves.push(self.piece(&out.summed())?);
        }
        Ok(shelves)
    }
}

fn put_content(out: &mut Encoder, hash: &Hash, facts: &Facts, piece: ImageSection) {
    out.raw(hash.as_bytes());
    out.byte(facts.language.code());
    out.byte(facts.path_only.map_or(0, PathOnly::code));
    out.byte(u8::from(facts.is_utf8));
    [facts.bytes, facts.lines, facts.terms_len, facts.def_terms_len()]
        .into_iter()
        .for_each(|number| out.number(number));
    put_piece(out, piece);
}

fn put_piece(out: &mut Encoder, piece: ImageSection) {
    out.long(piece.at);
    out.long(piece.len);
}

fn put_row(out: &mut Encoder, row: &IndexRow, content: u32) {
    let path = row.file.path.as_bytes();
    out.number(path.len() as u32);
    out.raw(path);
    [row.size, row.mtime_ns as u64, row.ctime_ns as u64, row.inode, row.seen_ns as u64]
        .into_iter()
        .for_each(|number| out.long(number));
    out.number(content);
    if content == 0 {
        out.byte(row.file.path_only.map_or(0, PathOnly::code));
    }
}

/// The words of a query that the contents of images hold.
pub(crate) struct ImageTermHits(Vec<(Arc<IndexImage>, TermHitsByContent)>);

/// By content: which of the words, in which field, how often; by word.
type TermHitsByContent = Vec<Vec<(u32, TermField, u16)>>;

/// The field of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TermField {
    /// Anywhere in the text.
    Text,
    /// In the name of a definition.
    Name,
}

impl ImageTermHits {
    /// Looks the words up in the images of these facts.
    pub(crate) fn find<'f>(facts: impl Iterator<Item = &'f Facts>, hashes: &[u32]) -> ImageTermHits {
        let mut images: Vec<&Arc<IndexImage>> = Vec::new();
        for (image, _) in facts.filter_map(Facts::image) {
            if !images.iter().any(|known| Arc::ptr_eq(known, image)) {
                images.push(image);
            }
        }
        let held = images.into_iter().filter_map(|image| Some((Arc::clone(image), held_by(image, hashes)?)));
        ImageTermHits(held.collect())
    }

    /// Returns the words that a content holds; `None` if no image has it: then its facts must be searched.
    pub(crate) fn in_content(&self, facts: &Facts) -> Option<&[(u32, TermField, u16)]> {
        let (image, number) = facts.image()?;
        let (_, held) = self.0.iter().find(|(known, _)| Arc::ptr_eq(known, image))?;
        held.get(number as usize).map(Vec::as_slice)
    }
}

/// None if the image is damaged.
fn held_by(image: &IndexImage, hashes: &[u32]) -> Option<TermHitsByContent> {
    let mut held = vec![Vec::new(); image.facts.len()];
    for (word, holders) in image.holders(hashes)?.iter().enumerate() {
        for (field, list) in [(TermField::Text, &holders.in_text), (TermField::Name, &holders.in_names)] {
            for (content, count) in list {
                held.get_mut(*content as usize)?.push((word as u32, field, *count));
            }
        }
    }
    Some(held)
}

impl fmt::Debug for IndexImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_another_version_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path().join("i.sqlite");
        let file = File::unread(RelPath::new("a").unwrap(), 1, PathOnly::Unreadable);
        let row = IndexRow { size: 1, mtime_ns: 0, ctime_ns: 0, inode: 1, seen_ns: 1, file };
        write(&index, std::iter::once(&row)).unwrap();
        assert_eq!(read(&index).unwrap().rows.len(), 1);
        let as_of = |image_version: u32, facts_version: u32| {
            let mut rows = Encoder::default();
            rows.number(image_version);
            rows.number(facts_version);
            rows.number(0);
            (0..SHELVES).for_each(|_| put_piece(&mut rows, ImageSection { at: 0, len: 0 }));
            rows.number(0);
            let rows = rows.summed();
            let end = [0, rows.len() as u64].map(u64::to_le_bytes).concat();
            fs::write(image_path(&index), [rows, end].concat()).unwrap();
            read(&index).is_some()
        };
        assert!(as_of(IMAGE_VERSION, FACTS_VERSION));
        assert!(!as_of(IMAGE_VERSION + 1, FACTS_VERSION));
        assert!(!as_of(IMAGE_VERSION, FACTS_VERSION + 1));
    }
}
