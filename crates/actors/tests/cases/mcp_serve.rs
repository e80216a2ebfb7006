//! Our own server of the Model Context Protocol, and what callers may write to it.

use std::sync::Arc;

use actors::mcp::{ANSWER_BYTES_MAX, CALLS_MAX, McpServeError, ServedResult, ServedTool, ToolService, serve};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::sync::Notify;

/// Echoes; `wait` waits for the notice, `long` is longer than an answer may be.
#[derive(Default)]
struct Echo {
    go_on: Arc<Notify>,
}

#[async_trait]
impl ToolService for Echo {
    fn offers(&self) -> Vec<ServedTool> {
        let offer = |name, properties: Value| ServedTool {
            name,
            description: "echoes",
            input: json!({ "type": "object", "properties": properties, "additionalProperties": false }),
            reads_only: true,
        };
        vec![
            offer("echo", json!({ "n": { "type": "integer" } })),
            offer("wait", json!({})),
            offer("long", json!({})),
        ]
    }

    fn instructions(&self) -> &str {
        "be kind"
    }

    async fn call(&self, name: &str, arguments: Value) -> ServedResult {
        match name {
            "wait" => self.go_on.notified().await,
            "long" => {
                return ServedResult {
                    answer: json!({ "x": "x".repeat(ANSWER_BYTES_MAX) }),
                    is_error: false,
                };
            }
            _ => {}
        }
        ServedResult { is_error: arguments["n"] == 0, answer: arguments }
    }
}

struct Caller {
    write: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
}

impl Caller {
    async fn writes(&mut self, line: &str) {
        self.write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hears(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }

    async fn asks(&mut self, id: u32, method: &str, params: &Value) {
        self.writes(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
            .await;
    }

    async fn calls(&mut self, id: u32, name: &str, arguments: &Value) {
        self.asks(id, "tools/call", &json!({ "name": name, "arguments": arguments })).await;
    }
}

type Served = tokio::task::JoinHandle<Result<(), McpServeError>>;

fn served(echo: Echo) -> (Caller, Served) {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(ours);
    let (input, output) = tokio::io::split(theirs);
    let server = tokio::spawn(serve(echo, input, output));
    (Caller { write, lines: BufReader::new(read).lines() }, server)
}

#[tokio::test]
async fn every_request_is_answered_whatever_it_is() {
    let (mut caller, server) = served(Echo::default());
    for (version, spoken) in [("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")] {
        caller.asks(1, "initialize", &json!({ "protocolVersion": version })).await;
        let hello = caller.hears().await;
        assert_eq!(hello["result"]["protocolVersion"], spoken);
        assert_eq!(hello["result"]["instructions"], "be kind");
    }
    // Notices, and answers to nothing, are passed over.
    caller.writes(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    caller.writes(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#).await;
    caller.writes("").await;
    caller.asks(2, "ping", &Value::Null).await;
    assert_eq!(caller.hears().await, json!({ "jsonrpc": "2.0", "id": 2, "result": {} }));
    caller.writes("{ nonsense").await;
    assert_eq!(caller.hears().await["error"]["code"], -32700);
    caller.writes("[]").await;
    assert_eq!(caller.hears().await["error"]["code"], -32600);
    caller.writes(r#"{"jsonrpc":"2.0","id":"a","method":"resources/list"}"#).await;
    let unknown = caller.hears().await;
    assert_eq!((&unknown["id"], &unknown["error"]["code"]), (&json!("a"), &json!(-32601)));
    drop(caller);
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_is_checked_done_and_bounded() {
    let (mut caller, _server) = served(Echo::default());
    let told = |answer: &Value| answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    caller.calls(1, "echo", &json!({ "n": 3 })).await;
    let done = caller.hears().await;
    assert_eq!(done["result"]["structuredContent"], json!({ "n": 3 }));
    assert_eq!((told(&done), &done["result"]["isError"]), (r#"{"n":3}"#.to_owned(), &json!(false)));
    caller.calls(2, "echo", &json!({ "n": 0 })).await;
    assert_eq!(caller.hears().await["result"]["isError"], true);
    for wrong in [json!({ "n": "3" }), json!("[]"), json!([])] {
        caller.calls(3, "echo", &wrong).await;
        let answer = caller.hears().await;
        assert!(told(&answer).starts_with("the arguments of echo are not valid"), "{answer}");
        assert_eq!(answer["result"]["isError"], true);
    }
    caller.calls(4, "drop", &json!({})).await;
    assert_eq!(
        caller.hears().await["error"]["message"],
        "there is no tool `drop`; the tools are echo, wait, long"
    );
    caller.calls(5, "long", &json!({})).await;
    let long = caller.hears().await;
    assert!(told(&long).contains("4194304 are allowed: ask for less of it"), "{long}");
}

#[tokio::test]
async fn calls_under_way_are_bounded_answered_beside_and_finished_at_the_end() {
    let echo = Echo::default();
    let go_on = Arc::clone(&echo.go_on);
    let (mut caller, server) = served(echo);
    caller.asks(0, "initialize", &json!({})).await;
    caller.hears().await;
    for id in 1..=u32::try_from(CALLS_MAX).unwrap() {
        caller.calls(id, "wait", &json!({})).await;
    }
    caller.calls(99, "wait", &json!({})).await;
    let busy = caller.hears().await;
    assert_eq!((&busy["id"], &busy["result"]["isError"]), (&json!(99), &json!(true)));
    caller.asks(100, "ping", &Value::Null).await;
    assert_eq!(caller.hears().await["id"], 100);
    // The input ends, and yet all are answered.
    caller.write.shutdown().await.unwrap();
    for _ in 0..CALLS_MAX {
        go_on.notify_one();
        assert_eq!(caller.hears().await["result"]["isError"], false);
    }
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_says_nothing_is_nobody() {
    let (mut caller, server) = served(Echo::default());
    caller.write.shutdown().await.unwrap();
    assert!(matches!(server.await.unwrap(), Err(McpServeError::NoHandshake)));
}
