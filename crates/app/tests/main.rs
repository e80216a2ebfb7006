//! The program as people run it: real files, real git, real processes, real kills.
//!
//! - `support`: a person with a home of their own
//! - `calling`: help, version, usage, formats
//! - `definitions`: actions and actors by name, their arguments, faults and consent
//! - `choosing`: who does a task that names nobody, and what projects say to them
//! - `gates`: profiles of automation, the strategy before the work, consent
//! - `decided`: what a plan decided, as a tree and one by one, and words to a plan
//! - `tools`: listed, shown, checked; called by nodes through the gate
//! - `models`: models that work, recorded and replayed, within their limits
//! - `model_context`: what models are shown of a project, and what they ask for
//! - `model_faults`: models and servers that do all that they should not
//! - `external`: agent programs over the Agent Client Protocol, one of them a real one
//! - `servers`: tools of MCP servers that a model calls, of the reference server and of bad ones
//! - `settings`: config get, set, list; two writers at once; a killed writer
//! - `pages`: completions and the manual
//! - `plans`: run, diff, apply, undo, cancel and the rest, from the first command to the last
//! - `raw_text`: escape sequences and secrets in what others wrote, shown and stored
//! - `refusals`: what is said when something stands in the way
//! - `stopping`: signals at a program that works, and plans whose program is gone
//! - `terminal`: the review on the screen, questions and Ctrl-C in a pseudo-terminal
//! - `disk`: disks that are full, read-only or hold huge files
//! - `together`: plans that change the same files, watched together, and who is told when they need a person
//! - `top`: all plans on one screen, in a pseudo-terminal and without one
//! - `told`: what summaries, hints and answers say
//! - `limits`: what a plan may use, and the history of its errors
//! - `mcp`: plans for other agents, asked for by a client of the official SDK
//! - `workers`: many plans at once, in several processes
//! - `writers`: writers that are stopped between their change and its capture
//! - `stopped`: a worker that stands still past its lease, and goes on when another has done its work
//! - `trouble`: a store that is locked, full or holds what is not known, clocks that were set back
//! - `survive_plans`: every way into a phase, corrections, nodes that settle and fail at once
//! - `survive_changes`: writers beside each other, tools that wrote and failed, arguments as they are kept
//! - `survive_top`: fifty plans and a server that fails a fifth of all calls, on one screen
//! - `context`: what a model would be given to read, and the index that it is found by
//! - `context_bounds`: what is said of what is not there, too much, or does not answer
//! - `invariants`: what must hold, of the plan, its action, its project and its user
//! - `hostile`: projects that try to loosen what guards the user
//! - `trust`: what came with a project and needs a yes before it runs

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    unreachable_pub,
    missing_docs,
    reason = "tests fail by panicking"
)]

mod cases;
