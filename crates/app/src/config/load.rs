//! All levels joined: what each setting is, and where it was set.
//!
//! # Invariants
//! 1. Of what guards the user, nothing a project says makes it looser, whatever the other levels say.
//! 2. Every level that named a setting is stored with the answer, also one that lost.
//! 3. A check that several levels ask for is run once, and is required if one of them requires it. It needs
//!    the user's trust if projects alone ask for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::{Automation, Invariant, InvariantScope, RootIndex, Validation, ValidationMode};
use engine::{Price, ProviderSettings, Servers};

use super::automation::Profiles;
use super::error::ConfigError;
use super::file::{ConfigFile, SettingLocation};
use super::models::{PRICES, PROVIDERS};
use super::servers::MCP;
use super::setting_table::{ENTRIES, SettingEntry, SettingKey, SettingScope};
use super::value::SettingValue;

/// The file with a project's settings, below its root.
pub const PROJECT_FILE: &str = ".cleveragents/config.toml";

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// The command line.
    Flag,
    /// The environment.
    Environment {
        /// The variable.
        name: String,
    },
    /// A project's file.
    Project(SettingLocation),
    /// The user's file.
    User(SettingLocation),
    /// No file: it is the default.
    Default,
}

impl SettingOrigin {
    /// The level's name.
    pub const fn word(&self) -> &'static str {
        match self {
            SettingOrigin::Flag => "flag",
            SettingOrigin::Environment { .. } => "environment",
            SettingOrigin::Project(_) => "project",
            SettingOrigin::User(_) => "user",
            SettingOrigin::Default => "default",
        }
    }

    /// Returns the exact location.
    pub fn place(&self) -> String {
        match self {
            SettingOrigin::Flag | SettingOrigin::Default => String::new(),
            SettingOrigin::Environment { name } => name.clone(),
            SettingOrigin::Project(place) | SettingOrigin::User(place) => place.to_string(),
        }
    }
}

/// The settings of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsLevel {
    /// The origin of the value.
    pub origin: SettingOrigin,
    /// The value.
    pub value: SettingValue,
}

/// The sources of settings.
#[derive(Debug, Default)]
pub struct Sources<'a> {
    /// The settings of the command line.
    pub flags: Vec<(SettingKey, SettingValue)>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The user's file, where there can be one.
    pub user_file: Option<&'a Path>,
    /// The roots of the projects, the first one first.
    pub roots: Vec<PathBuf>,
}

/// All settings, as they hold.
#[derive(Clone, Debug)]
pub struct Settings {
    values: BTreeMap<SettingKey, (SettingValue, SettingOrigin, Vec<SettingsLevel>)>,
    /// Checks that files ask for.
    pub validations: Vec<Validation>,
    /// The decisions that are made without asking.
    pub automation: Automation,
    /// The providers of the user's file, by name.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The prices of the user's file, by `PROVIDER/NAME`.
    pub prices: BTreeMap<String, Price>,
    /// The servers of the user's file whose tools models may call, by name.
    pub servers: Servers,
    /// The lines of tables that are set, as they are shown: the user's, then each project's.
    pub lines: Vec<(String, String, SettingOrigin)>,
    /// Oddities that are no errors.
    pub warnings: Vec<String>,
}

/// Joins all levels.
///
/// # Errors
/// A file cannot be read, or some level says what is not allowed.
pub fn load(sources: &Sources<'_>) -> Result<Settings, ConfigError> {
    let user = sources.user_file.map_or_else(|| Ok(ConfigFile::default()), ConfigFile::read)?;
    let projects = read_projects(&sources.roots)?;
    let mut values = BTreeMap::new();
    for entry in &ENTRIES {
        let own = own_levels(entry, sources, &user)?;
        values.insert(entry.key, join(entry, own, &projects));
    }
    let levels = values.get(&SettingKey::Automation).map(|(.., levels)| levels.clone()).unwrap_or_default();
    let (automation, origin) = Profiles::from_file(&user).joined(&levels)?;
    values.insert(SettingKey::Automation, (SettingValue::Word(automation.name.clone()), origin, levels));
    let of_projects = projects.iter().zip(0..).flat_map(|(file, no)| {
        file.validations.iter().map(move |check| Validation {
            root: RootIndex(no),
            needs_trust: true,
            ..check.clone()
        })
    });
    let validations = join_validations(user.validations.iter().cloned().chain(of_projects));
    let own = user.lines.iter().map(|(name, value, at)| (name, value, SettingOrigin::User(at.clone())));
    let theirs = projects.iter().flat_map(|file| &file.lines);
    let theirs = theirs.map(|(name, value, at)| (name, value, SettingOrigin::Project(at.clone())));
    let lines =
        own.chain(theirs).map(|(name, value, origin)| (name.clone(), value.clone(), origin)).collect();
    let providers = user.providers.into_iter().map(|(name, provider, _)| (name, provider)).collect();
    let prices = user.prices.into_iter().map(|(name, price, _)| (name, price)).collect();
    let servers = user.servers.into_iter().map(|(name, server, _)| (name, server)).collect();
    let warnings = unknown_variables(&sources.env);
    Ok(Settings { values, validations, automation, providers, prices, servers, lines, warnings })
}

fn read_projects(roots: &[PathBuf]) -> Result<Vec<ConfigFile>, ConfigError> {
    let mut files = Vec::new();
    for root in roots {
        let file = ConfigFile::read(&root.join(PROJECT_FILE))?;
        check_project_file(&file)?;
        files.push(file);
    }
    Ok(files)
}

/// Refuses the file of a project that sets what only its user may set.
///
/// # Errors
/// Returns an error if it does.
pub(super) fn check_project_file(file: &ConfigFile) -> Result<(), ConfigError> {
    let forbidden = file.values.iter().find(|(key, ..)| key.entry().scope == SettingScope::User);
    if let Some((key, _, place)) = forbidden {
        let key = key.entry().name.to_owned();
        return Err(ConfigError::NotAllowedHere { key, place: place.clone() });
    }
    if let Some((profile, place)) = file.profiles.first() {
        let key = format!("automation.{}", profile.name);
        return Err(ConfigError::NotAllowedHere { key, place: place.clone() });
    }
    // A level that names an address gets all that the plan reads sent there, and the key.
    let providers = file.providers.iter().map(|(name, _, at)| (PROVIDERS, name, at));
    let prices = file.prices.iter().map(|(name, _, at)| (PRICES, name, at));
    // And a level that names a program has it run with the user's variables.
    let servers = file.servers.iter().map(|(name, _, at)| (MCP, name, at));
    match providers.chain(prices).chain(servers).next() {
        Some((table, name, at)) => {
            Err(ConfigError::NotAllowedHere { key: format!("{table}.{name}"), place: at.clone() })
        }
        None => Ok(()),
    }
}

/// Returns the user's levels, the strongest first; the default is the last.
fn own_levels(
    entry: &SettingEntry,
    sources: &Sources<'_>,
    user: &ConfigFile,
) -> Result<Vec<SettingsLevel>, ConfigError> {
    let mut levels = Vec::new();
    let flags = sources.flags.iter().rev().filter(|(key, _)| *key == entry.key);
    levels
        .extend(flags.map(|(_, value)| SettingsLevel { origin: SettingOrigin::Flag, value: value.clone() }));
    let name = entry.env_name();
    if let Some(text) = sources.env.get(&name) {
        let value = entry.shape.parse(text).map_err(|_| ConfigError::ValueInvalid {
            key: entry.name.to_owned(),
            value: text.clone(),
            allowed: entry.shape.why_not(text),
            place: Some(SettingLocation::Variable { name: name.clone() }),
        })?;
        levels.push(SettingsLevel { origin: SettingOrigin::Environment { name }, value });
    }
    levels.extend(
        said(user, entry.key)
            .map(|(value, place)| SettingsLevel { origin: SettingOrigin::User(place), value }),
    );
    levels.push(SettingsLevel { origin: SettingOrigin::Default, value: entry.default_value() });
    Ok(levels)
}

fn said(file: &ConfigFile, key: SettingKey) -> Option<(SettingValue, SettingLocation)> {
    file.values
        .iter()
        .find(|(known, ..)| *known == key)
        .map(|(_, value, place)| (value.clone(), place.clone()))
}

/// The value that holds, who set it, and all levels, the strongest first.
fn join(
    entry: &SettingEntry,
    own: Vec<SettingsLevel>,
    projects: &[ConfigFile],
) -> (SettingValue, SettingOrigin, Vec<SettingsLevel>) {
    let theirs: Vec<SettingsLevel> = projects
        .iter()
        .filter_map(|file| said(file, entry.key))
        .map(|(value, place)| SettingsLevel { origin: SettingOrigin::Project(place), value })
        .collect();
    // The user's levels above a project's file: the command line and the environment.
    let above = own
        .iter()
        .take_while(|level| matches!(level.origin, SettingOrigin::Flag | SettingOrigin::Environment { .. }));
    let above = above.count();
    let mut levels = own.clone();
    levels.splice(above..above, theirs.clone());
    let strongest = match entry.scope {
        SettingScope::Anybody | SettingScope::User => levels.first(),
        SettingScope::Tighten => own.first(),
        SettingScope::Joined => own.last(),
    };
    let (mut value, mut origin) = match strongest {
        Some(level) => (level.value.clone(), level.origin.clone()),
        None => (entry.default_value(), SettingOrigin::Default),
    };
    // The weakest first, so that the strongest that says something is named.
    let added: Vec<&SettingsLevel> = match entry.scope {
        SettingScope::Anybody | SettingScope::User => Vec::new(),
        SettingScope::Tighten => theirs.iter().collect(),
        SettingScope::Joined => levels.iter().rev().collect(),
    };
    for level in added {
        let tightened = entry.shape.tightened(&value, &level.value);
        if tightened != value {
            (value, origin) = (tightened, level.origin.clone());
        }
    }
    (value, origin, levels)
}

/// The checks of several places as one list, in their order: equal commands once, required if one says so,
/// names unique.
pub fn join_validations(all: impl IntoIterator<Item = Validation>) -> Vec<Validation> {
    let mut joined: Vec<Validation> = Vec::new();
    for validation in all {
        let is_same = |known: &&mut Validation| {
            (&known.run, known.root, &known.cwd) == (&validation.run, validation.root, &validation.cwd)
        };
        match joined.iter_mut().find(is_same) {
            Some(known) => {
                if validation.mode == ValidationMode::Required {
                    known.mode = ValidationMode::Required;
                }
                // A command that the user asks for as well is the user's own.
                known.needs_trust &= validation.needs_trust;
            }
            None => joined.push(validation),
        }
    }
    for index in 1..joined.len() {
        let (before, rest) = joined.split_at_mut(index);
        let Some(this) = rest.first_mut() else { continue };
        let plain = this.name.clone();
        let mut copies = 1;
        while before.iter().any(|other| other.name == this.name) {
            copies += 1;
            this.name = format!("{plain} ({copies})");
        }
    }
    joined
}

/// Variables that look like settings and are none: most likely a slip.
fn unknown_variables(env: &BTreeMap<String, String>) -> Vec<String> {
    let known = |name: &str| {
        ["CLEVERAGENTS_DATA_DIR", "CLEVERAGENTS_FORMAT"].contains(&name)
            || ENTRIES.iter().any(|entry| entry.env_name() == name)
    };
    let unknown = env.keys().filter(|name| name.starts_with("CLEVERAGENTS_") && !known(name));
    unknown.map(|name| format!("the variable {name} is not a setting and has no effect")).collect()
}

impl Settings {
    /// The value that holds, and who set it.
    pub fn get(&self, key: SettingKey) -> (&SettingValue, &SettingOrigin) {
        // `load` has put every key in.
        let (value, origin, _) = &self.values[&key];
        (value, origin)
    }

    /// All levels that name it, the strongest first, the default last.
    pub fn levels(&self, key: SettingKey) -> &[SettingsLevel] {
        &self.values[&key].2
    }

    /// Returns the invariants of all levels, the strongest first. Those of a variable are the user's.
    pub fn invariants(&self) -> Vec<Invariant> {
        let of_level = |level: &SettingsLevel| {
            let scope = match level.origin {
                SettingOrigin::Flag => InvariantScope::Plan,
                SettingOrigin::Project(_) => InvariantScope::Project,
                SettingOrigin::Environment { .. } | SettingOrigin::User(_) | SettingOrigin::Default => {
                    InvariantScope::User
                }
            };
            let all = match &level.value {
                SettingValue::Invariants(all) => all.clone(),
                SettingValue::Word(_)
                | SettingValue::Path(_)
                | SettingValue::Words(_)
                | SettingValue::Count(_)
                | SettingValue::Span(_)
                | SettingValue::Money(_)
                | SettingValue::Decimal(_)
                | SettingValue::Inherit => Vec::new(),
            };
            all.into_iter().map(move |one| Invariant { scope, ..one })
        };
        self.levels(SettingKey::Invariants).iter().flat_map(of_level).collect()
    }

    /// A word.
    pub fn word(&self, key: SettingKey) -> &str {
        match self.get(key).0 {
            SettingValue::Word(text) | SettingValue::Path(text) => text,
            SettingValue::Count(_)
            | SettingValue::Span(_)
            | SettingValue::Words(_)
            | SettingValue::Money(_)
            | SettingValue::Decimal(_)
            | SettingValue::Inherit
            | SettingValue::Invariants(_) => "",
        }
    }

    /// A number.
    pub fn count(&self, key: SettingKey) -> u64 {
        match self.get(key).0 {
            SettingValue::Count(count) => *count,
            SettingValue::Span(span) => span.as_secs(),
            SettingValue::Word(_)
            | SettingValue::Path(_)
            | SettingValue::Words(_)
            | SettingValue::Money(_)
            | SettingValue::Decimal(_)
            | SettingValue::Inherit
            | SettingValue::Invariants(_) => 0,
        }
    }

    /// A list.
    pub fn words(&self, key: SettingKey) -> &[String] {
        match self.get(key).0 {
            SettingValue::Words(words) => words,
            SettingValue::Word(_)
            | SettingValue::Path(_)
            | SettingValue::Count(_)
            | SettingValue::Span(_)
            | SettingValue::Money(_)
            | SettingValue::Decimal(_)
            | SettingValue::Inherit
            | SettingValue::Invariants(_) => &[],
        }
    }

    /// An amount, in millionths of a dollar; none for no limit.
    pub fn money(&self, key: SettingKey) -> Option<u64> {
        match self.get(key).0 {
            SettingValue::Money(micros) => *micros,
            SettingValue::Word(_)
            | SettingValue::Path(_)
            | SettingValue::Words(_)
            | SettingValue::Count(_)
            | SettingValue::Span(_)
            | SettingValue::Decimal(_)
            | SettingValue::Inherit
            | SettingValue::Invariants(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use domain::CommandLine;
    use tempfile::TempDir;

    use super::*;

    struct SettingsFixture {
        dir: TempDir,
        sources: Sources<'static>,
    }

    impl SettingsFixture {
        fn new(user: &str, project: &str) -> SettingsFixture {
            let dir = TempDir::new().unwrap();
            let root = dir.path().join("project");
            fs::create_dir_all(root.join(".cleveragents")).unwrap();
            fs::write(root.join(PROJECT_FILE), project).unwrap();
            fs::write(dir.path().join("user.toml"), user).unwrap();
            SettingsFixture { dir, sources: Sources { roots: vec![root], ..Sources::default() } }
        }

        fn set(mut self, name: &str, value: &str) -> SettingsFixture {
            self.sources.env.insert(name.to_owned(), value.to_owned());
            self
        }

        fn load(&self) -> Result<Settings, ConfigError> {
            let user_file = self.dir.path().join("user.toml");
            load(&Sources {
                user_file: Some(&user_file),
                flags: self.sources.flags.clone(),
                env: self.sources.env.clone(),
                roots: self.sources.roots.clone(),
            })
        }
    }

    fn words(settings: &Settings, key: SettingKey) -> (String, &'static str) {
        let (value, origin) = settings.get(key);
        (value.to_input_string(), origin.word())
    }

    #[test]
    fn each_level_stands_over_the_next() {
        let key = SettingKey::RecoveryMaxRetriesPerStep;
        let holds = |world: SettingsFixture| words(&world.load().unwrap(), key);
        let (user, project) = ("recovery.max_retries_per_step = 1", "recovery.max_retries_per_step = 2");
        assert_eq!(holds(SettingsFixture::new("", "")), ("3".into(), "default"));
        assert_eq!(holds(SettingsFixture::new(user, "")), ("1".into(), "user"));
        assert_eq!(holds(SettingsFixture::new(user, project)), ("2".into(), "project"));
        let variable = "CLEVERAGENTS_RECOVERY_MAX_RETRIES_PER_STEP";
        assert_eq!(
            holds(SettingsFixture::new(user, project).set(variable, "4")),
            ("4".into(), "environment")
        );
        let mut world = SettingsFixture::new(user, project).set(variable, "4");
        world.sources.flags.push((key, SettingValue::Count(5)));
        let settings = world.load().unwrap();
        assert_eq!(words(&settings, key), ("5".into(), "flag"));
        let levels: Vec<_> = settings
            .levels(key)
            .iter()
            .map(|level| (level.origin.word(), level.value.to_input_string()))
            .collect();
        let expected =
            [("flag", "5"), ("environment", "4"), ("project", "2"), ("user", "1"), ("default", "3")];
        assert_eq!(levels, expected.map(|(level, value)| (level, value.to_owned())));
    }

    #[test]
    fn a_hostile_project_cannot_loosen_what_guards_the_user() {
        let project = "automation = \"auto\"\nlimits.time = \"24h\"\npaths.protected = []\n";
        let user = "paths.protected = [\"secrets\"]\n";
        let settings = SettingsFixture::new(user, project).load().unwrap();
        assert_eq!(words(&settings, SettingKey::Automation), ("review".into(), "default"));
        assert_eq!(words(&settings, SettingKey::LimitsTime), ("2h".into(), "default"));
        assert_eq!(words(&settings, SettingKey::PathsProtected), ("secrets".into(), "user"));
        for line in [
            "policy.sandbox = \"optional\"",
            "policy.network = \"declared\"",
            "sandbox.strategy = \"copy\"",
            "isolation.hide = []",
            "retention.days = 1",
            "plan.concurrency = 64",
            "limits.day_cost = 1",
            "[providers.openai]",
            "prices = { \"openai/x\" = { input = 0, output = 0 } }",
        ] {
            let error = SettingsFixture::new("", &format!("# a clone\n{line}\n")).load().unwrap_err();
            let ConfigError::NotAllowedHere { place: SettingLocation::Line { file, line: 2 }, .. } = &error
            else {
                panic!("{line}: {error}");
            };
            assert!(file.ends_with(PROJECT_FILE));
        }
    }

    #[test]
    fn a_project_may_tighten_even_what_a_flag_says() {
        let project = "automation = \"manual\"\nlimits.time = \"10m\"\npaths.protected = [\"vendor\"]\n";
        let mut world = SettingsFixture::new("paths.protected = [\"secrets\"]\n", project);
        world.sources.flags.push((SettingKey::Automation, SettingValue::Word("auto".into())));
        let settings = world.load().unwrap();
        assert_eq!(words(&settings, SettingKey::Automation), ("manual".into(), "project"));
        assert_eq!(words(&settings, SettingKey::LimitsTime), ("10m".into(), "project"));
        assert_eq!(words(&settings, SettingKey::PathsProtected), ("secrets,vendor".into(), "project"));
    }

    #[test]
    fn the_tools_that_are_denied_add_up_over_all_levels() {
        let (user, project) = ("policy.deny_tools = [\"shell\"]\n", "policy.deny_tools = [\"web.*\"]\n");
        let key = SettingKey::PolicyDenyTools;
        assert_eq!(words(&SettingsFixture::new(user, "").load().unwrap(), key), ("shell".into(), "user"));
        let settings = SettingsFixture::new(user, project).load().unwrap();
        assert_eq!(words(&settings, key), ("shell,web.*".into(), "project"));
        let settings = SettingsFixture::new(user, project)
            .set("CLEVERAGENTS_POLICY_DENY_TOOLS", "move_file")
            .load()
            .unwrap();
        assert_eq!(words(&settings, key), ("shell,web.*,move_file".into(), "environment"));
        let settings = SettingsFixture::new(user, "policy.deny_tools = []\n").load().unwrap();
        assert_eq!(words(&settings, key), ("shell".into(), "user"));
    }

    #[test]
    fn a_profile_of_the_user_holds_and_a_project_tightens_it_field_by_field() {
        let user =
            "[automation]\ndefault = \"careful\"\n[automation.careful]\napply = \"auto\"\nask_below = 0.6\n";
        let careful = Automation { name: "careful".into(), ask_below: 0.6, ..Automation::auto() };
        let settings = SettingsFixture::new(user, "").load().unwrap();
        assert_eq!(
            (&settings.automation, words(&settings, SettingKey::Automation)),
            (&careful, ("careful".into(), "user"))
        );
        let settings = SettingsFixture::new(user, "automation = \"review\"\n").load().unwrap();
        let joined =
            Automation { name: "careful+review".into(), apply: domain::GateDecision::Ask, ..careful };
        assert_eq!(settings.automation, joined);
        assert_eq!(words(&settings, SettingKey::Automation), ("careful+review".into(), "project"));
        for (project, says) in [
            ("automation = \"yolo\"\n", "`automation` cannot be `yolo`"),
            ("[automation.mine]\napply = \"auto\"\n", "`automation.mine` cannot be set by a project"),
        ] {
            let said = SettingsFixture::new(user, project).load().unwrap_err().to_string();
            assert!(said.starts_with(says), "{said}");
        }
        let said = SettingsFixture::new("", "")
            .set("CLEVERAGENTS_AUTOMATION", "yolo")
            .load()
            .unwrap_err()
            .to_string();
        assert!(said.ends_with("(CLEVERAGENTS_AUTOMATION): it takes one of manual, review, auto"), "{said}");
    }

    #[test]
    fn of_several_projects_the_first_decides_and_all_tighten() {
        let mut world = SettingsFixture::new("", "capture.max_file_mb = 5\nlimits.time = \"30m\"\n");
        let second = world.dir.path().join("second");
        fs::create_dir_all(second.join(".cleveragents")).unwrap();
        fs::write(second.join(PROJECT_FILE), "capture.max_file_mb = 7\nlimits.time = \"20m\"\n").unwrap();
        world.sources.roots.push(second);
        let settings = world.load().unwrap();
        assert_eq!(words(&settings, SettingKey::CaptureMaxFileMb), ("5".into(), "project"));
        assert_eq!(words(&settings, SettingKey::LimitsTime), ("20m".into(), "project"));
    }

    #[test]
    fn a_variable_is_checked_like_a_file() {
        let error =
            SettingsFixture::new("", "").set("CLEVERAGENTS_PLAN_CONCURRENCY", "many").load().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`plan.concurrency` cannot be `many` (CLEVERAGENTS_PLAN_CONCURRENCY): it takes a whole number from 1 to 1024"
        );
        let settings = SettingsFixture::new("", "").set("CLEVERAGENTS_PLAN_CONCURENCY", "2").load().unwrap();
        assert_eq!(
            settings.warnings,
            ["the variable CLEVERAGENTS_PLAN_CONCURENCY is not a setting and has no effect"]
        );
        assert!(
            SettingsFixture::new("", "")
                .set("CLEVERAGENTS_DATA_DIR", "/d")
                .load()
                .unwrap()
                .warnings
                .is_empty()
        );
    }

    #[test]
    fn checks_of_all_levels_add_up() {
        let user = "[[validation]]\nrun = \"a\"\nmode = \"informational\"\n[[validation]]\nname = \"t\"\nrun = \"b\"\n";
        let project = "[[validation]]\nrun = \"a\"\n[[validation]]\nname = \"t\"\nrun = \"c\"\n";
        let settings = SettingsFixture::new(user, project).load().unwrap();
        let found: Vec<_> =
            settings.validations.iter().map(|check| (check.name.as_str(), &check.run, check.mode)).collect();
        let shell = |text: &str| CommandLine::Shell(text.into());
        let required = ValidationMode::Required;
        assert_eq!(
            found,
            [("a", &shell("a"), required), ("t", &shell("b"), required), ("t (2)", &shell("c"), required)]
        );
    }
}
