//! Profiles of automation, and the verdict at each gate.

use domain::{AskReason, Automation, GateDecision, GateFacts, GatePoint, GateVerdict, verdict};
use proptest::prelude::*;
use serde_json::json;

/// A plan at which no gate but that of its profile has anything to say.
const FINE: GateFacts = GateFacts {
    confidence: 1.0,
    is_told_to_apply: false,
    is_read_only: false,
    has_changes: true,
    required_checks: 1,
    checks_passed: true,
    fixes_left: 1,
    has_strategist: true,
    reversions_by_itself: 0,
    reversions_left: 3,
};

const POINTS: [GatePoint; 4] = [GatePoint::Execute, GatePoint::Apply, GatePoint::Fix, GatePoint::Replan];

fn built_in(name: &str) -> Automation {
    Automation::built_in(name).unwrap()
}

#[test]
fn each_profile_asks_where_its_description_says() {
    let asks = |name: &str| -> Vec<GatePoint> {
        let profile = built_in(name);
        POINTS.into_iter().filter(|point| verdict(*point, &profile, &FINE) != GateVerdict::Go).collect()
    };
    assert_eq!(asks("manual"), POINTS);
    assert_eq!(asks("review"), [GatePoint::Apply]);
    assert_eq!(asks("auto"), []);
    assert_eq!(Automation::NAMES.map(built_in).map(|profile| profile.name), Automation::NAMES);
    assert_eq!(Automation::built_in("Auto"), None);
    assert_eq!(Automation::default(), built_in("review"));
}

#[test]
fn a_gate_that_is_open_still_asks_for_these() {
    let auto = Automation { ask_below: 0.5, ..built_in("auto") };
    let says = |point, facts: GateFacts| verdict(point, &auto, &facts);
    let ask = GateVerdict::Ask;
    let unsure = AskReason::Unsure { confidence: 0.4, ask_below: 0.5 };
    assert_eq!(says(GatePoint::Execute, GateFacts { confidence: 0.4, ..FINE }), ask(unsure));
    assert_eq!(says(GatePoint::Execute, GateFacts { confidence: 0.5, ..FINE }), GateVerdict::Go);
    for (facts, why) in [
        (GateFacts { required_checks: 0, ..FINE }, AskReason::Unchecked),
        (GateFacts { checks_passed: false, ..FINE }, AskReason::ChecksFailed),
        (GateFacts { has_changes: false, ..FINE }, AskReason::NothingChanged),
        (GateFacts { is_read_only: true, ..FINE }, AskReason::ReadOnly),
    ] {
        assert_eq!(says(GatePoint::Apply, facts), ask(why));
    }
    assert_eq!(says(GatePoint::Fix, GateFacts { fixes_left: 0, ..FINE }), ask(AskReason::FixesSpent));
    for (facts, why) in [
        (GateFacts { has_strategist: false, ..FINE }, AskReason::NoStrategist),
        (GateFacts { reversions_by_itself: 1, ..FINE }, AskReason::WentBackAlready),
        (GateFacts { reversions_left: 0, ..FINE }, AskReason::ReversionsSpent),
    ] {
        assert_eq!(says(GatePoint::Replan, facts), ask(why));
    }
}

#[test]
fn a_persons_yes_beforehand_needs_no_check_but_passes_none_that_failed() {
    let told = GateFacts { is_told_to_apply: true, required_checks: 0, ..FINE };
    let says = |facts| verdict(GatePoint::Apply, &built_in("manual"), &facts);
    assert_eq!(says(told), GateVerdict::Go);
    assert_eq!(says(GateFacts { checks_passed: false, ..told }), GateVerdict::Ask(AskReason::ChecksFailed));
}

#[test]
fn a_profile_is_stored_whole_and_one_that_was_stored_as_a_word_still_reads() {
    for name in Automation::NAMES {
        assert_eq!(serde_json::from_value::<Automation>(json!(name)).unwrap(), built_in(name));
    }
    assert!(serde_json::from_value::<Automation>(json!("yolo")).is_err());
    let careful = Automation { name: "careful".to_owned(), ask_below: 0.6, ..built_in("auto") };
    let stored = serde_json::to_string(&careful).unwrap();
    assert_eq!(serde_json::from_str::<Automation>(&stored).unwrap(), careful);
}

#[test]
fn a_profile_that_was_tightened_is_named_after_what_it_is() {
    let name = |one: &Automation, other: &Automation| one.tightened(other).name;
    assert_eq!(name(&built_in("auto"), &built_in("manual")), "manual");
    assert_eq!(name(&built_in("review"), &built_in("auto")), "review");
    let careful = Automation { name: "careful".to_owned(), ask_below: 0.6, ..built_in("auto") };
    let joined = careful.tightened(&built_in("review"));
    assert_eq!(
        (joined.name.as_str(), joined.apply, joined.ask_below),
        ("careful+review", GateDecision::Ask, 0.6)
    );
}

fn gate() -> impl Strategy<Value = GateDecision> {
    prop_oneof![Just(GateDecision::Ask), Just(GateDecision::Auto)]
}

fn profile() -> impl Strategy<Value = Automation> {
    let gates = (gate(), gate(), gate(), gate(), 0_u8..=10);
    gates.prop_map(|(execute, apply, fix, replan, tenths)| Automation {
        name: "p".to_owned(),
        execute,
        apply,
        fix,
        replan,
        ask_below: f32::from(tenths) / 10.0,
    })
}

proptest! {
    #[test]
    fn nobody_loosens_what_another_said(one in profile(), other in profile(), tenths in 0_u8..=10) {
        let facts = GateFacts { confidence: f32::from(tenths) / 10.0, ..FINE };
        let joined = one.tightened(&other);
        for point in POINTS {
            let goes = |profile: &Automation| verdict(point, profile, &facts) == GateVerdict::Go;
            prop_assert_eq!(goes(&joined), goes(&one) && goes(&other), "{:?}", point);
        }
    }
}
