//! The one table of settings.
//!
//! # Invariants
//! 1. Every [`SettingKey`] has exactly one entry, at its own place in [`ENTRIES`]; names and environment
//!    names are unique.
//! 2. A default is a value that its own entry allows.

mod context;

use context::CONTEXT;

use super::value::{SettingValue, ValueShape};

/// The levels that may set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingScope {
    /// The user and a project; the project's value wins.
    Anybody,
    /// The user only: a project's file that names it is refused.
    User,
    /// The user; a project can only make it stricter.
    Tighten,
    /// The user and a project: the values of the levels add up, and none removes a value of another.
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
#[expect(missing_docs, reason = "the doc line of each entry describes it")]
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
    IsolationPassEnv,
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
    OutputPager,
    PathsProtected,
    PlanConcurrency,
    PolicyDenyTools,
    PolicyNetwork,
    PolicySandbox,
    PolicyTrust,
    RecoveryMaxRetriesPerPlan,
    RecoveryMaxRetriesPerStep,
    RecoveryWaitMax,
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
pub static ENTRIES: [SettingEntry; 86] = joined([&BEFORE_CONTEXT, &CONTEXT, &AFTER_CONTEXT]);

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
        doc: "the actor of tasks and actions that name none, like codex or coder",
    },
    SettingEntry {
        key: SettingKey::ActorStrategist,
        name: "actor.strategist",
        shape: ValueShape::Name,
        default: "",
        scope: SettingScope::Anybody,
        doc: "the actor that makes the strategy, or none; `strategist` if empty and `model.default` is set",
    },
    SettingEntry {
        key: SettingKey::ApplyRecheck,
        name: "apply.recheck",
        shape: ValueShape::Word(&["auto", "always", "never"]),
        default: "auto",
        scope: SettingScope::User,
        doc: "when an apply runs the required checks again on the merged files: auto, if your files or the choice differ from those they passed on",
    },
    SettingEntry {
        key: SettingKey::AsyncDrain,
        name: "async.drain",
        shape: ValueShape::Span { min_s: 0, max_s: 3_600 },
        default: "30s",
        scope: SettingScope::User,
        doc: "how long a stopping worker lets its plans finish before it releases them",
    },
    SettingEntry {
        key: SettingKey::AsyncLease,
        name: "async.lease",
        shape: ValueShape::Span { min_s: 5, max_s: 3_600 },
        default: "30s",
        scope: SettingScope::User,
        doc: "how long a worker keeps a plan without renewing its lease (leases are renewed every sixth of this)",
    },
    SettingEntry {
        key: SettingKey::AsyncMaxWorkers,
        name: "async.max_workers",
        shape: ValueShape::Count { min: 1, max: 1024 },
        default: "4",
        scope: SettingScope::User,
        doc: "maximum number of plans that one worker process runs at once",
    },
    SettingEntry {
        key: SettingKey::Automation,
        name: "automation",
        shape: ValueShape::Profile,
        default: "review",
        scope: SettingScope::Tighten,
        doc: "the steps that need no confirmation: `auto` also applies plans whose required validations passed",
    },
    SettingEntry {
        key: SettingKey::BreakerCoolDown,
        name: "breaker.cool_down",
        shape: ValueShape::Span { min_s: 1, max_s: 86_400 },
        default: "30s",
        scope: SettingScope::User,
        doc: "how long a model provider or a context strategy that failed too often is skipped; doubled each further time",
    },
    SettingEntry {
        key: SettingKey::BreakerThreshold,
        name: "breaker.threshold",
        shape: ValueShape::Count { min: 1, max: 1_000 },
        default: "3",
        scope: SettingScope::User,
        doc: "number of failures in a row after which a model provider or a context strategy is skipped",
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
        doc: "larger files are listed, but their content is not stored",
    },
    SettingEntry {
        key: SettingKey::CaptureWait,
        name: "capture.wait",
        shape: ValueShape::Span { min_s: 0, max_s: 300 },
        default: "2m",
        scope: SettingScope::User,
        doc: "how long the capture of the changes of a stopped command may take; after that its sandbox is retained",
    },
];

const AFTER_CONTEXT: [SettingEntry; 38] = [
    SettingEntry {
        key: SettingKey::Invariants,
        name: "invariants",
        shape: ValueShape::Invariants,
        default: "",
        scope: SettingScope::Joined,
        doc: "invariants of the changes of every plan: sentences for models, and rules that are checked; all levels are joined",
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
        doc: "paths that commands, tools and contexts never see, even inside a shown one: @credentials is the built-in list",
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
        key: SettingKey::IsolationPassEnv,
        name: "isolation.pass_env",
        shape: ValueShape::Words,
        default: "@toolchains",
        scope: SettingScope::User,
        doc: "variables that commands of a plan get from your environment: @toolchains is the built-in list, like CARGO_HOME",
    },
    SettingEntry {
        key: SettingKey::IsolationScratch,
        name: "isolation.scratch",
        shape: ValueShape::Words,
        default: "~/.cache,~/.cargo,~/.npm,~/go",
        scope: SettingScope::User,
        doc: "paths of which commands of a plan get a temporary copy to write to",
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
        doc: "whether commands of a plan may connect to sockets of programs outside, as with `--unix-sockets`",
    },
    SettingEntry {
        key: SettingKey::LimitsCost,
        name: "limits.cost",
        shape: ValueShape::Money,
        default: "10.00",
        scope: SettingScope::Tighten,
        doc: "maximum cost of models per plan, in dollars; a model without a known price is not counted",
    },
    SettingEntry {
        key: SettingKey::LimitsDayCost,
        name: "limits.day_cost",
        shape: ValueShape::Money,
        default: "none",
        scope: SettingScope::User,
        doc: "maximum cost of models of all plans in one day (UTC), in dollars",
    },
    SettingEntry {
        key: SettingKey::LimitsDisk,
        name: "limits.disk",
        shape: ValueShape::Count { min: 0, max: 1_048_576 },
        default: "256",
        scope: SettingScope::User,
        doc: "a command that leaves less free space on a disk than this is killed, in MB; 0 for no limit",
    },
    SettingEntry {
        key: SettingKey::LimitsMemory,
        name: "limits.memory",
        shape: ValueShape::Count { min: 0, max: 1_073_741_824 },
        default: "0",
        scope: SettingScope::User,
        doc: "maximum memory of a command, in MB, half of it for /tmp and similar; 0: three quarters of the machine's memory",
    },
    SettingEntry {
        key: SettingKey::LimitsParallel,
        name: "limits.parallel",
        shape: ValueShape::Count { min: 1, max: 32 },
        default: "4",
        scope: SettingScope::Tighten,
        doc: "maximum number of nodes of a plan that run concurrently",
    },
    SettingEntry {
        key: SettingKey::LimitsProcesses,
        name: "limits.processes",
        shape: ValueShape::CountOrAny { max: 4_194_304 },
        default: "8192",
        scope: SettingScope::User,
        doc: "maximum number of processes and threads of a command; 0 for no limit",
    },
    SettingEntry {
        key: SettingKey::LimitsSteps,
        name: "limits.steps",
        shape: ValueShape::Count { min: 1, max: 1_000_000_000 },
        default: "200",
        scope: SettingScope::Tighten,
        doc: "maximum number of steps per plan; retries are not counted",
    },
    SettingEntry {
        key: SettingKey::LimitsTime,
        name: "limits.time",
        shape: ValueShape::Span { min_s: 1, max_s: 30 * 86_400 },
        default: "2h",
        scope: SettingScope::Tighten,
        doc: "maximum working time per plan",
    },
    SettingEntry {
        key: SettingKey::LimitsTokens,
        name: "limits.tokens",
        shape: ValueShape::Count { min: 0, max: 1_000_000_000_000 },
        default: "5000000",
        scope: SettingScope::Tighten,
        doc: "maximum number of tokens that models read and write per plan; 0 calls no model",
    },
    SettingEntry {
        key: SettingKey::LimitsToolCalls,
        name: "limits.tool_calls",
        shape: ValueShape::Count { min: 1, max: 1_000_000_000 },
        default: "1000",
        scope: SettingScope::Tighten,
        doc: "maximum number of tool calls per plan, including commands and checks",
    },
    SettingEntry {
        key: SettingKey::ModelDefault,
        name: "model.default",
        shape: ValueShape::Model,
        default: "",
        scope: SettingScope::Anybody,
        doc: "the model of actors that name none, as PROVIDER/NAME",
    },
    SettingEntry {
        key: SettingKey::NotifyBell,
        name: "notify.bell",
        shape: ValueShape::Word(&["off", "on"]),
        default: "on",
        scope: SettingScope::User,
        doc: "whether `top` and `plan watch` ring the bell when a plan needs you",
    },
    SettingEntry {
        key: SettingKey::NotifyCommand,
        name: "notify.command",
        shape: ValueShape::Words,
        default: "",
        scope: SettingScope::User,
        doc: "the command that a worker runs when a plan needs you, with the message as its last argument: notify-send; a worker reads it when it starts",
    },
    SettingEntry {
        key: SettingKey::OutputPager,
        name: "output.pager",
        shape: ValueShape::Words,
        default: "",
        scope: SettingScope::User,
        doc: "the command that shows long answers at a terminal; nothing: $PAGER, else `less -FRX`; off: none",
    },
    SettingEntry {
        key: SettingKey::PathsProtected,
        name: "paths.protected",
        shape: ValueShape::Words,
        default: "",
        scope: SettingScope::Tighten,
        doc: "files and directories that are never written, in addition to .git and similar: patterns as in .gitignore",
    },
    SettingEntry {
        key: SettingKey::PlanConcurrency,
        name: "plan.concurrency",
        shape: ValueShape::Count { min: 1, max: 1024 },
        default: "4",
        scope: SettingScope::User,
        doc: "maximum number of plans that run at once; the others wait in order",
    },
    SettingEntry {
        key: SettingKey::PolicyDenyTools,
        name: "policy.deny_tools",
        shape: ValueShape::Words,
        default: "",
        scope: SettingScope::Joined,
        doc: "tools that no plan may call: names, groups like shell, SERVER.TOOL or SERVER.*; all levels are joined",
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
        doc: "the isolation that commands require: namespaces, or at least Landlock, or none",
    },
    SettingEntry {
        key: SettingKey::PolicyTrust,
        name: "policy.trust",
        shape: ValueShape::Word(&["ask", "all"]),
        default: "ask",
        scope: SettingScope::User,
        doc: "whether checks, actions and actors of a project need your trust before they run in the sandbox; access beyond the sandbox always does",
    },
    SettingEntry {
        key: SettingKey::RecoveryMaxRetriesPerPlan,
        name: "recovery.max_retries_per_plan",
        shape: ValueShape::Count { min: 0, max: 1000 },
        default: "30",
        scope: SettingScope::Anybody,
        doc: "maximum number of retries per plan; after that it asks you",
    },
    SettingEntry {
        key: SettingKey::RecoveryMaxRetriesPerStep,
        name: "recovery.max_retries_per_step",
        shape: ValueShape::Count { min: 0, max: 100 },
        default: "3",
        scope: SettingScope::Anybody,
        doc: "maximum number of retries per step after a transient error",
    },
    SettingEntry {
        key: SettingKey::RecoveryWaitMax,
        name: "recovery.wait_max",
        shape: ValueShape::Span { min_s: 0, max_s: 86_400 },
        default: "6h",
        scope: SettingScope::Anybody,
        doc: "the longest rate limit of a provider that a detached plan waits for; the time limit does not count that",
    },
    SettingEntry {
        key: SettingKey::RetentionDays,
        name: "retention.days",
        shape: ValueShape::Count { min: 1, max: 36_500 },
        default: "30",
        scope: SettingScope::User,
        doc: "how many days finished plans and their undo journals are stored",
    },
    SettingEntry {
        key: SettingKey::RetentionMaxMb,
        name: "retention.max_mb",
        shape: ValueShape::Count { min: 1, max: 1_048_576 },
        default: "5120",
        scope: SettingScope::User,
        doc: "above this size, the oldest finished plans are removed first",
    },
    SettingEntry {
        key: SettingKey::SandboxCopyMaxFiles,
        name: "sandbox.copy_max_files",
        shape: ValueShape::Count { min: 1, max: 1_000_000_000 },
        default: "500000",
        scope: SettingScope::User,
        doc: "maximum number of files in a sandbox that is a copy of the project",
    },
    SettingEntry {
        key: SettingKey::SandboxCopyMaxMb,
        name: "sandbox.copy_max_mb",
        shape: ValueShape::Count { min: 1, max: 1_000_000_000 },
        default: "8192",
        scope: SettingScope::User,
        doc: "maximum size of a sandbox that is a copy of the project, in MB",
    },
    SettingEntry {
        key: SettingKey::SandboxDir,
        name: "sandbox.dir",
        shape: ValueShape::Path,
        default: "",
        scope: SettingScope::User,
        doc: "the directory of sandboxes; if empty, in the data directory",
    },
    SettingEntry {
        key: SettingKey::SandboxStrategy,
        name: "sandbox.strategy",
        shape: ValueShape::Word(&["auto", "overlay", "reflink", "worktree", "copy"]),
        default: "auto",
        scope: SettingScope::User,
        doc: "the kind of sandbox: the best that works (auto), or exactly this one",
    },
    SettingEntry {
        key: SettingKey::ValidationFixAttempts,
        name: "validation.fix_attempts",
        shape: ValueShape::Count { min: 0, max: 10 },
        default: "3",
        scope: SettingScope::Anybody,
        doc: "how often an actor that can repair its work receives the results of failed checks",
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
