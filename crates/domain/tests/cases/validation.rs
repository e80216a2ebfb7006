//! Checks, summed up: what blocks an apply and what does not.

use domain::*;

fn check(name: &str, mode: ValidationMode) -> Validation {
    let (root, cwd) = Default::default();
    Validation {
        name: name.to_owned(),
        run: CommandLine::Shell("true".to_owned()),
        mode,
        timeout_s: 60,
        root,
        cwd,
        needs_trust: false,
    }
}

fn result(name: &str, outcome: ValidationOutcome, net: &Hash) -> ValidationResult {
    ValidationResult {
        validation: name.to_owned(),
        // A result says of which mode its check was; the plan's own word counts.
        mode: ValidationMode::Informational,
        outcome,
        message: String::new(),
        duration_ms: 1,
        attempt: 1,
        call: CallNumber(1),
        net_hash: net.to_string(),
        base_stamp: serde_json::Value::Null,
    }
}

const REQUIRED: ValidationMode = ValidationMode::Required;
const INFO: ValidationMode = ValidationMode::Informational;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn checks_are_summed_up_as_the_table_says() {
    use ValidationOutcome::{Errored, Failed, Passed};
    let (now, old) = (Hash::from_content(b"now"), Hash::from_content(b"old"));
    type Row<'a> = (
        &'a str,
        Vec<Validation>,
        Vec<ValidationResult>,
        (&'a str, usize, usize, Vec<String>, Vec<String>, Vec<String>),
        bool,
    );
    let a = || vec![check("a", REQUIRED)];
    let rows: Vec<Row<'_>> = vec![
        ("no checks", vec![], vec![result("a", Failed, &now)], ("none", 0, 0, vec![], vec![], vec![]), true),
        ("passed", a(), vec![result("a", Passed, &now)], ("passed", 1, 1, vec![], vec![], vec![]), true),
        (
            "failed",
            a(),
            vec![result("a", Failed, &now)],
            ("failed", 0, 1, names(&["a"]), vec![], vec![]),
            false,
        ),
        (
            "errored",
            a(),
            vec![result("a", Errored, &now)],
            ("failed", 0, 1, names(&["a"]), vec![], vec![]),
            false,
        ),
        ("not run", a(), vec![], ("not_run", 0, 1, vec![], names(&["a"]), vec![]), false),
        (
            "passed for other changes",
            a(),
            vec![result("a", Passed, &old)],
            ("not_run", 0, 1, vec![], names(&["a"]), vec![]),
            false,
        ),
        (
            "the latest counts",
            a(),
            vec![result("a", Failed, &now), result("a", Passed, &now)],
            ("passed", 1, 1, vec![], vec![], vec![]),
            true,
        ),
        (
            "the latest for these changes counts",
            a(),
            vec![result("a", Failed, &now), result("a", Passed, &old)],
            ("failed", 0, 1, names(&["a"]), vec![], vec![]),
            false,
        ),
        (
            "informational ones never block",
            vec![check("a", INFO), check("b", INFO), check("c", INFO), check("d", INFO)],
            vec![result("a", Failed, &now), result("b", Errored, &now), result("c", Passed, &now)],
            ("passed", 0, 0, vec![], vec![], names(&["a", "b"])),
            true,
        ),
        (
            "all together; a failed one says more than one that did not run",
            vec![check("a", REQUIRED), check("b", REQUIRED), check("c", REQUIRED), check("d", INFO)],
            vec![result("d", Failed, &now), result("b", Failed, &now), result("a", Passed, &now)],
            ("failed", 1, 3, names(&["b"]), names(&["c"]), names(&["d"])),
            false,
        ),
    ];
    for (what, validations, results, expected, lets_through) in rows {
        let (verdict, passed, required, failed, not_run, warned) = expected;
        let expected =
            ValidationSummary { verdict, passed, required, failed, not_run, warned, ..Default::default() };
        let summary = sum_up(&validations, &results, &now);
        assert_eq!(summary, expected, "{what}");
        assert_eq!(summary.lets_through(), lets_through, "{what}");
        assert_eq!(
            summary.may_be_applied(),
            summary.failed.is_empty(),
            "{what}: apply runs what has not run"
        );
    }
}

#[test]
fn apply_begins_if_it_can_run_all_that_has_not_run_and_nothing_else_failed() {
    let rows: [(&str, [&[&str]; 4], bool, bool); 6] = [
        ("all have run", [&[], &[], &[], &[]], true, false),
        ("one got trust since", [&[], &["a"], &[], &["a"]], true, false),
        ("one has no trust", [&[], &["a"], &["a"], &[]], false, true),
        ("one has trust, another has none", [&[], &["a", "b"], &["a"], &["b"]], false, true),
        ("one is the user's own", [&[], &["a", "b"], &[], &["b"]], true, false),
        ("one failed", [&["a"], &["b"], &[], &["b"]], false, false),
    ];
    for (what, [failed, not_run, untrusted, trusted_since], may_be_applied, waits_for_trust) in rows {
        let summary = ValidationSummary {
            failed: names(failed),
            not_run: names(not_run),
            untrusted: names(untrusted),
            trusted_since: names(trusted_since),
            ..Default::default()
        };
        let said = (summary.may_be_applied(), summary.waits_for_trust());
        assert_eq!(said, (may_be_applied, waits_for_trust), "{what}");
    }
}
