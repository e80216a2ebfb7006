//! `run --for-each`: a plan for every line of a file, all of them left to the workers.
//!
//! # Invariants
//! 1. All lines are read before the first plan is made: a file that cannot be read makes none.
//! 2. The first plan that cannot be made ends it; those that were made are told of all the same.

use std::io::Read;
use std::path::Path;

use domain::{ByteText, Does, PlanId, TITLE_CHARS_MAX};
use engine::plans::{Engine, NewPlanRequest, UseError};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use super::{Invocation, detach};
use crate::failure::{Failure, codes, from_engine};
use crate::output::{Report, one_line_of};

/// The variable in which a command finds its line.
const ITEM: &str = "ITEM";
/// So many plans are made at once, so that they share the disk's time.
const AT_ONCE: usize = 64;

pub(super) async fn leave_all(
    file: &Path,
    request: NewPlanRequest,
    invocation: &Invocation,
    engine: &Engine,
) -> Result<Report, Failure> {
    let items = read(file, invocation)?;
    let made = stream::iter(items.iter().map(|item| {
        let request = for_item(&request, item);
        async { Ok::<PlanId, UseError>(engine.use_and_leave(request).await?.id) }
    }));
    let mut plans: Vec<PlanId> = Vec::with_capacity(items.len());
    let mut made = made.buffered(AT_ONCE);
    let outcome = loop {
        match made.try_next().await {
            Ok(Some(plan)) => plans.push(plan),
            Ok(None) => break Ok(()),
            Err(error) => break Err(from_engine::use_plan(&error)),
        }
    };
    let is_started = if plans.is_empty() { false } else { detach::start_worker(invocation, engine).await? };
    let how = if is_started { "a worker that was started for them" } else { "the workers" };
    let many = if plans.len() == 1 { "1 plan is".to_owned() } else { format!("{} plans are", plans.len()) };
    let text = format!("{many} left to {how}\nnext  agents plan list     agents top\n");
    let data = json!({ "plans": plans, "asked": items.len(), "worker_started": is_started });
    let report = Report::new(data, text);
    Ok(match outcome {
        Ok(()) => report,
        Err(failure) => report.failed(failure),
    })
}

fn read(file: &Path, invocation: &Invocation) -> Result<Vec<String>, Failure> {
    let place = invocation.here.join(file);
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(&place).map(|read| text = read)
    };
    read.map_err(|error| {
        Failure::new(&codes::USAGE, format!("`--for-each {}` cannot be read: {error}", file.display()))
            .hint("name a text file with a line for each plan, or `-` for the standard input")
    })?;
    let items: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if items.is_empty() {
        return Err(Failure::new(&codes::USAGE, format!("`--for-each {}` has no line", file.display()))
            .hint("every line that is not empty makes a plan"));
    }
    Ok(items)
}

/// The plan for one line.
fn for_item(request: &NewPlanRequest, item: &str) -> NewPlanRequest {
    let mut request = request.clone();
    request.title = one_line_of(&format!("{item}: {}", request.title), TITLE_CHARS_MAX);
    for step in &mut request.spec.steps {
        if let Does::Command(task) = &mut step.does {
            task.env.push((ByteText::from(ITEM), ByteText::from(item)));
        }
    }
    request
}
