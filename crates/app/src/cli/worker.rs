//! `agents worker`: takes plans that were left to the workers, until it is stopped or nothing is left to do.
//!
//! # Invariants
//! 1. The first signal lets what runs finish for `async.drain`, the second gives it back at once. Neither
//!    cancels a plan.
//! 2. A worker in the background belongs to no terminal, before it is known to anybody.
//!
//! # Not here
//! How a worker is started in the background: `super::detach`.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use engine::{JobSettlement, RunningJob};
use engine::{ServeEnd, ServeError, ServeNews, ServeOptions, ServeReport};
use sandbox::descriptors::{open_files_max, plans_at_once_max};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Invocation;
use super::detach::LOG_BYTES_MAX;
use super::signals::StopSignals;
use crate::config::SettingKey;
use crate::errors::{CommandError, codes, from_engine, hints};
use crate::notify::Notifier;
use crate::output::{CommandReport, OutputNote, write_err};
use crate::render::diff::counted;
use crate::time::{local, now, parse_duration, stamp};

/// The most jobs that one process may run at once.
const MAX_ALLOWED: usize = 1024;
/// Two requests to stop are all that count.
const STOPS_MAX: usize = 2;

#[derive(Debug, clap::Args)]
pub(super) struct WorkerArgs {
    /// Maximum number of plans that it runs at once [default: the setting async.max_workers]
    #[arg(long, value_name = "N", value_parser = max)]
    max: Option<usize>,
    /// Stop after this time without work: 60s, 10m [default: only on a signal]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    until_idle: Option<Duration>,
    /// Detach from the terminal, like a worker that another command started
    #[arg(long, hide = true)]
    background: bool,
}

fn max(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=MAX_ALLOWED) => Ok(number),
        Ok(0) => Err("a worker that runs no plan would wait forever: from 1 to 1024".to_owned()),
        Ok(_) | Err(_) => Err("a whole number from 1 to 1024".to_owned()),
    }
}

pub(super) async fn run(args: WorkerArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    if args.background {
        // Who leads a session already has none to leave.
        let _ = rustix::process::setsid();
    }
    let settings = invocation.settings(Vec::new(), &[])?;
    let engine = invocation.engine_of_worker(&settings).await?;
    let by_setting = usize::try_from(settings.count(SettingKey::AsyncMaxWorkers)).unwrap_or(MAX_ALLOWED);
    let options = ServeOptions {
        max: args.max.unwrap_or(by_setting),
        until_idle: args.until_idle,
        drain: Duration::from_secs(settings.count(SettingKey::AsyncDrain)),
    };
    tell_bound(invocation, options.max);
    let (ask, asked) = mpsc::channel(STOPS_MAX);
    let mut stops = StopSignals::listen();
    let listening = tokio::spawn(async move {
        loop {
            stops.next().await;
            if ask.send(()).await.is_err() {
                return;
            }
        }
    });
    let teller = EventPrinter {
        is_quiet: invocation.global.quiet,
        is_for_programs: invocation.style.format.is_for_programs(),
        has_times: args.background,
        drain: options.drain,
    };
    let notifier = Notifier::begin(&engine, settings.words(SettingKey::NotifyCommand));
    let tell = |news: ServeNews| {
        teller.tell(&news);
        if let ServeNews::Settled(job, _) = &news {
            notifier.notify_if_needed(job.plan);
        }
    };
    let served = engine.serve(options, asked, tell).await;
    notifier.finish().await;
    listening.abort();
    served.map(|report| report_served(&report)).map_err(|error| failure(&error))
}

/// Tells when the open-file limit allows fewer plans at once than were asked for.
fn tell_bound(invocation: &Invocation, asked: usize) {
    let (allowed, files) = (plans_at_once_max(), open_files_max());
    if let Some(files) = files.filter(|_| allowed < asked) {
        invocation.tell(&OutputNote::warning(format!(
            "it works on {} at once, not on {asked}: the system allows it {files} open files; raise the hard limit (`ulimit -Hn`) for more",
            counted(allowed, "plan")
        )));
    }
}

fn failure(error: &ServeError) -> CommandError {
    match error {
        ServeError::Config(error) => CommandError::new(&codes::CONFIG_VALUE_INVALID, error.to_string()),
        ServeError::Start(error) => CommandError::new(&codes::IO_FAILED, error.to_string()),
        ServeError::Presence(_) => {
            CommandError::new(&codes::IO_FAILED, error.to_string()).hint(hints::DISK_IS_FULL)
        }
        ServeError::StoreFailed { .. } => {
            CommandError::new(&codes::STORE_FAILED, error.to_string()).hint(hints::NEXT_WORKER_RESUMES)
        }
        ServeError::StoreGone { .. } => {
            CommandError::new(&codes::STORE_FAILED, error.to_string()).hint(hints::START_WORKER)
        }
        ServeError::Execute(error) => from_engine::execute(error, "@last"),
    }
}

fn report_served(report: &ServeReport) -> CommandReport {
    let ServeReport { worker, end, succeeded, failed, cancelled, released, lost, at_stop } = *report;
    let why = match end {
        ServeEnd::Idle => "idle",
        ServeEnd::Stopped => "stopped",
    };
    let data = json!({
        "worker": worker, "end": why, "succeeded": succeeded, "failed": failed, "cancelled": cancelled,
        "released": released, "lost": lost,
        "at_stop": { "finished": at_stop.finished, "released": at_stop.released },
    });
    let done = usize::try_from(succeeded + failed + cancelled).unwrap_or(usize::MAX);
    let mut text = format!("worker {worker}: {} done", counted(done, "job"));
    for (count, word) in
        [(failed, "failed"), (cancelled, "cancelled"), (released, "given back"), (lost, "lost")]
    {
        if count > 0 {
            text.push_str(&format!(", {count} {word}"));
        }
    }
    CommandReport::new(data, text + "\n")
}

/// Tells on the error output what the worker does, a line each.
struct EventPrinter {
    is_quiet: bool,
    is_for_programs: bool,
    /// True if each line begins with its time, as in a log.
    has_times: bool,
    drain: Duration,
}

impl EventPrinter {
    fn tell(&self, news: &ServeNews) {
        if self.is_quiet {
            return;
        }
        let line = match (self.is_for_programs, self.has_times) {
            (true, _) => to_json(news).to_string(),
            (false, false) => self.words(news),
            (false, true) => format!("{}  {}", local(now()), self.words(news)),
        };
        // Progress that cannot be shown is not worth an error.
        let _ = write_err(&format!("{line}\n"));
        if self.has_times {
            begin_anew(std::io::stderr().as_fd(), LOG_BYTES_MAX);
        }
    }

    fn words(&self, news: &ServeNews) -> String {
        match news {
            ServeNews::Ready { worker } => format!("worker {worker} takes plans"),
            ServeNews::Claimed(RunningJob { plan, phase, .. }) => format!("plan {plan}: {phase} began"),
            ServeNews::Settled(RunningJob { plan, phase, .. }, how) => {
                format!("plan {plan}: {phase} {}", describe_settlement(*how))
            }
            ServeNews::Freed { workers, jobs } => {
                format!("{} died; {} freed", counted(*workers, "worker"), counted(*jobs, "job"))
            }
            ServeNews::Draining { running } => {
                let drain = crate::time::format_typed(self.drain);
                format!("stopping: {} may finish within {drain}; again gives back", counted(*running, "job"))
            }
            ServeNews::Releasing { running } => {
                format!("stopping at once: {} given back", counted(*running, "job"))
            }
        }
    }
}

/// Empties a log that has grown too long: a worker that is never idle would else fill the disk. What is no
/// file is none.
fn begin_anew(log: BorrowedFd<'_>, bytes_max: u64) {
    let is_file = |found: &rustix::fs::Stat| {
        rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::RegularFile
    };
    let length =
        rustix::fs::fstat(log).ok().filter(is_file).and_then(|found| u64::try_from(found.st_size).ok());
    if length.is_some_and(|length| length > bytes_max) {
        // It is written at its end, wherever that is by then.
        let _ = rustix::fs::ftruncate(log, 0);
    }
}

fn describe_settlement(how: JobSettlement) -> &'static str {
    match how {
        JobSettlement::Succeeded => "done",
        JobSettlement::Failed => "failed",
        JobSettlement::Cancelled => "cancelled",
        JobSettlement::Released => "given back",
        JobSettlement::LeaseLost => "lost to another worker",
        JobSettlement::Unsettled => "left as it was: the store did not accept its end",
    }
}

fn to_json(news: &ServeNews) -> Value {
    let of = |job: &RunningJob| json!({ "job": job.job, "plan": job.plan, "phase": job.phase });
    let (event, data) = match news {
        ServeNews::Ready { worker } => ("ready", json!({ "worker": worker })),
        ServeNews::Claimed(job) => ("claimed", of(job)),
        ServeNews::Settled(job, how) => {
            let mut data = of(job);
            data["how"] = json!(settled_word(*how));
            ("finished", data)
        }
        ServeNews::Freed { workers, jobs } => ("freed", json!({ "workers": workers, "jobs": jobs })),
        ServeNews::Draining { running } => ("draining", json!({ "running": running })),
        ServeNews::Releasing { running } => ("releasing", json!({ "running": running })),
    };
    json!({ "at": stamp(now()), "event": event, "data": data })
}

fn settled_word(how: JobSettlement) -> &'static str {
    match how {
        JobSettlement::Succeeded => "succeeded",
        JobSettlement::Failed => "failed",
        JobSettlement::Cancelled => "cancelled",
        JobSettlement::Released => "released",
        JobSettlement::LeaseLost => "lease_lost",
        JobSettlement::Unsettled => "unsettled",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_log_that_is_too_long_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("worker.log");
        let mut log = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        log.write_all(b"twelve bytes").unwrap();
        begin_anew(log.as_fd(), 12);
        assert_eq!(std::fs::read(&path).unwrap(), b"twelve bytes");
        begin_anew(log.as_fd(), 11);
        log.write_all(b"anew").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"anew");
    }

    #[test]
    fn a_worker_has_a_hand_at_least() {
        assert_eq!((max("1"), max("1024")), (Ok(1), Ok(1024)));
        assert!(max("0").unwrap_err().contains("from 1 to 1024"));
        assert!(max("1025").is_err() && max("-1").is_err() && max("many").is_err());
    }
}
