//! The number of tokens that a request may fill.
//!
//! # Not here
//! The division of the total among the parts of a text: crate `context`.

use serde::Serialize;

/// The window of a model, and the parts of it that are promised to others. In tokens.
///
/// ```
/// use domain::context::Budget;
///
/// let budget = Budget { window: 8000, response: 4096, tools: 500, system: 400, cap: None };
/// assert_eq!(budget.base(), 3004);
/// assert_eq!(Budget::fixed(900).base(), 900);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// The model's window.
    pub window: u32,
    /// The part that is reserved for its answer.
    pub response: u32,
    /// Taken by the descriptions of tools.
    pub tools: u32,
    /// Taken by the instructions and the prompt.
    pub system: u32,
    /// The most that is wanted; `None`: what the configuration says.
    pub cap: Option<u32>,
}

impl Budget {
    /// Exactly `tokens`, whatever a model could take and the configuration says.
    pub const fn fixed(tokens: u32) -> Budget {
        Budget { window: tokens, response: 0, tools: 0, system: 0, cap: Some(tokens) }
    }

    /// The rest of the window: never below 0.
    pub const fn base(self) -> u32 {
        self.window.saturating_sub(self.response).saturating_sub(self.tools).saturating_sub(self.system)
    }
}
