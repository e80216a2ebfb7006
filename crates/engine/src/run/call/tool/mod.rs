//! Calls of tools: [`gateway`] admits, runs, captures and records them.
//!
//! [`context`] answers the tools that search and assemble context, within [`context_budget`]; [`focus`] finds
//! the paths that a plan is about.

mod context;
mod context_budget;
mod focus;
mod gateway;

pub(crate) use context::FirstContext;
pub(crate) use context_budget::ContextBudget;
pub(crate) use gateway::{NodeTools, ToolGateway, run_tool_step, stopped};
