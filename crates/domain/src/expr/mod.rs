//! Conditions: `nodes.review.json.ok and nodes.test.exit_code == 0`.
//!
//! ```text
//! or     = and { "or" and }
//! and    = not { "and" not }
//! not    = "not" not | compare
//! compare = value [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "in") value ]
//! value  = path | "text" | 'text' | number | true | false | null | "[" [ or { "," or } ] "]" | "(" or ")"
//! ```
//!
//! # Invariants
//! 1. An expression is pure and ends: it has no calls, no loops and no effects, and is at most
//!    [`EXPR_CHARS_MAX`] long.
//! 2. `==` and `!=` work on all values and are false and true across types. Ordering is for two numbers or
//!    two texts, `in` for a list or a text; everything else is a [`TypeError`].
//! 3. If true or false is wanted, null counts as false and any other value is a [`TypeError`]. The right side
//!    of `and` and `or` is not looked at when the left one decides.
//! 4. A printed [`Expr`] is read back as an expression of the same meaning.
//!
//! # Not here
//! The values that exist: [`crate::template::Values`].

mod parse;

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

use crate::template::TemplatePath;

/// Limits how long a written expression may be.
pub const EXPR_CHARS_MAX: usize = 500;
/// Limits how deep it may be nested.
const DEPTH_MAX: usize = 64;

/// An expression, read.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A literal value.
    Literal(Value),
    /// A value of the run.
    Path(TemplatePath),
    /// Several values.
    List(Vec<Expr>),
    /// The opposite.
    Not(Box<Expr>),
    /// Both.
    And(Box<Expr>, Box<Expr>),
    /// One or both.
    Or(Box<Expr>, Box<Expr>),
    /// A comparison.
    Compare(Box<Expr>, Compare, Box<Expr>),
}

/// A comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// The same.
    Equal,
    /// Not the same.
    Unequal,
    /// Below.
    Less,
    /// Not above.
    AtMost,
    /// Above.
    More,
    /// Not below.
    AtLeast,
    /// One of a list, or a part of a text.
    In,
}

impl Compare {
    /// All of them.
    pub const ALL: [Compare; 7] = [
        Compare::Equal,
        Compare::Unequal,
        Compare::Less,
        Compare::AtMost,
        Compare::More,
        Compare::AtLeast,
        Compare::In,
    ];

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Compare::Equal => "==",
            Compare::Unequal => "!=",
            Compare::Less => "<",
            Compare::AtMost => "<=",
            Compare::More => ">",
            Compare::AtLeast => ">=",
            Compare::In => "in",
        }
    }
}

/// The reason why a text is no expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ExprFlaw {
    /// The byte of the text that it is about.
    pub at: usize,
    /// The reason why it is wrong.
    pub why: String,
}

/// Values that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// There is an order between numbers, and between texts.
    #[error("`{expr}` compares {left} with {right}: there is an order between two numbers or two texts only")]
    NoOrder {
        /// The expression.
        expr: String,
        /// The kind of the left value.
        left: &'static str,
        /// The kind of the right value.
        right: &'static str,
    },
    /// Nothing can be in it.
    #[error("`{expr}` looks for {left} in {right}: things are in a list, texts also in a text")]
    NotIn {
        /// The expression.
        expr: String,
        /// The kind of the left value.
        left: &'static str,
        /// The kind of the right value.
        right: &'static str,
    },
    /// It is neither true nor false.
    #[error("`{expr}` is {kind}, where true or false is wanted")]
    NoBoolean {
        /// The expression.
        expr: String,
        /// The kind of its value.
        kind: &'static str,
    },
    /// There is no such value.
    #[error("there is no value `{path}`")]
    Unknown {
        /// The unknown path.
        path: String,
    },
}

/// Finds the value of a path.
pub type ValueLookup<'a> = &'a dyn Fn(&TemplatePath) -> Option<Value>;

impl Expr {
    /// Reads a written expression.
    ///
    /// # Errors
    /// Returns an error if the text is no expression, or too long.
    pub fn parse(text: &str) -> Result<Expr, ExprFlaw> {
        let length = text.chars().count();
        if length > EXPR_CHARS_MAX {
            let why = format!("a condition has at most {EXPR_CHARS_MAX} letters, this has {length}");
            return Err(ExprFlaw { at: 0, why });
        }
        parse::parse(text)
    }

    /// Reads an expression that [`Expr`] printed: one that was joined from several may be longer than a
    /// written one.
    ///
    /// # Errors
    /// Returns an error if the text is no expression.
    pub fn parse_frozen(text: &str) -> Result<Expr, ExprFlaw> {
        parse::parse(text)
    }

    /// Returns whether it holds.
    ///
    /// # Errors
    /// Returns an error if its values do not go together.
    pub fn holds(&self, find: ValueLookup<'_>) -> Result<bool, TypeError> {
        match self.value(find)? {
            Value::Bool(is_true) => Ok(is_true),
            Value::Null => Ok(false),
            other @ (Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
                Err(TypeError::NoBoolean { expr: self.to_string(), kind: kind_of(&other) })
            }
        }
    }

    /// Its value.
    ///
    /// # Errors
    /// Returns an error if its values do not go together.
    pub fn value(&self, find: ValueLookup<'_>) -> Result<Value, TypeError> {
        match self {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Path(path) => find(path).ok_or_else(|| TypeError::Unknown { path: path.to_string() }),
            Expr::List(items) => {
                items.iter().map(|item| item.value(find)).collect::<Result<_, _>>().map(Value::Array)
            }
            Expr::Not(inner) => Ok(Value::Bool(!inner.holds(find)?)),
            Expr::And(left, right) => Ok(Value::Bool(left.holds(find)? && right.holds(find)?)),
            Expr::Or(left, right) => Ok(Value::Bool(left.holds(find)? || right.holds(find)?)),
            Expr::Compare(left, how, right) => {
                self.compare(&left.value(find)?, *how, &right.value(find)?).map(Value::Bool)
            }
        }
    }

    fn compare(&self, left: &Value, how: Compare, right: &Value) -> Result<bool, TypeError> {
        let ordered = |holds: fn(Ordering) -> bool| match order(left, right) {
            Some(order) => Ok(holds(order)),
            None => {
                let (left, right) = (kind_of(left), kind_of(right));
                Err(TypeError::NoOrder { expr: self.to_string(), left, right })
            }
        };
        match how {
            Compare::Equal => Ok(equal(left, right)),
            Compare::Unequal => Ok(!equal(left, right)),
            Compare::Less => ordered(Ordering::is_lt),
            Compare::AtMost => ordered(Ordering::is_le),
            Compare::More => ordered(Ordering::is_gt),
            Compare::AtLeast => ordered(Ordering::is_ge),
            Compare::In => match (left, right) {
                (item, Value::Array(items)) => Ok(items.iter().any(|other| equal(item, other))),
                (Value::String(part), Value::String(whole)) => Ok(whole.contains(part.as_str())),
                (_, Value::Null) => Ok(false),
                (left, right) => {
                    let (left, right) = (kind_of(left), kind_of(right));
                    Err(TypeError::NotIn { expr: self.to_string(), left, right })
                }
            },
        }
    }

    /// All paths in it.
    pub fn paths(&self) -> Vec<&TemplatePath> {
        match self {
            Expr::Literal(_) => Vec::new(),
            Expr::Path(path) => vec![path],
            Expr::List(items) => items.iter().flat_map(Expr::paths).collect(),
            Expr::Not(inner) => inner.paths(),
            Expr::And(left, right) | Expr::Or(left, right) | Expr::Compare(left, _, right) => {
                left.paths().into_iter().chain(right.paths()).collect()
            }
        }
    }

    /// The expression with its paths replaced.
    ///
    /// # Errors
    /// Returns the error of `by`.
    pub fn replace_paths<E>(&self, by: &dyn Fn(&TemplatePath) -> Result<Expr, E>) -> Result<Expr, E> {
        let boxed = |inner: &Expr| inner.replace_paths(by).map(Box::new);
        Ok(match self {
            Expr::Literal(value) => Expr::Literal(value.clone()),
            Expr::Path(path) => by(path)?,
            Expr::List(items) => {
                Expr::List(items.iter().map(|item| item.replace_paths(by)).collect::<Result<_, E>>()?)
            }
            Expr::Not(inner) => Expr::Not(boxed(inner)?),
            Expr::And(left, right) => Expr::And(boxed(left)?, boxed(right)?),
            Expr::Or(left, right) => Expr::Or(boxed(left)?, boxed(right)?),
            Expr::Compare(left, how, right) => Expr::Compare(boxed(left)?, *how, boxed(right)?),
        })
    }
}

/// Numbers by their value, everything else by being the same.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => number_order(left, right) == Some(Ordering::Equal),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (left, right) => left == right,
    }
}

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => number_order(left, right),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (_, _) => None,
    }
}

fn number_order(left: &Number, right: &Number) -> Option<Ordering> {
    let whole = |number: &Number| number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (_, _) => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Literal(value) => write_literal(value, f),
            Expr::Path(path) => write!(f, "{path}"),
            Expr::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    let gap = if at == 0 { "" } else { ", " };
                    write!(f, "{gap}{item}")?;
                }
                f.write_str("]")
            }
            Expr::Not(inner) => write!(f, "not {}", Inner(inner)),
            Expr::And(left, right) => write!(f, "{} and {}", Inner(left), Inner(right)),
            Expr::Or(left, right) => write!(f, "{} or {}", Inner(left), Inner(right)),
            Expr::Compare(left, how, right) => {
                write!(f, "{} {} {}", Inner(left), how.as_str(), Inner(right))
            }
        }
    }
}

/// A part of an expression: in parentheses when it has parts itself.
struct Inner<'a>(&'a Expr);

impl fmt::Display for Inner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expr::Literal(_) | Expr::Path(_) | Expr::List(_) => write!(f, "{}", self.0),
            Expr::Not(_) | Expr::And(..) | Expr::Or(..) | Expr::Compare(..) => write!(f, "({})", self.0),
        }
    }
}

/// JSON's literals are ours; an object has none and is never made by the parser.
fn write_literal(value: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Value::Array(items) => {
            f.write_str("[")?;
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    f.write_str(", ")?;
                }
                write_literal(item, f)?;
            }
            f.write_str("]")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            write!(f, "{value}")
        }
    }
}
