//! Jobs against a model that follows the rows of the specified table one by one, over random histories.

use std::time::Duration;

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

use crate::sample::{ANN, BOB, BOOT, OTHER_BOOT, new_job};

/// A row of the `jobs` table, and nothing clever.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    phase: Phase,
    state: &'static str,
    fence: u64,
    worker: Option<WorkerId>,
    boot: Option<BootId>,
    lease_until: u64,
    lost_leases: u8,
    cancel: Option<(u64, String)>,
    sealed_at: Option<u64>,
    why: Option<String>,
    started_at: Option<u64>,
    finished_at: Option<u64>,
}

impl Row {
    fn of(job: &Job) -> Row {
        Row {
            phase: job.phase,
            state: job.state.as_str(),
            fence: job.fence.0,
            worker: job.worker,
            boot: job.boot,
            lease_until: job.lease_until.0,
            lost_leases: job.lost_leases,
            cancel: job.cancel.as_ref().map(|cancel| (cancel.at.0, cancel.reason.clone())),
            sealed_at: job.sealed_at.map(|at| at.0),
            why: job.why.clone(),
            started_at: job.started_at.map(|at| at.0),
            finished_at: job.finished_at.map(|at| at.0),
        }
    }

    fn is_final(&self) -> bool {
        ["succeeded", "failed", "cancelled"].contains(&self.state)
    }

    /// `UPDATE jobs … WHERE fence = ? AND state = 'running'`.
    fn where_owner(&self, fence: Fence) -> Result<(), &'static str> {
        match (self.state == "running", self.fence == fence.0) {
            (true, true) => Ok(()),
            (false, true) if self.is_final() => Err("final"),
            _ => Err("lease lost"),
        }
    }

    fn unless_cancelled(&self) -> Result<(), &'static str> {
        if self.cancel.is_some() && self.sealed_at.is_none() { Err("cancel requested") } else { Ok(()) }
    }

    fn end(&mut self, state: &'static str, now: u64) {
        self.state = state;
        self.lease_until = 0;
        self.finished_at = Some(now);
    }

    fn own(&mut self, worker: WorkerId, boot: BootId, lease_until: u64) {
        self.state = "running";
        self.fence += 1;
        self.worker = Some(worker);
        self.boot = Some(boot);
        self.lease_until = lease_until;
    }

    fn apply(&mut self, event: &JobEvent, now: u64) -> Result<(), &'static str> {
        let ms = |lease: &Duration| lease.as_millis() as u64;
        match event {
            JobEvent::Claim { worker, boot, lease } => {
                match self.state {
                    "queued" => {}
                    "running" => return Err("claimed"),
                    _ => return Err("final"),
                }
                self.own(*worker, *boot, now + ms(lease));
                self.started_at = self.started_at.or(Some(now));
            }
            JobEvent::Heartbeat { fence, lease } => {
                self.where_owner(*fence)?;
                self.lease_until = self.lease_until.max(now + ms(lease));
            }
            JobEvent::Release { fence } => {
                self.where_owner(*fence)?;
                if self.sealed_at.is_some() {
                    return Err("sealed");
                }
                self.unless_cancelled()?;
                self.state = "queued";
                self.worker = None;
                self.boot = None;
                self.lease_until = 0;
            }
            JobEvent::Cancel { reason } => {
                if self.is_final() {
                    return Err("final");
                }
                if self.sealed_at.is_some() {
                    return Err("too late");
                }
                if self.cancel.is_none() {
                    self.cancel = Some((now, reason.clone()));
                }
                if self.state == "queued" {
                    self.end("cancelled", now);
                }
            }
            JobEvent::Seal { fence } => {
                self.where_owner(*fence)?;
                if self.phase != Phase::Apply {
                    return Err("not apply");
                }
                self.unless_cancelled()?;
                self.sealed_at = self.sealed_at.or(Some(now));
            }
            JobEvent::Succeed { fence } => {
                self.where_owner(*fence)?;
                self.unless_cancelled()?;
                self.end("succeeded", now);
            }
            JobEvent::Fail { fence, why } => {
                self.where_owner(*fence)?;
                self.unless_cancelled()?;
                self.end("failed", now);
                self.why = Some(why.clone());
            }
            JobEvent::Cancelled { fence } => {
                self.where_owner(*fence)?;
                if self.cancel.is_none() {
                    return Err("no cancel");
                }
                self.end("cancelled", now);
            }
            JobEvent::TakeOver { worker, boot, lease } => {
                if self.is_final() {
                    return Err("final");
                }
                if self.state != "running" {
                    return Err("not running");
                }
                if self.lease_until > now && self.boot == Some(*boot) {
                    return Err("alive");
                }
                self.lost_leases = self.lost_leases.saturating_add(1);
                if self.lost_leases < 4 || self.unless_cancelled().is_err() {
                    self.own(*worker, *boot, now + ms(lease));
                } else {
                    self.fence += 1;
                    self.end("failed", now);
                    self.why = Some("its worker died 4 times".to_owned());
                }
            }
            JobEvent::FreeLease { worker } => {
                if self.is_final() {
                    return Err("final");
                }
                if self.state != "running" {
                    return Err("not running");
                }
                if self.worker != Some(*worker) {
                    return Err("other worker");
                }
                self.lease_until = 0;
            }
            JobEvent::BreakSeal => {
                if self.is_final() {
                    return Err("final");
                }
                if self.state != "running" {
                    return Err("not running");
                }
                self.sealed_at = None;
            }
            JobEvent::SettledNode { fence } => {
                self.where_owner(*fence)?;
                self.lost_leases = 0;
            }
        }
        Ok(())
    }
}

fn name(refused: JobTransitionRejection) -> &'static str {
    match refused {
        JobTransitionRejection::LeaseLost(_) => "lease lost",
        JobTransitionRejection::Final { .. } => "final",
        JobTransitionRejection::CancelRequested => "cancel requested",
        JobTransitionRejection::CancelNotRequested => "no cancel",
        JobTransitionRejection::CancelTooLate => "too late",
        JobTransitionRejection::Sealed => "sealed",
        JobTransitionRejection::NotApply { .. } => "not apply",
        JobTransitionRejection::LeaseAlive { .. } => "alive",
        JobTransitionRejection::OtherWorker => "other worker",
        JobTransitionRejection::AlreadyClaimed => "claimed",
        JobTransitionRejection::NotRunning => "not running",
        JobTransitionRejection::NotDue { .. }
        | JobTransitionRejection::PlanBusy { .. }
        | JobTransitionRejection::IdTaken { .. }
        | JobTransitionRejection::PlanNotReady { .. }
        | JobTransitionRejection::ApplyTaken { .. }
        | JobTransitionRejection::OtherPlan { .. }
        | JobTransitionRejection::NotFound { .. } => "of no single job",
    }
}

/// An event, with fences as "the present one, less so many".
fn some_event() -> impl Strategy<Value = (u8, u64, WorkerId, BootId, Duration)> {
    let worker = prop_oneof![Just(ANN), Just(BOB)];
    let boot = prop_oneof![9 => Just(BOOT), 1 => Just(OTHER_BOOT)];
    let behind = prop_oneof![4 => Just(0_u64), 1 => Just(1_u64)];
    (0..15_u8, behind, worker, boot, (0..20_u64).prop_map(Duration::from_millis))
}

fn event(job: &Job, (what, behind, worker, boot, lease): (u8, u64, WorkerId, BootId, Duration)) -> JobEvent {
    let fence = Fence(job.fence.0.saturating_sub(behind));
    match what {
        0 | 11 => JobEvent::Claim { worker, boot, lease },
        1 => JobEvent::Heartbeat { fence, lease },
        2 => JobEvent::Release { fence },
        3 => JobEvent::Cancel { reason: format!("{worker}") },
        4 => JobEvent::Seal { fence },
        5 => JobEvent::Succeed { fence },
        6 => JobEvent::Fail { fence, why: format!("{worker}") },
        7 => JobEvent::Cancelled { fence },
        8 | 12 | 13 => JobEvent::TakeOver { worker, boot, lease },
        9 => JobEvent::FreeLease { worker },
        14 => JobEvent::BreakSeal,
        _ => JobEvent::SettledNode { fence },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_job_moves_as_the_table_says(
        apply: bool, steps in proptest::collection::vec((some_event(), 0..15_u64), 1..40),
    ) {
        let phase = if apply { Phase::Apply } else { Phase::Execute };
        let mut now = 1_u64;
        let mut job = Job::new(new_job(phase), Ms(now));
        let mut row = Row::of(&job);
        for (drawn, more) in steps {
            now += more;
            let event = event(&job, drawn);
            let before = row.clone();
            let expected = row.apply(&event, now);
            let actual = job.next(&event, Ms(now));
            prop_assert_eq!(actual.as_ref().map(|_| ()).map_err(|refused| name(*refused)), expected, "{:?}", event);
            match actual {
                Ok(next) => {
                    prop_assert_eq!((next.id, next.plan, next.created_at), (job.id, job.plan, job.created_at));
                    job = next;
                }
                Err(_) => row = before,
            }
            prop_assert_eq!(Row::of(&job), row.clone(), "after {:?}", event);
        }
    }
}
