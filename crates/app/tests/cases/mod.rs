//! The cases, by what they are about.
//!
//! Index: `apply_options`, `batches`, `capture_bounds`, `choosing`, `coder`, `command_walls`,
//! `conflicting_plans`, `content_copies`, `context`, `context_bounds`, `data_files`, `decision_tree`,
//! `definitions`, `disk`, `exact`, `external`, `file_parts`, `first_day`, `for_each`, `foreign_git`,
//! `frozen_worker`, `gates`, `git_fails`, `graph`, `holes`, `home`, `hostile`, `interrupted_runs`,
//! `invariants`, `late_writes`, `limits`, `live_view`, `man_and_completions`, `many`, `mcp`,
//! `messages`, `model_context`, `model_faults`, `model_plans`, `model_world`, `models`, `moved_base`,
//! `names`, `network`, `open_files`, `operation_log`, `pager`, `partial_work`, `peers`, `plan_output`,
//! `plans`,
//! `policy`, `raw_text`, `read_only_nodes`, `recheck`, `refusals`, `renames`, `review_screen`,
//! `revise`, `scripted`, `secrets`, `servers`, `settings`, `shell`, `signals`, `standard_input`,
//! `steps`, `store_faults`, `store_space`, `streamed`, `support`, `survive`, `survive_changes`,
//! `survive_plans`, `survive_top`, `terminal`, `toolchain_variables`, `tools`, `top`, `trust`, `usage`,
//! `using_with`, `worker_keys`, `workers`, `writers`.

mod apply_options;
mod batches;
mod capture_bounds;
mod choosing;
mod coder;
mod command_walls;
mod conflicting_plans;
mod content_copies;
mod context;
mod context_bounds;
mod data_files;
mod decision_tree;
mod definitions;
mod disk;
mod exact;
mod external;
mod file_parts;
mod first_day;
mod for_each;
mod foreign_git;
mod frozen_worker;
mod gates;
mod git_fails;
mod graph;
mod holes;
mod home;
mod hostile;
mod interrupted_runs;
mod invariants;
mod late_writes;
mod limits;
mod live_view;
mod man_and_completions;
mod many;
mod mcp;
mod messages;
mod model_context;
mod model_faults;
mod model_plans;
mod model_world;
mod models;
mod moved_base;
mod names;
mod network;
mod open_files;
mod operation_log;
mod pager;
mod partial_work;
mod plan_output;
mod plans;
mod policy;
mod raw_text;
mod read_only_nodes;
mod recheck;
mod refusals;
mod renames;
mod review_screen;
mod revise;
mod secrets;
mod servers;
mod settings;
mod shell;
mod signals;
mod standard_input;
mod steps;
mod store_faults;
mod store_space;
mod streamed;
mod support;
mod survive;
mod survive_changes;
mod survive_plans;
mod survive_top;
mod terminal;
mod toolchain_variables;
mod tools;
mod top;
mod trust;
mod usage;
mod using_with;
mod worker_keys;
mod workers;
mod writers;
