//! The settings for the projects of a request: a port, because the program reads settings.
//!
//! # Invariants
//! 1. A project narrows what its user allows and never widens it. The implementation of the port ensures it
//!    for single values, the pipeline for what each project shows.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use context::index::IndexConfig;
use context::{ExecutorConfig, PipelineConfig, Views};

/// The settings of one request.
#[derive(Clone, Debug)]
pub struct ContextSettings {
    /// Of the pipeline; its views are the user's.
    pub pipeline: PipelineConfig,
    /// The time that the strategies may take together.
    pub deadline: Duration,
    /// Of each project, in their order.
    pub projects: Vec<ProjectSettings>,
    /// Notes about the settings, for people.
    pub notes: Vec<String>,
}

/// The settings of one project.
#[derive(Clone, Debug, Default)]
pub struct ProjectSettings {
    /// Its own rules of what may be seen.
    pub views: Views,
    /// The bounds of its index.
    pub index: IndexConfig,
}

/// Why the settings of a request cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the settings for contexts cannot be used: {source}")]
pub struct RulesError {
    /// The problem.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

/// Knows what holds for projects. Asked for every request, on a thread that may block.
pub trait ContextRules: fmt::Debug + Send + Sync {
    /// Returns the settings of a request into the projects at `roots`.
    ///
    /// # Errors
    /// A file of settings cannot be read, or says what is not allowed.
    fn rules(&self, roots: &[PathBuf]) -> Result<ContextSettings, RulesError>;
}

/// The default settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultRules;

impl ContextRules for DefaultRules {
    fn rules(&self, roots: &[PathBuf]) -> Result<ContextSettings, RulesError> {
        Ok(ContextSettings {
            pipeline: PipelineConfig::default(),
            deadline: ExecutorConfig::default().deadline,
            projects: roots.iter().map(|_| ProjectSettings::default()).collect(),
            notes: Vec::new(),
        })
    }
}
