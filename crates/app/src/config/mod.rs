//! Settings: what can be set, where it was set, and who may set it.
//!
//! # Where to look
//! `setting_table` is the one table of settings; `setting_table::context` is its part about contexts. `value`
//! has the shapes of values. `file` reads a config file, `load` joins all levels, and `set` writes the user's
//! file. `models`, `servers` and `automation` read the tables of providers and prices, servers and profiles.
//! `invariants` reads invariants, and `lines` has the lines of tables as they are typed and shown. `context`
//! makes the settings of contexts.
//!
//! # Invariants
//! 1. The order is flag, environment, project, user, default. But a project never decides what guards the
//!    user. Keys of scope [`SettingScope::User`] are refused in a project's file, keys of scope
//!    [`SettingScope::Tighten`] only become stricter there.
//! 2. An unknown key and a value that is not allowed are errors, never ignored.
//!
//! # Not here
//! The locations of the files: [`crate::setup::paths`].

mod automation;
mod context;
mod error;
mod file;
mod invariants;
mod lines;
mod load;
mod models;
mod servers;
mod set;
mod setting_table;
mod value;

pub use context::{FileRules, breakers, contexts_setup};
pub use error::ConfigError;
pub use file::{ConfigFile, SettingLocation};
pub use lines::TableLine;
pub use load::{PROJECT_FILE, SettingOrigin, Settings, SettingsLevel, Sources, join_validations, load};
pub use models::NamedTable;
pub use set::{FileLevel, SettingChange, check, set};
pub use setting_table::{ENTRIES, SettingEntry, SettingKey, SettingScope, entry_named};
pub use value::{SettingValue, ValueShape};
