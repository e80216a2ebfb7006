//! The cases, a file per promise.

mod command_ends;
mod command_job;
mod command_kill;
mod command_spoken;
mod command_stage;
mod commit;
mod isolation_git;
mod isolation_overlay;
mod isolation_walls;
mod journal_apply;
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
mod output_flood;
mod recovery_edits;
mod recovery_kill;
mod undo;
