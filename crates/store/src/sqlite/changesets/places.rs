//! Where many plans change something, in one query.
//!
//! # Invariants
//! 1. No entry is read as a whole: a path that only a newer program can read keeps nobody from the others.

use domain::PlanState;
use serde_json::json;

use crate::sqlite::row::parsed;
use crate::sqlite::tx::Tx;
use crate::{ChangedPlace, StoreError};

// The order of the joins is said, so that plans are gone through from the newest on and no more than the limit is read.
const PLACES: &str = "
    SELECT p.id, r.root, e.path, e.from_path
    FROM plans p
    CROSS JOIN changesets c ON c.head = p.head AND c.attempt = p.attempt
    CROSS JOIN change_entries e ON e.changeset = c.no
    CROSS JOIN plan_projects r ON r.head = p.head AND r.no = e.root
    WHERE p.phase || '/' || p.state IN (SELECT value FROM json_each(?1))
    ORDER BY p.id DESC LIMIT ?2";

pub(super) fn changed(
    tx: &Tx<'_>,
    states: &[PlanState],
    entries_max: usize,
) -> Result<Vec<ChangedPlace>, StoreError> {
    let words: Vec<String> =
        states.iter().map(|state| format!("{}/{}", state.phase().as_str(), state.word())).collect();
    let limit = i64::try_from(entries_max).unwrap_or(i64::MAX);
    let rows = tx.all(PLACES, (json!(words).to_string(), limit), |row| {
        let root = row.get_ref(1)?.as_blob()?;
        let here = ChangedPlace::new(parsed(row, 0)?, root, row.get_ref(2)?.as_blob()?);
        let from = row.get_ref(3)?.as_blob_or_null()?;
        Ok([Some(here.clone()), from.map(|path| ChangedPlace::new(here.plan, root, path))])
    })?;
    Ok(rows.into_iter().flatten().flatten().collect())
}
