//! Summarizes a run of the model check from the lines that its binaries print.
//!
//! The lines are those of the crate `proof`: `#SEED PROMISE`, below it `  ours: …` and one `  naive (TWIN):
//! …` for each twin, and at the end of a binary `N passed, M failed`. Of the harness of ordinary tests only
//! the result line counts. Any other line is output of the explorers and passes.

use std::fmt;

/// The cases seen so far.
#[derive(Debug, Default)]
pub(crate) struct ModelCheckSummary {
    cases: Vec<CaseSummary>,
    binaries_with_cases: usize,
    cases_before_binary: usize,
    tests_passed: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct CaseSummary {
    seed: String,
    promise: String,
    ours: String,
    twins: Vec<String>,
}

impl ModelCheckSummary {
    pub(crate) fn see(&mut self, line: &str) {
        if let Some((seed, promise)) = title(line) {
            let ours = "ours: no answer".to_owned();
            self.cases.push(CaseSummary { seed, promise, ours, twins: Vec::new() });
        } else if line.starts_with("  ours: ") {
            if let Some(case) = self.cases.last_mut() {
                case.ours = line.trim().to_owned();
            }
        } else if line.starts_with("  naive (") {
            if let Some(case) = self.cases.last_mut() {
                case.twins.push(line.trim().to_owned());
            }
        } else if is_end_of_binary(line) {
            self.binaries_with_cases += usize::from(self.cases.len() > self.cases_before_binary);
            self.cases_before_binary = self.cases.len();
        } else if let Some(passed) = tests_passed(line) {
            self.tests_passed += passed;
        }
    }

    /// Returns how many binaries came to their end and had a case to show.
    pub(crate) fn binaries_with_cases(&self) -> usize {
        self.binaries_with_cases
    }

    /// Returns how many tests of the ordinary harness passed.
    pub(crate) fn tests_passed(&self) -> u64 {
        self.tests_passed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cases.is_empty() && self.tests_passed == 0
    }
}

impl CaseSummary {
    fn twins_found(&self) -> usize {
        self.twins.iter().filter(|twin| !twin.contains("): NOT FOUND")).count()
    }
}

impl fmt::Display for ModelCheckSummary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            |of: fn(&CaseSummary) -> &String| self.cases.iter().map(|case| of(case).chars().count()).max();
        let seeds = width(|case| &case.seed).unwrap_or(0);
        let promises = width(|case| &case.promise).unwrap_or(0);
        let ours = width(|case| &case.ours).unwrap_or(0);
        for case in &self.cases {
            let found = match case.twins.len() {
                0 => "no twin".to_owned(),
                twins => format!("twins found: {} of {twins}", case.twins_found()),
            };
            writeln!(
                formatter,
                "{:seeds$}  {:promises$}  {:ours$}  {found}",
                case.seed, case.promise, case.ours
            )?;
            for twin in &case.twins {
                writeln!(formatter, "{:seeds$}    {twin}", "")?;
            }
        }
        if self.tests_passed > 0 {
            writeln!(
                formatter,
                "whole state space of the lease protocol: tests passed: {}",
                self.tests_passed
            )?;
        }
        Ok(())
    }
}

/// `#7088` and `no failure is lost` of `#7088 no failure is lost`.
fn title(line: &str) -> Option<(String, String)> {
    let (seed, promise) = line.split_once(' ')?;
    let is_seed = seed.len() > 1 && seed.starts_with('#') && !seed[1..].contains(['#', '[', '!']);
    is_seed.then(|| (seed.to_owned(), promise.trim().to_owned()))
}

fn is_end_of_binary(line: &str) -> bool {
    let Some((passed, failed)) = line.split_once(" passed, ") else {
        return false;
    };
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    is_number(passed) && failed.strip_suffix(" failed").is_some_and(is_number)
}

/// `3` of `test result: ok. 3 passed; 0 failed; …`.
fn tests_passed(line: &str) -> Option<u64> {
    line.strip_prefix("test result: ok. ")?.split_once(" passed;")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(lines: &str) -> ModelCheckSummary {
        let mut summary = ModelCheckSummary::default();
        lines.lines().for_each(|line| summary.see(line));
        summary
    }

    const RUN: &str = "\
loom, at most 3 preemptions
#7088 no failure is lost
  ours: holds in 1204 executions
  naive (load then store): lost increment found after 2
  naive (two words): NOT FOUND: expected `open for ever`, child ended with exit status: 1
#token no cancel is lost
  ours: BROKEN after 7 executions
3 passed, 2 failed
";

    #[test]
    fn a_run_is_shown_as_a_row_per_case_with_its_twins_below() {
        let expected = "\
#7088   no failure is lost  ours: holds in 1204 executions  twins found: 1 of 2
          naive (load then store): lost increment found after 2
          naive (two words): NOT FOUND: expected `open for ever`, child ended with exit status: 1
#token  no cancel is lost   ours: BROKEN after 7 executions  no twin
";
        let normal = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(normal(&seen(RUN).to_string()), normal(expected));
    }

    #[test]
    fn a_binary_without_cases_is_not_counted_as_one_that_explored() {
        assert_eq!(seen(RUN).binaries_with_cases(), 1);
        assert_eq!(seen("loom, at most 3 preemptions\n0 passed, 0 failed\n").binaries_with_cases(), 0);
        assert_eq!(seen(&format!("{RUN}{RUN}")).binaries_with_cases(), 2);
    }

    #[test]
    fn a_case_that_never_answered_is_shown_as_such() {
        assert!(seen("#7088 no failure is lost\n").to_string().contains("ours: no answer"));
    }

    #[test]
    fn other_output_is_not_a_case() {
        let summary = seen("#[derive(Debug)] struct X\n# heading\nrunning 1 test\n");
        assert!(summary.is_empty(), "{summary}");
    }

    #[test]
    fn passed_tests_of_the_ordinary_harness_count() {
        let result =
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.01s\n";
        assert_eq!(seen(result).tests_passed(), 3);
        assert!(!seen(result).is_empty());
    }
}
