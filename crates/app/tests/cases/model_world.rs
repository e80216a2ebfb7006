//! A person whose models are answered by a scripted server, and the answers that such a server gives.

use std::fs;

use serde_json::{Value, json};

use super::support::{CommandOutput, TestUser, answer};
use testkit::scripted_server::{Script, Scripted};

/// What the server takes for a key.
pub const KEY: &str = "sk-scripted-0123456789abcdef";

/// The wire of a scripted server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Openai,
    Anthropic,
}

/// What a model says in one turn.
pub struct ScriptedTurn {
    pub text: &'static str,
    pub calls: Vec<(&'static str, Value)>,
}

pub fn says(text: &'static str) -> ScriptedTurn {
    ScriptedTurn { text, calls: Vec::new() }
}

pub fn calls<const N: usize>(calls: [(&'static str, Value); N]) -> ScriptedTurn {
    ScriptedTurn { text: "", calls: calls.to_vec() }
}

impl Wire {
    /// The turn as a server streams it, a few bytes at a time. It has read 100 tokens and written 10.
    pub fn script(self, turn: usize, said: &ScriptedTurn) -> Script {
        let body = match self {
            Wire::Openai => openai(turn, said),
            Wire::Anthropic => anthropic(turn, said),
        };
        let pieces: Vec<&[u8]> = body.as_bytes().chunks(97).collect();
        Script::events(&pieces)
    }

    /// The same, and it says that it has read so many tokens.
    pub fn script_that_read(self, tokens: u64, turn: usize, said: &ScriptedTurn) -> Script {
        let body =
            match self {
                Wire::Openai => openai(turn, said)
                    .replace("\"prompt_tokens\":100", &format!("\"prompt_tokens\":{tokens}")),
                Wire::Anthropic => anthropic(turn, said)
                    .replace("\"input_tokens\":100", &format!("\"input_tokens\":{tokens}")),
            };
        Script::events(&[body.as_bytes()])
    }

    /// All turns of a conversation.
    pub fn scripts(self, turns: &[ScriptedTurn]) -> Vec<Script> {
        turns.iter().enumerate().map(|(turn, said)| self.script(turn, said)).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Wire::Openai => "openai",
            Wire::Anthropic => "anthropic",
        }
    }
}

fn openai(turn: usize, said: &ScriptedTurn) -> String {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let mut chunks = vec![delta(json!({"role": "assistant", "content": said.text}))];
    for (index, (name, arguments)) in said.calls.iter().enumerate() {
        let text = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        let (first, second) = text.split_at(text.floor_char_boundary(text.len() / 2));
        let id = format!("call_{turn}_{index}");
        let begin = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": first}});
        chunks.push(delta(json!({"tool_calls": [begin]})));
        chunks.push(delta(json!({"tool_calls": [{"index": index, "function": {"arguments": second}}]})));
    }
    let reason = if said.calls.is_empty() { "stop" } else { "tool_calls" };
    chunks.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}));
    chunks.push(json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}));
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    events + "data: [DONE]\n\n"
}

fn anthropic(turn: usize, said: &ScriptedTurn) -> String {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 100, "output_tokens": 1}}}),
        json!({"type": "ping"}),
    ];
    let mut index = 0;
    let mut block = |start: Value, delta: Value| {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": index}));
        index += 1;
    };
    if !said.text.is_empty() {
        block(json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": said.text}));
    }
    for (number, (name, arguments)) in said.calls.iter().enumerate() {
        let id = format!("call_{turn}_{number}");
        let json_text = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        block(
            json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": json_text}),
        );
    }
    let reason = if said.calls.is_empty() { "end_turn" } else { "tool_use" };
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 10}}),
    );
    events.push(json!({"type": "message_stop"}));
    let line = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(line).collect()
}

/// A person with a shop whose sums are wrong, and a model that may mend them.
pub struct ModelFixture {
    pub person: TestUser,
    pub server: Scripted,
}

impl ModelFixture {
    pub fn new(wire: Wire, scripts: Vec<Script>) -> ModelFixture {
        ModelFixture::with(wire, scripts, "")
    }

    /// The same, with more lines in the definition of the actor.
    pub fn with(wire: Wire, scripts: Vec<Script>, more: &str) -> ModelFixture {
        let world = ModelFixture { person: TestUser::new(), server: Scripted::start(scripts) };
        let person = &world.person;
        person.write("price.sh", "total() { echo $(($1 + $2)); }\n");
        let test = ". ./price.sh\n[ \"$(total 2 3)\" = 6 ] || { echo \"2 times 3 is $(total 2 3)\"; exit 1; }\necho passed\n";
        person.write("test.sh", test);
        person.git(&["add", "."]);
        person.git(&["commit", "-qm", "first"]);
        world.settings(wire, &world.server.url);
        let actor = format!(
            "description: Mends the shop\nmodel: scripted/m-1\nsystem: Be careful.\nprompt: Make the tests pass.\n{more}"
        );
        let dir = person.home().join(".config/cleveragents/actors");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("mender.yaml"), actor).unwrap();
        world
    }

    pub fn settings(&self, wire: Wire, url: &str) {
        let path = if wire == Wire::Openai { "/v1" } else { "" };
        let settings = format!(
            "[providers.scripted]\nspeaks = \"{}\"\nurl = \"{url}{path}\"\nkey_env = \"SCRIPTED_KEY\"\nidle = \"1s\"\n\
             [prices.\"scripted/m-1\"]\ninput = 2\noutput = 10\n",
            wire.name()
        );
        fs::create_dir_all(self.person.config_file().parent().unwrap()).unwrap();
        fs::write(self.person.config_file(), settings).unwrap();
    }

    /// Lets the model work on the shop.
    pub fn run(&self, more: &[&str]) -> CommandOutput {
        let words = ["--format", "json", "run", "Make the tests pass", "--actor", "mender"];
        self.agents(&[&words[..], more].concat())
    }

    /// Calls the program with the key in the environment.
    pub fn agents(&self, words: &[&str]) -> CommandOutput {
        let mut command = self.person.command(&self.person.project(), words);
        answer(command.env("SCRIPTED_KEY", KEY))
    }

    /// The error of the newest plan: its category and message.
    pub fn error(&self) -> (String, String) {
        let error = self.person.json(&["plan", "status"]).data()["error"].clone();
        let word = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        (word("category"), word("message"))
    }

    /// The categories of all errors of the newest plan, the first one first.
    pub fn errors(&self) -> Vec<String> {
        let data = self.person.json(&["plan", "errors"]).data();
        let all = data["records"].as_array().unwrap_or_else(|| panic!("{data}"));
        all.iter().map(|error| error["category"].as_str().unwrap().to_owned()).collect()
    }

    /// What the plan used of a kind.
    pub fn used(&self, kind: &str) -> Value {
        self.person.json(&["plan", "status"]).data()["ledger"][kind].clone()
    }
}

/// The turns in which a good model mends the shop.
pub fn mending() -> Vec<ScriptedTurn> {
    let run = || ("run_command", json!({"command": "sh test.sh"}));
    vec![
        calls([("read_file", json!({"path": "price.sh"})), run()]),
        calls([("edit_file", json!({"path": "price.sh", "old": "$1 + $2", "new": "$1 * $2"}))]),
        calls([run()]),
        says("A total is now the product of number and price."),
    ]
}
