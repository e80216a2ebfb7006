//! Git in a sandbox: everything works there, and nothing of it reaches the user's repository.

use std::fs;

use sandbox::SandboxStrategy;

use super::ladder_stage::{SandboxFixture, as_root_and_as_user, between, command_in, file, git, run, tree};

const RUNGS: [SandboxStrategy; 3] =
    [SandboxStrategy::Overlay, SandboxStrategy::Worktree, SandboxStrategy::Copy];

fn project() -> SandboxFixture {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    stage.write("b", "two\n");
    stage.commit_all();
    stage.git(&["branch", "other"]);
    stage.git(&["tag", "-a", "v1", "-m", "v1"]);
    stage.write("a", "staged\n");
    stage.git(&["add", "a"]);
    stage.write("a", "staged and more\n");
    stage.write("untracked", "u\n");
    stage
}

fn in_sandbox(sandbox: &sandbox::Sandbox, script: &str) -> String {
    super::ladder_stage::output(&mut command_in(sandbox.view().unwrap(), script))
}

#[test]
fn what_git_does_in_a_sandbox_leaves_the_users_repository_byte_for_byte() {
    as_root_and_as_user(
        "cases::ladder_git::what_git_does_in_a_sandbox_leaves_the_users_repository_byte_for_byte",
        || {
            for rung in RUNGS {
                let stage = project();
                let before = tree(&stage.project.join(".git"));
                let mut sandbox = stage.open(rung);
                run(
                    &sandbox,
                    "git commit -qam in-sandbox; git checkout -qb work; echo w > w; git add w; git commit -qm w
                    git tag t; git branch -D other; git config user.name else; git gc -q --prune=now; git fsck
                    git stash -q -u || true; git reset -q --hard v1; git log --oneline >/dev/null",
                );
                let drafts = stage.drafts(&mut sandbox);
                let not_captured = stage.scan(&mut sandbox).not_captured;
                sandbox.close().unwrap();
                assert_eq!(tree(&stage.project.join(".git")), before, "{rung}");
                assert!(not_captured.protected > 0, "{rung}");
                let changed = [
                    between("a", file("staged and more\n"), file("one\n")),
                    between("untracked", file("u\n"), None),
                ];
                assert_eq!(drafts, changed, "{rung}");
                stage.git(&["fsck", "--strict"]);
            }
        },
    );
}

#[test]
fn a_copy_looks_to_git_as_the_original_does() {
    const LOOK: &str = "git status --porcelain=v2 --branch; git show-ref -d; git log --format=%H --all; \
                        git diff; git diff --cached; git stash list | wc -l";
    for rung in [SandboxStrategy::Worktree, SandboxStrategy::Copy] {
        let stage = project();
        let users = super::ladder_stage::output(
            std::process::Command::new("sh").arg("-c").arg(LOOK).current_dir(&stage.project),
        );
        let sandbox = stage.open(rung);
        assert_eq!(in_sandbox(&sandbox, LOOK), users, "{rung}");
        sandbox.close().unwrap();
        // A detached head, and a repository without a commit.
        stage.git(&["checkout", "-q", "--detach"]);
        let sandbox = stage.open(rung);
        let head = stage.git(&["rev-parse", "HEAD"]);
        assert_eq!(
            in_sandbox(&sandbox, "git rev-parse --abbrev-ref HEAD; git rev-parse HEAD"),
            format!("HEAD\n{head}")
        );
        sandbox.close().unwrap();
        let stage = SandboxFixture::new();
        stage.write("a", "one\n");
        stage.git(&["init", "-q", "-b", "main"]);
        let sandbox = stage.open(rung);
        assert_eq!(
            in_sandbox(&sandbox, "git status --porcelain; git symbolic-ref HEAD"),
            "?? a\nrefs/heads/main\n"
        );
    }
}

#[test]
fn what_a_copy_borrows_has_a_second_place_for_when_the_first_is_hidden() {
    for rung in [SandboxStrategy::Worktree, SandboxStrategy::Copy] {
        let stage = project();
        let sandbox = stage.open(rung);
        let view = sandbox.view().unwrap();
        let borrowed = view.roots[0].borrowed().unwrap();
        assert_eq!(borrowed.len(), 1, "{rung}");
        assert_eq!(borrowed[0].from, stage.project.join(".git/objects"), "{rung}");
        // As if it were mounted there, and the first place gone.
        fs::remove_dir(&borrowed[0].at).unwrap();
        std::os::unix::fs::symlink(stage.project.join(".git/moved"), &borrowed[0].at).unwrap();
        fs::rename(stage.project.join(".git/objects"), stage.project.join(".git/moved")).unwrap();
        let copy = view.roots[0].copy.clone().unwrap();
        assert_eq!(git(&copy, &["log", "--format=%s", "main"]), "first\n", "{rung}");
    }
    let stage = project();
    assert_eq!(stage.open(SandboxStrategy::Overlay).view().unwrap().roots[0].borrowed().unwrap(), []);
}

#[test]
fn nested_repositories_and_submodules_work_and_stay_apart() {
    for rung in RUNGS {
        let stage = project();
        let library = stage.project.with_file_name("library");
        fs::create_dir(&library).unwrap();
        fs::write(library.join("lib"), "lib\n").unwrap();
        for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "lib"]] {
            git(&library, arguments);
        }
        let from = library.to_str().unwrap();
        stage.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "vendor/lib"]);
        stage.git(&["commit", "-q", "-m", "vendor"]);
        stage.write("nested/n", "n\n");
        let nested = stage.project.join("nested");
        for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "nested"]] {
            git(&nested, arguments);
        }
        let (before, before_nested) = (tree(&stage.project.join(".git")), tree(&nested.join(".git")));
        let mut sandbox = stage.open(rung);
        run(
            &sandbox,
            "cd nested; echo more >> n; git commit -qam more; test $(git log --oneline | wc -l) = 2
            cd ../vendor/lib; echo more >> lib; git commit -qam more; test $(git log --oneline | wc -l) = 2
            cd ../..; git status --porcelain | grep -q vendor/lib",
        );
        let changed = [
            between("nested/n", file("n\n"), file("n\nmore\n")),
            between("vendor/lib/lib", file("lib\n"), file("lib\nmore\n")),
        ];
        assert_eq!(stage.drafts(&mut sandbox), changed, "{rung}");
        sandbox.close().unwrap();
        assert_eq!(tree(&stage.project.join(".git")), before, "{rung}");
        assert_eq!(tree(&nested.join(".git")), before_nested, "{rung}");
    }
}

#[test]
fn a_linked_worktree_is_copied_with_a_repository_of_its_own() {
    let mut stage = project();
    let main = stage.project.clone();
    let linked = main.with_file_name("linked");
    stage.git(&["worktree", "add", "-q", linked.to_str().unwrap(), "other"]);
    let before = tree(&main.join(".git"));
    stage.project = linked;
    for rung in [SandboxStrategy::Worktree, SandboxStrategy::Copy] {
        let mut sandbox = stage.open(rung);
        run(&sandbox, "test $(git branch --show-current) = other; echo c > c; git add c; git commit -qm c");
        assert_eq!(stage.drafts(&mut sandbox), [between("c", None, file("c\n"))], "{rung}");
        sandbox.close().unwrap();
    }
    assert_eq!(tree(&main.join(".git")), before);
}

#[test]
fn a_worktree_has_what_git_would_add_and_what_was_asked_for() {
    let stage = project();
    stage.write(".gitignore", "target/\n.env*\n");
    stage.write("target/x", "x\n");
    stage.write(".env.local", "e\n");
    stage.write("d/.env", "e\n");
    fs::remove_file(stage.project.join("b")).unwrap();
    let sandbox = stage.open(SandboxStrategy::Worktree);
    let files = in_sandbox(&sandbox, "find . -name .git -prune -o -type f -print | sort");
    assert_eq!(files, "./.env.local\n./.gitignore\n./a\n./d/.env\n./untracked\n");
    assert_eq!(in_sandbox(&sandbox, "cat a"), "staged and more\n");
}
