//! The pipeline of a process that answers more than one call. It is created once, so its index stays in
//! memory, its breakers keep their state, and all calls share its threads.
//!
//! # Invariants
//! Settings that it is made with hold: when they change, the next call has another one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use engine::ProviderSettings;
use engine::context::{Contexts, ContextsSetup, ExecutorConfig};

use crate::errors::{CommandError, codes};

/// Holds the pipeline of a process.
#[derive(Debug, Default)]
pub(in crate::cli) struct PipelineCache {
    held: Mutex<Option<(PipelineSettings, Contexts)>>,
}

/// The settings that a pipeline was made with; its rules are read for every request.
#[derive(Debug, PartialEq, Eq)]
struct PipelineSettings {
    executor: ExecutorConfig,
    memory_bytes_max: usize,
    data_dir: PathBuf,
    providers: BTreeMap<String, ProviderSettings>,
}

impl PipelineCache {
    /// The pipeline that is held, or a new one where settings changed.
    ///
    /// # Errors
    /// A value of the settings is out of its bounds.
    pub(super) fn get(
        &self,
        setup: &ContextsSetup,
        data_dir: &Path,
        providers: &BTreeMap<String, ProviderSettings>,
    ) -> Result<Contexts, CommandError> {
        let wanted = PipelineSettings {
            executor: setup.executor.clone(),
            memory_bytes_max: setup.memory_bytes_max,
            data_dir: data_dir.to_owned(),
            providers: providers.clone(),
        };
        // Making one opens no file of a project and starts no thread.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made_with, contexts)) = &*held
            && *made_with == wanted
        {
            return Ok(contexts.clone());
        }
        let contexts = Contexts::new(setup, data_dir, providers)
            .map_err(|error| CommandError::new(&codes::CONFIG_VALUE_INVALID, error.to_string()))?;
        *held = Some((wanted, contexts.clone()));
        Ok(contexts)
    }
}
