//! Creates a plan (`plan use`): checks it in full before anything is stored, and queues its first phase.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use domain::text::truncate_chars;
use domain::{
    ByteText, CommandTask, HELD, JobId, Ms, NewDecision, NewJob, NewPlan, NodeKind, Phase, Plan, PlanGraph,
    PlanId, PlanSpec, PlanStep, ProjectLink, RelPath, SpendKind, TITLE_CHARS_MAX,
};
use store::PlanStoreError;

use super::built_in_decisions;
pub(super) use super::built_in_decisions::strategy;
use super::tool_policy::{step_denied, unknown_words};
use crate::engine::Engine;
use crate::tools::Catalog;
use crate::workers::notify::Notification;
use crate::{mcp_servers, models};
use definitions::ServerTool;

/// A plan to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPlanRequest {
    /// A line for people, of which [`TITLE_CHARS_MAX`] characters are stored.
    pub title: String,
    /// The specification of its work.
    pub spec: PlanSpec,
    /// The projects that it works in; its command runs in the first.
    pub projects: Vec<ProjectLink>,
}

/// Why no plan was made.
#[derive(Debug, thiserror::Error)]
pub enum UseError {
    /// It cannot work as asked; all that was found.
    #[error("the plan cannot run as requested")]
    Preflight {
        /// Each finding, a sentence.
        findings: Vec<String>,
    },
    /// The store said no.
    #[error(transparent)]
    Store(#[from] PlanStoreError),
}

impl Engine {
    /// Makes a plan and queues its first phase.
    ///
    /// # Errors
    /// It cannot work as asked, all reasons at once, and nothing is stored; or the store failed.
    pub async fn use_plan(&self, request: NewPlanRequest) -> Result<Plan, UseError> {
        // Held: the process that executes it serves it, or leaves it to the workers.
        self.make(request, HELD, Vec::new()).await
    }

    /// Makes a plan with these decisions after its first ones.
    pub(crate) async fn use_plan_with(
        &self,
        request: NewPlanRequest,
        said: Vec<NewDecision>,
    ) -> Result<Plan, UseError> {
        self.make(request, HELD, said).await
    }

    /// Makes a plan that is left to the workers from its first moment.
    ///
    /// # Errors
    /// As [`use_plan`](Self::use_plan).
    pub async fn use_and_leave(&self, request: NewPlanRequest) -> Result<Plan, UseError> {
        let plan = self.make(request, Ms(0), Vec::new()).await?;
        self.inner.send_notification(Notification::Work);
        Ok(plan)
    }

    async fn make(
        &self,
        request: NewPlanRequest,
        not_before: Ms,
        said: Vec<NewDecision>,
    ) -> Result<Plan, UseError> {
        let engine = &self.inner;
        let NewPlanRequest { title, mut spec, projects } = self.checked(request)?;
        engine.redactor.register_passed(spec.commands().flat_map(|task| &task.pass_env).map(String::as_str));
        for said in &mut spec.instructions {
            said.text = engine.redactor.redact_text(&said.text);
        }
        // Calls, events and decisions name them.
        for check in &mut spec.validations {
            check.name = engine.redactor.redact_text(&check.name);
        }
        for invariant in &mut spec.invariants {
            invariant.text = engine.redactor.redact_text(&invariant.text);
        }
        // Cut afterwards: half of a secret is not known as one.
        let title = truncate_chars(&engine.redactor.redact_text(&title), TITLE_CHARS_MAX);
        let asked = if spec.prompt.is_empty() { spec.render() } else { spec.prompt.clone() };
        let shown = engine.redactor.redact_text(&asked);
        // The newest plan is the one with the last id, also when the wall clock was set back.
        if let Some(newest) = engine.store.newest_plan(None).await.map_err(PlanStoreError::from)? {
            engine.ids.rise_above(newest.as_u128());
        }
        let id = PlanId::from_u128(engine.ids.ulid());
        let (mut decisions, phase) = beginning(&spec, &shown);
        decisions.extend(said);
        let job = self.new_job(id, phase, not_before);
        Ok(engine.store.create(NewPlan { id, title, spec, projects }, decisions, job).await?)
    }

    /// Returns the request with the variables that its keys come from.
    ///
    /// # Errors
    /// Returns an error if the plan cannot work as asked, with all reasons.
    pub(crate) fn checked(&self, mut request: NewPlanRequest) -> Result<NewPlanRequest, UseError> {
        let engine = &self.inner;
        let mut findings = preflight(&request, &engine.options.sandbox_dir, &engine.options.data_dir);
        findings.extend(models::preflight(engine, &request.spec));
        findings.extend(mcp_servers::preflight(engine, &request.spec));
        if !findings.is_empty() {
            return Err(UseError::Preflight { findings });
        }
        request.spec.keys = engine.key_variables(&request.spec);
        Ok(request)
    }

    pub(crate) fn new_job(&self, plan: PlanId, phase: Phase, not_before: Ms) -> NewJob {
        NewJob { id: JobId::from_u128(self.inner.ids.ulid()), plan, phase, not_before }
    }
}

/// The first decisions and the first phase: what has no strategist needs no thought, and begins with its
/// work.
fn beginning(spec: &PlanSpec, shown: &str) -> (Vec<NewDecision>, Phase) {
    let mut decisions = vec![built_in_decisions::prompt(shown)];
    decisions.extend(built_in_decisions::invariants(spec, 1));
    if spec.strategist.is_some() {
        return (decisions, Phase::Strategize);
    }
    decisions.push(strategy(spec, 1));
    (decisions, Phase::Execute)
}

/// Returns every problem that can be found before anything runs.
fn preflight(request: &NewPlanRequest, sandbox_dir: &Path, data_dir: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    if request.projects.is_empty() {
        findings.push("a plan needs a project to work on".to_owned());
    }
    for project in &request.projects {
        findings.extend(project_findings(project, sandbox_dir, data_dir));
    }
    if request.spec.steps.is_empty() {
        findings.push("the plan has no step".to_owned());
    }
    let of_strategist = request.spec.strategist.as_ref().map_or(&[][..], |strategist| &strategist.steps);
    let tools = Catalog::builtin();
    for steps in [&request.spec.steps[..], of_strategist] {
        findings.extend(steps.iter().filter_map(|step| step_finding(step, request)));
        findings.extend(PlanGraph::new(steps).err().into_iter().flatten().map(|flaw| flaw.to_string()));
        findings.extend(steps.iter().filter_map(|step| tool_finding(step, &tools)));
        findings.extend(steps.iter().filter_map(|step| step_denied(&request.spec.deny_tools, step)));
    }
    findings.extend(unknown_words(&request.spec.deny_tools));
    for kind in [SpendKind::Time, SpendKind::Steps, SpendKind::ToolCalls] {
        if request.spec.limit(kind) == Some(0) {
            findings.push(format!("limits.{kind} is 0: nothing could run"));
        }
    }
    findings
}

fn project_findings(project: &ProjectLink, sandbox_dir: &Path, data_dir: &Path) -> Option<String> {
    let root = path_of(&project.root);
    if !root.is_absolute() {
        return Some(format!("{} is not an absolute path", root.display()));
    }
    if let Err(error) = std::fs::read_dir(&root) {
        return Some(format!("project {} cannot be read: {error}", root.display()));
    }
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let root = canonical(&root);
    for ours in [sandbox_dir, data_dir] {
        if root.starts_with(canonical(ours)) {
            return Some(format!(
                "project {} is inside {}, where sandboxes and data are stored",
                root.display(),
                ours.display()
            ));
        }
    }
    None
}

fn step_finding(step: &PlanStep, request: &NewPlanRequest) -> Option<String> {
    match &step.does {
        NodeKind::Command(task) => command_finding(task, request),
        NodeKind::External(task) => command_finding(&task.command, request),
        NodeKind::Read { path } | NodeKind::Write { path, .. } | NodeKind::Edit { path, .. } => {
            let wrong = RelPath::new(path.as_bytes()).err();
            wrong.map(|error| format!("step {} cannot use the path {path}: {error}", step.node))
        }
        NodeKind::Wait { .. } | NodeKind::Tool { .. } | NodeKind::Model(_) | NodeKind::Actor { .. } => None,
    }
}

/// Returns the problem of a step whose tool does not exist. The tools of servers are known when a node
/// begins.
fn tool_finding(step: &PlanStep, tools: &Catalog) -> Option<String> {
    let is_of_server = |name: &str| ServerTool::parse(name).is_some();
    let error = match &step.does {
        NodeKind::Tool { name, .. } if !is_of_server(name) => tools.find(name).err(),
        NodeKind::Model(task) => {
            let own: Vec<String> = task.tools.iter().filter(|name| !is_of_server(name)).cloned().collect();
            tools.only(&own).err()
        }
        NodeKind::Tool { .. }
        | NodeKind::Command(_)
        | NodeKind::Read { .. }
        | NodeKind::Write { .. }
        | NodeKind::Edit { .. }
        | NodeKind::Wait { .. }
        | NodeKind::External(_)
        | NodeKind::Actor { .. } => None,
    };
    error.map(|error| format!("step {}: {error}", step.node))
}

fn command_finding(task: &CommandTask, request: &NewPlanRequest) -> Option<String> {
    match task.run.argv().first() {
        None => Some("there is no command to run".to_owned()),
        Some(program) if program.as_bytes().is_empty() => Some("the command's name is empty".to_owned()),
        Some(program) => program_finding(program, task, request),
    }
}

/// A program without a slash is looked up on PATH, as the command will be; with one it may be made by the
/// plan itself.
fn program_finding(program: &ByteText, task: &CommandTask, request: &NewPlanRequest) -> Option<String> {
    let name = path_of(program);
    let missing = |place: &str| Some(format!("the program `{program}` was not found {place}"));
    if program.as_bytes().contains(&b'/') {
        let first = request.projects.first().map(|project| path_of(&project.root)).unwrap_or_default();
        let file = first.join(path_of(&task.cwd)).join(&name);
        return if file.exists() { None } else { missing(&format!("at {}", file.display())) };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(&name).is_file());
    if found { None } else { missing("on PATH") }
}

/// The path that these bytes name.
pub(crate) fn path_of(bytes: &ByteText) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes.as_bytes()))
}
