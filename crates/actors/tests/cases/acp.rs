//! Agent programs over the Agent Client Protocol: what they may ask, and every way in which they fail us.
//!
//! The agents here are lines of a shell that answer in the order in which they are asked; `acp_real` has real
//! ones.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use actors::acp::{AcpAnswer, AcpError, AcpHost, AcpStop, AcpTask, AcpUpdate, Permission, run};
use actors::program::{ProgramSpec, ProgramStarter};
use async_trait::async_trait;
use domain::{ErrorCategory, ErrorClass};
use serde_json::{Value, json};
use sync::{CancelReason, CancellationToken};

use crate::mcp::{starts, wait_gone, watch_of};

/// Answers, and remembers what it was asked.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) heard: Mutex<Vec<String>>,
    pub(crate) forbids: bool,
}

impl Host {
    fn note(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }
}

#[async_trait]
impl AcpHost for Host {
    async fn read_text_file(
        &self,
        path: &str,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Result<String, String> {
        self.note(format!("read {path} {line:?} {limit:?}"));
        Ok("eins\nzwei".to_owned())
    }

    async fn write_text_file(&self, path: &str, content: &str) -> Result<(), String> {
        self.note(format!("write {path} {content}"));
        Err("PROTECTED_PATH: leave it".to_owned())
    }

    fn permission(&self, asked: &Permission) -> bool {
        self.note(format!("may {} {}", asked.kind, asked.title));
        !self.forbids
    }

    fn on_update(&self, update: &AcpUpdate<'_>) {
        self.heard.lock().unwrap().push(format!("{update:?}"));
    }
}

pub(crate) fn task(cwd: &Path) -> AcpTask {
    AcpTask {
        agent: "box".to_owned(),
        cwd: cwd.to_owned(),
        prompt: "do it".to_owned(),
        offers_files: true,
        login: None,
        start_limit: Duration::from_secs(60),
        limit: Some(Duration::from_secs(60)),
        earlier: None,
    }
}

fn program(text: &str) -> ProgramSpec {
    ProgramSpec { argv: ["sh", "-c", text].map(str::to_owned).to_vec(), env: Vec::new() }
}

fn says(message: &Value) -> String {
    format!("printf '%s\\n' '{message}'\n")
}

fn result(id: u32, result: &Value) -> String {
    says(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// Reads a line; `$line` has it.
const READ: &str = "read -r line\n";

/// An agent that is ready and has got its prompt.
fn prompted() -> String {
    let ready = result(0, &json!({ "protocolVersion": 1 }));
    format!("{READ}{ready}{READ}{}{READ}", result(1, &json!({ "sessionId": "s1" })))
}

fn update(update: &Value) -> String {
    says(
        &json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s1", "update": update } }),
    )
}

fn text(text: &str) -> String {
    update(&json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }))
}

fn asks(id: u32, method: &str, params: &Value) -> String {
    says(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

fn done() -> String {
    result(2, &json!({ "stopReason": "end_turn" }))
}

async fn told(script: &str, task: &AcpTask, host: &Host) -> Result<AcpAnswer, AcpError> {
    let pipes = starts(Path::new("/")).start(&program(script)).await.unwrap();
    run(pipes, task, host, &CancellationToken::new().observe()).await
}

async fn failed(script: &str, task: &AcpTask) -> AcpError {
    told(script, task, &Host::default()).await.unwrap_err()
}

fn usual() -> AcpTask {
    task(Path::new("/"))
}

#[tokio::test]
async fn an_agent_gets_its_task_and_its_last_message_is_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("asked");
    let keep = format!("printf '%s\\n' \"$line\" >>'{}'\n", kept.display());
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Look" });
    let other = says(&json!({
        "jsonrpc": "2.0", "method": "session/update",
        "params": { "sessionId": "another", "update": {
            "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "not mine" } } }
    }));
    let thought =
        json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": "hm" } });
    let script = prompted().replace(READ, &format!("{READ}{keep}"))
        + "echo a log that went astray\n"
        + &text("I shall look.")
        + &update(&thought)
        + &update(&call)
        + &update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" }))
        + &update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "u", "title": "Tidy" }))
        + &other
        + &text("It is ")
        + &text("done.")
        + &done();
    let host = Host::default();
    let answer = told(&script, &usual(), &host).await.unwrap();
    assert_eq!(answer, AcpAnswer { text: "It is done.".to_owned(), stop: AcpStop::Done, tool_calls: 2 });
    assert_eq!(
        *host.heard.lock().unwrap(),
        [
            r#"Text("I shall look.")"#,
            r#"Thought("hm")"#,
            r#"ToolCall { title: "Look" }"#,
            r#"ToolCall { title: "Tidy" }"#,
            r#"Text("It is ")"#,
            r#"Text("done.")"#
        ]
    );
    let asked = std::fs::read_to_string(kept).unwrap();
    let asked: Vec<Value> = asked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let methods: Vec<&str> = asked.iter().map(|asked| asked["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "session/new", "session/prompt"]);
    let files = json!({ "readTextFile": true, "writeTextFile": true });
    assert_eq!(asked[0]["params"]["clientCapabilities"]["fs"], files);
    assert_eq!(asked[0]["params"]["clientCapabilities"]["terminal"], json!(false));
    assert_eq!(asked[1]["params"], json!({ "cwd": "/", "mcpServers": [] }));
    assert_eq!(
        asked[2]["params"],
        json!({ "sessionId": "s1", "prompt": [{ "type": "text", "text": "do it" }] })
    );
}

/// The answers that the agent got: each is sent back to us as a piece of its text.
async fn answers(asked: &[(&str, Value)], task: &AcpTask, host: &Host) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("answers");
    let mut script = prompted();
    for (at, (method, params)) in asked.iter().enumerate() {
        script += &asks(100 + u32::try_from(at).unwrap(), method, params);
        script += &format!("{READ}printf '%s\\n' \"$line\" >>'{}'\n", kept.display());
    }
    let answer = told(&(script + &done()), task, host).await.unwrap();
    assert_eq!(answer.stop, AcpStop::Done);
    let answers = std::fs::read_to_string(kept).unwrap();
    answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn permission(options: &[(&str, &str)]) -> (&'static str, Value) {
    let options: Vec<Value> =
        options.iter().map(|(id, kind)| json!({ "optionId": id, "name": id, "kind": kind })).collect();
    let call = json!({ "toolCallId": "t", "title": "rm -r build", "kind": "execute" });
    ("session/request_permission", json!({ "sessionId": "s1", "toolCall": call, "options": options }))
}

#[tokio::test]
async fn permissions_are_answered_by_policy_and_never_wait_for_a_person() {
    let all = [("always", "allow_always"), ("once", "allow_once"), ("no", "reject_once")];
    let asked = [permission(&all), permission(&all[..1]), permission(&all[2..]), permission(&[])];
    let chosen = |answers: &[Value]| -> Vec<Value> {
        answers.iter().map(|answer| answer["result"]["outcome"].clone()).collect()
    };
    let selected = |id: &str| json!({ "outcome": "selected", "optionId": id });
    let cancelled = json!({ "outcome": "cancelled" });
    let host = Host::default();
    let allowed = chosen(&answers(&asked, &usual(), &host).await);
    assert_eq!(allowed, [selected("once"), selected("always"), cancelled.clone(), cancelled.clone()]);
    assert_eq!(host.asked.lock().unwrap()[0], "may execute rm -r build");
    let strict = Host { forbids: true, ..Host::default() };
    let refused = chosen(&answers(&asked, &usual(), &strict).await);
    assert_eq!(refused, [selected("no"), cancelled.clone(), selected("no"), cancelled]);
}

#[tokio::test]
async fn files_are_read_and_written_through_the_host() {
    let read = json!({ "sessionId": "s1", "path": "/p/a.txt", "line": 2, "limit": 5 });
    let write = json!({ "sessionId": "s1", "path": "/p/b.txt", "content": "neu" });
    let asked = [
        ("fs/read_text_file", read),
        ("fs/write_text_file", write),
        ("fs/read_text_file", json!({ "nonsense": 1 })),
    ];
    let host = Host::default();
    let answered = answers(&asked, &usual(), &host).await;
    assert_eq!(answered[0]["result"], json!({ "content": "eins\nzwei" }));
    assert_eq!(answered[1]["error"], json!({ "code": -32603, "message": "PROTECTED_PATH: leave it" }));
    assert_eq!(answered[2]["error"]["code"], -32602);
    assert_eq!(*host.asked.lock().unwrap(), ["read /p/a.txt Some(2) Some(5)", "write /p/b.txt neu"]);
}

#[tokio::test]
async fn what_is_not_offered_is_refused_at_once() {
    let nothing = AcpTask { offers_files: false, ..usual() };
    let asked = [
        ("fs/read_text_file", json!({ "sessionId": "s1", "path": "/p/a.txt" })),
        ("terminal/create", json!({ "sessionId": "s1", "command": "sh" })),
        ("elicitation/create", json!({ "message": "Which colour?" })),
        ("x/y", Value::Null),
    ];
    let host = Host::default();
    let answered = answers(&asked, &nothing, &host).await;
    for (answer, (method, _)) in answered.iter().zip(&asked) {
        let message = format!("{method} is not offered, and there is no user to ask");
        assert_eq!(answer["error"], json!({ "code": -32601, "message": message }));
    }
    assert_eq!(*host.asked.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn why_an_agent_stopped_is_told() {
    for (word, stop) in [
        ("max_tokens", AcpStop::MaxTokens),
        ("max_turn_requests", AcpStop::MaxTurns),
        ("refusal", AcpStop::Refused),
        ("cancelled", AcpStop::Cancelled),
    ] {
        let script = prompted() + &result(2, &json!({ "stopReason": word }));
        assert_eq!(told(&script, &usual(), &Host::default()).await.unwrap().stop, stop);
    }
}

#[tokio::test]
async fn an_agent_that_dies_says_how() {
    let dies = "echo no key >&2; exit 3\n";
    let error = failed(&format!("{READ}{dies}"), &usual()).await;
    assert_eq!((error.category(), error.class()), (ErrorCategory::Connection, ErrorClass::Transient));
    let told = |doing: &str| {
        format!(
            "the agent box disconnected in {doing}; it ended with exit status: 3; its error output: no key"
        )
    };
    assert_eq!(error.to_string(), told("initialize"));
    let script = prompted() + &text("half an ans") + dies;
    assert_eq!(failed(&script, &usual()).await.to_string(), told("session/prompt"));
}

#[tokio::test]
async fn an_agent_that_asks_for_input_is_given_up_and_its_question_told() {
    let hasty =
        AcpTask { start_limit: Duration::from_secs(1), limit: Some(Duration::from_secs(1)), ..usual() };
    let error = failed("printf 'Do you trust this folder? [y/N] '; cat >/dev/null", &hasty).await;
    assert_eq!(error.category(), ErrorCategory::Timeout);
    assert_eq!(
        error.to_string(),
        "the agent box did not answer within 1 s in initialize; it wrote a line that is not a message: `Do you \
         trust this \
         folder? [y/N] `"
    );
    let error = failed(&(prompted() + "cat >/dev/null"), &hasty).await;
    assert_eq!(error.to_string(), "the agent box did not answer within 1 s in session/prompt");
}

#[tokio::test]
async fn an_agent_that_wants_somebody_to_log_in_says_so() {
    let methods = json!([{ "id": "oauth", "name": "Log in" }, { "id": "api-key", "name": "Key" }]);
    let ready = result(0, &json!({ "protocolVersion": 1, "authMethods": methods }));
    let no = |id: u32| {
        let error = json!({ "code": -32000, "message": "Authentication required" });
        says(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
    };
    let error = failed(&format!("{READ}{ready}{READ}{}", no(1)), &usual()).await;
    assert_eq!((error.category(), error.class()), (ErrorCategory::Auth, ErrorClass::Permanent));
    assert!(error.to_string().contains("requires a login (by oauth, api-key)"), "{error}");

    let script = format!(
        "{READ}{ready}{READ}case \"$line\" in *authenticate*api-key*) ;; *) exit 9;; esac\n{}{READ}{}{READ}{}",
        result(1, &Value::Null),
        result(2, &json!({ "sessionId": "s1" })),
        result(3, &json!({ "stopReason": "end_turn" })),
    );
    let keyed = AcpTask { login: Some("api-key".to_owned()), ..usual() };
    assert_eq!(told(&script, &keyed, &Host::default()).await.unwrap().stop, AcpStop::Done);
}

#[tokio::test]
async fn garbage_is_told() {
    for (script, told) in [
        (says(&json!({ "hello": 1 })), r#"it wrote JSON that is not a message: `{"hello":1}`"#),
        ("yes nonsense".to_owned(), "too many lines are not messages: `nonsense`"),
        (
            result(0, &json!({ "no": "version" })),
            "its answer cannot be read: missing field `protocolVersion`",
        ),
        (
            result(0, &json!({ "protocolVersion": 7 })),
            "it supports version 7 of the protocol, agents supports 1",
        ),
    ] {
        let error = failed(&format!("{READ}{script}"), &usual()).await;
        assert_eq!(error.category(), ErrorCategory::Tool);
        let told = format!("the agent box broke the protocol in initialize: {told}");
        assert!(error.to_string().starts_with(&told), "{error}");
    }
    let error = failed("tr '\\0' x </dev/zero", &usual()).await.to_string();
    assert!(error.contains("it wrote a line of more than 16777216 bytes"), "{error}");
}

#[tokio::test]
async fn what_an_agent_says_of_its_failure_is_told() {
    let error =
        json!({ "code": -32603, "message": "Internal error", "data": { "details": "quota is used up" } });
    let script = prompted() + &says(&json!({ "jsonrpc": "2.0", "id": 2, "error": error }));
    let error = failed(&script, &usual()).await;
    assert_eq!(
        error.to_string(),
        r#"the agent box failed in session/prompt: Internal error: {"details":"quota is used up"}"#
    );
    assert_eq!(error.category(), ErrorCategory::Tool);
}

/// Cancels when the agent has said its pid, and gives the error and that process.
async fn cancelled(script: &str) -> (AcpError, std::os::fd::OwnedFd) {
    struct Cancelling {
        token: CancellationToken,
        seen: Mutex<Option<std::os::fd::OwnedFd>>,
    }
    #[async_trait]
    impl AcpHost for Cancelling {
        async fn read_text_file(&self, _: &str, _: Option<u32>, _: Option<u32>) -> Result<String, String> {
            panic!("nothing is done after a cancel")
        }
        async fn write_text_file(&self, _: &str, _: &str) -> Result<(), String> {
            panic!("nothing is done after a cancel")
        }
        fn permission(&self, _: &Permission) -> bool {
            panic!("nothing is done after a cancel")
        }
        fn on_update(&self, update: &AcpUpdate<'_>) {
            if let AcpUpdate::Text(pid) = update {
                *self.seen.lock().unwrap() = Some(watch_of(pid.parse().unwrap()));
                self.token.cancel(CancelReason::User);
            }
        }
    }
    let pipes = starts(Path::new("/")).start(&program(script)).await.unwrap();
    let host = Cancelling { token: CancellationToken::new(), seen: Mutex::default() };
    let scope = host.token.observe();
    let error = run(pipes, &usual(), &host, &scope).await.unwrap_err();
    (error, host.seen.into_inner().unwrap().unwrap())
}

fn says_pid(of: &str) -> String {
    text("PID").replace("'\n", "'|sed s/PID/").trim_end().to_owned() + of + "/\n"
}

#[tokio::test]
async fn a_cancel_is_told_to_the_agent_and_then_its_processes_end() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("answers");
    let keep = format!("{READ}printf '%s\\n' \"$line\" >>'{}'\n", kept.display());
    let (method, params) = permission(&[("once", "allow_once")]);
    let file = json!({ "sessionId": "s1", "path": "/p/a.txt" });
    // It hears of the cancel, asks for two more things, and then stops as it should.
    let script = prompted()
        + "sleep 1000 </dev/null >/dev/null 2>&1 &\n"
        + &says_pid("$!")
        + &keep
        + &asks(100, method, &params)
        + &keep
        + &asks(101, "fs/read_text_file", &file)
        + &keep
        + &result(2, &json!({ "stopReason": "cancelled" }))
        + "wait";
    let (error, child) = cancelled(&script).await;
    assert_eq!(error, AcpError::Cancelled { agent: "box".to_owned(), reason: CancelReason::User });
    assert_eq!(error.class(), ErrorClass::Cancelled);
    wait_gone(&child);
    let answers = std::fs::read_to_string(kept).unwrap();
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        answers[0],
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "s1" } })
    );
    assert_eq!(answers[1]["result"], json!({ "outcome": { "outcome": "cancelled" } }));
    assert_eq!(answers[2]["error"]["code"], -32800);
}

#[tokio::test]
async fn an_agent_that_dies_of_a_cancel_was_cancelled() {
    let (error, process) = cancelled(&(prompted() + &says_pid("$$") + READ + "exit 1")).await;
    assert_eq!(error, AcpError::Cancelled { agent: "box".to_owned(), reason: CancelReason::User });
    wait_gone(&process);
}
