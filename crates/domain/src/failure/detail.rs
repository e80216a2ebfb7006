//! Details of failures beyond their message: bounded when they are reported, merged when they are read.
//!
//! # Invariants
//! 1. Nothing reported is overwritten by a later report: a key retains its last 20 different values.
//! 2. Merging the same detail again changes nothing.
//! 3. An array that a caller gave is one value. The lists of values are stored apart from the values
//!    themselves ([`Details`]), so the two cannot be mistaken for each other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// The details of one report, by key.
pub type Detail = BTreeMap<String, Json>;

/// Limits how long the details of one report, or of all reports of one error, may be, as JSON.
pub const DETAIL_BYTES_MAX: usize = 16 * 1024;

/// The limit of different values that a key retains.
pub const DETAIL_VALUES_MAX: usize = 20;

/// The key that says how many keys were left out.
pub const LEFT_OUT_KEY: &str = "…";

/// The details of several reports, by key: the different values, the newest last.
///
/// ```
/// use std::collections::BTreeMap;
/// use domain::{Details, merge_detail};
/// use serde_json::json;
///
/// let report = |argv| BTreeMap::from([("argv".to_owned(), argv), ("exit".to_owned(), json!(1))]);
/// let mut details = Details::default();
/// merge_detail(&mut details, &report(json!(["git", "pull"])));
/// merge_detail(&mut details, &report(json!(["git", "push"])));
/// merge_detail(&mut details, &report(json!(["git", "push"])));
/// assert_eq!(json!(details.to_json()), json!({"argv": [["git", "pull"], ["git", "push"]], "exit": 1}));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Details(BTreeMap<String, Vec<Json>>);

impl Details {
    /// The values of a key, the newest last.
    pub fn get(&self, key: &str) -> &[Json] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// As it is shown: a key's only value as it is, several as a list.
    pub fn to_json(&self) -> Detail {
        let shown = |values: &Vec<Json>| match values.as_slice() {
            [only] => only.clone(),
            several => Json::from(several),
        };
        self.0.iter().map(|(key, values)| (key.clone(), shown(values))).collect()
    }

    /// Adds all values of `from`, as if reported after those of `self`.
    pub fn merge(&mut self, from: &Details) {
        for (key, values) in &from.0 {
            values.iter().for_each(|value| self.add(key, value));
        }
    }

    fn add(&mut self, key: &str, value: &Json) {
        let values = self.0.entry(key.to_owned()).or_default();
        values.retain(|known| known != value);
        values.push(value.clone());
        if values.len() > DETAIL_VALUES_MAX {
            values.remove(0);
        }
    }

    /// Adds what of `from` leaves the whole within [`DETAIL_BYTES_MAX`]; the rest is left out.
    pub(crate) fn merge_within_bound(&mut self, from: &Detail) {
        for (key, value) in from {
            let mut merged = self.clone();
            merged.add(key, value);
            if json_bytes(&Json::from_iter(merged.to_json())) <= DETAIL_BYTES_MAX {
                *self = merged;
            }
        }
    }
}

/// Adds a report. A new key is added, and an equal value remains. A different value is appended to the list
/// of the key's values, of which the newest [`DETAIL_VALUES_MAX`] are retained.
pub fn merge_detail(into: &mut Details, from: &Detail) {
    for (key, value) in from {
        into.add(key, value);
    }
}

/// Leaves out, in order of key, what does not fit into [`DETAIL_BYTES_MAX`], and says how many keys that
/// were.
pub(crate) fn bounded(detail: Detail) -> Detail {
    if json_bytes(&Json::from_iter(detail.clone())) <= DETAIL_BYTES_MAX {
        return detail;
    }
    let mut left_out: u64 = 0;
    let mut kept = Detail::new();
    let mut bytes = "{}".len() + entry_bytes(LEFT_OUT_KEY, &Json::from(u64::MAX));
    for (key, value) in detail {
        let more = entry_bytes(&key, &value);
        if key == LEFT_OUT_KEY {
            // It was cut before: those keys are still missing.
            left_out = left_out.saturating_add(value.as_u64().unwrap_or(1));
        } else if bytes + more <= DETAIL_BYTES_MAX {
            bytes += more;
            kept.insert(key, value);
        } else {
            left_out = left_out.saturating_add(1);
        }
    }
    kept.insert(LEFT_OUT_KEY.to_owned(), Json::from(left_out));
    kept
}

/// A key with its value, a colon and a comma.
fn entry_bytes(key: &str, value: &Json) -> usize {
    json_bytes(&Json::from(key)) + json_bytes(value) + ":,".len()
}

fn json_bytes(value: &Json) -> usize {
    value.to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn detail(json: Json) -> Detail {
        serde_json::from_value(json).unwrap()
    }

    fn merged(reports: &[Json]) -> Details {
        let mut details = Details::default();
        for report in reports {
            merge_detail(&mut details, &detail(report.clone()));
        }
        details
    }

    #[test]
    fn another_value_joins_the_first_and_equal_ones_stay() {
        let details =
            merged(&[json!({"a": 1, "b": null}), json!({"a": 2, "c": "x"}), json!({"a": 2, "b": null})]);
        assert_eq!(details.to_json(), detail(json!({"a": [1, 2], "b": null, "c": "x"})));
        assert_eq!(details.get("a"), [json!(1), json!(2)]);
        assert_eq!(details.get("b"), [json!(null)]);
        assert!(details.get("z").is_empty());
    }

    #[test]
    fn the_value_reported_last_is_the_last() {
        assert_eq!(
            merged(&[json!({"a": 1}), json!({"a": 2}), json!({"a": 1})]).get("a"),
            [json!(2), json!(1)]
        );
    }

    #[test]
    fn an_array_of_a_caller_is_one_value() {
        let details = merged(&[json!({"a": [1]}), json!({"a": 1}), json!({"a": [1]}), json!({"a": [1, 2]})]);
        assert_eq!(details.get("a"), [json!(1), json!([1]), json!([1, 2])]);
        assert_eq!(merged(&[json!({"a": [1]})]).to_json(), detail(json!({"a": [1]})));
    }

    #[test]
    fn a_key_keeps_its_newest_20_values() {
        let reports: Vec<Json> = (0..25).map(|value| json!({"a": value})).collect();
        let newest: Vec<Json> = (5..25).map(Json::from).collect();
        assert_eq!(merged(&reports).get("a"), newest);
        assert_eq!(merged(&reports[..20]).get("a").len(), 20);
    }

    #[test]
    fn merged_details_travel_without_loss() {
        let details = merged(&[json!({"a": [1]}), json!({"a": [1, 2]})]);
        let text = serde_json::to_string(&details).unwrap();
        assert_eq!(text, r#"{"a":[[1],[1,2]]}"#);
        assert_eq!(serde_json::from_str::<Details>(&text).unwrap(), details);
    }

    #[test]
    fn details_merge_as_if_reported_one_after_the_other() {
        let mut first = merged(&[json!({"a": 1}), json!({"a": [1]})]);
        first.merge(&merged(&[json!({"a": 2}), json!({"a": 1, "b": 3})]));
        assert_eq!(first, merged(&[json!({"a": [1]}), json!({"a": 2}), json!({"a": 1, "b": 3})]));
    }

    fn text_of_json_bytes(bytes: usize) -> Json {
        Json::from("x".repeat(bytes - 2))
    }

    #[test]
    fn what_fits_is_kept_to_the_last_byte() {
        let fits = Detail::from([("k".to_owned(), text_of_json_bytes(DETAIL_BYTES_MAX - r#"{"k":}"#.len()))]);
        assert_eq!(json_bytes(&json!(fits)), DETAIL_BYTES_MAX);
        assert_eq!(bounded(fits.clone()), fits);
        let over =
            Detail::from([("k".to_owned(), text_of_json_bytes(DETAIL_BYTES_MAX - r#"{"k":}"#.len() + 1))]);
        assert_eq!(bounded(over), detail(json!({"…": 1})));
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let large = text_of_json_bytes(10_000);
        let reported = detail(json!({"a": large, "b": large, "c": 1, "d": large}));
        assert_eq!(bounded(reported), detail(json!({"a": large, "c": 1, "…": 2})));
        let cut_before = detail(json!({"a": large, "b": large, "…": 5}));
        assert_eq!(bounded(cut_before), detail(json!({"a": large, "…": 6})));
        let odd = detail(json!({"a": large, "b": large, "…": "five"}));
        assert_eq!(bounded(odd), detail(json!({"a": large, "…": 2})));
        assert_eq!(bounded(detail(json!({"…": 5}))), detail(json!({"…": 5})));
    }

    #[test]
    fn room_is_left_for_the_count() {
        // The marker is `,"…":` and up to 20 digits; the retained part may fill all but that.
        let room = DETAIL_BYTES_MAX - "{}".len() - r#""…":18446744073709551615,"#.len();
        let exact = text_of_json_bytes(room - r#""a":,"#.len());
        let reported = detail(json!({"a": exact, "b": text_of_json_bytes(100)}));
        assert_eq!(bounded(reported), detail(json!({"a": exact, "…": 1})));
        let over = text_of_json_bytes(room - r#""a":,"#.len() + 1);
        let reported = detail(json!({"a": over, "b": text_of_json_bytes(100)}));
        assert_eq!(bounded(reported), detail(json!({"b": text_of_json_bytes(100), "…": 1})));
    }

    #[test]
    fn further_reports_of_one_error_stay_within_its_bound() {
        let large = text_of_json_bytes(10_000);
        let mut details = merged(&[json!({"a": large})]);
        details.merge_within_bound(&detail(json!({"a": 1, "b": large, "c": 2})));
        assert_eq!(details.to_json(), detail(json!({"a": [large, 1], "c": 2})));
        let again = details.clone();
        details.merge_within_bound(&detail(json!({"a": 1, "b": large, "c": 2})));
        assert_eq!(details, again);
        let room = DETAIL_BYTES_MAX - json_bytes(&json!(details.to_json()));
        let exact = text_of_json_bytes(room - r#","d":"#.len());
        let over = text_of_json_bytes(room - r#","d":"#.len() + 1);
        details.merge_within_bound(&detail(json!({"d": over})));
        assert_eq!(details, again);
        details.merge_within_bound(&detail(json!({"d": exact})));
        assert_eq!(details.get("d"), [exact]);
    }

    fn some_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![(0..3).prop_map(Json::from), "[ab]{0,2}".prop_map(Json::from)];
        prop_oneof![leaf.clone(), proptest::collection::vec(leaf, 0..3).prop_map(Json::from)]
    }

    fn some_detail() -> impl Strategy<Value = Detail> {
        proptest::collection::btree_map("[a-c]", some_json(), 0..4)
    }

    proptest! {
        #[test]
        fn merging_the_same_again_changes_nothing(
            reports in proptest::collection::vec(some_detail(), 0..30), last in some_detail(),
        ) {
            let mut details = Details::default();
            reports.iter().for_each(|report| merge_detail(&mut details, report));
            merge_detail(&mut details, &last);
            let once = details.clone();
            merge_detail(&mut details, &last);
            prop_assert_eq!(&details, &once);
            for (key, value) in &last {
                prop_assert_eq!(details.get(key).last(), Some(value));
            }
        }

        #[test]
        fn a_report_is_bounded_whatever_it_holds(
            reported in proptest::collection::btree_map(
                "[a-c…]{1,3}", "[a\"…\\n]{0,900}".prop_map(Json::from), 0..40,
            ),
        ) {
            let kept = bounded(reported.clone());
            prop_assert!(json_bytes(&json!(kept)) <= DETAIL_BYTES_MAX);
            prop_assert_eq!(bounded(kept.clone()), kept.clone());
            for (key, value) in kept.iter().filter(|(key, _)| *key != LEFT_OUT_KEY) {
                prop_assert_eq!(reported.get(key), Some(value));
            }
        }
    }
}
