//! A model node: asked, answered, its tools called, until it is done.
//!
//! A turn is one question and its answer. Calls of tools are made in the order in which the model named them,
//! through the gate of all calls. The model reads their results next. An answer without calls is the last.
//!
//! # Invariants
//! 1. The node ends after `max_turns` turns, after a refusal, or after repeated equal calls (`actors::tool`).
//!    A second answer that does not match `output` ends it too, and more than [`CUTS_MAX`] answers in a row
//!    that were cut off. Each of these fails it with what happened, in words.
//! 2. A wrong call is reported to the model and recorded (`call_record`), and never ends the node. An answer
//!    that was cut off is continued, and one that does not fit gets one turn more. `max_turns` counts
//!    neither.
//! 3. The conversation fits the model's window. If it grows beyond, the oldest results of tools are replaced
//!    by a note, then long arguments of old calls. The first prompt always stays (`conversation`).
//! 4. Nothing is asked that is not reserved, and what was reserved is settled whatever became of it
//!    (`budget`).
//! 5. A turn that failed in passing is asked again as the recovery says, with the conversation as it was
//!    (`turn`).
//! 6. Every question and its outcome is stored, in its order among the calls (`call_record`).
//! 7. A node that has a `timeout` is ended by it, whatever it does then. All its turns, pauses and calls of
//!    tools count, and the rests of its provider. That is a failure of the node, and tried again as one.
//! 8. The context of the projects is before the question, and within the space that the window leaves
//!    (`call::tool`).
//! 9. A node that `max_turns` or a limit of the plan ends keeps its work: it fails with a category that is
//!    not tried again. When the plan is resumed, it continues the conversation from its recorded turns
//!    (`phase::execute`, `earlier_turns`).
//! 10. A model whose task is to change files (`nudge`), and that ends without a change, is asked once more.
//! 11. A strategist that gives no usable answer does not fail: the plan continues without a strategy.
//!
//! # Not here
//! The brief that `{{prompt}}` refers to, and retries of the node as a whole: the graph.

mod budget;
mod call_record;
mod conversation;
mod earlier_turns;
mod output;
mod turn;

use std::time::Duration;

use actors::model::{Message, ModelAnswer, StopReason, ToolResult, ToolUse};
use actors::tool::{Catalog, ReadPolicy, ToolHost, ToolRunner};
use std::collections::BTreeSet;

use domain::plan::strategy::NO_STRATEGY_KEY;
use domain::{Decision, ErrorCategory, ModelTask, Phase, Plan, TokenUsage};
use serde_json::{Value, json};
use sync::CancelReason;

use super::prompt;
use super::{ActiveNode, NodeOutput};
use crate::models::{ModelUnavailable, error_chain};
use crate::plan::revise::continued_attempt;
use crate::run::RunError;
use crate::run::call::mcp_server::NodeServers;
use crate::run::call::tool;
use crate::run::call::tool::{ContextBudget, FirstContext, NodeTools, ToolGateway};
use crate::run::context::NodeContext;
use call_record::FaultLog;
use conversation::Conversation;
use output::{OutputMismatch, OutputSchema};
use turn::ModelCaller;

/// The number of calls of one answer that are made.
const CALLS_PER_TURN_MAX: usize = 64;
/// The number of answers in a row that may be cut off.
const CUTS_MAX: u32 = 4;
/// The group of tools that every model may ask for.
const CONTEXT_GROUP: &str = "context";
/// The number of characters of a model's answer that an error contains.
const SAID_CHARS_MAX: usize = 300;

/// Lets the model of a node work until it has answered, or its time is up.
pub(crate) async fn run(node: &ActiveNode<'_>, task: &ModelTask) -> Result<NodeOutput, RunError> {
    let left = match node.step.timeout_s {
        Some(seconds) => in_time(node, task, seconds).await,
        None => beside_servers(node, task).await,
    };
    match left {
        Err(RunError::Failed {
            category: ErrorCategory::ModelOutput | ErrorCategory::Budget,
            message,
            ..
        }) if is_strategist(node) => {
            let note = format!("{message}; the plan continues without a strategy");
            FaultLog::default().note(node, ErrorCategory::ModelOutput, &note, None).await?;
            let why = node.engine.redactor.redact_text(&message);
            Ok(NodeOutput { json: json!({ NO_STRATEGY_KEY: why }), ..NodeOutput::default() })
        }
        left => left,
    }
}

/// Returns true if the answer of the node is the strategy of the plan.
fn is_strategist(node: &ActiveNode<'_>) -> bool {
    let result = node.plan.spec.strategist.as_ref().map(|strategist| strategist.result.as_str());
    node.phase() == Phase::Strategize && result == Some(node.path)
}

async fn in_time(node: &ActiveNode<'_>, task: &ModelTask, seconds: u64) -> Result<NodeOutput, RunError> {
    let token = node.scope.child();
    let context = NodeContext { scope: token.observe(), ..node.context.clone() };
    let timed = ActiveNode { context, ..*node };
    let mut work = std::pin::pin!(beside_servers(&timed, task));
    let left = tokio::select! {
        biased;
        left = &mut work => return left,
        () = tokio::time::sleep(Duration::from_secs(seconds)) => {
            token.cancel(CancelReason::Timeout);
            node.state.kill_node(node.path);
            // Its calls in progress are settled and captured before its end is reported.
            work.await
        }
    };
    match left {
        Err(RunError::Cancelled | RunError::Failed { .. }) if !node.scope.is_cancelled() => {
            let message = format!(
                "node {}: {} took longer than its time limit of {seconds} s and was stopped",
                node.path, task.model
            );
            Err(RunError::failed(ErrorCategory::Timeout, message))
        }
        left => left,
    }
}

/// Runs the model together with the servers whose tools it may call.
async fn beside_servers(node: &ActiveNode<'_>, task: &ModelTask) -> Result<NodeOutput, RunError> {
    let servers = NodeServers::start(node).await?;
    let left = work(node, task, &servers).await;
    servers.end_after(node, left).await
}

async fn work(
    node: &ActiveNode<'_>,
    task: &ModelTask,
    servers: &NodeServers,
) -> Result<NodeOutput, RunError> {
    let resolved = node.engine.models.resolve(&task.model, &node.engine.redactor);
    let resolved = resolved.map_err(|error| not_asked(node, &error))?;
    let mut tools = tools_of(node, task, servers)?;
    // A tool that may not be called is not offered. A model that calls it all the same gets the reason.
    let mut offered = tools.catalog().specs();
    offered.retain(|tool| tools.workplace().forbids(tool).is_none());
    offered.iter_mut().for_each(|tool| name_projects(node.plan, &mut tool.input));
    let names = offered.iter().map(|tool| tool.name.clone()).collect();
    let may_write = offered.iter().any(|tool| tool.writes);
    let mut conversation = Conversation::begin(node, task, &resolved, offered)?;
    show_first(task, &mut tools, &mut conversation).await?;
    let turn = continue_earlier(node, &names, &mut conversation).await?;
    let wanted =
        task.output.as_ref().map(OutputSchema::new).transpose().map_err(|error| node.unfit(&error))?;
    let faults = FaultLog::default();
    let caller = ModelCaller { node, model: &task.model, resolved: &resolved, faults };
    let turns = ModelTurns {
        caller,
        conversation,
        tools,
        usage: TokenUsage::default(),
        changed: 0,
        guidance_seen: node.guidance_seen,
        turn,
        cuts: 0,
        pieces: String::new(),
        last_words: String::new(),
        may_be_nudged: task.nudge && may_write && turn == 0,
        wanted,
    };
    turns.all(task.max_turns).await
}

/// Returns the reason why a model cannot be called. If the key is missing in a worker, it names the worker.
fn not_asked(node: &ActiveNode<'_>, error: &ModelUnavailable) -> RunError {
    let category = category(error);
    let mut message = error_chain(error);
    if category == ErrorCategory::Auth && node.engine.models.is_of_worker() {
        message = format!("{message} (worker {} was started without it)", std::process::id());
    }
    RunError::failed(category, message)
}

fn category(error: &ModelUnavailable) -> ErrorCategory {
    match error {
        ModelUnavailable::Provider(actors::model::ProviderError::Key { .. }) => ErrorCategory::Auth,
        ModelUnavailable::All(_) | ModelUnavailable::Provider(_) => ErrorCategory::InvalidInput,
    }
}

/// Says at every field that is a path how the file of another project is named, where there are several.
fn name_projects(plan: &Plan, input: &mut Value) {
    if plan.projects.len() < 2 {
        return;
    }
    let aliases: Vec<&str> = plan.projects.iter().map(|project| project.alias.as_str()).collect();
    let Some(fields) = input.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for field in fields.values_mut().filter(|field| field["format"] == "path") {
        let said = field["description"].as_str().unwrap_or_default();
        let how = format!("{said} Written ALIAS:PATH, where ALIAS is a project: {}.", aliases.join(", "));
        field["description"] = how.into();
    }
}

fn tools_of<'a>(
    node: &ActiveNode<'a>,
    task: &ModelTask,
    servers: &'a NodeServers,
) -> Result<NodeTools<'a>, RunError> {
    let mut all = Catalog::builtin();
    let names = servers.add_to(&mut all, &task.tools);
    let offered = all
        .only(&with_context(task, names))
        .map_err(|error| node.unfit(&format!("{error}{}", servers.left_out())))?;
    Ok(ToolRunner::new(ToolGateway::new(node, servers), offered, ReadPolicy::Strict))
}

/// Adds the context tools to those that the node names: every model may ask for context. One that is to have
/// neither tools nor context is offered none: there are models that take none.
fn with_context(task: &ModelTask, mut names: Vec<String>) -> Vec<String> {
    if !(names.is_empty() && task.context_tokens == Some(0)) {
        names.push(CONTEXT_GROUP.to_owned());
    }
    names
}

/// Puts what the node is shown of its projects before what it is asked.
async fn show_first(
    task: &ModelTask,
    tools: &mut NodeTools<'_>,
    conversation: &mut Conversation,
) -> Result<(), RunError> {
    tools.workplace().set_budget(ContextBudget::new(&task.model, conversation.budget()));
    let fits = |text: &str| conversation.has_room_for(text);
    let first = FirstContext {
        prompt: conversation.prompt(),
        model: &task.model,
        tokens: task.context_tokens,
        fits: &fits,
    };
    let (text, read) = tools.workplace().first_context(first).await?;
    tools.has_read(read);
    conversation.show_first(&text);
    Ok(())
}

/// Continues the conversation of the attempt that this one revises, and that of this node before a limit
/// stopped it. Returns the number of the last turn of the latter; 0 if there is none.
async fn continue_earlier(
    node: &ActiveNode<'_>,
    offered: &BTreeSet<String>,
    conversation: &mut Conversation,
) -> Result<u32, RunError> {
    if node.phase() != Phase::Execute {
        return Ok(0);
    }
    let (store, attempt) = (&node.engine.store, node.plan.attempt);
    let calls = store.calls(node.plan.id).await?;
    let earlier = match (attempt, node.plan.spec.follows) {
        (1, None) => None,
        // The plan that this one follows may have been forgotten.
        (1, Some(followed)) => match store.find_plan(followed).await? {
            Some(followed) => {
                let calls = store.calls(followed.id).await?;
                Some(earlier_turns::earlier_turns(&calls, node.path, followed.attempt, offered))
            }
            None => None,
        },
        (attempt, _) => continued_attempt(&calls, attempt)
            .map(|earlier| earlier_turns::earlier_turns(&calls, node.path, earlier, offered)),
    };
    if let Some(turns) = earlier {
        let decisions = store.decisions(node.plan.id).await?;
        let of_this = |decision: &&Decision| decision.new.attempt == attempt;
        let requests = prompt::guidance(&decisions).filter(of_this);
        let requests: Vec<&str> = requests.map(|decision| decision.new.chosen.as_str()).collect();
        conversation.continue_with(turns, &requests.join("\n\n"));
    }
    let stopped = earlier_turns::stopped_turns(&calls, node.path, attempt, offered);
    Ok(stopped.map_or(0, |stopped| {
        conversation.continue_stopped(stopped.messages);
        stopped.last
    }))
}

/// A conversation under way.
struct ModelTurns<'a, 'n> {
    caller: ModelCaller<'a, 'n>,
    conversation: Conversation,
    tools: NodeTools<'n>,
    wanted: Option<OutputSchema>,
    usage: TokenUsage,
    changed: u32,
    /// The number of the last message of a person that the model got.
    guidance_seen: u32,
    /// The number of the last turn, which a continued conversation counts on from.
    turn: u32,
    /// The number of answers in a row that were cut off.
    cuts: u32,
    /// The pieces so far of an answer that was cut off.
    pieces: String,
    /// The last words of the model, whatever they were about.
    last_words: String,
    /// True if it is asked once more when it ends without a change.
    may_be_nudged: bool,
}

/// The effect of an answer on the node.
enum AfterTurn {
    /// It is the last.
    Done(NodeOutput),
    /// The next turn counts.
    Next,
    /// The next turn repairs this one, and does not count.
    Again,
}

impl ModelTurns<'_, '_> {
    async fn all(mut self, max_turns: u32) -> Result<NodeOutput, RunError> {
        let mut turns = 0;
        let mut unfit: Option<String> = None;
        while turns < max_turns {
            self.turn = self.turn.saturating_add(1);
            self.tell_what_was_said().await?;
            let answer = self.ask().await?;
            match self.take(answer, &mut unfit).await? {
                AfterTurn::Done(left) => return Ok(left),
                AfterTurn::Next => turns += 1,
                AfterTurn::Again => {}
            }
        }
        Err(self.out_of_turns(max_turns))
    }

    async fn ask(&mut self) -> Result<ModelAnswer, RunError> {
        let made_room = self.conversation.made_room();
        let answer = self.caller.ask(&mut self.conversation, self.turn).await?;
        if let Some(budget) =
            self.tools.workplace().budget().filter(|_| self.conversation.made_room() > made_room)
        {
            budget.forget_results();
        }
        self.usage = self.usage.plus(answer.usage);
        if !answer.text.trim().is_empty() {
            self.last_words.clone_from(&answer.text);
        }
        Ok(answer)
    }

    async fn take(&mut self, answer: ModelAnswer, unfit: &mut Option<String>) -> Result<AfterTurn, RunError> {
        match answer.stop {
            StopReason::Refused => return Err(self.refused(&answer)),
            StopReason::MaxTokens => return self.continue_cut(answer).await,
            StopReason::End | StopReason::ToolUse => self.cuts = 0,
        }
        if !answer.calls.is_empty() {
            self.pieces.clear();
            let results = self.call_all(&answer.calls).await?;
            self.conversation.add(answer.text, answer.calls, results);
            return Ok(AfterTurn::Next);
        }
        let whole = std::mem::take(&mut self.pieces) + &answer.text;
        // A model that was to continue may have begun again instead.
        let why = match self.fits(&whole).or_else(|why| self.fits(&answer.text).map_err(|_| why)) {
            Ok(json) if self.changed > 0 || !std::mem::take(&mut self.may_be_nudged) => {
                return Ok(AfterTurn::Done(self.left(whole, json)));
            }
            Ok(_) => {
                self.note(ErrorCategory::ModelOutput, "it ended without a change: it is asked once more")
                    .await?;
                self.conversation.changed_nothing(&answer.text);
                return Ok(AfterTurn::Next);
            }
            Err(why) => why,
        };
        match unfit {
            Some(before) if *before == answer.text => {
                Err(self.failed("gave the same answer twice, and it does not match `output`"))
            }
            Some(_) => {
                Err(self.failed(&format!("gave an answer that does not match `output`: {}", why.problem)))
            }
            None => {
                let message = format!("its answer does not match `output`: {}", why.problem);
                self.note(ErrorCategory::ModelOutput, &message).await?;
                self.conversation.does_not_fit(&answer.text, &why.to_string());
                *unfit = Some(answer.text);
                Ok(AfterTurn::Again)
            }
        }
    }

    /// Lets a model continue whose answer was cut off. Its whole calls are made; one that was cut is reported to it.
    async fn continue_cut(&mut self, mut answer: ModelAnswer) -> Result<AfterTurn, RunError> {
        self.cuts += 1;
        let tokens = self.conversation.answer_tokens();
        if self.cuts > CUTS_MAX {
            let what = format!("was cut off {} times in a row, after {tokens} tokens each", self.cuts);
            return Err(self.failed(&what));
        }
        self.note(ErrorCategory::ModelOutput, "its answer was cut off: it continues").await?;
        if answer.calls.is_empty() {
            self.pieces.push_str(&answer.text);
            self.conversation.cut_off(answer.text);
            return Ok(AfterTurn::Again);
        }
        self.pieces.clear();
        let whole = answer.calls.len() - usize::from(answer.calls.last().is_some_and(is_cut));
        let mut results = self.call_all(&answer.calls[..whole]).await?;
        for call in &mut answer.calls[whole..] {
            let text = format!(
                "CUT_OFF: your answer was cut off after {tokens} tokens, in the middle of this call, which was not made. \
                 Make it again in smaller pieces: one call at a time, and large changes in several small edits."
            );
            // The half of an argument is of no use to anybody.
            call.arguments = Value::Object(serde_json::Map::new());
            results.push(ToolResult { id: call.id.clone(), text, is_error: true });
        }
        self.conversation.add(answer.text, answer.calls, results);
        Ok(AfterTurn::Again)
    }

    /// Passes the messages of a person since the last turn to the model.
    async fn tell_what_was_said(&mut self) -> Result<(), RunError> {
        let node = self.caller.node;
        let decisions = node.engine.store.decisions(node.plan.id).await?;
        let seen = self.guidance_seen;
        for decision in prompt::guidance(&decisions).filter(|decision| decision.seq > seen) {
            self.guidance_seen = decision.seq;
            let said = node.engine.redactor.redact_text(&decision.new.chosen);
            self.conversation.add_user_message(format!("The person who asked for this says:\n{said}"));
        }
        Ok(())
    }

    /// Makes the calls one after the other, and says what came of each.
    async fn call_all(&mut self, calls: &[ToolUse]) -> Result<Vec<ToolResult>, RunError> {
        let mut results = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            let id = call.id.clone();
            if index >= CALLS_PER_TURN_MAX {
                let text = format!(
                    "TOO_MANY_CALLS: {CALLS_PER_TURN_MAX} calls are made in one turn, this one was not; make it again"
                );
                if index == CALLS_PER_TURN_MAX {
                    self.note(ErrorCategory::ModelOutput, &text).await?;
                }
                results.push(ToolResult { id, text, is_error: true });
                continue;
            }
            self.caller.node.scope.check()?;
            let answer = self.tools.call(call).await.map_err(tool::stopped)?;
            self.changed = self.changed.saturating_add(answer.changed);
            // A result has lost its secrets where it was made; what went wrong may be in the words of a program.
            let text = match answer.is_error {
                true => self.caller.node.engine.redactor.redact_text(&answer.text),
                false => answer.text,
            };
            if let Some(category) = answer.fault {
                let call = self.tools.workplace().last_call();
                self.caller.faults.note(self.caller.node, category, &text, call).await?;
            }
            results.push(ToolResult { id, text, is_error: answer.is_error });
        }
        Ok(results)
    }

    /// Records the message to the model about something that went wrong.
    async fn note(&mut self, category: ErrorCategory, message: &str) -> Result<(), RunError> {
        self.caller.faults.note(self.caller.node, category, message, None).await
    }

    /// Returns the answer as a value for programs; null if none is wanted.
    fn fits(&self, text: &str) -> Result<Value, OutputMismatch> {
        self.wanted.as_ref().map_or(Ok(Value::Null), |wanted| wanted.read(text))
    }

    fn left(&self, text: String, json: Value) -> NodeOutput {
        let redactor = &self.caller.node.engine.redactor;
        let json = match (redactor.redactor(), json) {
            (_, Value::Null) | (None, _) => Value::Null,
            (Some(redactor), json) => redactor.redact_json(&json),
        };
        let text = redactor.redact_text(&text);
        NodeOutput {
            exit: None,
            text,
            json,
            changed: self.changed,
            usage: self.usage,
            guidance_seen: self.guidance_seen,
        }
    }

    /// The failure of a model that is not done. The output of the node is its last words.
    fn out_of_turns(&self, max_turns: u32) -> RunError {
        let ModelCaller { node, model, .. } = &self.caller;
        RunError::Failed {
            category: ErrorCategory::Budget,
            message: format!("node {}: {model} is not done after {max_turns} turns (`max_turns`)", node.path),
            left: Some(Box::new(self.left(self.last_words.clone(), Value::Null))),
            call: None,
        }
    }

    fn refused(&self, answer: &ModelAnswer) -> RunError {
        let said: String = answer.text.trim().chars().take(SAID_CHARS_MAX).collect();
        match said.is_empty() {
            true => self.failed("refused to answer"),
            false => self.failed(&format!("refused: {said}")),
        }
    }

    fn failed(&self, what: &str) -> RunError {
        let ModelCaller { node, model, .. } = &self.caller;
        RunError::failed(ErrorCategory::ModelOutput, format!("node {}: {model} {what}", node.path))
    }
}

/// Returns true if the last call of an answer that was cut off is not whole. The arguments of a whole call are
/// JSON; a call without arguments may lack them only because of the cut.
fn is_cut(call: &ToolUse) -> bool {
    call.arguments.as_object().is_none_or(serde_json::Map::is_empty)
}

/// Returns the answer of a model and its results, as messages that the model reads next.
fn exchange(text: String, calls: Vec<ToolUse>, results: Vec<ToolResult>) -> [Message; 2] {
    [Message::Assistant { text, calls }, Message::Results(results)]
}
