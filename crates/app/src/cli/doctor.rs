//! `agents doctor`: what this machine offers, found out by trying.

use std::collections::BTreeMap;
use std::path::Path;

use actors::agents;
use actors::agents::{AGENTS, Agent, InstalledAgent};
use actors::model::offers;
use engine::{
    DoctorFinding, DoctorReport, Engine, Leftovers, ProviderView, RetainedSandbox, UnsettledApply,
    UnsettledReason, doctor_without_store,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::Invocation;
use super::disk_use::DiskUse;
use super::invocation::short_id;
use crate::config::{SettingKey, Settings};
use crate::errors::{CommandError, codes, from_engine, hints};
use crate::output::{CommandReport, OutputStyle, escape_control_chars};
use crate::render::definitions::tried_json;
use crate::render::next_steps::{COPY_THEN_CLEAR, abandon_apply, capture_or_give_up};
use crate::setup::{paths, project};
use crate::time::{age, now, stamp};

pub(super) async fn run(invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let settings = invocation.settings(Vec::new(), &[])?;
    let root = project::root_of(&invocation.here)?;
    let looked = match invocation.engine_to_mend(&settings).await {
        Ok(engine) => match engine.doctor(&root).await {
            Ok(found) => Ok((engine, found)),
            Err(error) => Err(from_engine::store(&error)),
        },
        Err(failure) => Err(failure),
    };
    let (engine, found) = match looked {
        Ok(looked) => looked,
        // A data directory that cannot be entered offers nothing to look at.
        Err(failure) if failure.code == &codes::IO_FAILED => return Err(failure),
        Err(failure) => {
            let options = invocation.options(&settings)?;
            let found = doctor_without_store(&options, &root, failure.message.clone()).await;
            return Ok(
                CommandReport::new(to_json(&found), to_text(&found, &invocation.style)).failed(failure)
            );
        }
    };
    let providers = engine.provider_views().unwrap_or_default();
    let local = ask_local_servers(&settings, invocation).await;
    let mut text = to_text(&found, &invocation.style);
    section(&mut text, "models, by provider", &provider_findings(&providers, &local), &invocation.style);
    let data_dir = invocation.data_dir()?;
    let used = DiskUse::count(&data_dir);
    text.push_str(&format!("{}\n", invocation.style.paint.bold("data directory")));
    text.push_str(&format!("  {}\n", escape_control_chars(&data_dir.display().to_string())));
    text.push_str(&format!("  {}\n", used.line()));
    let programs = programs_here(invocation);
    section(&mut text, "agent programs that are installed", &program_findings(&programs), &invocation.style);
    if programs.is_empty() {
        let names: Vec<&str> = AGENTS.iter().map(|agent| agent.program).collect();
        text.push_str(&format!(
            "  none of {} is on PATH; plans of commands and models need none\n",
            names.join(", ")
        ));
    }
    for open in &found.leftovers.open {
        text.push_str(&open_line(open, &engine).await?);
    }
    for kept in &found.leftovers.kept {
        text.push_str(&kept_line(kept, &engine).await?);
    }
    let mut data = to_json(&found);
    data["providers"] = providers.iter().map(|view| provider_json(view, &local)).collect();
    data["data_dir"] = data_dir.display().to_string().into();
    data["disk_use"] = used.to_json();
    data["programs"] = programs.iter().map(program_json).collect();
    let report = CommandReport::new(data, text);
    Ok(match failure_of(&found, settings.word(SettingKey::PolicySandbox)) {
        Some(failure) => report.failed(failure),
        None => report,
    })
}

/// The answers of the servers on this machine: the first model of each, `None` if it does not answer.
type LocalServers = BTreeMap<String, Option<String>>;

/// Asks the servers on this machine for their models, all at once and for a second at most.
async fn ask_local_servers(settings: &Settings, invocation: &Invocation) -> LocalServers {
    let providers = paths::providers(settings.providers.clone(), &invocation.env);
    let mut offers = offers(&providers, &|name| invocation.env.get(name).cloned());
    offers.retain(|offer| offer.is_local);
    let models = join_all(offers.iter().map(|offer| offer.first_model())).await;
    offers.iter().map(|offer| offer.provider.clone()).zip(models).collect()
}

/// The providers: where they are, whether there is a key, and what to set. The key itself is never shown, and
/// no provider of another machine is asked.
fn provider_findings(providers: &[ProviderView], local: &LocalServers) -> Vec<DoctorFinding> {
    let finding = |view: &ProviderView| {
        let answer = local.get(&view.name).filter(|_| view.lacks.is_none());
        let detail = match (&view.lacks, answer) {
            (Some(lacks), _) => lacks.clone(),
            (None, Some(Some(model))) => format!("{}, answers, has {model}", view.base_url),
            (None, Some(None)) => format!("{}: no server with a model answers there", view.base_url),
            (None, None) if view.has_key => format!("{}, the key is there", view.base_url),
            (None, None) => format!("{}, needs no key; another machine is not asked", view.base_url),
        };
        let works = view.lacks.is_none() && answer != Some(&None);
        DoctorFinding { name: view.name.clone(), works, detail }
    };
    providers.iter().map(finding).collect()
}

/// The agent programs on PATH. None is started, not even for its version.
fn programs_here(invocation: &Invocation) -> Vec<(&'static Agent, InstalledAgent)> {
    let path = invocation.env.get("PATH").map(String::as_str).unwrap_or_default();
    let home = invocation.env.get("HOME").map(Path::new);
    let variable = |name: &str| invocation.env.get(name).cloned();
    let here = |agent| Some((agent, agents::find(agent, path.as_ref(), home, &variable)?));
    AGENTS.iter().filter_map(here).collect()
}

fn program_findings(programs: &[(&'static Agent, InstalledAgent)]) -> Vec<DoctorFinding> {
    let finding = |(agent, found): &(&'static Agent, InstalledAgent)| {
        let login = match &found.credential {
            Some(credential) => format!("{credential} is there"),
            None => "no key and no login was seen".to_owned(),
        };
        let detail = format!("{}, {}; {login}", found.program.display(), agent.tried_in_words());
        DoctorFinding { name: agent.name.to_owned(), works: true, detail }
    };
    programs.iter().map(finding).collect()
}

fn program_json((agent, found): &(&'static Agent, InstalledAgent)) -> Value {
    json!({
        "name": agent.name, "program": found.program.display().to_string(), "tried": tried_json(agent),
        "credential": found.credential, "acp": found.acp.as_ref().map(|path| path.display().to_string()),
    })
}

fn provider_json(view: &ProviderView, local: &LocalServers) -> Value {
    let ProviderView { name, base_url, is_local, has_key, lacks } = view;
    let answer = local.get(name).filter(|_| lacks.is_none());
    json!({
        "name": name, "url": base_url, "local": is_local, "has_key": has_key, "lacks": lacks,
        "answers": answer.map(Option::is_some), "first_model": answer.cloned().flatten(),
    })
}

/// A sandbox that stays: whose it is, and how it is captured or given up. Its plan may be one that is
/// forgotten.
async fn kept_line(kept: &RetainedSandbox, engine: &Engine) -> Result<String, CommandError> {
    let plan = short_id(engine, kept.plan).await?;
    let dir = escape_control_chars(&kept.dir.display().to_string());
    let advice = match kept.is_over {
        true => format!("the plan is final: {COPY_THEN_CLEAR}"),
        false => capture_or_give_up(&plan),
    };
    Ok(format!("retained: changes of plan {plan} could not be captured and are in {dir}: {advice}\n"))
}

/// An apply that is open: whose, where, since when, and what to do.
async fn open_line(open: &UnsettledApply, engine: &Engine) -> Result<String, CommandError> {
    let id = match open.plan {
        Some(plan) => short_id(engine, plan).await?,
        None => "(unknown)".to_owned(),
    };
    let projects: Vec<String> =
        open.projects.iter().map(|path| escape_control_chars(&path.display().to_string())).collect();
    let since = open.since.map_or_else(String::new, |since| format!(", begun {} ago", age(since, now())));
    let give_up = format!("or {}", abandon_apply(&id));
    let advice = match &open.why {
        UnsettledReason::ProcessLives => "its process is running: wait for it".to_owned(),
        UnsettledReason::ProjectBusy => {
            "another process works on the project: wait, then run any command".to_owned()
        }
        UnsettledReason::ProjectAbsent => {
            format!("the project does not exist: restore it and run any command, {give_up}")
        }
        UnsettledReason::Stuck { why } => {
            format!("{}: remove the cause and run any command, {give_up}", escape_control_chars(why))
        }
    };
    let kind = open.kind.as_str();
    Ok(format!("open {kind} of plan {id} to {}{since}: {advice}\n", projects.join(", ")))
}

fn failure_of(found: &DoctorReport, policy: &str) -> Option<CommandError> {
    let works = |findings: &[DoctorFinding]| findings.iter().any(|finding| finding.works);
    if !works(&found.sandbox) {
        return Some(CommandError::new(
            &codes::NO_SANDBOX,
            "no kind of sandbox works here: plans cannot run",
        ));
    }
    let suffices =
        |finding: &&DoctorFinding| finding.works && (finding.name != "landlock" || policy != "required");
    if policy != "optional" && !found.isolation.iter().any(|finding| suffices(&finding)) {
        let failure = match works(&found.isolation) {
            true => CommandError::new(
                &codes::NO_ISOLATION,
                "only Landlock works here, and `policy.sandbox` requires namespaces: plans cannot run",
            )
            .hint(hints::ALLOW_NAMESPACES)
            .hint(hints::USE_LANDLOCK),
            false => CommandError::new(
                &codes::NO_ISOLATION,
                "no way to isolate commands works here: plans cannot run",
            )
            .hint(hints::ALLOW_NAMESPACES)
            .hint(hints::NO_ISOLATION_AT_ALL),
        };
        return Some(failure);
    }
    if !found.disk.works {
        return Some(
            CommandError::new(
                &codes::STORE_FAILED,
                format!("the disk is nearly full: {}", found.disk.detail),
            )
            .hint(hints::FREE_SPACE_WITH_GC),
        );
    }
    let is_stuck = |open: &&UnsettledApply| matches!(open.why, UnsettledReason::Stuck { .. });
    found.leftovers.open.iter().find(is_stuck).map(|_| {
        CommandError::new(
            &codes::JOURNAL_STUCK,
            "an interrupted apply can be neither finished nor rolled back",
        )
        .hint(hints::SEE_ABOVE)
    })
}

fn to_text(found: &DoctorReport, style: &OutputStyle) -> String {
    let mut text = String::new();
    section(&mut text, "sandbox, the first that works is used", &found.sandbox, style);
    section(&mut text, "isolation of commands, the first that works is used", &found.isolation, style);
    let machine = [found.git.clone(), found.disk.clone(), found.store.clone()];
    section(&mut text, "machine", &machine, style);
    let Leftovers { sandboxes, stuck, leases, applies, open: _, kept: _ } = &found.leftovers;
    if !found.store.works {
        text.push_str("nothing was removed: the list of what is still needed is in the store\n");
        return text;
    }
    text.push_str(&format!(
        "left by a crash, cleared now: {sandboxes} sandboxes, {leases} leases, {applies} interrupted applies\n"
    ));
    for stuck in stuck {
        text.push_str(&format!("  could not be cleared: {}\n", escape_control_chars(stuck)));
    }
    text
}

fn section(text: &mut String, title: &str, findings: &[DoctorFinding], style: &OutputStyle) {
    text.push_str(&format!("{}\n", style.paint.bold(title)));
    let width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
    for finding in findings {
        let mark = if finding.works { style.paint.green("ok") } else { style.paint.red("no") };
        text.push_str(&format!(
            "  {mark}  {:width$}  {}\n",
            finding.name,
            escape_control_chars(&finding.detail)
        ));
    }
}

fn to_json(found: &DoctorReport) -> Value {
    let one = |finding: &DoctorFinding| json!({ "name": finding.name, "works": finding.works, "detail": finding.detail });
    let all = |findings: &[DoctorFinding]| findings.iter().map(one).collect::<Vec<_>>();
    let Leftovers { sandboxes, stuck, leases, applies, open, kept } = &found.leftovers;
    let open: Vec<Value> = open.iter().map(open_json).collect();
    let kept_json = |kept: &RetainedSandbox| json!({ "plan": kept.plan, "attempt": kept.attempt, "dir": kept.dir.display().to_string(), "over": kept.is_over });
    let kept: Vec<Value> = kept.iter().map(kept_json).collect();
    json!({
        "sandbox": all(&found.sandbox), "isolation": all(&found.isolation), "git": one(&found.git),
        "disk": one(&found.disk), "store": one(&found.store),
        "leftovers": { "sandboxes": sandboxes, "stuck": stuck, "leases": leases, "applies": applies, "open": open, "kept": kept },
    })
}

fn open_json(open: &UnsettledApply) -> Value {
    let (reason, detail) = match &open.why {
        UnsettledReason::ProcessLives => ("process_lives", None),
        UnsettledReason::ProjectBusy => ("project_busy", None),
        UnsettledReason::ProjectAbsent => ("project_absent", None),
        UnsettledReason::Stuck { why } => ("stuck", Some(why)),
    };
    let projects: Vec<String> = open.projects.iter().map(|path| path.display().to_string()).collect();
    json!({
        "apply": open.apply, "plan": open.plan, "kind": open.kind.as_str(), "projects": projects,
        "since": open.since.map(stamp), "reason": reason, "detail": detail,
    })
}
