//! `agents top`: all plans on one screen, live; without a terminal the table once.
//!
//! # Invariants
//! 1. The store is the truth: everything on the screen was read from it. It is read again when a notification
//!    says that a plan moved, and soon after anyway. Nothing that is read often costs more than what changed.
//! 2. One errand at a time: a cancel or an apply continues while the table is shown. A user who quits
//!    meanwhile waits for its end.
//! 3. A forecast is made on a thread of its own, one at a time, and rests longer than it took: keys are
//!    answered meanwhile.
//! 4. A store that fails for a moment is reported, and the table stays as it was last seen.

use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::time::Duration;

use domain::PlanId;
use engine::{
    ApplyRequest, Engine, Forecasts, OverviewSnapshot, PlanOverview, PlanSummary, ProviderBreakerChange,
    Reveal,
};
use serde_json::Value;
use store::StoreError;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Invocation;
use super::follow;
use super::invocation::{NamedPlan, short_id};
use super::plan::review::{PlanReview, ReviewDecision, ReviewFailure};
use super::plan::{self, apply};
use super::signals::StopSignals;
use crate::config::SettingKey;
use crate::errors::{CommandError, codes, from_engine, hints};
use crate::output::{
    BodyForm, CommandReport, Format, StreamedBody, escape_control_bytes, escape_control_chars,
};
use crate::render;
use crate::render::next_steps::SEE_PLANS;
use crate::time::now;
use crate::tui::review::ReviewPalette;
use crate::tui::screen::{Keys, Screen};
use crate::tui::top;
use crate::tui::top::{PageKind, PlanGroup, Summary, Top, TopCommand, TopRow};

/// The interval at which the store is read while a plan is worked on: its steps send no notification.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);
/// The interval while none is: a process that begins or ends something notifies, and this is for lost
/// notifications.
const REFRESH_INTERVAL_AT_REST: Duration = Duration::from_secs(2);
/// However much happens, no more often than this.
const LOOK_APART: Duration = Duration::from_millis(100);
/// A forecast is made again at most so often, and rests ten times as long as it took.
const FORECAST_EVERY: Duration = Duration::from_secs(1);
const FORECAST_RESTS: u32 = 10;
/// The number of printed lines that the screen retains.
const LOG_LINES_MAX: usize = 1_000;
const LOG_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug, clap::Args)]
pub(super) struct TopArgs {
    /// Include plans that ended long ago
    #[arg(long)]
    all: bool,
    /// Print the table once, also at a terminal
    #[arg(long)]
    once: bool,
}

pub(super) async fn run(args: TopArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let settings = invocation.settings(Vec::new(), &[])?;
    let engine = invocation.engine_with(&settings).await?;
    let mut sight = PlanTable::new(args.all);
    let style = &invocation.style;
    let is_screen = style.format == Format::Rich && style.is_live && style.can_ask && style.width.is_some();
    if args.once || !is_screen {
        let seen = sight.refresh(&engine).await.map_err(|error| from_engine::store(&error))?;
        sight.made().await.map_err(|error| from_engine::store(&error))?;
        let (rows, summary) = sight.rows(&seen);
        let breakers = top::breakers_json(&sight.breakers, now());
        let text = top::to_table(&rows, &summary, style);
        return Ok(CommandReport::streamed(StreamedBody::new(move |form, out| {
            match form {
                BodyForm::Text => out.write_all(text.as_bytes())?,
                BodyForm::Data => top::write_json(out, (&rows, &summary), &seen, &breakers)?,
            }
            Ok(Vec::new())
        })));
    }
    let shown = TopView {
        invocation,
        engine,
        sight,
        seen: None,
        top: Top::new(),
        with_colour: style.err_paint.is_on(),
        rings: settings.word(SettingKey::NotifyBell) == "on",
        waiting: None,
        errand: None,
        may_leave_errand: false,
    };
    let left = shown.run().await.map_err(|error| {
        CommandError::new(&codes::IO_FAILED, format!("the screen cannot be shown: {error}"))
            .hint(hints::TABLE_ONCE)
    })?;
    Ok(CommandReport::new(Value::Null, left))
}

/// The plans as they were last read.
struct PlanTable {
    glances: PlanOverview,
    forecasts: Forecasts,
    making: Option<ForecastTask>,
    breakers: Vec<ProviderBreakerChange>,
    /// True if something happened since the forecast was made.
    is_stale: bool,
    forecast_due: Instant,
    all: bool,
}

impl PlanTable {
    fn new(all: bool) -> PlanTable {
        PlanTable {
            glances: PlanOverview::default(),
            forecasts: Forecasts::default(),
            making: None,
            breakers: Vec::new(),
            is_stale: true,
            forecast_due: Instant::now(),
            all,
        }
    }

    async fn refresh(&mut self, engine: &Engine) -> Result<OverviewSnapshot, StoreError> {
        let seen = self.glances.refresh(engine).await?;
        self.is_stale |= seen.is_news;
        self.breakers = engine.breaker_changes();
        if self.is_stale && self.making.is_none() && Instant::now() >= self.forecast_due {
            self.is_stale = false;
            self.making = Some(ForecastTask::begin(engine.clone()));
        }
        Ok(seen)
    }

    /// Waits for the forecast that is being made; for ever if none is.
    async fn made(&mut self) -> Result<(), StoreError> {
        let Some(ForecastTask { began, task }) = &mut self.making else {
            return std::future::pending().await;
        };
        let made = task.await;
        self.forecast_due = Instant::now() + FORECAST_EVERY.max(began.elapsed() * FORECAST_RESTS);
        self.making = None;
        // One whose thread was lost is made again.
        self.is_stale |= !matches!(made, Ok(Ok(_)));
        if let Ok(made) = made {
            self.forecasts = made?;
        }
        Ok(())
    }

    fn rows(&self, seen: &OverviewSnapshot) -> (Vec<TopRow>, Summary) {
        let (rows, mut summary) = top::rows(seen, &self.forecasts, now(), self.all);
        summary.breakers = self.breakers.iter().map(|change| top::breaker_words(change, now())).collect();
        (rows, summary)
    }
}

/// A forecast that is being made.
struct ForecastTask {
    began: Instant,
    task: JoinHandle<Result<Forecasts, StoreError>>,
}

impl ForecastTask {
    fn begin(engine: Engine) -> ForecastTask {
        let runtime = tokio::runtime::Handle::current();
        // Reading the store blocks, and comparing takes the processor.
        let task = tokio::task::spawn_blocking(move || runtime.block_on(engine.forecasts()));
        ForecastTask { began: Instant::now(), task }
    }
}

/// Something that is done for a plan; the answer is what to tell.
type PlanActionFuture = Pin<Box<dyn Future<Output = String>>>;

/// The screen, and all that it needs.
struct TopView<'a> {
    invocation: &'a Invocation,
    engine: Engine,
    sight: PlanTable,
    /// The last snapshot.
    seen: Option<OverviewSnapshot>,
    top: Top,
    with_colour: bool,
    /// True if the terminal rings when a plan comes to need the user.
    rings: bool,
    /// The plans that needed the user at the last look; `None` before the first look.
    waiting: Option<Vec<PlanId>>,
    errand: Option<PlanActionFuture>,
    /// True if the errand continues without this process: a cancel that is asked for does, an apply does not.
    may_leave_errand: bool,
}

impl TopView<'_> {
    /// Runs until the user quits. Returns the text to print after the screen is gone.
    async fn run(mut self) -> std::io::Result<String> {
        let mut keys = Keys::begin()?;
        let mut screen = Screen::enter()?;
        let mut stops = StopSignals::listen();
        let mut onlooker = self.engine.store_watcher();
        let mut next_look = Instant::now();
        let mut looked = next_look;
        loop {
            if Instant::now() >= next_look {
                let pause = if self.refresh().await { REFRESH_INTERVAL } else { REFRESH_INTERVAL_AT_REST };
                looked = Instant::now();
                next_look = looked + pause;
            }
            screen.draw(|frame| {
                self.top.fit(frame.area().height);
                top::draw(&self.top, self.with_colour, frame);
            })?;
            let press = tokio::select! {
                press = keys.next() => press?,
                _ = stops.next() => break,
                said = done(&mut self.errand) => {
                    self.top.say(said);
                    next_look = Instant::now();
                    None
                }
                made = self.sight.made() => {
                    match made {
                        Ok(()) => self.show(),
                        Err(error) => self.top.say(format!("the plans cannot be compared: {error}")),
                    }
                    None
                }
                () = onlooker.changed() => {
                    next_look = next_look.min(looked + LOOK_APART);
                    None
                }
                () = tokio::time::sleep_until(next_look) => None,
            };
            let Some(press) = press else { continue };
            let wish = self.top.press(press);
            if wish == TopCommand::Quit {
                break;
            }
            tokio::select! {
                fulfilled = self.fulfil(wish, &mut screen, &mut keys) => fulfilled?,
                _ = stops.next() => break,
            }
        }
        drop((screen, keys));
        let Some(errand) = self.errand else { return Ok(String::new()) };
        tokio::select! {
            said = errand => Ok(said + "\n"),
            _ = stops.next(), if self.may_leave_errand => {
                Ok(format!("the cancel is requested; {SEE_PLANS}\n"))
            }
        }
    }

    /// Looks at all plans; says whether one is worked on.
    async fn refresh(&mut self) -> bool {
        let mut is_lively = true;
        match self.sight.refresh(&self.engine).await {
            Ok(seen) => {
                is_lively = seen.plans.iter().any(PlanSummary::is_running);
                self.seen = Some(seen);
                self.show();
            }
            Err(error) => self.top.say(format!("the plans cannot be read: {error}")),
        }
        if let Some(plan) = self.top.shows_logs_of() {
            self.show_logs(plan).await;
        }
        is_lively
    }

    /// Shows what was seen last, with what is forecast of it.
    fn show(&mut self) {
        let Some(seen) = &self.seen else { return };
        let (rows, summary) = self.sight.rows(seen);
        self.ring(&rows);
        self.top.see(rows, summary);
    }

    /// Rings when a plan has come to need a person since the last look.
    fn ring(&mut self, rows: &[TopRow]) {
        let now: Vec<PlanId> =
            rows.iter().filter(|row| row.group == PlanGroup::NeedsYou).map(|row| row.id).collect();
        let is_new = |before: &Vec<PlanId>| now.iter().any(|plan| !before.contains(plan));
        if self.rings && self.waiting.as_ref().is_some_and(is_new) {
            // A terminal that cannot ring is none to complain to.
            let _ = std::io::stderr().write_all(b"\x07");
        }
        self.waiting = Some(now);
    }

    async fn fulfil(
        &mut self,
        wish: TopCommand,
        screen: &mut Screen,
        keys: &mut Keys,
    ) -> std::io::Result<()> {
        match wish {
            TopCommand::Stay | TopCommand::Quit => {}
            TopCommand::Errors(plan) => self.show_errors(plan).await,
            TopCommand::Logs(plan) => self.show_logs(plan).await,
            TopCommand::Diff(plan) => self.show_changes(plan, screen, keys).await?,
            TopCommand::Cancel(_) | TopCommand::Apply(_) if self.errand.is_some() => {
                self.top.say("one thing after the other: the last one is not done yet".to_owned());
            }
            TopCommand::Cancel(plan) => {
                self.top.say("cancelling…".to_owned());
                self.may_leave_errand = true;
                self.errand = Some(Box::pin(cancel_plan(self.engine.clone(), plan)));
            }
            TopCommand::Apply(plan) => self.apply(plan, screen, keys).await?,
        }
        Ok(())
    }

    /// Lets the user look at the changes of a plan.
    async fn show_changes(
        &mut self,
        plan: PlanId,
        screen: &mut Screen,
        keys: &mut Keys,
    ) -> std::io::Result<()> {
        let named = match self.named(plan).await {
            Ok(named) => named,
            Err(failure) => {
                self.top.say(failure.message);
                return Ok(());
            }
        };
        let review = PlanReview { engine: &self.engine, plan: &named, palette: self.palette() };
        match review.read(screen, keys).await {
            Ok(()) => Ok(()),
            Err(ReviewFailure::Terminal(error)) => Err(error),
            Err(failure) => {
                self.top.say(failure.into_error(&named).message);
                Ok(())
            }
        }
    }

    async fn apply(&mut self, plan: PlanId, screen: &mut Screen, keys: &mut Keys) -> std::io::Result<()> {
        let named = match self.named(plan).await {
            Ok(named) => named,
            Err(failure) => {
                self.top.say(failure.message);
                return Ok(());
            }
        };
        let review = PlanReview { engine: &self.engine, plan: &named, palette: self.palette() };
        match review.choose(&ApplyRequest::default(), screen, keys).await {
            Ok(ReviewDecision::Quit | ReviewDecision::Interrupted) => {
                self.top.say("nothing was applied".to_owned());
            }
            Ok(ReviewDecision::Revise) => {
                match plan::revise::leave_notes(&self.engine, &named, self.invocation).await {
                    Ok(_) => self.top.say(format!("plan {} is revised with its notes", named.short)),
                    Err(failure) => self.top.say(failure.message),
                }
            }
            Ok(ReviewDecision::Apply(chosen)) => {
                self.top.say(format!("applying plan {}…", named.short));
                self.may_leave_errand = false;
                self.errand = Some(Box::pin(apply_plan(self.engine.clone(), named, chosen.0)));
            }
            Err(ReviewFailure::Terminal(error)) => return Err(error),
            Err(failure) => self.top.say(failure.into_error(&named).message),
        }
        Ok(())
    }

    fn palette(&self) -> ReviewPalette {
        ReviewPalette::of_terminal(self.with_colour)
    }

    async fn show_errors(&mut self, plan: PlanId) {
        let named = match self.named(plan).await {
            Ok(named) => named,
            Err(failure) => return self.top.say(failure.message),
        };
        let style = self.invocation.style.plain();
        match plan::errors::report(&self.engine, &named, self.invocation, &style).await {
            Ok(report) => {
                let lines = escape_control_bytes(&report.text).lines().map(str::to_owned).collect();
                self.top.show(PageKind::Errors, plan, format!("plan {}: errors", named.short), lines);
            }
            Err(failure) => self.top.say(failure.message),
        }
    }

    async fn show_logs(&mut self, plan: PlanId) {
        match self.logs(plan).await {
            Ok((title, lines)) => self.top.show(PageKind::Logs, plan, title, lines),
            Err(failure) => self.top.say(failure.message),
        }
    }

    /// The end of what the newest call printed.
    async fn logs(&self, plan: PlanId) -> Result<(String, Vec<String>), CommandError> {
        let named = self.named(plan).await?;
        let failed = |error: &StoreError| from_engine::store(error);
        let calls = self.engine.store().calls(plan).await.map_err(|error| failed(&error))?;
        let Some(last) = calls.last() else {
            let nothing = format!("plan {} has not run anything yet", named.short);
            return Ok((format!("plan {}: logs", named.short), vec![nothing]));
        };
        let logs = self.engine.logs(plan, Some(last.no), Reveal::Hidden).await;
        let logs = logs.map_err(|error| from_engine::plan(&error, &named.short))?;
        let mut lines = Vec::new();
        for stream in logs.iter().flat_map(|log| [&log.stdout, &log.stderr]) {
            let tail = stream.get(stream.len().saturating_sub(LOG_BYTES_MAX)..).unwrap_or_default();
            lines.extend(escape_control_bytes(tail).lines().map(str::to_owned));
        }
        lines.drain(..lines.len().saturating_sub(LOG_LINES_MAX));
        if lines.is_empty() {
            lines.push("it has printed nothing".to_owned());
        }
        let node = escape_control_chars(&last.new.node);
        Ok((format!("plan {}: call {} {node}, {}", named.short, last.no.0, last.state().as_str()), lines))
    }

    async fn named(&self, id: PlanId) -> Result<NamedPlan, CommandError> {
        Ok(NamedPlan { id, short: short_id(&self.engine, id).await? })
    }
}

/// The end of the errand; never when there is none.
async fn done(errand: &mut Option<PlanActionFuture>) -> String {
    let Some(under_way) = errand else { return std::future::pending().await };
    let said = under_way.await;
    *errand = None;
    said
}

async fn cancel_plan(engine: Engine, plan: PlanId) -> String {
    let short = short_id(&engine, plan).await.unwrap_or_else(|_| plan.to_string());
    match engine.cancel(plan, "cancelled by the user", follow::CANCEL_WAIT).await {
        Ok(report) => {
            let projects = render::plan::projects_words(&report.plan);
            format!(
                "cancelled {short} of {projects}: {} stored",
                render::diff::counted(report.entries_kept, "change")
            )
        }
        Err(error) => from_engine::cancel(&error, &short).message,
    }
}

async fn apply_plan(engine: Engine, plan: NamedPlan, request: ApplyRequest) -> String {
    match engine.apply(plan.id, &request).await {
        Ok(summary) => match engine.store().plan(plan.id).await {
            Ok(found) => apply::summary_line(&summary, &plan, &found, "applied").trim_end().to_owned(),
            Err(_) => format!("applied {}", plan.short),
        },
        Err(error) => from_engine::apply(&error, &plan.short).message,
    }
}
