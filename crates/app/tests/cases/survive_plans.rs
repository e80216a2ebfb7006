//! The survival of plans: every way in is told once, corrections are whole or not at all, nodes settle beside
//! each other.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Barrier};

use serde_json::{Value, json};

use super::gates::person_who_thinks;
use super::model_world::{KEY, ModelFixture, Wire, says};
use super::support::{CommandOutput, TestUser};
use super::workers::WorkerFixture;
use testkit::scripted_server::Scripted;

/// All that was told of a plan, and how it stands.
fn told(person: &TestUser, plan: &str) -> (Vec<Value>, Value) {
    let said = person.agents(&["plan", "watch", plan, "--format", "json"]).stdout;
    let mut lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let envelope = lines.pop().unwrap();
    (lines, envelope["data"]["plans"][0].clone())
}

fn moves(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|event| event["kind"] == "plan.moved").collect()
}

/// Holds what is told of a plan against how it stands: no gap, no step that nobody told, each way in a start,
/// each start a time. Says how often each phase was started.
fn retold(person: &TestUser, way: &str) -> Vec<(String, usize)> {
    let (events, plan) = told(person, "@last");
    let numbers: Vec<u64> = events.iter().map(|event| event["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "{way}");
    let mut stands = "strategize/queued".to_owned();
    let mut starts: Vec<(String, usize)> = Vec::new();
    for event in moves(&events) {
        let word = |key: &str| event["data"][key].as_str().unwrap().to_owned();
        assert_eq!(word("from"), stands, "{way}: {event}");
        stands = word("to");
        let (phase, state) = stands.split_once('/').unwrap();
        assert_eq!(state == "processing", word("event") == "start", "{way}: {event}");
        if state == "processing" {
            assert_eq!(word("from"), format!("{phase}/queued"), "{way}: {event}");
            match starts.iter_mut().find(|(known, _)| *known == phase) {
                Some((_, times)) => *times += 1,
                None => starts.push((phase.to_owned(), 1)),
            }
        }
    }
    let (phase, state) = (plan["phase"].as_str().unwrap(), plan["state"].as_str().unwrap());
    assert_eq!(stands, format!("{phase}/{state}"), "{way}: what was told is where it stands");
    times_are_told(&events, &plan["times"]["phases"], way);
    starts
}

/// Each phase of each attempt began with its first start, and its last end ended it.
fn times_are_told(events: &[Value], phases: &Value, way: &str) {
    let is_at = |event: &&&Value, time: &Value, key: &str| {
        let phase = event["data"][key].as_str().unwrap().strip_suffix("/processing");
        phase == time["phase"].as_str() && event["data"]["attempt"] == time["attempt"]
    };
    let moves = moves(events);
    for time in phases.as_array().unwrap() {
        let first =
            moves.iter().find(|event| is_at(event, time, "to")).unwrap_or_else(|| panic!("{way}: {time}"));
        let last =
            moves.iter().rfind(|event| is_at(event, time, "from")).unwrap_or_else(|| panic!("{way}: {time}"));
        assert_eq!((&time["started"], &time["finished"]), (&first["at"], &last["at"]), "{way}: {time}");
    }
    let timed = |event: &&&Value| phases.as_array().unwrap().iter().any(|time| is_at(event, time, "to"));
    let is_start = |event: &&&Value| event["data"]["event"] == "start";
    assert!(moves.iter().filter(is_start).all(|event| timed(&event)), "{way}: a start without a time");
}

/// Fails until `ready` is in the project.
const PICKY: &str = "run: test -e ready && echo ok > made\nstdin: \"{{prompt}}\"\n";

fn picky() -> TestUser {
    let person = TestUser::new();
    person.write(".cleveragents/actors/picky.yaml", PICKY);
    let said = person.json(&["run", "make it", "--actor", "picky"]);
    assert_eq!(said.data()["state"], "errored", "{said:?}");
    person.write("ready", "");
    person
}

fn does(person: &TestUser, args: &[&str], exit: i32) -> CommandOutput {
    let said = person.json(args);
    assert_eq!(said.exit, exit, "{args:?}: {said:?}");
    said
}

/// A program, once what it runs says this.
fn working(person: &TestUser, args: &[&str], says: &str) -> Child {
    let mut command = person.command(&person.project(), args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // On a line of its own: what is run stands above.
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains(&format!("\n{says}")) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended and did not wait");
    }
    child
}

/// Runs a command that works until `ready` is outside the project.
fn waiting(person: &TestUser) -> Child {
    let place = outside(person);
    let script = format!("echo at it; until test -e {}/ready; do :; done; echo ok > made", place.display());
    working(person, &["run", "--writable", place.to_str().unwrap(), "--", "sh", "-c", &script], "at it")
}

/// A way into phases: what is typed, and how often each phase is started by it.
struct Way {
    name: &'static str,
    goes: fn() -> TestUser,
    starts: &'static [(&'static str, usize)],
}

const WAYS: [Way; 9] = [
    Way {
        name: "run --apply",
        goes: run_applied,
        starts: &[("strategize", 1), ("execute", 1), ("apply", 1)],
    },
    Way {
        name: "use, execute, --again",
        goes: used,
        starts: &[("strategize", 1), ("execute", 2), ("apply", 1)],
    },
    Way { name: "resume", goes: resumed, starts: &[("strategize", 1), ("execute", 2)] },
    Way {
        name: "a word after a failure",
        goes: told_after_failure,
        starts: &[("strategize", 1), ("execute", 2)],
    },
    Way {
        name: "a yes, another strategy",
        goes: thought_again,
        starts: &[("strategize", 2), ("execute", 2)],
    },
    Way { name: "a word while it works", goes: told_at_work, starts: &[("strategize", 1), ("execute", 1)] },
    // A takeover is no event: the plan was processing all the time.
    Way { name: "a takeover", goes: taken_over, starts: &[("strategize", 1), ("execute", 1)] },
    Way { name: "a worker", goes: left_to_a_worker, starts: &[("strategize", 1), ("execute", 1)] },
    Way {
        name: "applied again",
        goes: applied_again,
        starts: &[("strategize", 1), ("execute", 1), ("apply", 2)],
    },
];

fn run_applied() -> TestUser {
    let person = TestUser::new();
    does(&person, &["run", "--apply", "--", "touch", "made"], 0);
    person
}

fn used() -> TestUser {
    let person = TestUser::new();
    does(&person, &["plan", "use", "--", "touch", "made"], 0);
    does(&person, &["plan", "execute", "@last"], 0);
    does(&person, &["plan", "execute", "@last", "--again"], 0);
    does(&person, &["plan", "apply", "@last", "--yes"], 0);
    person
}

fn resumed() -> TestUser {
    let person = picky();
    does(&person, &["plan", "resume", "@last"], 0);
    person
}

fn told_after_failure() -> TestUser {
    let person = picky();
    does(&person, &["plan", "prompt", "@last", "now"], 0);
    person
}

fn thought_again() -> TestUser {
    let person = person_who_thinks(0.9);
    does(&person, &["run", "make-it", "--automation", "manual"], 0);
    does(&person, &["plan", "execute", "@last"], 0);
    does(&person, &["plan", "prompt", "@last", "another way", "--replan"], 0);
    does(&person, &["plan", "execute", "@last"], 0);
    person
}

fn told_at_work() -> TestUser {
    let person = TestUser::new();
    let mut child = waiting(&person);
    does(&person, &["plan", "prompt", "@last", "be quick"], 0);
    fs::write(outside(&person).join("ready"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    person
}

fn taken_over() -> TestUser {
    let person = TestUser::new();
    let mut child = waiting(&person);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(outside(&person).join("ready"), "").unwrap();
    does(&person, &["plan", "resume", "@last"], 0);
    person
}

fn left_to_a_worker() -> TestUser {
    let mut office = WorkerFixture::new();
    let _worker = office.worker(&[]);
    let plan = office.left("touch made");
    office.call(&["plan", "watch", &plan]);
    std::mem::replace(&mut office.person, TestUser::new())
}

fn applied_again() -> TestUser {
    let person = TestUser::new();
    person.write("a", "one\n");
    person.plan("echo plan > a");
    person.write("a", "mine\n");
    does(&person, &["plan", "apply", "@last", "--yes"], 4);
    person.write("a", "one\n");
    does(&person, &["plan", "apply", "@last", "--yes"], 0);
    person
}

#[test]
fn every_way_into_a_phase_is_one_start_that_is_told_and_timed_once() {
    for Way { name, goes, starts } in WAYS {
        let found = retold(&goes(), name);
        let found: Vec<(&str, usize)> = found.iter().map(|(phase, times)| (phase.as_str(), *times)).collect();
        assert_eq!(found, starts, "{name}");
    }
}

fn decisions(person: &TestUser) -> Vec<Value> {
    let tree = person.json(&["plan", "tree", "@last", "--superseded"]);
    tree.data()["decisions"].as_array().unwrap_or_else(|| panic!("{tree:?}")).clone()
}

fn kinds(decisions: &[Value]) -> Vec<&str> {
    decisions.iter().map(|decision| decision["kind"].as_str().unwrap()).collect()
}

#[test]
fn a_strategist_that_is_killed_before_its_end_has_decided_nothing_and_then_all() {
    let person = TestUser::new();
    let five: Vec<Value> =
        (1..=5).map(|n| json!({"question": "Which?", "chosen": format!("{n}.")})).collect();
    let said = json!({"summary": "Five steps", "decisions": five});
    let thinker = format!(
        "run: |\n  echo '{said}' > \"$AGENTS_OUTPUT\"\n  echo thought\n  test -e ready || sleep 1000\nwrites: false\n"
    );
    person.write(".cleveragents/actors/thinker.yaml", &thinker);
    let action = "description: make it\nstrategist: thinker\nactor: {run: touch made}\n";
    person.write(".cleveragents/actions/make-it.yaml", action);
    let mut child = working(&person, &["run", "make-it"], "thought");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(kinds(&decisions(&person)), ["prompt"], "all five are one step, and it was not made");
    person.write("ready", "");
    does(&person, &["plan", "resume", "@last"], 0);
    let all = decisions(&person);
    assert_eq!(kinds(&all), [&["prompt", "strategy"][..], &["choice"; 5]].concat());
    let numbers: Vec<u64> = all.iter().map(|decision| decision["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn nothing_of_what_a_correction_sent_back_has_an_effect_and_the_fourth_is_refused() {
    let person = person_who_thinks(0.9);
    // Each attempt leaves a file of its own name.
    let action =
        "description: make the file\nstrategist: thinker\nactor: {run: [touch, \"made-{{attempt}}\"]}\n";
    person.write(".cleveragents/actions/make-it.yaml", action);
    does(&person, &["run", "make-it"], 0);
    for attempt in 2..=4 {
        let said = does(&person, &["plan", "prompt", "@last", "another way", "--replan"], 0);
        assert_eq!(
            (&said.data()["attempt"], &said.data()["reversions"]),
            (&json!(attempt), &json!(attempt - 1))
        );
        let files = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
        assert_eq!(files, format!("made-{attempt}\n"));
    }
    let (before, (events, _)) = (decisions(&person), told(&person, "@last"));
    for more in [&[][..], &["--dry-run"]] {
        let words = [&["plan", "prompt", "@last", "and another", "--replan"][..], more].concat();
        let said = person.json(&words);
        assert_eq!((said.exit, said.code()), (4, "REVERSIONS_SPENT".to_owned()), "{said:?}");
    }
    assert_eq!((decisions(&person), told(&person, "@last").0), (before, events), "nothing was written");
    does(&person, &["plan", "apply", "@last", "--yes"], 0);
    let mut made: Vec<PathBuf> =
        fs::read_dir(person.project()).unwrap().map(|entry| entry.unwrap().path()).collect();
    made.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("made"));
    assert_eq!(made, [person.project().join("made-4")]);
}

/// What became of a correction that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Corrected {
    Nothing,
    All,
}

/// Looks at a plan whose correction was killed: it was made whole, or it was not.
fn corrected(person: &TestUser) -> Corrected {
    let all = decisions(person);
    let status = person.json(&["plan", "status", "@last"]).data();
    let live: Vec<&str> = all
        .iter()
        .filter(|decision| decision["superseded_by"].is_null())
        .map(|decision| decision["kind"].as_str().unwrap())
        .collect();
    let counted = (status["attempt"].as_u64().unwrap(), status["reversions"].as_u64().unwrap());
    let (events, _) = told(person, "@last");
    let reverts = moves(&events).iter().filter(|event| event["data"]["event"] == "revert").count();
    match counted {
        (1, 0) => {
            assert_eq!((live, reverts), (vec!["prompt", "strategy", "choice"], 0), "{all:?}");
            assert_eq!((&status["phase"], &status["state"]), (&json!("execute"), &json!("complete")));
            Corrected::Nothing
        }
        (2, 1) => {
            assert_eq!((&live[..3], reverts), (&["prompt", "reversion", "guidance"][..], 1), "{all:?}");
            assert!(all[1..3].iter().all(|decision| decision["superseded_by"] == json!(4)), "{all:?}");
            Corrected::All
        }
        counted => panic!("half of it: {counted:?} {all:?}"),
    }
}

#[test]
fn a_correction_that_is_killed_is_made_whole_or_not_at_all() {
    let person = person_who_thinks(0.9);
    // How long it is watched before it is killed: between what was too short and what was enough, ever closer.
    let (mut short, mut enough) = (0_u64, 1_u64);
    let mut seen = Vec::new();
    for _ in 0..16 {
        does(&person, &["run", "make-it"], 0);
        let looks = if seen.contains(&Corrected::All) { u64::midpoint(short, enough) } else { enough };
        let args = ["plan", "prompt", "@last", "another way", "--replan"];
        let mut command = person.command(&person.project(), &args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..looks {
            // A look at the process takes about as long as a step of its own.
            let _ = fs::read(format!("/proc/{}/stat", child.id()));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let became = corrected(&person);
        match became {
            Corrected::All => enough = looks,
            Corrected::Nothing if seen.contains(&Corrected::All) => short = looks,
            Corrected::Nothing => (short, enough) = (looks, enough * 8),
        }
        seen.push(became);
        // Either way it goes on by what anybody would type next.
        let next = person.json(&["plan", "status", "@last"]).data()["next"].clone();
        match became {
            Corrected::Nothing => {
                assert!(next[1]["command"].as_str().unwrap().contains("plan apply"), "{next}")
            }
            Corrected::All => {
                let said = person.json(&["plan", "resume", "@last"]);
                let said = if said.exit == 0 { said } else { person.json(&["plan", "execute", "@last"]) };
                assert!(said.exit == 0 || said.code() == "PLAN_COMPLETE", "{said:?}");
                let files = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
                assert_eq!(files, "made\n", "the second attempt is done");
            }
        }
    }
    assert!(seen.contains(&Corrected::All) && seen.contains(&Corrected::Nothing), "{seen:?}");
}

/// A directory outside the project that commands may write.
fn outside(person: &TestUser) -> PathBuf {
    let dir = person.home().join("outside");
    fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn nodes_that_fail_at_once_and_the_one_that_ends_the_plan_are_all_recorded() {
    let person = TestUser::new();
    let place = outside(&person);
    let place = place.to_str().unwrap();
    let meets = |name: &str, other: &str, exit: u8| {
        format!(
            "  {name}: {{run: \"touch {place}/{name}; until test -e {place}/{other}; do :; done; exit {exit}\", writes: false}}\n"
        )
    };
    // Both are handled, so that neither stops the other.
    let nodes = meets("a", "b", 3)
        + &meets("b", "a", 4)
        + "  a-told: {needs: [a], on: failure, run: \"true\"}\n  b-told: {needs: [b], on: failure, run: \"true\"}\n"
        + "  last: {needs: [a-told, b-told], run: exit 5}\n";
    person.write(".cleveragents/actors/team.yaml", &format!("nodes:\n{nodes}"));
    let said = person.json(&["run", "--trust", "--actor", "team", "--writable", place, "a task"]);
    assert_eq!(said.exit, 1, "{said:?}");
    let data = person.json(&["plan", "errors", "@last"]).data();
    let records = data["records"].as_array().unwrap();
    let mut exits: Vec<&str> = records
        .iter()
        .map(|record| record["message"].as_str().unwrap().rsplit(' ').next().unwrap())
        .collect();
    assert_eq!(exits.last(), Some(&"5"), "the one that ended it is the last: {data}");
    exits.sort_unstable();
    assert_eq!((exits, &data["recorded"]), (vec!["3", "4", "5"], &json!(3)), "{data}");
}

/// A world whose server answers by what it is asked, with settings that are added to its own.
fn answered(server: Scripted, nodes: &str, settings: &str) -> ModelFixture {
    let world = ModelFixture { person: TestUser::new(), server };
    world.settings(Wire::Openai, &world.server.url);
    let file = world.person.config_file();
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, before.replace("idle = \"1s\"\n", "idle = \"60s\"\nanswer_tokens = 256\n") + settings)
        .unwrap();
    let dir = world.person.home().join(".config/cleveragents/actors");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("mender.yaml"), nodes).unwrap();
    world
}

#[test]
fn nodes_that_settle_at_once_are_all_stored_and_their_join_runs_once() {
    const NODES: usize = 8;
    let barrier = Arc::new(Barrier::new(NODES));
    let server =
        Scripted::answering(move |number, _| Wire::Openai.script(number, &says("ok")).together(&barrier));
    let names: Vec<String> = (1..=NODES).map(|n| format!("n{n}")).collect();
    let asks: String = names
        .iter()
        .map(|name| format!("  {name}: {{model: scripted/m-1, prompt: Go., tools: []}}\n"))
        .collect();
    let heard: String = names.iter().map(|name| format!("{{{{nodes.{name}.text}}}} ")).collect();
    let join =
        format!("  join: {{needs: [{}], run: [tee, joined.txt], stdin: \"{heard}\"}}\n", names.join(", "));
    let world =
        answered(server, &format!("nodes:\n{asks}{join}"), &format!("[limits]\nparallel = {NODES}\n"));
    for round in 1..=3 {
        let said = world.run(&[]);
        assert_eq!(said.exit, 0, "round {round}: {said:?}");
        assert_eq!(said.data()["steps"].as_array().unwrap().len(), NODES + 1);
        assert_eq!(world.used("tokens")["used"], json!(110 * NODES), "the usage of each");
        let (events, _) = told(&world.person, "@last");
        let ends = |name: &str| {
            let is_end = |event: &&Value| event["kind"] == "node.finished" && event["data"]["path"] == name;
            events.iter().filter(is_end).count()
        };
        assert!(names.iter().all(|name| ends(name) == 1), "round {round}");
        let begun =
            events.iter().filter(|event| event["kind"] == "node.started" && event["data"]["path"] == "join");
        assert_eq!((begun.count(), ends("join")), (1, 1), "round {round}");
        let diff = world.person.agents(&["plan", "diff", "@last"]).stdout;
        assert!(diff.contains(&format!("+{}\n", "ok ".repeat(NODES))), "{diff}");
    }
}

#[test]
fn twenty_nodes_that_share_a_limit_never_overrun_it_and_go_on_with_more() {
    const NODES: usize = 20;
    const LIMIT: u64 = 2_000;
    let server = Scripted::answering(|number, _| Wire::Openai.script(number, &says("ok")));
    let nodes: String =
        (1..=NODES).map(|n| format!("  n{n}: {{model: scripted/m-1, prompt: Go., tools: []}}\n")).collect();
    let world = answered(server, &format!("nodes:\n{nodes}"), &format!("[limits]\nparallel = {NODES}\n"));
    let said = world.run(&["--limit", &format!("tokens={LIMIT}")]);
    // Each takes 110 when it is done, so not all of them fit.
    assert_eq!((said.exit, said.code()), (6, "LIMIT_REACHED".to_owned()), "{said:?}");
    let account = world.used("tokens");
    assert_eq!((&account["reserved"], &account["assumed"]), (&json!(0), &json!(0)), "{account}");
    assert_eq!(account["max"], LIMIT);
    assert!(account["used"].as_u64().unwrap() <= LIMIT, "{account}");
    let done = |data: &Value| {
        let steps = data["steps"].as_array().unwrap();
        steps.iter().filter(|step| step["outcome"] == "succeeded").count()
    };
    let status = world.person.json(&["plan", "status"]).data();
    assert!(done(&status) < NODES, "{status}");
    let mut command = world.person.command(
        &world.person.project(),
        &["plan", "resume", "@last", "--limit", "tokens=none", "--format", "json"],
    );
    let said = super::support::answer(command.env("SCRIPTED_KEY", KEY));
    assert_eq!((said.exit, done(&said.data())), (0, NODES), "{said:?}");
    assert_eq!(world.used("tokens")["reserved"], 0);
}

#[test]
fn arguments_arrive_as_they_are_or_are_refused() {
    let person = TestUser::new();
    let action = |run: &str| {
        let text = format!("description: say it\nargs: {{word: {{}}}}\nactor: {{run: {run}}}\n");
        person.write(".cleveragents/actions/say.yaml", &text);
    };
    let shell = r#"'printf "%s\n" "$ARG_WORD" > said'"#;
    let argv = r#"[sh, -c, 'printf "%s\n" "$1" > said', sh, --, "{{word}}"]"#;
    for (run, is_shifted) in [(shell, false), (argv, true)] {
        let run = if is_shifted { run.replace("\"$1\"", "\"$2\"") } else { run.to_owned() };
        action(&run);
        for word in ["$(touch x)", "`touch x`", "; touch x", "a\" b' c", "{{prompt}}", "-rf", "--help", "* ?"]
        {
            does(&person, &["run", "say", "--arg", &format!("word={word}")], 0);
            let diff = person.agents(&["plan", "diff", "@last"]).stdout;
            assert!(diff.contains(&format!("\n+{word}\n")), "{run} {word}: {diff}");
            assert_eq!(
                person.agents(&["plan", "diff", "@last", "--name-only"]).stdout,
                "said\n",
                "{run} {word}"
            );
        }
    }
    action("[touch, \"{{word}}\"]");
    let said = person.json(&["run", "say", "--arg", "word=--reference=/etc/passwd"]);
    assert_eq!((said.exit, said.code()), (2, "ARG_INVALID".to_owned()), "{said:?}");
    action("\"echo {{word}} > said\"");
    let said = person.json(&["run", "say", "--arg", "word=a"]);
    assert_eq!((said.exit, said.code()), (2, "TEMPLATE_IN_SHELL".to_owned()), "{said:?}");
}
