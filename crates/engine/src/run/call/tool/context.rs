//! The context of a node: assembled once before it is first asked, and by the tools of the group `context`.
//!
//! # Invariants
//! 1. A call takes the steps of all calls: permit, effect, work, record. A context is stored before the model
//!    reads it.
//! 2. If a context before the prompt cannot be assembled, a note replaces it, and the node continues without.
//!    For a call, the model gets an error, never an empty answer.
//! 3. A file that was shown whole and as it is counts as read.

use std::sync::Arc;
use std::time::Instant;

use actors::tool::{
    CallInfo, ContextQuestion, FocusPlace, HistoryKind, HistoryQuestion, ToolError, ToolOutcome, ToolPath,
};
use domain::context::{
    AssembledContext, Budget, ContextRecord, ContextRequest, ContextView, FOCUS_MAX, FileLocation, Focus,
    Receipt,
};
use domain::{ContextId, ErrorCategory, Hash, Phase, RootIndex};
use serde_json::Value;
use sync::Effect;

use super::context_budget::ContextPosition;
use super::focus::ProjectTrees;
use super::gateway::{ToolGateway, fitting, time_limit};
use crate::context::answer::context_answer;
use crate::context::history_search;
use crate::context::{ContextAsk, ContextError, PipelineError, PlanContextView};
use crate::run::RunError;
use crate::run::node::prompt;
use crate::run::plan_sandbox::blocking;

/// The number of times that a context is made smaller that is counted otherwise where it is sent.
const SMALLER_MAX: u32 = 3;

/// The request for the context that a node gets before its first question.
pub(crate) struct FirstContext<'a> {
    /// Its prompt.
    pub(crate) prompt: &'a str,
    /// `PROVIDER/NAME`.
    pub(crate) model: &'a str,
    /// The number of tokens that it wants; `None`: the number of the settings.
    pub(crate) tokens: Option<u32>,
    /// Returns whether such a text leaves room for the answer.
    pub(crate) fits: &'a (dyn Fn(&str) -> bool + Sync),
}

impl ToolGateway<'_> {
    /// Assembles the context before the prompt, and stores it; empty if none is wanted.
    pub(crate) async fn first_context(
        &self,
        first: FirstContext<'_>,
    ) -> Result<(String, Vec<(ToolPath, Hash)>), RunError> {
        let nothing = (String::new(), Vec::new());
        let Some(budget) = self.budget.get().filter(|_| first.tokens != Some(0)) else { return Ok(nothing) };
        let effect = self.context.enter()?;
        let mut request = self.request(first.prompt.to_owned());
        request.budget = budget.first_budget(first.tokens);
        request.focus = self.strategy_focus().await?;
        for _ in 0..SMALLER_MAX {
            let reserved =
                match budget.reserve(request.budget.base().min(request.budget.cap.unwrap_or(u32::MAX))) {
                    Ok(reserved) => reserved,
                    Err(_) => return Ok(nothing),
                };
            let given = match self.assemble(&mut request, first.model).await? {
                Ok(given) => given,
                Err(why) => {
                    self.keep(&effect, &request, &without(&request, &why)).await?;
                    return Ok(nothing);
                }
            };
            if !(first.fits)(&given.text) {
                request.budget.cap = Some(given.tokens / 2);
                request.id = ContextId::from_u128(self.context.engine.ids.ulid());
                continue;
            }
            reserved.spend(given.tokens);
            self.keep(&effect, &request, &given).await?;
            budget.show(&given, ContextPosition::BeforeThePrompt);
            let read = self.read_whole(&given);
            return Ok((given.text, read));
        }
        Ok(nothing)
    }

    /// `request_context`.
    pub(crate) async fn context(
        &self,
        head: &CallInfo,
        question: &ContextQuestion,
        places: Vec<Option<FocusPlace>>,
    ) -> Result<ToolOutcome, RunError> {
        let (effect, started) = (self.context.enter()?, self.context.engine.wall());
        let answered = self.answered(&effect, question, places).await?;
        let (outcome, seen) = match answered {
            Ok(given) => (fitting(head, self.answer_json(&given)), self.read_whole(&given)),
            Err(why) => (Err(why), Vec::new()),
        };
        let end = self.end(started, &outcome);
        self.record_call(&effect, self.new_call(head), end).await?;
        let seen = seen.into_iter().map(|(place, hash)| (place, Some(hash))).collect();
        Ok(ToolOutcome { outcome, changed: 0, seen })
    }

    async fn answered(
        &self,
        effect: &Effect,
        question: &ContextQuestion,
        places: Vec<Option<FocusPlace>>,
    ) -> Result<Result<AssembledContext, ToolError>, RunError> {
        let Some(budget) = self.budget.get() else { return Ok(Err(no_budget())) };
        let reserved = match budget.reserve(question.tokens) {
            Ok(reserved) => reserved,
            Err(why) => return Ok(Err(why)),
        };
        let mut request = self.request(self.context.engine.redactor.redact_text(&question.query));
        request.budget = Budget::fixed(reserved.granted());
        request.depth = question.depth.parse().unwrap_or_default();
        request.shown = budget.shown();
        request.focus = self.named_focus(question, places).await?;
        let given = match self.assemble_strictly(&mut request, budget.model()).await? {
            Ok(given) => given,
            Err(why) => return Ok(Err(why)),
        };
        reserved.spend(given.tokens);
        self.keep(effect, &request, &given).await?;
        budget.show(&given, ContextPosition::InAResult);
        Ok(Ok(given))
    }

    /// `query_history`.
    pub(crate) async fn history(
        &self,
        head: &CallInfo,
        question: &HistoryQuestion,
    ) -> Result<ToolOutcome, RunError> {
        let (effect, started) = (self.context.enter()?, self.context.engine.wall());
        let mut past = history_search::of_plan(&*self.context.engine.store, self.context.plan.id).await?;
        let commits = match question.wants(HistoryKind::Commit) {
            true => self.commits(head).await?,
            false => Ok(Vec::new()),
        };
        let outcome = commits.and_then(|commits| {
            past.extend(commits);
            let redact = |text: &str| self.context.engine.redactor.redact_text(text);
            fitting(head, history_search::answer(question, past, &redact))
        });
        let end = self.end(started, &outcome);
        self.record_call(&effect, self.new_call(head), end).await?;
        Ok(ToolOutcome { outcome, changed: 0, seen: Vec::new() })
    }

    async fn commits(
        &self,
        head: &CallInfo,
    ) -> Result<Result<Vec<history_search::HistoryMatch>, ToolError>, RunError> {
        let roots: Vec<_> = self.projects.iter().map(|project| project.root.clone()).collect();
        let (scope, until) = (self.context.scope.clone(), Instant::now() + time_limit(head));
        let found = blocking(move || {
            let is_over = || scope.is_cancelled() || Instant::now() >= until;
            let all = roots.iter().map(|root| history_search::commits(root, &is_over));
            all.collect::<Result<Vec<_>, _>>()
        });
        let found = found.await?;
        self.context.scope.check()?;
        let failed = |error: history_search::ReadCommitsError| ToolError::NoContext {
            code: "HISTORY_UNREADABLE",
            message: format!("{error}: {}; leave `commit` out of `kinds`", error.source),
        };
        Ok(found.map(|all| all.concat()).map_err(failed))
    }

    /// `get_context_budget`.
    pub(crate) async fn context_budget(&self, head: &CallInfo) -> Result<ToolOutcome, RunError> {
        let (effect, started) = (self.context.enter()?, self.context.engine.wall());
        let outcome = match self.budget.get() {
            Some(budget) => fitting(head, budget.report()),
            None => Err(no_budget()),
        };
        let end = self.end(started, &outcome);
        self.record_call(&effect, self.new_call(head), end).await?;
        Ok(ToolOutcome { outcome, changed: 0, seen: Vec::new() })
    }

    fn request(&self, query: String) -> ContextRequest {
        let id = ContextId::from_u128(self.context.engine.ids.ulid());
        let view = match self.context.phase() {
            Phase::Strategize => ContextView::Strategize,
            Phase::Execute => ContextView::Execute,
            Phase::Apply => ContextView::Default,
        };
        ContextRequest {
            at: self.context.engine.wall(),
            query,
            view,
            can_ask: true,
            ..ContextRequest::new(id, Budget::fixed(0))
        }
    }

    /// Assembles, and leaves out of the focus what it cannot be about.
    async fn assemble(
        &self,
        request: &mut ContextRequest,
        model: &str,
    ) -> Result<Result<AssembledContext, ToolError>, RunError> {
        for _ in 0..FOCUS_MAX {
            match self.piped(request, model).await? {
                Ok(given) => return Ok(Ok(given)),
                Err(ContextError::Pipeline(
                    PipelineError::FocusNotFound { focus }
                    | PipelineError::FocusBeyond { focus, .. }
                    | PipelineError::FocusExcluded { focus },
                )) if request.focus.contains(&focus) => request.focus.retain(|other| *other != focus),
                Err(error) => return Ok(Err(tool_error(error)?)),
            }
        }
        request.focus.clear();
        self.piped(request, model)
            .await?
            .map_or_else(|error| tool_error(error).map(Err), |given| Ok(Ok(given)))
    }

    /// Does the same, but a wrong focus is an error, which contains the nearest name that exists.
    async fn assemble_strictly(
        &self,
        request: &mut ContextRequest,
        model: &str,
    ) -> Result<Result<AssembledContext, ToolError>, RunError> {
        let error = match self.piped(request, model).await? {
            Ok(given) => return Ok(Ok(given)),
            Err(error) => error,
        };
        let nearest = self.nearest(&error).await?;
        let error = tool_error(error)?;
        Ok(Err(match (error, nearest) {
            (ToolError::NoContext { code, message }, Some(name)) => {
                ToolError::NoContext { code, message: format!("{message}; did you mean `{name}`?") }
            }
            (error, _) => error,
        }))
    }

    async fn nearest(&self, error: &ContextError) -> Result<Option<String>, RunError> {
        let ContextError::Pipeline(PipelineError::FocusNotFound { focus }) = error else { return Ok(None) };
        let PlanContextView { projects, .. } =
            self.context.engine.plan_context_view(self.context.plan).await?;
        let (contexts, word, scope) =
            (self.context.engine.contexts.clone(), focus.to_string(), self.context.scope.clone());
        Ok(blocking(move || contexts.nearest(&projects, &word, &scope)).await?.ok().flatten())
    }

    async fn piped(
        &self,
        request: &mut ContextRequest,
        model: &str,
    ) -> Result<Result<AssembledContext, ContextError>, RunError> {
        let PlanContextView { projects, facts } =
            self.context.engine.plan_context_view(self.context.plan).await?;
        request.plan = Some(facts);
        let counter = self.context.engine.contexts.factors().counter(model);
        let ask = ContextAsk { projects, request: request.clone(), counter: Arc::new(counter) };
        let given = self.context.engine.contexts.assemble(ask, self.context.scope.clone()).await;
        self.context.scope.check()?;
        Ok(given)
    }

    /// Records the context that was given, with its text.
    async fn keep(
        &self,
        effect: &Effect,
        request: &ContextRequest,
        given: &AssembledContext,
    ) -> Result<(), RunError> {
        let record = ContextRecord::new(self.context.plan.id, self.context.path, request, given);
        let (store, text) = (Arc::clone(&self.context.engine.store), given.text.clone());
        let staged = blocking(move || store.stage(&mut text.as_bytes())).await?;
        let staged = staged.map_err(|error| RunError::failed(ErrorCategory::Resource, error))?;
        self.context.engine.store.keep_context(effect, &self.context.job.claim(), record, staged).await?;
        Ok(())
    }

    /// The files that the strategy of this attempt names, as far as they are there.
    async fn strategy_focus(&self) -> Result<Vec<Focus>, RunError> {
        let runs = self.context.engine.store.node_runs(self.context.plan.id).await?;
        let Some(strategy) = prompt::strategy(self.context.plan, &runs) else { return Ok(Vec::new()) };
        if strategy.steps.iter().all(|step| step.paths.is_empty()) {
            return Ok(Vec::new());
        }
        let trees = self.trees().await?;
        blocking(move || trees.focus(&strategy)).await
    }

    /// Returns the focuses that a model names: lines and files, and otherwise the name of a definition.
    async fn named_focus(
        &self,
        question: &ContextQuestion,
        places: Vec<Option<FocusPlace>>,
    ) -> Result<Vec<Focus>, RunError> {
        if question.focus.is_empty() {
            return Ok(Vec::new());
        }
        let (trees, words) = (self.trees().await?, question.focus.clone());
        let named = move || {
            let all = words.into_iter().zip(places).map(|(word, place)| named(&trees, word, place));
            all.collect()
        };
        blocking(named).await
    }

    async fn trees(&self) -> Result<ProjectTrees, RunError> {
        let mut roots = Vec::with_capacity(self.projects.len());
        for no in (0..self.projects.len()).filter_map(|no| u16::try_from(no).ok()) {
            roots.push(self.tree(RootIndex(no)).await?);
        }
        Ok(ProjectTrees { projects: self.projects.clone(), roots })
    }

    /// The files that are shown whole, as they are.
    fn read_whole(&self, given: &AssembledContext) -> Vec<(ToolPath, Hash)> {
        let whole = given.fragments.iter().filter(|fragment| fragment.is_whole);
        let read =
            whole.filter_map(|fragment| Some((self.tool_place(fragment.place.as_ref()?), fragment.hash)));
        read.collect()
    }

    fn tool_place(&self, place: &FileLocation) -> ToolPath {
        let several = self.projects.len() > 1;
        let alias = self.projects.get(usize::from(place.project.0)).filter(|_| several);
        let prefix = alias.map(|project| format!("{}:", project.alias)).unwrap_or_default();
        let shown = format!("{prefix}{}", place.path);
        ToolPath { root: place.project, path: Some(place.path.clone()), prefix, shown }
    }

    /// As the model reads it.
    fn answer_json(&self, given: &AssembledContext) -> Value {
        context_answer(given, &|place| self.tool_place(place).shown)
    }
}

/// A file, if there is one; else what is defined under that name.
fn named(trees: &ProjectTrees, word: String, place: Option<FocusPlace>) -> Focus {
    match place {
        Some(FocusPlace { place: ToolPath { root, path: Some(path), .. }, lines: Some((from, to)) }) => {
            Focus::Lines(root, path, from, to)
        }
        // A name with a dot in it may be a method's.
        Some(FocusPlace { place: ToolPath { root, path: Some(path), .. }, lines: None }) => {
            match word.contains('/') || trees.file(&word).is_some() {
                true => Focus::Path(root, path),
                false => Focus::Symbol(word),
            }
        }
        Some(FocusPlace { place: ToolPath { path: None, .. }, .. }) | None => match trees.file(&word) {
            Some((root, path)) => Focus::Path(root, path),
            None => Focus::Symbol(word),
        },
    }
}

/// Returns the text that replaces a context before the prompt.
fn without(request: &ContextRequest, why: &ToolError) -> AssembledContext {
    let (text, notes) = (String::new(), vec![why.text_with_code()]);
    let receipt = Receipt { at: request.at, view: request.view, notes, ..Receipt::default() };
    AssembledContext {
        id: request.id,
        hash: Hash::from_content(b""),
        text,
        tokens: 0,
        fragments: Vec::new(),
        receipt,
    }
}

fn no_budget() -> ToolError {
    ToolError::NoContext {
        code: "NO_CONTEXT",
        message: "only a model node has a context budget; read files instead".to_owned(),
    }
}

/// Returns the error for the model; a cancel ends the node.
fn tool_error(error: ContextError) -> Result<ToolError, RunError> {
    let code = match &error {
        ContextError::Pipeline(PipelineError::Cancelled(_)) => return Err(RunError::Cancelled),
        ContextError::Pipeline(PipelineError::FocusNotFound { .. } | PipelineError::FocusBeyond { .. }) => {
            "FOCUS_NOT_FOUND"
        }
        ContextError::Pipeline(PipelineError::FocusAmbiguous { .. }) => "FOCUS_AMBIGUOUS",
        ContextError::Pipeline(PipelineError::FocusExcluded { .. }) => "FOCUS_EXCLUDED",
        ContextError::Pipeline(PipelineError::NoProject | PipelineError::ProjectUnknown(_))
        | ContextError::Root { .. } => "PROJECT_NOT_FOUND",
        ContextError::Pipeline(
            PipelineError::StrategyUnknown { .. }
            | PipelineError::FocusTooMany { .. }
            | PipelineError::Glob(_)
            | PipelineError::Projects(_),
        )
        | ContextError::Rules(_)
        | ContextError::Config(_)
        | ContextError::NoRedactor
        | ContextError::Panicked(_) => "CONTEXT_FAILED",
    };
    Ok(ToolError::NoContext { code, message: error.to_string() })
}
