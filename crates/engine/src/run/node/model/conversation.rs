//! The conversation with a model, which is bounded by the model's window.
//!
//! # Invariants
//! 1. A request is sent only if it is estimated to fit the window, answer included.
//! 2. The system prompt, the first message and everything that was said in words stay. To make room, results
//!    of tools are replaced by a note, the oldest first. Long arguments of calls follow, the oldest first. At
//!    last the middle of the newest results is left out.
//! 3. A window that the model's server reports takes the place of the assumed one, and what does not fit into
//!    it is left out in the same way.
//! 4. When room is made, it is a quarter of the window, so that the provider's cache stays valid for several
//!    turns.

use actors::model::{
    ContextOverflow, Message, ModelRequest, ResolvedModel, ToolResult, ToolSpec, ToolUse, estimate,
};
use actors::tool::{first_and_last_lines, head_and_tail};
use domain::context::Budget;
use domain::{ErrorCategory, ModelTask};
use serde_json::{Value, json};

use super::exchange;
use crate::run::RunError;
use crate::run::node::ActiveNode;
use crate::run::node::prompt;

/// The window of a model whose window is not known.
const WINDOW_TOKENS: u64 = 128_000;
/// The default maximum number of tokens of an answer.
const ANSWER_TOKENS: u32 = 8_192;
/// The maximum number of bytes of an answer that the further conversation retains.
const SAID_BYTES_MAX: usize = 64 * 1024;
/// The size below which a text is not worth leaving out.
const SHORT_BYTES: usize = 512;
/// The fewest bytes that are left of the newest results, together.
const NEWEST_BYTES_MIN: usize = 1024;
const BYTES_PER_TOKEN: u64 = 3;
/// The part by which a conversation is shortened at least that its server finds too long: one of so many.
const OVERFLOW_PART: u64 = 8;
/// In place of the middle of a new result for which there is no room.
const LEFT_OUT: &str = "there is no room for more; ask for less at a time";

/// A conversation.
pub(crate) struct Conversation {
    request: ModelRequest,
    window_tokens: u64,
    /// The number of times that room was made.
    made_room: u32,
}

/// A conversation that does not fit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its prompt has about {needed} tokens, and the model accepts {window}: shorten it, or set `context_tokens` \
     of its provider if the model accepts more"
)]
pub(crate) struct ConversationTooLong {
    needed: u64,
    window: u64,
}

impl Conversation {
    /// Creates the conversation with the system text and the first question.
    pub(crate) fn begin(
        node: &ActiveNode<'_>,
        task: &ModelTask,
        resolved: &ResolvedModel,
        tools: Vec<ToolSpec>,
    ) -> Result<Conversation, RunError> {
        let secrets = &node.engine.redactor;
        let system = [node.expand(&task.system)?, prompt::pinned(node.plan)];
        let system =
            system.into_iter().filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join("\n\n");
        let system = secrets.redact_text(&system);
        let prompt = secrets.redact_text(&node.expand(&task.prompt)?);
        if prompt.trim().is_empty() {
            let message = format!("node {}: its prompt is empty, so there is nothing to ask", node.path);
            return Err(RunError::failed(ErrorCategory::InvalidInput, message));
        }
        let window_tokens = resolved.context_tokens.map_or(WINDOW_TOKENS, u64::from);
        let window_tokens =
            window_tokens.min(node.engine.models.learnt_window(&task.model).unwrap_or(u64::MAX));
        // Half of a small window is for what is read.
        let half = u32::try_from(window_tokens / 2).unwrap_or(u32::MAX);
        let max_tokens = resolved.answer_tokens.unwrap_or(ANSWER_TOKENS).min(half).max(1);
        let request = ModelRequest {
            model: resolved.model.clone(),
            system,
            messages: vec![Message::User(prompt)],
            tools,
            max_tokens,
            output: task.output.clone(),
            caller: node.path.to_owned(),
        };
        Ok(Conversation { request, window_tokens, made_room: 0 })
    }

    /// Returns the first question to the model.
    pub(crate) fn prompt(&self) -> &str {
        match self.request.messages.first() {
            Some(Message::User(prompt)) => prompt,
            Some(Message::Assistant { .. } | Message::Results(_)) | None => "",
        }
    }

    /// Returns the part of the window that is left for context, as long as nothing but the first question is
    /// asked.
    pub(crate) fn budget(&self) -> Budget {
        let tokens = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let all = estimate(&self.request);
        let without = estimate(&ModelRequest { tools: Vec::new(), ..self.request.clone() });
        Budget {
            window: tokens(self.window_tokens),
            response: tokens(all.answer),
            tools: tokens(all.prompt.saturating_sub(without.prompt)),
            system: tokens(without.prompt),
            cap: None,
        }
    }

    /// Returns true if the first question can be asked with this before it, so that there is still room to
    /// answer calls.
    pub(crate) fn has_room_for(&self, context: &str) -> bool {
        let most = self.window_tokens.saturating_sub(self.needed()) / 8 * 7;
        let asked = ModelRequest { messages: vec![Message::User(context.to_owned())], ..bare() };
        estimate(&asked).prompt <= most
    }

    /// Puts what the model is shown before what it is asked.
    pub(crate) fn show_first(&mut self, context: &str) {
        if let Some(Message::User(prompt)) = self.request.messages.first_mut()
            && !context.is_empty()
        {
            *prompt = format!("{}\n\n{prompt}", context.trim_end());
        }
    }

    /// Adds the turns of the attempt that this one continues, and the changes that were requested of it.
    pub(crate) fn continue_with(&mut self, turns: Vec<Message>, requests: &str) {
        let request = format!(
            "Your earlier changes are already in the working tree. Requested changes:\n{}",
            requests.trim()
        );
        self.continue_after(turns, request);
    }

    /// Adds the turns of this node before a limit stopped it.
    pub(crate) fn continue_stopped(&mut self, turns: Vec<Message>) {
        let request = "You were stopped by a limit, and may continue now. Your changes so far are in the working \
                       tree. Read a file again before you change it.";
        self.continue_after(turns, request.to_owned());
    }

    fn continue_after(&mut self, turns: Vec<Message>, request: String) {
        self.request.messages.extend(turns);
        match self.request.messages.last_mut() {
            // Providers take no two messages of the same side in a row.
            Some(Message::User(prompt)) => *prompt = format!("{prompt}\n\n{request}"),
            Some(Message::Assistant { .. } | Message::Results(_)) | None => self.add_user_message(request),
        }
    }

    /// The present window.
    pub(crate) fn window_tokens(&self) -> u64 {
        self.window_tokens
    }

    /// The number of times that earlier results were left out.
    pub(crate) fn made_room(&self) -> u32 {
        self.made_room
    }

    /// The next question, cut to the window.
    pub(crate) fn question(&mut self) -> Result<&ModelRequest, ConversationTooLong> {
        if self.needed() > self.window_tokens {
            self.made_room += 1;
            self.make_room(self.window_tokens / 4 * 3);
        }
        match self.needed() {
            needed if needed > self.window_tokens => {
                Err(ConversationTooLong { needed, window: self.window_tokens })
            }
            _ => Ok(&self.request),
        }
    }

    /// The model called tools, and they answered.
    pub(crate) fn add(&mut self, text: String, calls: Vec<ToolUse>, results: Vec<ToolResult>) {
        self.request.messages.extend(exchange(kept(text), calls, results));
    }

    /// The number of tokens after which an answer is cut off.
    pub(crate) fn answer_tokens(&self) -> u32 {
        self.request.max_tokens
    }

    /// The model's answer was cut off: it is to continue.
    pub(crate) fn cut_off(&mut self, text: String) {
        let message = format!(
            "Your answer was cut off after {} tokens. Continue it exactly where it stopped, and repeat nothing of it.",
            self.request.max_tokens
        );
        self.said(text);
        self.add_user_message(message);
    }

    /// The model's last words came without a call, and nothing is changed.
    pub(crate) fn changed_nothing(&mut self, text: &str) {
        self.said(text.to_owned());
        self.add_user_message(
            "You ended your turn, but no file is changed. Words change nothing: if the task needs changes, make them \
             now by calling your tools. If it needs none, say why, and you are done."
                .to_owned(),
        );
    }

    /// The model's server finds the conversation too long: the window becomes the one that it reports, in the
    /// measure of our estimates, and without a report a part of what was sent. Returns false if that is no
    /// smaller than before.
    pub(crate) fn overflowed(&mut self, overflow: ContextOverflow) -> bool {
        let (needed, before) = (self.needed(), self.window_tokens);
        let reported = match (overflow.window_tokens, overflow.sent_tokens) {
            // The estimate of what was sent says how much our measure is off.
            (Some(window), Some(sent)) if sent > window => {
                let scaled = u128::from(needed) * u128::from(window) / u128::from(sent);
                window.min(u64::try_from(scaled).unwrap_or(u64::MAX))
            }
            (Some(window), _) => window,
            (None, _) => needed,
        };
        // Whatever it reports, what was sent is too much.
        let window = reported.min(needed.saturating_sub(needed / OVERFLOW_PART)).min(before);
        self.window_tokens = window;
        let half = u32::try_from(window / 2).unwrap_or(u32::MAX);
        self.request.max_tokens = self.request.max_tokens.min(half).max(1);
        window < before
    }

    /// The model's last answer is none that `output` wants.
    pub(crate) fn does_not_fit(&mut self, text: &str, why: &str) {
        self.said(text.to_owned());
        self.add_user_message(format!(
            "Your answer cannot be used: {why}. Answer again, with nothing but that JSON."
        ));
    }

    /// Adds a message to the model before its next turn.
    pub(crate) fn add_user_message(&mut self, text: String) {
        self.request.messages.push(Message::User(text));
    }

    fn said(&mut self, text: String) {
        // Providers take no empty message.
        let text = if text.trim().is_empty() { "(nothing)".to_owned() } else { kept(text) };
        self.request.messages.push(Message::Assistant { text, calls: Vec::new() });
    }

    fn needed(&self) -> u64 {
        estimate(&self.request).total()
    }

    /// Leaves out what can be, until no more than `target` tokens are needed or nothing is left to leave out.
    fn make_room(&mut self, target: u64) {
        let newest = self.request.messages.len().saturating_sub(1);
        for shorten in [shorten_results, shorten_arguments] {
            for at in 0..newest {
                if self.needed() <= target {
                    return;
                }
                if let Some(message) = self.request.messages.get_mut(at) {
                    shorten(message);
                }
            }
        }
        self.shorten_newest(target);
    }

    fn shorten_newest(&mut self, target: u64) {
        let over = self.needed().saturating_sub(target).saturating_mul(BYTES_PER_TOKEN);
        let Some(Message::Results(results)) = self.request.messages.last_mut() else { return };
        let all: usize = results.iter().map(|result| result.text.len()).sum();
        let room = all.saturating_sub(usize::try_from(over).unwrap_or(usize::MAX)).max(NEWEST_BYTES_MIN);
        let each = room / results.len().max(1);
        for result in results.iter_mut().filter(|result| result.text.len() > each) {
            result.text = first_and_last_lines(&result.text, each / 4 * 3, LEFT_OUT);
        }
    }
}

/// A question that asks nothing.
fn bare() -> ModelRequest {
    ModelRequest {
        model: String::new(),
        system: String::new(),
        messages: Vec::new(),
        tools: Vec::new(),
        max_tokens: 0,
        output: None,
        caller: String::new(),
    }
}

fn kept(text: String) -> String {
    if text.len() <= SAID_BYTES_MAX {
        return text;
    }
    head_and_tail(&text, SAID_BYTES_MAX / 2, SAID_BYTES_MAX / 2)
}

fn shorten_results(message: &mut Message) {
    let Message::Results(results) = message else { return };
    for result in results.iter_mut().filter(|result| result.text.len() > SHORT_BYTES) {
        result.text = format!(
            "[left out to make room: an earlier result of {} bytes; make the call again if you need it]",
            result.text.len()
        );
    }
}

fn shorten_arguments(message: &mut Message) {
    let Message::Assistant { calls, .. } = message else { return };
    for call in calls {
        let Value::Object(fields) = &mut call.arguments else { continue };
        for value in fields.values_mut() {
            let bytes = value.to_string().len();
            if bytes > SHORT_BYTES {
                *value = json!(format!("[left out to make room: {bytes} bytes]"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk(window_tokens: u64) -> Conversation {
        let request = ModelRequest {
            model: "m".to_owned(),
            system: "s".repeat(300),
            messages: vec![Message::User("p".repeat(3_000))],
            tools: Vec::new(),
            max_tokens: 100,
            output: None,
            caller: String::new(),
        };
        Conversation { request, window_tokens, made_room: 0 }
    }

    fn add(conversation: &mut Conversation, id: &str, arguments: usize, result: usize) {
        let call = ToolUse {
            id: id.to_owned(),
            name: "read_file".to_owned(),
            arguments: json!({ "content": "a".repeat(arguments), "path": "p" }),
        };
        let result = ToolResult { id: id.to_owned(), text: "r".repeat(result), is_error: false };
        conversation.add(format!("turn {id}"), vec![call], vec![result]);
    }

    fn results(conversation: &Conversation) -> Vec<&str> {
        let messages = conversation.request.messages.iter();
        let of_tools = messages.filter_map(|message| match message {
            Message::Results(results) => results.first().map(|result| result.text.as_str()),
            Message::User(_) | Message::Assistant { .. } => None,
        });
        of_tools.collect()
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let mut conversation = talk(10_000);
        add(&mut conversation, "1", 10, 6_000);
        let before = conversation.request.messages.clone();
        assert_eq!(conversation.question().unwrap().messages, before);
    }

    #[test]
    fn the_oldest_results_go_first_and_the_first_message_never() {
        let mut conversation = talk(6_000);
        for id in ["1", "2", "3"] {
            add(&mut conversation, id, 10, 6_000);
        }
        let request = conversation.question().unwrap();
        assert_eq!(request.messages.first(), Some(&Message::User("p".repeat(3_000))));
        assert!(estimate(request).total() <= 4_500, "a quarter of the window is free again");
        let found = results(&conversation);
        assert!(
            found[0].starts_with("[left out to make room: an earlier result of 6000 bytes"),
            "{}",
            found[0]
        );
        assert_eq!(found[2], "r".repeat(6_000));
    }

    #[test]
    fn old_arguments_go_when_results_are_not_enough_and_then_the_middle_of_the_newest() {
        let mut conversation = talk(6_000);
        add(&mut conversation, "1", 9_000, 10);
        add(&mut conversation, "2", 10, 30_000);
        conversation.question().unwrap();
        let Some(Message::Assistant { calls, .. }) = conversation.request.messages.get(1) else { panic!() };
        assert_eq!(calls[0].arguments["content"], "[left out to make room: 9002 bytes]");
        assert_eq!(calls[0].arguments["path"], "p");
        let newest = results(&conversation)[1];
        assert!(
            newest.contains("[… left out here: there is no room") && newest.len() < 10_000,
            "{}",
            newest.len()
        );
    }

    #[test]
    fn an_overflow_makes_the_window_smaller_by_what_the_server_reports() {
        let told = |window_tokens, sent_tokens| ContextOverflow { window_tokens, sent_tokens };
        let after = |overflow| {
            let mut conversation = talk(100_000);
            add(&mut conversation, "1", 10, 30_000);
            let needed = conversation.needed();
            (conversation.overflowed(overflow), conversation.window_tokens, needed)
        };
        let (is_smaller, window, _) = after(told(Some(4_000), None));
        assert_eq!((is_smaller, window), (true, 4_000));
        // By its count twice as much was sent as by ours, so that half of its window is ours.
        let needed = after(told(None, None)).2;
        assert_eq!(after(told(Some(8_000), Some(needed * 2))).1, 4_000);
        // Without numbers, or with ones that explain nothing, a part of what was sent.
        assert_eq!(after(told(None, None)).1, needed - needed / 8);
        assert_eq!(after(told(Some(1_000_000), None)).1, needed - needed / 8);
        let mut conversation = talk(100_000);
        add(&mut conversation, "1", 10, 30_000);
        assert!(conversation.overflowed(told(Some(3_000), None)));
        let asked = estimate(conversation.question().unwrap()).total();
        assert!(asked <= 3_000, "{asked}");
    }

    #[test]
    fn a_question_that_cannot_fit_is_not_asked() {
        let mut conversation = talk(1_000);
        let error = conversation.question().unwrap_err().to_string();
        assert!(error.contains("about 12") && error.contains("accepts 1000"), "{error}");
    }

    #[test]
    fn what_was_said_at_length_is_kept_in_part_and_nothing_has_a_word_for_it() {
        let mut conversation = talk(1_000_000);
        conversation.cut_off("x".repeat(1 << 20));
        conversation.does_not_fit("", "it is not JSON");
        let length = |message: &Message| match message {
            Message::User(text) | Message::Assistant { text, .. } => text.len(),
            Message::Results(_) => 0,
        };
        let lengths: Vec<usize> = conversation.request.messages.iter().map(length).collect();
        assert!(lengths[1] < SAID_BYTES_MAX + 100, "{lengths:?}");
        assert_eq!(lengths[3], "(nothing)".len());
    }
}
