//! The provider of a model: built in or configured, its key, and the message when something is missing.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use actors::model::{
    NoBreakerListener, Participants, Price, Prices, Protocol, ProviderError, ProviderSettings, ProviderView,
    Providers, ProvidersSetup, RecordingMode,
};
use serde_json::json;
use sync::CircuitBreaker;

use crate::support::{Admitting, SECRET, answered, data, request};
use testkit::scripted_server::{Script, Scripted};

type Environment = BTreeMap<&'static str, String>;

fn setup(settings: &[(&str, ProviderSettings)]) -> ProvidersSetup {
    ProvidersSetup {
        settings: settings.iter().map(|(name, own)| ((*name).to_owned(), own.clone())).collect(),
        prices: Prices::with_overrides(&BTreeMap::new()).unwrap(),
        breakers: CircuitBreaker::default(),
        news: Arc::new(NoBreakerListener),
        mode: RecordingMode::Live,
    }
}

fn providers_of(setup: ProvidersSetup, environment: &Environment) -> Providers {
    Providers::new(setup, &|name| environment.get(name).cloned()).unwrap()
}

fn providers(settings: &[(&str, ProviderSettings)], environment: &[(&'static str, &str)]) -> Providers {
    let environment = environment.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    providers_of(setup(settings), &environment)
}

fn refused(providers: &Providers, model: &str) -> String {
    match providers.resolve(model) {
        Ok(_) => panic!("{model} was resolved"),
        Err(error) => {
            assert!(!format!("{error:?}").contains(SECRET));
            error.to_string()
        }
    }
}

fn one_answer() -> Script {
    let body = data(&[json!({"choices": [{"delta": {"content": "so"}, "finish_reason": "stop"}]})]);
    Script::events(&[body.as_bytes()])
}

#[test]
fn what_is_missing_is_said_with_what_to_set() {
    let bare = providers(&[], &[("OPENROUTER_API_KEY", " ")]);
    for (model, said) in [
        (
            "openai/gpt-5",
            "openai cannot be used: the key is missing: set the environment variable OPENAI_API_KEY",
        ),
        (
            "anthropic/claude-sonnet-4-5",
            "anthropic cannot be used: the key is missing: set the environment variable ANTHROPIC_API_KEY",
        ),
        (
            "openrouter/a/b",
            "openrouter cannot be used: the key is missing: set the environment variable OPENROUTER_API_KEY",
        ),
        (
            "opnai/gpt-5",
            "there is no provider `opnai`; the providers are anthropic, llamacpp, ollama, openai, openrouter",
        ),
        ("gpt-5", "`gpt-5` is not a model: write PROVIDER/NAME, as in anthropic/claude-sonnet-4-5"),
        ("openai/", "`openai/` is not a model: write PROVIDER/NAME, as in anthropic/claude-sonnet-4-5"),
    ] {
        assert_eq!(refused(&bare, model), said);
    }
}

#[test]
fn local_servers_need_no_key_and_cost_nothing() {
    let bare = providers(&[], &[]);
    for model in ["ollama/qwen3:4b", "llamacpp/any"] {
        let resolved = bare.resolve(model).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(resolved.price, Some(Price::FREE), "{model}");
    }
    let elsewhere = providers(&[], &[("OLLAMA_HOST", "box:80")]);
    assert_eq!(elsewhere.resolve("ollama/m").map(|resolved| resolved.price).ok(), Some(None));
}

#[test]
fn a_models_name_may_have_slashes_and_its_price_is_listed_or_unknown() {
    let keyed = providers(&[], &[("OPENROUTER_API_KEY", SECRET), ("OPENAI_API_KEY", SECRET)]);
    let far = keyed.resolve("openrouter/meta/llama-4").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((far.model.as_str(), far.price), ("meta/llama-4", None));
    let near = keyed.resolve("openai/gpt-4o-2024-08-06").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(near.price.map(|price| price.input), Some(2_500_000));
}

#[tokio::test]
async fn a_configured_provider_is_asked_at_its_address_with_its_key() {
    let server = Scripted::start(vec![one_answer()]);
    let mine = ProviderSettings {
        speaks: Some(Protocol::Openai),
        base_url: Some(format!("{}/api/", server.url)),
        key_env: Some("MY_KEY".to_owned()),
        ..ProviderSettings::default()
    };
    let all = providers(&[("mine", mine.clone())], &[("MY_KEY", SECRET)]);
    let resolved = all.resolve("mine/m-1").unwrap_or_else(|error| panic!("{error}"));
    answered(&Admitting(&resolved.provider), &request("hello")).await;
    let asked = server.asked();
    assert_eq!(asked.line, "POST /api/chat/completions HTTP/1.1");
    assert_eq!(asked.headers["authorization"], format!("Bearer {SECRET}"));
    assert_eq!(
        refused(&providers(&[("mine", mine)], &[]), "mine/m-1"),
        "mine cannot be used: the key is missing: set the environment variable MY_KEY"
    );
}

#[tokio::test]
async fn a_built_in_name_can_be_pointed_elsewhere() {
    let server = Scripted::start(vec![one_answer(), one_answer()]);
    let environment = [("OPENAI_BASE_URL", server.url.as_str())];
    let by_environment = providers(&[], &environment);
    let resolved = by_environment.resolve("openai/m-1").unwrap_or_else(|error| panic!("{error}"));
    answered(&Admitting(&resolved.provider), &request("hello")).await;
    let asked = server.asked();
    assert!(!asked.headers.contains_key("authorization"), "a server on this machine needs no key");
    assert_eq!(asked.body["max_tokens"], json!(500), "it is asked as all understand it");

    let elsewhere =
        ProviderSettings { base_url: Some(format!("{}/b", server.url)), ..ProviderSettings::default() };
    let by_settings = providers(&[("openai", elsewhere)], &[("OPENAI_BASE_URL", &Scripted::nobody())]);
    let resolved = by_settings.resolve("openai/m-1").unwrap_or_else(|error| panic!("{error}"));
    answered(&Admitting(&resolved.provider), &request("hello")).await;
    assert_eq!(server.asked().line, "POST /b/chat/completions HTTP/1.1");
}

#[test]
fn settings_that_do_not_say_enough_are_told_apart_from_unknown_names() {
    let speechless =
        ProviderSettings { base_url: Some("http://x".to_owned()), ..ProviderSettings::default() };
    let homeless = ProviderSettings { speaks: Some(Protocol::Anthropic), ..ProviderSettings::default() };
    let all = providers(&[("a", speechless), ("b", homeless)], &[]);
    assert_eq!(refused(&all, "a/m"), "the provider `a` lacks `speaks` in its settings");
    assert_eq!(refused(&all, "b/m"), "the provider `b` lacks `url` in its settings");
}

#[test]
fn a_key_file_must_be_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    std::fs::write(&path, format!("{SECRET}\n")).unwrap();
    let own = ProviderSettings { key_file: Some(path.clone()), ..ProviderSettings::default() };
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    let said = refused(&providers(&[("openai", own.clone())], &[]), "openai/m");
    assert!(said.ends_with(&format!("type `chmod 600 {}`", path.display())), "{said}");
    mode(0o600);
    let all = providers(&[("openai", own.clone())], &[]);
    assert!(all.resolve("openai/m").is_ok());
    assert_eq!(all.secrets(), [SECRET]);
    let both = providers(&[("openai", own)], &[("OPENAI_API_KEY", "from-environment")]);
    assert_eq!(both.secrets(), ["from-environment"], "the environment goes before a file");
}

#[test]
fn the_redactor_can_be_told_every_key() {
    let all = providers(&[], &[("OPENAI_API_KEY", SECRET), ("ANTHROPIC_API_KEY", "another-secret-key")]);
    let redactor = domain::Redactor::new([1; 32], all.secrets()).unwrap();
    let shown = redactor.redact_str("first another-secret-key then sk-test-0123456789abcdef").into_owned();
    assert!(!shown.contains(SECRET) && !shown.contains("another-secret-key"), "{shown}");
}

#[test]
fn how_each_provider_stands_is_told() {
    let all = providers(&[], &[("OPENAI_API_KEY", SECRET)]);
    let views = all.views();
    let names: Vec<&str> = views.iter().map(|view| view.name.as_str()).collect();
    assert_eq!(names, ["anthropic", "llamacpp", "ollama", "openai", "openrouter"]);
    let view = |name: &str| views.iter().find(|view| view.name == name).cloned().unwrap();
    let openai = ProviderView {
        name: "openai".to_owned(),
        base_url: "https://api.openai.com/v1".to_owned(),
        is_local: false,
        has_key: true,
        lacks: None,
    };
    assert_eq!(view("openai"), openai);
    assert!(view("ollama").is_local && view("ollama").lacks.is_none());
    let lacks = view("anthropic").lacks.unwrap();
    assert_eq!(lacks, "the key is missing: set the environment variable ANTHROPIC_API_KEY");
}

#[tokio::test]
async fn what_was_recorded_with_a_key_is_replayed_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.jsonl");
    let server = Scripted::start(vec![one_answer()]);
    let environment: Environment =
        [("OPENAI_API_KEY", SECRET.to_owned()), ("OPENAI_BASE_URL", server.url.clone())].into();
    let own = ProviderSettings { context_tokens: Some(9_000), ..ProviderSettings::default() };
    let mode = RecordingMode::Record { path: path.clone(), cast: Participants::default() };
    let recording = ProvidersSetup { mode, ..setup(&[("openai", own)]) };
    let live = providers_of(recording, &environment);
    let resolved = live.resolve("openai/m-1").unwrap_or_else(|error| panic!("{error}"));
    let recorded = answered(&Admitting(&resolved.provider), &request("hello")).await;
    assert_eq!(live.unused_calls(), None);

    let replaying = ProvidersSetup { mode: RecordingMode::Replay(path), ..setup(&[]) };
    let offline = providers_of(replaying, &Environment::new());
    assert!(offline.views().iter().all(|view| view.lacks.is_none()));
    assert_eq!(offline.unused_calls(), Some(1));
    let resolved = offline.resolve("openai/m-1").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(answered(&Admitting(&resolved.provider), &request("hello")).await, recorded);
    assert_eq!(resolved.context_tokens, Some(9_000), "as the settings said when it was recorded");
    assert_eq!(offline.unused_calls(), Some(0));
}

#[tokio::test]
async fn a_provider_has_one_breaker_for_all_its_models() {
    let breakers = CircuitBreaker::default();
    let environment: Environment = [("OPENAI_BASE_URL", Scripted::nobody())].into();
    let all = providers_of(ProvidersSetup { breakers: breakers.clone(), ..setup(&[]) }, &environment);
    for model in ["openai/a", "openai/b", "openai/c"] {
        let resolved = all.resolve(model).unwrap_or_else(|error| panic!("{error}"));
        crate::support::failed(&Admitting(&resolved.provider), &request("hello")).await;
    }
    assert!(breakers.is_open("model/openai"));
    assert!(!breakers.is_open("model/anthropic"));
}

#[test]
fn settings_are_read_strictly() {
    let read = |text: &str| toml::from_str::<ProviderSettings>(text);
    let own = read("speaks = \"anthropic\"\nbase_url = \"https://x\"\nidle_s = 9\n").unwrap();
    assert_eq!((own.speaks, own.idle_s), (Some(Protocol::Anthropic), Some(9)));
    assert!(read("key = \"sk-in-a-file\"").is_err(), "a key has no place in the settings");
    assert!(matches!(providers(&[], &[]).resolve(""), Err(ProviderError::NoModel { .. })));
}

#[test]
fn a_password_in_an_address_is_shown_to_nobody_but_the_redactor() {
    let at = |url: &str| ProviderSettings {
        speaks: Some(Protocol::Openai),
        base_url: Some(url.to_owned()),
        ..ProviderSettings::default()
    };
    for (url, shown, secrets) in [
        ("https://me:sk-abc@h/v1", "https://…@h/v1", &["me:sk-abc", "sk-abc"][..]),
        ("https://sk-abc@h/v1", "https://…@h/v1", &["sk-abc"]),
        ("https://me:a@b/c@h/v1", "https://…@h/v1", &["me:a@b/c", "a@b/c"]),
        ("https://h/v1", "https://h/v1", &[]),
    ] {
        let all = providers_of(setup(&[("box", at(url))]), &Environment::new());
        let views = all.views();
        let view = views.iter().find(|view| view.name == "box").unwrap();
        assert_eq!(
            (view.base_url.as_str(), all.secrets()),
            (shown, secrets.iter().map(|s| (*s).to_owned()).collect())
        );
    }
}
