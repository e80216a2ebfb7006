//! Finds out what a command works with: directories, projects, definitions, instructions, the default actor.

pub mod default_actor;
pub mod definitions;
pub mod hidden_and_shown;
pub mod instructions;
pub mod paths;
pub mod project;
pub mod text_file;
pub mod toolchains;
