//! Every field of a request and every rule of a view changes the receipt.

use context::{Error, PipelineConfigError, ViewRules};
use domain::context::{ContextRequest, ContextView, Depth, ExclusionReason, Focus, Name, StrategyOutcome};

use crate::ground::{FIRST, Ground, path, request, sample_commits, sample_files};

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

const QUERY: &str = "rescue ignores attempts";

#[test]
fn each_field_of_a_request_changes_the_receipt() {
    let ground = Ground::sample();
    let usual = ground.assemble(&request(QUERY, 300)).receipt;
    let lines = Focus::Lines(FIRST, path("tools/report.py"), 3, 5);
    let changed = [
        ("query", request("prints a report of rows", 300)),
        ("budget", request(QUERY, 200)),
        (
            "focus",
            ContextRequest {
                focus: vec![Focus::Path(FIRST, path("tools/report.py"))],
                ..request(QUERY, 300)
            },
        ),
        ("lines", ContextRequest { focus: vec![lines], ..request(QUERY, 300) }),
        ("symbol", ContextRequest { focus: vec![Focus::Symbol("report".to_owned())], ..request(QUERY, 300) }),
        ("depth", ContextRequest { depth: Depth::Outline, ..request(QUERY, 300) }),
        ("breadth", ContextRequest { breadth: 0, ..request(QUERY, 300) }),
        ("only", ContextRequest { only: vec![name("simple-keyword")], ..request(QUERY, 300) }),
        ("prefer", ContextRequest { prefer: vec![name("temporal-archaeology")], ..request(QUERY, 300) }),
        ("view", ContextRequest { view: ContextView::Execute, ..request(QUERY, 300) }),
    ];
    for (field, request) in changed {
        assert_ne!(ground.assemble(&request).receipt, usual, "{field}");
    }
    assert_eq!(ground.assemble(&request(QUERY, 300)).receipt, usual);
}

#[test]
fn only_takes_those_named_enabled_or_not_and_every_other_says_why_not() {
    let ground = Ground::sample();
    let only = vec![name("semantic-embedding"), name("simple-keyword")];
    let receipt = ground.assemble(&ContextRequest { only, ..request(QUERY, 300) }).receipt;
    let lines: Vec<(&str, String)> =
        receipt.strategies.iter().map(|line| (line.name.as_str(), line.outcome.to_string())).collect();
    assert_eq!(
        lines,
        [
            ("simple-keyword", "ok".to_owned()),
            ("breadth-depth-navigator", "unavailable: not asked for".to_owned()),
            ("temporal-archaeology", "unavailable: not asked for".to_owned()),
            ("plan-decision-context", "unavailable: not asked for".to_owned()),
            ("semantic-embedding", "unavailable: no embedding model configured".to_owned()),
            ("arce", "unavailable: not asked for".to_owned()),
        ]
    );
}

#[test]
fn nothing_that_is_not_built_pretends() {
    let ground = Ground::sample();
    for unavailable in ["arce", "semantic-embedding"] {
        let only = vec![name(unavailable)];
        let receipt = ground.assemble(&ContextRequest { only, ..request(QUERY, 300) }).receipt;
        let line = receipt.strategies.iter().find(|line| line.name.as_str() == unavailable).expect("a line");
        assert!(matches!(line.outcome, StrategyOutcome::Unavailable(_)), "{line:?}");
        // Words are looked for all the same.
        assert_eq!(
            (receipt.strategies[0].name.as_str(), &receipt.strategies[0].outcome),
            ("simple-keyword", &StrategyOutcome::Ok)
        );
    }
}

#[test]
fn every_enabled_strategy_is_asked_and_preferring_one_weighs_it_more() {
    let ground = Ground::sample();
    let usual = ground.assemble(&request(QUERY, 300)).receipt;
    let weights = |receipt: &domain::context::Receipt| -> Vec<(String, f32)> {
        let mut weights: Vec<_> =
            receipt.strategies.iter().map(|line| (line.name.to_string(), line.weight)).collect();
        weights.sort_by(|one, other| one.0.cmp(&other.0));
        weights
    };
    let ran: Vec<&str> = usual
        .strategies
        .iter()
        .filter(|line| matches!(line.outcome, StrategyOutcome::Ok | StrategyOutcome::Empty))
        .map(|line| line.name.as_str())
        .collect();
    assert_eq!(ran, ["simple-keyword", "breadth-depth-navigator", "temporal-archaeology"]);
    let prefer = vec![name("breadth-depth-navigator")];
    let preferred = ground.assemble(&ContextRequest { prefer, ..request(QUERY, 300) }).receipt;
    assert_eq!(weights(&usual)[1], ("breadth-depth-navigator".to_owned(), 0.3));
    assert_eq!(weights(&preferred)[1], ("breadth-depth-navigator".to_owned(), 0.3 * 1.5));
    let unknown = ContextRequest { prefer: vec![name("simple-keywrod")], ..request(QUERY, 300) };
    let error = ground.try_assemble(&unknown).expect_err("no such strategy");
    assert!(matches!(error, Error::StrategyUnknown { .. }));
    assert!(error.to_string().contains("did you mean `simple-keyword`?"), "{error}");
}

#[test]
fn breadth_bounds_the_hops() {
    let chain = crate::ground::files(&[
        ("a.rs", "pub fn alpha_start() { beta_second(); }\n"),
        ("b.rs", "pub fn beta_second() { gamma_third(); }\n"),
        ("c.rs", "pub fn gamma_third() { delta_fourth(); }\n"),
        ("d.rs", "pub fn delta_fourth() {}\n"),
    ]);
    let ground = Ground::files(&chain);
    for (breadth, files) in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 4)] {
        let only = vec![name("breadth-depth-navigator")];
        let focus = vec![Focus::Path(FIRST, path("a.rs"))];
        let context = ground.assemble(&ContextRequest { breadth, only, focus, ..request("", 1000) });
        assert_eq!(context.receipt.included.len(), files, "{breadth}: {}", context.text);
    }
}

#[test]
fn depth_bounds_what_is_shown() {
    let ground = Ground::sample();
    for depth in Depth::ALL {
        let context = ground.assemble(&ContextRequest { depth, ..request(QUERY, 3000) });
        let deepest = context.fragments.iter().map(|fragment| fragment.depth).max();
        assert_eq!(deepest, Some(depth), "{}", context.text);
    }
}

type Change = fn(&mut ViewRules);

#[test]
fn each_rule_of_a_view_changes_the_receipt_and_is_inherited() {
    let rules: [(&str, Change); 6] = [
        ("include", |rules| rules.include = Some(vec!["src/**".to_owned()])),
        ("exclude", |rules| rules.exclude = vec!["src/rescue.rs".to_owned()]),
        ("max_file_kb", |rules| rules.max_file_kb = Some(0)),
        ("max_files", |rules| rules.max_files = Some(1)),
        ("max_tokens", |rules| rules.max_tokens = Some(100)),
        ("strategies", |rules| rules.strategies = Some(vec!["simple-keyword".parse().expect("a name")])),
    ];
    let usual = Ground::sample().assemble(&request(QUERY, 300)).receipt;
    for (field, change) in rules {
        let mut ground = Ground::sample();
        change(&mut ground.parts.config.views.default);
        let by_default = ground.assemble(&request(QUERY, 300)).receipt;
        assert_ne!(by_default, usual, "{field}");
        let inherited =
            ground.assemble(&ContextRequest { view: ContextView::Execute, ..request(QUERY, 300) }).receipt;
        assert_eq!(inherited.included, by_default.included, "{field}");
        let mut ground = Ground::sample();
        change(&mut ground.parts.config.views.execute);
        assert_eq!(ground.assemble(&request(QUERY, 300)).receipt, usual, "{field}");
        let own =
            ground.assemble(&ContextRequest { view: ContextView::Execute, ..request(QUERY, 300) }).receipt;
        assert_eq!(own.included, by_default.included, "{field}");
    }
}

#[test]
fn above_the_most_files_the_best_stay_and_the_others_are_policy() {
    let mut ground = Ground::sample();
    let all = ground.assemble(&request(QUERY, 3000)).receipt;
    ground.parts.config.views.default.max_files = Some(2);
    let few = ground.assemble(&request(QUERY, 3000)).receipt;
    let places = |lines: &[domain::context::IncludedLine]| -> Vec<String> {
        lines.iter().map(|line| line.place.to_string()).collect()
    };
    assert_eq!(places(&few.included), places(&all.included)[..2]);
    assert_eq!(few.excluded_by[&ExclusionReason::Policy] as usize, all.included.len() - 2);
}

#[test]
fn a_project_narrows_the_users_view() {
    let mut ground = Ground::sample();
    let (mut project, _) = crate::ground::project(0, "app", &sample_files(), sample_commits());
    project.views.default.exclude = vec!["src/rescue.rs".to_owned()];
    project.views.default.include = Some(vec!["**/*".to_owned()]);
    project.views.default.max_tokens = Some(150);
    ground.parts.config.views.default.include = Some(vec!["src/**".to_owned()]);
    ground.opened.projects = vec![project];
    ground.parts.projects = std::sync::Arc::new(crate::ground::Fixed(ground.opened.clone()));
    let receipt = ground.assemble(&request(QUERY, 3000)).receipt;
    assert_eq!(receipt.budget.total, 150);
    let in_view = |path: &[u8]| path.starts_with(b"src/") && path != b"src/rescue.rs";
    assert!(
        receipt.included.iter().all(|line| in_view(line.place.path.as_bytes())),
        "{:?}",
        receipt.included
    );
}

#[test]
fn a_configuration_out_of_bounds_makes_no_pipeline() {
    let refused = |change: fn(&mut context::PipelineConfig)| -> PipelineConfigError {
        let mut ground = Ground::sample();
        change(&mut ground.parts.config);
        match context::Pipeline::new(ground.parts) {
            Ok(_) => panic!("it was taken"),
            Err(error) => error,
        }
    };
    let bounds = [
        (refused(|config| config.max_tokens = 1_000_001), "context.max_tokens"),
        (refused(|config| config.skeleton_ratio = 0.6), "context.skeleton_ratio"),
        (refused(|config| config.skeleton_ratio = f32::NAN), "context.skeleton_ratio"),
        (refused(|config| config.weights = [(name("arce"), 10.5)].into()), "context.weights.arce"),
    ];
    for (error, expected) in bounds {
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    let unknown = refused(|config| config.strategies.push(name("arse")));
    assert!(unknown.to_string().contains("did you mean `arce`?"), "{unknown}");
    let glob = refused(|config| config.views.execute.exclude.push("a[".to_owned()));
    assert!(matches!(glob, PipelineConfigError::Glob(_)));
}
