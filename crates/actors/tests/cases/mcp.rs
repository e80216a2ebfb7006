//! Servers of the Model Context Protocol: what they offer, and every way in which they fail us.
//!
//! The servers here are lines of a shell that answer in the order in which they are asked; `mcp_real` has a
//! real one.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use actors::mcp::{McpClient, McpError, McpSettings};
use actors::program::{ProgramSpec, UnsandboxedStarter};
use actors::tool::{Catalog, ForeignTool, ToolError, ToolSource};
use domain::{ErrorCategory, ErrorClass};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Value, json};
use sync::{CancelReason, CancellationToken};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;

pub(crate) fn starts(cwd: &Path) -> UnsandboxedStarter {
    let variable = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    UnsandboxedStarter {
        cwd: cwd.to_owned(),
        env: ["PATH", "HOME"].into_iter().filter_map(variable).collect(),
    }
}

fn settings(extra: &str) -> McpSettings {
    toml::from_str(&format!("command = ['sh']\n{extra}")).unwrap()
}

/// A server that reads a line before each of these, and writes it; `read` waits for the next question.
fn script(answers: &[&str]) -> ProgramSpec {
    let mut text = String::new();
    for answer in answers {
        text.push_str(&format!("read -r asked\n{answer}\n"));
    }
    text.push_str("cat >/dev/null\n");
    ProgramSpec { argv: ["sh", "-c", &text].map(str::to_owned).to_vec(), env: Vec::new() }
}

/// The word of the shell that writes this line.
fn says(line: &str) -> String {
    format!("printf '%s\\n' '{line}'")
}

/// A server that shook hands; the second line that it reads is the notice that we are ready.
fn greeted(answers: &[&str]) -> ProgramSpec {
    let hello = format!("{}\nread -r ready", says(HELLO));
    let answers: Vec<&str> = std::iter::once(hello.as_str()).chain(answers.iter().copied()).collect();
    script(&answers)
}

fn lists(tools: &Value) -> String {
    says(&json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools } }).to_string())
}

fn answers(result: &Value) -> String {
    says(&json!({ "jsonrpc": "2.0", "id": 2, "result": result }).to_string())
}

fn plain_tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("does {name}"), "inputSchema": { "type": "object" } })
}

async fn started(program: &ProgramSpec, settings: &McpSettings) -> Result<McpClient, McpError> {
    let scope = CancellationToken::new().observe();
    McpClient::start("box", settings, program, &starts(Path::new("/")), &scope).await
}

async fn running(program: &ProgramSpec) -> McpClient {
    started(program, &settings("")).await.unwrap()
}

fn does(server: &McpClient, name: &str) -> Arc<dyn ForeignTool> {
    let (_, does) = server.tools().iter().find(|(spec, _)| spec.name == name).unwrap();
    Arc::clone(does)
}

#[tokio::test]
async fn patterns_that_grow_are_refused_and_the_other_tools_stay() {
    // Each of these takes megabytes once it is compiled, if it may.
    let nasty = |at: usize| format!("^(\\w{{1,{}}}\\s){{1,500}}$", 400 + at);
    let tool = |name: usize, patterns: usize| {
        let fields: serde_json::Map<String, Value> = (0..patterns)
            .map(|at| (format!("f{at}"), json!({ "type": "string", "pattern": nasty(at) })))
            .collect();
        json!({ "name": format!("nasty{name}"), "inputSchema": { "type": "object", "properties": fields } })
    };
    let plain = json!({
        "name": "plain",
        "inputSchema": { "type": "object", "properties": { "a": { "type": "string", "pattern": "^(?!-)[a-z]{1,63}$" } } }
    });
    let crowd = json!({
        "name": "crowd",
        "inputSchema": { "type": "object", "patternProperties": (0..65).map(|at| (format!("^{at}$"), json!({}))).collect::<serde_json::Map<_, _>>() }
    });
    let mut tools: Vec<Value> = (0..10).map(|name| tool(name, 60)).collect();
    tools.extend([crowd, plain]);
    // A line of this length is more than a word of a command may be.
    let dir = tempfile::tempdir().unwrap();
    let line = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools } }).to_string();
    std::fs::write(dir.path().join("list"), format!("{line}\n")).unwrap();
    let program = greeted(&[&format!("cat {}", dir.path().join("list").display())]);
    let server = started(&program, &settings("start_s = 60")).await.unwrap();
    let names: Vec<&str> = server.tools().iter().map(|(spec, _)| spec.name.as_str()).collect();
    assert_eq!(names, ["box.plain"]);
    assert_eq!(server.problems().len(), 11, "{:?}", server.problems());
    assert!(server.problems()[10].contains("65 patterns, 64 are allowed"), "{:?}", server.problems());
    server.end().await;
}

#[tokio::test]
async fn tools_of_a_server_get_into_the_catalog_and_are_checked_there() {
    let output =
        json!({ "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"] });
    let add = json!({
        "name": "add", "description": "adds", "outputSchema": output,
        "inputSchema": { "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] },
        "annotations": { "readOnlyHint": true }
    });
    let program = greeted(&[
        &lists(&json!([add, plain_tool("look")])),
        &answers(&json!({ "content": [], "structuredContent": { "sum": 3 } })),
    ]);
    let settings = settings("read_only = ['look']\nnetwork = true\ncall_s = 7");
    let server = started(&program, &settings).await.unwrap();
    assert_eq!(server.problems(), Vec::<String>::new());
    let mut catalog = Catalog::builtin();
    for (spec, does) in server.tools() {
        catalog.add(spec.clone(), Arc::clone(does)).unwrap();
    }

    let tool = catalog.find("box.add").unwrap();
    let spec = &tool.spec;
    assert_eq!((spec.description.as_str(), spec.timeout_s, spec.source), ("adds", 7, ToolSource::Mcp));
    // A hint of the server that it only reads is not believed; the settings are.
    assert!(spec.writes && spec.network && !catalog.find("box.look").unwrap().spec.writes);
    let ToolError::InvalidArguments { problems, .. } = tool.check_input(&json!({})).unwrap_err() else {
        panic!("the arguments are wrong")
    };
    assert_eq!(problems, ["`a` is missing"]);

    let result = does(&server, "box.add").call(json!({ "a": 1 })).await.unwrap();
    assert_eq!(result, json!({ "sum": 3 }));
    assert_eq!(tool.check_output(&result), Ok(()));
    server.end().await;
}

#[tokio::test]
async fn what_a_tool_says_becomes_text() {
    let content = json!([
        { "type": "text", "text": "eins" },
        { "type": "image", "data": "AAAA", "mimeType": "image/png" },
        { "type": "resource", "resource": { "uri": "a:b", "text": "zwei" } }
    ]);
    let failed = json!({ "content": [{ "type": "text", "text": "no such row" }], "isError": true });
    let second = says(&json!({ "jsonrpc": "2.0", "id": 3, "result": failed }).to_string());
    let program = greeted(&[
        &lists(&json!([plain_tool("t")])),
        &answers(&json!({ "content": content })),
        &second,
        &says(r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"not like that"}}"#),
    ]);
    let server = running(&program).await;
    let tool = does(&server, "box.t");
    let said = tool.call(json!({})).await.unwrap();
    assert_eq!(said, json!({ "text": "eins\n[an image, image/png, left out]\nzwei" }));
    assert_eq!(tool.call(json!({})).await.unwrap_err(), "no such row");
    let refused = tool.call(json!({})).await.unwrap_err();
    assert_eq!(refused, "the MCP server box failed in a call of t: not like that");
    server.end().await;
}

#[tokio::test]
async fn a_result_without_end_is_cut_to_its_head_and_tail() {
    let long = "x".repeat(1 << 20);
    let result =
        json!({ "jsonrpc": "2.0", "id": 2, "result": { "content": [{ "type": "text", "text": long }] } });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("answer");
    std::fs::write(&file, format!("{result}\n")).unwrap();
    let program = greeted(&[&lists(&json!([plain_tool("t")])), &format!("cat '{}'", file.display())]);
    let server = running(&program).await;
    let said = does(&server, "box.t").call(json!({})).await.unwrap();
    let text = said["text"].as_str().unwrap();
    assert!(text.contains("bytes left out") && text.len() < 66 << 10, "{}", text.len());
    server.end().await;
}

#[tokio::test]
async fn a_tool_whose_schema_is_a_lie_is_left_out_and_told_and_the_others_stay() {
    let tools = json!([
        { "name": "no-schema" },
        { "name": "text-schema", "inputSchema": "object" },
        { "name": "bad-schema", "inputSchema": { "type": "object", "properties": { "a": { "type": "strang" } } } },
        { "name": "list-schema", "inputSchema": { "type": "array" } },
        { "name": "bad-output", "inputSchema": {}, "outputSchema": { "required": "a" } },
        { "name": "far-away", "inputSchema": { "$ref": "https://schemas.example/a.json" } },
        { "name": "two words", "inputSchema": {} },
        { "description": "nameless", "inputSchema": {} },
        plain_tool("good"),
        plain_tool("good")
    ]);
    let settings = settings("read_only = ['gone']");
    let server = started(&greeted(&[&lists(&tools)]), &settings).await.unwrap();
    let names: Vec<&str> = server.tools().iter().map(|(spec, _)| spec.name.as_str()).collect();
    assert_eq!(names, ["box.good"]);
    let told = server.problems().join("\n");
    for part in [
        "box.no-schema is left out: it has no inputSchema",
        "box.text-schema is left out: its inputSchema is not a JSON object",
        "box.bad-schema is left out: its inputSchema: it is not a usable JSON schema",
        "box.list-schema is left out: its inputSchema does not describe an object",
        "box.bad-output is left out: its outputSchema: it is not a usable JSON schema",
        "box.far-away is left out: its inputSchema: it is not a usable JSON schema",
        "tool 7 is left out: its name is empty",
        "tool 8 is left out: it has no name",
        "box.good is left out: there are two of this name",
        "box has no tool `gone`, which `read_only` names",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    assert_eq!(server.problems().len(), 10, "{told}");
    server.end().await;
}

#[tokio::test]
async fn a_result_that_is_not_what_its_schema_promised_is_told() {
    let output =
        json!({ "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"] });
    let tool = json!({ "name": "add", "inputSchema": {}, "outputSchema": output });
    let lie = json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": [], "structuredContent": { "sum": "3" } } });
    let program = greeted(&[
        &lists(&json!([tool])),
        &answers(&json!({ "content": [{ "type": "text", "text": "3" }] })),
        &says(&lie.to_string()),
    ]);
    let server = running(&program).await;
    let tool = does(&server, "box.add");
    let missing = tool.call(json!({})).await.unwrap_err();
    assert_eq!(missing, "its outputSchema requires structured content, and it returned none");
    let mut catalog = Catalog::default();
    catalog.add(server.tools()[0].0.clone(), Arc::clone(&tool)).unwrap();
    let result = tool.call(json!({})).await.unwrap();
    let why = catalog.find("box.add").unwrap().check_output(&result).unwrap_err().text_with_code();
    assert!(
        why.starts_with("BAD_OUTPUT: box.add returned a result that does not match its schema: `sum`"),
        "{why}"
    );
    server.end().await;
}

#[tokio::test]
async fn a_list_that_never_ends_is_read_to_its_bound() {
    let mut pages = Vec::new();
    for page in 0..80 {
        let tools: Vec<Value> = (0..2).map(|tool| plain_tool(&format!("t{page}-{tool}"))).collect();
        let result = json!({ "tools": tools, "nextCursor": "more" });
        pages.push(says(&json!({ "jsonrpc": "2.0", "id": page + 1, "result": result }).to_string()));
    }
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let server = running(&greeted(&pages)).await;
    assert_eq!(server.tools().len(), 2 * actors::mcp::PAGES_MAX);
    server.end().await;
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_named() {
    let program = ProgramSpec { argv: vec!["no-such-server".to_owned()], env: Vec::new() };
    let error = started(&program, &settings("")).await.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::InvalidInput);
    let told = error.to_string();
    assert!(
        told.starts_with("the MCP server box could not be started: `no-such-server`: No such file"),
        "{told}"
    );
}

#[tokio::test]
async fn a_server_that_dies_says_how() {
    let dies = "echo my key is missing >&2; exit 3";
    let error = started(&script(&[dies]), &settings("")).await.unwrap_err();
    assert_eq!((error.category(), error.class()), (ErrorCategory::Connection, ErrorClass::Transient));
    assert_eq!(
        error.to_string(),
        "the MCP server box disconnected in initialize; it ended with exit status: 3; its error output: \
         my key is missing"
    );

    let server = running(&greeted(&[&lists(&json!([plain_tool("t")])), dies])).await;
    let tool = does(&server, "box.t");
    assert_eq!(
        tool.call(json!({})).await.unwrap_err(),
        "the MCP server box disconnected in a call of t; it ended with exit status: 3; its error output: my key \
         is missing"
    );
    // And it stays so.
    assert!(
        tool.call(json!({})).await.unwrap_err().starts_with("the MCP server box disconnected in a call of t")
    );
    server.end().await;
    assert_eq!(
        tool.call(json!({})).await.unwrap_err(),
        "the MCP server box disconnected in a call of t: it was stopped before"
    );
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_wherever_it_hangs() {
    let hasty = settings("start_s = 1\ncall_s = 1");
    let at = |doing: &str| format!("the MCP server box did not answer within 1 s in {doing}");
    let error = started(&script(&["cat >/dev/null"]), &hasty).await.unwrap_err();
    assert_eq!((error.category(), error.to_string()), (ErrorCategory::Timeout, at("initialize")));
    // One that does not even read.
    let deaf = ProgramSpec { argv: ["sleep", "1000"].map(str::to_owned).to_vec(), env: Vec::new() };
    assert_eq!(started(&deaf, &hasty).await.unwrap_err().category(), ErrorCategory::Timeout);
    let error = started(&greeted(&["echo thinking"]), &hasty).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{}; it wrote a line that is not a message: `thinking`", at("tools/list"))
    );
    let server = started(&greeted(&[&lists(&json!([plain_tool("t")]))]), &hasty).await.unwrap();
    assert_eq!(does(&server, "box.t").call(json!({})).await.unwrap_err(), at("a call of t"));
    server.end().await;
}

#[tokio::test]
async fn a_server_that_writes_garbage_is_given_up_at_once() {
    let gone = "the MCP server box disconnected";
    for (line, told) in [
        (says(r#"{"hello":1}"#), r#"it wrote JSON that is not a message: `{"hello":1}`"#),
        (
            "yes nothing".to_owned(),
            "too many lines are not messages; it wrote a line that is not a message: `nothing`",
        ),
        ("tr '\\0' x </dev/zero".to_owned(), "it wrote a line of more than 16777216 bytes"),
    ] {
        let error = started(&script(&[&line]), &settings("")).await.unwrap_err();
        let expected = format!("{gone} in initialize: {told}");
        assert!(error.to_string().starts_with(&expected), "{error}");
        let server = running(&greeted(&[&lists(&json!([plain_tool("t")])), &line])).await;
        let error = does(&server, "box.t").call(json!({})).await.unwrap_err();
        assert!(error.starts_with(&format!("{gone} in a call of t: {told}")), "{error}");
        server.end().await;
    }
}

#[tokio::test]
async fn an_answer_that_is_none_is_told() {
    let error =
        started(&greeted(&[&says(r#"{"jsonrpc":"2.0","id":1,"result":{"tulls":[]}}"#)]), &settings("")).await;
    let told = error.unwrap_err().to_string();
    assert!(told.starts_with("the MCP server box broke the protocol in tools/list"), "{told}");
    let server =
        running(&greeted(&[&lists(&json!([plain_tool("t")])), &answers(&json!(["no result"]))])).await;
    let error = does(&server, "box.t").call(json!({})).await.unwrap_err();
    assert_eq!(
        error,
        "the MCP server box broke the protocol in a call of t: it is not an answer to that request"
    );
    server.end().await;
}

#[tokio::test]
async fn logs_that_went_astray_and_unknown_notices_do_no_harm() {
    let noise =
        format!("echo starting up; {}; echo", says(r#"{"jsonrpc":"2.0","method":"x/y","params":[1]}"#));
    let hello = format!("{noise}\n{}\nread -r ready", says(HELLO));
    let program = script(&[&hello, &format!("{noise}\n{}", lists(&json!([plain_tool("t")])))]);
    let server = running(&program).await;
    assert_eq!(server.tools().len(), 1);
    server.end().await;
}

/// Tells when the process is gone.
pub(crate) fn watch_of(pid: i32) -> OwnedFd {
    pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap()
}

pub(crate) fn wait_gone(process: &OwnedFd) {
    let mut polled = [rustix::event::PollFd::new(process, rustix::event::PollFlags::IN)];
    let patience = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut polled, Some(&patience)).unwrap(), 1, "it still runs");
}

#[tokio::test]
async fn all_that_a_server_started_ends_with_it() {
    for by_drop in [false, true] {
        let child = "sleep 1000 </dev/null >/dev/null 2>&1 &";
        let pid =
            r#"printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%s"}]}}\n' $!"#;
        let server =
            running(&greeted(&[&lists(&json!([plain_tool("t")])), &format!("{child}\n{pid}")])).await;
        let said = does(&server, "box.t").call(json!({})).await.unwrap();
        let child = watch_of(said["text"].as_str().unwrap().parse().unwrap());
        if by_drop {
            drop(server)
        } else {
            server.end().await
        }
        wait_gone(&child);
    }
}

#[tokio::test]
async fn a_cancelled_start_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("pid");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let program = script(&[&format!("echo $$ >'{}'; cat >/dev/null", fifo.display())]);
    let token = CancellationToken::new();
    let scope = token.observe();
    let starting = tokio::spawn(async move {
        McpClient::start("box", &settings(""), &program, &starts(Path::new("/")), &scope).await
    });
    let pid = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo).unwrap()).await.unwrap();
    let process = watch_of(pid.trim().parse().unwrap());
    token.cancel(CancelReason::User);
    let error = starting.await.unwrap().unwrap_err();
    assert_eq!(error, McpError::Cancelled { server: "box".to_owned(), reason: CancelReason::User });
    assert_eq!(error.class(), ErrorClass::Cancelled);
    wait_gone(&process);
}
