//! Turns what the engine returns into text and JSON. Nothing here reads a store or a file.

pub mod activity;
pub mod decisions;
pub(crate) mod definitions;
pub mod diff;
pub mod failure;
pub mod forecast;
pub mod isolation;
pub mod next_steps;
pub mod output_tail;
pub mod plan;
pub mod progress;
pub mod state;
pub mod timeline;
pub mod usage;
