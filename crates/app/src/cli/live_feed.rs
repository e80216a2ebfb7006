//! Reads what a plan does while it runs, in this process or another: its events with their calls, the output
//! of the call that runs, and what the plan has spent.
//!
//! # Invariants
//! Nothing that is read often costs more than what changed: calls and spending are read when an event says
//! that one began or ended, of a running output only the end.

use domain::{CallNumber, EventKind, EventRecord, PlanId, SpendKind, ToolCall};
use engine::{Engine, LiveOutput};
use store::StoreError;

use crate::render::progress::{LINES_MAX, PlanActivity};

/// The number of events that are read at a time.
const EVENTS_MAX: usize = 500;

/// An event, with the call that it is about.
pub(super) struct NewsItem {
    pub(super) event: EventRecord,
    pub(super) call: Option<ToolCall>,
}

/// The reader of one plan.
pub(super) struct LiveFeed {
    plan: PlanId,
    /// The last event that was read.
    after: u64,
    /// The calls that run, in the order in which they began.
    running: Vec<ToolCall>,
    output: Option<LiveOutput>,
    tokens: u64,
    cost: u64,
}

impl LiveFeed {
    /// Reads the events after this one.
    pub(super) fn new(plan: PlanId, after: u64) -> LiveFeed {
        LiveFeed { plan, after, running: Vec::new(), output: None, tokens: 0, cost: 0 }
    }

    /// Returns what happened since the last call.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn news(&mut self, engine: &Engine) -> Result<Vec<NewsItem>, StoreError> {
        let mut events = Vec::new();
        loop {
            let more = engine.store().events(self.plan, self.after, EVENTS_MAX).await?;
            let is_all = more.len() < EVENTS_MAX;
            self.after = more.last().map_or(self.after, |last| last.n);
            events.extend(more);
            if is_all {
                break;
            }
        }
        let is_call =
            |event: &EventRecord| matches!(event.kind, EventKind::ToolStarted | EventKind::ToolFinished);
        if !events.iter().any(is_call) {
            return Ok(events.into_iter().map(|event| NewsItem { event, call: None }).collect());
        }
        let calls = engine.store().calls(self.plan).await?;
        let ledger = engine.store().ledger(self.plan).await?;
        (self.tokens, self.cost) =
            (ledger.account(SpendKind::Tokens).used, ledger.account(SpendKind::Cost).used);
        let call_of = |event: &EventRecord| {
            let no = event.data["call"].as_u64().and_then(|no| u32::try_from(no).ok()).map(CallNumber)?;
            calls.iter().rfind(|call| call.no == no && event.data["node"] == call.new.node.as_str()).cloned()
        };
        let items = events.into_iter().map(|event| {
            let call = if is_call(&event) { call_of(&event) } else { None };
            NewsItem { event, call }
        });
        let items: Vec<NewsItem> = items.collect();
        self.running = calls.into_iter().filter(|call| call.end.is_none()).collect();
        // The sandbox of another attempt is another directory.
        self.output = engine.live_output(self.plan).await.ok();
        Ok(items)
    }

    /// Returns what the plan does now.
    pub(super) fn now(&self) -> PlanActivity {
        let call = self.running.last().cloned();
        let lines = match (&self.output, &call) {
            (Some(output), Some(call)) => output.last_lines(call.no, LINES_MAX),
            (Some(_) | None, _) => Vec::new(),
        };
        PlanActivity { call, lines, tokens: self.tokens, cost: self.cost }
    }
}
