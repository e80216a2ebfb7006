//! The parts of `cargo xtask bench recall`, on a small generated repository: a benchmark that measures
//! wrongly proves nothing.

use std::collections::BTreeSet;
use std::path::Path;

use context::{LexicalCounter, TokenCounter as _};
use domain::RelPath;
use tempfile::TempDir;

#[path = "../../benches/recall/run/bm25.rs"]
mod bm25;
#[path = "../../benches/recall/run/bootstrap.rs"]
mod bootstrap;
#[path = "../../benches/support/checkout.rs"]
mod checkout;
#[path = "../../benches/recall/run/keyword.rs"]
mod keyword;
#[path = "../../benches/support/project.rs"]
mod project;
#[path = "../../benches/recall/run/queries.rs"]
mod queries;
#[path = "../../benches/recall/run/shown.rs"]
mod shown;
#[path = "../../benches/recall/run/texts.rs"]
mod texts;
#[path = "../../benches/recall/run/truth.rs"]
mod truth;

use self::checkout::{Checkout, git};
use self::queries::{Query, queries};
use self::shown::{Recall, Shown};
use self::truth::{Truth, truth};

const RETRY: &str = "src/retry.rs";
const BEFORE: &str = "\
//! How long a failed job waits.

/// The first wait.
const FIRST_MS: u64 = 100;

pub struct Policy {
    pub attempts: u32,
}

impl Policy {
    /// How long to wait after so many failures.
    pub fn backoff(&self, failures: u32) -> u64 {
        FIRST_MS * u64::from(failures)
    }
}
";

/// A repository in which one commit has a message that can be asked.
struct Repository {
    dir: TempDir,
}

impl Repository {
    fn new() -> Repository {
        let repository = Repository { dir: tempfile::tempdir().unwrap() };
        git(repository.root(), &["init", "--quiet"]);
        let login = "pub fn login(name: &str) -> bool {\n    !name.is_empty()\n}\n";
        repository.commit("The first files of a job runner", &[(RETRY, BEFORE), ("src/login.rs", login)]);
        let after = BEFORE.replace("FIRST_MS * u64::from(failures)", "FIRST_MS << failures");
        let message = "Wait twice as long after each failure (#12)\n\nSee https://example.org/12 for why.\n\n\
                       Signed-off-by: Somebody <somebody@example.org>";
        repository.commit(message, &[(RETRY, &after)]);
        repository.commit("Release 1.2.3 with a shorter login", &[("src/login.rs", "pub fn login() {}\n")]);
        repository.commit("Bump the serialization library", &[("src/login.rs", "pub fn login() {};\n")]);
        repository.commit("Tell people about waiting jobs", &[("docs/jobs.md", "# Jobs\n\nThey wait.\n")]);
        repository.commit("Add a queue for jobs", &[("src/queue.rs", "pub struct Queue;\n")]);
        repository
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn commit(&self, message: &str, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = self.root().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        git(self.root(), &["add", "."]);
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        git(self.root(), &[&who[..], &["commit", "--quiet", "-m", message]].concat());
    }

    fn the_query(&self) -> Query {
        let mut found = queries(self.root(), 1, |_| true);
        found.pop().unwrap()
    }
}

fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

#[test]
fn only_a_message_whose_answer_stood_in_the_parent_is_asked() {
    let repository = Repository::new();
    let found = queries(repository.root(), 5, |_| true);
    let asked: Vec<(&str, &[RelPath])> =
        found.iter().map(|query| (query.text.as_str(), &query.files[..])).collect();
    let text = "Wait twice as long after each failure\nSee for why.";
    assert_eq!(asked, [(text, &[path(RETRY)][..])]);
    assert!(!found[0].names_a_file());
    assert_eq!(queries(repository.root(), 5, |_| false), []);
}

#[test]
fn the_truth_is_what_the_commit_changed_as_it_stood_before() {
    let repository = Repository::new();
    let truth = truth(repository.root(), &repository.the_query());
    let expected = Truth {
        files: [path(RETRY)].into(),
        symbols: [(path(RETRY), "pub fn backoff(&self, failures: u32) -> u64".to_owned())].into(),
        lines: [(path(RETRY), "FIRST_MS * u64::from(failures)".to_owned())].into(),
    };
    assert_eq!(truth, expected);
}

#[test]
fn a_checkout_knows_nothing_that_came_later() {
    let repository = Repository::new();
    let query = repository.the_query();
    let mut checkout = Checkout::of(repository.root());
    checkout.go_to(&query.parent);
    assert_eq!(std::fs::read_to_string(checkout.root().join(RETRY)).unwrap(), BEFORE);
    let known = git(&checkout.root(), &["log", "--all", "--format=%s", "HEAD"]);
    assert_eq!(known, "The first files of a job runner\n");
    assert!(!checkout.root().join("src/queue.rs").exists());
}

#[test]
fn everybody_is_asked_the_same_and_keeps_to_the_budget() {
    let repository = Repository::new();
    let query = repository.the_query();
    let truth = truth(repository.root(), &query);
    let mut checkout = Checkout::of(repository.root());
    checkout.go_to(&query.parent);
    let ours = project::Project::open(&checkout.root(), &checkout.beside("index.sqlite"));
    let everything = Recall { file: 1.0, symbol: Some(1.0), line: Some(1.0) };
    let context = ours.assemble(&query.text, 1024);
    assert_eq!(Shown::of_context(&context).recall(&truth), everything, "{}", context.text);
    let snapshot = ours.snapshot();
    let (files, names) = (texts::texts(&checkout.root(), &snapshot), texts::paths(&snapshot));
    assert_eq!(names, BTreeSet::from([RETRY, "src/login.rs"].map(str::to_owned)));
    let counter = LexicalCounter::default();
    let budgets = [8, 40, 1024];
    let windows = bm25::bm25(&files, &query.text, &budgets, &counter);
    for (tokens, window) in budgets.into_iter().zip(&windows) {
        let found = keyword::keyword(&files, &query.text, tokens, &counter);
        let given = ours.assemble(&query.text, tokens).text;
        for text in [window, &found, &given, &texts::cut(BEFORE, tokens, &counter)] {
            assert!(counter.tokens(text) <= tokens, "{tokens}: {text}");
        }
    }
    assert_eq!(Shown::of_listing(&windows[2], &names).recall(&truth), everything);
    let found = keyword::keyword(&files, &query.text, 1024, &counter);
    assert_eq!(Shown::of_listing(&found, &names).recall(&truth).file, 1.0, "{found}");
}

#[test]
fn a_listing_may_show_a_file_in_several_pieces() {
    let names = BTreeSet::from(["a.rs".to_owned(), "b.rs".to_owned(), "c.rs".to_owned()]);
    let text = "\na.rs:\n⋮\n│fn one() {\n\nb.rs\n\na.rs:\n│    two();\n";
    let of = |file: &str, line: &str| (path(file), line.to_owned());
    let truth = Truth {
        files: ["a.rs", "b.rs", "c.rs", "d.rs"].map(path).into(),
        symbols: [of("a.rs", "fn one()"), of("b.rs", "fn one()")].into(),
        lines: [of("a.rs", "two();"), of("a.rs", "three();")].into(),
    };
    let shown = Shown::of_listing(text, &names).recall(&truth);
    assert_eq!(shown, Recall { file: 0.5, symbol: Some(0.5), line: Some(0.5) });
    let nothing = Shown::of_listing(text, &names).recall(&Truth { symbols: [].into(), ..truth });
    assert_eq!(nothing.symbol, None);
}

#[test]
fn an_interval_tells_a_difference_from_chance() {
    let sure = bootstrap::interval(&[1.0; 20]);
    assert_eq!((sure.mean, sure.low, sure.high), (1.0, 1.0, 1.0));
    let even: Vec<f64> = (0..40).map(|at| if at % 2 == 0 { 10.0 } else { -10.0 }).collect();
    let chance = bootstrap::interval(&even);
    assert!(chance.low < -1.0 && chance.high > 1.0 && chance.mean == 0.0, "{chance:?}");
    assert_eq!(chance, bootstrap::interval(&even));
    let above: Vec<f64> = even.iter().map(|difference| difference + 10.0).collect();
    assert!(bootstrap::interval(&above).low > 0.0);
}
