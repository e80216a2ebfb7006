//! A real model behind a real server on this machine: SmolLM2 in llama.cpp, installed by `cargo xtask test`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use actors::model::{
    Cause, GuardedProvider, ModelRequest, NoBreakerListener, Prices, Provider, ProviderSettings, Providers,
    ProvidersSetup, RecordingMode, StopReason,
};
use serde_json::{Value, json};
use sync::{CancelReason, CancellationToken, CircuitBreaker};

use crate::support::{Admitting, answered, ask, request};

/// The server, as long as it is wanted.
struct Server {
    url: String,
    child: Child,
}

impl Server {
    fn start() -> Server {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let dir = target.parent().unwrap().join("peers/local-model");
        let is_whole = dir.join("installed").is_file();
        assert!(is_whole, "{} is not there: `cargo xtask test` installs it, by pip", dir.display());
        let mut child = Command::new(dir.join("bin/python"))
            .args(["-c", include_str!("local_model.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_address = |line: &String| line.starts_with("http://");
        let url = lines.map_while(Result::ok).find(is_address).expect("the server's address");
        Server { url, child }
    }

    /// The provider that is built in for such servers.
    fn provider(&self) -> Arc<GuardedProvider> {
        let own =
            ProviderSettings { base_url: Some(format!("{}/v1", self.url)), ..ProviderSettings::default() };
        let setup = ProvidersSetup {
            settings: BTreeMap::from([("llamacpp".to_owned(), own)]),
            prices: Prices::with_overrides(&BTreeMap::new()).unwrap(),
            breakers: CircuitBreaker::default(),
            news: Arc::new(NoBreakerListener),
            mode: RecordingMode::Live,
        };
        Providers::new(setup, &|_| None).unwrap().resolve("llamacpp/smollm2").unwrap().provider
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn short(text: &str) -> ModelRequest {
    ModelRequest { model: "smollm2".to_owned(), max_tokens: 40, ..request(text) }
}

#[tokio::test]
async fn a_real_model_streams_counts_keeps_to_a_schema_and_is_left_in_the_middle() {
    let server = Server::start();
    let guarded = server.provider();
    let provider = Admitting(&guarded);

    let (answer, heard) = ask(&provider, &short("What is the capital of France?")).await;
    let answer = answer.unwrap();
    assert!(heard.len() > 1, "it comes in pieces: {heard:?}");
    assert_eq!(heard.concat(), answer.text);
    assert!((10..200).contains(&answer.usage.tokens_in), "{answer:?}");
    assert!((1..=40).contains(&answer.usage.tokens_out), "{answer:?}");
    assert_eq!(answer.usage.cost_micros, 0, "a model on this machine costs nothing");

    let schema = json!({
        "type": "object", "required": ["colour"], "additionalProperties": false,
        "properties": {"colour": {"type": "string", "enum": ["red", "green"]}},
    });
    let bound = ModelRequest { output: Some(schema), ..short("Which colour has grass?") };
    let answer = answered(&provider, &bound).await;
    assert_eq!(answer.stop, StopReason::End, "{answer:?}");
    let colour: Value = serde_json::from_str(&answer.text).unwrap();
    assert!(colour == json!({"colour": "green"}) || colour == json!({"colour": "red"}), "{colour}");

    let token = CancellationToken::new();
    let mut first = |_: &str| {
        token.cancel(CancelReason::User);
    };
    let long = ModelRequest { max_tokens: 1_500, ..short("Count from 1 to 500, each number in words.") };
    let error = provider.answer(&long, &mut first, &token.observe()).await.unwrap_err();
    assert!(matches!(error.cause, Cause::Cancelled(CancelReason::User)), "{error:?}");
    assert!(error.was_sent);
    // The server has one slot: it answers only when it has noticed that nobody listens to the long answer.
    assert!(!answered(&provider, &short("Say hello.")).await.text.is_empty());
}
