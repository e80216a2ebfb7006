//! Git under isolation: a copy that hides the repository it borrows from still works, and cannot write to it.

use std::path::Path;

use domain::RootIndex;
use sandbox::command::{CommandSpec, ExitKind};
use sandbox::isolation::{Isolation, IsolationBackend};
use sandbox::{OpenRequest, RootSpec, Sandbox, SandboxStrategy, StrategyChoice};

use super::command_stage::{CommandFixture, as_root_and_ordinary, child, pair, rungs, shown, text};
use super::ladder_stage::{git, tree};

/// A stage in `dir` whose project is a repository: one commit packed, one loose, one change staged.
fn repository(dir: &Path) -> CommandFixture {
    let stage = CommandFixture::at(dir);
    let project = stage.path("project");
    std::fs::create_dir(&project).unwrap();
    git(&project, &["init", "-q", "-b", "main"]);
    let add = |file: &str| {
        std::fs::write(project.join(file), format!("{file}\n")).unwrap();
        git(&project, &["add", file]);
    };
    add("a");
    git(&project, &["commit", "-q", "-m", "packed"]);
    git(&project, &["repack", "-a", "-d", "-q"]);
    add("b");
    git(&project, &["commit", "-q", "-m", "loose"]);
    add("c");
    stage
}

fn open(stage: &CommandFixture, rung: SandboxStrategy) -> Sandbox {
    let roots = vec![RootSpec { no: RootIndex(0), path: stage.path("project"), read_only: false }];
    let dir = stage.path("sandboxes/plan-1");
    sandbox::open(OpenRequest { dir, roots, choice: StrategyChoice::Only(rung), include: Vec::new() })
        .unwrap()
}

fn run(
    stage: &CommandFixture,
    rung: IsolationBackend,
    sandbox: &Sandbox,
    hide: bool,
    script: &str,
) -> String {
    let mut spec = CommandSpec {
        hide: if hide { vec![stage.path("sandboxes")] } else { Vec::new() },
        ..stage.command(["sh", "-ec", script])
    };
    spec.env.retain(|(name, _)| name != "HOME");
    spec.env.extend([pair("HOME", stage.path("home")), pair("GIT_CONFIG_GLOBAL", "/dev/null")]);
    for name in ["AUTHOR", "COMMITTER"] {
        spec.env.push(pair(&format!("GIT_{name}_NAME"), "t"));
        spec.env.push(pair(&format!("GIT_{name}_EMAIL"), "t@example.org"));
    }
    let ended = Isolation::only(rung, child()).start(sandbox.view().unwrap(), spec).unwrap().wait();
    assert_eq!(ended.how, ExitKind::Exited(0), "{rung}: {}{}", text(&ended.stdout), text(&ended.stderr));
    text(&ended.stdout)
}

#[test]
fn git_works_in_a_copy_that_hides_the_repository_it_borrows_from() {
    as_root_and_ordinary(
        "cases::isolation_git::git_works_in_a_copy_that_hides_the_repository_it_borrows_from",
        || {
            for rung in rungs().into_iter().filter(|rung| *rung != IsolationBackend::None) {
                // Below a private directory, in a place that commands see, and below a hidden one.
                for (opened, parent, hide) in [
                    (SandboxStrategy::Worktree, "/tmp", false),
                    (SandboxStrategy::Copy, "/var/tmp", false),
                    (SandboxStrategy::Worktree, "/var/tmp", true),
                ] {
                    let dir = tempfile::tempdir_in(parent).unwrap();
                    let stage = repository(dir.path());
                    let users = stage.path("project/.git");
                    let before = tree(&users);
                    let sandbox = open(&stage, opened);
                    let script = "git log --format=%s; git status --porcelain; git commit -qm mine; \
                        git fsck; git log --format=%s -1; git show HEAD~2:a";
                    let printed = run(&stage, rung, &sandbox, hide, script);
                    let case = format!("{rung} {opened} {parent} {hide}");
                    assert_eq!(printed, "loose\npacked\nA  c\nmine\na\n", "{case}");
                    // A later command sees the commit of an earlier one.
                    let printed = run(&stage, rung, &sandbox, hide, "git log --format=%s");
                    assert_eq!(printed, "mine\nloose\npacked\n", "{case}");
                    sandbox.close().unwrap();
                    assert!(tree(&users) == before, "{case}: the user's repository has changed");
                }
            }
        },
    );
}

#[test]
fn what_a_copy_borrows_cannot_be_written_even_by_who_looks_for_it() {
    as_root_and_ordinary(
        "cases::isolation_git::what_a_copy_borrows_cannot_be_written_even_by_who_looks_for_it",
        || {
            let dir = tempfile::tempdir_in("/var/tmp").unwrap();
            let stage = repository(dir.path());
            let before = tree(&stage.path("project/.git"));
            let sandbox = open(&stage, SandboxStrategy::Copy);
            let borrowed = sandbox.view().unwrap().roots[0].borrowed().unwrap();
            let [lent] = &borrowed[..] else { panic!("{borrowed:?}") };
            let script = format!(
                "cd {} && test -d pack && echo seen; echo x > x || echo kept; chmod 777 . || echo kept; \
                 rm -rf pack info ?? 2> /dev/null || echo kept",
                shown(&lent.at)
            );
            for rung in rungs() {
                if matches!(rung, IsolationBackend::Namespaces | IsolationBackend::Bubblewrap) {
                    let printed = run(&stage, rung, &sandbox, true, &script);
                    assert_eq!(printed, "seen\nkept\nkept\nkept\n", "{rung}");
                }
            }
            assert!(tree(&stage.path("project/.git")) == before);
        },
    );
}
