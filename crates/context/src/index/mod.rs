//! The index of a project: a lexical scan of every file, and outlines of those about to be shown.
//!
//! # Overview
//! - `scan` makes [`Facts`] of a file's bytes in one pass, with `terms` (words) and `definitions`
//!   (definitions by line); [`spans()`] cuts a text along them, and [`ContentParts`] are the words of each
//!   piece.
//! - [`outline()`] parses what is about to be shown.
//! - [`Snapshot`] is what readers hold: the files of a project by path, each with its facts, and the newest
//!   commits.
//! - [`Index`] brings it up to date (`update`) and stores it on disk (`writer`, `disk`, `image`, `evict`),
//!   with the commits (`history`). `changed` adds the changes of a plan to it; [`IndexCache`] holds the
//!   indexes of all projects.
//!
//! # Invariants
//! 1. Facts depend on content and language only; a snapshot maps paths to them and never changes.
//! 2. The index is disposable: it can be made again from the project at any time.
//!
//! # Not here
//! Ranking: the strategies. Files and git: the ports, [`crate::ports`].

mod cache;
pub(crate) mod codec;
mod config;
mod definitions;
mod disk;
mod evict;
mod facts;
mod handle;
mod history;
mod image;
mod language;
mod lines;
mod lock;
pub(crate) mod outline;
mod overlay_snapshot;
mod parts;
mod path_only_files;
pub(crate) mod scan;
mod snapshot;
pub(crate) mod spans;
mod stemmer;
pub mod terms;
mod update;
mod writer;

pub use cache::IndexCache;
pub use config::IndexConfig;
pub use facts::{Def, DefKind, Facts, HashCounts};
pub(crate) use facts::{Encoded, EncodedCount, FACTS_VERSION};
pub use handle::{Index, IndexComparison, IndexSize, IndexUpdate};
pub(crate) use image::{ImageTermHits, TermField};
pub use language::{FileKind, Language, module_name};
pub use lines::LineIndex;
pub use outline::{
    DOC_BYTES_MAX, Outline, OutlineBy, OutlineItem, SENTENCE_BYTES_MAX, SIGNATURE_BYTES_MAX,
    SIGNATURE_LINES_MAX, outline, scanned_outline,
};
pub use parts::{ContentPart, ContentParts};
pub use path_only_files::{PathOnly, before_reading, is_secret};
pub use scan::{Scanner, scan};
pub use snapshot::{CommitFacts, FILE_BYTES_MAX_DEFAULT, File, Oid, Snapshot};
pub use spans::{LineSpan, SPAN_LINES_MAX, SpanKind, WINDOW_LINES, spans};
