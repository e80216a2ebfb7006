//! The one table of settings.
//!
//! # Invariants
//! 1. Every [`SettingKey`] has exactly one entry, at its own place in [`ENTRIES`]; names and environment
//!    names are unique.
//! 2. A default is a value that its own entry allows.

use super::context_entries::CONTEXT;
use super::value::{SettingValue, ValueShape};

/// The levels that may set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingScope {
    /// Anybody; a project decides over its user.
    Anybody,
    /// The user only: a project's file that names it is refused.
    User,
    /// The user; a project can only make it stricter.
    Tighten,
    /// Everybody: what the levels name adds up, and none takes away what another named.
    Joined,
}

impl SettingScope {
    /// The scope in words, for lists.
    pub const fn shown(self) -> &'static str {
        match self {
            SettingScope::Anybody => "user or project",
            SettingScope::User => "user only",
            SettingScope::Tighten => "user; a project may tighten",
            SettingScope::Joined => "user and project together",
        }
    }
}

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is told by the doc line of its entry")]
pub enum SettingKey {
    ActorDefault,
    ActorStrategist,
    ApplyRecheck,
    AsyncDrain,
    AsyncLease,
    AsyncMaxWorkers,
    Automation,
    BreakerCoolDown,
    BreakerThreshold,
    CaptureIgnore,
    CaptureMaxFileMb,
    CaptureWait,
    ContextDeadline,
    ContextEmbeddingModel,
    ContextEmbeddingUrl,
    ContextExclude,
    ContextHistoryCommits,
    ContextInclude,
    ContextIndexKeepDays,
    ContextIndexMaxFileKb,
    ContextIndexMaxFiles,
    ContextIndexMaxMb,
    ContextIndexUpdateDeadline,
    ContextMaxFiles,
    ContextMaxTokens,
    ContextMaxWorkers,
    ContextMemoryMb,
    ContextSkeletonRatio,
    ContextStrategies,
    ContextStrategyDeadline,
    ContextViewExecuteExclude,
    ContextViewExecuteInclude,
    ContextViewExecuteMaxFileKb,
    ContextViewExecuteMaxFiles,
    ContextViewExecuteMaxTokens,
    ContextViewExecuteStrategies,
    ContextViewStrategizeExclude,
    ContextViewStrategizeInclude,
    ContextViewStrategizeMaxFileKb,
    ContextViewStrategizeMaxFiles,
    ContextViewStrategizeMaxTokens,
    ContextViewStrategizeStrategies,
    ContextWeightArce,
    ContextWeightBreadthDepthNavigator,
    ContextWeightPlanDecisionContext,
    ContextWeightSemanticEmbedding,
    ContextWeightSimpleKeyword,
    ContextWeightTemporalArchaeology,
    Invariants,
    IsolationAllowLoopback,
    IsolationHide,
    IsolationIoUring,
    IsolationScratch,
    IsolationShow,
    IsolationUnixSockets,
    LimitsCost,
    LimitsDayCost,
    LimitsDisk,
    LimitsMemory,
    LimitsParallel,
    LimitsProcesses,
    LimitsSteps,
    LimitsTime,
    LimitsTokens,
    LimitsToolCalls,
    ModelDefault,
    NotifyBell,
    NotifyCommand,
    PathsProtected,
    PlanConcurrency,
    PolicyDenyTools,
    PolicyNetwork,
    PolicySandbox,
    PolicyTrust,
    RecoveryMaxRetriesPerPlan,
    RecoveryMaxRetriesPerStep,
    RetentionDays,
    RetentionMaxMb,
    SandboxCopyMaxFiles,
    SandboxCopyMaxMb,
    SandboxDir,
    SandboxStrategy,
    ValidationFixAttempts,
}

/// The description of a setting.
#[derive(Clone, Copy, Debug)]
pub struct SettingEntry {
    /// The key.
    pub key: SettingKey,
    /// Its name in files and commands.
    pub name: &'static str,
    /// The shape of its values.
    pub shape: ValueShape,
    /// The default value, as it would be typed.
    pub default: &'static str,
    /// The levels that may set it.
    pub scope: SettingScope,
    /// The effect of the setting, in one line.
    pub doc: &'static str,
}

impl SettingKey {
    /// Returns the description of the setting.
    pub fn entry(self) -> &'static SettingEntry {
        // A test holds the table against the enum: each key is at its own place.
        &ENTRIES[self as usize]
    }
}

impl SettingEntry {
    /// The variable that sets it: `.` and `-` become `_`, in capitals, after `CLEVERAGENTS_`.
    pub fn env_name(&self) -> String {
        format!("CLEVERAGENTS_{}", self.name.replace(['.', '-'], "_").to_uppercase())
    }

    /// Returns the default value.
    pub fn default_value(&self) -> SettingValue {
        // A test holds every default against its shape, so the second half is never taken.
        self.shape.parse(self.default).unwrap_or_else(|_| SettingValue::Word(self.default.to_owned()))
    }
}

/// The entry with this name.
pub fn entry_named(name: &str) -> Option<&'static SettingEntry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// All settings, by name.
pub static ENTRIES: [SettingEntry; 83] = joined([&BEFORE_CONTEXT, &CONTEXT, &AFTER_CONTEXT]);

/// The parts of the table as one.
const fn joined<const ALL: usize>(parts: [&[SettingEntry]; 3]) -> [SettingEntry; ALL] {
    let mut all = [parts[0][0]; ALL];
    let (mut part, mut at, mut next) = (0, 0, 0);
    while part < parts.len() {
        if at < parts[part].len() {
            all[next] = parts[part][at];
            (at, next) = (at + 1, next + 1);
        } else {
            (part, at) = (part + 1, 0);
        }
    }
    all
}

const BEFORE_CONTEXT: [SettingEntry; 12] = [
    SettingEntry {
        key: SettingKey::ActorDefault,
        name: "actor.default",
        shape: ValueShape::Name,
        default: "",
        scope: SettingScope::Anybody,
        doc: "the actor that does what names no other, like codex or coder",
    },
    SettingEntry {
        key: SettingKey::ActorStrategist,
        name: "actor.strategist",
        shape: ValueShape::Name,
        default: "",
        scope: SettingScope::Anybody,
        doc: "the actor that thinks before another works, or none; `strategist` when empty and `model.default` is set",
    },
    SettingEntry {
        key: SettingKey::ApplyRecheck,
        name: "apply.recheck",
        shape: ValueShape::Word(&["auto", "always", "never"]),
        default: "auto",
        scope: SettingScope::User,
        doc: "when an apply runs the required checks again on the merged tree: auto, if your tree or the choice is not the one they passed on",
    },
    SettingEntry {
        key: SettingKey::AsyncDrain,
        name: "async.drain",
        shape: ValueShape::Span { min_s: 0, max_s: 3_600 },
        default: "30s",
        scope: SettingScope::User,
        doc: "how long a worker that is told to stop lets its plans finish before it gives them back",
    },
    SettingEntry {
        key: SettingKey::AsyncLease,
        name: "async.lease",
        shape: ValueShape::Span { min_s: 5, max_s: 3_600 },
        default: "30s",
        scope: SettingScope::User,
        doc: "how long a worker that is not heard of owns its plans; it is heard of six times as often",
    },
    SettingEntry {
        key: SettingKey::AsyncMaxWorkers,
        name: "async.max_workers",
        shape: ValueShape::Count { min: 1, max: 1024 },
        default: "4",
        scope: SettingScope::User,
        doc: "how many plans one worker process works on at once",
    },
    SettingEntry {
        key: SettingKey::Automation,
        name: "automation",
        shape: ValueShape::Profile,
        default: "review",
        scope: SettingScope::Tighten,
        doc: "what goes on without asking: `auto` also applies what its required validations passed",
    },
    SettingEntry {
        key: SettingKey::BreakerCoolDown,
        name: "breaker.cool_down",
        shape: ValueShape::Span { min_s: 1, max_s: 86_400 },
        default: "30s",
        scope: SettingScope::User,
        doc: "how long a model's provider, or a strategy of contexts, that failed too often is not asked; twice as long each further time",
    },
    SettingEntry {
        key: SettingKey::BreakerThreshold,
        name: "breaker.threshold",
        shape: ValueShape::Count { min: 1, max: 1_000 },
        default: "3",
        scope: SettingScope::User,
        doc: "how many failures in a row are too often for a model's provider, or a strategy of contexts",
    },
    SettingEntry {
        key: SettingKey::CaptureIgnore,
        name: "capture.ignore",
        shape: ValueShape::Words,
        default: "@gitignored",
        scope: SettingScope::Anybody,
        doc: "files that are counted and not captured: globs, or @gitignored",
    },
    SettingEntry {
        key: SettingKey::CaptureMaxFileMb,
        name: "capture.max_file_mb",
        shape: ValueShape::Count { min: 1, max: 1_048_576 },
        default: "1024",
        scope: SettingScope::Anybody,
        doc: "larger files are named, but their content is not kept",
    },
    SettingEntry {
        key: SettingKey::CaptureWait,
        name: "capture.wait",
        shape: ValueShape::Span { min_s: 0, max_s: 300 },
        default: "2m",
        scope: SettingScope::User,
        doc: "how long it may take to capture what a command changed that was stopped; then its sandbox is kept",
    },
];

const AFTER_CONTEXT: [SettingEntry; 35] = [
    SettingEntry {
        key: SettingKey::Invariants,
        name: "invariants",
        shape: ValueShape::Invariants,
        default: "",
        scope: SettingScope::Joined,
        doc: "what must hold of every plan's changes: sentences for models, and rules that are checked; all levels add up",
    },
    SettingEntry {
        key: SettingKey::IsolationAllowLoopback,
        name: "isolation.allow_loopback",
        shape: ValueShape::Words,
        default: "",
        scope: SettingScope::User,
        doc: "ports of this machine that commands with the network may reach, like 11434 for a local model",
    },
    SettingEntry {
        key: SettingKey::IsolationHide,
        name: "isolation.hide",
        shape: ValueShape::Words,
        default: "@credentials",
        scope: SettingScope::User,
        doc: "paths that commands, tools and contexts never see, even below a shown one: @credentials is the built-in list",
    },
    SettingEntry {
        key: SettingKey::IsolationIoUring,
        name: "isolation.io_uring",
        shape: ValueShape::Word(&["refuse", "allow"]),
        default: "refuse",
        scope: SettingScope::User,
        doc: "whether commands of a plan may use io_uring, as with `--io-uring`",
    },
    SettingEntry {
        key: SettingKey::IsolationScratch,
        name: "isolation.scratch",
        shape: ValueShape::Words,
        default: "~/.cache,~/.cargo,~/.npm,~/go",
        scope: SettingScope::User,
        doc: "paths of which commands of a plan get a throw-away copy to write to",
    },
    SettingEntry {
        key: SettingKey::IsolationShow,
        name: "isolation.show",
        shape: ValueShape::Words,
        default: "@toolchains",
        scope: SettingScope::User,
        doc: "paths of your home that commands see, read-only: @toolchains is the built-in list, ~ shows all of it",
    },
    SettingEntry {
        key: SettingKey::IsolationUnixSockets,
        name: "isolation.unix_sockets",
        shape: ValueShape::Word(&["refuse", "allow"]),
        default: "refuse",
        scope: SettingScope::User,
        doc: "whether commands of a plan may speak to sockets of programs outside, as with `--unix-sockets`",
    },
    SettingEntry {
        key: SettingKey::LimitsCost,
        name: "limits.cost",
        shape: ValueShape::Money,
        default: "10.00",
        scope: SettingScope::Tighten,
        doc: "what a plan may spend on models all in all, in dollars; a model without a known price is not counted",
    },
    SettingEntry {
        key: SettingKey::LimitsDayCost,
        name: "limits.day_cost",
        shape: ValueShape::Money,
        default: "none",
        scope: SettingScope::User,
        doc: "what all plans together may spend on models in one day (UTC), in dollars",
    },
    SettingEntry {
        key: SettingKey::LimitsDisk,
        name: "limits.disk",
        shape: ValueShape::Count { min: 0, max: 1_048_576 },
        default: "256",
        scope: SettingScope::User,
        doc: "a command that leaves less than this free on a disk is ended, in MB; 0 lets it fill the disk",
    },
    SettingEntry {
        key: SettingKey::LimitsMemory,
        name: "limits.memory",
        shape: ValueShape::Count { min: 0, max: 1_073_741_824 },
        default: "0",
        scope: SettingScope::User,
        doc: "how much memory a command may use, in MB, half of it for /tmp and the like; 0: three quarters of the machine's",
    },
    SettingEntry {
        key: SettingKey::LimitsParallel,
        name: "limits.parallel",
        shape: ValueShape::Count { min: 1, max: 32 },
        default: "4",
        scope: SettingScope::Tighten,
        doc: "how many nodes of a plan run beside each other",
    },
    SettingEntry {
        key: SettingKey::LimitsProcesses,
        name: "limits.processes",
        shape: ValueShape::CountOrAny { max: 4_194_304 },
        default: "8192",
        scope: SettingScope::User,
        doc: "how many processes and threads a command may have at once; 0 for no bound",
    },
    SettingEntry {
        key: SettingKey::LimitsSteps,
        name: "limits.steps",
        shape: ValueShape::Count { min: 1, max: 1_000_000_000 },
        default: "200",
        scope: SettingScope::Tighten,
        doc: "how many steps a plan may run all in all; to try one again is none",
    },
    SettingEntry {
        key: SettingKey::LimitsTime,
        name: "limits.time",
        shape: ValueShape::Span { min_s: 1, max_s: 30 * 86_400 },
        default: "2h",
        scope: SettingScope::Tighten,
        doc: "how long a plan may work all in all",
    },
    SettingEntry {
        key: SettingKey::LimitsTokens,
        name: "limits.tokens",
        shape: ValueShape::Count { min: 0, max: 1_000_000_000_000 },
        default: "5000000",
        scope: SettingScope::Tighten,
        doc: "how many tokens models may read and write for a plan all in all; 0 asks none",
    },
    SettingEntry {
        key: SettingKey::LimitsToolCalls,
        name: "limits.tool_calls",
        shape: ValueShape::Count { min: 1, max: 1_000_000_000 },
        default: "1000",
        scope: SettingScope::Tighten,
        doc: "how many tools a plan may call all in all, commands and checks",
    },
    SettingEntry {
        key: SettingKey::ModelDefault,
        name: "model.default",
        shape: ValueShape::Model,
        default: "",
        scope: SettingScope::Anybody,
        doc: "the model that actors use which name none, as PROVIDER/NAME",
    },
    SettingEntry {
        key: SettingKey::NotifyBell,
        name: "notify.bell",
        shape: ValueShape::Word(&["off", "on"]),
        default: "on",
        scope: SettingScope::User,
        doc: "whether `top` and `plan watch` ring when a plan comes to need you",
    },
    SettingEntry {
        key: SettingKey::NotifyCommand,
        name: "notify.command",
        shape: ValueShape::Words,
        default: "",
        scope: SettingScope::User,
        doc: "what a worker runs when a plan needs you, the news as its last argument: notify-send",
    },
    SettingEntry {
        key: SettingKey::PathsProtected,
        name: "paths.protected",
        shape: ValueShape::Words,
        default: "",
        scope: SettingScope::Tighten,
        doc: "files and directories that are never written, beside .git and its like: patterns as in a .gitignore",
    },
    SettingEntry {
        key: SettingKey::PlanConcurrency,
        name: "plan.concurrency",
        shape: ValueShape::Count { min: 1, max: 1024 },
        default: "4",
        scope: SettingScope::User,
        doc: "how many plans work at once; the rest wait in order",
    },
    SettingEntry {
        key: SettingKey::PolicyDenyTools,
        name: "policy.deny_tools",
        shape: ValueShape::Words,
        default: "",
        scope: SettingScope::Joined,
        doc: "tools that no plan may call: names, groups like shell, SERVER.TOOL or SERVER.*; all levels add up",
    },
    SettingEntry {
        key: SettingKey::PolicyNetwork,
        name: "policy.network",
        shape: ValueShape::Word(&["never", "declared"]),
        default: "declared",
        scope: SettingScope::User,
        doc: "whether a plan that asks for the network gets it",
    },
    SettingEntry {
        key: SettingKey::PolicySandbox,
        name: "policy.sandbox",
        shape: ValueShape::Word(&["required", "landlock", "optional"]),
        default: "required",
        scope: SettingScope::User,
        doc: "what has to keep commands apart: namespaces, or, where those do not work, Landlock alone, or nothing",
    },
    SettingEntry {
        key: SettingKey::PolicyTrust,
        name: "policy.trust",
        shape: ValueShape::Word(&["ask", "all"]),
        default: "ask",
        scope: SettingScope::User,
        doc: "whether checks, actions and actors of a project need your trust before they run in the sandbox; what they ask for beyond it always does",
    },
    SettingEntry {
        key: SettingKey::RecoveryMaxRetriesPerPlan,
        name: "recovery.max_retries_per_plan",
        shape: ValueShape::Count { min: 0, max: 1000 },
        default: "30",
        scope: SettingScope::Anybody,
        doc: "how often the steps of a plan are tried again all in all; then it asks",
    },
    SettingEntry {
        key: SettingKey::RecoveryMaxRetriesPerStep,
        name: "recovery.max_retries_per_step",
        shape: ValueShape::Count { min: 0, max: 100 },
        default: "3",
        scope: SettingScope::Anybody,
        doc: "how often a step is tried again after an error that may pass by itself",
    },
    SettingEntry {
        key: SettingKey::RetentionDays,
        name: "retention.days",
        shape: ValueShape::Count { min: 1, max: 36_500 },
        default: "30",
        scope: SettingScope::User,
        doc: "how long finished plans and what undoes them are kept",
    },
    SettingEntry {
        key: SettingKey::RetentionMaxMb,
        name: "retention.max_mb",
        shape: ValueShape::Count { min: 1, max: 1_048_576 },
        default: "5120",
        scope: SettingScope::User,
        doc: "above this the oldest finished plans go first",
    },
    SettingEntry {
        key: SettingKey::SandboxCopyMaxFiles,
        name: "sandbox.copy_max_files",
        shape: ValueShape::Count { min: 1, max: 1_000_000_000 },
        default: "500000",
        scope: SettingScope::User,
        doc: "how many files a sandbox may have that is a copy of the project",
    },
    SettingEntry {
        key: SettingKey::SandboxCopyMaxMb,
        name: "sandbox.copy_max_mb",
        shape: ValueShape::Count { min: 1, max: 1_000_000_000 },
        default: "8192",
        scope: SettingScope::User,
        doc: "how many megabytes a sandbox may have that is a copy of the project",
    },
    SettingEntry {
        key: SettingKey::SandboxDir,
        name: "sandbox.dir",
        shape: ValueShape::Path,
        default: "",
        scope: SettingScope::User,
        doc: "where sandboxes lie; in the data directory when empty",
    },
    SettingEntry {
        key: SettingKey::SandboxStrategy,
        name: "sandbox.strategy",
        shape: ValueShape::Word(&["auto", "overlay", "reflink", "worktree", "copy"]),
        default: "auto",
        scope: SettingScope::User,
        doc: "the kind of sandbox: the best that works, or only the one that is named",
    },
    SettingEntry {
        key: SettingKey::ValidationFixAttempts,
        name: "validation.fix_attempts",
        shape: ValueShape::Count { min: 0, max: 10 },
        default: "3",
        scope: SettingScope::Anybody,
        doc: "how often an actor that can mend is told what the checks found",
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_key_stands_at_its_own_place() {
        for (index, entry) in ENTRIES.iter().enumerate() {
            assert_eq!(entry.key as usize, index, "{}", entry.name);
            assert_eq!(entry.key.entry().name, entry.name);
        }
        assert!(ENTRIES.is_sorted_by_key(|entry| entry.name));
        assert_eq!(entry_named("plan.concurrency").map(|entry| entry.key), Some(SettingKey::PlanConcurrency));
    }

    #[test]
    fn no_two_settings_share_a_variable() {
        // The variables that are no settings must not be taken for one either.
        let others = ["CLEVERAGENTS_DATA_DIR", "CLEVERAGENTS_FORMAT"].map(str::to_owned);
        let names: BTreeSet<String> = ENTRIES.iter().map(SettingEntry::env_name).chain(others).collect();
        assert_eq!(names.len(), ENTRIES.len() + 2);
        assert!(names.contains("CLEVERAGENTS_CAPTURE_MAX_FILE_MB"));
    }

    #[test]
    fn every_default_is_allowed() {
        for entry in &ENTRIES {
            assert!(entry.shape.parse(entry.default).is_ok(), "{}", entry.name);
        }
    }
}
