//! What a node is shown of its projects: once before it is first asked, and by the tools of the group `context`.
//!
//! # Invariants
//! 1. A call goes the way of all calls: permit, effect, work, record. What was given is kept before the model reads it.
//! 2. What cannot be assembled before the prompt is a note, and the node goes on without; for a call it is an error that
//!    the model is told, never an empty answer.
//! 3. A file that was shown whole and as it is counts as read.

use std::sync::Arc;
use std::time::Instant;

use actors::tool::{
    CallHead, ContextQuestion, FocusPlace, HistoryKind, HistoryQuestion, Performed, Place as ToolPlace,
    ToolError,
};
use domain::context::{
    AssembledContext, Budget, ContextRecord, ContextRequest, FOCUS_MAX, Focus, Place, Receipt, View,
};
use domain::{ContextId, ErrorCategory, Hash, Phase, RootNo};
use serde_json::Value;
use sync::Effect;

use super::context_budget::Stands;
use super::focus::Trees;
use super::{Gate, blocking, fitting, time_limit};
use crate::context::answer::context_answer;
use crate::context::history_search;
use crate::context::{ContextAsk, ContextError, PipelineError, PlanSight};
use crate::run::Stopped;
use crate::run::node::prompt;

/// How often a context is made smaller that is counted otherwise where it is sent.
const SMALLER_MAX: u32 = 3;

/// What a node is given before it is first asked.
pub(crate) struct First<'a> {
    /// What it is asked.
    pub(crate) prompt: &'a str,
    /// `PROVIDER/NAME`.
    pub(crate) model: &'a str,
    /// How much it wants; none: what the settings say.
    pub(crate) tokens: Option<u32>,
    /// Whether such a text leaves room for the answer.
    pub(crate) fits: &'a (dyn Fn(&str) -> bool + Sync),
}

impl Gate<'_> {
    /// Assembles what stands before the prompt, and keeps it; nothing where nothing is wanted.
    pub(crate) async fn first_context(
        &self,
        first: First<'_>,
    ) -> Result<(String, Vec<(ToolPlace, Hash)>), Stopped> {
        let nothing = (String::new(), Vec::new());
        let Some(desk) = self.desk.get().filter(|_| first.tokens != Some(0)) else { return Ok(nothing) };
        let effect = self.enter()?;
        let mut request = self.request(first.prompt.to_owned());
        request.budget = desk.first_budget(first.tokens);
        request.focus = self.strategy_focus().await?;
        for _ in 0..SMALLER_MAX {
            let reserved =
                match desk.reserve(request.budget.base().min(request.budget.cap.unwrap_or(u32::MAX))) {
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
                request.id = ContextId::from_u128(self.house.ids.ulid());
                continue;
            }
            reserved.spend(given.tokens);
            self.keep(&effect, &request, &given).await?;
            desk.show(&given, Stands::BeforeThePrompt);
            let read = self.read_whole(&given);
            return Ok((given.text, read));
        }
        Ok(nothing)
    }

    /// `request_context`.
    pub(crate) async fn context(
        &self,
        head: &CallHead,
        question: &ContextQuestion,
        places: Vec<Option<FocusPlace>>,
    ) -> Result<Performed, Stopped> {
        let (effect, started) = (self.enter()?, self.house.wall());
        let answered = self.answered(&effect, question, places).await?;
        let (outcome, seen) = match answered {
            Ok(given) => (fitting(head, self.told(&given)), self.read_whole(&given)),
            Err(why) => (Err(why), Vec::new()),
        };
        let end = self.end(started, &outcome);
        self.keep_call(&effect, self.new_call(head), end).await?;
        let seen = seen.into_iter().map(|(place, hash)| (place, Some(hash))).collect();
        Ok(Performed { outcome, changed: 0, seen })
    }

    async fn answered(
        &self,
        effect: &Effect,
        question: &ContextQuestion,
        places: Vec<Option<FocusPlace>>,
    ) -> Result<Result<AssembledContext, ToolError>, Stopped> {
        let Some(desk) = self.desk.get() else { return Ok(Err(no_desk())) };
        let reserved = match desk.reserve(question.tokens) {
            Ok(reserved) => reserved,
            Err(why) => return Ok(Err(why)),
        };
        let mut request = self.request(self.house.redactor.redact_text(&question.query));
        request.budget = Budget::fixed(reserved.granted());
        request.depth = question.depth.parse().unwrap_or_default();
        request.shown = desk.shown();
        request.focus = self.named_focus(question, places).await?;
        let given = match self.assemble_strictly(&mut request, desk.model()).await? {
            Ok(given) => given,
            Err(why) => return Ok(Err(why)),
        };
        reserved.spend(given.tokens);
        self.keep(effect, &request, &given).await?;
        desk.show(&given, Stands::InAResult);
        Ok(Ok(given))
    }

    /// `query_history`.
    pub(crate) async fn history(
        &self,
        head: &CallHead,
        question: &HistoryQuestion,
    ) -> Result<Performed, Stopped> {
        let (effect, started) = (self.enter()?, self.house.wall());
        let mut past = history_search::of_plan(&*self.house.store, self.plan.id).await?;
        let commits = match question.wants(HistoryKind::Commit) {
            true => self.commits(head).await?,
            false => Ok(Vec::new()),
        };
        let outcome = commits.and_then(|commits| {
            past.extend(commits);
            let redact = |text: &str| self.house.redactor.redact_text(text);
            fitting(head, history_search::answer(question, past, &redact))
        });
        let end = self.end(started, &outcome);
        self.keep_call(&effect, self.new_call(head), end).await?;
        Ok(Performed { outcome, changed: 0, seen: Vec::new() })
    }

    async fn commits(
        &self,
        head: &CallHead,
    ) -> Result<Result<Vec<history_search::Past>, ToolError>, Stopped> {
        let roots: Vec<_> = self.projects.iter().map(|project| project.root.clone()).collect();
        let (scope, until) = (self.scope.clone(), Instant::now() + time_limit(head));
        let found = blocking(move || {
            let is_over = || scope.is_cancelled() || Instant::now() >= until;
            let all = roots.iter().map(|root| history_search::commits(root, &is_over));
            all.collect::<Result<Vec<_>, _>>()
        });
        let found = found.await?;
        self.scope.check()?;
        let failed = |error: history_search::CommitsUnread| ToolError::NoContext {
            code: "HISTORY_UNREADABLE",
            message: format!("{error}: {}; leave `commit` out of `kinds`", error.source),
        };
        Ok(found.map(|all| all.concat()).map_err(failed))
    }

    /// `get_context_budget`.
    pub(crate) async fn context_budget(&self, head: &CallHead) -> Result<Performed, Stopped> {
        let (effect, started) = (self.enter()?, self.house.wall());
        let outcome = match self.desk.get() {
            Some(desk) => fitting(head, desk.told()),
            None => Err(no_desk()),
        };
        let end = self.end(started, &outcome);
        self.keep_call(&effect, self.new_call(head), end).await?;
        Ok(Performed { outcome, changed: 0, seen: Vec::new() })
    }

    fn request(&self, query: String) -> ContextRequest {
        let id = ContextId::from_u128(self.house.ids.ulid());
        let view = match self.run.job().phase {
            Phase::Strategize => View::Strategize,
            Phase::Execute => View::Execute,
            Phase::Apply => View::Default,
        };
        ContextRequest {
            at: self.house.wall(),
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
    ) -> Result<Result<AssembledContext, ToolError>, Stopped> {
        for _ in 0..FOCUS_MAX {
            match self.piped(request, model).await? {
                Ok(given) => return Ok(Ok(given)),
                Err(ContextError::Pipeline(
                    PipelineError::FocusNotFound { focus }
                    | PipelineError::FocusBeyond { focus, .. }
                    | PipelineError::FocusExcluded { focus },
                )) if request.focus.contains(&focus) => request.focus.retain(|other| *other != focus),
                Err(error) => return Ok(Err(told_error(error)?)),
            }
        }
        request.focus.clear();
        self.piped(request, model)
            .await?
            .map_or_else(|error| told_error(error).map(Err), |given| Ok(Ok(given)))
    }

    /// The same, and what is wrong with the focus is an error, told with the nearest name that there is.
    async fn assemble_strictly(
        &self,
        request: &mut ContextRequest,
        model: &str,
    ) -> Result<Result<AssembledContext, ToolError>, Stopped> {
        let error = match self.piped(request, model).await? {
            Ok(given) => return Ok(Ok(given)),
            Err(error) => error,
        };
        let nearest = self.nearest(&error).await?;
        let told = told_error(error)?;
        Ok(Err(match (told, nearest) {
            (ToolError::NoContext { code, message }, Some(name)) => {
                ToolError::NoContext { code, message: format!("{message}; did you mean `{name}`?") }
            }
            (told, _) => told,
        }))
    }

    async fn nearest(&self, error: &ContextError) -> Result<Option<String>, Stopped> {
        let ContextError::Pipeline(PipelineError::FocusNotFound { focus }) = error else { return Ok(None) };
        let PlanSight { projects, .. } = self.house.plan_sight(self.plan).await?;
        let (contexts, word, scope) = (self.house.contexts.clone(), focus.to_string(), self.scope.clone());
        Ok(blocking(move || contexts.nearest(&projects, &word, &scope)).await?.ok().flatten())
    }

    async fn piped(
        &self,
        request: &mut ContextRequest,
        model: &str,
    ) -> Result<Result<AssembledContext, ContextError>, Stopped> {
        let PlanSight { projects, facts } = self.house.plan_sight(self.plan).await?;
        request.plan = Some(facts);
        let counter = self.house.contexts.factors().counter(model);
        let ask = ContextAsk { projects, request: request.clone(), counter: Arc::new(counter) };
        let given = self.house.contexts.assemble(ask, self.scope.clone()).await;
        self.scope.check()?;
        Ok(given)
    }

    /// Keeps what was given, with its text.
    async fn keep(
        &self,
        effect: &Effect,
        request: &ContextRequest,
        given: &AssembledContext,
    ) -> Result<(), Stopped> {
        let record = ContextRecord::new(self.plan.id, self.node, request, given);
        let (store, text) = (Arc::clone(&self.house.store), given.text.clone());
        let staged = blocking(move || store.stage(&mut text.as_bytes())).await?;
        let staged = staged.map_err(|error| Stopped::failed(ErrorCategory::Resource, error))?;
        self.house.store.keep_context(effect, &self.run.claim(), record, staged).await?;
        Ok(())
    }

    /// The files that the strategy of this attempt names, as far as they are there.
    async fn strategy_focus(&self) -> Result<Vec<Focus>, Stopped> {
        let runs = self.house.store.node_runs(self.plan.id).await?;
        let Some(strategy) = prompt::strategy(self.plan, &runs) else { return Ok(Vec::new()) };
        if strategy.steps.iter().all(|step| step.paths.is_empty()) {
            return Ok(Vec::new());
        }
        let trees = self.trees().await?;
        blocking(move || trees.focus(&strategy)).await
    }

    /// What a model names: lines and files, and else the name of a definition.
    async fn named_focus(
        &self,
        question: &ContextQuestion,
        places: Vec<Option<FocusPlace>>,
    ) -> Result<Vec<Focus>, Stopped> {
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

    async fn trees(&self) -> Result<Trees, Stopped> {
        let mut roots = Vec::with_capacity(self.projects.len());
        for no in (0..self.projects.len()).filter_map(|no| u16::try_from(no).ok()) {
            roots.push(self.tree(RootNo(no)).await?);
        }
        Ok(Trees { projects: self.projects.clone(), roots })
    }

    /// The files that are shown whole, as they are.
    fn read_whole(&self, given: &AssembledContext) -> Vec<(ToolPlace, Hash)> {
        let whole = given.fragments.iter().filter(|fragment| fragment.is_whole);
        let read =
            whole.filter_map(|fragment| Some((self.tool_place(fragment.place.as_ref()?), fragment.hash)));
        read.collect()
    }

    fn tool_place(&self, place: &Place) -> ToolPlace {
        let several = self.projects.len() > 1;
        let alias = self.projects.get(usize::from(place.project.0)).filter(|_| several);
        let prefix = alias.map(|project| format!("{}:", project.alias)).unwrap_or_default();
        let shown = format!("{prefix}{}", place.path);
        ToolPlace { root: place.project, path: Some(place.path.clone()), prefix, shown }
    }

    /// As the model reads it.
    fn told(&self, given: &AssembledContext) -> Value {
        context_answer(given, &|place| self.tool_place(place).shown)
    }
}

/// A file, if there is one; else what is defined under that name.
fn named(trees: &Trees, word: String, place: Option<FocusPlace>) -> Focus {
    match place {
        Some(FocusPlace { place: ToolPlace { root, path: Some(path), .. }, lines: Some((from, to)) }) => {
            Focus::Lines(root, path, from, to)
        }
        // A name with a dot in it may be a method's.
        Some(FocusPlace { place: ToolPlace { root, path: Some(path), .. }, lines: None }) => {
            match word.contains('/') || trees.file(&word).is_some() {
                true => Focus::Path(root, path),
                false => Focus::Symbol(word),
            }
        }
        Some(FocusPlace { place: ToolPlace { path: None, .. }, .. }) | None => match trees.file(&word) {
            Some((root, path)) => Focus::Path(root, path),
            None => Focus::Symbol(word),
        },
    }
}

/// What is said instead of a context before the prompt.
fn without(request: &ContextRequest, why: &ToolError) -> AssembledContext {
    let (text, notes) = (String::new(), vec![why.told()]);
    let receipt = Receipt { at: request.at, view: request.view, notes, ..Receipt::default() };
    AssembledContext { id: request.id, hash: Hash::of(b""), text, tokens: 0, fragments: Vec::new(), receipt }
}

fn no_desk() -> ToolError {
    ToolError::NoContext {
        code: "NO_CONTEXT",
        message: "only the node of a model has a context budget; read files instead".to_owned(),
    }
}

/// What the model is told; a cancel ends the node.
fn told_error(error: ContextError) -> Result<ToolError, Stopped> {
    let code = match &error {
        ContextError::Pipeline(PipelineError::Cancelled(_)) => return Err(Stopped::Cancelled),
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
