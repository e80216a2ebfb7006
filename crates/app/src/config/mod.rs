//! Settings: what can be set, where it was set, and who may set it.
//!
//! # Where to look
//! `registry` is the one table of settings, `value` what they can be, `file` reads a config file, `load`
//! joins all levels, `models` are the tables of providers and prices, `servers` that of servers, `automation`
//! those of profiles, `set` writes the user's file, `invariants` reads what must hold, `lines` has the lines
//! of tables as they are typed and shown. `context_entries` is the part of the table that is about contexts,
//! `context` what it comes to.
//!
//! # Invariants
//! 1. The order is flag, environment, project, user, default. But a project never decides what guards the
//!    user: keys of scope [`SettingScope::User`] are refused in a project's file, keys of scope
//!    [`SettingScope::Tighten`] only become stricter there.
//! 2. An unknown key and a value that is not allowed are errors, never ignored.
//!
//! # Not here
//! The locations of the files: [`crate::setup::paths`].

mod automation;
mod context;
mod context_entries;
mod error;
mod file;
mod invariants;
mod lines;
mod load;
mod models;
mod registry;
mod servers;
mod set;
mod value;

pub use context::{FileRules, breakers, contexts_setup};
pub use error::ConfigError;
pub use file::{ConfigFile, SettingLocation};
pub use lines::TableLine;
pub use load::{PROJECT_FILE, SettingOrigin, Settings, SettingsLevel, Sources, join_validations, load};
pub use models::NamedTable;
pub use registry::{ENTRIES, SettingEntry, SettingKey, SettingScope, entry_named};
pub use set::{SettingChange, set};
pub use value::{SettingValue, ValueShape};
