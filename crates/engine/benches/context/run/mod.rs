//! The rounds, and the rows that they come to.

mod once;
mod ripgrep;

#[path = "../../support/aider.rs"]
mod aider;
#[path = "../../support/checkout.rs"]
mod checkout;
#[path = "../../support/project.rs"]
mod project;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use context::LexicalCounter;
use context::index::{FileKind, Language};
use domain::RelPath;

use self::aider::{Aider, Kept};
use self::checkout::{Checkout, git};
use testkit::bench_row::{Better, median, option, row};
use testkit::cost::Cost;

const TOKENS: u32 = 1024;
/// A warm answer is quick, and so is asked for more often.
const WARM_TIMES: usize = 5;

/// What is measured, each by some of the peers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Cold,
    Edit,
    Warm,
    Held,
}

impl Case {
    const ALL: [Case; 4] = [Case::Cold, Case::Edit, Case::Warm, Case::Held];

    fn name(self) -> &'static str {
        match self {
            Case::Cold => "context_cold",
            Case::Edit => "context_edit",
            Case::Warm => "context_warm",
            Case::Held => "context_held",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Ours,
    Aider,
    Ripgrep,
}

/// Every measured cost.
#[derive(Default)]
struct Costs(Vec<(Case, Who, Cost)>);

impl Costs {
    fn push(&mut self, case: Case, who: Who, cost: Cost) {
        self.0.push((case, who, cost));
    }

    /// The median of what was measured.
    fn of(&self, case: Case, who: Who, part: fn(&Cost) -> f64) -> Option<f64> {
        let found = self.0.iter().filter(|(its_case, its_who, _)| (*its_case, *its_who) == (case, who));
        let values: Vec<f64> = found.map(|(_, _, cost)| part(cost)).collect();
        (!values.is_empty()).then(|| median(&values))
    }
}

pub(super) fn run() {
    if once::is_asked() {
        return once::run();
    }
    let rounds = option("--rounds", 3);
    let repository = word("--repo").map_or_else(this_repository, PathBuf::from);
    let mut checkout = Checkout::of(&repository);
    checkout.settle();
    let root = checkout.root();
    let query = word("--query").unwrap_or_else(|| git(&root, &["log", "-1", "--format=%B"]));
    let files = git(&root, &["ls-files"]);
    let edited = to_edit(&files);
    println!(
        "{}: {} files; asked: {}",
        repository.display(),
        files.lines().count(),
        query.lines().next().unwrap_or_default()
    );
    let mut aider = Aider::start().inspect_err(|why| println!("Aider is left out: {why}")).ok();
    let ripgrep = ripgrep::find().inspect_err(|why| println!("ripgrep is left out: {why}")).ok();
    let mut costs = Costs::default();
    for _ in 0..rounds {
        ours(&mut checkout, &query, &edited, &mut costs);
        if let Some(running) = &mut aider
            && let Err(why) = theirs(running, &mut checkout, &query, &edited, &mut costs)
        {
            println!("Aider is left out from here on: {why}");
            aider = None;
        }
        if let Some(program) = &ripgrep {
            let (_, cost) = testkit::cost::of_command(&mut ripgrep::search(program, &root, &query));
            costs.push(Case::Cold, Who::Ripgrep, cost);
            costs.push(Case::Warm, Who::Ripgrep, cost);
        }
    }
    print(&costs);
}

/// Ours, in new processes.
fn ours(checkout: &mut Checkout, query: &str, edited: &str, costs: &mut Costs) {
    let (root, index) = (checkout.root(), checkout.beside("index.sqlite"));
    for ending in ["sqlite", "sqlite-wal", "sqlite-shm", "image"] {
        let _ = std::fs::remove_file(index.with_extension(ending));
    }
    costs.push(Case::Cold, Who::Ours, once::index(&root, &index).1);
    edit(checkout, edited);
    let (changed, cost) = once::index(&root, &index);
    assert_eq!(changed, 1, "one edit costs one file");
    costs.push(Case::Edit, Who::Ours, cost);
    for _ in 0..WARM_TIMES {
        costs.push(Case::Warm, Who::Ours, once::assemble(&root, &index, query, TOKENS));
    }
    costs.push(Case::Held, Who::Ours, once::held(&root, &index, query, TOKENS));
}

/// Aider's, in its process.
fn theirs(
    aider: &mut Aider,
    checkout: &mut Checkout,
    query: &str,
    edited: &str,
    costs: &mut Costs,
) -> Result<(), String> {
    let (root, counter) = (checkout.root(), LexicalCounter::default());
    let cold = aider.map(&root, query, TOKENS, Kept::Nothing, &counter)?;
    costs.push(Case::Cold, Who::Aider, cold.cost);
    edit(checkout, edited);
    let after = aider.map(&root, query, TOKENS, Kept::Tags, &counter)?;
    costs.push(Case::Edit, Who::Aider, after.cost);
    let warm = aider.map(&root, query, TOKENS, Kept::Tags, &counter)?;
    costs.push(Case::Warm, Who::Aider, warm.cost);
    costs.push(Case::Held, Who::Aider, warm.cost);
    Ok(())
}

/// A part of a cost: what a row calls it, the part, and its unit.
type Part = (&'static str, fn(&Cost) -> f64, &'static str);

const PARTS: [Part; 3] = [
    ("cpu", |cost| cost.cpu_s, "s"),
    ("wall", |cost| cost.wall_s, "s"),
    ("memory", |cost| cost.peak_mb, "mb"),
];

fn print(costs: &Costs) {
    println!();
    for case in Case::ALL {
        for (who, peer) in [(Who::Aider, "aider"), (Who::Ripgrep, "ripgrep")] {
            for (name, part, unit) in PARTS {
                let pair = costs.of(case, Who::Ours, part).zip(costs.of(case, who, part));
                if let Some((ours, theirs)) = pair {
                    let name = format!("{}_{name}", case.name());
                    println!("{}", row(&name, peer, ours, theirs, Better::Less, unit));
                }
            }
        }
    }
}

/// Adds a line to a file, and lets it be old.
fn edit(checkout: &mut Checkout, path: &str) {
    let mut file = OpenOptions::new().append(true).open(checkout.root().join(path)).unwrap();
    writeln!(file).unwrap();
    drop(file);
    checkout.settle();
}

/// The middle one of the files of code.
fn to_edit(files: &str) -> String {
    let is_code = |path: &&str| {
        RelPath::new(*path).is_ok_and(|path| Language::detect(&path, b"").kind() == FileKind::Code)
    };
    let code: Vec<&str> = files.lines().filter(is_code).collect();
    code.get(code.len() / 2).copied().expect("the repository has code").to_owned()
}

fn this_repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The word behind `--name` on the command line.
fn word(name: &str) -> Option<String> {
    std::env::args().skip_while(|word| word != name).nth(1)
}
