//! The program as users run it: real files, real git, real processes, real kills.
//!
//! - `support`: a user with a home directory of its own
//! - `usage`: help, version, usage errors, formats
//! - `definitions`: actions and actors by name, their arguments, errors and consent
//! - `choosing`: the default actor of a task, and the instructions of projects
//! - `gates`: automation profiles, the strategy before the work, consent
//! - `decision_tree`: the decisions of a plan, as a tree and one by one, and messages to a plan
//! - `tools`: listed, shown, checked; called by nodes through the gate
//! - `models`: models that work, recorded and replayed, within their limits
//! - `model_context`: the context that models receive and ask for
//! - `model_faults`: models and servers that misbehave
//! - `model_plans`: plans whose strategy and work are done by models
//! - `coder`: the built-in coder: its bounds, its prompt, and models that ask to wait or do not run
//! - `model_world`: the scripted model server and project of the model tests
//! - `external`: agent programs over the Agent Client Protocol, one of them a real one
//! - `servers`: tools of MCP servers that a model calls, of the reference server and of bad ones
//! - `settings`: config get, set, list; two writers at once; a killed writer
//! - `man_and_completions`: completions and the manual
//! - `plans`: run, diff, apply, undo, cancel and the rest, from the first command to the last
//! - `plan_output`: the output of plans that run: progress, summaries, diffs
//! - `raw_text`: escape sequences and secrets in foreign texts, shown and stored
//! - `refusals`: the errors of commands that are refused
//! - `apply_options`: dry runs, conflict markers, commits and their undo
//! - `toolchain_variables`: variables that commands get from the environment
//! - `operation_log`: the log of applies and undos, and redo
//! - `standard_input`: the standard input of a command
//! - `shell`: a shell in the sandbox of a finished plan
//! - `renames`: renames in diffs, patches of several projects, and the files and branches in answers
//! - `signals`: signals to a running program, and plans whose process is gone
//! - `interrupted_runs`: runs and applies that were killed, and how they are resumed
//! - `late_writes`: captures that take longer than they may
//! - `terminal`: the review on the screen, questions and Ctrl-C in a pseudo-terminal
//! - `pager`: the pager of long answers, and colour in a pipe
//! - `disk`: disks that are full, read-only or hold huge files
//! - `conflicting_plans`: plans that change the same files, watched together, and notifications
//! - `top`: all plans on one screen, in a pseudo-terminal and without one
//! - `messages`: the texts of summaries, hints and answers
//! - `limits`: the limits of a plan, and the history of its errors
//! - `mcp`: plans for other agents, asked for by a client of the official SDK
//! - `workers`: many plans at once, in several processes
//! - `worker_keys`: plans that only a worker with their API key may claim
//! - `many`: many plans at once on one machine
//! - `for_each`: a plan for every line of a file
//! - `graph`: actors that are graphs of nodes
//! - `steps`: plans of several steps
//! - `policy`: the policies of the user, which no project loosens
//! - `read_only_nodes`: nodes that may only read
//! - `using_with`: the commands of docs/using-with.md
//! - `survive`: the promises of docs/survive.md that span several commands
//! - `writers`: writers that are stopped between their change and its capture
//! - `frozen_worker`: a worker that is frozen past its lease, and continues when another has done its work
//! - `store_faults`: a store that is locked, full or unreadable, clocks that were set back
//! - `survive_plans`: every way into a phase, corrections, nodes that settle and fail at once
//! - `survive_changes`: concurrent writers, tools that wrote and failed, arguments as they are stored
//! - `survive_top`: fifty plans and a server that fails a fifth of all calls, on one screen
//! - `context`: the context for a question, and the index that it is found by
//! - `context_bounds`: contexts of things that do not exist, are too large, or do not answer
//! - `invariants`: the invariants of the plan, its action, its project and its user
//! - `hostile`: projects that try to loosen the protection of the user
//! - `trust`: checks and actions of a project that need trust before they run

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    unreachable_pub,
    missing_docs,
    reason = "tests fail by panicking"
)]

mod cases;
