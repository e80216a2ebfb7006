//! JSON schemas, and what is said about a value that does not fit one.
//!
//! # Invariants
//! 1. A message names the field, what was wrong with it, and what is allowed; it never repeats the value,
//!    which may be long or secret.
//! 2. A schema is compiled once. It reaches no file and no network. Its patterns are bounded in size.

use domain::did_you_mean;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// The limit of a compiled pattern, and of the memory of its matching.
const PATTERN_BYTES_MAX: usize = 256 << 10;
/// The limit of steps back in the matching of a pattern.
const BACKTRACK_STEPS_MAX: usize = 100_000;
/// The number of problems that are reported at once.
const PROBLEMS_MAX: usize = 8;
/// The limit of one of them.
const PROBLEM_CHARS_MAX: usize = 400;

/// The reason why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a usable JSON schema: {message}")]
pub struct SchemaError {
    message: String,
}

/// A compiled schema.
#[derive(Clone, Debug)]
pub struct Schema {
    validator: Validator,
    fields: Vec<String>,
}

impl Schema {
    /// Compiles it.
    ///
    /// # Errors
    /// Returns an error if it is not a schema, or refers to something elsewhere.
    pub fn new(schema: &Value) -> Result<Schema, SchemaError> {
        let patterns = PatternOptions::fancy_regex()
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .backtrack_limit(BACKTRACK_STEPS_MAX);
        let validator = jsonschema::options()
            .with_pattern_options(patterns)
            .build(schema)
            .map_err(|error| SchemaError { message: error.masked().to_string() })?;
        let fields = schema.get("properties").and_then(Value::as_object);
        let fields = fields.map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
        Ok(Schema { validator, fields })
    }

    /// All that is wrong with the value; nothing when it fits.
    pub fn problems(&self, value: &Value) -> Vec<String> {
        if let Value::String(text) = value {
            // Arguments of a model that could not be parsed stay a string.
            let why = serde_json::from_str::<Value>(text).err();
            let why = why.map(|error| format!(": {error}")).unwrap_or_default();
            return vec![format!("they must be a JSON object, and are not valid JSON{why}")];
        }
        let errors = self.validator.iter_errors(value).take(PROBLEMS_MAX);
        errors.map(|error| self.problem(&error).chars().take(PROBLEM_CHARS_MAX).collect()).collect()
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a foreign enum that may grow")]
    fn problem(&self, error: &jsonschema::ValidationError<'_>) -> String {
        let field = error.instance_path().to_string();
        let field = field.trim_start_matches('/').replace('/', ".");
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let word = unexpected.first().map_or("", String::as_str);
                let known = self.fields.iter().map(String::as_str);
                let meant = did_you_mean(word, known);
                format!("`{word}` is not a field{meant}; the fields are {}", self.fields.join(", "))
            }
            ValidationErrorKind::Required { property } => {
                format!("`{}` is missing", property.as_str().unwrap_or_default())
            }
            _ => {
                let what = error.masked_with("it").to_string();
                if field.is_empty() { what } else { format!("`{field}`: {what}") }
            }
        }
    }
}
