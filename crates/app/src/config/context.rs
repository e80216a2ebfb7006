//! The context settings in the engine's form, for each project separately.
//!
//! # Invariants
//! 1. The user's rules and a project's are separate: a file that is shown must pass both, so neither list is
//!    lost in the other.
//! 2. The rules of one project hold for no other.
//!
//! # Not here
//! The choice of the files that pass: the pipeline.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::context::{
    ContextRules, ContextSettings, ContextsSetup, ExecutorConfig, IndexConfig, Name, PipelineConfig,
    ProjectSettings, RulesError, ViewRules, Views,
};
use sync::BreakerConfig;

use super::error::ConfigError;
use super::file::SettingLocation;
use super::load::{PROJECT_FILE, SettingOrigin, Settings, Sources, load};
use super::setting_table::{ENTRIES, SettingKey, SettingScope};
use super::value::SettingValue;
use crate::setup::hidden_and_shown;
use crate::setup::paths::Env;

/// The weights of strategies have these names.
const WEIGHTS: &str = "context.weights.";
const KB: u64 = 1024;
const MB: u64 = 1024 * 1024;

/// Reads the settings of a user and of projects, whenever it is asked.
#[derive(Clone, Debug)]
pub struct FileRules {
    /// The environment.
    pub env: Env,
    /// The user's file, where there can be one.
    pub user_file: Option<PathBuf>,
}

impl ContextRules for FileRules {
    fn rules(&self, roots: &[PathBuf]) -> Result<ContextSettings, RulesError> {
        let sources = Sources {
            flags: Vec::new(),
            env: self.env.clone(),
            user_file: self.user_file.as_deref(),
            roots: roots.to_vec(),
        };
        let settings = load(&sources).map_err(|error: ConfigError| RulesError { source: Box::new(error) })?;
        Ok(context_settings(&settings, roots))
    }
}

/// Returns the combined settings of projects and their user.
fn context_settings(settings: &Settings, roots: &[PathBuf]) -> ContextSettings {
    let user = ContextLevel { settings, root: None };
    let pipeline = PipelineConfig {
        strategies: user.names(SettingKey::ContextStrategies).unwrap_or_default(),
        weights: weights(settings),
        max_tokens: small(settings.count(SettingKey::ContextMaxTokens)),
        skeleton_ratio: ratio(settings, SettingKey::ContextSkeletonRatio),
        views: Views { default: user.default_view(), ..user.views() },
    };
    let project = |root: &PathBuf| ProjectSettings {
        views: ContextLevel { settings, root: Some(root) }.views(),
        index: index(settings, root),
    };
    ContextSettings {
        pipeline,
        deadline: span(settings.get(SettingKey::ContextDeadline).0),
        projects: roots.iter().map(project).collect(),
        notes: unused(settings),
    }
}

/// Returns warnings about settings that have no effect: nothing is sent anywhere.
fn unused(settings: &Settings) -> Vec<String> {
    let keys = [SettingKey::ContextEmbeddingUrl, SettingKey::ContextEmbeddingModel];
    let set = keys.into_iter().filter(|key| *settings.get(*key).0 != key.entry().default_value());
    set.map(|key| {
        format!("`{}` is not used: no embedder is built in yet, and nothing is sent", key.entry().name)
    })
    .collect()
}

/// Returns the setup of a process's contexts.
pub fn contexts_setup(settings: &Settings, rules: FileRules) -> ContextsSetup {
    let hidden = hidden_and_shown::hidden(settings, &rules.env);
    // A strategy never has longer than all of them.
    let deadline = span(settings.get(SettingKey::ContextDeadline).0);
    let executor = ExecutorConfig {
        max_workers: usize::try_from(settings.count(SettingKey::ContextMaxWorkers)).unwrap_or(1),
        deadline,
        strategy_deadline: span(settings.get(SettingKey::ContextStrategyDeadline).0).min(deadline),
    };
    let memory = settings.count(SettingKey::ContextMemoryMb).saturating_mul(MB);
    ContextsSetup {
        executor,
        breakers: breakers(settings),
        memory_bytes_max: usize::try_from(memory).unwrap_or(usize::MAX),
        rules: std::sync::Arc::new(rules),
        hidden,
    }
}

/// Returns the number of failures that a provider or a strategy may have, and the time for which it then
/// rests. No rest is shorter than the first.
pub fn breakers(settings: &Settings) -> BreakerConfig {
    let usual = BreakerConfig::default();
    let cool_down = Duration::from_secs(settings.count(SettingKey::BreakerCoolDown));
    BreakerConfig {
        threshold: u32::try_from(settings.count(SettingKey::BreakerThreshold)).unwrap_or(usual.threshold),
        cool_down,
        cool_down_max: usual.cool_down_max.max(cool_down),
        ..usual
    }
}

fn weights(settings: &Settings) -> std::collections::BTreeMap<Name, f32> {
    let set = ENTRIES.iter().filter_map(|entry| {
        let name = entry.name.strip_prefix(WEIGHTS)?.parse().ok()?;
        Some((name, ratio(settings, entry.key)))
    });
    set.collect()
}

fn index(settings: &Settings, root: &Path) -> IndexConfig {
    let count = |key: SettingKey| match of_project(settings, key, root) {
        SettingValue::Count(count) => count,
        SettingValue::Word(_)
        | SettingValue::Span(_)
        | SettingValue::Words(_)
        | SettingValue::Path(_)
        | SettingValue::Money(_)
        | SettingValue::Decimal(_)
        | SettingValue::Inherit
        | SettingValue::Invariants(_) => 0,
    };
    IndexConfig {
        file_bytes_max: count(SettingKey::ContextIndexMaxFileKb).saturating_mul(KB),
        files_max: usize::try_from(count(SettingKey::ContextIndexMaxFiles)).unwrap_or(usize::MAX),
        disk_bytes_max: count(SettingKey::ContextIndexMaxMb).saturating_mul(MB),
        keep_days: small(count(SettingKey::ContextIndexKeepDays)),
        update_deadline: span(&of_project(settings, SettingKey::ContextIndexUpdateDeadline, root)),
        history_commits: small(count(SettingKey::ContextHistoryCommits)),
        ..IndexConfig::default()
    }
}

/// Returns the value that applies to one project, whatever others say.
fn of_project(settings: &Settings, key: SettingKey, root: &Path) -> SettingValue {
    let user = ContextLevel { settings, root: None }.said(key).cloned();
    let user = user.unwrap_or_else(|| key.entry().default_value());
    let project = ContextLevel { settings, root: Some(root) };
    match project.said(key) {
        Some(theirs) if key.entry().scope == SettingScope::Tighten => {
            key.entry().shape.tightened(&user, theirs)
        }
        Some(_) | None => user,
    }
}

fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn span(value: &SettingValue) -> Duration {
    match value {
        SettingValue::Span(span) => *span,
        SettingValue::Word(_)
        | SettingValue::Count(_)
        | SettingValue::Words(_)
        | SettingValue::Path(_)
        | SettingValue::Money(_)
        | SettingValue::Decimal(_)
        | SettingValue::Inherit
        | SettingValue::Invariants(_) => Duration::ZERO,
    }
}

fn ratio(settings: &Settings, key: SettingKey) -> f32 {
    match settings.get(key).0 {
        SettingValue::Decimal(hundredths) => *hundredths as f32 / 100.0,
        SettingValue::Word(_)
        | SettingValue::Count(_)
        | SettingValue::Span(_)
        | SettingValue::Words(_)
        | SettingValue::Path(_)
        | SettingValue::Money(_)
        | SettingValue::Inherit
        | SettingValue::Invariants(_) => 0.0,
    }
}

/// The settings of one level: the user, or the project at `root`.
#[derive(Clone, Copy)]
struct ContextLevel<'a> {
    settings: &'a Settings,
    root: Option<&'a Path>,
}

/// The settings of one view.
struct ViewKeys {
    include: SettingKey,
    exclude: SettingKey,
    max_file_kb: SettingKey,
    max_files: SettingKey,
    max_tokens: SettingKey,
    strategies: SettingKey,
}

const EXECUTE: ViewKeys = ViewKeys {
    include: SettingKey::ContextViewExecuteInclude,
    exclude: SettingKey::ContextViewExecuteExclude,
    max_file_kb: SettingKey::ContextViewExecuteMaxFileKb,
    max_files: SettingKey::ContextViewExecuteMaxFiles,
    max_tokens: SettingKey::ContextViewExecuteMaxTokens,
    strategies: SettingKey::ContextViewExecuteStrategies,
};
const STRATEGIZE: ViewKeys = ViewKeys {
    include: SettingKey::ContextViewStrategizeInclude,
    exclude: SettingKey::ContextViewStrategizeExclude,
    max_file_kb: SettingKey::ContextViewStrategizeMaxFileKb,
    max_files: SettingKey::ContextViewStrategizeMaxFiles,
    max_tokens: SettingKey::ContextViewStrategizeMaxTokens,
    strategies: SettingKey::ContextViewStrategizeStrategies,
};
const DEFAULT: ViewKeys = ViewKeys {
    include: SettingKey::ContextInclude,
    exclude: SettingKey::ContextExclude,
    max_file_kb: SettingKey::ContextIndexMaxFileKb,
    max_files: SettingKey::ContextMaxFiles,
    max_tokens: SettingKey::ContextMaxTokens,
    strategies: SettingKey::ContextStrategies,
};

impl<'a> ContextLevel<'a> {
    /// Its own word; of the user, who has several, the strongest, the default included.
    fn said(self, key: SettingKey) -> Option<&'a SettingValue> {
        let is_its = |origin: &SettingOrigin| match (origin, self.root) {
            (SettingOrigin::Project(SettingLocation::Line { file, .. }), Some(root)) => {
                *file == root.join(PROJECT_FILE)
            }
            (SettingOrigin::Project(_), _) => false,
            (
                SettingOrigin::Flag
                | SettingOrigin::Environment { .. }
                | SettingOrigin::User(_)
                | SettingOrigin::Default,
                root,
            ) => root.is_none(),
        };
        self.settings.levels(key).iter().find(|level| is_its(&level.origin)).map(|level| &level.value)
    }

    fn words(self, key: SettingKey) -> Option<Vec<String>> {
        match self.said(key)? {
            SettingValue::Words(words) => Some(words.clone()),
            SettingValue::Word(_)
            | SettingValue::Count(_)
            | SettingValue::Span(_)
            | SettingValue::Path(_)
            | SettingValue::Money(_)
            | SettingValue::Decimal(_)
            | SettingValue::Inherit
            | SettingValue::Invariants(_) => None,
        }
    }

    fn count(self, key: SettingKey) -> Option<u32> {
        match self.said(key)? {
            SettingValue::Count(count) => Some(small(*count)),
            SettingValue::Word(_)
            | SettingValue::Span(_)
            | SettingValue::Words(_)
            | SettingValue::Path(_)
            | SettingValue::Money(_)
            | SettingValue::Decimal(_)
            | SettingValue::Inherit
            | SettingValue::Invariants(_) => None,
        }
    }

    fn names(self, key: SettingKey) -> Option<Vec<Name>> {
        let words = self.words(key)?;
        Some(words.iter().filter_map(|word| word.parse().ok()).collect())
    }

    fn views(self) -> Views {
        Views {
            default: self.view(&DEFAULT),
            strategize: self.view(&STRATEGIZE),
            execute: self.view(&EXECUTE),
        }
    }

    fn view(self, keys: &ViewKeys) -> ViewRules {
        ViewRules {
            include: self.words(keys.include),
            exclude: self.words(keys.exclude).unwrap_or_default(),
            max_file_kb: self.count(keys.max_file_kb),
            max_files: self.count(keys.max_files),
            max_tokens: self.count(keys.max_tokens),
            strategies: self.names(keys.strategies),
        }
    }

    /// Returns the user's default view. Its tokens and strategies are the pipeline's default if no view sets
    /// them, and no bound.
    fn default_view(self) -> ViewRules {
        ViewRules { max_tokens: None, strategies: None, ..self.view(&DEFAULT) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    struct ContextFixture {
        dir: TempDir,
        roots: Vec<PathBuf>,
    }

    impl ContextFixture {
        fn new(projects: &[&str]) -> ContextFixture {
            let dir = TempDir::new().unwrap();
            let mut roots = Vec::new();
            for (no, text) in projects.iter().enumerate() {
                let root = dir.path().join(no.to_string());
                fs::create_dir_all(root.join(".cleveragents")).unwrap();
                fs::write(root.join(PROJECT_FILE), text).unwrap();
                roots.push(root);
            }
            ContextFixture { dir, roots }
        }

        fn rules(&self, user: &str) -> Result<ContextSettings, String> {
            let file = self.dir.path().join("user.toml");
            fs::write(&file, user).unwrap();
            let rules = FileRules { env: Env::new(), user_file: Some(file) };
            rules.rules(&self.roots).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn nothing_set_is_what_is_built_in() {
        let found = ContextFixture::new(&[""]).rules("").unwrap();
        let mut built_in = PipelineConfig::default();
        built_in.strategies.sort();
        assert_eq!(found.pipeline.strategies, built_in.strategies);
        assert_eq!(found.pipeline.max_tokens, built_in.max_tokens);
        assert_eq!(found.pipeline.skeleton_ratio, built_in.skeleton_ratio);
        assert_eq!(found.deadline, ExecutorConfig::default().deadline);
        assert_eq!(found.projects[0].index, IndexConfig::default());
        assert_eq!(found.projects[0].views, Views::default());
        let built_in = engine::context::built_in_strategies().into_iter().collect();
        assert_eq!(found.pipeline.weights, built_in, "and each strategy has its setting");
    }

    #[test]
    fn a_project_narrows_its_own_files_and_no_others() {
        let world = ContextFixture::new(&[
            "[context]\nexclude = [\"a\"]\ninclude = [\"src/**\"]\nmax_tokens = 99999\nindex.max_file_kb = 8\n",
            "[context]\nhistory_commits = 7\nstrategies = [\"simple-keyword\"]\nview.execute.max_files = 3\n",
        ]);
        let found = world.rules("[context]\nexclude = [\"u\"]\nindex.max_file_kb = 64\n").unwrap();
        let user = &found.pipeline.views.default;
        assert_eq!((user.exclude.clone(), user.max_tokens), (vec!["u".to_owned()], None));
        let [one, two] = &found.projects[..] else { panic!("two projects") };
        assert_eq!(one.views.default.exclude, ["a"]);
        assert_eq!(one.views.default.include, Some(vec!["src/**".to_owned()]));
        assert_eq!((one.index.file_bytes_max, two.index.file_bytes_max), (8 * 1024, 64 * 1024));
        assert_eq!((one.index.history_commits, two.index.history_commits), (2000, 7));
        assert_eq!((one.views.execute.max_files, two.views.execute.max_files), (None, Some(3)));
        assert_eq!(found.pipeline.max_tokens, 16_384, "a project lifts nothing");
        assert_eq!(found.pipeline.strategies.len(), 4, "what the second leaves out the first still has");
    }

    #[test]
    fn what_belongs_to_the_process_no_project_sets() {
        for line in ["memory_mb = 1", "index.max_mb = 1", "index.keep_days = 1", "max_workers = 1"] {
            let said = ContextFixture::new(&[&format!("[context]\n{line}\n")]).rules("").unwrap_err();
            assert!(said.contains("cannot be set by a project"), "{line}: {said}");
        }
    }

    #[test]
    fn where_texts_are_embedded_only_the_user_says_and_is_told_that_nobody_does_it_yet() {
        for key in ["url = \"http://x\"", "model = \"m\""] {
            let text = format!("[context.embedding]\n{key}\n");
            let said = ContextFixture::new(&[&text]).rules("").unwrap_err();
            assert!(said.contains("cannot be set by a project"), "{said}");
            let notes = ContextFixture::new(&[""]).rules(&text).unwrap().notes;
            assert!(notes.len() == 1 && notes[0].contains("no embedder is built in yet"), "{notes:?}");
        }
        assert_eq!(ContextFixture::new(&[""]).rules("").unwrap().notes, Vec::<String>::new());
    }
}
