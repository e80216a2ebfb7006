//! A project's newest commits: what is told, and that nothing in a repository makes git run anything.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use sandbox::git::log::{GitHistory, GitLog, GitLogError};

fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgSign=false"])
        .args(["-c", "protocol.file.allow=always", "-c", "uploadpack.allowFilter=true"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(dir: &Path, at: &str, text: &str, message: &str) -> String {
    let file = dir.join(at);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", message]);
    git(dir, &["rev-parse", "HEAD"])
}

fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q", "-b", "main"]);
    dir
}

fn never() -> bool {
    false
}

fn log(dir: &Path, stop_at: Option<&str>, max: u32) -> GitLog {
    GitHistory::around(dir).unwrap().log(stop_at, max, 30, &never).unwrap()
}

fn lines(log: &GitLog) -> Vec<String> {
    let line = |commit: &sandbox::git::log::GitCommit| {
        let paths: Vec<String> = commit.paths.iter().map(ToString::to_string).collect();
        format!("{}: {}", commit.message.replace('\n', "⏎"), paths.join(" "))
    };
    log.commits.iter().map(line).collect()
}

#[test]
fn commits_are_told_the_newest_first_without_merges() {
    let dir = repository();
    let root = dir.path();
    assert_eq!(GitHistory::around(root).unwrap().head(&never).unwrap(), None);
    let first = commit(root, "a\nb.rs", "1", "first\n\nbody\nof it");
    git(root, &["checkout", "-q", "-b", "side"]);
    commit(root, "d/side.rs", "1", "side");
    git(root, &["checkout", "-q", "main"]);
    commit(root, "c.rs", "1", "main");
    git(root, &["merge", "-q", "--no-ff", "-m", "merge", "side"]);
    git(root, &["commit", "-q", "--allow-empty", "-m", "empty"]);
    let head = git(root, &["rev-parse", "HEAD"]);
    assert_eq!(GitHistory::around(root).unwrap().head(&never).unwrap(), Some(head.clone()));
    let all = log(root, None, 10);
    let mut told = lines(&all);
    told[1..3].sort();
    assert_eq!(told, ["empty: ", "main: c.rs", "side: d/side.rs", r"first⏎⏎body⏎of it: a\x0Ab.rs"]);
    assert!(!all.joins);
    assert_eq!(all.commits.last().unwrap().oid, first);
    assert_eq!(lines(&log(root, None, 1)), ["empty: "]);
    let since = log(root, Some(&first), 10);
    assert_eq!((since.commits.len(), since.joins), (3, true));
    assert_eq!(log(root, Some(&head), 10), GitLog { commits: Vec::new(), joins: true });
}

#[test]
fn paths_are_those_below_the_project() {
    let dir = repository();
    let root = dir.path();
    commit(root, "web/a.ts", "1", "web");
    commit(root, "api/b.go", "1", "api");
    assert_eq!(lines(&log(&root.join("web"), None, 10)), ["api: ", "web: a.ts"]);
}

#[test]
fn of_a_wide_commit_only_so_many_paths_are_told() {
    let dir = repository();
    for number in 0..100 {
        fs::write(dir.path().join(format!("f{number}")), "x").unwrap();
    }
    commit(dir.path(), "a", "1", "wide");
    assert_eq!(log(dir.path(), None, 10).commits[0].paths.len(), 31);
}

#[test]
fn a_head_that_was_rewritten_does_not_join() {
    let dir = repository();
    let root = dir.path();
    commit(root, "a", "1", "first");
    let old = commit(root, "a", "2", "second");
    git(root, &["commit", "-q", "--amend", "-m", "other"]);
    let after = log(root, Some(&old), 10);
    assert_eq!((lines(&after), after.joins), (vec!["other: a".to_owned(), "first: a".to_owned()], false));
    let unknown = log(root, Some(&"0".repeat(40)), 10);
    assert_eq!((unknown.commits.len(), unknown.joins), (2, false));
    assert_eq!(log(root, Some("--output=x"), 10).commits.len(), 2);
}

#[test]
fn a_shallow_clone_tells_what_it_has() {
    let dir = repository();
    commit(dir.path(), "a", "1", "first");
    commit(dir.path(), "b", "2", "second");
    let clone = tempfile::tempdir().unwrap();
    let from = format!("file://{}", dir.path().display());
    git(clone.path(), &["clone", "-q", "--depth", "1", &from, "c"]);
    // The last there is has all files for its change, since nothing is known before it.
    let clone = clone.path().join("c");
    assert_eq!(lines(&log(&clone, None, 10)), ["second: a b"]);
    let cut_at = |dir: &Path| GitHistory::around(dir).unwrap().cut_at();
    assert_eq!((cut_at(&clone).is_empty(), cut_at(dir.path()).as_str()), (false, ""));
    git(&clone, &["fetch", "-q", "--unshallow"]);
    assert_eq!((cut_at(&clone).as_str(), lines(&log(&clone, None, 10)).len()), ("", 2));
}

#[test]
fn a_partial_clone_fetches_nothing() {
    let dir = repository();
    commit(dir.path(), "d/a", "1", "first");
    commit(dir.path(), "d/b", "2", "second");
    let clone = tempfile::tempdir().unwrap();
    let from = format!("file://{}", dir.path().display());
    git(dir.path(), &["config", "uploadpack.allowFilter", "true"]);
    git(clone.path(), &["clone", "-q", "--no-checkout", "--filter=tree:0", &from, "c"]);
    let root = clone.path().join("c");
    let tripped = clone.path().join("tripped");
    let script = tripwire(clone.path(), "upload", &tripped);
    git(&root, &["config", "remote.origin.uploadpack", &script]);
    let history = GitHistory::around(&root).unwrap();
    assert!(matches!(history.log(None, 10, 30, &never), Err(GitLogError::Failed { .. })));
    assert!(!tripped.exists());
}

/// A program that leaves a trace when it is run.
fn tripwire(dir: &Path, name: &str, tripped: &Path) -> String {
    let script = dir.join(name);
    fs::write(&script, format!("#!/bin/sh\necho {name} >> '{}'\nexit 1\n", tripped.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script.display().to_string()
}

#[test]
fn no_program_that_a_repository_names_is_run() {
    let dir = repository();
    let root = dir.path();
    let beside = tempfile::tempdir().unwrap();
    let tripped = beside.path().join("tripped");
    let trap = |name: &str| tripwire(beside.path(), name, &tripped);
    fs::write(root.join(".gitattributes"), "* diff=trap filter=trap\n").unwrap();
    let first = commit(root, "a", "1", "first");
    let signer = beside.path().join("signer");
    let signature = "-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n";
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\nprintf '\\n[GNUPG:] SIG_CREATED x\\n' >&2\nprintf -- '{signature}'\n"
    );
    fs::write(&signer, script).unwrap();
    fs::set_permissions(&signer, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(root.join("a"), "2").unwrap();
    let by = format!("gpg.program={}", signer.display());
    git(root, &["-c", &by, "commit", "-q", "-a", "-S", "-m", "second"]);
    for (key, value) in [
        ("core.fsmonitor", trap("fsmonitor")),
        ("core.pager", trap("pager")),
        ("pager.log", trap("pager-log")),
        ("core.sshCommand", trap("ssh")),
        ("core.editor", trap("editor")),
        ("core.askPass", trap("askpass")),
        ("diff.external", trap("external")),
        ("diff.trap.command", trap("driver")),
        ("diff.trap.textconv", trap("textconv")),
        ("filter.trap.smudge", trap("smudge")),
        ("filter.trap.clean", trap("clean")),
        ("gpg.program", trap("gpg")),
        ("log.showSignature", "true".to_owned()),
        ("log.follow", "true".to_owned()),
        ("color.ui", "always".to_owned()),
        ("diff.relative", "false".to_owned()),
        ("alias.log", format!("!{}", trap("alias"))),
        ("alias.rev-parse", format!("!{}", trap("alias-2"))),
        ("format.pretty", "oneline".to_owned()),
    ] {
        git(root, &["config", key, &value]);
    }
    for hook in ["post-index-change", "reference-transaction", "pre-auto-gc"] {
        fs::copy(trap("hook"), root.join(".git/hooks").join(hook)).unwrap();
    }
    let history = GitHistory::around(root).unwrap();
    assert!(history.head(&never).unwrap().is_some());
    assert_eq!(lines(&log(root, None, 10)), ["second: a", "first: .gitattributes a"]);
    assert_eq!(lines(&log(root, Some(&first), 10)), ["second: a"]);
    let trace = fs::read_to_string(&tripped).unwrap_or_default();
    assert_eq!(trace, "");
    // The traps themselves work.
    let _ = Command::new("git").arg("-C").arg(root).args(["--paginate", "show", "-p", "--ext-diff"]).output();
    let trace = fs::read_to_string(&tripped).unwrap_or_default();
    assert!(trace.contains("gpg") && trace.contains("driver"), "{trace}");
}

#[test]
fn git_is_dead_when_the_call_returns_stopped() {
    let dir = repository();
    let root = dir.path();
    commit(root, "a", "1", "first");
    // A file that git waits for: it never ends by itself.
    let order = root.join("order");
    rustix::fs::mknodat(rustix::fs::CWD, &order, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    git(root, &["config", "diff.orderFile", &order.display().to_string()]);
    let history = GitHistory::around(root).unwrap();
    let looks = std::cell::Cell::new(0);
    let is_over = || {
        looks.set(looks.get() + 1);
        looks.get() > 3
    };
    assert!(matches!(history.log(None, 10, 30, &is_over), Err(GitLogError::Stopped)));
    // Nobody has the pipe open for reading any more.
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
    let opened = rustix::fs::open(&order, flags, rustix::fs::Mode::empty());
    assert_eq!(opened.map(drop), Err(rustix::io::Errno::NXIO));
}

#[test]
fn where_there_is_no_repository_there_is_no_history() {
    let dir = tempfile::tempdir().unwrap();
    assert!(GitHistory::around(dir.path()).is_none());
    let broken = repository();
    fs::write(broken.path().join(".git/config"), "[core\n").unwrap();
    let history = GitHistory::around(broken.path()).unwrap();
    assert!(matches!(history.head(&never), Err(GitLogError::Failed { .. })));
}

#[test]
fn the_newest_commit_is_told_without_git_where_files_say_it() {
    let dir = repository();
    let root = dir.path();
    let first = commit(root, "a", "1", "first");
    git(root, &["checkout", "-q", "-b", "topic/one"]);
    let second = commit(root, "a", "2", "second");
    let beside = tempfile::tempdir().unwrap();
    let tree = beside.path().join("tree");
    git(root, &["worktree", "add", "-q", tree.to_str().unwrap(), "main"]);
    let config = fs::read(root.join(".git/config")).unwrap();
    // Git itself says nothing while its settings cannot be read.
    let head = |at: &Path| {
        fs::write(root.join(".git/config"), "[core\n").unwrap();
        let told = GitHistory::around(at).unwrap().head(&never);
        fs::write(root.join(".git/config"), &config).unwrap();
        told.ok()
    };
    assert_eq!(head(root), Some(Some(second.clone())), "a branch");
    assert_eq!(head(&tree), Some(Some(first.clone())), "another working tree");
    git(root, &["pack-refs", "--all"]);
    assert!(!root.join(".git/refs/heads/topic/one").exists());
    assert_eq!(head(root), Some(Some(second.clone())), "a packed branch");
    let third = commit(root, "a", "3", "third");
    assert_eq!(head(root), Some(Some(third)), "a branch that moved since it was packed");
    let branch = root.join(".git/refs/heads/topic/one");
    fs::write(&branch, fs::read_to_string(&branch).unwrap().trim_end()).unwrap();
    assert_eq!(head(root), None, "git is asked what a line without an end means, and not the packed ones");
    git(root, &["checkout", "-q", "--detach", &first]);
    assert_eq!(head(root), Some(Some(first.clone())), "no branch");
    git(root, &["checkout", "-q", "--orphan", "empty"]);
    assert_eq!(head(root), None, "git is asked about a branch without a commit");
    for text in
        ["ref: refs/bisect/main\n", "ref: ../../etc/passwd\n", "ref: refs/heads/main\nmore\n", "nothing", ""]
    {
        fs::write(root.join(".git/HEAD"), text).unwrap();
        assert_eq!(head(root), None, "git is asked what {text:?} means");
    }
    fs::write(root.join(".git/HEAD"), "ref: refs/heads/linked\n").unwrap();
    std::os::unix::fs::symlink("main", root.join(".git/refs/heads/linked")).unwrap();
    assert_eq!(head(root), None, "git is asked where a link leads");
}

#[test]
fn a_commit_that_is_not_there_has_no_history() {
    let dir = repository();
    let root = dir.path();
    commit(root, "a", "1", "first");
    fs::write(root.join(".git/HEAD"), format!("{}\n", "12345678".repeat(5))).unwrap();
    assert_eq!(log(root, None, 10), GitLog::default());
}
