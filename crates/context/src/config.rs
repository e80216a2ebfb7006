//! The settings of a pipeline.
//!
//! # Invariants
//! 1. A pipeline never holds a configuration that was not checked.
//!
//! # Not here
//! Workers and deadlines: [`ExecutorConfig`](crate::ExecutorConfig). The index's bounds. The source of the
//! values.

use std::collections::BTreeMap;
use std::fmt;

use domain::context::Name;

use crate::Views;
use crate::view::GlobUnreadable;

const MAX_TOKENS_MAX: u32 = 1_000_000;
const WEIGHT_MAX: f32 = 10.0;
const SKELETON_RATIO_MAX: f32 = 0.5;

/// The settings of a pipeline.
///
/// ```
/// use context::PipelineConfig;
///
/// let config = PipelineConfig::default();
/// assert_eq!(config.max_tokens, 16_384);
/// assert!(config.strategies.iter().any(|name| name.as_str() == "simple-keyword"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineConfig {
    /// The strategies that are asked.
    pub strategies: Vec<Name>,
    /// The weight of each strategy; 0..=10. A strategy that is not named has its built-in weight.
    pub weights: BTreeMap<Name, f32>,
    /// The token limit of a context if the request names no cap; 0..=1000000.
    pub max_tokens: u32,
    /// The share of a child plan's context that its parent's context may take; 0..=0.5.
    pub skeleton_ratio: f32,
    /// The user's rules of what may be seen.
    pub views: Views,
}

impl Default for PipelineConfig {
    fn default() -> Self {
        Self {
            strategies: crate::strategies::enabled_by_default(),
            weights: BTreeMap::new(),
            max_tokens: 16_384,
            skeleton_ratio: 0.15,
            views: Views::default(),
        }
    }
}

/// A value of [`PipelineConfig`] out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PipelineConfigError {
    /// A number.
    #[error("{key} is {value}, allowed is {allowed}")]
    OutOfBounds {
        /// The key.
        key: String,
        /// The rejected value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A name that no strategy has.
    #[error("{key} names no strategy; strategies are {}{}", shown(known), domain::did_you_mean(name.as_str(), known.iter().map(Name::as_str)))]
    StrategyUnknown {
        /// The key.
        key: String,
        /// The name.
        name: Name,
        /// Those that there are.
        known: Vec<Name>,
    },
    /// A glob of a view.
    #[error(transparent)]
    Glob(#[from] GlobUnreadable),
}

pub(crate) fn shown(names: &[Name]) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}

impl PipelineConfig {
    /// The configuration, if all its values are within their bounds and all its names are `known`.
    ///
    /// # Errors
    /// The first value that is not.
    pub fn checked(self, known: &[Name]) -> Result<Self, PipelineConfigError> {
        let refuse = |key: String, value: &dyn fmt::Display, allowed| {
            Err(PipelineConfigError::OutOfBounds { key, value: value.to_string(), allowed })
        };
        if self.max_tokens > MAX_TOKENS_MAX {
            return refuse("context.max_tokens".to_owned(), &self.max_tokens, "0 to 1000000");
        }
        if !(0.0..=SKELETON_RATIO_MAX).contains(&self.skeleton_ratio) {
            return refuse("context.skeleton_ratio".to_owned(), &self.skeleton_ratio, "0 to 0.5");
        }
        for (name, weight) in &self.weights {
            if !(0.0..=WEIGHT_MAX).contains(weight) {
                return refuse(format!("context.weights.{name}"), weight, "0 to 10");
            }
        }
        let unknown = self.strategies.iter().map(|name| ("context.strategies".to_owned(), name));
        let weighed = self.weights.keys().map(|name| (format!("context.weights.{name}"), name));
        for (key, name) in unknown.chain(weighed) {
            if !known.contains(name) {
                let (name, known) = (name.clone(), known.to_vec());
                return Err(PipelineConfigError::StrategyUnknown { key, name, known });
            }
        }
        for rules in [&self.views.default, &self.views.strategize, &self.views.execute] {
            crate::ViewFilter::compile(&[rules])?;
        }
        Ok(self)
    }
}
