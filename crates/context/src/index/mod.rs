//! The index of a project: a lexical scan of every file, and outlines of those about to be shown.
//!
//! # Overview
//! - `scan` makes [`Facts`] of a file's bytes in one pass, with `terms` (words) and `define` (definitions by line);
//!   [`spans()`] cuts a text along them, and [`Parts`] are the words of each piece.
//! - [`outline()`] parses what is about to be shown.
//! - [`Snapshot`] is what readers hold: the files of a project by path, each with its facts, and the newest commits.
//! - [`Index`] brings it up to date (`update`) and keeps it on disk (`writer`, `disk`, `image`, `evict`), with the commits
//!   (`history`); `changed` lays over it what a plan changed; [`Indexes`] holds those of all projects.
//!
//! # Invariants
//! 1. Facts depend on content and language only; a snapshot maps paths to them and never changes.
//! 2. What the index knows is disposable: it can be made again from the project at any time.
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
mod path_only;
pub(crate) mod scan;
mod snapshot;
pub(crate) mod spans;
mod stem;
pub mod terms;
mod update;
mod writer;

pub use cache::Indexes;
pub use config::IndexConfig;
pub use facts::{Counts, Def, DefKind, Facts};
pub(crate) use facts::{Encoded, EncodedCount, FACTS_VERSION};
pub use handle::{Index, IndexSize, Updated, Verified};
pub(crate) use image::{Field, Held};
pub use language::{FileKind, Language, module_name};
pub use lines::Lines;
pub use outline::{
    DOC_BYTES_MAX, Item, Outline, OutlineBy, SENTENCE_BYTES_MAX, SIGNATURE_BYTES_MAX, SIGNATURE_LINES_MAX,
    outline, scanned_outline,
};
pub use parts::{Part, Parts};
pub use path_only::{PathOnly, before_reading, is_secret};
pub use scan::{Scanner, scan};
pub use snapshot::{CommitFacts, FILE_BYTES_MAX_DEFAULT, File, Oid, Snapshot};
pub use spans::{SPAN_LINES_MAX, Span, SpanKind, WINDOW_LINES, spans};
