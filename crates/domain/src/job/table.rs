//! The transition table of jobs as Markdown, found by asking [`Job::next`] and so always true.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::id::{BootId, Fence, JobId, PlanId, WorkerId};
use crate::job::{CancelRequest, Job, JobEvent, JobState, LOST_LEASES_MAX, NewJob};
use crate::plan::phase::Phase;
use crate::time::Ms;

const NOW: Ms = Ms(1_000);
const PAST: Ms = Ms(500);
const FUTURE: Ms = Ms(2_000);
const OWNER: WorkerId = WorkerId::from_u128(1);
const OTHER: WorkerId = WorkerId::from_u128(2);
const BOOT: BootId = BootId::from_u128(1);
const LEASE: Duration = Duration::from_secs(30);
const FENCE: Fence = Fence(2);
const OLD_FENCE: Fence = Fence(1);

/// Returns what each event does in each state: the states it may lead to, then in italics how it may be
/// refused.
///
/// Every pair is tried with all that its guards look at: due or not, phase, cancel, seal, lease, deaths and
/// fence.
pub fn table_markdown() -> String {
    let mut table = String::from("| event |");
    for state in JobState::ALL {
        table.push_str(&format!(" {state} |"));
    }
    table.push_str("\n|---|---|---|---|---|---|\n");
    for ((name, by_owner), (_, by_other)) in events(FENCE, OWNER).into_iter().zip(events(OLD_FENCE, OTHER)) {
        table.push_str(&format!("| {name} |"));
        for state in JobState::ALL {
            table.push_str(&format!(" {} |", cell(state, [&by_owner, &by_other])));
        }
        table.push('\n');
    }
    table
}

fn events(fence: Fence, owner: WorkerId) -> [(&'static str, JobEvent); 12] {
    let (worker, boot, lease) = (OTHER, BOOT, LEASE);
    [
        ("claim", JobEvent::Claim { worker, boot, lease }),
        ("heartbeat", JobEvent::Heartbeat { fence, lease }),
        ("release", JobEvent::Release { fence }),
        ("cancel", JobEvent::Cancel { reason: String::new() }),
        ("seal", JobEvent::Seal { fence }),
        ("succeed", JobEvent::Succeed { fence }),
        ("fail", JobEvent::Fail { fence, why: String::new() }),
        ("cancelled", JobEvent::Cancelled { fence }),
        ("take over", JobEvent::TakeOver { worker, boot, lease }),
        ("free lease", JobEvent::FreeLease { worker: owner }),
        ("break seal", JobEvent::BreakSeal),
        ("settled node", JobEvent::SettledNode { fence }),
    ]
}

fn cell(state: JobState, events: [&JobEvent; 2]) -> String {
    let mut moves = BTreeSet::new();
    let mut refusals = BTreeSet::new();
    for job in samples(state) {
        for event in events {
            match job.next(event, NOW) {
                Ok(next) => moves.insert((next.state, next.fence > job.fence)),
                Err(refused) => refusals.insert(variant_name(&format!("{refused:?}"))),
            };
        }
    }
    let moves = moves
        .into_iter()
        .map(|(state, new_owner)| if new_owner { format!("{state}, fence + 1") } else { state.to_string() });
    let refusals = refusals.into_iter().map(|name| format!("*{name}*"));
    moves.chain(refusals).collect::<Vec<_>>().join("; ")
}

/// `Final { state: Failed }` is called `Final`.
fn variant_name(debug: &str) -> String {
    debug.chars().take_while(|character| character.is_alphanumeric()).collect()
}

/// A job of this state in every situation that a guard looks at.
fn samples(state: JobState) -> Vec<Job> {
    let new = NewJob {
        id: JobId::from_u128(1),
        plan: PlanId::from_u128(1),
        phase: Phase::Execute,
        not_before: PAST,
    };
    let mut samples =
        vec![Job { state, fence: FENCE, worker: Some(OWNER), boot: Some(BOOT), ..Job::new(new, PAST) }];
    let requested = Some(CancelRequest { at: PAST, reason: String::new() });
    vary(&mut samples, |job| Job { not_before: FUTURE, ..job });
    vary(&mut samples, |job| Job { phase: Phase::Apply, ..job });
    vary(&mut samples, |job| Job { lease_until: FUTURE, ..job });
    vary(&mut samples, |job| Job { lost_leases: LOST_LEASES_MAX, ..job });
    // A cancelled job is not sealed, nor a sealed one cancelled.
    let sealed: Vec<Job> = samples.iter().map(|job| Job { sealed_at: Some(PAST), ..job.clone() }).collect();
    vary(&mut samples, |job| Job { cancel: requested.clone(), ..job });
    samples.extend(sealed);
    samples
}

fn vary(samples: &mut Vec<Job>, other: impl Fn(Job) -> Job) {
    let others: Vec<Job> = samples.iter().cloned().map(other).collect();
    samples.extend(others);
}
