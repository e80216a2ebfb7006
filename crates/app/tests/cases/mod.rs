//! The cases, by what they are about.

mod calling;
mod definitions;
mod disk;
mod for_each;
mod graph;
mod hostile;
mod interrupted;
mod late;
mod limits;
mod many;
mod mcp;
mod model_faults;
mod model_world;
mod models;
mod pages;
mod plans;
mod refusals;
#[path = "../../../actors/tests/cases/scripted.rs"]
#[allow(dead_code, clippy::expect_used, reason = "it serves the tests of two crates")]
mod scripted;
mod settings;
mod steps;
mod stopped;
mod stopping;
mod support;
mod survive;
mod terminal;
mod together;
mod told;
mod tools;
mod top;
mod trouble;
mod using_with;
mod workers;
