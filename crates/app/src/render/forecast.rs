//! The conflict forecast in words, and as programs read it.
//!
//! # Not here
//! Which plans meet: the engine's `forecast`.

use std::io::{self, Write};
use std::sync::Arc;

use domain::PlanId;
use engine::{Forecast, ForecastKind, ForecastPath};
use serde_json::{Map, Value, json};

use crate::output::{escape_control_chars, write_object_with_list};

/// The number of paths that are named before the rest is counted.
const PATHS_SHOWN_MAX: usize = 3;

/// A plan that meets another one, as the other one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlappingPlan {
    /// The other plan.
    pub other: PlanId,
    /// The shortest text that names it.
    pub short: String,
    /// The paths and kinds of the overlap, as far as they are listed.
    pub paths: Arc<[ForecastPath]>,
    /// The number of further paths that are in conflict.
    pub more_conflicts: usize,
    /// The number of further paths that both change in compatible ways.
    pub more_merges: usize,
    /// The worst of all.
    pub kind: ForecastKind,
}

impl OverlappingPlan {
    /// Returns the overlap of `plan` in a forecast; `None` if it has no part in it.
    pub fn by(
        plan: PlanId,
        forecast: &Forecast,
        short: impl Fn(PlanId) -> String,
    ) -> Option<OverlappingPlan> {
        let other = forecast.other_than(plan)?;
        let Forecast { more_conflicts, more_merges, kind, .. } = *forecast;
        Some(OverlappingPlan {
            other,
            short: short(other),
            paths: Arc::clone(&forecast.paths),
            more_conflicts,
            more_merges,
            kind,
        })
    }

    /// Returns true if the one that is applied second will stand before a conflict.
    pub fn is_conflict(&self) -> bool {
        self.kind.is_conflict()
    }

    /// On one line.
    pub fn line(&self) -> String {
        // Conflicts come first; changes that go together are only shown if there is no conflict.
        let conflicts: Vec<&ForecastPath> =
            self.paths.iter().filter(|path| path.kind.is_conflict()).collect();
        if conflicts.is_empty() {
            let paths: Vec<String> = self.paths.iter().map(|path| path.address.clone()).collect();
            let paths = named(&paths, self.more_merges);
            return format!("plan {} also changes {paths}, without a conflict", self.short);
        }
        let words = |path: &&ForecastPath| format!("{} ({})", path.address, words(path.kind));
        let paths: Vec<String> = conflicts.iter().map(words).collect();
        format!("conflict to come with plan {}: {}", self.short, named(&paths, self.more_conflicts))
    }
}

fn words(kind: ForecastKind) -> &'static str {
    match kind {
        ForecastKind::SameFile => "other lines",
        ForecastKind::NoMerge => "cannot be merged",
        ForecastKind::OneDeletes => "one deletes it",
        ForecastKind::SameLines => "same lines",
    }
}

fn named(paths: &[String], not_listed: usize) -> String {
    let shown: Vec<&str> = paths.iter().take(PATHS_SHOWN_MAX).map(String::as_str).collect();
    let shown = escape_control_chars(&shown.join(", "));
    match paths.len().saturating_sub(PATHS_SHOWN_MAX) + not_listed {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

/// Returns the number of plans that were not compared, on one line; `None` if all were.
pub fn not_compared_line(count: usize) -> Option<String> {
    (count > 0).then(|| format!("{count} more not compared with other plans"))
}

/// All on one line, for who has not asked; none when no conflict is to come.
pub fn warning(mets: &[OverlappingPlan]) -> Option<String> {
    let conflicts: Vec<&OverlappingPlan> = mets.iter().filter(|met| met.is_conflict()).collect();
    let (first, rest) = conflicts.split_first()?;
    Some(match rest.len() {
        0 => first.line(),
        1 => format!("{}; and with 1 more plan", first.line()),
        more => format!("{}; and with {more} more plans", first.line()),
    })
}

/// As programs read it.
pub fn to_json(mets: &[OverlappingPlan]) -> Value {
    mets.iter().map(overlap_json).collect()
}

/// Writes plans, each with what it meets as its `forecast`.
///
/// # Errors
/// They cannot be written.
pub fn write_plans<'a>(
    out: &mut dyn Write,
    plans: impl Iterator<Item = (Map<String, Value>, &'a [OverlappingPlan])>,
) -> io::Result<()> {
    for (no, (details, mets)) in plans.enumerate() {
        if no > 0 {
            out.write_all(b",")?;
        }
        write_object_with_list(out, details, "forecast", |out| {
            for (no, met) in mets.iter().enumerate() {
                if no > 0 {
                    out.write_all(b",")?;
                }
                serde_json::to_writer(&mut *out, &overlap_json(met))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// One of them.
fn overlap_json(met: &OverlappingPlan) -> Value {
    let path = |path: &ForecastPath| json!({ "path": path.address, "kind": path.kind.as_str() });
    json!({
        "plan": met.other, "short_id": met.short, "kind": met.kind.as_str(), "conflict": met.is_conflict(),
        "paths": met.paths.iter().map(path).collect::<Vec<_>>(),
        "more_paths": met.more_conflicts + met.more_merges,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn met(short: &str, paths: &[(&str, ForecastKind)]) -> OverlappingPlan {
        let path = |(address, kind): &(&str, ForecastKind)| ForecastPath {
            address: (*address).to_owned(),
            kind: *kind,
        };
        OverlappingPlan {
            other: PlanId::from_u128(2),
            short: short.to_owned(),
            paths: paths.iter().map(path).collect(),
            more_conflicts: 0,
            more_merges: 0,
            kind: paths.iter().map(|(_, kind)| *kind).max().unwrap(),
        }
    }

    #[test]
    fn what_is_in_the_way_is_told_first_and_the_rest_is_counted() {
        let both = met("01JB", &[("a", ForecastKind::SameFile), ("b", ForecastKind::OneDeletes)]);
        assert_eq!(both.line(), "conflict to come with plan 01JB: b (one deletes it)");
        let many: Vec<(&str, ForecastKind)> =
            ["a", "b", "c", "d", "e"].map(|path| (path, ForecastKind::SameFile)).to_vec();
        assert_eq!(
            met("01JB", &many).line(),
            "plan 01JB also changes a, b, c, and 2 more, without a conflict"
        );
        assert_eq!(warning(&[met("01JB", &many)]), None);
        let lines = met("01JC", &[("x\x1b", ForecastKind::SameLines)]);
        assert_eq!(
            warning(&[met("01JB", &many), lines, both]).as_deref(),
            Some("conflict to come with plan 01JC: x\\x1B (same lines); and with 1 more plan")
        );
    }

    #[test]
    fn programs_read_every_path() {
        let met = met("01JB", &[("a", ForecastKind::SameFile), ("b", ForecastKind::SameLines)]);
        assert_eq!(
            to_json(&[met]),
            json!([{
                "plan": PlanId::from_u128(2), "short_id": "01JB", "kind": "same_lines", "conflict": true,
                "paths": [{ "path": "a", "kind": "same_file" }, { "path": "b", "kind": "same_lines" }],
                "more_paths": 0,
            }])
        );
    }
}
