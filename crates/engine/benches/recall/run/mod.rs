//! Asks every query of every repository of ours and of the rivals.

mod bm25;
mod bootstrap;
mod keyword;
mod queries;
mod report;
mod shown;
mod texts;
mod truth;

#[path = "../../support/aider.rs"]
mod aider;
#[path = "../../support/checkout.rs"]
mod checkout;
#[path = "../../support/project.rs"]
mod project;

use std::path::{Path, PathBuf};

use context::{LexicalCounter, TokenCounter as _};
use domain::context::{AssembledContext, StrategyOutcome};

use self::aider::{Aider, Kept};
use self::checkout::Checkout;
use self::project::Project;
use self::queries::{Query, queries};
use self::report::{Answer, Asked, BUDGETS, Temperature, Who};
use self::shown::Shown;
use self::texts::{cut, paths, texts};
use self::truth::{Truth, truth};

const QUERIES: usize = 50;

/// What the command line asks for.
struct Wanted {
    repositories: Vec<PathBuf>,
    queries: usize,
    has_aider: bool,
    tells_each: bool,
}

pub(super) fn run() {
    let wanted = wanted();
    if wanted.repositories.is_empty() {
        println!("recall: name repositories, such as `cargo xtask bench recall PATH PATH --queries 10`");
        return;
    }
    let mut aider = None;
    if wanted.has_aider {
        aider = Aider::start().inspect_err(|why| println!("Aider is left out: {why}")).ok();
    }
    let mut all = Vec::new();
    for repository in &wanted.repositories {
        let of_one = of_repository(repository, &wanted, &mut aider);
        report::table(&name(repository), &of_one);
        all.extend(of_one);
    }
    report::all(&all);
}

fn wanted() -> Wanted {
    let mut wanted =
        Wanted { repositories: Vec::new(), queries: QUERIES, has_aider: true, tells_each: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match &*word {
            "--queries" => {
                wanted.queries = words.next().and_then(|word| word.parse().ok()).unwrap_or(QUERIES)
            }
            "--without-aider" => wanted.has_aider = false,
            "--each" => wanted.tells_each = true,
            // Cargo's own.
            "--bench" => {}
            path => wanted.repositories.push(path.into()),
        }
    }
    wanted
}

/// `owner+name/repo` and `name/.git` are told as the name.
fn name(repository: &Path) -> String {
    let parts: Vec<String> = repository.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let told = parts.iter().rev().find(|part| !matches!(&***part, "repo" | ".git" | "." | "/"));
    told.cloned().unwrap_or_else(|| "this".to_owned())
}

fn of_repository(repository: &Path, wanted: &Wanted, aider: &mut Option<Aider>) -> Vec<Asked> {
    let has_truth = |query: &Query| !truth(repository, query).files.is_empty();
    let queries = queries(repository, wanted.queries, has_truth);
    let mut checkout = Checkout::of(repository);
    let mut all = Vec::new();
    for (number, query) in queries.iter().enumerate() {
        let truth = truth(repository, query);
        checkout.go_to(&query.parent);
        let temperature = if number == 0 { Temperature::Cold } else { Temperature::Moved };
        let answers = answers(&checkout, query, &truth, temperature, aider);
        let asked = Asked { names_a_file: query.names_a_file(), answers };
        if wanted.tells_each {
            println!("{}", report::line(&query.commit, &query.text, &asked));
        }
        all.push(asked);
    }
    all
}

/// What everybody says to one query. The first answer of each may have to read the tree, the later ones know
/// it.
fn answers(
    checkout: &Checkout,
    query: &Query,
    truth: &Truth,
    first: Temperature,
    aider: &mut Option<Aider>,
) -> Vec<Answer> {
    let (root, index) = (checkout.root(), checkout.beside("index.sqlite"));
    let counter = LexicalCounter::default();
    let mut answers = Vec::new();
    let mut ours = Project::open(&root, &index);
    for (number, tokens) in BUDGETS.into_iter().enumerate() {
        if number == 1 {
            // As a new process finds it.
            ours = Project::open(&root, &index);
        }
        let (context, cost) = testkit::cost::of(|| ours.assemble(&query.text, tokens));
        let answer = Answer {
            who: Who::Ours,
            number,
            temperature: if number == 0 { first } else { Temperature::Warm },
            recall: Shown::of_context(&context).recall(truth),
            tokens: counter.tokens(&context.text),
            cpu_s: cost.cpu_s,
            failed: failed(&context),
        };
        answers.push(answer);
    }
    let snapshot = ours.snapshot();
    let (files, names) = (texts(&root, &snapshot), paths(&snapshot));
    let mut push = |who, number, temperature, text: &str, cpu_s| {
        answers.push(Answer {
            who,
            number,
            temperature,
            recall: Shown::of_listing(text, &names).recall(truth),
            tokens: counter.tokens(text),
            cpu_s,
            failed: 0,
        });
    };
    for (number, tokens) in BUDGETS.into_iter().enumerate() {
        let (text, cost) = testkit::cost::of(|| keyword::keyword(&files, &query.text, tokens, &counter));
        push(Who::Keyword, number, Temperature::Warm, &text, cost.cpu_s);
    }
    let (pages, cost) = testkit::cost::of(|| bm25::bm25(&files, &query.text, &BUDGETS, &counter));
    for (number, text) in pages.iter().enumerate() {
        push(Who::Bm25, number, Temperature::Warm, text, cost.cpu_s);
    }
    let Some(running) = aider else { return answers };
    for (number, tokens) in BUDGETS.into_iter().enumerate() {
        let temperature = if number == 0 { first } else { Temperature::Warm };
        let kept = if temperature == Temperature::Cold { Kept::Nothing } else { Kept::Tags };
        match running.map(&root, &query.text, tokens, kept, &counter) {
            Ok(map) => {
                push(Who::Aider, number, temperature, &map.text, map.cost.cpu_s);
                let text = cut(&map.text, tokens, &counter);
                push(Who::AiderCut, number, temperature, &text, map.cost.cpu_s);
            }
            Err(why) => {
                println!("Aider is left out from here on: {why}");
                *aider = None;
                break;
            }
        }
    }
    answers
}

/// How many strategies did not come to an end of their own.
fn failed(context: &AssembledContext) -> usize {
    let has_failed = |outcome: &StrategyOutcome| {
        !matches!(outcome, StrategyOutcome::Ok | StrategyOutcome::Empty | StrategyOutcome::Unavailable { .. })
    };
    context.receipt.strategies.iter().filter(|line| has_failed(&line.outcome)).count()
}
