//! The built-in tools through the runner, on real files in real sandboxes.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use actors::tool::{
    CallInfo, Catalog, Halt, ReadPolicy, ToolAnswer, ToolError, ToolHost, ToolOutcome, ToolProject,
    ToolRequest, ToolRunner, ToolSpec, ToolUse,
};
use async_trait::async_trait;
use domain::{Base, Hash, Redactor, RootIndex, is_text};
use engine::tools::{ReadTools, WriteTools, read, recorded_arguments, write};
use sandbox::content::{ContentSink, StoredContent};
use sandbox::{CaptureRules, OpenRequest, RootSpec, Sandbox, SandboxStrategy, StrategyChoice};
use serde_json::{Value, json};

#[derive(Default)]
struct Contents(Mutex<HashMap<Hash, Vec<u8>>>);

impl ContentSink for Contents {
    fn store(&self, bytes: &mut dyn Read) -> io::Result<StoredContent> {
        let mut all = Vec::new();
        bytes.read_to_end(&mut all)?;
        let (hash, size) = (Hash::from_content(&all), all.len() as u64);
        let text = is_text(&all, size);
        self.0.lock().unwrap().insert(hash, all);
        Ok(StoredContent { hash, size, text })
    }
}

/// A project in a sandbox, and what was kept of the calls.
struct Bench {
    _dir: tempfile::TempDir,
    project: PathBuf,
    projects: Vec<ToolProject>,
    sandbox: Mutex<Sandbox>,
    contents: Contents,
    redactor: Redactor,
    kept: Mutex<Vec<(String, Value, Option<&'static str>)>>,
    reads_only: bool,
}

impl Bench {
    fn new(rung: SandboxStrategy, files: &[(&str, &str)]) -> Arc<Bench> {
        Self::with(rung, files, false)
    }

    fn with(rung: SandboxStrategy, files: &[(&str, &str)], reads_only: bool) -> Arc<Bench> {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let project = base.join("project");
        fs::create_dir(&project).unwrap();
        for (path, text) in files {
            let path = project.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = RootSpec { no: RootIndex(0), path: project.clone(), read_only: false };
        let request = OpenRequest {
            dir: base.join("sandboxes/plan-1"),
            roots: vec![root],
            choice: StrategyChoice::Only(rung),
            include: Vec::new(),
        };
        let sandbox = Mutex::new(sandbox::open(request).unwrap());
        let projects =
            vec![ToolProject { alias: "project".to_owned(), root: project.clone(), read_only: false }];
        let redactor = Redactor::new([7; 32], Vec::new()).unwrap();
        Arc::new(Bench {
            _dir: dir,
            project,
            projects,
            sandbox,
            contents: Contents::default(),
            redactor,
            kept: Mutex::default(),
            reads_only,
        })
    }

    fn node(self: &Arc<Self>) -> ToolRunner<Here> {
        ToolRunner::new(Here(Arc::clone(self)), Catalog::builtin(), ReadPolicy::Strict)
    }

    fn text(&self, path: &str) -> Option<String> {
        let sandbox = self.sandbox.lock().unwrap();
        let root = sandbox.root(RootIndex(0)).unwrap();
        let path = domain::RelPath::new(path).unwrap();
        let read = sandbox::read_file(root, &path, u64::MAX).ok();
        read.map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn set_mode(&self, path: &str, mode: u32) {
        let sandbox = self.sandbox.lock().unwrap();
        let (root, mode) = (sandbox.root(RootIndex(0)).unwrap(), rustix::fs::Mode::from_raw_mode(mode));
        rustix::fs::chmodat(root, path, mode, rustix::fs::AtFlags::empty()).unwrap();
    }

    fn mode(&self, path: &str) -> u32 {
        let sandbox = self.sandbox.lock().unwrap();
        let root = sandbox.root(RootIndex(0)).unwrap();
        rustix::fs::statat(root, path, rustix::fs::AtFlags::empty()).unwrap().st_mode & 0o7777
    }

    /// What a scan finds: path, operation, base.
    fn changes(&self) -> Vec<(String, String, Base)> {
        let captured = self.sandbox.lock().unwrap().scan(&self.contents, &CaptureRules::default()).unwrap();
        let shown = |change: &sandbox::CapturedChange| {
            (change.draft.path().to_string(), format!("{:?}", change.draft.op()), change.base)
        };
        captured.drafts.iter().map(shown).collect()
    }
}

struct Here(Arc<Bench>);

#[async_trait]
impl ToolHost for Here {
    type Stopped = ();

    fn projects(&self) -> &[ToolProject] {
        &self.0.projects
    }

    fn forbids(&self, tool: &ToolSpec) -> Option<String> {
        (self.0.reads_only && tool.writes).then(|| "files are only read".to_owned())
    }

    async fn refused(&self, call: CallInfo, why: &ToolError) -> Result<(), ()> {
        self.keep(&call, Some(why));
        Ok(())
    }

    async fn perform(&self, call: CallInfo, work: ToolRequest) -> Result<ToolOutcome, ()> {
        let bench = &self.0;
        let mut sandbox = bench.sandbox.lock().unwrap();
        let done = read(
            &ReadTools {
                root: sandbox.root(RootIndex(0)).unwrap(),
                project: &bench.project,
                redactor: &bench.redactor,
                hidden: &sandbox::HiddenInProject::default(),
                is_over: &|| false,
            },
            &work,
        );
        let rules = CaptureRules::default();
        let with = WriteTools {
            sandbox: &mut sandbox,
            sink: &bench.contents,
            rules: &rules,
            redactor: &bench.redactor,
        };
        let done = done.or_else(|| write(&mut { with }, &work)).unwrap();
        drop(sandbox);
        self.keep(&call, done.as_ref().err());
        let tool = call.tool.unwrap();
        Ok(match done {
            Ok(done) => {
                tool.check_output(&done.result).unwrap();
                ToolOutcome {
                    outcome: Ok(done.result),
                    changed: u32::from(tool.spec.writes),
                    seen: done.seen,
                }
            }
            Err(why) => ToolOutcome { outcome: Err(why), changed: 0, seen: Vec::new() },
        })
    }
}

impl Here {
    fn keep(&self, call: &CallInfo, why: Option<&ToolError>) {
        let effective = recorded_arguments(Some(&self.0.redactor), &call.effective);
        self.0.kept.lock().unwrap().push((call.name.clone(), effective, why.map(ToolError::code)));
    }
}

fn called(name: &str, arguments: Value) -> ToolUse {
    ToolUse { id: "1".to_owned(), name: name.to_owned(), arguments }
}

fn try_call(node: &mut ToolRunner<Here>, name: &str, arguments: Value) -> Result<ToolAnswer, Halt<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(node.call(&called(name, arguments)))
}

/// The result of a call that has one.
fn call(node: &mut ToolRunner<Here>, name: &str, arguments: Value) -> Value {
    let answer = try_call(node, name, arguments).unwrap();
    assert!(!answer.is_error, "{}", answer.text);
    answer.result
}

/// What a call that has none is told.
fn wrong(node: &mut ToolRunner<Here>, name: &str, arguments: Value) -> String {
    let answer = try_call(node, name, arguments).unwrap();
    assert!(answer.is_error, "{}", answer.text);
    answer.text
}

fn code(told: &str) -> &str {
    told.split(':').next().unwrap()
}

const RUNGS: [SandboxStrategy; 2] = [SandboxStrategy::Overlay, SandboxStrategy::Copy];

#[test]
fn a_file_is_read_by_lines_and_says_how_many_there_are() {
    let bench = Bench::new(SandboxStrategy::Copy, &[("a.txt", "one\ntwo\nthree\n"), ("b.bin", "a\0b")]);
    let node = &mut bench.node();
    let hash = Hash::from_content(b"one\ntwo\nthree\n").to_string();
    assert_eq!(
        call(node, "read_file", json!({ "path": "a.txt" })),
        json!({ "content": "one\ntwo\nthree\n", "hash": hash, "first_line": 1, "total_lines": 3, "truncated": false })
    );
    let part = call(node, "read_file", json!({ "path": "./a.txt", "offset": 2, "limit": 1 }));
    assert_eq!((&part["content"], &part["truncated"]), (&json!("two\n"), &json!(true)));
    assert_eq!(code(&wrong(node, "read_file", json!({ "path": "b.bin" }))), "NOT_TEXT");
    assert_eq!(code(&wrong(node, "read_file", json!({ "path": "none" }))), "NOT_FOUND");
    assert_eq!(code(&wrong(node, "read_file", json!({ "path": "." }))), "IN_THE_WAY");
}

#[test]
fn a_directory_is_listed_without_what_git_ignores_unless_asked() {
    let files = [(".gitignore", "dist\n"), ("dist/x", ""), ("src/a/b.rs", "x"), ("top", "xy")];
    let bench = Bench::new(SandboxStrategy::Copy, &files);
    fs::create_dir(bench.project.join(".git")).unwrap();
    let node = &mut bench.node();
    let paths = |listed: &Value| -> Vec<String> {
        listed["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["path"].as_str().unwrap().to_owned())
            .collect()
    };
    let top = call(node, "list_directory", json!({}));
    assert_eq!(paths(&top), [".gitignore", "src", "top"]);
    assert_eq!(top["entries"][2], json!({ "path": "top", "kind": "file", "size": 2 }));
    let deep = call(node, "list_directory", json!({ "depth": 8, "ignored": true }));
    assert_eq!(paths(&deep), [".gitignore", "dist", "dist/x", "src", "src/a", "src/a/b.rs", "top"]);
    assert_eq!(paths(&call(node, "list_directory", json!({ "path": "src" }))), ["src/a"]);
}

#[test]
fn a_search_finds_lines_by_expression_glob_and_bound_and_never_a_secret() {
    let secret = "token = \"abcdefgh1234\"\n";
    let files = [
        ("a.rs", "fn a()\nfn b()\nend\n"),
        ("d/c.rs", "fn c()\n"),
        ("n.txt", "fn d()\n"),
        ("s.toml", secret),
    ];
    let bench = Bench::new(SandboxStrategy::Copy, &files);
    let node = &mut bench.node();
    let lines = |found: &Value| -> Vec<(String, u64)> {
        let matches = found["matches"].as_array().unwrap().iter();
        matches
            .map(|line| (line["path"].as_str().unwrap().to_owned(), line["line"].as_u64().unwrap()))
            .collect()
    };
    let found = call(node, "search_files", json!({ "pattern": r"fn \w+", "glob": "*.rs" }));
    assert_eq!(lines(&found), [("a.rs".into(), 1), ("a.rs".into(), 2), ("d/c.rs".into(), 1)]);
    assert_eq!(found["matches"][2]["text"], "fn c()");
    let bound = call(node, "search_files", json!({ "pattern": "fn", "max": 1 }));
    assert_eq!((lines(&bound).len(), &bound["truncated"]), (1, &json!(true)));
    let around = call(node, "search_files", json!({ "pattern": "fn b", "context": 1, "path": "a.rs" }));
    assert_eq!(lines(&around), [("a.rs".into(), 1), ("a.rs".into(), 2), ("a.rs".into(), 3)]);
    let probe = call(node, "search_files", json!({ "pattern": "abcdefgh" }));
    assert_eq!(lines(&probe), []);
    let told = wrong(node, "search_files", json!({ "pattern": "(" }));
    assert!(told.starts_with("INVALID_ARGUMENTS") && told.contains("`pattern`"), "{told}");
}

#[test]
fn a_file_is_written_only_by_who_has_read_it_as_it_is() {
    for rung in RUNGS {
        let bench = Bench::new(rung, &[("a.txt", "v1\n")]);
        let (first, second) = (&mut bench.node(), &mut bench.node());
        let write = |text: &str| json!({ "path": "a.txt", "content": text });
        assert_eq!(code(&wrong(first, "write_file", write("x"))), "UNREAD_FILE");
        for node in [&mut *first, &mut *second] {
            call(node, "read_file", json!({ "path": "a.txt" }));
        }
        let written = call(first, "write_file", write("v2\n"));
        assert_eq!(
            written,
            json!({ "created": false, "hash": Hash::from_content(b"v2\n").to_string(), "bytes": 3 })
        );
        assert_eq!(code(&wrong(second, "write_file", write("v3\n"))), "STALE_FILE");
        let edit = json!({ "path": "a.txt", "old": "v2", "new": "v3" });
        assert_eq!(code(&wrong(second, "edit_file", edit.clone())), "STALE_FILE");
        assert_eq!(bench.text("a.txt").unwrap(), "v2\n");
        call(first, "edit_file", edit);
        let new = json!({ "path": "deep/er/new.txt", "content": "n" });
        assert_eq!(call(second, "write_file", new)["created"], true);
        let made = ["deep", "deep/er", "deep/er/new.txt"].map(|at| (at, "Create"));
        let expected = [[("a.txt", "Modify")].as_slice(), &made].concat();
        let expected: Vec<_> =
            expected.into_iter().map(|(at, op)| (at.into(), op.into(), Base::Known)).collect();
        assert_eq!(bench.changes(), expected, "{rung}");
        assert_eq!(
            fs::read_to_string(bench.project.join("a.txt")).unwrap(),
            "v1\n",
            "the user's file is untouched"
        );
    }
}

#[test]
fn an_edit_wants_its_text_exactly_once() {
    let bench = Bench::new(SandboxStrategy::Copy, &[("a.txt", "x y x\n")]);
    let node = &mut bench.node();
    let edit = |old: &str, all: bool| json!({ "path": "a.txt", "old": old, "new": "z", "replace_all": all });
    assert_eq!(code(&wrong(node, "edit_file", edit("y", false))), "UNREAD_FILE");
    call(node, "read_file", json!({ "path": "a.txt" }));
    assert_eq!(code(&wrong(node, "edit_file", edit("q", false))), "NO_MATCH");
    let told = wrong(node, "edit_file", edit("x", false));
    assert!(told.starts_with("NOT_UNIQUE") && told.contains("2 times"), "{told}");
    let done = call(node, "edit_file", edit("x", true));
    assert_eq!((&done["replacements"], bench.text("a.txt").unwrap().as_str()), (&json!(2), "z y z\n"));
    assert!(done["diff"].as_str().unwrap().contains("-x y x\n+z y z\n"), "{done}");
    assert_eq!(code(&wrong(node, "edit_file", json!({ "path": "no", "old": "a", "new": "b" }))), "NOT_FOUND");
}

#[test]
fn a_changed_file_keeps_its_line_ends_its_last_newline_and_its_mode() {
    for rung in RUNGS {
        let bench = Bench::new(rung, &[("a.bat", "echo one\r\necho two\r\n"), ("b.txt", "one\ntwo")]);
        for name in ["a.bat", "b.txt"] {
            bench.set_mode(name, 0o750);
        }
        let node = &mut bench.node();
        let shown = try_call(node, "read_file", json!({ "path": "a.bat" })).unwrap().text;
        assert!(shown.starts_with("     1\techo one\n     2\techo two\n(its lines end with CRLF"), "{shown}");
        let edit = json!({ "path": "a.bat", "old": "echo one\necho two\n", "new": "echo 1\necho 2\necho 3" });
        let done = call(node, "edit_file", edit);
        assert_eq!(done["matched"], "line ends");
        assert_eq!(bench.text("a.bat").unwrap(), "echo 1\r\necho 2\r\necho 3\r\n");
        call(node, "write_file", json!({ "path": "a.bat", "content": "echo all\n" }));
        assert_eq!(bench.text("a.bat").unwrap(), "echo all\r\n");
        call(node, "read_file", json!({ "path": "b.txt" }));
        call(node, "edit_file", json!({ "path": "b.txt", "old": "two\n", "new": "2\n3\n" }));
        assert_eq!(bench.text("b.txt").unwrap(), "one\n2\n3");
        for name in ["a.bat", "b.txt"] {
            assert_eq!(bench.mode(name), 0o750, "{name}");
        }
    }
}

#[test]
fn files_and_directories_are_removed_and_moved_and_told_by_the_next_scan() {
    for rung in RUNGS {
        let bench =
            Bench::new(rung, &[("d/a", "a"), ("d/e/b", "bb"), ("x", "x"), ("y", "y"), ("z/.git/c", "c")]);
        let node = &mut bench.node();
        assert_eq!(code(&wrong(node, "delete_file", json!({ "path": "d" }))), "IN_THE_WAY");
        assert_eq!(
            code(&wrong(node, "delete_file", json!({ "path": "z", "recursive": true }))),
            "PROTECTED_PATH"
        );
        assert_eq!(code(&wrong(node, "move_file", json!({ "from": "x", "to": "y" }))), "IN_THE_WAY");
        assert_eq!(code(&wrong(node, "move_file", json!({ "from": "none", "to": "n" }))), "NOT_FOUND");
        assert_eq!(
            code(&wrong(node, "write_file", json!({ "path": ".git/x", "content": "" }))),
            "PROTECTED_PATH"
        );
        assert_eq!(call(node, "move_file", json!({ "from": "d", "to": "new/d" })), json!({ "count": 2 }));
        assert_eq!(
            call(node, "move_file", json!({ "from": "x", "to": "y", "overwrite": true })),
            json!({ "count": 1 })
        );
        assert_eq!(bench.text("new/d/e/b").as_deref(), Some("bb"));
        assert_eq!(bench.text("y").as_deref(), Some("x"));
        let changed: Vec<String> =
            bench.changes().into_iter().map(|(at, op, base)| format!("{at} {op} {base:?}")).collect();
        assert!(changed.iter().all(|line| line.ends_with("Known")), "{rung}: {changed:?}");
        assert!(
            changed.contains(&"new/d/a Rename { from: RelPath(d/a) } Known".to_owned()),
            "{rung}: {changed:?}"
        );
        assert_eq!(
            call(node, "delete_file", json!({ "path": "new", "recursive": true })),
            json!({ "count": 2 })
        );
        let gone: Vec<String> = bench.changes().into_iter().map(|(at, op, _)| format!("{at} {op}")).collect();
        assert!(gone.contains(&"new/d/a Delete".to_owned()), "{rung}: {gone:?}");
    }
}

#[test]
fn no_path_leads_out_of_the_project() {
    let bench = Bench::new(SandboxStrategy::Copy, &[("in.txt", "inside\n"), ("d/x", "")]);
    {
        let node = &mut bench.node();
        // Links are made in the sandbox itself: a copy has no links that lead out.
        let sandbox = bench.sandbox.lock().unwrap();
        let root = sandbox.root(RootIndex(0)).unwrap();
        rustix::fs::symlinkat("/etc/passwd", root, "out").unwrap();
        rustix::fs::symlinkat("../../..", root, "up").unwrap();
        rustix::fs::symlinkat("in.txt", root, "near").unwrap();
        drop(sandbox);
        for path in ["out", "up/x", "../x", "/etc/passwd", "d/../../x"] {
            assert_eq!(code(&wrong(node, "read_file", json!({ "path": path }))), "PATH_ESCAPES", "{path}");
            let write = json!({ "path": path, "content": "" });
            let told = wrong(node, "write_file", write);
            assert!(["PATH_ESCAPES", "IN_THE_WAY"].contains(&code(&told)), "{path}: {told}");
        }
        assert_eq!(code(&wrong(node, "list_directory", json!({ "path": "up" }))), "IN_THE_WAY");
        assert_eq!(code(&wrong(node, "list_directory", json!({ "path": "up/x" }))), "PATH_ESCAPES");
        assert_eq!(call(node, "read_file", json!({ "path": "near" }))["content"], "inside\n");
        let absolute = bench.project.join("in.txt");
        assert_eq!(call(node, "read_file", json!({ "path": absolute }))["content"], "inside\n");
    }
}

#[test]
fn a_secret_is_shown_as_a_mark_and_written_back_as_itself() {
    let bench = Bench::new(SandboxStrategy::Copy, &[("app.toml", "port = 80\ntoken = \"abcdefgh1234\"\n")]);
    let node = &mut bench.node();
    let read = call(node, "read_file", json!({ "path": "app.toml" }));
    let shown = read["content"].as_str().unwrap();
    assert!(!shown.contains("abcdefgh") && shown.contains("[REDACTED:"), "{shown}");
    let content = shown.replace("80", "81");
    call(node, "write_file", json!({ "path": "app.toml", "content": content }));
    assert_eq!(bench.text("app.toml").unwrap(), "port = 81\ntoken = \"abcdefgh1234\"\n");
    let made_up = json!({ "path": "new.toml", "content": "token = \"[REDACTED:value:01234567]\"\n" });
    assert_eq!(code(&wrong(node, "write_file", made_up)), "REDACTED_CONTENT");
    let secret = json!({ "path": "k.env", "content": "API_KEY=abcdefgh5678\n" });
    call(node, "write_file", secret);
    let kept = bench.kept.lock().unwrap();
    let kept =
        serde_json::to_string(&kept.iter().map(|(_, arguments, _)| arguments).collect::<Vec<_>>()).unwrap();
    assert!(!kept.contains("abcdefgh"), "{kept}");
}

#[test]
fn what_is_wrong_with_a_call_is_told_and_kept() {
    let bench = Bench::new(SandboxStrategy::Copy, &[]);
    let node = &mut bench.node();
    let told = wrong(node, "reed_file", json!({}));
    assert!(told.contains("did you mean `read_file`?"), "{told}");
    let told = wrong(node, "read_file", json!({ "paht": "a", "offset": 0 }));
    for part in ["`path` is missing", "did you mean `path`?", "`offset`", "minimum of 1"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = wrong(node, "write_file", Value::String("{\"path\": ".to_owned()));
    assert!(told.contains("not valid JSON") && told.contains("EOF"), "{told}");
    let long = json!({ "path": "a", "content": "x".repeat(10 << 20) });
    let told = wrong(node, "write_file", long);
    assert!(told.contains("`content`") && told.len() < 1000, "{told}");
    let kept: Vec<_> =
        bench.kept.lock().unwrap().iter().map(|(name, _, why)| (name.clone(), why.unwrap())).collect();
    let invalid = |name: &str| (name.to_owned(), "INVALID_ARGUMENTS");
    assert_eq!(
        kept,
        [
            ("reed_file".to_owned(), "UNKNOWN_TOOL"),
            invalid("read_file"),
            invalid("write_file"),
            invalid("write_file")
        ]
    );
    assert_eq!(bench.changes(), []);
}

#[test]
fn who_may_only_read_cannot_write() {
    let bench = Bench::with(SandboxStrategy::Copy, &[("a", "x")], true);
    let node = &mut bench.node();
    assert_eq!(call(node, "read_file", json!({ "path": "a" }))["content"], "x");
    let writes: [(&str, Value); 5] = [
        ("write_file", json!({ "path": "a", "content": "" })),
        ("edit_file", json!({ "path": "a", "old": "x", "new": "" })),
        ("delete_file", json!({ "path": "a" })),
        ("move_file", json!({ "from": "a", "to": "b" })),
        ("run_command", json!({ "command": "true" })),
    ];
    for (name, arguments) in writes {
        assert_eq!(code(&wrong(node, name, arguments)), "NOT_ALLOWED", "{name}");
    }
    assert_eq!(bench.changes(), []);
}

#[test]
fn a_call_is_kept_with_its_arguments_as_they_were_used() {
    let bench = Bench::new(SandboxStrategy::Copy, &[("a", "x")]);
    let node = &mut bench.node();
    call(node, "read_file", json!({ "path": "./a" }));
    let kept = bench.kept.lock().unwrap();
    assert_eq!(kept[0].1, json!({ "path": "a", "offset": 1, "limit": 2000 }));
}

#[test]
fn a_call_that_goes_round_in_a_circle_is_told_so_and_then_ended() {
    let bench = Bench::new(SandboxStrategy::Copy, &[("a", "x")]);
    let node = &mut bench.node();
    let read = || json!({ "path": "a" });
    for _ in 0..2 {
        call(node, "read_file", read());
    }
    for times in [3, 4] {
        let told = wrong(node, "read_file", read());
        assert!(told.starts_with("REPEATED_CALL") && told.contains(&format!("{times}. time")), "{told}");
    }
    let ended = try_call(node, "read_file", read());
    assert_eq!(ended, Err(Halt::Loop { tool: "read_file".to_owned(), times: 5 }));
}
