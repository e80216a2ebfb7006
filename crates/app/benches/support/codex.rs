//! `codex exec` with a scripted model: what the model says is known before, so that only the program around
//! it is timed.
//!
//! The model is a thread of this process on loopback. It asks for one shell command after the other, and when
//! the last has been answered it says that it is done.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::Connection;

/// Codex, its home, and the model that it asks.
pub(crate) struct Codex {
    program: PathBuf,
    home: TempDir,
    script: Arc<Mutex<Vec<String>>>,
}

impl Codex {
    pub(crate) fn new(program: PathBuf) -> Codex {
        let home = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&script);
        std::thread::spawn(move || serve(&listener, &said));
        let config = format!(
            "model = \"scripted\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n\
             [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\n\
             wire_api = \"responses\"\n[analytics]\nenabled = false\n"
        );
        std::fs::create_dir(home.path().join("tmp")).unwrap();
        std::fs::create_dir(home.path().join("home")).unwrap();
        std::fs::write(home.path().join("home/config.toml"), config).unwrap();
        Codex { program, home, script }
    }

    /// `codex exec` in `dir`, whose model asks for these commands of the shell.
    pub(crate) fn exec(&self, dir: &Path, commands: &[String]) -> Command {
        *self.script.lock().unwrap() = commands.to_vec();
        let mut command = Command::new(&self.program);
        command.args(["exec", "--skip-git-repo-check", "-s", "workspace-write"]).current_dir(dir);
        // It does not work in a home that lies in the directory for temporary files.
        let (home, tmp) = (self.home.path().join("home"), self.home.path().join("tmp"));
        command.env("CODEX_HOME", &home).env("HOME", &home).env("TMPDIR", tmp);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

fn serve(listener: &TcpListener, script: &Arc<Mutex<Vec<String>>>) {
    for stream in listener.incoming().flatten() {
        let script = Arc::clone(script);
        std::thread::spawn(move || converse(stream, &script));
    }
}

fn converse(stream: TcpStream, script: &Mutex<Vec<String>>) {
    let mut connection = Connection::over(stream);
    while let Some((first, body)) = connection.receive() {
        let (kind, answer) = if first.starts_with("POST") {
            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
            ("text/event-stream", events(&item(&asked, &script.lock().unwrap())))
        } else {
            let model = json!({ "id": "scripted", "object": "model" });
            ("application/json", json!({ "object": "list", "data": [model], "models": [] }).to_string())
        };
        if connection.send("HTTP/1.1 200 OK", kind, answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// What the model says after so many answers of tools.
fn item(asked: &Value, script: &[String]) -> Value {
    let is_answer = |turn: &&Value| {
        matches!(turn["type"].as_str(), Some("function_call_output" | "custom_tool_call_output"))
    };
    let done = asked["input"].as_array().into_iter().flatten().filter(is_answer).count();
    let Some(command) = script.get(done) else {
        let content = json!([{ "type": "output_text", "text": "done", "annotations": [] }]);
        return json!({ "type": "message", "role": "assistant", "id": "msg", "content": content });
    };
    let tools: Vec<&str> = asked["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tool| tool["name"].as_str().or(tool["type"].as_str()))
        .collect();
    // The name of the shell tool differs between versions.
    let (name, arguments) = if tools.contains(&"exec_command") {
        ("exec_command", json!({ "cmd": command }))
    } else if tools.contains(&"shell_command") {
        ("shell_command", json!({ "command": command }))
    } else {
        ("shell", json!({ "command": ["sh", "-c", command] }))
    };
    let (id, arguments) = (format!("call_{done}"), arguments.to_string());
    json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments })
}

fn events(item: &Value) -> String {
    let usage = json!({ "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 });
    let events = [
        json!({ "type": "response.created", "response": { "id": "resp" } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": "resp", "usage": usage } }),
    ];
    let one =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    events.iter().map(one).collect()
}
