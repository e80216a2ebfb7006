//! Every code that a failure can have: its exit status, its cause and its remedy, in one table.
//!
//! # Invariants
//! 1. Names are unique, and the table is in the order of exit status and name.
//! 2. `docs/errors.md` is printed from here: see [`markdown`].
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
    /// The remedy.
    pub remedy: &'static str,
}

macro_rules! codes {
    ($($exit:ident { $($name:ident: $cause:literal, $remedy:literal;)* })*) => {
        $($(
            #[doc = $cause]
            pub static $name: Code =
                Code { name: stringify!($name), exit: Exit::$exit, cause: $cause, remedy: $remedy };
        )*)*

        /// All of them, by exit status and name.
        pub static CODES: &[&Code] = &[$($(&$name,)*)*];
    };
}

codes! {
    Failed {
        BAD_TRANSITION: "A plan was asked for a move that its state does not allow. A fault of the program.",
            "Please report it, with what `agents plan watch ID` shows.";
        CANCEL_UNCONFIRMED: "The cancel is requested, and the worker that runs the plan has not confirmed it in time.",
            "Nothing is lost: repeat the cancel, or look with `agents plan status ID`.";
        CHANGES_DAMAGED: "What the store holds of a plan's changes is not what was recorded: the file is damaged. Nothing was applied.",
            "Restore `agents.db` of the data directory from a backup, or run the work again. All other plans go on.";
        INDEX_DIFFERS: "The index of a project says other things of its files than one that is built from nothing. A fault of the program, or of the disk.",
            "Throw it away with `agents context index --clear`: nothing but time is lost. Please report it.";
        INTERNAL: "A fault of the program.", "Please report it with the whole message.";
        IO_FAILED: "The system refused to read or write a file.", "See the message: permissions, space, or the path.";
        NO_ISOLATION: "No way to isolate commands works on this machine, and `policy.sandbox` requires one.",
            "See `agents doctor` for the reason and what helps; or set `policy.sandbox` to `landlock` or `optional` and accept the risk.";
        NO_SANDBOX: "No kind of sandbox could be opened, or not the one that `sandbox.strategy` names.",
            "See the reasons in the message and `agents doctor`.";
        PLAN_ERRORED: "A phase of the plan failed, and going on as it is makes no sense; nothing of it reached your files.",
            "See `agents plan errors ID` and `agents plan logs ID`; try again with `agents plan resume ID`.";
        PLAN_UNREADABLE: "A plan in the store cannot be read: a newer version of the program made it, or its row is damaged. It was left as it is.",
            "Use the version that made it. All other plans go on.";
        STORE_BUSY: "Another process has kept the store of plans locked for longer than this one waits. Nothing was changed.",
            "Find out who holds it (a backup, an open `sqlite3`), then try again.";
        STORE_FAILED: "The store of plans cannot be opened, read or written.",
            "See the message: space, permissions of the data directory, or a file that is no store or is damaged.";
        STORE_FULL: "The disk of the store of plans is full. What was to be written is undone, nothing before it is lost.",
            "Free some space on the disk of the data directory, then try again.";
        STORE_TOO_NEW: "A newer version of the program has written the store of plans. Nothing was changed.",
            "Use that version, or another data directory: `--data-dir DIR`.";
        UNSUPPORTED: "The program does not work on this system.", "Use Linux 5.11 or later.";
        WORKER_NOT_STARTED: "The plan is left to the workers, none lives that can do it, and none could be started.",
            "See `logs/worker.log` in the data directory; start one with `agents worker`.";
    }
    Usage {
        ACTOR_CYCLE: "Actors are made of each other in a circle.", "Break the circle that the message prints.";
        ACTOR_TOO_LARGE: "An actor has more than 500 nodes, or actors are nested deeper than 8.", "Make it smaller.";
        ARG_INVALID: "An argument of the action breaks a rule of its declaration.", "The message has the value and the rule.";
        ARG_MISSING: "An argument of the action has no default and was not given.", "Give it: `--arg NAME=VALUE`.";
        ARG_UNKNOWN: "The action has no such argument.", "See its arguments with `agents action show NAME`.";
        CONFIG_FILE_INVALID: "A config file cannot be read as TOML.", "Correct the line that the message names.";
        CONFIG_KEY_UNKNOWN: "There is no such setting.", "See `agents config list`.";
        CONFIG_NOT_ALLOWED_HERE: "A project's config sets what only the user may set.",
            "Remove the line from the project; set it for yourself with `agents config set`.";
        CONFIG_VALUE_INVALID: "A setting has a value that it cannot have.", "The message says what is allowed.";
        DATA_DIR_FOREIGN: "The directory that is to hold the program's data holds other files. Nothing was changed.",
            "Name a directory that is not there yet, or an empty one, with `--data-dir DIR`.";
        DECISION_AMBIGUOUS: "Several decisions begin with the given letters.", "Give more letters, or name it as PLAN:NUMBER.";
        DECISION_INVALID: "What was said to a plan cannot be a decision of it: it is empty or too long.",
            "Say it in 1 to 16384 bytes.";
        DEFINITION_INVALID: "A file of an action or an actor is not what one looks like.",
            "Correct the places that the message lists; docs/actors.md has all keys, and schema/ tells them to editors.";
        DEPTH_UNKNOWN: "There is no such depth.", "The message has the nearest name and all that there are.";
        FOCUS_AMBIGUOUS: "The symbol that a context is to be about is defined in more than 20 places.",
            "Name the file that you mean, or some of its lines: `--focus PATH:FROM-TO`.";
        JOB_AMBIGUOUS: "Several jobs begin with the given letters.", "Give more letters of the id.";
        LIMIT_TOO_LOW: "A limit is set below what the plan has used already.", "Set a higher one: see `agents plan status ID`.";
        NO_ACTOR: "There is a task and nobody to do it.",
            "Name an actor with `--actor NAME`, or for all tasks with `agents config set actor.default=NAME`; see `agents actor list`.";
        NO_SUCH_HUNK: "An address given to `--only`, `--reject` or `--take` matches nothing in the plan's changes.",
            "See the addresses with `agents plan diff ID`.";
        PLAN_AMBIGUOUS: "Several plans begin with the given letters.", "Give more letters of the id.";
        PROJECT_ALIAS_TAKEN: "Two projects of a plan have one name.", "Name one of them: `--project NAME=DIR`.";
        PROJECT_IS_SYSTEM: "The project would be a directory of the system, like `/` or `/usr`, or your home. Nothing was done.",
            "Go to your project, or name it with `--project DIR`; if the directory is really meant, add `--system-project`.";
        PROJECT_NESTED: "One project of a plan lies inside another, or is given twice.", "Give the outer one only.";
        STRATEGY_UNKNOWN: "There is no such strategy.", "The message has the nearest name and all that there are.";
        TEMPLATE_IN_SHELL: "A placeholder stands in a line for the shell, where its value would be read as code.",
            "Use \"$ARG_NAME\" there, or write the command as a list.";
        TEMPLATE_UNKNOWN: "A placeholder names a value that is not there.", "The message says what was probably meant.";
        TOOL_ARGUMENTS: "The arguments of a tool do not fit its schema.",
            "The message says which field, what is wrong and what is allowed. See `agents tool show NAME`.";
        USAGE: "The command line cannot be understood.", "See `agents help` and `agents COMMAND --help`.";
        VIEW_UNKNOWN: "There is no such view.", "The message has the nearest name and all that there are.";
    }
    NotFound {
        ACTION_NOT_FOUND: "There is no action with this name.",
            "See `agents action list`. A command goes after `--`; a task in words has more than one word.";
        ACTOR_NOT_FOUND: "There is no actor with this name.", "See `agents actor list`.";
        CALL_NOT_FOUND: "The plan made no tool call with this number.", "See the calls with `agents plan logs ID`.";
        CONTEXT_NOT_FOUND: "The plan has no such context, or its text is not kept any more.",
            "See the contexts of a plan with `agents context show ID`.";
        DECISION_NOT_FOUND: "There is no such decision.", "See the decisions of a plan with `agents plan tree ID`.";
        FOCUS_NOT_FOUND: "A context is to be about a file, lines or a symbol that are not there.",
            "The message has the nearest name. A path is looked for from where you stand, then from the project's root.";
        JOB_NOT_FOUND: "There is no such job in this data directory.", "See `agents job list --all`.";
        NO_OPEN_APPLY: "The plan has no interrupted apply that could be set aside.",
            "See what is open with `agents doctor`.";
        PLAN_NOT_FOUND: "There is no such plan in this data directory.", "See `agents plan list`.";
        PROJECT_NOT_FOUND: "A project's directory is not there, or cannot be entered.", "Check the path.";
        TOOL_NOT_FOUND: "There is no tool with this name.", "See `agents tool list`.";
    }
    Refused {
        ALREADY_APPLIED: "The plan is applied already, with another choice of its changes. Nothing was done.",
            "Undo it first, then apply it with the other choice: `agents plan undo ID`.";
        BRANCH_EXISTS: "The branch for the plan's commit exists already.", "Choose another name.";
        CANCEL_TOO_LATE: "The plan is applied already, or is past the point of no return.", "Undo it: `agents plan undo ID`.";
        CONFLICTS: "Your files and the plan's changes do not fit together. Nothing was written.",
            "See them with `agents plan diff ID --conflicts`; leave some out with `--reject`, accept with `--take`.";
        FOCUS_EXCLUDED: "A context is to be about a file that the view leaves out.",
            "See `context.include`, `context.exclude` and `context.view` with `agents config list`, of the project too.";
        JOB_FINAL: "The job has ended already.", "See its plan with `agents plan status ID`.";
        NOTHING_TO_APPLY: "The plan changed nothing, or nothing was chosen.", "Add `--allow-empty` if that is meant.";
        NOT_APPLIED: "The plan is not applied, so there is nothing to undo.", "See `agents plan status ID`.";
        PATH_ESCAPES: "A context is to be about a path that lies in none of its projects.",
            "Name its project with `--project DIR`.";
        PLAN_BUSY: "Somebody works on the plan at this moment.",
            "Follow it with `agents plan watch ID`, or stop it with `agents plan cancel ID`.";
        PLAN_COMPLETE: "The plan has done its work already, which is kept.",
            "Apply it, or run it anew with `agents plan execute ID --again`.";
        PLAN_FINAL: "The plan is applied or cancelled for good.", "Start a new one with `agents run`.";
        PLAN_NOT_READY: "The plan's state does not allow this.", "The message says what does.";
        PLAN_READ_ONLY: "The plan's action only reads, so there is nothing that could be applied.",
            "See what it found with `agents plan logs ID`.";
        PREFLIGHT_FAILED: "The plan cannot be started as it was asked for. Nothing was stored.", "Correct what the message lists.";
        QUEUE_FULL: "Ten thousand plans wait already.", "See them with `agents plan list --state queued`; cancel them all: `agents plan cancel --state queued --all`.";
        RECHECK_FAILED: "A required check passed in the plan's sandbox, and fails on your tree as it is now with the plan's changes in it. Nothing was written.",
            "See what moved in the message, and the check's output with `agents plan logs ID`; do the work anew with `agents plan execute ID --again`, or apply it all the same with `--no-recheck`.";
        REVERSIONS_SPENT: "The plan has begun again with a new strategy as often as it may.",
            "Say it without `--replan`, do the work anew with `agents plan execute ID --again`, or make a new plan.";
        TOO_LARGE: "A changed file is larger than `capture.max_file_mb`, or could not be read, so its content was not kept.",
            "Leave it out with `--reject`, or raise the setting and run again.";
        TREE_MOVING: "Your tree changed during every run of the checks, so no result holds for it. Nothing was written.",
            "Wait until what writes there has ended, or apply without checks on the merged tree: `--no-recheck`.";
        UNDO_EXPIRED: "What is needed to undo the plan was removed by `agents plan gc`.", "Use your version control.";
        VALIDATION_FAILED: "A required validation failed, so the plan is not applied.",
            "See its output with `agents plan logs ID`; run again with `agents plan execute ID --again`.";
        VALIDATION_NOT_RUN: "A required validation has not run for the plan's present changes.",
            "Run the plan again: `agents plan execute ID --again`.";
    }
    Cancelled {
        CANCELLED: "The plan was cancelled, or a search for a context was stopped. What a plan had changed so far is kept, and your files are untouched.",
            "See it with `agents plan diff ID`.";
    }
    NeedsInput {
        CONFIRMATION_NEEDED: "The command changes your files and nobody is there to say yes.", "Add `--yes`.";
        CONSENT_NEEDED: "An action or an actor that came with a project has not been trusted, or asks for the network, your variables or paths outside, and nobody is there to say yes.",
            "Read the file that the message names; if you trust it, add `--trust`, or trust all of the project with `agents trust DIR`.";
        JOURNAL_DAMAGED: "The journal of an apply is damaged: it does not say any more what was to be written, or what was there before. Nothing of it was removed.",
            "Compare your files with `agents plan diff ID` or your version control; the message names the files and where the journal is kept.";
        JOURNAL_STUCK: "An apply that was interrupted can be neither finished nor taken back.",
            "Remove the cause that the message names (often a full disk), then run any command; or give it up: `agents plan gc --set-aside ID`.";
        LIMIT_REACHED: "The plan has used all that a limit allows. What it did so far is kept.",
            "Let it use more and go on: `agents plan resume ID --limit steps=400`.";
        PLAN_ASKS: "A phase of the plan failed, and a person says how to go on; nothing of it reached your files.",
            "See `agents plan errors ID` and `agents plan logs ID`; when the cause is gone: `agents plan resume ID`.";
        PROJECT_HIDDEN: "A project lies at a path that is hidden from plans, and nobody is at a terminal to agree to it.",
            "Agree to it at a terminal, or change `isolation.hide` of your settings.";
        PROJECT_NOT_ALLOWED: "A caller of `agents mcp` names a project that the server was not started with.",
            "Who starts the server adds `--project DIR`.";
        VALIDATION_UNTRUSTED: "Required validations came with the project, and did not run because you have not trusted them.",
            "See what they run with `agents trust DIR --list`, trust them with `agents trust DIR`, then apply the plan, which runs them first; or apply without them: `agents plan apply ID --unchecked`.";
    }
}

/// The table, as `docs/errors.md` has it.
pub fn markdown() -> String {
    let mut text = "| code | exit | cause | remedy |\n|---|---|---|---|\n".to_owned();
    for code in CODES {
        let exit = code.exit.number();
        text.push_str(&format!("| `{}` | {exit} | {} | {} |\n", code.name, code.cause, code.remedy));
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
        assert!(text.contains("| `PLAN_BUSY` | 4 | Somebody works on the plan at this moment. |"));
    }
}
