//! The cases, by what they are about.
//!
//! Index: `calling`, `capture_bounds`, `choosing`, `command_walls`, `content_copies`, `context`,
//! `context_bounds`, `data_files`, `decided`, `definitions`, `disk`, `exact`, `external`, `file_parts`,
//! `first_day`, `for_each`, `foreign_git`, `gates`, `git_fails`, `graph`, `holes`, `home`, `hostile`,
//! `interrupted`, `invariants`, `late`, `limits`, `many`, `mcp`, `model_context`, `model_faults`,
//! `model_plans`, `model_world`, `models`, `moved_base`, `network`, `open_files`, `pages`, `peers`, `plans`,
//! `policy`, `raw_text`, `recheck`, `refusals`, `scripted`, `secrets`, `servers`, `settings`, `shown`,
//! `steps`, `stopped`, `stopping`, `store_space`, `streamed`, `support`, `survive`, `survive_changes`,
//! `survive_plans`, `survive_top`, `terminal`, `together`, `told`, `tools`, `top`, `trouble`, `trust`,
//! `using_with`, `walls`, `worker_keys`, `workers`, `writers`.

mod calling;
mod capture_bounds;
mod choosing;
mod command_walls;
mod content_copies;
mod context;
mod context_bounds;
mod data_files;
mod decided;
mod definitions;
mod disk;
mod exact;
mod external;
mod file_parts;
mod first_day;
mod for_each;
mod foreign_git;
mod gates;
mod git_fails;
mod graph;
mod holes;
mod home;
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
mod moved_base;
mod network;
mod open_files;
mod pages;
#[path = "../../../actors/tests/cases/peers.rs"]
mod peers;
mod plans;
mod policy;
mod raw_text;
mod recheck;
mod refusals;
#[path = "../../../actors/tests/cases/scripted.rs"]
#[allow(dead_code, clippy::expect_used, reason = "it serves the tests of two crates")]
mod scripted;
mod secrets;
mod servers;
mod settings;
mod shown;
mod steps;
mod stopped;
mod stopping;
mod store_space;
mod streamed;
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
mod trust;
mod using_with;
mod walls;
mod worker_keys;
mod workers;
mod writers;
