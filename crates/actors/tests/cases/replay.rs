//! A run is recorded and repeated offline; what is different then is named.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actors::model::{
    Cause, Drift, Message, ModelAnswer, ModelError, ModelLimits, ModelRequest, Participants, Provider,
    ProviderKey, Recorder, RecordingError, Replay, ToolResult, ToolUse, cast_of,
};
use domain::ErrorCategory;
use serde_json::{Value, json};
use sync::{CancelReason, CancellationToken};
use tempfile::TempDir;

use crate::support::{SECRET, answered, ask, data, failed, openai, request, tool};
use testkit::scripted_server::{Script, Scripted};

fn text_script(text: &str) -> Script {
    let body = data(&[json!({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]})]);
    Script::events(&[body.as_bytes()])
}

struct Tape {
    dir: TempDir,
}

impl Tape {
    fn new() -> Tape {
        Tape { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("run.jsonl")
    }

    /// Asks each request of a real server that does as scripted, and records it.
    async fn record(&self, calls: Vec<(ModelRequest, Script)>) -> Vec<Result<ModelAnswer, ModelError>> {
        let (requests, scripts): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
        let server = Scripted::start(scripts);
        let key = ProviderKey::new(SECRET, "TEST_KEY").unwrap();
        let recorder = Arc::new(Recorder::create(&self.path(), vec![key], Participants::default()).unwrap());
        let provider = recorder.wrap("openai", ModelLimits::default(), Arc::new(openai(&server.url)));
        let mut answers = Vec::new();
        for request in requests {
            answers.push(ask(&*provider, &request).await.0);
        }
        answers
    }

    fn replay(&self) -> (Arc<Replay>, Arc<dyn Provider>) {
        let replay = Arc::new(Replay::open(&self.path()).unwrap());
        let provider = replay.provider("openai");
        (replay, provider)
    }

    /// Those of calls.
    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path()).unwrap();
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[tokio::test]
async fn a_recorded_run_is_repeated_offline_answers_and_errors_alike() {
    let tape = Tape::new();
    let busy = Script::status("429 Too Many", &[("retry-after", "7")], "");
    let recorded = tape
        .record(vec![
            (request("one"), busy),
            (request("one"), text_script("first")),
            (request("two"), text_script("second")),
            (request("one"), text_script("third")),
        ])
        .await;
    let (replay, provider) = tape.replay();
    assert_eq!(replay.unused(), 4);
    // Another order between different requests; the same order among equal ones.
    let two = ask(&*provider, &request("two")).await;
    assert_eq!((two.0, two.1), (recorded[2].clone(), vec!["second".to_owned()]));
    for expected in [&recorded[0], &recorded[1], &recorded[3]] {
        assert_eq!(ask(&*provider, &request("one")).await.0, *expected);
    }
    let wait = recorded[0].as_ref().unwrap_err();
    assert_eq!((wait.category, wait.retry_after), (ErrorCategory::RateLimit, Some(Duration::from_secs(7))));
    assert_eq!(replay.unused(), 0);
}

#[tokio::test]
async fn a_recording_is_its_owners_alone_and_holds_no_key() {
    let tape = Tape::new();
    let leaking = request(&format!("my key is {SECRET}"));
    tape.record(vec![(leaking, text_script(&format!("is it {SECRET}?")))]).await;
    let mode = std::fs::metadata(tape.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let text = std::fs::read_to_string(tape.path()).unwrap();
    assert!(!text.contains(SECRET), "{text}");
    let line = &tape.lines()[0];
    assert_eq!(line["request"]["messages"][0]["user"], json!("my key is [key]"));
    assert_eq!(line["answer"]["text"], json!("is it [key]?"));
}

#[tokio::test]
async fn each_call_is_on_disk_before_its_answer_is_given() {
    let tape = Tape::new();
    let server = Scripted::start(vec![text_script("a"), text_script("b")]);
    let recorder = Arc::new(Recorder::create(&tape.path(), Vec::new(), Participants::default()).unwrap());
    let provider = recorder.wrap("openai", ModelLimits::default(), Arc::new(openai(&server.url)));
    for calls in 1..=2 {
        answered(&*provider, &request("hello")).await;
        assert_eq!(tape.lines().len(), calls);
        assert_eq!(tape.lines()[calls - 1]["call"], json!(calls));
    }
}

#[tokio::test]
async fn parallel_calls_never_mix_their_lines() {
    let tape = Tape::new();
    let server = Scripted::start((0..8).map(|_| text_script(&"long ".repeat(20_000))).collect());
    let recorder = Arc::new(Recorder::create(&tape.path(), Vec::new(), Participants::default()).unwrap());
    let provider = recorder.wrap("openai", ModelLimits::default(), Arc::new(openai(&server.url)));
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let provider = Arc::clone(&provider);
            tokio::spawn(async move { answered(&*provider, &request(&format!("{number}"))).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut calls: Vec<u64> = tape.lines().iter().map(|line| line["call"].as_u64().unwrap()).collect();
    calls.sort_unstable();
    assert_eq!(calls, (1..=8).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_cancelled_call_is_not_recorded() {
    let tape = Tape::new();
    let recorder = Arc::new(Recorder::create(&tape.path(), Vec::new(), Participants::default()).unwrap());
    let provider = recorder.wrap("openai", ModelLimits::default(), Arc::new(openai(&Scripted::nobody())));
    let token = CancellationToken::new();
    let scope = token.observe();
    token.cancel(CancelReason::User);
    provider.answer(&request("hello"), &mut |_| {}, &scope).await.unwrap_err();
    assert_eq!(tape.lines(), Vec::<Value>::new());
}

fn long_talk() -> ModelRequest {
    let call = ToolUse { id: "a".to_owned(), name: "read_file".to_owned(), arguments: json!({"path": "x"}) };
    let result = ToolResult { id: "a".to_owned(), text: "line 1\nline 2".to_owned(), is_error: false };
    ModelRequest {
        system: "be brief\nbe kind".to_owned(),
        tools: vec![tool("read_file"), tool("edit_file")],
        messages: vec![
            Message::User("fix it".to_owned()),
            Message::Assistant { text: "I look".to_owned(), calls: vec![call] },
            Message::Results(vec![result]),
        ],
        ..request("")
    }
}

#[tokio::test]
async fn the_first_difference_is_named_in_words() {
    let tape = Tape::new();
    tape.record(vec![(request("other"), text_script("a")), (long_talk(), text_script("b"))]).await;
    type Change = fn(&mut ModelRequest);
    let cases: [(Change, &str); 14] = [
        (|r| r.model = "m-2".to_owned(), "the model was openai/m-1, now it is openai/m-2"),
        (
            |r| r.system = "be brief\nbe rude".to_owned(),
            "the system prompt differs in line 2: recorded `be kind`, now `be rude`",
        ),
        (
            |r| r.system.push_str("\nmore"),
            "the system prompt differs in line 3: recorded nothing, now `more`",
        ),
        (|r| drop(r.tools.remove(0)), "the tool read_file is no longer offered"),
        (|r| r.tools.push(tool("new")), "the tool new is new"),
        (|r| r.tools.reverse(), "the tools come in another order"),
        (|r| r.tools[1].input = json!({}), "the tool edit_file takes other arguments"),
        (
            |r| r.tools[1].description = "edits".to_owned(),
            "the description of the tool edit_file differs in line 1: recorded `does edit_file`, now `edits`",
        ),
        (
            |r| r.messages[0] = Message::User("break it".to_owned()),
            "message 1 (from the user) differs in line 1: recorded `fix it`, now `break it`",
        ),
        (
            |r| r.messages[1] = Message::User("I look".to_owned()),
            "message 2 was from the model, now it is from the user",
        ),
        (
            |r| {
                let result =
                    ToolResult { id: "a".to_owned(), text: "line 1\nline 3".to_owned(), is_error: false };
                r.messages[2] = Message::Results(vec![result]);
            },
            "message 3 (from a tool) differs in line 2: recorded `line 2`, now `line 3`",
        ),
        (
            |r| r.messages.push(Message::User("hurry".to_owned())),
            "there is one more message: 3 messages were recorded, and message 4 is from the user",
        ),
        (|r| r.max_tokens = 7, "the longest answer was 500 tokens, now it is 7"),
        (|r| r.output = Some(json!({})), "the schema of the answer is different"),
    ];
    for (change, what) in cases {
        let mut changed = long_talk();
        change(&mut changed);
        let (replay, provider) = tape.replay();
        let error = failed(&*provider, &changed).await;
        assert_eq!(error.cause, Cause::Drift(Drift { at: 2, what: what.to_owned() }));
        assert_eq!(error.message, format!("call 2 is not what was recorded: {what}"));
        assert_eq!((error.category, error.was_sent), (ErrorCategory::InvalidInput, false));
        assert_eq!(replay.unused(), 2, "a drift uses nothing up");
    }
}

#[tokio::test]
async fn of_calls_that_are_equally_alike_the_earliest_is_compared() {
    let tape = Tape::new();
    tape.record(vec![(request("one"), text_script("a")), (request("two"), text_script("b"))]).await;
    let (_, provider) = tape.replay();
    let what = "message 1 (from the user) differs in line 1: recorded `one`, now `three`".to_owned();
    assert_eq!(failed(&*provider, &request("three")).await.cause, Cause::Drift(Drift { at: 1, what }));
}

#[tokio::test]
async fn who_asked_in_the_recorded_run_is_compared_with_nobody_elses_calls() {
    let of = |caller: &str, text: &str| ModelRequest { caller: caller.to_owned(), ..request(text) };
    let tape = Tape::new();
    tape.record(vec![(of("a", "A mend it"), text_script("a")), (of("b", "B mend it"), text_script("b"))])
        .await;
    let (_, provider) = tape.replay();
    let drift = async |request: &ModelRequest| match failed(&*provider, request).await.cause {
        Cause::Drift(drift) => (drift.at, drift.what),
        other => panic!("{other:?}"),
    };
    let what =
        "message 1 (from the user) differs in line 1: recorded `B mend it`, now `B break it`".to_owned();
    assert_eq!(drift(&of("b", "B break it")).await, (2, what));
    answered(&*provider, &of("b", "B mend it")).await;
    let what = "the recording has 1 calls of b, and all have been answered".to_owned();
    assert_eq!(drift(&of("b", "B break it")).await, (3, what));
    assert_eq!(drift(&of("new", "A break it")).await.0, 1, "of who did not ask then, all are compared");
}

#[tokio::test]
async fn one_call_more_than_was_recorded_is_a_drift() {
    let tape = Tape::new();
    tape.record(vec![(request("hello"), text_script("a"))]).await;
    let (_, provider) = tape.replay();
    answered(&*provider, &request("hello")).await;
    let error = failed(&*provider, &request("hello")).await;
    let what = "the recording has 1 calls, and all have been answered".to_owned();
    assert_eq!(error.cause, Cause::Drift(Drift { at: 2, what }));
}

#[tokio::test]
async fn a_recording_is_never_written_over() {
    let tape = Tape::new();
    tape.record(vec![(request("hello"), text_script("a"))]).await;
    let error = Recorder::create(&tape.path(), Vec::new(), Participants::default()).unwrap_err();
    assert!(matches!(error, RecordingError::Exists { .. }), "{error}");
    assert_eq!(tape.lines().len(), 1);
}

#[tokio::test]
async fn a_last_line_that_was_cut_off_is_left_out_and_another_is_an_error() {
    let tape = Tape::new();
    tape.record(vec![(request("one"), text_script("a")), (request("two"), text_script("b"))]).await;
    let whole = std::fs::read_to_string(tape.path()).unwrap();
    std::fs::write(tape.path(), &whole[..whole.len() - 10]).unwrap();
    let (replay, provider) = tape.replay();
    assert_eq!(replay.unused(), 1);
    answered(&*provider, &request("one")).await;
    let message = failed(&*provider, &request("two")).await.message;
    assert!(message.contains("its last line is incomplete"), "{message}");
    std::fs::write(tape.path(), format!("{{\"call\": 1}}\n{whole}")).unwrap();
    let error = Replay::open(&tape.path()).unwrap_err();
    assert!(matches!(error, RecordingError::Malformed { line: 1, .. }), "{error}");
    let missing = Replay::open(&tape.dir.path().join("none")).unwrap_err();
    assert!(matches!(missing, RecordingError::Io { .. }), "{missing}");
}

#[tokio::test]
async fn a_recording_says_who_was_in_the_run_and_an_older_one_does_not() {
    let tape = Tape::new();
    let cast = Participants {
        actor: Some("coder".to_owned()),
        model: Some("box/m".to_owned()),
        ..Participants::default()
    };
    let server = Scripted::start(vec![text_script("a")]);
    let recorder = Arc::new(Recorder::create(&tape.path(), Vec::new(), cast.clone()).unwrap());
    let provider = recorder.wrap("openai", ModelLimits::default(), Arc::new(openai(&server.url)));
    answered(&*provider, &request("hello")).await;
    assert_eq!((recorder.calls(), cast_of(&tape.path()).unwrap()), (1, Some(cast)));
    assert_eq!(tape.replay().0.unused(), 1, "the head is no call");
    let text = std::fs::read_to_string(tape.path()).unwrap();
    std::fs::write(tape.path(), text.split_once('\n').unwrap().1).unwrap();
    assert_eq!(cast_of(&tape.path()).unwrap(), None);
    assert_eq!(tape.replay().0.unused(), 1);
    assert!(cast_of(&tape.dir.path().join("none")).is_err());
}

#[tokio::test]
async fn a_run_that_asks_nobody_leaves_no_recording() {
    let tape = Tape::new();
    drop(Recorder::create(&tape.path(), Vec::new(), Participants::default()).unwrap());
    assert!(!tape.path().exists());
}
