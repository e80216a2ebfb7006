//! The request for a context on the command line, and the projects that it searches.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use domain::context::{Budget, ContextRequest, ContextView, Depth, PlanFacts, QUERY_BYTES_MAX};
use domain::{ContextId, RelPath};
use engine::context::{
    AssembledContext, ContextAsk, ContextError, ContextProject, Contexts, LexicalCounter, Name,
    PipelineError, built_in_strategies,
};
use engine::{Ids, RandomIds};
use sync::CancellationToken;

use super::focus::{FocusPaths, ViewedFiles};
use super::unless_stopped;
use crate::cli::Invocation;
use crate::cli::invocation::path_of;
use crate::errors::{CommandError, codes, from_context, hints};
use crate::setup::project;
use crate::setup::project::ProjectArg;
use crate::time::now;

/// The bytes of a query that are read; the pipeline cuts it to less, and reports its length.
const READ_BYTES_MAX: u64 = 1024 * 1024;
/// The largest number of tokens that is taken for a budget.
const BUDGET_MAX: u32 = 100_000_000;

#[derive(Debug, clap::Args)]
pub(super) struct AskArgs {
    /// The question, in your words; - reads it from the standard input
    #[arg(value_name = "QUERY|-")]
    query: String,
    #[command(flatten)]
    projects: ProjectsArgs,
    /// A file, some of its lines, or a symbol that the text must contain
    #[arg(long, value_name = "PATH[:FROM-TO]|SYMBOL")]
    focus: Vec<String>,
    /// Maximum number of tokens in the text, like 8000 or 16k [default: `context.max_tokens`]
    #[arg(long, value_name = "N", value_parser = tokens)]
    pub(super) budget: Option<u32>,
    /// Maximum detail of a file: listing, outline, signatures, full
    #[arg(long, value_name = "DEPTH")]
    depth: Option<String>,
    /// The rules for the files that may be included: default, strategize, execute
    #[arg(long, value_name = "VIEW")]
    view: Option<String>,
    /// Search with these strategies only
    #[arg(long, value_name = "NAME")]
    strategy: Vec<String>,
}

/// The places to search.
#[derive(Debug, clap::Args)]
pub(super) struct ProjectsArgs {
    /// A project to search [default: the project of the current directory]
    #[arg(long, value_name = "[ALIAS=]DIR", conflicts_with = "plan", value_parser = project::parser())]
    project: Vec<ProjectArg>,
    /// Search the projects of this plan, with its changes and decisions
    #[arg(long, value_name = "PLAN")]
    plan: Option<String>,
}

/// The projects that a request searches, opened.
pub(super) struct SearchedProjects {
    pub(super) contexts: Contexts,
    pub(super) projects: Vec<ContextProject>,
    plan: Option<PlanFacts>,
}

/// A request that was understood.
pub(super) struct ContextQuery {
    pub(super) ground: SearchedProjects,
    request: ContextRequest,
    /// A note about the query.
    note: Option<String>,
    ids: RandomIds,
}

impl ProjectsArgs {
    /// Opens what is looked into.
    ///
    /// # Errors
    /// There is no such project or plan, or the settings cannot be used.
    pub(super) async fn open(&self, invocation: &Invocation) -> Result<SearchedProjects, CommandError> {
        if let Some(word) = &self.plan {
            let engine = invocation.engine().await?;
            let plan = invocation.plan(&engine, word).await?;
            let sight = engine.plan_context_view(plan.id).await;
            let sight = sight.map_err(|error| crate::errors::from_engine::plan(&error, &plan.short))?;
            let contexts = engine.contexts().clone();
            return Ok(SearchedProjects { contexts, projects: sight.projects, plan: Some(sight.facts) });
        }
        let links = project::find_all(&self.project, &invocation.here)?;
        let settings = invocation.settings(Vec::new(), &links)?;
        invocation.admit(&links, &settings)?;
        // If nothing can be stored, the index is in memory, and says so.
        let data_dir = invocation.made_data_dir().or_else(|_| invocation.data_dir())?;
        let setup = invocation.contexts(&settings);
        let contexts = invocation.held.get(&setup, &data_dir, &settings.providers)?;
        let project = |link: &domain::ProjectLink| {
            ContextProject::at(path_of(link.root.as_bytes()), link.alias.clone())
        };
        Ok(SearchedProjects { contexts, projects: links.iter().map(project).collect(), plan: None })
    }
}

impl AskArgs {
    /// Understands the request and opens what it looks into.
    ///
    /// # Errors
    /// A word of it names nothing, or what it looks into cannot be opened.
    pub(super) async fn build_query(&self, invocation: &Invocation) -> Result<ContextQuery, CommandError> {
        let depth = self.depth()?;
        let view = self.view()?;
        let only = self.strategy.iter().map(|word| strategy(word)).collect::<Result<Vec<_>, _>>()?;
        let (query, note) = self.query()?;
        let ground = self.projects.open(invocation).await?;
        let roots: Vec<(String, PathBuf)> =
            ground.projects.iter().map(|project| (project.alias.clone(), project.root.clone())).collect();
        let changed = ground.changed();
        let places =
            FocusPaths { here: &invocation.here, roots: &roots, seen: ground.seen(), changed: &changed };
        let focus = self.focus.iter().map(|word| places.focus(word)).collect::<Result<Vec<_>, _>>()?;
        let ids = RandomIds::new();
        let budget = match self.budget {
            Some(tokens) => Budget::fixed(tokens),
            None => {
                let tokens = ground.contexts.max_tokens(&ground.projects).map_err(from_context::context)?;
                Budget { cap: None, ..Budget::fixed(tokens) }
            }
        };
        let request = ContextRequest {
            at: now(),
            query,
            focus,
            view,
            depth,
            only,
            plan: ground.plan.clone(),
            ..ContextRequest::new(ContextId::from_u128(0), budget)
        };
        Ok(ContextQuery { ground, request, note, ids })
    }

    fn depth(&self) -> Result<Depth, CommandError> {
        let Some(word) = &self.depth else { return Ok(Depth::Full) };
        word.parse::<Depth>().map_err(|error| CommandError::new(&codes::DEPTH_UNKNOWN, error.to_string()))
    }

    fn view(&self) -> Result<ContextView, CommandError> {
        let Some(word) = &self.view else { return Ok(ContextView::Default) };
        word.parse::<ContextView>()
            .map_err(|error| CommandError::new(&codes::VIEW_UNKNOWN, error.to_string()))
    }

    /// The query, and what there is to say about it.
    fn query(&self) -> Result<(String, Option<String>), CommandError> {
        if self.query != "-" {
            return Ok((self.query.clone(), None));
        }
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(READ_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| {
            CommandError::new(&codes::IO_FAILED, format!("the query cannot be read: {error}"))
        })?;
        let mut query = String::from_utf8_lossy(&bytes).into_owned();
        if bytes.len() as u64 <= READ_BYTES_MAX {
            return Ok((query, None));
        }
        query.truncate(query.floor_char_boundary(QUERY_BYTES_MAX));
        let note = format!(
            "the query has more than {} MiB and was cut to {} bytes",
            READ_BYTES_MAX >> 20,
            query.len()
        );
        Ok((query, Some(note)))
    }
}

fn strategy(word: &str) -> Result<Name, CommandError> {
    let known: Vec<Name> = built_in_strategies().into_iter().map(|(name, _)| name).collect();
    if let Some(name) = known.iter().find(|name| name.as_str() == word) {
        return Ok(name.clone());
    }
    let names: Vec<&str> = known.iter().map(Name::as_str).collect();
    let meant = domain::did_you_mean(word, names.iter().copied());
    let message = format!("there is no strategy `{word}`; strategies are {}{meant}", names.join(", "));
    Err(CommandError::new(&codes::STRATEGY_UNKNOWN, message))
}

/// A number of tokens as it is typed: `8000`, `16k`.
pub(super) fn tokens(text: &str) -> Result<u32, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number =
        digits.parse::<u32>().ok().filter(|_| is_number).and_then(|number| number.checked_mul(factor));
    let fits = number.filter(|number| *number <= BUDGET_MAX);
    fits.ok_or_else(|| format!("it takes a whole number of tokens from 0 to {BUDGET_MAX}, like 8000 or 16k"))
}

impl ContextQuery {
    /// Assembles the context, within `tokens` if a number is given.
    ///
    /// # Errors
    /// It names what is not there or may not be seen, or was stopped.
    pub(super) async fn assemble(&self, tokens: Option<u32>) -> Result<AssembledContext, CommandError> {
        let mut request = self.request.clone();
        request.id = ContextId::from_u128(self.ids.ulid());
        if let Some(tokens) = tokens {
            request.budget = Budget::fixed(tokens);
        }
        let done = unless_stopped(|stop| self.ground.contexts.assemble(self.ask(request), stop)).await;
        match done {
            Ok(mut context) => {
                context.receipt.notes.splice(0..0, self.note.clone());
                Ok(context)
            }
            Err(error) => Err(self.ground.explain_error(error).await),
        }
    }

    /// The same within a server, for who can ask again: signals stay what they are to it.
    ///
    /// # Errors
    /// It names what is not there or may not be seen.
    pub(super) async fn assemble_unheard(&self) -> Result<AssembledContext, CommandError> {
        let id = ContextId::from_u128(self.ids.ulid());
        let request = ContextRequest { id, can_ask: true, ..self.request.clone() };
        let never = CancellationToken::new();
        match self.ground.contexts.assemble(self.ask(request), never.observe()).await {
            Ok(context) => Ok(context),
            Err(error) => Err(self.ground.explain_error_unheard(error).await),
        }
    }

    fn ask(&self, request: ContextRequest) -> ContextAsk {
        let projects = self.ground.projects.clone();
        ContextAsk { projects, request, counter: Arc::new(LexicalCounter::default()) }
    }
}

impl SearchedProjects {
    /// Whose files are looked at.
    pub(super) fn seen(&self) -> ViewedFiles {
        match self.plan {
            Some(_) => ViewedFiles::ByPlan,
            None => ViewedFiles::OnDisk,
        }
    }

    /// Returns the paths of the files that the plan changed, whether or not they exist.
    pub(super) fn changed(&self) -> Vec<PathBuf> {
        let of = |project: &ContextProject| {
            let at = |path: &RelPath| project.root.join(path_of(path.as_bytes()));
            project.changes.iter().flat_map(|changes| changes.paths().map(at)).collect::<Vec<PathBuf>>()
        };
        self.projects.iter().flat_map(of).collect()
    }

    /// Why there is no answer; of what is not there with the nearest name that is.
    pub(super) async fn explain_error(&self, error: ContextError) -> CommandError {
        let Some(word) = not_found(&error) else { return from_context::context(error) };
        let (contexts, projects) = (self.contexts.clone(), self.projects.clone());
        let nearest = super::blocking(move |stop| contexts.nearest(&projects, &word, stop)).await;
        with_nearest(from_context::context(error), nearest)
    }

    /// The same within a server: signals stay what they are to it.
    async fn explain_error_unheard(&self, error: ContextError) -> CommandError {
        let Some(word) = not_found(&error) else { return from_context::context(error) };
        let (contexts, projects) = (self.contexts.clone(), self.projects.clone());
        let find_nearest = move || contexts.nearest(&projects, &word, &CancellationToken::new().observe());
        let nearest = tokio::task::spawn_blocking(find_nearest).await;
        let nearest = nearest.unwrap_or_else(|error| Err(ContextError::Panicked(error.to_string())));
        with_nearest(from_context::context(error), nearest)
    }
}

/// Returns the focus that was named and does not exist; `None` for other errors.
fn not_found(error: &ContextError) -> Option<String> {
    match error {
        ContextError::Pipeline(PipelineError::FocusNotFound { focus }) => Some(focus.to_string()),
        ContextError::Pipeline(_)
        | ContextError::Rules(_)
        | ContextError::Config(_)
        | ContextError::NoRedactor
        | ContextError::Root { .. }
        | ContextError::Panicked(_) => None,
    }
}

fn with_nearest(failure: CommandError, nearest: Result<Option<String>, ContextError>) -> CommandError {
    match nearest {
        Ok(Some(name)) => failure.hint(hints::DID_YOU_MEAN).field("nearest", name),
        Ok(None) | Err(_) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_typed_as_a_number_or_in_thousands() {
        for (text, number) in
            [("0", 0), ("8000", 8000), ("1k", 1024), ("16K", 16_384), ("10000000", 10_000_000)]
        {
            assert_eq!(tokens(text), Ok(number), "{text}");
        }
        for text in ["", "k", "-1", "1.5k", "+4", "1m", "99999999k", "100000001"] {
            assert!(tokens(text).is_err(), "{text}");
        }
    }
}
