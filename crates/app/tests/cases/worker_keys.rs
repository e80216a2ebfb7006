//! Workers and the keys of models: a plan is done where its key is, and nowhere else.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Stdio};

use serde_json::{Value, json};

use super::model_world::{KEY, ModelFixture, Wire, says};
use testkit::scripted_server::Script;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// How the newest plan stands when nobody works on it any more.
fn at_rest(world: &ModelFixture) -> Value {
    loop {
        let status = world.person.json(&["plan", "status", "@last"]).data();
        if ["complete", "errored"].contains(&text(&status["state"])) {
            return status;
        }
    }
}

#[test]
fn a_plan_whose_key_no_living_worker_has_gets_a_worker_that_has_it() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("Done.")]));
    assert_eq!(world.person.json(&["run", "--detach", "--", "true"]).data()["worker_started"], true);
    let left = world.run(&["--detach"]);
    assert_eq!((left.exit, &left.data()["worker_started"]), (0, &json!(true)), "{left:?}");
    assert!(
        left.envelope()["messages"].to_string().contains("no running worker was started with SCRIPTED_KEY"),
        "{left:?}"
    );
    let status = at_rest(&world);
    assert_eq!((&status["state"], &status["answer"]), (&json!("complete"), &json!("Done.")), "{status}");
    assert!(!left.stdout.contains(KEY));
}

#[test]
fn a_worker_knows_a_provider_that_was_added_after_it_began() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("Done.")]));
    assert_eq!(world.person.json(&["run", "--detach", "--", "true"]).data()["worker_started"], true);
    let mut settings = fs::read_to_string(world.person.config_file()).unwrap();
    settings
        .push_str(&format!("[providers.later]\nspeaks = \"openai\"\nurl = \"{}/v1\"\n", world.server.url));
    fs::write(world.person.config_file(), settings).unwrap();
    world.person.write(".cleveragents/actors/later.yaml", "model: later/m\n");
    let left = world.person.json(&["run", "Go on, then", "--actor", "later", "--detach"]);
    assert_eq!((left.exit, &left.data()["worker_started"]), (0, &json!(false)), "{left:?}");
    let status = at_rest(&world);
    assert_eq!((&status["state"], &status["answer"]), (&json!("complete"), &json!("Done.")), "{status}");
}

#[test]
fn plans_for_each_line_are_done_where_their_key_is() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("Done.")]));
    assert_eq!(world.person.json(&["run", "--detach", "--", "true"]).data()["worker_started"], true);
    world.person.write("items", "one\n");
    let left = world.run(&["--for-each", "items"]);
    assert_eq!((left.exit, &left.data()["worker_started"]), (0, &json!(true)), "{left:?}");
    let status = at_rest(&world);
    assert_eq!((&status["state"], &status["answer"]), (&json!("complete"), &json!("Done.")), "{status}");
}

#[test]
fn a_plan_waits_for_a_worker_that_has_its_key_and_says_so() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("Done.")]));
    assert_eq!(world.person.json(&["run", "--detach", "--", "true"]).data()["worker_started"], true);
    assert_eq!(world.agents(&["plan", "use", "Make the tests pass", "--actor", "mender"]).exit, 0);
    let left = world.person.json(&["plan", "execute", "@last", "--detach"]);
    assert_eq!(left.exit, 1, "{left:?}");
    assert!(
        left.stdout.contains("that has SCRIPTED_KEY: no running worker does, nor does this shell"),
        "{left:?}"
    );
    let waits = world.person.agents(&["plan", "status", "@last"]).stdout;
    assert!(waits.contains("no running worker has SCRIPTED_KEY"), "{waits}");
    // A key that is blank is none.
    let mut blank = world.person.command(&world.person.project(), &["worker", "--until-idle", "0s"]);
    assert!(blank.env("SCRIPTED_KEY", " ").output().unwrap().status.success());
    let waits = world.person.json(&["plan", "status", "@last"]).data();
    assert_eq!(waits["state"], "queued", "{waits}");

    let mut able = world.person.command(&world.person.project(), &["worker", "--until-idle", "0s"]);
    assert!(able.env("SCRIPTED_KEY", KEY).output().unwrap().status.success());
    let status = at_rest(&world);
    assert_eq!((&status["state"], &status["answer"]), (&json!("complete"), &json!("Done.")), "{status}");
}

/// A worker, and what it tells.
struct Worker {
    child: Child,
    news: BufReader<ChildStderr>,
}

impl Worker {
    /// One that has this for a key, once it takes plans.
    fn start(world: &ModelFixture, key: &str) -> Worker {
        let mut command = world.person.command(&world.person.project(), &["worker", "--format", "json"]);
        command.env("SCRIPTED_KEY", key).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let news = BufReader::new(child.stderr.take().unwrap());
        let mut worker = Worker { child, news };
        worker.tells("ready");
        worker
    }

    fn tells(&mut self, word: &str) {
        let mut said = String::new();
        while !said.contains(word) {
            assert_ne!(self.news.read_line(&mut said).unwrap(), 0, "{said}");
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_plan_whose_worker_was_killed_goes_on_with_one_that_has_its_key() {
    let mut scripts = vec![Script::silence()];
    scripts.extend(Wire::Openai.scripts(&[says("Done.")]));
    let world = ModelFixture::new(Wire::Openai, scripts);
    let settings = fs::read_to_string(world.person.config_file()).unwrap();
    fs::write(world.person.config_file(), settings.replace("idle = \"1s\"", "idle = \"600s\"")).unwrap();
    let mut able = Worker::start(&world, KEY);
    let left = world.run(&["--detach"]);
    assert_eq!((left.exit, &left.data()["worker_started"]), (0, &json!(false)), "{left:?}");
    world.server.asked();
    let mut keyless = Worker::start(&world, "");
    able.kill();
    keyless.tells("freed");

    // What lost its owner goes before what comes later: when that is done, the plan is none that it takes.
    assert_eq!(world.person.json(&["run", "--detach", "--", "true"]).data()["worker_started"], false);
    while world.person.json(&["plan", "status", "@last"]).data()["state"] != "complete" {}
    let id = left.data()["plan_id"].as_str().unwrap().to_owned();
    let status = world.person.agents(&["plan", "status", &id]).stdout;
    assert!(status.contains("interrupted: ") && status.contains("has SCRIPTED_KEY resumes it"), "{status}");

    let mut another = Worker::start(&world, KEY);
    let watched = world.person.json(&["plan", "watch", &id]);
    assert_eq!(watched.exit, 0, "{watched:?}");
    let status = world.person.json(&["plan", "status", &id]).data();
    assert_eq!((&status["state"], &status["answer"]), (&json!("complete"), &json!("Done.")), "{status}");
    keyless.kill();
    another.kill();
}
