//! The contents of an assembled context.

use std::sync::Arc;

use context::Error;
use domain::context::{
    Budget, ContextRequest, DecisionFact, Depth, ExclusionReason, FileLocation, Focus, FragmentKind,
    PlanFacts, PriorFragment, StrategyOutcome,
};
use domain::{Hash, PlanId, RootIndex};

use crate::ground::{FIRST, Files, Ground, commit, files, path, project, request, sample_files};

fn focus(name: &str) -> Focus {
    Focus::Path(FIRST, path(name))
}

fn paths(context: &domain::context::AssembledContext) -> Vec<String> {
    context.receipt.included.iter().map(|line| line.place.to_string()).collect()
}

#[test]
fn a_context_is_this_text() {
    let context = Ground::sample().assemble(&request("rescued jobs ignore their retry limit", 400));
    let golden = include_str!("golden/rescue_400.txt");
    assert_eq!(context.text, golden, "--- got ---\n{}", context.text);
}

#[test]
fn a_small_budget_names_files_and_shows_what_it_can() {
    let context = Ground::sample().assemble(&request("rescued jobs ignore their retry limit", 90));
    let golden = include_str!("golden/rescue_90.txt");
    assert_eq!(context.text, golden, "--- got ---\n{}", context.text);
}

#[test]
fn as_long_as_something_is_left_out_the_tokens_are_spent() {
    let function = |number: usize| format!("pub fn retry_{number}() {{\n\n    limit();\n\n}}\n\n");
    let text: String = (0..40).map(function).collect();
    let all: Files =
        (0..20).map(|number| (path(&format!("src/job_{number}.rs")), text.clone().into_bytes())).collect();
    // Equal contents would be shown once.
    let all: Files = all
        .into_iter()
        .map(|(path, text)| (path.clone(), [text, path.as_bytes().to_vec()].concat()))
        .collect();
    for tokens in [1000, 3000, 9000] {
        let context = Ground::files(&all).assemble(&request("retry limit of jobs", tokens));
        let budget = &context.receipt.budget;
        assert!(budget.free * 50 <= tokens, "{} of {tokens} are free", budget.free);
        assert!(context.text.contains("retry_1"), "{}", context.text);
    }
}

#[test]
fn a_test_stands_after_what_it_tests_unless_tests_are_asked_for() {
    // Alike but for a word, so of two that count the same the first by path comes first.
    let text = |word: &str| format!("pub fn rescue_jobs(queue: &mut Queue) {{\n    queue.{word}();\n}}\n");
    let (code, test) = (text("drain"), text("empty"));
    let ground = Ground::files(&files(&[("tests/rescue.rs", &test), ("work/rescue.rs", &code)]));
    let first = |query: &str| paths(&ground.assemble(&request(query, 400)))[0].clone();
    assert_eq!(first("why are jobs of a queue rescued"), "work/rescue.rs");
    assert_eq!(first("which tests rescue jobs of a queue"), "tests/rescue.rs");
}

#[test]
fn a_file_of_which_nothing_is_shown_is_named_by_its_path_alone() {
    let context = Ground::sample().assemble(&request("rescued jobs ignore their retry limit", 90));
    let listed: Vec<&str> = context.text.lines().filter(|line| line.starts_with("## ")).skip(1).collect();
    assert!(listed.contains(&"## src/queue.rs"), "{listed:?}");
}

#[test]
fn without_a_query_there_is_a_map_of_the_project() {
    let ground = Ground::sample();
    let context = ground.assemble(&request("", 300));
    assert!(context.text.contains("## src/queue.rs (rust,"), "{}", context.text);
    let navigator = &context.receipt.strategies[0];
    assert_eq!(
        (navigator.name.as_str(), &navigator.outcome),
        ("breadth-depth-navigator", &StrategyOutcome::Ok)
    );
    assert_eq!(navigator.confidence, 0.5);
}

#[test]
fn files_whose_words_nobody_said_are_shown_all_the_same() {
    let context = Ground::sample().assemble(&request("zzyzx quux", 300));
    assert!(context.text.contains("## src/"), "{}", context.text);
    assert_eq!(context.receipt.notes, ["no file holds a word of the query"]);
}

#[test]
fn no_files_and_only_binaries_give_an_empty_text_and_a_note() {
    let mut binaries = Files::new();
    binaries.insert(path("logo.png"), b"\x89PNG\0\0".to_vec());
    for (all, note) in [
        (Files::new(), "there are no files that may be seen"),
        (binaries, "there are no files that can be read as text"),
    ] {
        let context = Ground::files(&all).assemble(&request("logo", 1000));
        assert_eq!((context.text.as_str(), context.tokens), ("", 0));
        assert_eq!(context.receipt.notes, [note]);
    }
}

#[test]
fn what_is_named_for_sure_is_in_at_any_budget_that_bears_its_header() {
    let ground = Ground::sample();
    let header = ground.parts.counter.tokens("## tools/report.py (python, 5 lines)\n");
    for tokens in [header, header + 1, 60, 400, 4000] {
        let about =
            ContextRequest { focus: vec![focus("tools/report.py")], ..request("retry limit", tokens) };
        let context = ground.assemble(&about);
        assert!(
            context.text.contains("## tools/report.py (python, 5 lines)\n"),
            "{tokens}: {}",
            context.text
        );
    }
    let too_little = ContextRequest { focus: vec![focus("tools/report.py")], ..request("retry", header - 1) };
    let context = ground.assemble(&too_little);
    assert!(!context.text.contains("report.py"), "{}", context.text);
    let left = context.receipt.excluded.iter().find(|line| line.place.path == path("tools/report.py"));
    assert_eq!(left.map(|line| line.reason), Some(ExclusionReason::Budget));
}

#[test]
fn lines_and_symbols_that_are_named_are_shown_in_full() {
    let ground = Ground::sample();
    for about in
        [Focus::Lines(FIRST, path("src/queue.rs"), 22, 23), Focus::Symbol("JobQueue::put_back".to_owned())]
    {
        let context = ground.assemble(&ContextRequest { focus: vec![about], ..request("report", 160) });
        assert!(context.text.contains("        if limit.allows(job.attempts) {\n"), "{}", context.text);
    }
}

#[test]
fn lines_that_are_named_are_shown_however_little_their_bytes_cost() {
    let wide = format!("{}x\n", " ".repeat(60)).repeat(30);
    let ground = Ground::files(&files(&[("wide.txt", &wide)]));
    let focus = vec![Focus::Lines(FIRST, path("wide.txt"), 1, 30)];
    let context = ground.assemble(&ContextRequest { focus, ..request("", 110) });
    assert!(context.text.contains(&wide), "{}", context.text);
}

#[test]
fn a_file_that_is_named_whole_is_shown_before_others_as_far_as_there_are_tokens() {
    let body: String = (1..=30).map(|line| format!("    total += price_of(order.lines[{line}])\n")).collect();
    let named = format!("def invoice(order):\n{body}");
    let small = |number: u32| format!("def retry_limit_{number}(job):\n    return job.limit - {number}\n");
    let mut all = files(&[("named.py", &named)]);
    all.extend((0..8).map(|number| (path(&format!("small{number}.py")), small(number).into_bytes())));
    let ground = Ground::files(&all);
    let shown = |tokens: u32| {
        let focus = vec![focus("named.py")];
        let context = ground.assemble(&ContextRequest { focus, ..request("retry limit of job", tokens) });
        let lines = context.text.lines().filter(|line| line.contains("order.lines[")).count();
        let notes = context.receipt.notes.iter().filter(|note| note.contains("too few tokens"));
        let told = notes.clone().all(|note| note.ends_with(" of the 31 lines of named.py"));
        assert_eq!((notes.count(), told), (usize::from(lines < 30), true), "{:?}", context.receipt.notes);
        lines
    };
    assert!(shown(200) > 0);
    assert!(shown(400) > shown(200));
    assert_eq!((shown(900), shown(1024), shown(4000)), (30, 30, 30));
}

#[test]
fn a_part_that_is_mostly_blanks_is_bought_though_it_has_many_bytes() {
    let function = |number: u32| {
        let body = format!("{}x\n", " ".repeat(70)).repeat(12);
        format!("def retry_{number}(job):\n{body}")
    };
    let text: String = (0..12).map(function).collect();
    let context = Ground::files(&files(&[("w.py", &text)])).assemble(&request("retry job", 500));
    let free = context.receipt.budget.free;
    assert!(free < 50, "{free} of 500 tokens are free: {}", context.text);
}

#[test]
fn lines_that_are_named_are_shown_where_what_is_round_them_does_not_fit() {
    let body: String = (2..=70).map(|line| format!("    total += price_of(order.lines[{line}])\n")).collect();
    let long = format!("def process_order(order):\n{body}");
    let prose: String = (1..=150).map(|line| format!("{line} {}\n", "words and words ".repeat(15))).collect();
    let ground = Ground::files(&files(&[("job.py", &long), ("notes.txt", &prose), ("other.py", "x = 1\n")]));
    let about = |name: &str, from: u32, to: u32, tokens: u32| {
        let focus = vec![Focus::Lines(FIRST, path(name), from, to)];
        ground.assemble(&ContextRequest { focus, ..request("process order", tokens) })
    };
    let code = about("job.py", 40, 41, 300);
    assert!(
        code.text.contains("order.lines[40])\n    total += price_of(order.lines[41])\n"),
        "{}",
        code.text
    );
    assert!(
        code.text.contains("def process_order(order)"),
        "what is round them is worth most: {}",
        code.text
    );
    let lines = |text: &str, from: u32, to: u32| {
        (from..=to).all(|line| text.lines().any(|shown| shown.starts_with(&format!("{line} words"))))
    };
    let text = about("notes.txt", 10, 12, 900);
    assert!(lines(&text.text, 10, 12), "{}", text.text);
    assert_eq!((code.receipt.notes, text.receipt.notes), (Vec::<String>::new(), Vec::new()));
    // As many as there is room for; of the others it is told.
    let few = about("notes.txt", 10, 30, 900);
    assert!(lines(&few.text, 10, 12) && !lines(&few.text, 10, 30), "{}", few.text);
    let [note] = &few.receipt.notes[..] else { panic!("{:?}", few.receipt.notes) };
    assert!(
        note.starts_with("there are too few tokens for lines ") && note.ends_with("-30 of notes.txt"),
        "{note}"
    );
}

#[test]
fn the_best_of_a_text_is_shown_where_all_of_it_does_not_fit() {
    let line = |number: usize| match number {
        70 => "the login session cookie fails behind a proxy that strips it\n".to_owned(),
        _ => format!("{number} {}\n", "nothing of the kind, ".repeat(12)),
    };
    let notes: String = (1..=120).map(line).collect();
    let ground = Ground::files(&files(&[("notes.txt", &notes), ("main.py", "def start():\n    pass\n")]));
    let context = ground.assemble(&request("login session cookie fails proxy", 500));
    assert!(context.text.contains("the login session cookie fails behind a proxy"), "{}", context.text);
}

#[test]
fn what_cannot_be_named_for_sure_is_an_error() {
    let many: Vec<(String, String)> =
        (0..21).map(|at| (format!("m{at}.rs"), "pub fn everywhere() {}\n".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let mut all = sample_files();
    all.extend(files(&many));
    let mut ground = Ground::files(&all);
    ground.parts.config.views.default.exclude = vec!["tools".to_owned()];
    let error = |focus: Focus| {
        ground
            .try_assemble(&ContextRequest { focus: vec![focus], ..request("x", 100) })
            .expect_err("an error")
    };
    let not_found = |focus: Focus| assert_eq!(error(focus.clone()), Error::FocusNotFound { focus });
    not_found(focus("src/none.rs"));
    not_found(Focus::Symbol("Nothing".to_owned()));
    let excluded = focus("tools/report.py");
    assert_eq!(error(excluded.clone()), Error::FocusExcluded { focus: excluded });
    let hidden = Focus::Symbol("report".to_owned());
    assert_eq!(error(hidden.clone()), Error::FocusExcluded { focus: hidden });
    let ambiguous = Error::FocusAmbiguous { symbol: "everywhere".to_owned(), places: 21 };
    assert_eq!(error(Focus::Symbol("everywhere".to_owned())), ambiguous);
    assert_eq!(error(Focus::Path(RootIndex(3), path("src/lib.rs"))), Error::ProjectUnknown(RootIndex(3)));
    let too_many = ContextRequest { focus: vec![focus("src/lib.rs"); 65], ..request("x", 100) };
    assert_eq!(ground.try_assemble(&too_many), Err(Error::FocusTooMany { count: 65 }));
}

#[test]
fn lines_beyond_the_end_are_told_with_how_many_there_are() {
    let ground = Ground::files(&files(&[("m.py", "a = 1\nb = 2\n"), ("one.py", "a = 1\n")]));
    for (name, lines, told) in
        [("m.py", 2, "`m.py` has only 2 lines"), ("one.py", 1, "`one.py` has only 1 line")]
    {
        let about = Focus::Lines(FIRST, path(name), 900, 950);
        let error = ground.try_assemble(&ContextRequest { focus: vec![about.clone()], ..request("x", 100) });
        let beyond = Error::FocusBeyond { focus: about, path: path(name), lines };
        assert_eq!(beyond.to_string(), told);
        assert_eq!(error.expect_err("there are no such lines"), beyond);
    }
}

#[test]
fn what_is_named_for_sure_is_shown_although_no_person_wrote_it() {
    let lock = "[[package]]\nname = \"retry\"\n";
    let made = "// generated, do not edit\npub fn made() {}\n";
    let ground = Ground::files(&files(&[
        ("Cargo.lock", lock),
        ("made.rs", made),
        ("src/lib.rs", "pub fn retry() {}\n"),
    ]));
    for (name, line) in [("Cargo.lock", "name = \"retry\""), ("made.rs", "pub fn made() {}")] {
        for about in [focus(name), Focus::Lines(FIRST, path(name), 2, 2)] {
            let context = ground.assemble(&ContextRequest { focus: vec![about], ..request("retry", 400) });
            assert!(context.text.contains(line), "{name}: {}", context.text);
            assert_eq!(context.receipt.notes, Vec::<String>::new());
        }
        let unnamed = ground.assemble(&request("retry made", 400));
        assert!(!unnamed.text.contains(line), "{}", unnamed.text);
    }
}

#[test]
fn what_is_named_for_sure_and_withheld_is_told_with_the_reason() {
    let mut all = files(&[("src/lib.rs", "pub fn retry() {}\n"), (".env", "KEY=1\n")]);
    all.insert(path("blob.bin"), b"\0\0\0".to_vec());
    let ground = Ground::files(&all);
    for (name, reason) in [("blob.bin", "binary"), (".env", "secret")] {
        let about = ContextRequest { focus: vec![focus(name)], ..request("retry", 400) };
        assert_eq!(ground.assemble(&about).receipt.notes, [format!("`{name}` is not shown: {reason}")]);
    }
}

#[test]
fn lines_that_were_given_of_another_file_of_this_path_are_not_taken_for_shown() {
    let text: String = (0..60).map(|at| format!("retry limit {at} of the process order\n")).collect();
    let ground = Ground::files(&files(&[("notes.txt", &text)]));
    let about = vec![Focus::Lines(FIRST, path("notes.txt"), 1, 60)];
    let asked = ContextRequest { focus: about, ..request("process order", 200) };
    let notes = ground.assemble(&asked).receipt.notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    let other = |project: RootIndex, hash: Hash| PriorFragment {
        place: FileLocation { span: Some((1, 60)), ..FileLocation::file(project, path("notes.txt")) },
        depth: Depth::Full,
        hash,
    };
    for shown in [
        other(FIRST, Hash::from_content(b"before")),
        other(RootIndex(7), Hash::from_content(text.as_bytes())),
    ] {
        let again = ContextRequest { shown: vec![shown], ..asked.clone() };
        assert_eq!(ground.assemble(&again).receipt.notes, notes);
    }
}

#[test]
fn an_ignored_file_that_is_named_joins() {
    let ground = Ground::sample();
    let ignored = path("build/out.txt");
    ground.memory[0].0.lock().expect("unlocked").insert(ignored.clone(), b"built\n".to_vec());
    let about = ContextRequest { focus: vec![Focus::Path(FIRST, ignored)], ..request("report", 300) };
    assert!(ground.assemble(&about).text.contains("## build/out.txt (text, 1 line)\n"));
}

#[test]
fn what_belongs_to_no_project_or_is_not_there_cannot_be_named() {
    let ground = Ground::sample();
    for name in [".git/config", "vendor/.git/config", ".jj/repo", ".cleveragents/config.toml"] {
        ground.memory[0].0.lock().expect("unlocked").insert(path(name), b"token = 1\n".to_vec());
    }
    let names = [".git/config", "vendor/.git/config", ".jj/repo", ".cleveragents/config.toml", "none/.env"];
    for name in names {
        let about = ContextRequest { focus: vec![focus(name)], ..request("token", 300) };
        let not_found = Error::FocusNotFound { focus: focus(name) };
        assert_eq!(ground.try_assemble(&about).map(drop), Err(not_found), "{name}");
    }
}

#[test]
fn a_secret_in_a_name_is_shown_at_no_depth() {
    let key = format!("ghp_{}", "a1B2".repeat(9));
    let text =
        format!("# Guide\n\nHow to sign.\n\n## Sign with {key}\n\nA sign.\n\n## Sign again\n\nMore.\n");
    let yaml = format!("sign: 1\n{key}: 2\nother: 3\n");
    let ground = Ground::files(&files(&[("guide.md", &text), ("sign.yaml", &yaml)]));
    for depth in Depth::ALL {
        for tokens in [40, 80, 400, 4000] {
            let about = ContextRequest { depth, ..request("sign", tokens) };
            let context = ground.assemble(&about);
            assert!(!context.text.contains(&key), "{depth} {tokens}: {}", context.text);
        }
    }
    let outlines = ground.assemble(&ContextRequest { depth: Depth::Outline, ..request("sign", 4000) }).text;
    assert!(outlines.contains("5: (a secret)\n") && outlines.contains("9: Sign again\n"), "{outlines}");
}

#[test]
fn a_secret_file_is_listed_and_never_read() {
    let mut ground = Ground::sample();
    ground.parts.config.views.default.include = Some(vec!["**/*".to_owned()]);
    let about = ContextRequest { focus: vec![focus(".env")], ..request("api key env", 2000) };
    let context = ground.assemble(&about);
    assert!(context.text.contains("## .env (secret, not shown)\n"), "{}", context.text);
    assert!(!context.text.contains("sk-live"), "{}", context.text);
}

#[test]
fn a_key_in_a_source_is_taken_out_before_it_is_counted() {
    let material = "MIIEpAIBAAKCAQEA".repeat(4);
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{material}\n-----END RSA PRIVATE KEY-----");
    let text =
        format!("//! Signs.\n\nconst KEY: &str = \"{key}\";\n\n/// Signs a text.\nfn sign_text() {{}}\n");
    let ground = Ground::files(&files(&[("src/sign.rs", &text)]));
    let context = ground.assemble(&request("sign text", 2000));
    assert!(!context.text.contains("MIIEpAIBAAKCAQEA"), "{}", context.text);
    assert_eq!(context.receipt.redacted, 1);
    // Line numbers are the file's.
    assert!(context.text.contains("## src/sign.rs (rust, 8 lines)\n"), "{}", context.text);
    assert!(context.fragments.iter().all(|fragment| !fragment.is_whole));
    let line = context.text.lines().position(|line| line == "fn sign_text() {}");
    let first = context.text.lines().position(|line| line == "1-8:");
    assert_eq!(line.zip(first).map(|(line, first)| line - first), Some(8), "{}", context.text);
}

#[test]
fn a_file_larger_than_the_budget_falls_to_signatures_and_a_part_and_others_are_still_packed() {
    let body = "    let retry = limit(retry);\n".repeat(60);
    let large: String = (0..40).map(|at| format!("pub fn retry_{at}() {{\n{body}}}\n\n")).collect();
    let mut all = sample_files();
    all.extend(files(&[("src/large.rs", &large)]));
    let context = Ground::files(&all).assemble(&request("retry limit", 700));
    assert_eq!(context.text.matches("pub fn retry_").count(), 40, "{}", context.text);
    assert!(context.text.matches("    let retry = limit(retry);\n").count() < 60, "{}", context.text);
    assert!(paths(&context).len() > 3, "{}", context.text);
}

#[test]
fn a_path_forges_no_header_and_bytes_that_are_no_text_never_count_as_read() {
    let mut all = files(&[("src/a\n## forged.rs (rust, 9 lines)", "fn forged_retry() {}\n")]);
    all.insert(path("latin.txt"), b"retry caf\xe9\n".to_vec());
    all.insert(path("plain.txt"), b"retry\n".to_vec());
    let context = Ground::files(&all).assemble(&request("retry", 500));
    assert!(!context.text.lines().any(|line| line.starts_with("## forged")), "{}", context.text);
    assert!(context.text.contains("retry caf\u{fffd}\n"), "{}", context.text);
    let whole = |name: &str| {
        let of = |place: &FileLocation| place.path == path(name);
        context.fragments.iter().any(|fragment| fragment.is_whole && fragment.place.as_ref().is_some_and(of))
    };
    assert_eq!((whole("latin.txt"), whole("plain.txt")), (false, true));
}

#[test]
fn nothing_in_a_path_or_a_title_turns_or_hides_what_stands_beside_it() {
    let name = "a\u{202e}sr\u{2066}b\u{200b}\u{2028}.md";
    let ground = Ground::files(&files(&[(name, "# Retry\u{202e} \u{2069}jobs\u{200b}\u{2028}\n\ntext\n")]));
    let context = ground.assemble(&request("retry", 400));
    let header = context.text.lines().find(|line| line.starts_with("## ")).expect("a header");
    assert_eq!(
        header,
        r"## a\xE2\x80\xAEsr\xE2\x81\xA6b\xE2\x80\x8B\xE2\x80\xA8.md (markdown, 3 lines: Retry jobs)"
    );
}

#[test]
fn twins_are_shown_once() {
    let ground = Ground::files(&files(&[
        ("a/retry.rs", "pub fn same() { retry(); }\n"),
        ("b/retry.rs", "pub fn same() { retry(); }\n"),
        ("c/retry.rs", "pub fn other() { retry(); }\n"),
    ]));
    let context = ground.assemble(&request("retry", 1000));
    assert_eq!(context.receipt.excluded_by.get(&ExclusionReason::Duplicate), Some(&1));
    assert_eq!(context.text.matches("same()").count(), 1, "{}", context.text);
}

#[test]
fn projects_stand_side_by_side_under_their_names() {
    let web = files(&[("src/retry.rs", "pub fn retry_in_web() {}\n")]);
    let ground =
        Ground::of(vec![project(0, "app", &sample_files(), Vec::new()), project(1, "web", &web, Vec::new())]);
    let about = ContextRequest {
        focus: vec![Focus::Path(RootIndex(1), path("src/retry.rs"))],
        ..request("retry", 2000)
    };
    let context = ground.assemble(&about);
    assert!(context.text.contains("## app:src/retry.rs (rust,"), "{}", context.text);
    assert!(context.text.contains("## web:src/retry.rs (rust, 1 line)\n"), "{}", context.text);
}

fn facts() -> PlanFacts {
    PlanFacts {
        plan: PlanId::from_u128(5),
        decisions: vec![DecisionFact {
            question: "where are attempts\ncounted".to_owned(),
            chosen: "in src/retry.rs".to_owned(),
            why: "RetryLimit is there".to_owned(),
            distance: 0,
        }],
        touched: vec![FileLocation::file(FIRST, path("tools/report.py"))],
        findings: vec![(
            FileLocation::lines(FIRST, path("src/queue.rs"), 22, 23),
            "limit is ignored".to_owned(),
        )],
    }
}

#[test]
fn a_plan_brings_what_it_decided_changed_and_was_told() {
    let asked = ContextRequest { plan: Some(facts()), ..request("", 900) };
    let context = Ground::sample().assemble(&asked);
    let decision = "- where are attempts counted → in src/retry.rs: RetryLimit is there\n";
    assert!(context.text.contains(decision), "{}", context.text);
    assert_eq!(context.fragments[0].kind, FragmentKind::Decision);
    assert!(context.text.contains("        if limit.allows(job.attempts) {\n"), "{}", context.text);
    for name in ["tools/report.py", "src/retry.rs", "src/queue.rs"] {
        let line = context.receipt.included.iter().find(|line| line.place.path == path(name));
        let why = line.map(|line| line.why.iter().any(|(name, _)| name == "plan-decision-context"));
        assert_eq!(why, Some(true), "{name}");
    }
}

#[test]
fn decisions_take_no_more_than_their_share() {
    let long = DecisionFact {
        question: "why ".repeat(200),
        chosen: "because ".repeat(200),
        why: String::new(),
        distance: 0,
    };
    let plan = PlanFacts { decisions: vec![long; 50], ..facts() };
    let ground = Ground::sample();
    let context = ground.assemble(&ContextRequest { plan: Some(plan), ..request("retry", 2000) });
    let (of_decisions, of_files): (Vec<_>, Vec<_>) =
        context.fragments.iter().partition(|fragment| fragment.kind == FragmentKind::Decision);
    let tokens: u32 = of_decisions.iter().map(|fragment| fragment.tokens).sum();
    assert!(of_decisions.len() > 2 && tokens <= 400, "{tokens} for {}", of_decisions.len());
    assert!(of_decisions.iter().all(|fragment| fragment.tokens <= 120 && fragment.text.ends_with('\n')));
    assert!(!of_files.is_empty());
}

#[test]
fn what_was_given_before_is_not_given_again() {
    let ground = Ground::sample();
    let first = ground.assemble(&request("retry limit", 250));
    let shown: Vec<PriorFragment> = first
        .fragments
        .iter()
        .filter_map(|fragment| {
            Some(PriorFragment { place: fragment.place.clone()?, depth: fragment.depth, hash: fragment.hash })
        })
        .collect();
    let second = ground.assemble(&ContextRequest { shown: shown.clone(), ..request("retry limit", 250) });
    for fragment in first.fragments.iter().filter(|fragment| fragment.depth == Depth::Full) {
        assert!(!second.text.contains(&fragment.text), "again: {}", fragment.text);
    }
    assert!(!second.text.is_empty());
    let all = ground.assemble(&request("retry limit", 5000));
    let shown: Vec<PriorFragment> = all
        .fragments
        .iter()
        .filter_map(|fragment| {
            Some(PriorFragment { place: fragment.place.clone()?, depth: fragment.depth, hash: fragment.hash })
        })
        .collect();
    let nothing = ground.assemble(&ContextRequest { shown, ..request("retry limit", 5000) });
    assert_eq!(nothing.text, "");
    assert!(nothing.receipt.excluded_by.contains_key(&ExclusionReason::AlreadyShown));
}

#[test]
fn a_child_is_told_what_its_parent_was_given() {
    let ground = Ground::sample();
    let parent = Arc::new(ground.assemble(&request("report rows", 700)));
    let child = ContextRequest {
        parent: Some(parent),
        focus: vec![focus("src/retry.rs")],
        only: vec!["simple-keyword".parse().expect("a name")],
        ..request("allows", 700)
    };
    let context = ground.assemble(&child);
    assert!(context.text.contains("## given to the plan above\n"), "{}", context.text);
    let skeleton = context.receipt.budget.skeleton;
    assert!(skeleton > 0 && skeleton <= 105, "{skeleton}");
    assert_eq!(context.text.matches("## src/retry.rs").count(), 1, "{}", context.text);
}

#[test]
fn history_finds_what_changed_for_the_same_reason_and_together() {
    let mut all = sample_files();
    all.extend(files(&[("src/pool.rs", "pub fn threads() {}\n")]));
    let mut commits = vec![commit(0, "worker died: give its things back", &["src/pool.rs", "src/rescue.rs"])];
    commits.extend((1..600).map(|rank| commit(rank, "other", &["README.md"])));
    let ground = Ground::of(vec![project(0, "app", &all, commits)]);
    let only = vec!["temporal-archaeology".parse().expect("a name")];
    let context = ground.assemble(&ContextRequest { only, ..request("worker died", 2000) });
    assert_eq!(paths(&context)[..2], ["src/pool.rs", "src/rescue.rs"], "{}", context.text);
}

#[test]
fn a_window_below_its_reserves_gives_an_empty_text_and_no_error() {
    let budget = Budget { window: 4000, response: 4096, tools: 10, system: 10, cap: None };
    let context = Ground::sample().assemble(&ContextRequest { budget, ..request("retry", 0) });
    assert_eq!((context.text.as_str(), context.tokens, context.receipt.budget.total), ("", 0, 0));
    let outcomes: Vec<&StrategyOutcome> =
        context.receipt.strategies.iter().map(|line| &line.outcome).collect();
    assert!(outcomes.contains(&&StrategyOutcome::NotStarted), "{outcomes:?}");
}
