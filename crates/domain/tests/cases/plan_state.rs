//! Every state of a plan meets every event: the legal pairs by hand, and the words of both.

use std::collections::BTreeSet;

use domain::plan::table_markdown;
use domain::*;

use crate::sample::new_job;

/// The 57 legal pairs of the 256, as the specification's rows say them.
const LEGAL: &str = "\
strategize/queued      start     strategize/processing
strategize/queued      fail      strategize/errored
strategize/queued      cancel    strategize/cancelled
strategize/processing  release   strategize/queued
strategize/processing  complete  strategize/complete
strategize/processing  fail      strategize/errored
strategize/processing  cancel    strategize/cancelled
strategize/complete    advance   execute/queued
strategize/complete    revert    strategize/queued
strategize/complete    cancel    strategize/cancelled
strategize/errored     retry     strategize/queued
strategize/errored     revert    strategize/queued
strategize/errored     cancel    strategize/cancelled
execute/queued         start     execute/processing
execute/queued         fail      execute/errored
execute/queued         cancel    execute/cancelled
execute/processing     release   execute/queued
execute/processing     complete  execute/complete
execute/processing     fail      execute/errored
execute/processing     cancel    execute/cancelled
execute/complete       advance   apply/queued
execute/complete       again     execute/queued
execute/complete       revert    strategize/queued
execute/complete       cancel    execute/cancelled
execute/errored        retry     execute/queued
execute/errored        revert    strategize/queued
execute/errored        cancel    execute/cancelled
apply/queued           start     apply/processing
apply/queued           cancel    apply/cancelled
apply/queued           withdraw  execute/complete
apply/processing       withdraw  execute/complete
apply/processing       release   apply/queued
apply/processing       applied   apply/applied
apply/processing       constrain apply/constrained
apply/processing       fail      apply/errored
apply/processing       cancel    apply/cancelled
apply/constrained      reapply   apply/queued
apply/constrained      revert    strategize/queued
apply/constrained      cancel    apply/cancelled
apply/errored          retry     apply/queued
apply/errored          revert    strategize/queued
apply/errored          cancel    apply/cancelled
execute/complete       revise    execute/queued
execute/complete       amend     execute/complete
execute/errored        revise    execute/queued
execute/errored        amend     execute/errored
execute/errored        accept    execute/complete
execute/cancelled      revise    execute/queued
execute/cancelled      amend     execute/cancelled
execute/cancelled      accept    execute/complete
apply/constrained      revise    execute/queued
apply/constrained      amend     execute/complete
apply/errored          revise    execute/queued
apply/errored          amend     execute/complete
apply/cancelled        revise    execute/queued
apply/cancelled        amend     apply/cancelled
apply/cancelled        accept    execute/complete
";

#[test]
fn every_pair_of_state_and_event_is_as_written() {
    let mut legal: BTreeSet<String> = BTreeSet::new();
    for state in PlanState::ALL {
        for event in PlanEvent::ALL {
            match state.next(event) {
                Ok(next) => assert!(legal.insert(format!("{state} {event} {next}"))),
                Err(refused) => assert_eq!(refused, BadTransition { state, event }),
            }
        }
    }
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let written: BTreeSet<String> = LEGAL.lines().map(words).collect();
    assert_eq!(written.len(), 57);
    assert_eq!(legal, written);
}

#[test]
fn words_are_unique_and_parse_back() {
    let states: BTreeSet<String> = PlanState::ALL.iter().map(PlanState::to_string).collect();
    assert_eq!(states.len(), 16);
    for state in PlanState::ALL {
        assert_eq!(PlanState::parse(state.phase().as_str(), state.word()), Some(state));
        assert_eq!(state.to_string(), format!("{}/{}", state.phase(), state.word()));
    }
    for (phase, word) in [
        ("strategize", "applied"),
        ("execute", "constrained"),
        ("apply", "complete"),
        ("execute", "Queued"),
        ("", "queued"),
        ("execute", ""),
    ] {
        assert_eq!(PlanState::parse(phase, word), None, "{phase}/{word}");
    }
    let events: BTreeSet<&str> = PlanEvent::ALL.iter().map(|event| event.as_str()).collect();
    assert_eq!(events.len(), 16);
    for event in PlanEvent::ALL {
        assert_eq!(PlanEvent::parse(event.as_str()), Some(event));
        assert_eq!(format!("{event:>9}"), format!("{:>9}", event.as_str()));
    }
    assert_eq!(PlanEvent::parse("cancelled"), None);
}

#[test]
fn the_four_ends_are_final_and_only_a_person_who_takes_up_their_changes_leaves_them() {
    let ends = ["strategize/cancelled", "execute/cancelled", "apply/applied", "apply/cancelled"];
    for state in PlanState::ALL {
        let by_person = [PlanEvent::Revise, PlanEvent::Amend, PlanEvent::Accept];
        let leaves = PlanEvent::ALL.iter().filter(|event| !by_person.contains(event));
        let leaves = leaves.filter(|event| state.next(**event).is_ok()).count();
        assert_eq!(state.is_final(), ends.contains(&state.to_string().as_str()), "{state}");
        assert_eq!(state.is_final(), leaves == 0, "{state}");
        let is_left = by_person.iter().any(|event| state.next(*event).is_ok());
        assert!(!is_left || state.to_string() != "apply/applied");
    }
}

#[test]
fn a_job_lives_exactly_while_a_plan_is_queued_or_processing() {
    for state in PlanState::ALL {
        assert_eq!(state.is_queued(), state.word() == "queued", "{state}");
        assert_eq!(state.is_processing(), state.word() == "processing", "{state}");
        assert_eq!(state.has_live_job(), ["queued", "processing"].contains(&state.word()), "{state}");
    }
}

#[test]
fn every_state_can_be_reached_from_the_first() {
    let mut reached = BTreeSet::from([PlanState::FIRST]);
    loop {
        let next: BTreeSet<PlanState> = reached
            .iter()
            .flat_map(|state| PlanEvent::ALL.into_iter().filter_map(|event| state.next(event).ok()))
            .collect();
        let before = reached.len();
        reached.extend(next);
        if reached.len() == before {
            break;
        }
    }
    assert_eq!(reached, PlanState::ALL.into_iter().collect());
}

#[test]
fn the_printed_table_has_a_cell_for_each_pair() {
    let table = table_markdown();
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    assert_eq!(rows[0][1..], PlanEvent::ALL.map(PlanEvent::as_str));
    assert_eq!(rows.len(), 2 + 16);
    for (row, state) in rows[2..].iter().zip(PlanState::ALL) {
        assert_eq!((row[0], row.len()), (state.to_string().as_str(), 17));
        for (cell, event) in row[1..].iter().zip(PlanEvent::ALL) {
            let expected = state.next(event).map(|next| next.to_string()).unwrap_or_default();
            assert_eq!(*cell, expected, "{state} {event}");
        }
    }
}

#[test]
fn a_plan_whose_apply_was_withdrawn_is_as_it_was() {
    for (phase, expected) in [(Phase::Apply, PlanEvent::Withdraw), (Phase::Execute, PlanEvent::Cancel)] {
        for state in [JobState::Queued, JobState::Running] {
            let job = Job { state, ..Job::new(new_job(phase), Ms(1)) };
            let reason = APPLY_WITHDRAWN.to_owned();
            let cancel = Some(CancelRequest { reason, at: Ms(2) });
            let ended = Job { state: JobState::Cancelled, cancel, ..job.clone() };
            assert_eq!(follow(&job, &ended, false), Some(expected), "{phase} {state}");
        }
    }
}

#[test]
fn a_plan_that_is_interrupted_has_failed_and_its_apply_was_never_asked_for() {
    let expected = [
        (Phase::Strategize, PlanEvent::Fail),
        (Phase::Execute, PlanEvent::Fail),
        (Phase::Apply, PlanEvent::Withdraw),
    ];
    for (phase, expected) in expected {
        for state in [JobState::Queued, JobState::Running] {
            for interruption in [PlanInterruption::CtrlC, PlanInterruption::Kill, PlanInterruption::HangUp] {
                let job = Job { state, ..Job::new(new_job(phase), Ms(1)) };
                let asked =
                    job.next(&JobEvent::Cancel { reason: interruption.reason().to_owned() }, Ms(2)).unwrap();
                assert_eq!(asked.interruption(), Some(interruption));
                let ended = Job { state: JobState::Cancelled, ..asked };
                assert_eq!(follow(&job, &ended, false), Some(expected), "{phase} {state}");
            }
        }
    }
}

#[test]
fn a_cancel_replaces_an_interruption_and_not_the_other_way_round() {
    let running = Job { state: JobState::Running, ..Job::new(new_job(Phase::Execute), Ms(1)) };
    let ask = |job: &Job, reason: &str, at| {
        job.next(&JobEvent::Cancel { reason: reason.to_owned() }, Ms(at)).unwrap()
    };
    let both = |first: &str, second: &str| {
        let job = ask(&ask(&running, first, 2), second, 3);
        job.cancel.map(|cancel| (cancel.reason, cancel.at)).unwrap()
    };
    let ctrl_c = PlanInterruption::CtrlC.reason();
    assert_eq!(both(ctrl_c, "for good"), ("for good".to_owned(), Ms(3)));
    assert_eq!(both("for good", ctrl_c), ("for good".to_owned(), Ms(2)));
    assert_eq!(both(ctrl_c, PlanInterruption::Kill.reason()), (ctrl_c.to_owned(), Ms(2)));
}

#[test]
fn a_plan_follows_each_move_of_a_job_that_matters() {
    use JobState as S;
    for phase in Phase::ALL {
        let job = |state| Job { state, ..Job::new(new_job(phase), Ms(1)) };
        for before in S::ALL {
            for after in S::ALL {
                for constrained in [false, true] {
                    let expected = match (before, after) {
                        (S::Queued, S::Running) => Some(PlanEvent::Start),
                        (S::Running, S::Queued) => Some(PlanEvent::Release),
                        (S::Running, S::Succeeded) if phase == Phase::Apply => Some(PlanEvent::Applied),
                        (S::Running, S::Succeeded) => Some(PlanEvent::Complete),
                        (S::Running, S::Failed) if phase == Phase::Apply && constrained => {
                            Some(PlanEvent::Constrain)
                        }
                        (S::Running, S::Failed) => Some(PlanEvent::Fail),
                        (S::Queued | S::Running, S::Cancelled) => Some(PlanEvent::Cancel),
                        _ => None,
                    };
                    let told = follow(&job(before), &job(after), constrained);
                    assert_eq!(told, expected, "{phase} {before} {after} {constrained}");
                }
            }
        }
    }
}
