//! All levels joined: what each setting is, and where it was set.
//!
//! # Invariants
//! 1. Of what guards the user, nothing a project says makes it looser, whatever the other levels say.
//! 2. Every level that named a setting is kept with the answer, also one that lost.
//! 3. A check that several levels ask for is run once, and is required if one of them requires it. It needs the user's
//!    trust if projects alone ask for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::{Automation, Invariant, InvariantScope, RootNo, Validation, ValidationMode};
use engine::{Price, ProviderSettings, Servers};

use super::automation::Profiles;
use super::error::ConfigError;
use super::file::{ConfigFile, Place};
use super::models::{PRICES, PROVIDERS};
use super::registry::{ENTRIES, Entry, Key, Scope};
use super::servers::MCP;
use super::value::Value;

/// The file with a project's settings, below its root.
pub const PROJECT_FILE: &str = ".cleveragents/config.toml";

/// Who set a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line.
    Flag,
    /// The environment.
    Environment {
        /// The variable.
        name: String,
    },
    /// A project's file.
    Project(Place),
    /// The user's file.
    User(Place),
    /// Nobody.
    Default,
}

impl Origin {
    /// The level's name.
    pub const fn word(&self) -> &'static str {
        match self {
            Origin::Flag => "flag",
            Origin::Environment { .. } => "environment",
            Origin::Project(_) => "project",
            Origin::User(_) => "user",
            Origin::Default => "default",
        }
    }

    /// Where exactly.
    pub fn place(&self) -> String {
        match self {
            Origin::Flag | Origin::Default => String::new(),
            Origin::Environment { name } => name.clone(),
            Origin::Project(place) | Origin::User(place) => place.to_string(),
        }
    }
}

/// What one level says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Who.
    pub origin: Origin,
    /// What.
    pub value: Value,
}

/// Where settings come from.
#[derive(Debug, Default)]
pub struct Sources<'a> {
    /// What the command line sets.
    pub flags: Vec<(Key, Value)>,
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
    values: BTreeMap<Key, (Value, Origin, Vec<Level>)>,
    /// Checks that files ask for.
    pub validations: Vec<Validation>,
    /// What goes on without asking.
    pub automation: Automation,
    /// What the user's file says of providers, by name.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// What it says of prices, by `PROVIDER/NAME`.
    pub prices: BTreeMap<String, Price>,
    /// What it says of servers whose tools models may call, by name.
    pub servers: Servers,
    /// The lines of tables that are set, as they are shown: the user's, then each project's.
    pub lines: Vec<(String, String, Origin)>,
    /// What is odd and still no error.
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
    let levels = values.get(&Key::Automation).map(|(.., levels)| levels.clone()).unwrap_or_default();
    let (automation, origin) = Profiles::of(&user).joined(&levels)?;
    values.insert(Key::Automation, (Value::Word(automation.name.clone()), origin, levels));
    let of_projects = projects.iter().zip(0..).flat_map(|(file, no)| {
        file.validations.iter().map(move |check| Validation {
            root: RootNo(no),
            needs_trust: true,
            ..check.clone()
        })
    });
    let validations = join_validations(user.validations.iter().cloned().chain(of_projects));
    let own = user.lines.iter().map(|(name, value, at)| (name, value, Origin::User(at.clone())));
    let theirs = projects.iter().flat_map(|file| &file.lines);
    let theirs = theirs.map(|(name, value, at)| (name, value, Origin::Project(at.clone())));
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
        let forbidden = file.values.iter().find(|(key, ..)| key.entry().scope == Scope::User);
        if let Some((key, _, place)) = forbidden {
            let key = key.entry().name.to_owned();
            return Err(ConfigError::NotAllowedHere { key, place: place.clone() });
        }
        if let Some((profile, place)) = file.profiles.first() {
            let key = format!("automation.{}", profile.name);
            return Err(ConfigError::NotAllowedHere { key, place: place.clone() });
        }
        // Whoever names an address is sent what the plan reads, and the key.
        let providers = file.providers.iter().map(|(name, _, at)| (PROVIDERS, name, at));
        let prices = file.prices.iter().map(|(name, _, at)| (PRICES, name, at));
        // And whoever names a program has it run with the user's variables.
        let servers = file.servers.iter().map(|(name, _, at)| (MCP, name, at));
        if let Some((table, name, at)) = providers.chain(prices).chain(servers).next() {
            return Err(ConfigError::NotAllowedHere { key: format!("{table}.{name}"), place: at.clone() });
        }
        files.push(file);
    }
    Ok(files)
}

/// What the user says, the strongest level first; the default is the last.
fn own_levels(entry: &Entry, sources: &Sources<'_>, user: &ConfigFile) -> Result<Vec<Level>, ConfigError> {
    let mut levels = Vec::new();
    let flags = sources.flags.iter().rev().filter(|(key, _)| *key == entry.key);
    levels.extend(flags.map(|(_, value)| Level { origin: Origin::Flag, value: value.clone() }));
    let name = entry.env_name();
    if let Some(text) = sources.env.get(&name) {
        let value = entry.shape.parse(text).map_err(|_| ConfigError::ValueInvalid {
            key: entry.name.to_owned(),
            value: text.clone(),
            allowed: entry.shape.why_not(text),
            place: Some(Place::Variable { name: name.clone() }),
        })?;
        levels.push(Level { origin: Origin::Environment { name }, value });
    }
    levels.extend(said(user, entry.key).map(|(value, place)| Level { origin: Origin::User(place), value }));
    levels.push(Level { origin: Origin::Default, value: entry.default_value() });
    Ok(levels)
}

fn said(file: &ConfigFile, key: Key) -> Option<(Value, Place)> {
    file.values
        .iter()
        .find(|(known, ..)| *known == key)
        .map(|(_, value, place)| (value.clone(), place.clone()))
}

/// The value that holds, who set it, and all levels, the strongest first.
fn join(entry: &Entry, own: Vec<Level>, projects: &[ConfigFile]) -> (Value, Origin, Vec<Level>) {
    let theirs: Vec<Level> = projects
        .iter()
        .filter_map(|file| said(file, entry.key))
        .map(|(value, place)| Level { origin: Origin::Project(place), value })
        .collect();
    // The user's levels above a project's file: the command line and the environment.
    let above =
        own.iter().take_while(|level| matches!(level.origin, Origin::Flag | Origin::Environment { .. }));
    let above = above.count();
    let mut levels = own.clone();
    levels.splice(above..above, theirs.clone());
    let strongest = match entry.scope {
        Scope::Anybody | Scope::User => levels.first(),
        Scope::Tighten => own.first(),
        Scope::Joined => own.last(),
    };
    let (mut value, mut origin) = match strongest {
        Some(level) => (level.value.clone(), level.origin.clone()),
        None => (entry.default_value(), Origin::Default),
    };
    // The weakest first, so that the strongest that says something is named.
    let added: Vec<&Level> = match entry.scope {
        Scope::Anybody | Scope::User => Vec::new(),
        Scope::Tighten => theirs.iter().collect(),
        Scope::Joined => levels.iter().rev().collect(),
    };
    for level in added {
        let tightened = entry.shape.tightened(&value, &level.value);
        if tightened != value {
            (value, origin) = (tightened, level.origin.clone());
        }
    }
    (value, origin, levels)
}

/// The checks of several places as one list, in their order: equal commands once, required if one says so, names unique.
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
    unknown.map(|name| format!("the variable {name} is no setting and has no effect")).collect()
}

impl Settings {
    /// The value that holds, and who set it.
    pub fn get(&self, key: Key) -> (&Value, &Origin) {
        // `load` has put every key in.
        let (value, origin, _) = &self.values[&key];
        (value, origin)
    }

    /// All levels that name it, the strongest first, the default last.
    pub fn levels(&self, key: Key) -> &[Level] {
        &self.values[&key].2
    }

    /// What must hold, by whom the levels are, the strongest first. What a variable says is the user's.
    pub fn invariants(&self) -> Vec<Invariant> {
        let of_level = |level: &Level| {
            let scope = match level.origin {
                Origin::Flag => InvariantScope::Plan,
                Origin::Project(_) => InvariantScope::Project,
                Origin::Environment { .. } | Origin::User(_) | Origin::Default => InvariantScope::User,
            };
            let all = match &level.value {
                Value::Invariants(all) => all.clone(),
                Value::Word(_)
                | Value::Path(_)
                | Value::Words(_)
                | Value::Count(_)
                | Value::Span(_)
                | Value::Money(_)
                | Value::Decimal(_)
                | Value::Inherit => Vec::new(),
            };
            all.into_iter().map(move |one| Invariant { scope, ..one })
        };
        self.levels(Key::Invariants).iter().flat_map(of_level).collect()
    }

    /// A word.
    pub fn word(&self, key: Key) -> &str {
        match self.get(key).0 {
            Value::Word(text) | Value::Path(text) => text,
            Value::Count(_)
            | Value::Span(_)
            | Value::Words(_)
            | Value::Money(_)
            | Value::Decimal(_)
            | Value::Inherit
            | Value::Invariants(_) => "",
        }
    }

    /// A number.
    pub fn count(&self, key: Key) -> u64 {
        match self.get(key).0 {
            Value::Count(count) => *count,
            Value::Span(span) => span.as_secs(),
            Value::Word(_)
            | Value::Path(_)
            | Value::Words(_)
            | Value::Money(_)
            | Value::Decimal(_)
            | Value::Inherit
            | Value::Invariants(_) => 0,
        }
    }

    /// A list.
    pub fn words(&self, key: Key) -> &[String] {
        match self.get(key).0 {
            Value::Words(words) => words,
            Value::Word(_)
            | Value::Path(_)
            | Value::Count(_)
            | Value::Span(_)
            | Value::Money(_)
            | Value::Decimal(_)
            | Value::Inherit
            | Value::Invariants(_) => &[],
        }
    }

    /// An amount, in millionths of a dollar; none for no limit.
    pub fn money(&self, key: Key) -> Option<u64> {
        match self.get(key).0 {
            Value::Money(micros) => *micros,
            Value::Word(_)
            | Value::Path(_)
            | Value::Words(_)
            | Value::Count(_)
            | Value::Span(_)
            | Value::Decimal(_)
            | Value::Inherit
            | Value::Invariants(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use domain::Run;
    use tempfile::TempDir;

    use super::*;

    struct World {
        dir: TempDir,
        sources: Sources<'static>,
    }

    impl World {
        fn new(user: &str, project: &str) -> World {
            let dir = TempDir::new().unwrap();
            let root = dir.path().join("project");
            fs::create_dir_all(root.join(".cleveragents")).unwrap();
            fs::write(root.join(PROJECT_FILE), project).unwrap();
            fs::write(dir.path().join("user.toml"), user).unwrap();
            World { dir, sources: Sources { roots: vec![root], ..Sources::default() } }
        }

        fn set(mut self, name: &str, value: &str) -> World {
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

    fn words(settings: &Settings, key: Key) -> (String, &'static str) {
        let (value, origin) = settings.get(key);
        (value.typed(), origin.word())
    }

    #[test]
    fn each_level_stands_over_the_next() {
        let key = Key::RecoveryMaxRetriesPerStep;
        let holds = |world: World| words(&world.load().unwrap(), key);
        let (user, project) = ("recovery.max_retries_per_step = 1", "recovery.max_retries_per_step = 2");
        assert_eq!(holds(World::new("", "")), ("3".into(), "default"));
        assert_eq!(holds(World::new(user, "")), ("1".into(), "user"));
        assert_eq!(holds(World::new(user, project)), ("2".into(), "project"));
        let variable = "CLEVERAGENTS_RECOVERY_MAX_RETRIES_PER_STEP";
        assert_eq!(holds(World::new(user, project).set(variable, "4")), ("4".into(), "environment"));
        let mut world = World::new(user, project).set(variable, "4");
        world.sources.flags.push((key, Value::Count(5)));
        let settings = world.load().unwrap();
        assert_eq!(words(&settings, key), ("5".into(), "flag"));
        let levels: Vec<_> =
            settings.levels(key).iter().map(|level| (level.origin.word(), level.value.typed())).collect();
        let expected =
            [("flag", "5"), ("environment", "4"), ("project", "2"), ("user", "1"), ("default", "3")];
        assert_eq!(levels, expected.map(|(level, value)| (level, value.to_owned())));
    }

    #[test]
    fn a_hostile_project_cannot_loosen_what_guards_the_user() {
        let project = "automation = \"auto\"\nlimits.time = \"24h\"\npaths.protected = []\n";
        let user = "paths.protected = [\"secrets\"]\n";
        let settings = World::new(user, project).load().unwrap();
        assert_eq!(words(&settings, Key::Automation), ("review".into(), "default"));
        assert_eq!(words(&settings, Key::LimitsTime), ("2h".into(), "default"));
        assert_eq!(words(&settings, Key::PathsProtected), ("secrets".into(), "user"));
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
            let error = World::new("", &format!("# a clone\n{line}\n")).load().unwrap_err();
            let ConfigError::NotAllowedHere { place: Place::Line { file, line: 2 }, .. } = &error else {
                panic!("{line}: {error}");
            };
            assert!(file.ends_with(PROJECT_FILE));
        }
    }

    #[test]
    fn a_project_may_tighten_even_what_a_flag_says() {
        let project = "automation = \"manual\"\nlimits.time = \"10m\"\npaths.protected = [\"vendor\"]\n";
        let mut world = World::new("paths.protected = [\"secrets\"]\n", project);
        world.sources.flags.push((Key::Automation, Value::Word("auto".into())));
        let settings = world.load().unwrap();
        assert_eq!(words(&settings, Key::Automation), ("manual".into(), "project"));
        assert_eq!(words(&settings, Key::LimitsTime), ("10m".into(), "project"));
        assert_eq!(words(&settings, Key::PathsProtected), ("secrets,vendor".into(), "project"));
    }

    #[test]
    fn the_tools_that_are_denied_add_up_over_all_levels() {
        let (user, project) = ("policy.deny_tools = [\"shell\"]\n", "policy.deny_tools = [\"web.*\"]\n");
        let key = Key::PolicyDenyTools;
        assert_eq!(words(&World::new(user, "").load().unwrap(), key), ("shell".into(), "user"));
        let settings = World::new(user, project).load().unwrap();
        assert_eq!(words(&settings, key), ("shell,web.*".into(), "project"));
        let settings =
            World::new(user, project).set("CLEVERAGENTS_POLICY_DENY_TOOLS", "move_file").load().unwrap();
        assert_eq!(words(&settings, key), ("shell,web.*,move_file".into(), "environment"));
        let settings = World::new(user, "policy.deny_tools = []\n").load().unwrap();
        assert_eq!(words(&settings, key), ("shell".into(), "user"));
    }

    #[test]
    fn a_profile_of_the_user_holds_and_a_project_tightens_it_field_by_field() {
        let user =
            "[automation]\ndefault = \"careful\"\n[automation.careful]\napply = \"auto\"\nask_below = 0.6\n";
        let careful = Automation { name: "careful".into(), ask_below: 0.6, ..Automation::auto() };
        let settings = World::new(user, "").load().unwrap();
        assert_eq!(
            (&settings.automation, words(&settings, Key::Automation)),
            (&careful, ("careful".into(), "user"))
        );
        let settings = World::new(user, "automation = \"review\"\n").load().unwrap();
        let joined = Automation { name: "careful+review".into(), apply: domain::Gate::Ask, ..careful };
        assert_eq!(settings.automation, joined);
        assert_eq!(words(&settings, Key::Automation), ("careful+review".into(), "project"));
        for (project, says) in [
            ("automation = \"yolo\"\n", "`automation` cannot be `yolo`"),
            ("[automation.mine]\napply = \"auto\"\n", "`automation.mine` cannot be set by a project"),
        ] {
            let said = World::new(user, project).load().unwrap_err().to_string();
            assert!(said.starts_with(says), "{said}");
        }
        let said = World::new("", "").set("CLEVERAGENTS_AUTOMATION", "yolo").load().unwrap_err().to_string();
        assert!(said.ends_with("(CLEVERAGENTS_AUTOMATION): it takes one of manual, review, auto"), "{said}");
    }

    #[test]
    fn of_several_projects_the_first_decides_and_all_tighten() {
        let mut world = World::new("", "capture.max_file_mb = 5\nlimits.time = \"30m\"\n");
        let second = world.dir.path().join("second");
        fs::create_dir_all(second.join(".cleveragents")).unwrap();
        fs::write(second.join(PROJECT_FILE), "capture.max_file_mb = 7\nlimits.time = \"20m\"\n").unwrap();
        world.sources.roots.push(second);
        let settings = world.load().unwrap();
        assert_eq!(words(&settings, Key::CaptureMaxFileMb), ("5".into(), "project"));
        assert_eq!(words(&settings, Key::LimitsTime), ("20m".into(), "project"));
    }

    #[test]
    fn a_variable_is_checked_like_a_file() {
        let error = World::new("", "").set("CLEVERAGENTS_PLAN_CONCURRENCY", "many").load().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`plan.concurrency` cannot be `many` (CLEVERAGENTS_PLAN_CONCURRENCY): it takes a whole number from 1 to 1024"
        );
        let settings = World::new("", "").set("CLEVERAGENTS_PLAN_CONCURENCY", "2").load().unwrap();
        assert_eq!(
            settings.warnings,
            ["the variable CLEVERAGENTS_PLAN_CONCURENCY is no setting and has no effect"]
        );
        assert!(World::new("", "").set("CLEVERAGENTS_DATA_DIR", "/d").load().unwrap().warnings.is_empty());
    }

    #[test]
    fn checks_of_all_levels_add_up() {
        let user = "[[validation]]\nrun = \"a\"\nmode = \"informational\"\n[[validation]]\nname = \"t\"\nrun = \"b\"\n";
        let project = "[[validation]]\nrun = \"a\"\n[[validation]]\nname = \"t\"\nrun = \"c\"\n";
        let settings = World::new(user, project).load().unwrap();
        let found: Vec<_> =
            settings.validations.iter().map(|check| (check.name.as_str(), &check.run, check.mode)).collect();
        let shell = |text: &str| Run::Shell(text.into());
        let required = ValidationMode::Required;
        assert_eq!(
            found,
            [("a", &shell("a"), required), ("t", &shell("b"), required), ("t (2)", &shell("c"), required)]
        );
    }
}
