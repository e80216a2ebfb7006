//! Profiles of automation in the settings: the user's own, and which one holds.
//!
//! # Invariants
//! 1. Only the user's file defines profiles, and none takes the name of one that comes with the program.
//! 2. The user's strongest level names the profile; a project only tightens it, field by field.
//! 3. An unknown name is an error at every level, also at one that lost.

use ::definitions::is_name;
use domain::{Automation, GateDecision};
use toml_edit::{Item, Table};

use super::error::ConfigError;
use super::file::{ConfigFile, SettingLocation};
use super::load::{SettingOrigin, SettingsLevel};
use super::setting_table::SettingKey;

/// The setting, and the table that has the profiles.
pub(super) const AUTOMATION: &str = "automation";
/// The key of that table which is the setting: TOML lets no word and no table have one name.
pub(super) const DEFAULT: &str = "default";

const GATES: &str = "one of ask, auto";
const BELOW: &str = "a number from 0 to 1";

/// Reads a profile. Fields that it does not set are as in `review`. `place` returns the location of a key.
pub(super) fn profile(
    name: &str,
    table: &Table,
    place: impl Fn(&str) -> SettingLocation,
    here: SettingLocation,
) -> Result<Automation, ConfigError> {
    let full = format!("{AUTOMATION}.{name}");
    if !is_name(name) || Automation::built_in(name).is_some() || name == DEFAULT {
        let taken = Automation::NAMES.join(", ");
        return Err(ConfigError::ValueInvalid {
            key: AUTOMATION.to_owned(),
            value: name.to_owned(),
            allowed: format!("a name of small letters, digits, - and _ that is none of {taken}, {DEFAULT}"),
            place: Some(here),
        });
    }
    let mut found = Automation { name: name.to_owned(), ..Automation::review() };
    for (key, item) in table {
        let refused = |allowed: &str| ConfigError::ValueInvalid {
            key: format!("{full}.{key}"),
            value: item.to_string().trim().to_owned(),
            allowed: allowed.to_owned(),
            place: Some(place(key)),
        };
        let gate = || gate(item).ok_or_else(|| refused(GATES));
        match key {
            "execute" => found.execute = gate()?,
            "apply" => found.apply = gate()?,
            "fix" => found.fix = gate()?,
            "replan" => found.replan = gate()?,
            "ask_below" => found.ask_below = part(item).ok_or_else(|| refused(BELOW))?,
            _ => {
                return Err(ConfigError::KeyUnknown {
                    key: format!("{full}.{key}"),
                    place: Some(place(key)),
                });
            }
        }
    }
    Ok(found)
}

fn gate(item: &Item) -> Option<GateDecision> {
    match item.as_str()? {
        "ask" => Some(GateDecision::Ask),
        "auto" => Some(GateDecision::Auto),
        _ => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a part of 1 has few digits"
)]
fn part(item: &Item) -> Option<f32> {
    let number = item.as_float().or_else(|| item.as_integer().map(|whole| whole as f64))?;
    (0.0..=1.0).contains(&number).then_some(number as f32)
}

/// The profiles that can be named.
pub(super) struct Profiles(Vec<Automation>);

impl Profiles {
    /// Those of the program and those of the user's file.
    pub(super) fn from_file(user: &ConfigFile) -> Profiles {
        let built_in = Automation::NAMES.into_iter().filter_map(Automation::built_in);
        Profiles(built_in.chain(user.profiles.iter().map(|(profile, _)| profile.clone())).collect())
    }

    fn named(&self, name: &str, place: Option<SettingLocation>) -> Result<&Automation, ConfigError> {
        self.0.iter().find(|profile| profile.name == name).ok_or_else(|| ConfigError::ValueInvalid {
            key: AUTOMATION.to_owned(),
            value: name.to_owned(),
            allowed: format!("one of {}", self.names()),
            place,
        })
    }

    fn names(&self) -> String {
        self.0.iter().map(|profile| profile.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Refuses a file that names an unknown profile.
    ///
    /// # Errors
    /// Returns an error if it does.
    pub(super) fn check(&self, file: &ConfigFile) -> Result<(), ConfigError> {
        let said = file.values.iter().filter(|(key, ..)| *key == SettingKey::Automation);
        for (_, value, place) in said {
            self.named(&value.to_input_string(), Some(place.clone()))?;
        }
        Ok(())
    }

    /// The profile that holds, and who made it so. `levels` are all that name one, the strongest first.
    ///
    /// # Errors
    /// Returns an error if a level names an unknown profile.
    pub(super) fn joined(
        &self,
        levels: &[SettingsLevel],
    ) -> Result<(Automation, SettingOrigin), ConfigError> {
        let mut own: Option<(Automation, SettingOrigin)> = None;
        let mut of_projects = Vec::new();
        for SettingsLevel { origin, value } in levels {
            let profile = self.named(&value.to_input_string(), origin.file())?.clone();
            match origin {
                SettingOrigin::Project(_) => of_projects.push((profile, origin.clone())),
                SettingOrigin::Flag
                | SettingOrigin::Environment { .. }
                | SettingOrigin::User(_)
                | SettingOrigin::Default => {
                    own.get_or_insert((profile, origin.clone()));
                }
            }
        }
        let mut holds = own.unwrap_or((Automation::default(), SettingOrigin::Default));
        for (profile, origin) in of_projects {
            let tightened = holds.0.tightened(&profile);
            if tightened != holds.0 {
                holds = (tightened, origin);
            }
        }
        Ok(holds)
    }
}

impl SettingOrigin {
    /// Returns the location of the setting; `None` if it is in no file and no variable.
    fn file(&self) -> Option<SettingLocation> {
        match self {
            SettingOrigin::Flag | SettingOrigin::Default => None,
            SettingOrigin::Environment { name } => Some(SettingLocation::Variable { name: name.clone() }),
            SettingOrigin::Project(place) | SettingOrigin::User(place) => Some(place.clone()),
        }
    }
}
