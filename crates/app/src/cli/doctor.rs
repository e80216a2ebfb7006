//! `agents doctor`: what this machine offers, found out by trying.

use engine::plans::{DoctorReport, Finding, Leftovers};
use serde_json::{Value, json};

use super::Invocation;
use crate::failure::{Failure, codes, from_engine};
use crate::output::{Look, Report, calm};
use crate::project;

pub(super) async fn run(invocation: &Invocation) -> Result<Report, Failure> {
    let engine = invocation.engine().await?;
    let root = project::root_of(&invocation.here)?;
    let found = engine.doctor(&root).await.map_err(|error| from_engine::store(&error))?;
    let report = Report::new(to_json(&found), to_text(&found, &invocation.look));
    Ok(match failure_of(&found) {
        Some(failure) => report.failed(failure),
        None => report,
    })
}

fn failure_of(found: &DoctorReport) -> Option<Failure> {
    let works = |findings: &[Finding]| findings.iter().any(|finding| finding.works);
    if !works(&found.sandbox) {
        return Some(Failure::new(&codes::NO_SANDBOX, "no kind of sandbox works here: plans cannot run")
            .hint("see the reasons above; another place for sandboxes may help: `agents config set sandbox.dir=DIR`"));
    }
    if !works(&found.isolation) {
        return Some(Failure::new(&codes::NO_ISOLATION, "no way to isolate commands works here: plans cannot run")
            .hint("see the reasons above; to run without isolation at your own risk: `agents config set policy.sandbox=optional`"));
    }
    if !found.disk.works {
        return Some(
            Failure::new(&codes::STORE_FAILED, format!("the disk is nearly full: {}", found.disk.detail))
                .hint("free some space, for example with `agents plan gc`"),
        );
    }
    None
}

fn to_text(found: &DoctorReport, look: &Look) -> String {
    let mut text = String::new();
    section(&mut text, "sandbox, the first that works is used", &found.sandbox, look);
    section(&mut text, "isolation of commands, the first that works is used", &found.isolation, look);
    let machine = [found.git.clone(), found.disk.clone(), found.store.clone()];
    section(&mut text, "machine", &machine, look);
    let Leftovers { sandboxes, stuck, leases, applies } = &found.leftovers;
    text.push_str(&format!(
        "left by a crash, cleared now: {sandboxes} sandboxes, {leases} leases, {applies} interrupted applies\n"
    ));
    for stuck in stuck {
        text.push_str(&format!("  could not be cleared: {}\n", calm(stuck)));
    }
    text
}

fn section(text: &mut String, title: &str, findings: &[Finding], look: &Look) {
    text.push_str(&format!("{}\n", look.paint.bold(title)));
    let width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
    for finding in findings {
        let mark = if finding.works { look.paint.green("ok") } else { look.paint.red("no") };
        text.push_str(&format!("  {mark}  {:width$}  {}\n", finding.name, calm(&finding.detail)));
    }
}

fn to_json(found: &DoctorReport) -> Value {
    let one =
        |finding: &Finding| json!({ "name": finding.name, "works": finding.works, "detail": finding.detail });
    let all = |findings: &[Finding]| findings.iter().map(one).collect::<Vec<_>>();
    let Leftovers { sandboxes, stuck, leases, applies } = &found.leftovers;
    json!({
        "sandbox": all(&found.sandbox), "isolation": all(&found.isolation), "git": one(&found.git),
        "disk": one(&found.disk), "store": one(&found.store),
        "leftovers": { "sandboxes": sandboxes, "stuck": stuck, "leases": leases, "applies": applies },
    })
}
