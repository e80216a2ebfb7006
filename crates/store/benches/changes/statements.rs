//! The statements that SQLite got, and their repetition without the store.

use std::sync::Arc;
use std::time::Instant;

use domain::WallMs;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use store::{SqliteOptions, SqliteStore};
use sync::SystemClock;

use crate::traced::Said;

/// A statement and the values of its parameters.
struct Statement {
    text: Arc<str>,
    values: Vec<Value>,
}

/// All statements of a run; the first ones only prepare it.
pub(crate) struct Statements {
    before: Vec<Statement>,
    timed: Vec<Statement>,
}

impl Statements {
    /// `begun` of them only prepare what is measured.
    pub(crate) fn new(mut said: Vec<Said>, begun: usize) -> Statements {
        let timed = said.split_off(begun);
        // When there is a pause, the store moves its log into the database; the peer is spared that.
        let is_work = |said: &Said| !said.text.contains("wal_checkpoint");
        let all = |said: Vec<Said>| said.into_iter().filter(is_work).map(Statement::new).collect();
        Statements { before: all(said), timed: all(timed) }
    }

    pub(crate) fn timed(&self) -> usize {
        self.timed.len()
    }

    pub(crate) fn transactions(&self) -> usize {
        self.timed.iter().filter(|statement| &*statement.text == "COMMIT").count()
    }

    /// Seconds that the same statements take on a fresh file.
    pub(crate) fn replay(&self) -> f64 {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock::new());
        let options = SqliteOptions { dir: dir.path().to_owned(), clock, wall: || WallMs(0) };
        drop(SqliteStore::open(options).unwrap());
        let connection = Connection::open(dir.path().join("agents.db")).unwrap();
        connection.set_prepared_statement_cache_capacity(128);
        // As the store has it, which no statement says: plans do not depend on values, so none is made anew.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
        run(&connection, &self.before);
        let start = Instant::now();
        run(&connection, &self.timed);
        start.elapsed().as_secs_f64()
    }
}

fn run(connection: &Connection, statements: &[Statement]) {
    for Statement { text, values } in statements {
        if text.starts_with("PRAGMA") && text.contains('=') {
            // SQLite obeys a setting while it reads it, so that a prepared one would do nothing.
            connection.execute_batch(text).unwrap();
            continue;
        }
        let mut prepared = connection.prepare_cached(text).unwrap();
        for (index, value) in values.iter().enumerate() {
            prepared.raw_bind_parameter(index + 1, value).unwrap();
        }
        let mut rows = prepared.raw_query();
        while rows.next().unwrap().is_some() {}
    }
}

impl Statement {
    /// Finds the values by laying the two texts beside each other: they differ only where `?N` stands.
    fn new(said: Said) -> Statement {
        let (mut text, mut expanded) = (said.text.as_str(), said.with_values.as_str());
        let mut values = Vec::new();
        while let Some(at) = text.find('?') {
            assert_eq!(text[..at], expanded[..at]);
            let (number, behind) = digits(&text[at + 1..]);
            let (value, expanded_behind) = literal(&expanded[at..]);
            let number: usize = number.parse().unwrap();
            if values.len() < number {
                values.resize(number, Value::Null);
            }
            values[number - 1] = value;
            (text, expanded) = (behind, expanded_behind);
        }
        assert_eq!(text, expanded);
        Statement { text: said.text.into(), values }
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()))
}

/// The value at the beginning of a text, and what follows it.
fn literal(text: &str) -> (Value, &str) {
    if let Some(behind) = text.strip_prefix("NULL") {
        return (Value::Null, behind);
    }
    if let Some(hex) = text.strip_prefix("x'") {
        let (hex, behind) = hex.split_once('\'').unwrap();
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        return (Value::Blob((0..hex.len()).step_by(2).map(byte).collect()), behind);
    }
    if let Some(quoted) = text.strip_prefix('\'') {
        return words(quoted);
    }
    let (sign, unsigned) = text.strip_prefix('-').map_or((1, text), |behind| (-1, behind));
    let (number, behind) = digits(unsigned);
    (Value::Integer(sign * number.parse::<i64>().unwrap()), behind)
}

/// A text up to its closing quote; two quotes in it are one.
fn words(mut rest: &str) -> (Value, &str) {
    let mut value = String::new();
    loop {
        let (part, behind) = rest.split_once('\'').unwrap();
        value.push_str(part);
        match behind.strip_prefix('\'') {
            Some(behind) => {
                value.push('\'');
                rest = behind;
            }
            None => return (Value::Text(value), behind),
        }
    }
}
