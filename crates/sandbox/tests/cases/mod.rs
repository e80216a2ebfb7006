//! The cases, a file per promise.
//!
//! Index: `command_ends`, `command_job`, `command_kill`, `command_spoken`, `command_stage`, `commit`,
//! `index_log`, `index_tree`, `isolation_git`, `isolation_overlay`, `isolation_walls`, `journal_apply`,
//! `journal_links`, `journal_places`, `journal_stage`, `ladder_base`, `ladder_capture`, `ladder_git`,
//! `ladder_kept`, `ladder_layer`, `ladder_leftovers`, `ladder_open`, `ladder_paths`, `ladder_scans`,
//! `ladder_stage`, `ordinary_user`, `output_flood`, `recovery_edits`, `recovery_kill`, `starter`, `undo`.

mod command_ends;
mod command_job;
mod command_kill;
mod command_spoken;
mod command_stage;
mod commit;
mod index_log;
mod index_tree;
mod isolation_git;
mod isolation_overlay;
mod isolation_walls;
mod journal_apply;
mod journal_links;
mod journal_places;
mod journal_stage;
mod ladder_base;
mod ladder_capture;
mod ladder_git;
mod ladder_kept;
mod ladder_layer;
mod ladder_leftovers;
mod ladder_open;
mod ladder_paths;
mod ladder_scans;
mod ladder_stage;
mod ordinary_user;
mod output_flood;
mod recovery_edits;
mod recovery_kill;
mod starter;
mod undo;
