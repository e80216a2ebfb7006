//! What is printed: tables, rows with intervals, and whether the gate holds.
//!
//! # Invariants
//! 1. The recall of many queries is the mean of each one's; a query without symbols or lines to find has no
//!    part in those.
//! 2. Rivals are compared on the queries that both answered.

use super::bootstrap::{Interval, interval};
use super::shown::Recall;

/// What may be shown, in tokens.
pub(crate) const BUDGETS: [u32; 3] = [1024, 4096, 16_384];

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    Keyword,
    Bm25,
    /// As it is given.
    Aider,
    /// Without what is over the budget.
    AiderCut,
}

impl Who {
    const ALL: [Who; 5] = [Who::Ours, Who::Keyword, Who::Bm25, Who::Aider, Who::AiderCut];
    const RIVALS: [Who; 4] = [Who::Keyword, Who::Bm25, Who::Aider, Who::AiderCut];

    fn name(self) -> &'static str {
        match self {
            Who::Ours => "ours",
            Who::Keyword => "keyword",
            Who::Bm25 => "bm25",
            Who::Aider => "aider",
            Who::AiderCut => "aider-cut",
        }
    }
}

/// What was known of the tree before the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Temperature {
    /// Nothing.
    Cold,
    /// The tree at another commit.
    Moved,
    /// This tree.
    Warm,
}

/// One answer to one query.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) who: Who,
    /// Which of [`BUDGETS`].
    pub(crate) number: usize,
    pub(crate) temperature: Temperature,
    pub(crate) recall: Recall,
    pub(crate) tokens: u32,
    pub(crate) cpu_s: f64,
    /// How many strategies failed or ran out of time.
    pub(crate) failed: usize,
}

/// A query and what everybody said.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) names_a_file: bool,
    pub(crate) answers: Vec<Answer>,
}

impl Asked {
    fn answer(&self, who: Who, number: usize) -> Option<&Answer> {
        self.answers.iter().find(|answer| answer.who == who && answer.number == number)
    }
}

/// What is measured of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    File,
    Symbol,
    Line,
}

impl Measure {
    const ALL: [Measure; 3] = [Measure::File, Measure::Symbol, Measure::Line];

    fn name(self) -> &'static str {
        match self {
            Measure::File => "file",
            Measure::Symbol => "symbol",
            Measure::Line => "line",
        }
    }

    /// In percent.
    fn of(self, recall: &Recall) -> Option<f64> {
        let share = match self {
            Measure::File => Some(recall.file),
            Measure::Symbol => recall.symbol,
            Measure::Line => recall.line,
        };
        share.map(|share| share * 100.0)
    }
}

/// One line about one query.
pub(crate) fn line(commit: &str, text: &str, asked: &Asked) -> String {
    let mut told = commit.get(..10).unwrap_or(commit).to_owned();
    for who in [Who::Ours, Who::Bm25] {
        for measure in Measure::ALL {
            told += &format!(" {} {}", who.name(), measure.name());
            for number in 0..BUDGETS.len() {
                let value = asked.answer(who, number).and_then(|answer| measure.of(&answer.recall));
                told += &value.map_or(" -".to_owned(), |value| format!(" {value:.0}"));
            }
        }
    }
    format!("{told} | {}", text.lines().next().unwrap_or_default())
}

/// The table of some queries.
pub(crate) fn table(title: &str, all: &[Asked]) {
    println!("\n{title}: {} queries; recall in % at 1k / 4k / 16k tokens", all.len());
    println!(
        "{:<10} {:>20} {:>20} {:>20} {:>16} {:>9} {:>9}",
        "", "file", "symbol", "line", "over the budget", "cold cpu", "warm cpu"
    );
    for who in Who::ALL {
        if all.iter().all(|asked| asked.answer(who, 0).is_none()) {
            continue;
        }
        let cell = |measure: Measure| {
            let values = (0..BUDGETS.len()).map(|number| format!("{:.1}", mean(all, who, number, measure)));
            values.collect::<Vec<_>>().join(" / ")
        };
        let cpu = |temperature| told_seconds(cpu_s(all, who, temperature));
        println!(
            "{:<10} {:>20} {:>20} {:>20} {:>16} {:>9} {:>9}",
            who.name(),
            cell(Measure::File),
            cell(Measure::Symbol),
            cell(Measure::Line),
            over(all, who),
            cpu(Temperature::Cold),
            cpu(Temperature::Warm)
        );
    }
    let failed: usize = all.iter().flat_map(|asked| &asked.answers).map(|answer| answer.failed).sum();
    if failed > 0 {
        println!("{failed} runs of our strategies failed or ran out of time: is the machine busy?");
    }
}

/// Everything that is said of all repositories together.
pub(crate) fn all(all: &[Asked]) {
    table("all together", all);
    let (naming, others): (Vec<Asked>, Vec<Asked>) =
        all.iter().cloned().partition(|asked| asked.names_a_file);
    table("of these, those that name a changed file", &naming);
    table("and those that do not", &others);
    println!();
    let mut missed = Vec::new();
    for who in Who::RIVALS {
        for measure in Measure::ALL {
            for (number, budget) in BUDGETS.into_iter().enumerate() {
                let pairs = pairs(all, who, number, measure);
                if pairs.is_empty() {
                    continue;
                }
                let differences: Vec<f64> = pairs.iter().map(|(ours, peer)| ours - peer).collect();
                let found = interval(&differences);
                let average =
                    |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).sum::<f64>() / pairs.len() as f64;
                let (ours, peer) = (average(|pair| pair.0), average(|pair| pair.1));
                println!(
                    "bench recall_{}_{budget}/{} ours={ours:.1} peer={peer:.1} ratio={:.2} unit=percent \
                     difference={:+.1} interval={:+.1}..{:+.1}",
                    measure.name(),
                    who.name(),
                    ours / peer,
                    found.mean,
                    found.low,
                    found.high
                );
                if !holds(who, measure, number, &found) {
                    missed.push(format!("{} at {budget} against {}", measure.name(), who.name()));
                }
            }
        }
    }
    let over = all.iter().filter(|asked| (0..BUDGETS.len()).any(|number| is_over(asked, Who::Ours, number)));
    let over = over.count();
    if over > 0 {
        missed.push(format!("{over} of our texts are over the budget"));
    }
    let verdict =
        if missed.is_empty() { "holds".to_owned() } else { format!("does not hold: {}", missed.join("; ")) };
    println!("gate of {} queries: {verdict}", all.len());
}

/// Ours is above the rival for sure; of lines, BM25 need only not be above ours for sure, and not at the
/// least budget.
fn holds(who: Who, measure: Measure, number: usize, found: &Interval) -> bool {
    match (measure, who) {
        (Measure::Line, Who::Bm25) => number == 0 || found.high >= 0.0,
        (Measure::File | Measure::Symbol | Measure::Line, Who::Ours | Who::Keyword | Who::Bm25)
        | (Measure::File | Measure::Symbol | Measure::Line, Who::Aider | Who::AiderCut) => found.low > 0.0,
    }
}

fn pairs(all: &[Asked], who: Who, number: usize, measure: Measure) -> Vec<(f64, f64)> {
    let value =
        |asked: &Asked, who: Who| asked.answer(who, number).and_then(|answer| measure.of(&answer.recall));
    all.iter().filter_map(|asked| value(asked, Who::Ours).zip(value(asked, who))).collect()
}

fn mean(all: &[Asked], who: Who, number: usize, measure: Measure) -> f64 {
    let pairs = pairs(all, who, number, measure);
    pairs.iter().map(|(_, value)| value).sum::<f64>() / pairs.len() as f64
}

fn is_over(asked: &Asked, who: Who, number: usize) -> bool {
    asked.answer(who, number).is_some_and(|answer| answer.tokens > BUDGETS[number])
}

/// The share of texts over the budget, and by how much the worst is.
fn over(all: &[Asked], who: Who) -> String {
    let answers = || all.iter().flat_map(|asked| &asked.answers).filter(|answer| answer.who == who);
    let times = |answer: &Answer| f64::from(answer.tokens) / f64::from(BUDGETS[answer.number]);
    let over = answers().filter(|answer| times(answer) > 1.0).count() as f64;
    let worst = answers().map(times).fold(1.0, f64::max);
    let share = over / answers().count() as f64 * 100.0;
    if over == 0.0 { "0 %".to_owned() } else { format!("{share:.0} %, to {:.0} %", (worst - 1.0) * 100.0) }
}

/// The mean of what answers at this temperature cost; warm ones those at 4,096 tokens, where a process is
/// new.
fn cpu_s(all: &[Asked], who: Who, temperature: Temperature) -> f64 {
    let number = if temperature == Temperature::Warm { 1 } else { 0 };
    let answers = all.iter().filter_map(|asked| asked.answer(who, number));
    let seconds: Vec<f64> =
        answers.filter(|answer| answer.temperature == temperature).map(|answer| answer.cpu_s).collect();
    seconds.iter().sum::<f64>() / seconds.len() as f64
}

fn told_seconds(seconds: f64) -> String {
    if seconds.is_nan() { "-".to_owned() } else { format!("{seconds:.3} s") }
}
