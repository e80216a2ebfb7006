//! `--commit` and `--branch`: a commit of the plan's changes alone, made by a real git, moved to by the
//! journal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use domain::{RelPath, RootIndex};
use sandbox::git::refs::{
    CleanFilter, CommitFile, CommitRequest, CommitTarget, FilterProgram, GitError, RefMove, commit,
};
use sandbox::journal::{
    HookPoint, JournalEnding, JournalId, JournalKind, JournalStep, Request, RollbackReason,
};

use super::journal_stage::*;

const CHILD: &str = "cases::commit::killed_process";

fn git(root: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GIT_")) {
        command.env_remove(name);
    }
    // Maintenance that git starts in the background would outlive the call.
    let output =
        command.current_dir(root).args(["-c", "maintenance.auto=false"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A project under git with one commit of the tree.
fn repository(tree: &TestTree) -> JournalFixture {
    let stage = JournalFixture::new(tree);
    git(&stage.root, &["init", "-q", "-b", "main"]);
    for (name, value) in [("user.name", "A"), ("user.email", "a@example.com"), ("commit.gpgsign", "false")] {
        git(&stage.root, &["config", name, value]);
    }
    git(&stage.root, &["add", "-A"]);
    git(&stage.root, &["commit", "-q", "-m", "first", "--allow-empty"]);
    stage
}

fn commit_files(before: &TestTree, after: &TestTree) -> Vec<CommitFile> {
    let file = |change: sandbox::journal::JournalChange| CommitFile {
        path: change.path,
        before: change.pre,
        after: change.post,
    };
    changes(before, after).into_iter().map(file).collect()
}

fn make_commit(
    root: &Path,
    scratch: &Path,
    onto: CommitTarget,
    files: &[CommitFile],
) -> Result<RefMove, GitError> {
    commit(&CommitRequest {
        root,
        onto,
        message: "by the plan\n",
        files,
        content: &NoContentSource,
        merger: &OneHunk,
        cleaner: &NoCleaner,
        scratch,
    })
}

/// No program of a filter is wanted here.
struct NoCleaner;

impl CleanFilter for NoCleaner {
    fn clean(&self, filter: &FilterProgram, _: &Path, _: &RelPath, _: &[u8]) -> Result<Vec<u8>, String> {
        Err(format!("{} is not run here", filter.name))
    }
}

fn scratch(stage: &JournalFixture) -> PathBuf {
    stage.dir.path().join("scratch")
}

/// Applies the changes and moves the ref, as one journal.
fn apply_and_commit(stage: &JournalFixture, before: &TestTree, after: &TestTree) -> JournalEnding {
    let moved =
        make_commit(&stage.root, &scratch(stage), CommitTarget::Head, &commit_files(before, after)).unwrap();
    let request = Request { refs: vec![(RootIndex(0), moved)], ..stage.request(changes(before, after)) };
    carry_out(&stage.journals(), request).unwrap().retire().unwrap()
}

fn without_git(tree: TestTree) -> TestTree {
    tree.into_iter().filter(|(path, _)| !path.starts_with(".git/")).collect()
}

#[test]
fn a_commit_holds_the_plans_changes_and_nothing_else() {
    let before = tree([("a", file("a\n")), ("b", file("b\n")), ("x", file("x\n")), ("gone", file("g\n"))]);
    let stage = repository(&before);
    // Staged: b has a line more. Not staged: a begins with a line more. Untracked: mine.
    fs::write(stage.root.join("b"), "b\nstaged\n").unwrap();
    git(&stage.root, &["add", "b"]);
    fs::write(stage.root.join("a"), "unstaged\na\n").unwrap();
    fs::write(stage.root.join("mine"), "mine\n").unwrap();
    let mut found = before.clone();
    found.insert("a".into(), file("unstaged\na\n"));
    found.insert("b".into(), file("b\nstaged\n"));
    let mut left = found.clone();
    left.insert("a".into(), file("unstaged\na\nplan\n"));
    left.insert("b".into(), file("plan\nb\nstaged\n"));
    left.insert("x".into(), TestNode::File(b"x\n".to_vec(), 0o755));
    left.insert("new".into(), file("new\n"));
    left.remove("gone");
    let ending = apply_and_commit(&stage, &found, &left);
    assert!(matches!(ending, JournalEnding::Applied { .. }), "{ending:?}");

    let root = &stage.root;
    assert_eq!(git(root, &["log", "--format=%s|%an", "main"]), "by the plan|A\nfirst|A");
    assert_eq!(git(root, &["show", "HEAD:a"]), "a\nplan");
    assert_eq!(git(root, &["show", "HEAD:b"]), "plan\nb");
    assert_eq!(git(root, &["ls-tree", "HEAD", "x"]).split(' ').next(), Some("100755"));
    assert_eq!(git(root, &["ls-tree", "--name-only", "HEAD"]), "a\nb\nnew\nx");
    // What was staged is staged, what was not is not.
    assert_eq!(git(root, &["show", ":b"]), "plan\nb\nstaged");
    assert_eq!(git(root, &["show", ":a"]), "a\nplan");
    assert_eq!(git(root, &["status", "--porcelain"]), " M a\nM  b\n?? mine");
    assert_eq!(git(root, &["reflog", "-1", "--format=%gs"]), "agents: apply");
}

#[test]
fn who_commits_and_when_can_be_said_in_the_environment_and_nothing_else() {
    const NAME: &str = "cases::commit::who_commits_and_when_can_be_said_in_the_environment_and_nothing_else";
    if std::env::var_os("COMMIT_IDENTITY").is_none() {
        let variables = [
            ("COMMIT_IDENTITY", "1"),
            ("GIT_AUTHOR_NAME", "Author"),
            ("GIT_AUTHOR_EMAIL", "author@example.org"),
            ("GIT_AUTHOR_DATE", "1000000000 +0100"),
            ("GIT_COMMITTER_NAME", "Committer"),
            ("GIT_COMMITTER_EMAIL", "committer@example.org"),
            ("GIT_COMMITTER_DATE", "1100000000 +0000"),
            ("GIT_DIR", "/nowhere"),
            ("GIT_INDEX_FILE", "/nowhere"),
            ("GIT_OBJECT_DIRECTORY", "/nowhere"),
        ];
        let output = child(NAME, &variables).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let (before, after) = (tree([("a", file("a\n"))]), tree([("a", file("a\nplan\n"))]));
    let stage = repository(&before);
    let moved =
        make_commit(&stage.root, &scratch(&stage), CommitTarget::Head, &commit_files(&before, &after))
            .unwrap();
    let written = git(&stage.root, &["cat-file", "commit", moved.new.as_deref().unwrap()]);
    let who: Vec<&str> = written.lines().filter(|line| line.starts_with(['a', 'c'])).collect();
    assert_eq!(
        who,
        [
            "author Author <author@example.org> 1000000000 +0100",
            "committer Committer <committer@example.org> 1100000000 +0000"
        ]
    );
}

#[test]
fn a_change_that_cannot_be_told_apart_is_a_conflict() {
    let before = tree([("a", file("a\n")), ("bin", TestNode::File(b"\0one".to_vec(), 0o644))]);
    let stage = repository(&before);
    let mut found = before.clone();
    found.insert("a".into(), file("rewritten\n"));
    found.insert("bin".into(), TestNode::File(b"\0two".to_vec(), 0o644));
    found.insert("untracked".into(), file("u\n"));
    let mut left = found.clone();
    left.insert("a".into(), file("something else\n"));
    left.insert("bin".into(), TestNode::File(b"\0three".to_vec(), 0o644));
    left.insert("untracked".into(), file("u2\n"));
    match make_commit(&stage.root, &scratch(&stage), CommitTarget::Head, &commit_files(&found, &left)) {
        Err(GitError::Conflicts { paths }) => {
            assert_eq!(paths.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a", "bin", "untracked"]);
        }
        other => panic!("{other:?}"),
    }
    assert!(!scratch(&stage).exists());
    assert_eq!(git(&stage.root, &["log", "--format=%s"]), "first");
}

#[test]
fn a_branch_gets_the_commit_and_the_tree_stays() {
    let before = tree([("a", file("a\n"))]);
    let stage = repository(&before);
    let after = tree([("a", file("a\nplan\n")), ("sub/n", file("n\n"))]);
    let onto = || CommitTarget::NewBranch("plan/x".to_owned());
    let files = commit_files(&before, &after);
    let moved = make_commit(&stage.root, &scratch(&stage), onto(), &files).unwrap();
    let request = Request { refs: vec![(RootIndex(0), moved)], ..stage.request(vec![]) };
    carry_out(&stage.journals(), request).unwrap().retire().unwrap();
    assert_eq!(git(&stage.root, &["show", "plan/x:sub/n"]), "n");
    assert_eq!(git(&stage.root, &["rev-parse", "plan/x^"]), git(&stage.root, &["rev-parse", "main"]));
    assert_eq!(without_git(stage.survey()), before);
    assert_eq!(git(&stage.root, &["status", "--porcelain"]), "");
    let again = make_commit(&stage.root, &scratch(&stage), onto(), &files);
    assert!(matches!(again, Err(GitError::BranchExists { .. })), "{again:?}");
    for name in ["-", "a..b", "@{-1}", ""] {
        let refused =
            make_commit(&stage.root, &scratch(&stage), CommitTarget::NewBranch(name.to_owned()), &files);
        assert!(matches!(refused, Err(GitError::BadBranchName { .. })), "{name}: {refused:?}");
    }
    // Undone, it is gone.
    let undo = stage.journals().read_undo(ID).unwrap();
    let (root, moved) = undo.refs()[0].clone();
    let id = JournalId::from_u128(ID.as_u128() + 1);
    let request = Request {
        id,
        kind: JournalKind::Undo,
        refs: vec![(root, moved.reversed())],
        ..stage.request(vec![])
    };
    carry_out(&stage.journals(), request).unwrap().retire().unwrap();
    assert_eq!(git(&stage.root, &["branch", "--format=%(refname:short)"]), "main");
}

#[test]
fn a_project_below_the_top_a_detached_head_and_a_first_commit_work() {
    let before = tree([("deep/er/a", file("a\n")), ("top", file("t\n"))]);
    let stage = repository(&before);
    git(&stage.root, &["checkout", "-q", "--detach"]);
    let project = stage.root.join("deep/er");
    let (found, left) = (tree([("a", file("a\n"))]), tree([("a", file("a\nplan\n")), ("b", file("b\n"))]));
    let moved =
        make_commit(&project, &scratch(&stage), CommitTarget::Head, &commit_files(&found, &left)).unwrap();
    assert_eq!(moved.name, "HEAD");
    let request = Request { refs: vec![(RootIndex(0), moved)], ..request(&project, changes(&found, &left)) };
    carry_out(&stage.journals(), request).unwrap().retire().unwrap();
    assert_eq!(git(&stage.root, &["show", "HEAD:deep/er/b"]), "b");
    assert_eq!(git(&stage.root, &["show", "HEAD:top"]), "t");
    assert_eq!(git(&stage.root, &["log", "--format=%s", "main"]), "first");
    assert_eq!(git(&stage.root, &["status", "--porcelain"]), "");

    let empty = JournalFixture::new(&tree([]));
    git(&empty.root, &["init", "-q", "-b", "main"]);
    git(&empty.root, &["config", "user.name", "A"]);
    git(&empty.root, &["config", "user.email", "a@example.com"]);
    apply_and_commit(&empty, &tree([]), &tree([("f", file("f\n")), ("l", TestNode::Link(b"f".to_vec()))]));
    assert_eq!(git(&empty.root, &["log", "--format=%s"]), "by the plan");
    assert_eq!(git(&empty.root, &["status", "--porcelain"]), "");
    let outside = tempfile::tempdir().unwrap();
    let nowhere = make_commit(outside.path(), &scratch(&stage), CommitTarget::Head, &[]);
    assert!(matches!(nowhere, Err(GitError::NotARepository { .. })), "{nowhere:?}");
}

#[test]
fn contents_pass_through_gits_filters() {
    let before = tree([(".gitattributes", file("*.txt text eol=crlf\n")), ("a.txt", file("one\r\n"))]);
    let stage = repository(&before);
    let mut after = before.clone();
    after.insert("a.txt".into(), file("one\r\ntwo\r\n"));
    after.insert("raw".into(), file("kept\r\n"));
    apply_and_commit(&stage, &before, &after);
    let blob = |name: &str| git(&stage.root, &["cat-file", "-s", &format!("HEAD:{name}")]);
    assert_eq!((blob("a.txt").as_str(), blob("raw").as_str()), ("8", "6"));
    assert_eq!(git(&stage.root, &["status", "--porcelain"]), "");
}

#[test]
fn nothing_to_commit_and_a_merge_in_progress_are_said() {
    let before = tree([("a", file("a\n"))]);
    let stage = repository(&before);
    let nothing = make_commit(&stage.root, &scratch(&stage), CommitTarget::Head, &[]);
    assert!(matches!(nothing, Err(GitError::NothingToCommit)), "{nothing:?}");
    let head = git(&stage.root, &["rev-parse", "HEAD"]);
    fs::write(stage.root.join(".git/MERGE_HEAD"), head + "\n").unwrap();
    let after = tree([("a", file("a\nplan\n"))]);
    let refused =
        make_commit(&stage.root, &scratch(&stage), CommitTarget::Head, &commit_files(&before, &after));
    assert!(matches!(refused, Err(GitError::MergeInProgress)), "{refused:?}");
}

#[test]
fn a_ref_that_moved_meanwhile_takes_everything_back() {
    let before = tree([("a", file("a\n"))]);
    let stage = repository(&before);
    let after = tree([("a", file("a\nplan\n"))]);
    let moved =
        make_commit(&stage.root, &scratch(&stage), CommitTarget::Head, &commit_files(&before, &after))
            .unwrap();
    let request = Request { refs: vec![(RootIndex(0), moved)], ..stage.request(changes(&before, &after)) };
    let root = stage.root.clone();
    let hooks = at(JournalStep::Op { n: 1, at: HookPoint::Begin }, move || {
        git(&root, &["commit", "-q", "--allow-empty", "-m", "mine"]);
        Ok(())
    });
    let ending = carry_out(&stage.journals().with_hooks(hooks), request).unwrap().retire().unwrap();
    assert!(
        matches!(
            ending,
            JournalEnding::RolledBack { why: RollbackReason::Git { source: GitError::RefMoved { .. } }, .. }
        ),
        "{ending:?}"
    );
    assert_eq!(without_git(stage.survey()), before);
    assert_eq!(git(&stage.root, &["log", "--format=%s"]), "mine\nfirst");
}

#[test]
fn what_is_staged_in_the_last_moment_stays_staged() {
    let before = tree([("a", file("a\n")), ("b", file("b\n"))]);
    let stage = repository(&before);
    let after = tree([("a", file("a\nplan\n")), ("b", file("b\nplan\n"))]);
    let moved =
        make_commit(&stage.root, &scratch(&stage), CommitTarget::Head, &commit_files(&before, &after))
            .unwrap();
    let request = Request { refs: vec![(RootIndex(0), moved)], ..stage.request(changes(&before, &after)) };
    let root = stage.root.clone();
    let hooks = at(JournalStep::Op { n: 2, at: HookPoint::Begin }, move || {
        fs::write(root.join("a"), "staged now\n")?;
        git(&root, &["add", "a"]);
        Ok(())
    });
    let ending = carry_out(&stage.journals().with_hooks(hooks), request).unwrap().retire().unwrap();
    assert!(matches!(ending, JournalEnding::Applied { .. }), "{ending:?}");
    assert_eq!(git(&stage.root, &["show", ":a"]), "staged now");
    assert_eq!(git(&stage.root, &["show", ":b"]), "b\nplan");
    assert_eq!(git(&stage.root, &["show", "HEAD:a"]), "a\nplan");
}

#[test]
fn no_hook_of_the_repository_runs() {
    use std::os::unix::fs::PermissionsExt;
    let before = tree([("a", file("a\n"))]);
    let stage = repository(&before);
    for hook in ["reference-transaction", "pre-commit", "post-index-change", "commit-msg"] {
        let path = stage.root.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\ntouch {}\n", stage.dir.path().join("ran").display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    apply_and_commit(&stage, &before, &tree([("a", file("a\nplan\n"))]));
    assert_eq!(git(&stage.root, &["log", "-1", "--format=%s"]), "by the plan");
    assert!(!stage.dir.path().join("ran").exists());
}

/// The child applies and commits, and dies at step `KILL_AT`.
#[test]
fn killed_process() {
    let Ok(dir) = std::env::var("COMMIT_DIR") else { return };
    let dir = Path::new(&dir);
    let kill_at = std::env::var("KILL_AT").unwrap().parse().unwrap();
    let (before, after) = (tree([("a", file("a\n"))]), tree([("a", file("a\nplan\n"))]));
    let root = dir.join("project");
    let moved =
        make_commit(&root, &dir.join("scratch"), CommitTarget::Head, &commit_files(&before, &after)).unwrap();
    let request = Request { refs: vec![(RootIndex(0), moved)], ..request(&root, changes(&before, &after)) };
    carry_out(&journals(&dir.join("data")).with_hooks(nth(kill_at, die)), request).unwrap().retire().unwrap();
}

#[test]
fn a_kill_leaves_the_commit_with_the_files_or_neither() {
    let (before, after) = (tree([("a", file("a\n"))]), tree([("a", file("a\nplan\n"))]));
    for kill_at in 1.. {
        let stage = repository(&before);
        let variables =
            [("COMMIT_DIR", stage.dir.path().to_str().unwrap()), ("KILL_AT", &kill_at.to_string())];
        let killed = was_killed(&child(CHILD, &variables).output().unwrap());
        for settled in stage.journals().recover().unwrap().settled {
            settled.retire().unwrap();
        }
        let tree = without_git(stage.survey());
        let log = git(&stage.root, &["log", "--format=%s"]);
        assert_eq!(git(&stage.root, &["status", "--porcelain"]), "", "step {kill_at}");
        if tree == after {
            assert_eq!(log, "by the plan\nfirst");
        } else {
            assert_eq!((tree, log.as_str()), (before.clone(), "first"));
        }
        if !killed {
            assert!(kill_at > 8, "{kill_at}");
            break;
        }
    }
}

#[test]
fn a_path_of_the_repository_itself_is_never_written() {
    let refused = RelPath::new(".git/refs/heads/main").unwrap();
    let stage = repository(&tree([]));
    let changes = changes(&tree([]), &tree([(".git/refs/heads/main", file("x"))]));
    let prepared = stage.journals().prepare(stage.request(changes), &NoContentSource);
    assert!(matches!(prepared, Err(sandbox::journal::PrepareError::Protected { path }) if path == refused));
}
