//! What changed in the sandbox: found, put back, kept from logs. For the call that is alone in it.

use std::path::Path;

use domain::{
    End, ErrorCategory, KeptOutput, LeftOutKind, LeftOutPart, NotCaptured, Plan, RelPath, RootNo, Step,
    carriers,
};
use sandbox::capture::{Example, LeftOut};
use sandbox::descriptors::with_room;
use sandbox::{CaptureRules, CapturedChange};

use crate::engine::House;
use crate::run::plan_sandbox::content::Staging;
use crate::run::state::Open;
use crate::run::{Stopped, sandbox_category};

/// Adds what changed since the last look to what was found. `node` is that of the call that changed it.
pub(crate) fn scan(open: &mut Open, node: &str) -> Result<(), Stopped> {
    let rules = rules(open, node);
    let (sandbox, staging) = (&mut open.sandbox, &open.staging);
    let captured = with_room(|| false, || sandbox.scan(staging.as_ref(), &rules))
        .map_err(|error| Stopped::failed(sandbox_category(&error), error))?;
    let left_out = captured.not_captured;
    open.record.not_captured = NotCaptured {
        scratch: left_out.scratch,
        protected: left_out.protected,
        special: left_out.special,
        patterns_left_out: captured.patterns_left_out,
        set_id: left_out.set_id,
        attributes: left_out.attributes,
        hard_links: left_out.hard_links,
        repository: left_out.repository,
        root_modes: left_out.root_modes,
        named: captured.examples.iter().filter_map(|example| left_out_part(&open.plan, example)).collect(),
    };
    open.found.extend(captured.drafts);
    Ok(())
}

/// What of a captured file was left out; none for what was left out whole.
fn left_out_part(plan: &Plan, example: &Example) -> Option<LeftOutPart> {
    let kind = match example.why {
        LeftOut::Scratch | LeftOut::Protected | LeftOut::Special => return None,
        LeftOut::SetId => LeftOutKind::SetId,
        LeftOut::Attribute => LeftOutKind::Attribute,
        LeftOut::HardLink => LeftOutKind::HardLink,
        LeftOut::Repository => LeftOutKind::Repository,
        LeftOut::RootMode => LeftOutKind::RootMode,
    };
    let at = example.path.as_ref().map_or_else(|| ".".to_owned(), RelPath::to_string);
    let project = plan.projects.get(usize::from(example.root.0)).filter(|_| plan.projects.len() > 1);
    let path = match project {
        Some(project) => format!("{}:{at}", project.alias),
        None => at,
    };
    Some(LeftOutPart { kind, path, what: example.what.clone() })
}

/// Where something changed, of all that was found. Directories that only hold what else was made are captured, and not
/// named.
pub(crate) fn changed_paths(found: &[CapturedChange]) -> Vec<(RootNo, RelPath)> {
    let ends = found.iter().map(|found| {
        let (before, after) = (found.draft.before().copied(), found.draft.after().copied());
        End::of(found.root, found.draft.path(), before, after)
    });
    let carriers = carriers(ends);
    let named = found.iter().enumerate().filter(|(at, _)| !carriers.contains(at));
    named.map(|(_, found)| (found.root, found.draft.path().clone())).collect()
}

/// Puts back what was found: the files are as they were before.
pub(crate) fn put_back(open: &mut Open) -> Result<(), Stopped> {
    let back: Vec<_> = open.found.iter().map(|found| domain::undoing(found.root, &found.draft)).collect();
    let restored = open.sandbox.restore(&back, open.staging.as_ref());
    restored.map_err(|error| Stopped::failed(ErrorCategory::Sandbox, error))?;
    open.found.clear();
    open.staging.clear();
    Ok(())
}

/// What is captured of a call of `node`: not what the plan, or the node, leaves out.
pub(crate) fn rules(open: &Open, node: &str) -> CaptureRules {
    let plan = &open.plan;
    let is_its = |step: &&Step| step.node == node || node.starts_with(&format!("{}.fix", step.node));
    let of_node = plan.spec.steps.iter().filter(is_its).flat_map(|step| &step.ignore);
    CaptureRules {
        ignore: plan.spec.ignore.iter().chain(of_node).cloned().collect(),
        protected: plan.spec.protected.clone(),
        max_file_bytes: plan.spec.max_file_bytes,
    }
}

/// The log of a command that was stopped, without known secrets; `None` if it is empty or cannot be read.
pub(crate) fn kept_log(house: &House, staging: &Staging, log: &Path) -> Option<KeptOutput> {
    let bytes = std::fs::read(log).ok().filter(|bytes| !bytes.is_empty())?;
    let bytes = house.redactor.redact_known(&bytes);
    let kept = staging.keep_bytes(&bytes).ok()?;
    Some(KeptOutput { hash: kept.hash, total: kept.size, left_out: 0 })
}
