//! Conversions between values and columns.
//!
//! Names that people see (plans, jobs, changesets, applies, workers) are ULIDs as text. So the file can be
//! read with any SQLite shell, and a plan can be looked up by the beginning of its name. Names that no user
//! types (changes and errors, the many ones) are 16 bytes, in the same order. Within the file, rows refer to
//! each other by small integers.
//!
//! # Invariants
//! 1. A value that is written is read back as the same value.
//! 2. Counts and times beyond 2⁶³ are stored as the largest integer and read back as the largest value. They
//!    are moments that never come, and still compare so.

use std::error::Error;
use std::fmt::Display;
use std::str::FromStr;

use domain::{Fence, Hash, Ms, Phase, RelPath, WallMs};
use rusqlite::Row;
use rusqlite::types::{ToSql, ToSqlOutput, Type, Value, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value that is stored as the text it prints as.
pub(super) struct SqlText<T>(pub(super) T);

impl<T: Display> ToSql for SqlText<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Owned(Value::Text(self.0.to_string())))
    }
}

/// A value that is stored as JSON.
pub(super) struct SqlJson<T>(pub(super) T);

impl<T: Serialize> ToSql for SqlJson<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(&self.0)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        Ok(ToSqlOutput::Owned(Value::Text(text)))
    }
}

/// An unsigned number as SQLite counts.
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A moment as a number.
pub(super) fn ms(value: Ms) -> i64 {
    signed(value.0)
}

/// A wall-clock moment as a number.
pub(super) fn wall(value: WallMs) -> i64 {
    signed(value.0)
}

fn unsigned(value: i64) -> u64 {
    if value == i64::MAX { u64::MAX } else { u64::try_from(value).unwrap_or(0) }
}

/// Returns the error for a column whose value is not known here.
pub(super) fn unreadable(
    column: usize,
    kind: Type,
    error: impl Into<Box<dyn Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, error.into())
}

/// A value that was stored as the text it prints as.
pub(super) fn parsed<T: FromStr<Err: Error + Send + Sync + 'static>>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|error: T::Err| unreadable(column, Type::Text, error))
}

/// The same, where there may be none.
pub(super) fn parsed_or_none<T: FromStr<Err: Error + Send + Sync + 'static>>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => {
            parsed(row, column).map(Some)
        }
    }
}

/// A value that was stored as JSON.
pub(super) fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| unreadable(column, Type::Text, error))
}

/// The same, where there may be none.
pub(super) fn from_json_or_default<T: DeserializeOwned + Default>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(T::default()),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => {
            from_json(row, column)
        }
    }
}

/// One of a fixed set of words.
pub(super) fn word<T>(
    row: &Row<'_>,
    column: usize,
    meaning: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    meaning(text).ok_or_else(|| unreadable(column, Type::Text, format!("{text:?} is not a known value")))
}

/// A phase.
pub(super) fn phase(row: &Row<'_>, column: usize) -> rusqlite::Result<Phase> {
    word(row, column, |text| Phase::ALL.into_iter().find(|phase| phase.as_str() == text))
}

/// A number that is never below zero.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(unsigned)
}

/// Returns how many there are.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<usize> {
    Ok(usize::try_from(number(row, column)?).unwrap_or(usize::MAX))
}

/// A fence.
pub(super) fn fence(row: &Row<'_>, column: usize) -> rusqlite::Result<Fence> {
    number(row, column).map(Fence)
}

/// A moment.
pub(super) fn ms_at(row: &Row<'_>, column: usize) -> rusqlite::Result<Ms> {
    number(row, column).map(Ms)
}

/// A moment, where there may be none.
pub(super) fn ms_or_none(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Ms>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(|value| Ms(unsigned(value))))
}

/// A wall-clock moment.
pub(super) fn wall_at(row: &Row<'_>, column: usize) -> rusqlite::Result<WallMs> {
    number(row, column).map(WallMs)
}

/// A wall-clock moment, where there may be none.
pub(super) fn wall_or_none(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<WallMs>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(|value| WallMs(unsigned(value))))
}

/// A hash of 32 bytes.
pub(super) fn hash(row: &Row<'_>, column: usize) -> rusqlite::Result<Hash> {
    row.get(column).map(Hash::from_bytes)
}

/// A hash, where there may be none.
pub(super) fn hash_or_none(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Hash>> {
    Ok(row.get::<_, Option<[u8; 32]>>(column)?.map(Hash::from_bytes))
}

/// A name of 16 bytes.
pub(super) fn bytes_id(row: &Row<'_>, column: usize) -> rusqlite::Result<u128> {
    row.get(column).map(u128::from_be_bytes)
}

/// A path below a root.
pub(super) fn path(row: &Row<'_>, column: usize) -> rusqlite::Result<RelPath> {
    let bytes = row.get_ref(column)?.as_blob()?;
    RelPath::new(bytes).map_err(|error| unreadable(column, Type::Blob, error))
}
