//! Ten thousand random requests: within budget, the same twice, and the receipt adds up.

use std::collections::BTreeSet;
use std::sync::Arc;

use context::{PipelineConfig, SnapshotCache};
use domain::RootIndex;
use domain::context::{
    Budget, ContextRequest, ContextView, Depth, EXCLUDED_LINES_MAX, FileLocation, Focus, INCLUDED_LINES_MAX,
    PriorFragment,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::ground::{Files, Ground, commit, path, project, request};

const WORDS: [&str; 24] = [
    "retry", "limit", "job", "queue", "rescue", "worker", "lease", "plan", "graph", "node", "token",
    "budget", "pack", "score", "order", "depth", "index", "scan", "file", "path", "merge", "hunk", "store",
    "event",
];

const TREES: u32 = 40;
const REQUESTS_PER_TREE: u32 = 250;

fn word() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&WORDS[..])
}

fn definition() -> impl Strategy<Value = String> {
    (word(), word(), proptest::collection::vec((word(), word()), 0..12)).prop_map(|(verb, noun, body)| {
        let lines: String =
            body.iter().map(|(one, other)| format!("    {one}_{other}(\"{other} é\");\n")).collect();
        format!("/// Does {verb} to {noun}.\npub fn {verb}_{noun}() {{\n{lines}}}\n\n")
    })
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => proptest::collection::vec(definition(), 0..8).prop_map(|all| all.concat().into_bytes()),
        1 => proptest::collection::vec(word(), 0..60).prop_map(|all| all.join(" ").into_bytes()),
        1 => proptest::collection::vec(word(), 1..30).prop_map(|all| format!("# {}\n\ntext\n", all.join("\n\n## ")).into_bytes()),
        1 => Just(b"\0binary".to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..80),
    ]
}

fn tree() -> impl Strategy<Value = Files> {
    let folder = proptest::sample::select(&["", "src/", "src/deep/", "docs/", "odd name/"][..]);
    let ending = proptest::sample::select(&[".rs", ".py", ".md", ".toml", ".txt", "", ".env"][..]);
    let name = (folder, word(), word(), ending)
        .prop_map(|(folder, one, other, ending)| path(&format!("{folder}{one}_{other}{ending}")));
    proptest::collection::btree_map(name, content(), 0..30)
}

fn tokens() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => 0_u32..64,
        1 => proptest::sample::select(&[0, 1, 9, 255, 256, 511, 512, 513, 10_000_000][..]),
        4 => 64_u32..4000,
    ]
}

fn asked(files: &Files) -> impl Strategy<Value = ContextRequest> + use<> {
    let paths: Vec<_> = files.keys().cloned().collect();
    const STRATEGIES: [&str; 6] = [
        "simple-keyword",
        "breadth-depth-navigator",
        "temporal-archaeology",
        "plan-decision-context",
        "semantic-embedding",
        "arce",
    ];
    let names = proptest::collection::vec(proptest::sample::select(&STRATEGIES[..]), 0..3)
        .prop_map(|names| names.iter().map(|name| name.parse().expect("a name")).collect::<Vec<_>>());
    let focus = proptest::collection::vec(any::<proptest::sample::Index>(), 0..3).prop_map(move |chosen| {
        let of = |at: proptest::sample::Index| Focus::Path(RootIndex(0), at.get(&paths).clone());
        if paths.is_empty() { Vec::new() } else { chosen.into_iter().map(of).collect::<Vec<_>>() }
    });
    let query = proptest::collection::vec(word(), 0..6).prop_map(|words| words.join(" "));
    let depth = proptest::sample::select(&Depth::ALL[..]);
    let view = proptest::sample::select(&ContextView::ALL[..]);
    let reserves = proptest::option::weighted(0.3, (0_u32..5000, 0_u32..500));
    (query, tokens(), focus, depth, view, 0_u8..=4, names.clone(), names, reserves).prop_map(
        |(query, tokens, focus, depth, view, breadth, only, prefer, reserves)| {
            let budget = match reserves {
                Some((response, tools)) => Budget { window: tokens, response, tools, system: 100, cap: None },
                None => Budget::fixed(tokens),
            };
            ContextRequest { focus, depth, view, breadth, only, prefer, budget, ..request(&query, 0) }
        },
    )
}

/// Every file that was proposed or named is in, or counted under one reason.
pub(crate) fn adds_up(
    ground: &Ground,
    request: &ContextRequest,
    receipt: &domain::context::Receipt,
    tokens: u32,
) {
    let mut wanted: BTreeSet<FileLocation> =
        ground.spy.proposed.lock().expect("unlocked").iter().cloned().collect();
    wanted.extend(request.focus.iter().filter_map(|focus| match focus {
        Focus::Path(project, path) => Some(FileLocation::file(*project, path.clone())),
        Focus::Lines(..) | Focus::Symbol(_) => None,
    }));
    let included: BTreeSet<FileLocation> = receipt.included.iter().map(|line| line.place.clone()).collect();
    let excluded: BTreeSet<FileLocation> = receipt.excluded.iter().map(|line| line.place.clone()).collect();
    assert_eq!(included.len(), receipt.included.len(), "no file twice");
    assert!(included.is_disjoint(&excluded));
    let left_out = receipt.excluded_by.values().sum::<u32>() as usize;
    assert_eq!(left_out.min(EXCLUDED_LINES_MAX), receipt.excluded.len());
    let told: BTreeSet<FileLocation> = included.union(&excluded).cloned().collect();
    let more = receipt.included_more;
    assert!(told.is_subset(&wanted));
    assert_eq!(included.len() + more.files as usize + left_out, wanted.len());
    assert!(more.files == 0 || receipt.included.len() == INCLUDED_LINES_MAX);
    let budget = &receipt.budget;
    assert_eq!(receipt.included.iter().map(|line| line.tokens).sum::<u32>() + more.tokens, budget.files);
    let spent = budget.preamble + budget.skeleton + budget.decisions + budget.files;
    assert_eq!((spent, spent + budget.free), (tokens, budget.total));
}

#[test]
fn random_requests_keep_every_promise() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config =
        Config { cases: TREES, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let trees = (tree(), any::<bool>()).prop_flat_map(|(files, has_history)| {
        let requests = proptest::collection::vec(asked(&files), REQUESTS_PER_TREE as usize);
        (Just(files), Just(has_history), requests)
    });
    let run = runner.run(&trees, |(files, has_history, requests)| {
        let paths: Vec<&str> =
            files.keys().filter_map(|path| std::str::from_utf8(path.as_bytes()).ok()).collect();
        let commits = if has_history {
            paths
                .chunks(3)
                .enumerate()
                .map(|(rank, paths)| commit(rank as u32, "retry the queue of jobs", paths))
                .collect()
        } else {
            Vec::new()
        };
        let mut ground = Ground::of(vec![project(0, "app", &files, commits)]);
        ground.parts.config = PipelineConfig::default();
        ground.parts.config.views.execute.max_files = Some(3);
        ground.parts.config.views.strategize.exclude = vec!["nothing-here/**".to_owned()];
        let again = Ground {
            parts: context::PipelineParts {
                cache: Arc::new(SnapshotCache::default()),
                ..ground.parts.clone()
            },
            ..Ground::of(Vec::new())
        };
        let mut shown: Vec<PriorFragment> = Vec::new();
        for (at, mut request) in requests.into_iter().enumerate() {
            if at % 5 == 4 {
                request.shown = shown.clone();
            }
            let context = ground.assemble(&request);
            adds_up(&ground, &request, &context.receipt, context.tokens);
            if at % 10 == 0 {
                prop_assert_eq!(&again.assemble(&request), &context, "the same twice");
            }
            shown = context
                .fragments
                .iter()
                .filter_map(|fragment| {
                    Some(PriorFragment {
                        place: fragment.place.clone()?,
                        depth: fragment.depth,
                        hash: fragment.hash,
                    })
                })
                .collect();
        }
        Ok(())
    });
    run.expect("every promise is kept");
}
