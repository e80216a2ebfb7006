//! Definitions as people write them: every fault is told, all at once, with its place and what was meant.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use definitions::{
    ConfiguredNames, DEFINITION_BYTES_MAX, DefinitionError, DefinitionOrigin, Kind, Library, action_schema,
    actor_schema, is_name,
};
use serde_json::Value;
use tempfile::TempDir;

/// A project and a user, with definitions of their own.
pub(super) struct ProjectDir {
    dir: TempDir,
}

impl ProjectDir {
    pub(super) fn new() -> ProjectDir {
        ProjectDir { dir: TempDir::new().unwrap() }
    }

    pub(super) fn library(&self) -> Library {
        Library::new(&[self.dir.path().join("project")], Some(self.dir.path().join("user")))
    }

    /// Writes a file: `actions/a` of the project, `user/actors/b` of the user.
    pub(super) fn write(&self, path: &str, text: &str) -> PathBuf {
        let below = match path.strip_prefix("user/") {
            Some(rest) => format!("user/{rest}.yaml"),
            None => format!("project/.cleveragents/{path}.yaml"),
        };
        let file = self.dir.path().join(below);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }
}

/// The problems of a text, each finding as `line:column: message`.
fn faults(kind: Kind, text: &str) -> Vec<String> {
    let place = ProjectDir::new();
    let (path, library) = (place.write(&format!("{}s/a", kind.as_str()), text), place.library());
    let error = match kind {
        Kind::Action => library.action("a").map(drop),
        Kind::Actor => library.actor("a").map(drop),
    };
    match error {
        Ok(()) => Vec::new(),
        Err(DefinitionError::Invalid(findings)) => {
            let prefix = format!("{}:", path.display());
            let texts = findings.iter().map(ToString::to_string);
            texts.map(|text| text.strip_prefix(&prefix).unwrap_or(&text).trim_start().to_owned()).collect()
        }
        Err(other) => panic!("{other}"),
    }
}

/// Exactly one fault, at this place, with these words.
fn one(kind: Kind, text: &str, at: &str, words: &str) {
    let faults = faults(kind, text);
    assert!(
        matches!(&faults[..], [only] if only.starts_with(&format!("{at}: ")) && only.contains(words)),
        "{text}\nwanted {at} {words}\nfound {faults:#?}"
    );
}

#[test]
fn the_smallest_action_and_actor_are_small() {
    assert_eq!(faults(Kind::Action, "description: Do it\n"), [] as [&str; 0]);
    assert_eq!(faults(Kind::Actor, "run: make\n"), [] as [&str; 0]);
    let whole = "description: Fix it\nactor: codex\nvalidations: [cargo test]\n";
    assert_eq!(faults(Kind::Action, whole), [] as [&str; 0]);
}

#[test]
fn all_faults_of_a_file_are_told_at_once_in_its_order() {
    let text = "descripton: Do it\nprompt: 7\nargs:\n  from: {type: text, patern: a}\nread_only: maybe\n";
    let faults = faults(Kind::Action, text);
    let places: Vec<&str> = faults.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["1:1", "1:1", "2:9", "4:16", "4:22", "5:12"], "{faults:#?}");
    for (fault, words) in faults.iter().zip([
        "no key `descripton`; did you mean `description`?",
        "needs a `description`",
        "`prompt` takes a text, this is a number: put it in quotes",
        "`type` cannot be `text`: it is one of string, integer, number, boolean, list",
        "no key `patern`; did you mean `pattern`?",
        "`read_only` takes true or false, this is a text",
    ]) {
        assert!(fault.contains(words), "{fault}");
    }
}

#[test]
fn what_is_no_yaml_says_where() {
    one(Kind::Action, "description: a\nargs:\n\tfrom: {}\n", "3:1", "a tab cannot indent a line in YAML");
    one(Kind::Action, "description: [a\n", "1:14", "not valid YAML");
    one(
        Kind::Action,
        "description: a\nprompt: b\ndescription: c\n",
        "3:1",
        "the key `description` is given twice",
    );
    one(Kind::Action, "- a\n", "1:1", "an action is a map of keys, this is a list");
    assert!(!faults(Kind::Action, "").is_empty(), "an empty file is no action");
    assert!(!faults(Kind::Action, "description: a\n---\ndescription: b\n").is_empty(), "nor are two in one");
    assert!(!faults(Kind::Action, "a: &x {description: a}\n<<: *x\n").is_empty(), "nothing is merged");
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n";
    assert!(!faults(Kind::Action, bomb).is_empty());
}

#[test]
fn faults_of_an_action_are_told_with_what_is_allowed() {
    let with = |rest: &str| format!("description: a\n{rest}\n");
    for (rest, at, words) in [
        ("args: {Bad: {}}", "2:8", "not a valid name for an argument"),
        ("args: {prompt: {}}", "2:8", "cannot be named `prompt`"),
        ("args: {a-b: {}, a_b: {}}", "2:17", "would both be $ARG_A_B"),
        ("args: {a: {default: 7}}", "2:11", "`default` cannot be `7`: it has to be a string"),
        ("args: {a: {pattern: '('}}", "2:11", "not a regular expression"),
        ("args: {a: {choices: x}}", "2:21", "takes a list"),
        ("prompt: Use {{form}}", "2:13", "there is no value `form`"),
        ("args: {from: }\nprompt: Use {{form}}", "3:13", "did you mean `from`?"),
        ("prompt: Use {{prompt}}", "2:13", "only the arguments are known"),
        ("prompt: 'Use {{from'", "2:14", "not closed"),
        ("validations: make", "2:14", "takes a list"),
        ("validations: [{name: a}]", "2:15", "needs `run`"),
        ("validations: [{run: make, mode: strict}]", "2:33", "required, informational"),
        ("validations: [{run: make, timeout: soon}]", "2:36", "a duration from 1s to 1d"),
        ("validations: ['echo {{a}}']", "2:21", "cannot have placeholders"),
        ("validations: [{run: [echo, '{{a}}']}]", "2:29", "there is no value `a`"),
        ("invariants: [{never: ['a[']}]", "2:14", "is not a glob"),
        ("invariants: [{never: [a], only: [b]}]", "2:14", "one rule"),
        ("invariants: [{}]", "2:14", "is a sentence, or has one of"),
        ("invariants: [{max_files: -1}]", "2:26", "whole number"),
        ("automation: yolo", "2:13", "manual, review, auto"),
        ("limits: {cost: free}", "2:16", "takes a number"),
        ("limits: {parallel: 33}", "2:20", "from 1 to 32"),
        ("actor: Not A Name", "2:8", "not a valid name for an actor"),
        ("strategist: [a]", "2:13", "an actor is a map of keys"),
    ] {
        let text = with(rest);
        let faults = faults(Kind::Action, &text);
        let is_told =
            faults.iter().any(|fault| fault.starts_with(&format!("{at}: ")) && fault.contains(words));
        assert!(is_told, "{text}wanted {at} {words}\nfound {faults:#?}");
    }
    one(Kind::Action, "prompt: a\n", "1:1", "needs a `description`");
    one(Kind::Action, &format!("description: {}\n", "x".repeat(201)), "1:14", "1 to 200 characters");
    one(Kind::Action, "description: |\n  a\n  b\n", "2:3", "one line");
}

#[test]
fn faults_of_an_actor_are_told_with_what_is_allowed() {
    for (text, at, words) in [
        ("nodes: {}", "1:8", "an actor needs at least one node"),
        ("description: a", "1:1", "has `nodes`, or is one node"),
        ("nodes: {a: {}}", "1:12", "node `a` does nothing"),
        ("nodes: {a: {run: x, tool: read}}", "1:12", "both `tool` and `run`"),
        ("nodes: {'a b': {run: x}}", "1:9", "`a b` is not a valid name for a node"),
        ("nodes: {a: {run: x, colour: red}}", "1:21", "no key `colour`"),
        ("nodes: {a: {run: x, nedes: [a]}}", "1:21", "did you mean `needs`?"),
        ("nodes: {a: {run: x, needs: [c]}}", "1:29", "needs `c`, which is not a node"),
        ("nodes: {a: {run: x, needs: [b]}, b: {run: x, needs: [a]}}", "1:9", "in a circle: a → b → a"),
        ("nodes: {a: {run: x, needs: a}}", "1:28", "takes a list of texts"),
        ("nodes: {a: {run: x, on: fail}}", "1:25", "success, failure, always"),
        ("nodes: {a: {run: x, retries: 101}}", "1:30", "from 0 to 100"),
        ("nodes: {a: {run: x, timeout: 25h}}", "1:30", "from 1s to 1d"),
        ("nodes: {a: {run: x, repeat: {until: 'true'}}}", "1:29", "a loop needs a bound"),
        ("nodes: {a: {run: x, repeat: {until: 'true', max: 21}}}", "1:50", "from 1 to 20"),
        ("nodes: {a: {run: x, if: 'a ='}}", "1:25", "at character 3"),
        ("nodes: {a: {run: x}, b: {run: x, if: nodes.a.exit_code == 0}}", "1:38", "name it in `needs`"),
        ("nodes: {a: {run: 'echo {{task}}'}}", "1:24", "cannot have placeholders"),
        ("nodes: {a: {run: [echo, 5]}}", "1:25", "put it in quotes"),
        ("nodes: {a: {run: []}}", "1:18", "names no program"),
        ("nodes: {a: {run: x, cwd: ../up}}", "1:26", "a directory of the project"),
        ("nodes: {a: {run: x, writable: [here]}}", "1:32", "absolute paths"),
        ("nodes: {a: {run: x, env: {A: 1}}}", "1:30", "put it in quotes"),
        ("nodes: {a: {run: [x, '{{promt}}']}}", "1:23", "did you mean `prompt`?"),
        ("nodes: {a: {model: gpt}}", "1:20", "write PROVIDER/NAME"),
        ("nodes: {a: {model: default, tools: [raed]}}", "1:37", "did you mean `read`?"),
        ("nodes: {a: {model: default, output: {ok: bool}}}", "1:42", "did you mean `boolean`?"),
        ("nodes: {a: {model: default, context: {token: 1}}}", "1:39", "did you mean `tokens`?"),
        ("nodes: {a: {tool: reed_file}}", "1:19", "did you mean `read_file`?"),
        (
            "nodes: {a: {tool: write_file, with: {path: 3}}}",
            "1:37",
            "the arguments of write_file are not valid: `path`: it is not",
        ),
        ("nodes: {a: {tool: write_file, with: {path: b}}}", "1:37", "`content` is missing"),
        (
            "nodes: {a: {tool: read_file, with: {path: b, limit: '{{plan_id}}'}}}",
            "1:36",
            "`limit`: it is not of type",
        ),
        ("nodes: {a: {tool: read_file, with: {pat: b}}}", "1:36", "did you mean `path`?"),
        ("nodes: {a: {tool: read}}", "1:19", "read needs `with: { path: … }`"),
        ("nodes: {a: {tool: wait, with: {seconds: x}}}", "1:19", "takes a whole number"),
        ("nodes: {a: {tool: edit, with: {path: b, old: '', new: c}}}", "1:19", "an `old` that is not empty"),
        ("nodes: {a: {tool: read, with: {path: b, test: c}}}", "1:19", "has no argument `test`"),
        ("nodes: {a: {external: agent}}", "1:23", "takes a list"),
        ("nodes: {a: {external: [agent], stdin: x}}", "1:39", "use `prompt`"),
        ("nodes: {a: {external: [agent], ok_exit: [1]}}", "1:41", "`ok_exit` is for `run`"),
        ("nodes: {a: {run: [lint], ok_exit: [256]}}", "1:36", "255"),
        (
            "nodes: {a: {actor: other, repeat: {until: 'true', max: 2}}}",
            "1:27",
            "is an actor, which cannot have `repeat`: put it on the node of that actor",
        ),
        ("nodes: {a: {run: x}}\nfix: b", "2:6", "`fix` names `b`, which is not a node"),
        ("nodes: {a: {run: x}}\nresult: b", "2:9", "`result` names `b`"),
        ("nodes: {a: {actor: other}}\nfix: b/x", "2:6", "`fix` names `b`, which is not a node"),
        ("run: make\nnods: {}", "2:1", "did you mean `nodes`?"),
        ("rnu: make", "1:1", "did you mean `run`?"),
        ("nodes: {a: {model: default, output: {ok: int}}}", "1:42", "did you mean `integer`?"),
    ] {
        let faults = faults(Kind::Actor, text);
        let is_told =
            faults.iter().any(|fault| fault.starts_with(&format!("{at}: ")) && fault.contains(words));
        assert!(is_told, "{text}\nwanted {at} {words}\nfound {faults:#?}");
    }
}

#[test]
fn a_fault_within_a_text_is_told_where_it_stands() {
    let actor = "nodes:\n  a: {run: make}\n  b:\n    needs: [a]\n    model: default\n    prompt: |\n      One {{task}}\n\n      \\{{ and {{nodes.fist.text}}\n      äö {{nodes.a.txt}} {{promt}}\n    \
                 system: \"quoted \\x41 {{nodes.b.text}}\"\n    if: |\n      nodes.a.exit_code =\n  c:\n    tool: write_file\n    with:\n      path: x\n      \
                 content: >\n        folded\n        {{nodes.a.json.x}} {{tsk}}\n  d: {run: [echo, '{{task}}', 'x {{tsk}}'], env: {A: 'é {{tsk}}'}, repeat: {until: nodes.d.tx, max: 2}}\n";
    let faults = faults(Kind::Actor, actor);
    let places: Vec<&str> = faults.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    assert_eq!(
        places,
        ["9:15", "10:10", "10:26", "11:26", "13:7", "20:9", "20:28", "21:34", "21:57", "21:84"],
        "{faults:#?}"
    );
    let aliased = "nodes:\n  a: {model: default, prompt: &p 'x {{tsk}}'}\n  b: {model: default, prompt: *p, system: '{{task}}'}\n";
    let faults = self::faults(Kind::Actor, aliased);
    assert!(
        matches!(&faults[..], [a, b] if a.starts_with("2:37: ") && b.starts_with("3:31: ")),
        "{faults:#?}"
    );
}

#[test]
fn one_fault_hides_no_other() {
    let circle = "nodes:\n  a: {run: x, needs: [b], if: 'a ='}\n  b: {run: x, needs: [a], env: {A: '{{nodes.c.text}}'}}\n  c: {rnu: x}\n";
    let faults = faults(Kind::Actor, circle);
    for words in ["in a circle", "at character 3", "node `c` is not settled by then", "did you mean `run`?"] {
        assert!(faults.iter().any(|fault| fault.contains(words)), "{words}: {faults:#?}");
    }
    assert!(!faults.iter().any(|fault| fault.contains("which is not a node")), "{faults:#?}");

    let place = ProjectDir::new();
    place.write(
        "actors/a",
        "nodes:\n  m: {model: nobody/x, tools: [raed, bux.look]}\n  n: {actor: codx}\n  t: {tool: box.look}\n  d: {model: default}\n",
    );
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    let configured = ConfiguredNames { servers: words(&["box"]), providers: words(&["openai"]) };
    let told = |library: Library| match library.actor("a") {
        Err(DefinitionError::Invalid(findings)) => findings
            .iter()
            .map(|one| format!("{}:{}: {}", one.at.line, one.at.column, one.message))
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        told(place.library().knowing(configured)),
        [
            "2:14: `nobody/x`: there is no provider `nobody` ([providers.nobody]); there are openai",
            "2:32: there is no tool `raed`; did you mean `read`?",
            "2:38: `bux.look`: your settings define no server `bux` ([mcp.bux]); did you mean `box`?",
            "3:14: there is no actor `codx`; did you mean `codex`?",
        ]
    );
    assert_eq!(told(place.library()).len(), 2, "what nobody has looked for is not told");
}

#[test]
fn a_list_tells_of_actors_that_cannot_be_put_together() {
    let place = ProjectDir::new();
    place.write("actors/ping", "actor: pong\n");
    place.write("actors/pong", "actor: ping\n");
    place.write("actors/lost", "actor: nobody\n");
    place.write("actions/act", "description: Act\nactor: ping\n");
    let told = |kind: Kind, name: &str| {
        let listed = place.library().list(kind).unwrap();
        let line = listed.into_iter().find(|line| line.name == name).unwrap();
        line.findings.first().map(|finding| finding.message.clone()).unwrap_or_default()
    };
    assert_eq!(told(Kind::Actor, "ping"), "actors contain each other: ping → pong → ping");
    assert_eq!(told(Kind::Actor, "pong"), "actors contain each other: pong → ping → pong");
    assert_eq!(told(Kind::Actor, "lost"), "there is no actor `nobody`");
    assert_eq!(told(Kind::Action, "act"), "actors contain each other: ping → pong → ping");
}

#[test]
fn a_definition_is_bounded_before_it_is_read() {
    let place = ProjectDir::new();
    let most = usize::try_from(DEFINITION_BYTES_MAX).unwrap();
    let text = |bytes: usize| format!("description: a\n#{}", "x".repeat(bytes - 16));
    place.write("actions/fits", &text(most));
    place.write("actions/large", &text(most + 1));
    assert!(place.library().action("fits").is_ok());
    let error = place.library().action("large").unwrap_err().to_string();
    assert!(error.contains("at most 262144 bytes"), "{error}");
    let file = place.write("actions/bytes", "");
    fs::write(&file, b"description: \xff\n").unwrap();
    assert!(place.library().action("bytes").unwrap_err().to_string().contains("UTF-8"));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(place.library().action("bytes").unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn the_projects_definition_hides_the_users_and_only_the_users_hides_the_built_in() {
    let place = ProjectDir::new();
    let origin = |name: &str| place.library().actor(name).map(|actor| actor.origin).ok();
    assert_eq!(origin("codex"), Some(DefinitionOrigin::BuiltIn));
    place.write("actors/codex", "run: project\n");
    assert_eq!(
        (origin("codex"), origin("project:codex")),
        (Some(DefinitionOrigin::BuiltIn), Some(DefinitionOrigin::Project))
    );
    place.write("user/actors/codex", "run: user\n");
    assert_eq!(
        (origin("codex"), origin("project:codex")),
        (Some(DefinitionOrigin::User), Some(DefinitionOrigin::Project))
    );
    place.write("actors/own", "run: project\nbad: 1\n");
    place.write("user/actors/own", "run: user\n");
    let listed = place.library().list(Kind::Actor).unwrap();
    let told = |name: &str| -> Vec<_> {
        let lines = listed.iter().filter(|line| line.name == name);
        lines.map(|line| (line.origin, line.hidden_by, line.findings.len())).collect()
    };
    assert_eq!(
        told("codex"),
        [(DefinitionOrigin::User, None, 0), (DefinitionOrigin::BuiltIn, Some(DefinitionOrigin::User), 0)]
    );
    assert_eq!(told("project:codex"), [(DefinitionOrigin::Project, None, 0)]);
    assert_eq!(
        told("own"),
        [(DefinitionOrigin::Project, None, 1), (DefinitionOrigin::User, Some(DefinitionOrigin::Project), 0)],
        "one that is not sound still hides: nobody else is taken in its place"
    );
    assert_eq!((origin("own"), origin("project:own"), origin("project:none")), (None, None, None));
}

#[test]
fn a_name_that_nothing_has_says_what_was_meant() {
    let place = ProjectDir::new();
    place.write("actions/fix-tests", "description: a\n");
    let said = |name: &str| place.library().action(name).unwrap_err().to_string();
    assert_eq!(said("fix-test"), "there is no action `fix-test`; did you mean `fix-tests`?");
    assert_eq!(said("../fix-tests"), "there is no action `../fix-tests`; did you mean `fix-tests`?");
    for (name, is) in [
        ("a", true),
        ("fix-tests_2", true),
        ("", false),
        ("2a", false),
        ("a--b", false),
        ("a-", false),
        ("A", false),
        ("a.b", false),
    ] {
        assert_eq!(is_name(name), is, "{name}");
    }
    assert!(!is_name(&"a".repeat(65)) && is_name(&"a".repeat(64)));
}

#[test]
fn the_built_in_actors_are_sound() {
    let listed = Library::default().list(Kind::Actor).unwrap();
    let names: Vec<&str> = listed.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["aider", "claude", "coder", "codex", "gemini", "goose", "strategist"]);
    for line in &listed {
        assert!(line.findings.is_empty() && !line.description.is_empty(), "{line:?}");
    }
}

/// The properties of a schema, wherever they stand.
fn properties(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get("properties") {
                found.extend(properties.keys().cloned());
            }
            fields.values().for_each(|field| properties(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| properties(item, found)),
        _ => {}
    }
}

#[test]
fn an_editor_offers_exactly_the_keys_that_are_read() {
    let action = action_schema();
    for key in action["properties"].as_object().unwrap().keys() {
        let faults = faults(Kind::Action, &format!("{key}: {{x: 1}}\n"));
        assert!(faults.iter().all(|fault| !fault.contains("an action has no key")), "{key}: {faults:?}");
    }
    let kinds = actor_schema()["$defs"]["node"]["oneOf"].as_array().unwrap().clone();
    assert_eq!(kinds.len(), 5);
    for kind in kinds {
        let own = kind["required"][0].as_str().unwrap().to_owned();
        for key in kind["properties"].as_object().unwrap().keys().filter(|key| **key != own) {
            let faults = faults(Kind::Actor, &format!("nodes:\n  a:\n    {own}: x\n    {key}: {{y: 1}}\n"));
            assert!(
                faults.iter().all(|fault| !fault.contains("a node has no key")),
                "{own} {key}: {faults:?}"
            );
        }
    }
    let mut all = Vec::new();
    properties(&action, &mut all);
    for key in
        ["definition_of_done", "max_lines", "until", "pass_env", "tool_calls", "choices", "informational"]
    {
        assert_eq!(all.contains(&key.to_owned()), key != "informational", "{key}");
    }
}

/// Ends whoever goes on until it is over, also when the test fails.
struct StopFlag<'a>(&'a AtomicBool);

impl Drop for StopFlag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_file_that_is_edited_while_it_is_read_is_what_was_hashed() {
    let place = ProjectDir::new();
    let texts = [
        "description: one\nprompt: short\n".to_owned(),
        format!("description: two\nprompt: {}\n", "long ".repeat(5_000)),
    ];
    let path = place.write("actions/a", &texts[0]);
    let library = place.library();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // In place, so that who reads sees halves too.
            while !is_over.load(Ordering::Relaxed) {
                texts.iter().for_each(|text| fs::write(&path, text).unwrap());
            }
        });
        let _over = StopFlag(&is_over);
        let mut seen = BTreeSet::new();
        let mut reads = 0;
        while reads < 2_000 || seen.len() < 2 {
            reads += 1;
            // A half is no action, or one that says less: whatever it is, it is what was hashed.
            let Ok(loaded) = library.action("a") else { continue };
            assert_eq!(loaded.digest, domain::Hash::from_content(loaded.text.as_bytes()).to_string());
            let description = &loaded.definition.description;
            assert!(loaded.text.starts_with(&format!("description: {description}")), "{}", loaded.text);
            seen.insert(loaded.digest);
        }
    });
}
