//! Keys and pictures of the table of plans.

use domain::{ApplyState, ByteText, CheckObstacle, Job, WorkerId};
use domain::{JobId, Ms, NewJob, NewPlan, Phase, Plan, PlanSpec, PlanState, ProjectLink, WallMs, WorkState};
use engine::{
    CurrentStep, Forecast, ForecastKind, ForecastPath, Forecasts, OverviewSnapshot, PlanSummary, QueuePlace,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

use super::*;
use crate::output::{ColorWhen, Format, OutputStyle};

const NOW: WallMs = WallMs(10_000_000);

fn plan(no: u128, title: &str, state: PlanState) -> Plan {
    let spec = json!({
        "steps": [], "max_file_bytes": 1024, "sandbox": "auto", "isolation_required": true, "time_limit_s": 60,
    });
    let spec: PlanSpec = serde_json::from_value(spec).unwrap();
    let link = ProjectLink { alias: "shop".to_owned(), root: ByteText::from("/shop"), read_only: false };
    let new = NewPlan { id: PlanId::from_u128(no), title: title.to_owned(), spec, projects: vec![link] };
    Plan { state, ..Plan::new(new, WallMs(NOW.0 - 125_000)) }
}

fn plan_summary(no: u128, title: &str, state: PlanState) -> PlanSummary {
    let plan = plan(no, title, state);
    let (job, place, step) = (None, None, None);
    PlanSummary {
        plan,
        short: format!("k3p{no}"),
        job,
        place,
        goes_on: false,
        owner_is_gone: false,
        is_interrupted: false,
        step,
        files: 0,
        obstacle: None,
    }
}

fn job(no: u128, is_running: bool) -> Job {
    let (id, plan) = (JobId::from_u128(no), PlanId::from_u128(no));
    let job = Job::new(NewJob { id, plan, phase: Phase::Execute, not_before: Ms(0) }, Ms(0));
    if !is_running {
        return job;
    }
    let worker = WorkerId::from_u128(0x0194_2f3a_0000_0000_0000_0000_0000_0007);
    Job { state: domain::JobState::Running, worker: Some(worker), ..job }
}

/// One of each group, and two that will be in conflict.
fn seen() -> (OverviewSnapshot, Forecasts) {
    let mut runs = plan_summary(1, "rename the cart everywhere", PlanState::Execute(WorkState::Processing));
    runs.job = Some(job(1, true));
    runs.step = Some(CurrentStep {
        node: "build".to_owned(),
        place: Some((2, 5)),
        tool: "run_command".to_owned(),
        requested: json!({ "command": ["cargo", "build"] }),
    });
    runs.files = 4;
    let mut waits = plan_summary(2, "add a test", PlanState::Execute(WorkState::Queued));
    waits.job = Some(job(2, false));
    waits.place = Some(QueuePlace { slots: 4, busy: 4, before: 2, is_served: true, is_held: false });
    let mut done = plan_summary(3, "fix the sum\x1b[2J", PlanState::Execute(WorkState::Complete));
    done.files = 12;
    let failed = plan_summary(4, "format all", PlanState::Execute(WorkState::Errored));
    let mut applied = plan_summary(5, "bump", PlanState::Apply(ApplyState::Applied));
    applied.files = 1;
    let kind = ForecastKind::SameLines;
    let forecast = Forecast {
        plan: PlanId::from_u128(1),
        other: PlanId::from_u128(3),
        paths: [ForecastPath { address: "src/cart.rs".to_owned(), kind }].into(),
        more_conflicts: 0,
        more_merges: 0,
        kind,
    };
    let mut checked = plan_summary(6, "port the tests", PlanState::Execute(WorkState::Complete));
    checked.files = 3;
    checked.obstacle = Some(CheckObstacle::Failed);
    let plans = vec![applied, failed, done, waits, runs, checked];
    (
        OverviewSnapshot { plans, queued: 3, slots: 4, has_worker: true, is_news: true },
        Forecasts { pairs: vec![forecast], ..Forecasts::default() },
    )
}

fn top() -> Top {
    let (seen, forecasts) = seen();
    let (rows, summary) = rows(&seen, &forecasts, NOW, false);
    let mut top = Top::new();
    top.fit(24);
    top.see(rows, summary);
    top
}

fn painted(top: &mut Top, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    top.fit(height);
    terminal.draw(|frame| draw(top, true, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y: u16| {
        let cells: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        cells.trim_end().to_owned() + "\n"
    };
    (0..height).map(row).collect()
}

fn type_in(top: &mut Top, keys: &str) -> TopCommand {
    keys.chars().map(|key| top.press(KeyPress::Char(key))).last().unwrap()
}

const AT_80: &str = include_str!("screen_80.txt");
const AT_140: &str = include_str!("screen_140.txt");

#[test]
fn the_table_shows_what_each_plan_does_and_fits_the_screen() {
    assert_eq!(painted(&mut top(), 80, 24), AT_80);
    assert_eq!(painted(&mut top(), 140, 24), AT_140, "a wide screen has worker and project too");
}

#[test]
fn a_plan_whose_check_failed_is_not_ready_and_is_not_applied() {
    let mut top = top();
    type_in(&mut top, "j");
    assert_eq!(type_in(&mut top, "a"), TopCommand::Stay);
    assert!(painted(&mut top, 80, 24).contains("plan k3p6 cannot be applied: it is check failed"));
    let (seen, forecasts) = seen();
    let (rows, _) = rows(&seen, &forecasts, NOW, false);
    let row = rows.iter().find(|row| row.id == PlanId::from_u128(6)).unwrap();
    assert_eq!(
        (row.state, row.does.as_str(), row.group),
        ("check failed", "see checks", PlanGroup::NeedsYou)
    );
}

#[test]
fn an_empty_table_says_what_to_type() {
    let mut top = Top::new();
    assert!(painted(&mut top, 80, 24).contains("agents run --detach -- COMMAND"));
    let mut older = seen().0;
    older.plans.retain(|plan_summary| plan_summary.plan.state == PlanState::Apply(ApplyState::Applied));
    let late = WallMs(NOW.0 + 3_600_001);
    let (rows, summary) = rows(&older, &Forecasts::default(), late, false);
    assert!(rows.is_empty() && summary.nothing().contains("agents plan list"));
    assert_eq!(super::rows(&older, &Forecasts::default(), late, true).0.len(), 1, "unless all are asked for");
    assert_eq!(type_in(&mut top, "c"), TopCommand::Stay);
    assert!(painted(&mut top, 80, 24).contains("there is no plan to do that with"));
}

#[test]
fn no_screen_is_too_small() {
    for (width, height) in [(1, 1), (3, 2), (10, 3), (40, 8)] {
        painted(&mut top(), width, height);
        painted(&mut Top::new(), width, height);
    }
}

#[test]
fn the_cursor_stays_with_its_plan() {
    let mut top = top();
    type_in(&mut top, "jjj");
    assert_eq!(top.chosen, Some(PlanId::from_u128(3)));
    let (mut seen, forecasts) = seen();
    seen.plans.retain(|plan_summary| plan_summary.plan.id != PlanId::from_u128(1));
    let (fewer, summary) = rows(&seen, &forecasts, NOW, false);
    top.see(fewer, summary.clone());
    assert_eq!((top.chosen, top.place()), (Some(PlanId::from_u128(3)), 2));
    seen.plans.retain(|plan_summary| plan_summary.plan.id != PlanId::from_u128(3));
    let (fewer, summary) = rows(&seen, &forecasts, NOW, false);
    top.see(fewer, summary);
    assert_eq!(top.place(), 2, "where it was, when it is gone");
    type_in(&mut top, "kkkkkk");
    assert_eq!(top.place(), 0);
    top.press(KeyPress::PageDown);
    assert_eq!(top.place(), 3);
}

#[test]
fn nothing_is_cancelled_without_a_yes() {
    let mut top = top();
    assert_eq!(type_in(&mut top, "c"), TopCommand::Stay);
    assert!(painted(&mut top, 80, 24).contains("cancel plan for good? y/n   k3p1 (rename the cart"));
    assert_eq!(type_in(&mut top, "n"), TopCommand::Stay);
    assert!(painted(&mut top, 80, 24).contains("nothing was cancelled"));
    type_in(&mut top, "c");
    assert_eq!(top.press(KeyPress::Enter), TopCommand::Stay);
    assert_eq!(type_in(&mut top, "cy"), TopCommand::Cancel(PlanId::from_u128(1)));
    type_in(&mut top, "jjjjj");
    assert_eq!(type_in(&mut top, "cy"), TopCommand::Stay, "what is applied has ended");
}

#[test]
fn a_key_that_can_do_nothing_says_why() {
    let mut top = top();
    assert_eq!(type_in(&mut top, "a"), TopCommand::Stay);
    assert!(painted(&mut top, 80, 24).contains("cannot be applied: it is running"));
    assert_eq!(type_in(&mut top, "d"), TopCommand::Diff(PlanId::from_u128(1)));
    assert_eq!(type_in(&mut top, "jjd"), TopCommand::Stay);
    assert!(painted(&mut top, 80, 24).contains("plan k3p4 has changed nothing"));
    assert_eq!(type_in(&mut top, "e"), TopCommand::Errors(PlanId::from_u128(4)));
    assert_eq!(type_in(&mut top, "l"), TopCommand::Logs(PlanId::from_u128(4)));
    assert_eq!(type_in(&mut top, "ja"), TopCommand::Apply(PlanId::from_u128(3)));
    assert_eq!(top.press(KeyPress::Enter), TopCommand::Diff(PlanId::from_u128(3)));
    assert_eq!(
        (type_in(&mut top, "q"), top.press(KeyPress::Interrupt)),
        (TopCommand::Quit, TopCommand::Quit)
    );
}

#[test]
fn help_tells_every_key() {
    let mut top = top();
    type_in(&mut top, "?");
    let shown = painted(&mut top, 100, 24);
    for key in ["j, down", "d, enter", "c     ", "l     ", "e     ", "q     "] {
        assert!(shown.contains(key), "{key}: {shown}");
    }
    assert_eq!(type_in(&mut top, "c"), TopCommand::Stay);
    assert_eq!(top.mode, TopMode::Table, "any key only goes back");
}

#[test]
fn what_is_printed_is_followed_and_what_is_read_stays_in_sight() {
    let id = PlanId::from_u128(1);
    let lines = |count: usize| (1..=count).map(|no| format!("line {no}.")).collect::<Vec<_>>();
    let mut top = top();
    let title = || "plan 01JB: logs".to_owned();
    top.show(PageKind::Logs, id, title(), lines(100));
    let shown = |top: &mut Top, no: usize| painted(top, 40, 14).contains(&format!("line {no}."));
    assert!(shown(&mut top, 100) && shown(&mut top, 91) && !shown(&mut top, 90));
    top.show(PageKind::Logs, id, title(), lines(120));
    assert!(shown(&mut top, 120), "it follows");
    type_in(&mut top, "k");
    top.show(PageKind::Logs, id, title(), lines(130));
    assert!(shown(&mut top, 119) && !shown(&mut top, 120), "what is read stays");
    assert_eq!(top.shows_logs_of(), Some(id));
    for _ in 0..40 {
        top.press(KeyPress::PageUp);
    }
    assert!(shown(&mut top, 1));
    top.press(KeyPress::Down);
    assert!(shown(&mut top, 11), "no key was wasted above the first line");
    type_in(&mut top, "q");
    assert_eq!((&top.mode, top.shows_logs_of()), (&TopMode::Table, None));
    top.show(PageKind::Errors, id, title(), lines(100));
    assert!(shown(&mut top, 1), "errors are read from their beginning");
}

#[test]
fn who_waits_for_a_person_is_told_from_who_waits_for_a_turn() {
    let (mut seen, _) = seen();
    let waits = &mut seen.plans[3];
    waits.place = waits.place.map(|place| QueuePlace { is_held: true, is_served: false, ..place });
    let shown_as = |seen: &OverviewSnapshot, place: usize| {
        let (rows, _) = rows(seen, &Forecasts::default(), NOW, false);
        let row = rows.iter().find(|row| row.id == seen.plans[place].plan.id).unwrap().clone();
        (row.group, row.does)
    };
    assert_eq!(shown_as(&seen, 3), (PlanGroup::NeedsYou, "start it".to_owned()));
    let waits = &mut seen.plans[3];
    waits.place = waits.place.map(|place| QueuePlace { is_held: false, ..place });
    assert_eq!(shown_as(&seen, 3), (PlanGroup::Queued, "no worker".to_owned()));
    seen.plans[4].owner_is_gone = true;
    assert_eq!(shown_as(&seen, 4), (PlanGroup::NeedsYou, "resume it".to_owned()));
    seen.plans[2].goes_on = true;
    assert_eq!(shown_as(&seen, 2).0, PlanGroup::Queued, "it is about to go on by itself");
    seen.plans[2].goes_on = false;
    seen.plans[2].files = 0;
    assert_eq!(shown_as(&seen, 2), (PlanGroup::Ended, String::new()), "nothing to say yes to");
}

#[test]
fn times_are_short() {
    let spans = [0, 59_999, 60_000, 3_599_000, 3_600_000, 86_399_000, 86_400_000].map(span);
    assert_eq!(spans, ["0s", "59s", "1m00s", "59m59s", "1h00m", "23h59m", "1d"]);
}

#[test]
fn the_table_reads_without_a_screen_and_by_programs() {
    let (seen, forecasts) = seen();
    let (rows, summary) = rows(&seen, &forecasts, NOW, false);
    let style =
        OutputStyle { width: None, ..OutputStyle::find(Some(Format::Plain), ColorWhen::Never, |_| None) };
    let table = to_table(&rows, &summary, &style);
    assert!(
        table.starts_with("1 running of 4 slots, 3 queued, 3 need you, 1 conflict to come\nTITLE"),
        "{table}"
    );
    let mut written = Vec::new();
    write_json(&mut written, (&rows, &summary), &seen, &json!([])).unwrap();
    let json: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(
        json["plans"][0]["step"],
        json!({ "node": "build", "no": 2, "of": 5, "does": "2/5 runs cargo build" })
    );
    assert_eq!(json["plans"][0]["forecast"][0]["kind"], "same_lines");
    assert_eq!((&json["plans"][3]["needs"], &json["needs_you"]), (&json!("apply it"), &json!(3)));
    assert_eq!(to_table(&[], &Summary::default(), &style), Summary::default().nothing());
}
