//! Fifty plans at once whose model's server fails a fifth of all calls, watched on one screen.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use super::model_world::{KEY, Wire, calls, says};
use super::terminal::Terminal;
use super::workers::WorkerFixture;
use testkit::scripted_server::{Asked, Script, Scripted};

const PLANS: usize = 50;
/// Failures in a row after which the provider rests.
const THRESHOLD: usize = 3;
/// What a plan may use.
const TOKENS_MAX: u64 = 20_000;

/// A door that is opened once.
#[derive(Default)]
struct Door {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Door {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        drop(self.opened.wait_while(self.is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
    }
}

/// The server: nobody is answered until somebody looks on, the first calls fail, and then every fifth. Who
/// comes when the provider has rested is answered when that was seen.
struct Unsteady {
    somebody_looks: Door,
    rest_was_seen: Door,
    failed: AtomicUsize,
    asked: AtomicUsize,
}

impl Unsteady {
    fn answer(&self, asked: &Asked) -> Script {
        self.somebody_looks.pass();
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        // All that are asked at first came before the provider could rest.
        if number < THRESHOLD || number % 5 == 4 {
            self.failed.fetch_add(1, Ordering::SeqCst);
            return Script::status("500 Internal Server Error", &[], "oops");
        }
        self.rest_was_seen.pass();
        let messages = asked.body["messages"].as_array().unwrap();
        let has_written = messages.iter().any(|message| message["role"] == "tool");
        let said = match has_written {
            true => says("Done."),
            false => calls([("write_file", json!({"path": "made", "content": "by a model\n"}))]),
        };
        Wire::Openai.script(number, &said)
    }
}

fn office(url: &str) -> WorkerFixture {
    let office = WorkerFixture::with(&[("SCRIPTED_KEY", KEY)]);
    let person = &office.person;
    let settings = format!(
        "limits.tokens = {TOKENS_MAX}\nplan.concurrency = {PLANS}\nbreaker.threshold = {THRESHOLD}\n\
         breaker.cool_down = \"2s\"\nrecovery.max_retries_per_plan = 100\n\
         [providers.scripted]\nspeaks = \"openai\"\nurl = \"{url}/v1\"\nkey_env = \"SCRIPTED_KEY\"\nidle = \"10m\"\n\
         answer_tokens = 256\n[prices.\"scripted/m-1\"]\ninput = 2\noutput = 10\n"
    );
    fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
    fs::write(person.config_file(), settings).unwrap();
    let dir = person.home().join(".config/cleveragents/actors");
    fs::create_dir_all(&dir).unwrap();
    let actor = "model: scripted/m-1\nprompt: Write it.\ntools: [write]\nretries: 100\n";
    fs::write(dir.join("writer.yaml"), actor).unwrap();
    office
}

#[test]
fn fifty_plans_end_right_and_the_screen_shows_their_provider_rest_and_answer_again() {
    let unsteady = Arc::new(Unsteady {
        somebody_looks: Door::default(),
        rest_was_seen: Door::default(),
        failed: AtomicUsize::new(0),
        asked: AtomicUsize::new(0),
    });
    let answers = Arc::clone(&unsteady);
    let server = Scripted::answering(move |_, asked| answers.answer(asked));
    let office = office(&server.url);
    let _worker = office.worker(&["--max", &PLANS.to_string()]);
    let plans: Vec<String> = (0..PLANS)
        .map(|number| {
            let task = format!("task {number}");
            let left = office.data(&["run", &task, "--actor", "writer", "--detach"]);
            left["plan_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let mut top = Terminal::call(&office.person, &["top"]);
    top.shows(&format!("{PLANS} running of {PLANS} slots"));
    unsteady.somebody_looks.open();
    top.shows("scripted failed too often");
    unsteady.rest_was_seen.open();
    top.shows("scripted answers again since");
    top.shows(&format!("0 running of {PLANS} slots, {PLANS} need you"));
    top.types("q");
    assert_eq!(top.ends().exit, Some(0));

    for plan in &plans {
        let data = office.ended(plan);
        let ended = (&data["phase"], &data["state"], &data["changes"]["files"]);
        assert_eq!(ended, (&json!("execute"), &json!("complete"), &json!(1)), "{}", data["error"]);
        let account = &data["ledger"]["tokens"];
        assert_eq!((&account["reserved"], &account["max"]), (&json!(0), &json!(TOKENS_MAX)), "{account}");
        let used = account["used"].as_u64().unwrap();
        assert!((220..=TOKENS_MAX).contains(&used), "{account}");
    }
    let (failed, asked) = (unsteady.failed.load(Ordering::SeqCst), unsteady.asked.load(Ordering::SeqCst));
    // Two answers for each plan; of all calls a fifth failed.
    assert_eq!(asked - failed, 2 * PLANS, "nothing was asked twice that was answered");
    assert!(failed * 5 >= asked, "{failed} of {asked}");
    let errors = |plan: &String| -> Vec<Value> {
        let data = office.data(&["plan", "errors", plan]);
        data["records"].as_array().unwrap().clone()
    };
    let told: usize =
        plans.iter().map(|plan| errors(plan).iter().filter(|error| is_of_server(error)).count()).sum();
    assert_eq!(told, failed, "each failure of the server is in a history");
}

/// Whether the server failed, and not the provider's rest kept it from being asked.
fn is_of_server(error: &Value) -> bool {
    error["message"].as_str().unwrap().contains("oops")
}
