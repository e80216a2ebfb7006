//! The cases, by what they are about.

mod calling;
mod choosing;
mod context;
mod context_bounds;
mod decided;
mod definitions;
mod disk;
mod external;
mod for_each;
mod gates;
mod graph;
mod hostile;
mod interrupted;
mod invariants;
mod late;
mod limits;
mod many;
mod mcp;
mod model_context;
mod model_faults;
mod model_plans;
mod model_world;
mod models;
mod pages;
#[path = "../../../actors/tests/cases/peers.rs"]
mod peers;
mod plans;
mod policy;
mod refusals;
#[path = "../../../actors/tests/cases/scripted.rs"]
#[allow(dead_code, clippy::expect_used, reason = "it serves the tests of two crates")]
mod scripted;
mod servers;
mod settings;
mod shown;
mod steps;
mod stopped;
mod stopping;
mod support;
mod survive;
mod survive_changes;
mod survive_plans;
mod survive_top;
mod terminal;
mod together;
mod told;
mod tools;
mod top;
mod trouble;
mod using_with;
mod walls;
mod worker_keys;
mod workers;
