//! The one table of settings.
//!
//! # Invariants
//! 1. Every [`Key`] has exactly one entry, at its own place in [`ENTRIES`]; names and environment names are unique.
//! 2. A default is a value that its own entry allows.

use super::context_entries::CONTEXT;
use super::value::{Shape, Value};

/// Who may set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Anybody; a project decides over its user.
    Anybody,
    /// The user only: a project's file that names it is refused.
    User,
    /// The user; a project can only make it stricter.
    Tighten,
    /// Everybody: what the levels name adds up, and none takes away what another named.
    Joined,
}

impl Scope {
    /// The scope in words, for lists.
    pub const fn shown(self) -> &'static str {
        match self {
            Scope::Anybody => "user or project",
            Scope::User => "user only",
            Scope::Tighten => "user; a project may tighten",
            Scope::Joined => "user and project together",
        }
    }
}

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is told by the doc line of its entry")]
pub enum Key {
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

/// What is known of a setting.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Which.
    pub key: Key,
    /// Its name in files and commands.
    pub name: &'static str,
    /// What it can be.
    pub shape: Shape,
    /// What it is when nobody set it, as it would be typed.
    pub default: &'static str,
    /// Who may set it.
    pub scope: Scope,
    /// What it does, in one line.
    pub doc: &'static str,
}

impl Key {
    /// What is known of it.
    pub fn entry(self) -> &'static Entry {
        // A test holds the table against the enum: each key stands at its own place.
        &ENTRIES[self as usize]
    }
}

impl Entry {
    /// The variable that sets it: `.` and `-` become `_`, in capitals, after `CLEVERAGENTS_`.
    pub fn env_name(&self) -> String {
        format!("CLEVERAGENTS_{}", self.name.replace(['.', '-'], "_").to_uppercase())
    }

    /// What it is when nobody set it.
    pub fn default_value(&self) -> Value {
        // A test holds every default against its shape, so the second half is never taken.
        self.shape.parse(self.default).unwrap_or_else(|_| Value::Word(self.default.to_owned()))
    }
}

/// The entry with this name.
pub fn entry_named(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// All settings, by name.
pub static ENTRIES: [Entry; 83] = joined([&BEFORE_CONTEXT, &CONTEXT, &AFTER_CONTEXT]);

/// The parts of the table as one.
const fn joined<const ALL: usize>(parts: [&[Entry]; 3]) -> [Entry; ALL] {
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

const BEFORE_CONTEXT: [Entry; 12] = [
    Entry {
        key: Key::ActorDefault,
        name: "actor.default",
        shape: Shape::Name,
        default: "",
        scope: Scope::Anybody,
        doc: "the actor that does what names no other, like codex or coder",
    },
    Entry {
        key: Key::ActorStrategist,
        name: "actor.strategist",
        shape: Shape::Name,
        default: "",
        scope: Scope::Anybody,
        doc: "the actor that thinks before another works, or none; `strategist` when empty and `model.default` is set",
    },
    Entry {
        key: Key::ApplyRecheck,
        name: "apply.recheck",
        shape: Shape::Word(&["auto", "always", "never"]),
        default: "auto",
        scope: Scope::User,
        doc: "when an apply runs the required checks again on the merged tree: auto, if your tree or the choice is not the one they passed on",
    },
    Entry {
        key: Key::AsyncDrain,
        name: "async.drain",
        shape: Shape::Span { min_s: 0, max_s: 3_600 },
        default: "30s",
        scope: Scope::User,
        doc: "how long a worker that is told to stop lets its plans finish before it gives them back",
    },
    Entry {
        key: Key::AsyncLease,
        name: "async.lease",
        shape: Shape::Span { min_s: 5, max_s: 3_600 },
        default: "30s",
        scope: Scope::User,
        doc: "how long a worker that is not heard of owns its plans; it is heard of six times as often",
    },
    Entry {
        key: Key::AsyncMaxWorkers,
        name: "async.max_workers",
        shape: Shape::Count { min: 1, max: 1024 },
        default: "4",
        scope: Scope::User,
        doc: "how many plans one worker process works on at once",
    },
    Entry {
        key: Key::Automation,
        name: "automation",
        shape: Shape::Profile,
        default: "review",
        scope: Scope::Tighten,
        doc: "what goes on without asking: `auto` also applies what its required validations passed",
    },
    Entry {
        key: Key::BreakerCoolDown,
        name: "breaker.cool_down",
        shape: Shape::Span { min_s: 1, max_s: 86_400 },
        default: "30s",
        scope: Scope::User,
        doc: "how long a model's provider, or a strategy of contexts, that failed too often is not asked; twice as long each further time",
    },
    Entry {
        key: Key::BreakerThreshold,
        name: "breaker.threshold",
        shape: Shape::Count { min: 1, max: 1_000 },
        default: "3",
        scope: Scope::User,
        doc: "how many failures in a row are too often for a model's provider, or a strategy of contexts",
    },
    Entry {
        key: Key::CaptureIgnore,
        name: "capture.ignore",
        shape: Shape::Words,
        default: "@gitignored",
        scope: Scope::Anybody,
        doc: "files that are counted and not captured: globs, or @gitignored",
    },
    Entry {
        key: Key::CaptureMaxFileMb,
        name: "capture.max_file_mb",
        shape: Shape::Count { min: 1, max: 1_048_576 },
        default: "1024",
        scope: Scope::Anybody,
        doc: "larger files are named, but their content is not kept",
    },
    Entry {
        key: Key::CaptureWait,
        name: "capture.wait",
        shape: Shape::Span { min_s: 0, max_s: 300 },
        default: "2m",
        scope: Scope::User,
        doc: "how long it may take to capture what a command changed that was stopped; then its sandbox is kept",
    },
];

const AFTER_CONTEXT: [Entry; 35] = [
    Entry {
        key: Key::Invariants,
        name: "invariants",
        shape: Shape::Invariants,
        default: "",
        scope: Scope::Joined,
        doc: "what must hold of every plan's changes: sentences for models, and rules that are checked; all levels add up",
    },
    Entry {
        key: Key::IsolationAllowLoopback,
        name: "isolation.allow_loopback",
        shape: Shape::Words,
        default: "",
        scope: Scope::User,
        doc: "ports of this machine that commands with the network may reach, like 11434 for a local model",
    },
    Entry {
        key: Key::IsolationHide,
        name: "isolation.hide",
        shape: Shape::Words,
        default: "@credentials",
        scope: Scope::User,
        doc: "paths that commands, tools and contexts never see, even below a shown one: @credentials is the built-in list",
    },
    Entry {
        key: Key::IsolationIoUring,
        name: "isolation.io_uring",
        shape: Shape::Word(&["refuse", "allow"]),
        default: "refuse",
        scope: Scope::User,
        doc: "whether commands of a plan may use io_uring, as with `--io-uring`",
    },
    Entry {
        key: Key::IsolationScratch,
        name: "isolation.scratch",
        shape: Shape::Words,
        default: "~/.cache,~/.cargo,~/.npm,~/go",
        scope: Scope::User,
        doc: "paths of which commands of a plan get a throw-away copy to write to",
    },
    Entry {
        key: Key::IsolationShow,
        name: "isolation.show",
        shape: Shape::Words,
        default: "@toolchains",
        scope: Scope::User,
        doc: "paths of your home that commands see, read-only: @toolchains is the built-in list, ~ shows all of it",
    },
    Entry {
        key: Key::IsolationUnixSockets,
        name: "isolation.unix_sockets",
        shape: Shape::Word(&["refuse", "allow"]),
        default: "refuse",
        scope: Scope::User,
        doc: "whether commands of a plan may speak to sockets of programs outside, as with `--unix-sockets`",
    },
    Entry {
        key: Key::LimitsCost,
        name: "limits.cost",
        shape: Shape::Money,
        default: "10.00",
        scope: Scope::Tighten,
        doc: "what a plan may spend on models all in all, in dollars; a model without a known price is not counted",
    },
    Entry {
        key: Key::LimitsDayCost,
        name: "limits.day_cost",
        shape: Shape::Money,
        default: "none",
        scope: Scope::User,
        doc: "what all plans together may spend on models in one day (UTC), in dollars",
    },
    Entry {
        key: Key::LimitsDisk,
        name: "limits.disk",
        shape: Shape::Count { min: 0, max: 1_048_576 },
        default: "256",
        scope: Scope::User,
        doc: "a command that leaves less than this free on a disk is ended, in MB; 0 lets it fill the disk",
    },
    Entry {
        key: Key::LimitsMemory,
        name: "limits.memory",
        shape: Shape::Count { min: 0, max: 1_073_741_824 },
        default: "0",
        scope: Scope::User,
        doc: "how much memory a command may use, in MB, half of it for /tmp and the like; 0: three quarters of the machine's",
    },
    Entry {
        key: Key::LimitsParallel,
        name: "limits.parallel",
        shape: Shape::Count { min: 1, max: 32 },
        default: "4",
        scope: Scope::Tighten,
        doc: "how many nodes of a plan run beside each other",
    },
    Entry {
        key: Key::LimitsProcesses,
        name: "limits.processes",
        shape: Shape::CountOrAny { max: 4_194_304 },
        default: "8192",
        scope: Scope::User,
        doc: "how many processes and threads a command may have at once; 0 for no bound",
    },
    Entry {
        key: Key::LimitsSteps,
        name: "limits.steps",
        shape: Shape::Count { min: 1, max: 1_000_000_000 },
        default: "200",
        scope: Scope::Tighten,
        doc: "how many steps a plan may run all in all; to try one again is none",
    },
    Entry {
        key: Key::LimitsTime,
        name: "limits.time",
        shape: Shape::Span { min_s: 1, max_s: 30 * 86_400 },
        default: "2h",
        scope: Scope::Tighten,
        doc: "how long a plan may work all in all",
    },
    Entry {
        key: Key::LimitsTokens,
        name: "limits.tokens",
        shape: Shape::Count { min: 0, max: 1_000_000_000_000 },
        default: "5000000",
        scope: Scope::Tighten,
        doc: "how many tokens models may read and write for a plan all in all; 0 asks none",
    },
    Entry {
        key: Key::LimitsToolCalls,
        name: "limits.tool_calls",
        shape: Shape::Count { min: 1, max: 1_000_000_000 },
        default: "1000",
        scope: Scope::Tighten,
        doc: "how many tools a plan may call all in all, commands and checks",
    },
    Entry {
        key: Key::ModelDefault,
        name: "model.default",
        shape: Shape::Model,
        default: "",
        scope: Scope::Anybody,
        doc: "the model that actors use which name none, as PROVIDER/NAME",
    },
    Entry {
        key: Key::NotifyBell,
        name: "notify.bell",
        shape: Shape::Word(&["off", "on"]),
        default: "on",
        scope: Scope::User,
        doc: "whether `top` and `plan watch` ring when a plan comes to need you",
    },
    Entry {
        key: Key::NotifyCommand,
        name: "notify.command",
        shape: Shape::Words,
        default: "",
        scope: Scope::User,
        doc: "what a worker runs when a plan needs you, the news as its last argument: notify-send",
    },
    Entry {
        key: Key::PathsProtected,
        name: "paths.protected",
        shape: Shape::Words,
        default: "",
        scope: Scope::Tighten,
        doc: "files and directories that are never written, beside .git and its like: patterns as in a .gitignore",
    },
    Entry {
        key: Key::PlanConcurrency,
        name: "plan.concurrency",
        shape: Shape::Count { min: 1, max: 1024 },
        default: "4",
        scope: Scope::User,
        doc: "how many plans work at once; the rest wait in order",
    },
    Entry {
        key: Key::PolicyDenyTools,
        name: "policy.deny_tools",
        shape: Shape::Words,
        default: "",
        scope: Scope::Joined,
        doc: "tools that no plan may call: names, groups like shell, SERVER.TOOL or SERVER.*; all levels add up",
    },
    Entry {
        key: Key::PolicyNetwork,
        name: "policy.network",
        shape: Shape::Word(&["never", "declared"]),
        default: "declared",
        scope: Scope::User,
        doc: "whether a plan that asks for the network gets it",
    },
    Entry {
        key: Key::PolicySandbox,
        name: "policy.sandbox",
        shape: Shape::Word(&["required", "landlock", "optional"]),
        default: "required",
        scope: Scope::User,
        doc: "what has to keep commands apart: namespaces, or, where those do not work, Landlock alone, or nothing",
    },
    Entry {
        key: Key::PolicyTrust,
        name: "policy.trust",
        shape: Shape::Word(&["ask", "all"]),
        default: "ask",
        scope: Scope::User,
        doc: "whether checks, actions and actors of a project need your trust before they run in the sandbox; what they ask for beyond it always does",
    },
    Entry {
        key: Key::RecoveryMaxRetriesPerPlan,
        name: "recovery.max_retries_per_plan",
        shape: Shape::Count { min: 0, max: 1000 },
        default: "30",
        scope: Scope::Anybody,
        doc: "how often the steps of a plan are tried again all in all; then it asks",
    },
    Entry {
        key: Key::RecoveryMaxRetriesPerStep,
        name: "recovery.max_retries_per_step",
        shape: Shape::Count { min: 0, max: 100 },
        default: "3",
        scope: Scope::Anybody,
        doc: "how often a step is tried again after an error that may pass by itself",
    },
    Entry {
        key: Key::RetentionDays,
        name: "retention.days",
        shape: Shape::Count { min: 1, max: 36_500 },
        default: "30",
        scope: Scope::User,
        doc: "how long finished plans and what undoes them are kept",
    },
    Entry {
        key: Key::RetentionMaxMb,
        name: "retention.max_mb",
        shape: Shape::Count { min: 1, max: 1_048_576 },
        default: "5120",
        scope: Scope::User,
        doc: "above this the oldest finished plans go first",
    },
    Entry {
        key: Key::SandboxCopyMaxFiles,
        name: "sandbox.copy_max_files",
        shape: Shape::Count { min: 1, max: 1_000_000_000 },
        default: "500000",
        scope: Scope::User,
        doc: "how many files a sandbox may have that is a copy of the project",
    },
    Entry {
        key: Key::SandboxCopyMaxMb,
        name: "sandbox.copy_max_mb",
        shape: Shape::Count { min: 1, max: 1_000_000_000 },
        default: "8192",
        scope: Scope::User,
        doc: "how many megabytes a sandbox may have that is a copy of the project",
    },
    Entry {
        key: Key::SandboxDir,
        name: "sandbox.dir",
        shape: Shape::Path,
        default: "",
        scope: Scope::User,
        doc: "where sandboxes lie; in the data directory when empty",
    },
    Entry {
        key: Key::SandboxStrategy,
        name: "sandbox.strategy",
        shape: Shape::Word(&["auto", "overlay", "reflink", "worktree", "copy"]),
        default: "auto",
        scope: Scope::User,
        doc: "the kind of sandbox: the best that works, or only the one that is named",
    },
    Entry {
        key: Key::ValidationFixAttempts,
        name: "validation.fix_attempts",
        shape: Shape::Count { min: 0, max: 10 },
        default: "3",
        scope: Scope::Anybody,
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
        assert_eq!(entry_named("plan.concurrency").map(|entry| entry.key), Some(Key::PlanConcurrency));
    }

    #[test]
    fn no_two_settings_share_a_variable() {
        // The variables that are no settings must not be taken for one either.
        let others = ["CLEVERAGENTS_DATA_DIR", "CLEVERAGENTS_FORMAT"].map(str::to_owned);
        let names: BTreeSet<String> = ENTRIES.iter().map(Entry::env_name).chain(others).collect();
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
