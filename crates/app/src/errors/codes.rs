//! Every code that a failure can have: its exit status, its cause and its hints, in one table.
//!
//! # Invariants
//! 1. Names are unique, and the table is in the order of exit status and name.
//! 2. `docs/errors.md` is printed from here: see [`markdown`].
//! 3. No other file writes a hint: what is printed is what the table has, with the fields of the failure.
//!
//! # Not here
//! The messages of failures: they name the object, so they are written where it is known.

/// The exit status of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Done.
    Done,
    /// It failed.
    Failed,
    /// It was called wrongly.
    Usage,
    /// The object of the command does not exist.
    NotFound,
    /// A gate or a conflict said no.
    Refused,
    /// It was cancelled.
    Cancelled,
    /// It needs a person.
    NeedsInput,
}

impl Exit {
    /// All of them.
    pub const ALL: [Exit; 7] = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::NotFound,
        Exit::Refused,
        Exit::Cancelled,
        Exit::NeedsInput,
    ];

    /// The number that the shell sees.
    pub const fn number(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::Refused => 4,
            Exit::Cancelled => 5,
            Exit::NeedsInput => 6,
        }
    }

    /// The word that programs read.
    pub const fn word(self) -> &'static str {
        match self {
            Exit::Done => "ok",
            Exit::Failed => "failed",
            Exit::Usage => "usage",
            Exit::NotFound => "not_found",
            Exit::Refused => "refused",
            Exit::Cancelled => "cancelled",
            Exit::NeedsInput => "needs_person",
        }
    }
}

/// A kind of failure.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// Its name, as it is shown and searched for.
    pub name: &'static str,
    /// The exit status that it brings.
    pub exit: Exit,
    /// The time when it happens.
    pub cause: &'static str,
    /// The hint of a failure that names none; `None` if its message says all.
    pub hint: Option<Hint>,
    /// Hints that a failure with this code may name instead, each for one cause.
    pub variants: &'static [Hint],
}

/// Advice in the form of a template: the failure fills in `{field}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint(&'static str);

impl Hint {
    /// Returns the advice with the fields of a failure in it. A field without a value is shown in capitals;
    /// `{apply}` is then the plain command.
    pub fn fill(self, field: &impl Fn(&str) -> Option<String>) -> String {
        let value = |name: &str| match (field(name), name) {
            (Some(value), _) => value,
            (None, "apply") => {
                format!("agents plan apply {}", field("id").unwrap_or_else(|| "ID".to_owned()))
            }
            (None, _) => name.to_uppercase(),
        };
        let mut parts = self.0.split('{');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}').unwrap_or((part, ""));
            text.push_str(&value(name));
            text.push_str(rest);
        }
        text
    }
}

macro_rules! hints {
    ($($name:ident: $text:literal;)*) => {
        /// The advice that several codes share, or that only one cause of a code needs.
        pub mod hints {
            use super::Hint;

            $(
                #[doc = $text]
                pub const $name: Hint = Hint($text);
            )*

            #[cfg(test)]
            pub(super) const ALL: &[Hint] = &[$($name,)*];
        }
    };
}

macro_rules! codes {
    (@hint) => { None };
    (@hint $hint:literal) => { Some(Hint($hint)) };
    ($($exit:ident { $($name:ident: $cause:literal $(=> $hint:literal)? $(or [$($variant:ident),* $(,)?])?;)* })*) => {
        $($(
            #[doc = $cause]
            pub static $name: Code = Code {
                name: stringify!($name),
                exit: Exit::$exit,
                cause: $cause,
                hint: codes!(@hint $($hint)?),
                variants: &[$($(hints::$variant,)*)?],
            };
        )*)*

        /// All of them, by exit status and name.
        pub static CODES: &[&Code] = &[$($(&$name,)*)*];
    };
}

hints! {
    // The plan that failed.
    TRY_AGAIN: "see all errors with `agents plan errors {id}`; try again with `{command}`";
    PARTIAL_OR_AGAIN: "it changed {files}: apply them as they are with `{apply} --partial`, or try again with `agents plan resume {id}`";
    MORE_TIME: "its time limit is {limit}; give it more in a new plan: `{command}`";
    ALLOW_NETWORK: "let it use the network: `{command}`";
    RAISE_SETTING: "raise the limit with `agents config set {setting}`, then run `agents plan resume {id}`";
    SAY_DIFFERENTLY: "say what to do differently: `{command}`; or try again without a change: `agents plan resume {id}`";
    SEE_MACHINE: "see what this machine offers with `agents doctor`; try again with `agents plan resume {id}`";
    CHECK_KEY: "check the key or the permission that the message names, then run `{command}`; a worker has the environment of the shell that started it";
    ASK_AGAIN: "if the cause is outside of the plan, repair it and run `agents plan resume {id}`; otherwise correct the definition, or ask differently, in a new plan: `{command}`";
    ANOTHER_STRATEGY: "the plan needs another strategy, and {why}: say what to do differently, or resume it without a change";
    RESUME_CAPTURES: "a resume captures the changes in the sandbox, within `capture.wait`; the sandbox of a cancelled plan remains until `agents plan gc`";
    WORKERS_DIED: "each process that worked on the plan was killed or crashed, so no other worker takes it: see its output with `agents plan logs {id}`, then try again with `agents plan resume {id}`";
    APPLY_WHEN_REPAIRED: "when the cause is gone, run `{apply}`; or leave the file out with `--reject FILE`";
    RESUME_OR_CANCEL: "continue with `agents plan resume {id}`, or stop it for good with `agents plan cancel {id}`";
    CHECK_OR_REVISE: "see its output with `agents plan logs {id}`; run the check again with `agents plan check {id}`, or say what to change: `agents plan revise {id} \"…\"`";
    CHECK_OR_AGAIN: "see its output with `agents plan logs {id}`; run the check again with `agents plan check {id}`, or all of the work with `agents plan execute {id} --again`";

    // The plan in a state that does not allow this.
    SEE_ERRORS: "see why with `agents plan errors {id}`, then run `agents plan resume {id}`";
    SEE_CONFLICTS: "see them with `agents plan diff {id} --conflicts`, then run `{apply}`";
    APPLY: "apply it with `{apply}`";
    APPLY_AGAIN: "to apply it again, run `agents plan apply {id}`";
    EXECUTE: "execute it with `agents plan execute {id}`";
    UNDO: "to undo it, run `agents plan undo {id}`";
    CHANGES_ARE_STORED: "its changes are stored: `agents plan diff {id}`";
    CONTINUES_WITH_PROMPT: "without `--replan` the plan heeds the text as it continues: `agents plan prompt {id} TEXT`";
    FOLLOW: "follow it with `agents plan watch {id}`";
    WAIT_THEN_UNDO: "wait for it with `agents plan watch {id}`, then run `agents plan undo {id}`; or stop the plan for good with `agents plan cancel {id}`";
    SEE_THEN_APPLY: "see what it has now with `agents plan diff {id}`, then apply it again";
    SEE_LOG: "see what was applied and undone with `agents log`";
    CONFLICT_AT_UNDO: "you edited the same lines since: change them back by hand, then undo again";
    NAME_PLAN: "if you mean that plan, name it: `agents plan status {id}`";
    START_PLAN: "start one with `agents run -- COMMAND`";

    // Hints about the typed command.
    DID_YOU_MEAN: "did you mean `{nearest}`?";
    SEE_HELP: "see `{path} --help`";
    // A remark of the parser about this command line.
    TIP: "{tip}";
    CALLED_AS: "it is called as `{usage}`";
    PLAN_NAMES: "a plan is named by the letters that `agents list` shows, by its whole id, or by @last";
    ONE_AFTER_THE_OTHER: "apply them one after the other";
    COMMAND_LINE: "a command goes after `--`: `{line}`";
    PROGRAM_HERE: "there is a file {program} here: write `-- {line}`";
    REMOVE_LINK: "remove the link, or edit the file that it leads to yourself";
    SET_INSTEAD: "set it without an editor: `agents config set KEY VALUE`";
    SET_EDITOR: "set `VISUAL` or `EDITOR` to the editor to use";
    SET_HOME: "set HOME";
    NAME_DATA_DIR: "name a directory with `--data-dir DIR`";
    OTHER_DATA_DIR: "use another data directory: `--data-dir DIR`";
    LEAVE_ONE_OUT: "leave one of them out";
    PLANS_MADE_CONTINUE: "the plans that were made continue; run the same command again with the lines that are left";
    INPUT_AS_FILE: "write it to a file of the project, and let the command read that";
    SAY_WHAT_TO_DO: "say what is to be done";
    LEAVE_WORD_OUT_OF_STEPS: "leave the word out, `agents run --step CMD`; `--title` sets the title of the plan";
    LEAVE_WORD_OUT: "leave the word out, `agents run -- {program} …`; `--title` sets the title of the plan";
    LEAVE_COMMAND_OUT: "or leave {other} out, and name an actor for the task: `agents run \"TASK\" --actor NAME`";
    COMMAND_AFTER_DASHES: "put it after `--`, like `agents run -- make fix`";
    NAME_ACTION_OR_TASK: "or name an action, or say what is to be done: `agents run \"TASK\" --actor NAME`";
    ONE_SCRIPT: "put several into one script";
    SET_LIKE: "like `agents config set plan.concurrency 8`";
    FOR_EACH_FILE: "name a text file with a line for each plan, or `-` for the standard input";
    FOR_EACH_LINES: "every line that is not empty makes a plan";
    STRATEGY_NAMES: "there are {names}; `all` means every one";
    STARTED_BY_AGENT: "an agent starts this command, not a user: see docs/mcp.md";
    NAME_ACTION: "name the action: `agents run ACTION --arg NAME=VALUE`";
    WRITE_ACTION: "write an action that has arguments";
    CORRECT_LINES: "correct these lines, or leave them out";
    ADDRESS_BY_PATTERN: "a secret in a name is shown as a mark; choose the file by a pattern, such as `*.txt`";
    NEAREST_ADDRESS: "did you mean `{nearest}`? See all addresses with `agents plan diff {id} --stat`";
    NO_CHANGES: "the plan changed nothing";
    TAKE_WHOLE_HUNK: "take the whole hunk: `--take {hunk}`";
    SEE_NAMES: "see all names with `agents plan diff {id} --name-only`";
    SEE_LOOPBACK: "see where it is set: `agents config get isolation.allow_loopback --origin`";
    GIVE_IT_ONCE: "give it once";
    ADD_SYSTEM_PROJECT: "if it is really meant, add `--system-project`";
    APPLY_PARTIAL: "see its changes with `agents plan diff {id}`, and apply them as they are with `{apply} --partial`";
    SAY_OR_NOTE: "say what to change: `agents plan revise {id} \"…\"`, or comment on a place first: `agents plan note {id} PATH:LINE \"…\"`";
    REPLAN: "to have another strategy worked out, run `agents plan prompt {id} \"…\" --replan`";
    SHORTER_PROMPT: "put longer text into a file of the project, and name the file";
    TASK_OF_ONE_WORD: "a task of one word is read from the standard input: `echo {word} | agents run -{by}`";
    COMMAND_OF_ONE_WORD: "a command goes after `--`, like `agents run -- {word}`";
    FILE_PATH: "check the path of the file";
    NAME_FILES_IN_IT: "name files or definitions in it; `context.include` limits the context to a folder";
    NAME_READABLE_PROJECT: "check the permissions of the directory, or name another one";

    // A task that has no actor.
    NAME_RECORDED_ACTOR: "name the actor, like `--actor coder`; set the model with `agents config set model.default=PROVIDER/NAME`";
    RECORD_ANEW: "a new recording names both";
    WITH_KEY: "with a key: `export ANTHROPIC_API_KEY=…`, then the same command again";
    WITH_LOCAL_MODEL: "with a model on this machine: start its server, or `agents config set model.default=ollama/qwen3-coder`";
    WITH_PROGRAM: "with an agent program: `npm install -g @openai/codex`, then `agents config set actor.default=codex`";
    WITH_PROVIDER: "with your provider {provider}: `agents config set providers.{provider}.model=NAME`";
    SEE_ACTORS: "see all actors with `agents actor list`; a command needs no actor: `agents run -- COMMAND`";

    // A plan that cannot start.
    SET_MODEL: "set it: `agents config set model.default=PROVIDER/NAME`";
    SET_PRICE: "set the price in your settings, in dollars for a million tokens: `[prices.\"{model}\"]`, `input = 3`, `output = 15`";
    LIFT_COST: "or remove the limit: `--limit cost=none`";
    LIFT_DAY_COST: "or remove the limit: `agents config set limits.day_cost=none`";
    RECORD_OUTSIDE: "put it outside of the project, like `--record ../run.jsonl`";
    LEAVE_NETWORK_OUT: "leave `--network` out, or allow it: `agents config set policy.network=declared`";
    SEE_INVARIANTS: "see which are set with `agents config get invariants --origin`";
    JOIN_CHECKS: "see all of them with `agents config list`, and join some to one command";
    MAKE_DIRECTORY: "create it first, or leave it out";

    // Files, the store and the machine.
    REDACTION_KEY: "check the permissions of `redaction.key` in the data directory, or use another one: `--data-dir DIR`";
    REVEAL: "to see the changes with their secrets, add `--reveal`";
    DISK_IS_FULL: "see `agents doctor`: the most frequent cause is a full disk of the data directory";
    SEE_DOCTOR_THEN_RETRY: "see `agents doctor`; when the cause is gone, try again";
    EMPTY_DIRECTORY: "name an empty directory, or one that does not exist yet";
    NO_OTHER_AGENTS: "try again when no other `agents` is running";
    CHOOSE_WITH_FLAGS: "choose with `--only` and `--reject`";
    TABLE_ONCE: "print the table once with `agents top --once`";
    MOVE_FILE_AWAY: "move the file away, or use another data directory: `--data-dir DIR`";
    MOVE_LOG_AWAY: "move {log} away, or put the right file in its place: the store is then complete again";
    RECOVER_STORE: "save the readable part with `sqlite3 {path} .recover`, then move the file away; a new store begins empty";
    LOCAL_DIRECTORY: "use a directory on a disk of this machine: `--data-dir DIR`";
    CHECK_STORE_FILE: "check the permissions and the space there, or use another data directory: `--data-dir DIR`";
    FREE_SPACE_AND_RESUME: "free some space on the disk of the data directory, then run `agents plan resume {id}`";
    FREE_SPACE_WITH_GC: "free some space, for example with `agents plan gc`";
    NEXT_WORKER_RESUMES: "the next worker resumes its plans; see `agents doctor`";
    START_WORKER: "plans of the present data directory need a new worker: `agents worker`";
    START_WORKER_WITH_KEYS: "set {keys} and start one with `agents worker`";
    ALLOW_NAMESPACES: "install bubblewrap, or allow user namespaces: `sysctl -w user.max_user_namespaces=10000`, and on Ubuntu 24.04 and later also `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`";
    USE_LANDLOCK: "or use Landlock, which hides less from commands: `agents config set policy.sandbox=landlock`";
    NO_ISOLATION_AT_ALL: "to run without isolation at your own risk: `agents config set policy.sandbox=optional`";
    REMOVE_CAUSE_OR_ABANDON: "remove the cause (often a full disk), then run any command: it continues the apply; or see it with `agents doctor` and give it up with `agents plan gc --set-aside ID`";
    SEE_ABOVE: "the reason and the remedy are printed above";
    COMPARE_WITH_DIFF: "compare your files with `agents plan diff {id}` or your version control, then try again";

    CHECK_NAMES: "its checks are {names}";

    // Cancelled, or waiting for the user.
    TAKE_PART: "see its changes with `agents plan diff {id}`; have them as they are with `agents apply {id} --partial`";
    CONTINUE_OR_DISCARD: "continue from them with `agents plan revise {id} \"…\"`, or throw them away with `agents plan discard {id}`";
    RESUME_OR_REVISE: "continue with `agents plan resume {id}`, or say what to change: `agents plan revise {id} \"…\"`";
    CHECK_LATER: "run them later with `agents plan check {id}`";
    COPY_THEN_CLEAR: "copy what you need from there, then clear it with `agents plan gc`";
    APPLY_LATER: "apply it later with `{apply}`";
    UNDO_LATER: "undo it later with `agents plan undo {id}`";
    CANCEL_QUEUED: "the plans that were made continue; to cancel those that wait, run `agents plan cancel --state queued`";
    CHOOSE_AND_CONFIRM: "choose with `--only` and `--reject`, and add `--yes`";
    SERVER_MAY_APPLY: "the user applies it with `agents plan apply`, or starts the server with `--allow-apply`";
    TRUST_PROJECT: "or trust the whole project: `{command}`; add `--list` to see its files first";
    TRUST_CHECKS: "in the project, see their commands with `agents trust --list`, and trust them with `agents trust`";
    APPLY_RUNS_THEM: "then apply the plan, which runs them first: `{apply}`";
    APPLY_UNCHECKED: "or apply without them: `{apply} --unchecked`";
}

codes! {
    Failed {
        BAD_TRANSITION: "The program asked for a change that the state of the plan does not allow. This is a bug."
            => "please report it, with the output of `agents plan watch {id}`";
        CANCEL_UNCONFIRMED: "The cancel is requested, and the worker that runs the plan has not confirmed it in time."
            => "the worker kills its processes at once and confirms when their changes are stored (`capture.wait`); check with `agents plan status {id}`";
        CHANGES_DAMAGED: "The store holds other changes of a plan than those that were recorded: its file is damaged. Nothing was applied."
            => "restore `agents.db` of the data directory from a backup, or run the work again; all other plans continue";
        COMMAND_FAILED: "A command of the plan failed, or took too long. Its changes are stored; your files are not changed."
            => "see all that it printed with `agents plan logs {id}`; try again with `agents plan resume {id}`" or [
            PARTIAL_OR_AGAIN, MORE_TIME, ALLOW_NETWORK, RAISE_SETTING,
        ];
        INDEX_DIFFERS: "The index of a project differs from an index that is built again. This is a bug, or a fault of the disk."
            => "remove it with `agents context index --clear`, which costs only time; please report it";
        INTERNAL: "This is a bug." => "please report it, with the whole message";
        IO_FAILED: "The system refused to read or write a file." or [
            OTHER_DATA_DIR, REDACTION_KEY, REVEAL, DISK_IS_FULL, SEE_DOCTOR_THEN_RETRY, SET_EDITOR, EMPTY_DIRECTORY, NO_OTHER_AGENTS,
            CHOOSE_WITH_FLAGS, TABLE_ONCE, APPLY_WHEN_REPAIRED,
        ];
        NO_ISOLATION: "Commands cannot be isolated on this machine, and `policy.sandbox` requires isolation."
            => "see the reason and the remedy with `agents doctor`" or [ALLOW_NAMESPACES, USE_LANDLOCK, NO_ISOLATION_AT_ALL];
        NO_SANDBOX: "No kind of sandbox could be opened, or not the one that `sandbox.strategy` names."
            => "see the reasons above; another directory for sandboxes may help: `agents config set sandbox.dir=DIR`";
        PLAN_ERRORED: "A phase of the plan failed, and a retry without a change makes no sense. Your files are not changed."
            => "try again with `agents plan resume {id}`" or [
            TRY_AGAIN, ALLOW_NETWORK, RAISE_SETTING, SAY_DIFFERENTLY, SEE_MACHINE, CHECK_KEY, ASK_AGAIN, ANOTHER_STRATEGY, RESUME_CAPTURES, WORKERS_DIED, APPLY_WHEN_REPAIRED,
            UNDO_LATER,
        ];
        PLAN_UNREADABLE: "A plan in the store cannot be read: a newer version of the program made it, or its row is damaged. The plan was not changed."
            => "use the version of `agents` that made it, probably a newer one; all other plans continue";
        STORE_BUSY: "Another process has locked the store of plans for longer than this one waits. Nothing was changed."
            => "find the process that holds `agents.db` of the data directory (a backup, an open `sqlite3`), then try again";
        STORE_FAILED: "The store of plans cannot be opened, read or written."
            => "see `agents doctor`" or [
            MOVE_FILE_AWAY, MOVE_LOG_AWAY, RECOVER_STORE, LOCAL_DIRECTORY, CHECK_STORE_FILE, FREE_SPACE_AND_RESUME,
            FREE_SPACE_WITH_GC, NEXT_WORKER_RESUMES, START_WORKER,
        ];
        STORE_FULL: "The disk of the store of plans is full. The last write is undone; nothing before it is lost."
            => "free some space on the disk of the data directory, then try again";
        STORE_TOO_NEW: "A newer version of the program has written the store of plans. Nothing was changed."
            => "use the newer `agents`, or another data directory: `--data-dir DIR`";
        UNSUPPORTED: "The program does not work on this system." => "use Linux 5.11 or later";
        WORKER_NOT_STARTED: "A plan waits for a worker: none that can run it is running, and none could be started."
            => "see `logs/worker.log` in the data directory; start one with `agents worker`" or [START_WORKER_WITH_KEYS];
    }
    Usage {
        ACTOR_CYCLE: "Actors contain each other in a cycle." => "break the cycle that the message prints";
        ACTOR_TOO_LARGE: "An actor has more than 500 nodes, or actors are nested deeper than 8." => "make it smaller";
        ARG_INVALID: "An argument of the action breaks a rule of its declaration."
            => "arguments are given as `--arg NAME=VALUE`; see them with `agents action show NAME`" or [CORRECT_LINES];
        ARG_MISSING: "An argument of the action has no default and was not given."
            => "arguments are given as `--arg NAME=VALUE`; see them with `agents action show NAME`";
        ARG_UNKNOWN: "The action has no such argument."
            => "arguments are given as `--arg NAME=VALUE`; see them with `agents action show NAME`" or [NAME_ACTION, WRITE_ACTION];
        CONFIG_FILE_INVALID: "A config file cannot be read as TOML." => "correct the line that the message names" or [REMOVE_LINK];
        CONFIG_KEY_UNKNOWN: "There is no such setting." => "see all settings with `agents config list`" or [DID_YOU_MEAN];
        CONFIG_NOT_ALLOWED_HERE: "The config of a project has a setting that only the user may set."
            => "remove the line; to set it for yourself, run `agents config set {key}=VALUE`";
        CONFIG_VALUE_INVALID: "A setting has a value that is not allowed." or [SEE_LOOPBACK];
        DATA_DIR_FOREIGN: "The directory for the program's data contains other files. Nothing was changed."
            => "name an empty directory, or one that does not exist yet: `--data-dir DIR`";
        DECISION_AMBIGUOUS: "Several decisions begin with the given letters." => "give more letters, or name it as PLAN:NUMBER";
        DECISION_INVALID: "A text for a plan is empty or too long: it has 1 to 16384 bytes." or [SHORTER_PROMPT, SAY_OR_NOTE, REPLAN];
        DEFINITION_INVALID: "A file of an action or an actor is not valid."
            => "docs/actors.md describes all keys; your editor can check them with what `agents schema action` or `agents schema actor` prints";
        DEPTH_UNKNOWN: "There is no such depth.";
        FOCUS_AMBIGUOUS: "The symbol for a context is defined in more than 20 places."
            => "name the file that you mean, or some of its lines: `--focus PATH:FROM-TO`";
        JOB_AMBIGUOUS: "The given letters are the end, or the beginning, of several jobs' ids." => "give more letters of the id";
        LIMIT_TOO_LOW: "A new limit is lower than what the plan has used already."
            => "see what it has used with `agents plan status {id}`";
        NO_ACTOR: "There is a task, and no actor to do it."
            => "name an actor with `--actor NAME`, or for all tasks with `agents config set actor.default=NAME`; see `agents actor list`" or [
            NAME_RECORDED_ACTOR, RECORD_ANEW, WITH_KEY, WITH_LOCAL_MODEL, WITH_PROGRAM, WITH_PROVIDER, SEE_ACTORS,
        ];
        NO_CHECKPOINT: "The plan has no such checkpoint, or no changes after it. Nothing was changed."
            => "see them with `agents plan checkpoints {id}`";
        NO_SUCH_CHECK: "The plan has no check with this name, or none at all. Nothing was run."
            => "a plan gets checks when it is made: `agents run --check COMMAND …`" or [CHECK_NAMES];
        NO_SUCH_NOTE: "The plan has no open note with this number." => "see them with `agents plan notes {id}`";
        NO_SUCH_PLACE: "A note names a place that the plan's changes do not have. Nothing was written."
            => "places are PATH#HUNK, PATH:LINE or PATH:FIRST-LAST, and -PATH:LINE for a line of the old file; see `agents plan diff`";
        NO_SUCH_HUNK: "An address given to `--only`, `--reject` or `--take` matches nothing in the plan's changes."
            => "see the addresses with `agents plan diff {id} --stat`" or [
            ADDRESS_BY_PATTERN, NEAREST_ADDRESS, NO_CHANGES, TAKE_WHOLE_HUNK, SEE_NAMES,
        ];
        PLAN_AMBIGUOUS: "The given letters are the end, or the beginning, of several plans' ids." => "name one of them by the letters before its title";
        PROJECT_ALIAS_TAKEN: "Two projects of a plan have one name."
            => "give one of them another name: `--project OTHER={dir}`";
        PROJECT_IS_SYSTEM: "The project would be a directory of the system, like `/` or `/usr`, or your home. Nothing was done."
            => "go to your project, or name it with `--project DIR`" or [ADD_SYSTEM_PROJECT];
        PROJECT_NESTED: "One project of a plan is inside another, or is given twice." => "give only the outer one" or [GIVE_IT_ONCE];
        STRATEGY_UNKNOWN: "There is no such strategy.";
        TEMPLATE_IN_SHELL: "A placeholder is in a line for the shell, which would read its value as code."
            => "use \"$ARG_NAME\" there, or write the command as a list";
        TEMPLATE_UNKNOWN: "A placeholder names a value that does not exist."
            => "docs/actors.md describes all keys; your editor can check them with what `agents schema action` or `agents schema actor` prints";
        TOOL_ARGUMENTS: "The arguments of a tool do not fit its schema." => "see its arguments with `agents tool show {tool}`";
        USAGE: "The command line cannot be understood." or [
            SEE_HELP, DID_YOU_MEAN, TIP, CALLED_AS, PLAN_NAMES, ONE_AFTER_THE_OTHER, COMMAND_LINE, SET_HOME, NAME_DATA_DIR, LEAVE_ONE_OUT, PLANS_MADE_CONTINUE, SAY_WHAT_TO_DO,
            LEAVE_WORD_OUT_OF_STEPS, LEAVE_WORD_OUT, LEAVE_COMMAND_OUT, COMMAND_AFTER_DASHES, NAME_ACTION_OR_TASK, ONE_SCRIPT, SET_LIKE,
            FOR_EACH_FILE, FOR_EACH_LINES, STRATEGY_NAMES, STARTED_BY_AGENT, INPUT_AS_FILE,
        ];
        VIEW_UNKNOWN: "There is no such view.";
    }
    NotFound {
        ACTION_NOT_FOUND: "There is no action with this name."
            => "see all actions with `agents action list`" or [TASK_OF_ONE_WORD, COMMAND_OF_ONE_WORD, FILE_PATH];
        ACTOR_NOT_FOUND: "There is no actor with this name." => "see all actors with `agents actor list`";
        BATCH_NOT_FOUND: "There is no such batch of plans in this project." => "see the batches with `agents plan list`";
        CALL_NOT_FOUND: "The plan made no tool call with this number." => "see all calls with `agents plan logs {id}`";
        CONTEXT_NOT_FOUND: "The plan has no such context, or the text of the context is no longer stored."
            => "see all of them with `agents context show {id}`";
        DECISION_NOT_FOUND: "There is no such decision."
            => "see the decisions of a plan with `agents plan tree ID`; one is named by its id or as PLAN:NUMBER";
        FOCUS_NOT_FOUND: "The file, the lines or the symbol for a context do not exist."
            => "a path is looked up in the current directory, then in the root of the project" or [DID_YOU_MEAN, NAME_FILES_IN_IT];
        JOB_NOT_FOUND: "There is no such job in this data directory." => "see all jobs with `agents job list --all`";
        NO_OPEN_APPLY: "The plan has no interrupted apply that could be abandoned."
            => "see the open applies with `agents doctor`";
        PLAN_NOT_FOUND: "There is no such plan in this data directory."
            => "see `agents plan list`; a plan is named by the letters that are shown there, by its whole id, or by @last" or [START_PLAN, NAME_PLAN];
        PROJECT_NOT_FOUND: "The directory of a project does not exist, or cannot be entered."
            => "check the path: a project is named by its directory" or [NAME_READABLE_PROJECT];
        TOOL_NOT_FOUND: "There is no tool with this name." => "see all tools with `agents tool list`";
    }
    Refused {
        ALREADY_APPLIED: "The plan is applied already, with another choice of its changes. Nothing was done."
            => "add to it with a choice that has all of it and more; for another one, undo it first with `agents plan undo {id}`, then choose again with `{apply}`";
        BRANCH_EXISTS: "The branch for the plan's commit exists already." => "choose another name: `--branch NAME`";
        BRANCH_MOVED: "The branch that the plan was applied to has other commits by now, which an undo would lose. Nothing was done."
            => "to delete the branch with all its commits, run `git branch -D {branch}`; to undo only the plan, check it out and run `git revert {commit}`";
        CANCEL_TOO_LATE: "The plan is applied already, or an apply can no longer be stopped."
            => "to undo it, run `agents plan undo {id}`";
        CONFLICTS: "The plan's changes conflict with your files. Nothing was written."
            => "see them with `agents plan diff {id} --conflicts`; leave some out with `{apply} --reject {reject}`, take the plan's version with `{apply} --take {take}`, or write both with `{apply} --conflicts markers`" or [
            SEE_CONFLICTS, CONFLICT_AT_UNDO,
        ];
        FOCUS_EXCLUDED: "A context is to contain a file that the view leaves out."
            => "see which pattern leaves it out with `agents config get context.exclude --origin`";
        JOB_FINAL: "The job has ended already." => "see its plan with `agents plan status {id}`";
        CONTENT_GONE: "The content of a changed file is not stored any more, so the plan cannot continue from its changes."
            => "do the work again with `agents plan execute {id} --again`, or start a new plan";
        NOTHING_TO_APPLY: "The plan changed nothing, or nothing was chosen."
            => "to apply nothing without an error, add `--allow-empty`";
        NOT_APPLIED: "The plan is not applied, so there is nothing to undo."
            => "see its state with `agents plan status {id}`" or [APPLY_AGAIN];
        NOT_UNDONE: "The plan is not undone, so there is nothing to redo."
            => "see its state with `agents plan status {id}`" or [SEE_LOG];
        PATH_ESCAPES: "A context is to contain a path that is in none of its projects."
            => "name its project with `--project DIR`";
        PLAN_BUSY: "Another process works on the plan at this moment."
            => "follow it with `agents plan watch {id}`, or stop it with `agents plan cancel {id}`" or [
            CONTINUES_WITH_PROMPT, FOLLOW, WAIT_THEN_UNDO, SEE_THEN_APPLY,
        ];
        PLAN_COMPLETE: "The plan has done its work already, and its changes are stored."
            => "see them with `agents plan diff {id}`, apply them with `{apply}`; to do the work again, run `agents plan execute {id} --again`" or [
            CHECK_OR_REVISE, CHECK_OR_AGAIN,
        ];
        PLAN_FINAL: "The plan is applied or cancelled for good." => "start a new one with `agents run`" or [
            UNDO, CHANGES_ARE_STORED, CONTINUE_OR_DISCARD, APPLY_AGAIN,
        ];
        PLAN_NOT_READY: "The state of the plan does not allow this." => "see its state with `agents plan status {id}`" or [
            RESUME_OR_CANCEL, SEE_ERRORS, SEE_CONFLICTS, APPLY, APPLY_PARTIAL, EXECUTE, CHECK_OR_REVISE, CHECK_OR_AGAIN,
        ];
        PLAN_READ_ONLY: "The plan's action only reads, so there is nothing to apply."
            => "see what it found with `agents plan logs {id}`";
        PREFLIGHT_FAILED: "The plan cannot start as it was asked for. Nothing was stored." or [
            SET_MODEL, SET_PRICE, LIFT_COST, LIFT_DAY_COST, RECORD_OUTSIDE, LEAVE_NETWORK_OUT, SEE_INVARIANTS, JOIN_CHECKS, MAKE_DIRECTORY,
            PROGRAM_HERE,
        ];
        QUEUE_FULL: "Ten thousand plans wait already."
            => "see them with `agents plan list --state queued`; to cancel them all, run `agents plan cancel --state queued --all`";
        RECHECK_FAILED: "A required check passed in the plan's sandbox, and fails on your present files with the plan's changes. Nothing was written."
            => "see the output of the checks with `agents plan logs {id}`; do the work again on your present files with `agents plan execute {id} --again`, or apply it without these checks: `{apply} --no-recheck`";
        REVERSIONS_SPENT: "The plan has begun again with a new strategy as often as it may."
            => "say it without `--replan`, or do the work again: `agents plan execute {id} --again`";
        TOO_LARGE: "A changed file is larger than `capture.max_file_mb`, or could not be read, so its content was not stored."
            => "leave it out with `--reject FILE`, or raise the setting and execute the plan again";
        TREE_MOVING: "Your files changed during every run of the checks, so no result holds for them. Nothing was written."
            => "when no program writes there any more, run `{apply}`; or apply without checks of your present files: `{apply} --no-recheck`";
        UNDO_EXPIRED: "`agents plan gc` has removed the journal that an undo of the plan needs."
            => "use your version control to undo the changes";
        VALIDATION_FAILED: "A required validation failed, so the plan is not applied."
            => "see the output with `agents plan logs {id}`; run the check again with `agents plan check {id}`" or [
            CHECK_OR_REVISE, CHECK_OR_AGAIN,
        ];
        VALIDATION_NOT_RUN: "A required validation has not run for the plan's present changes."
            => "run it with `agents plan check {id}`";
    }
    Cancelled {
        CANCELLED: "A plan, or a search for a context, was cancelled. The changes of the plan so far are stored; your files are not changed." or [
            COPY_THEN_CLEAR, APPLY_LATER, UNDO_LATER, CHECK_LATER, CANCEL_QUEUED, TAKE_PART, CONTINUE_OR_DISCARD,
        ];
        INTERRUPTED: "A signal, like Ctrl-C, interrupted the plan. Its changes so far are stored; your files are not changed."
            => "continue with `agents plan resume {id}`" or [RESUME_OR_REVISE, TAKE_PART, RESUME_CAPTURES];
    }
    NeedsInput {
        CONFIRMATION_NEEDED: "The command changes your files and needs confirmation, and stdin is not a terminal."
            => "add `--yes`" or [CHOOSE_AND_CONFIRM, SERVER_MAY_APPLY, SET_INSTEAD];
        CONFLICT_MARKERS: "The plan was applied with markers around the lines that both you and the plan changed, as you asked. The files are not usable before you edit them."
            => "edit the files and remove the markers; or undo it all with `agents plan undo {id}`";
        CONSENT_NEEDED: "An action or an actor of a project is not trusted yet, or asks for the network, your variables or paths outside of the project, and stdin is not a terminal."
            => "read the file; if you trust it, add `--trust`: you are asked again when it changes" or [TRUST_PROJECT];
        JOURNAL_DAMAGED: "The journal of an apply is damaged: it no longer says what was to be written, or what was there before. Nothing of it was removed."
            => "compare your files with your version control, then try again" or [COMPARE_WITH_DIFF];
        JOURNAL_STUCK: "An interrupted apply can be neither finished nor rolled back."
            => "remove the cause (often a full disk), then run any command: it finishes the apply or rolls it back" or [
            REMOVE_CAUSE_OR_ABANDON, SEE_ABOVE,
        ];
        LIMIT_REACHED: "The plan has used all that a limit allows. Its work so far is stored."
            => "let it use more and continue: `{command}`";
        PLAN_ASKS: "A phase of the plan failed, and the user decides how it continues. Your files are not changed." or [
            TRY_AGAIN, ALLOW_NETWORK, RAISE_SETTING, SAY_DIFFERENTLY, SEE_MACHINE, CHECK_KEY, ASK_AGAIN, WORKERS_DIED, APPLY_WHEN_REPAIRED,
        ];
        PROJECT_HIDDEN: "A project is at a path that is hidden from plans, and stdin is not a terminal."
            => "to work in it, confirm at a terminal, or change `isolation.hide` in your settings";
        PROJECT_NOT_ALLOWED: "A caller of `agents mcp` names a project that the server was not started with."
            => "the user who starts the server may add `--project {dir}` to `agents mcp`";
        VALIDATION_UNTRUSTED: "Required validations of the project did not run, because you have not trusted them." or [
            TRUST_CHECKS, APPLY_RUNS_THEM, APPLY_UNCHECKED,
        ];
    }
}

/// The table, as `docs/errors.md` has it.
pub fn markdown() -> String {
    let mut text = "| code | exit | cause | hints |\n|---|---|---|---|\n".to_owned();
    for code in CODES {
        let exit = code.exit.number();
        let hints: Vec<String> =
            code.hint.iter().chain(code.variants).map(|hint| hint.fill(&|_| None)).collect();
        let hints = if hints.is_empty() { "the message says it".to_owned() } else { hints.join("<br>") };
        text.push_str(&format!("| `{}` | {exit} | {} | {hints} |\n", code.name, code.cause));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_in_order() {
        let names: BTreeSet<&str> = CODES.iter().map(|code| code.name).collect();
        assert_eq!(names.len(), CODES.len());
        let exits: Vec<Exit> = CODES.iter().map(|code| code.exit).collect();
        assert!(exits.is_sorted() && !exits.contains(&Exit::Done));
    }

    #[test]
    fn exit_codes_count_from_0() {
        let numbers: Vec<u8> = Exit::ALL.iter().map(|exit| exit.number()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
        let words: BTreeSet<&str> = Exit::ALL.iter().map(|exit| exit.word()).collect();
        assert_eq!(words.len(), Exit::ALL.len());
    }

    #[test]
    fn the_table_is_printed_whole() {
        let text = markdown();
        assert_eq!(text.lines().count(), CODES.len() + 2);
        assert!(text.contains("| `PLAN_BUSY` | 4 | Another process works on the plan at this moment. | follow it with `agents plan watch ID`"));
    }

    #[test]
    fn every_hint_belongs_to_a_code_and_begins_with_a_small_letter() {
        let listed: Vec<Hint> =
            CODES.iter().flat_map(|code| code.hint.iter().chain(code.variants)).copied().collect();
        for hint in hints::ALL.iter().chain(&listed) {
            assert!(listed.contains(hint), "no code has {hint:?}");
            assert!(!hint.0.starts_with(char::is_uppercase) && !hint.0.ends_with('.'), "{hint:?}");
        }
    }

    #[test]
    fn a_hint_is_filled_with_the_fields_of_its_failure() {
        let hint = Hint("see `{apply} --take {file}`");
        let id = |name: &str| (name == "id").then(|| "01JB".to_owned());
        assert_eq!(hint.fill(&|_| None), "see `agents plan apply ID --take FILE`");
        assert_eq!(hint.fill(&id), "see `agents plan apply 01JB --take FILE`");
        let all = |name: &str| (name != "id").then(|| format!("<{name} {{id}}>"));
        assert_eq!(hint.fill(&all), "see `<apply {id}> --take <file {id}>`", "a value is no template");
    }
}
