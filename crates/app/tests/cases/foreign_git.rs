//! Repositories that come with a configuration of their own: nothing that they name runs, is written or is
//! waited for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{CommandOutput, TestUser, answer};

/// A person whose project has a commit, and a program of the repository that leaves a mark when it runs.
struct Trap {
    person: TestUser,
}

impl Trap {
    fn new() -> Trap {
        let person = TestUser::new();
        person.write(".gitignore", "*.log\n");
        person.write("a.txt", "one\n");
        person.write("kept/b.txt", "two\n");
        person.write("other/c.txt", "three\n");
        person.git(&["add", "."]);
        person.git(&["commit", "-q", "-m", "all"]);
        let trap = Trap { person };
        let script = format!("#!/bin/sh\necho \"$0 $*\" >> {}\n", trap.mark().display());
        fs::write(trap.program(), script).unwrap();
        fs::set_permissions(trap.program(), fs::Permissions::from_mode(0o755)).unwrap();
        trap
    }

    fn project(&self) -> PathBuf {
        self.person.project()
    }

    fn program(&self) -> PathBuf {
        self.person.home().join("program")
    }

    fn mark(&self) -> PathBuf {
        self.person.home().join("mark")
    }

    fn set(&self, name: &str, value: &str) {
        self.person.git(&["config", name, value]);
    }

    /// Whether the program ran since the last time.
    fn sprang(&self) -> Option<String> {
        let said = fs::read_to_string(self.mark()).ok()?;
        fs::remove_file(self.mark()).unwrap();
        Some(said)
    }

    /// A remote that git would fetch missing objects from, by running the program.
    fn promise_objects(&self) {
        self.set("core.repositoryFormatVersion", "1");
        self.set("extensions.partialClone", "origin");
        self.set("remote.origin.promisor", "true");
        self.set("remote.origin.url", ".");
        self.set("remote.origin.uploadpack", &self.program().display().to_string());
    }

    fn object_file(&self, name: &str) -> PathBuf {
        let oid = self.person.git(&["rev-parse", name]);
        let (dir, file) = oid.trim().split_at(2);
        self.project().join(".git/objects").join(dir).join(file)
    }

    /// The program, with the settings of a person who commits.
    fn agents(&self, args: &[&str]) -> CommandOutput {
        let mut command = self.person.command(&self.project(), args);
        command.env("GIT_AUTHOR_NAME", "t").env("GIT_AUTHOR_EMAIL", "t@example.com");
        command.env("GIT_COMMITTER_NAME", "t").env("GIT_COMMITTER_EMAIL", "t@example.com");
        answer(&mut command)
    }

    fn choose(&self, strategy: &str) {
        let set = self.person.agents(&["config", "set", &format!("sandbox.strategy={strategy}")]);
        assert_eq!(set.exit, 0, "{set:?}");
    }

    /// Every command that has to do with the repository.
    fn use_everything(&self) -> Vec<CommandOutput> {
        let mut answers = Vec::new();
        for strategy in ["auto", "worktree", "copy"] {
            self.choose(strategy);
            let script = "echo x > build.log; echo more >> a.txt; date +%N > new.txt";
            answers.push(self.agents(&["run", "--", "sh", "-c", script]));
            answers.push(self.agents(&["plan", "apply", "@last", "--yes", "--branch", strategy]));
            answers.push(self.agents(&["run", "--", "sh", "-c", script]));
            answers.push(self.agents(&["plan", "apply", "@last", "--yes", "--commit", "-m", strategy]));
            answers.push(self.agents(&["plan", "undo", "@last", "--yes"]));
        }
        answers.push(self.agents(&["doctor"]));
        answers.push(self.agents(&["context", "assemble", "what does a.txt say?"]));
        answers
    }
}

#[test]
fn objects_that_a_foreign_repository_lacks_are_never_fetched() {
    // The trap works: git itself springs it.
    let trap = Trap::new();
    trap.promise_objects();
    fs::remove_file(trap.object_file("HEAD:a.txt")).unwrap();
    let _ = Command::new("git").args(["show", "HEAD:a.txt"]).current_dir(trap.project()).output().unwrap();
    assert!(trap.sprang().is_some());

    // A sparse index, one of whose trees is missing, and a file that is ignored.
    let trap = Trap::new();
    trap.person.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "kept"]);
    trap.promise_objects();
    fs::remove_file(trap.object_file("HEAD:other")).unwrap();
    let said = trap.agents(&["run", "--", "sh", "-c", "echo x > build.log; echo x > new.txt"]);
    assert_eq!((said.exit, trap.sprang()), (0, None), "{said:?}");
    let said = trap.agents(&["plan", "apply", "@last", "--yes", "--commit", "-m", "m"]);
    assert_eq!(trap.sprang(), None, "{said:?}");

    // A ref that points to nothing, where a copy is made.
    for strategy in ["worktree", "copy"] {
        let trap = Trap::new();
        trap.promise_objects();
        fs::write(trap.project().join(".git/refs/heads/gone"), format!("{}\n", "12".repeat(20))).unwrap();
        trap.choose(strategy);
        let said = trap.agents(&["run", "--", "true"]);
        assert_eq!(trap.sprang(), None, "{strategy} {said:?}");
    }
}

#[test]
fn no_program_that_a_repository_names_runs_outside_the_sandbox() {
    let trap = Trap::new();
    let program = trap.program().display().to_string();
    let names = [
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.askPass",
        "core.editor",
        "core.alternateRefsCommand",
        "core.gitProxy",
        "credential.helper",
        "diff.external",
        "diff.trap.textconv",
        "diff.trap.command",
        "gpg.program",
        "gpg.ssh.program",
        "merge.trap.driver",
        "sequence.editor",
        "uploadpack.packObjectsHook",
        "trailer.x.command",
        "interactive.diffFilter",
        "pager.log",
        "alias.log",
        "alias.ls-files",
    ];
    // The same in the file itself, in one that it includes, in one of the working tree.
    let included: String = names.iter().map(|name| section(name, &program)).collect();
    let others = "[log]\n\tshowSignature = true\n[commit]\n\tgpgSign = true\n[gc]\n\tauto = 1\n[core]\n\tuntrackedCache = true\n";
    fs::write(trap.person.home().join("included"), format!("{included}{others}")).unwrap();
    let path = trap.person.home().join("included").display().to_string();
    trap.set("include.path", &path);
    trap.set("includeIf.gitdir:/.path", &path);
    trap.set("core.repositoryFormatVersion", "1");
    trap.set("extensions.worktreeConfig", "true");
    fs::write(trap.project().join(".git/config.worktree"), format!("{included}{others}")).unwrap();
    for name in names.iter().filter(|name| !name.starts_with("alias")) {
        trap.set(name, &program);
    }
    let hooks = trap.person.home().join("hooks");
    fs::create_dir(&hooks).unwrap();
    trap.set("core.hooksPath", &hooks.display().to_string());
    for dir in [hooks, trap.project().join(".git/hooks")] {
        for hook in ["reference-transaction", "post-index-change", "post-commit", "pre-commit", "pre-auto-gc"]
        {
            fs::copy(trap.program(), dir.join(hook)).unwrap();
        }
    }
    fs::write(trap.project().join(".git/info/attributes"), "* diff=trap merge=trap\n").unwrap();
    let _ = Command::new("git").args(["status"]).current_dir(trap.project()).output().unwrap();
    assert!(trap.sprang().is_some(), "the trap does not work");

    for said in trap.use_everything() {
        assert_eq!(said.exit, 0, "{said:?}");
    }
    assert_eq!(trap.sprang(), None);
}

/// A setting as a configuration file has it.
fn section(name: &str, value: &str) -> String {
    let (section, key) = name.rsplit_once('.').unwrap();
    match section.split_once('.') {
        Some((section, sub)) => format!("[{section} \"{sub}\"]\n\t{key} = {value}\n"),
        None => format!("[{section}]\n\t{key} = {value}\n"),
    }
}

#[test]
fn git_is_never_a_program_of_the_directory_that_it_works_in() {
    let trap = Trap::new();
    for dir in ["", "bin"] {
        fs::create_dir_all(trap.project().join(dir)).unwrap();
        fs::copy(trap.program(), trap.project().join(dir).join("git")).unwrap();
    }
    let usual = std::env::var("PATH").unwrap();
    for path in [format!(".:{usual}"), format!(":{usual}"), format!("bin:{usual}")] {
        for args in [&["doctor"][..], &["context", "assemble", "what is a.txt?"], &["run", "--", "true"]] {
            let mut command = trap.person.command(&trap.project(), args);
            command.env("PATH", &path);
            let said = answer(&mut command);
            assert_eq!((said.exit, trap.sprang()), (0, None), "{path} {said:?}");
        }
    }
}

#[test]
fn a_link_in_a_repository_leads_no_write_out_of_it() {
    for name in ["logs/HEAD", "logs/refs/heads/main", "index"] {
        let trap = Trap::new();
        let outside = trap.person.home().join("outside");
        if name != "index" {
            fs::write(&outside, "mine\n").unwrap();
        }
        trap.set("user.name", "$(touch owned)");
        let said = trap.agents(&["run", "--", "sh", "-c", "echo x > new.txt"]);
        assert_eq!(said.exit, 0, "{said:?}");
        let place = trap.project().join(".git").join(name);
        fs::remove_file(&place).unwrap();
        symlink(&outside, &place).unwrap();
        let said = trap.agents(&["plan", "apply", "@last", "--yes", "--commit", "-m", "m"]);
        match name {
            "index" => assert!(!outside.exists(), "{said:?}"),
            _ => assert_eq!(fs::read_to_string(&outside).unwrap(), "mine\n", "{name} {said:?}"),
        }
    }
}

#[test]
fn no_setting_of_a_repository_has_git_write_a_trace() {
    let trap = Trap::new();
    let trace = trap.person.home().join("trace");
    for name in ["trace2.normalTarget", "trace2.eventTarget", "trace2.perfTarget"] {
        trap.set(name, &trace.display().to_string());
    }
    for said in trap.use_everything() {
        assert_eq!(said.exit, 0, "{said:?}");
    }
    assert!(!trace.exists());
}

#[test]
fn a_filter_of_a_repository_runs_in_the_sandbox() {
    let trap = Trap::new();
    fs::write(trap.project().join(".git/info/attributes"), "*.up filter=up\n").unwrap();
    let script = format!(
        "#!/bin/sh\necho ran > {}\necho x > owned\nprintf '%s: ' \"$1\"\ntr a-z A-Z\n",
        trap.mark().display()
    );
    fs::write(trap.project().join("up.sh"), script).unwrap();
    trap.set("filter.up.clean", "sh up.sh %f");
    let said = trap.agents(&["run", "--", "sh", "-c", "echo words > \"it's.up\""]);
    assert_eq!(said.exit, 0, "{said:?}");
    let said = trap.agents(&["plan", "apply", "@last", "--yes", "--commit", "-m", "m"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(trap.person.git(&["show", "HEAD:it's.up"]), "it's.up: WORDS\n");
    assert_eq!(trap.person.read("it's.up"), "words\n");
    // It saw the repository, and wrote neither there nor elsewhere.
    assert_eq!(trap.sprang(), None);
    assert!(!trap.project().join("owned").exists());

    // One that fails fails the commit, and nothing is applied.
    trap.set("filter.up.clean", "echo no luck >&2; exit 3");
    let said = trap.agents(&["run", "--", "sh", "-c", "echo words > b.up"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let said = trap.agents(&["plan", "apply", "@last", "--yes", "--commit", "-m", "m"]);
    assert_ne!(said.exit, 0, "{said:?}");
    assert!(said.stderr.contains("no luck"), "{said:?}");
    assert!(!trap.project().join("b.up").exists());
    // One that only speaks git's protocol is refused.
    trap.set("filter.up.clean", "");
    trap.set("filter.up.process", &trap.program().display().to_string());
    let said = trap.agents(&["plan", "apply", "@last", "--yes", "--branch", "side"]);
    assert!(said.exit != 0 && said.stderr.contains("filter.up.clean"), "{said:?}");
    assert_eq!(trap.sprang(), None);
}

/// Runs a plan that makes a file which git-lfs filters, and commits it with the programs in `bin` on the
/// path.
fn commit_large(trap: &Trap, bin: &Path) {
    fs::write(trap.project().join(".git/info/attributes"), "*.bin filter=lfs\n").unwrap();
    let said = trap.agents(&["run", "--", "sh", "-c", "echo large > x.bin"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let mut command = trap.person.command(&trap.project(), &["plan", "apply", "@last", "--yes", "--commit"]);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    command.env("GIT_AUTHOR_NAME", "t").env("GIT_AUTHOR_EMAIL", "t@example.com");
    command.env("GIT_COMMITTER_NAME", "t").env("GIT_COMMITTER_EMAIL", "t@example.com");
    let said = answer(&mut command);
    assert_eq!(said.exit, 0, "{said:?}");
}

#[test]
fn a_filter_that_git_lfs_sets_up_runs_with_the_repository_writable_and_no_network() {
    let trap = Trap::new();
    let bin = trap.person.home().join("bin");
    fs::create_dir(&bin).unwrap();
    let script = "#!/bin/sh\ncat > .git/lfs-object || exit 1\necho x > \"$HOME/owned\"\nchmod 777 \"$HOME\"\n\
                  python3 -c 'import socket; socket.socket()' 2>/dev/null && echo network\necho pointer $3\n";
    fs::write(bin.join("git-lfs"), script).unwrap();
    fs::set_permissions(bin.join("git-lfs"), fs::Permissions::from_mode(0o755)).unwrap();
    let mode = fs::metadata(trap.person.home()).unwrap().permissions().mode();
    trap.set("filter.lfs.clean", "git-lfs clean -- %f");
    trap.set("filter.lfs.required", "true");
    commit_large(&trap, &bin);
    assert_eq!(trap.person.git(&["show", "HEAD:x.bin"]), "pointer x.bin\n");
    assert_eq!(fs::read_to_string(trap.project().join(".git/lfs-object")).unwrap(), "large\n");
    assert!(!trap.person.home().join("owned").exists());
    assert_eq!(fs::metadata(trap.person.home()).unwrap().permissions().mode(), mode);
}

#[test]
fn a_program_that_git_lfs_would_start_for_the_repository_runs_in_the_sandbox() {
    let trap = Trap::new();
    let bin = trap.person.home().join("bin");
    fs::create_dir(&bin).unwrap();
    // As git-lfs does it: the extension of the configuration is started with what is cleaned.
    let script = "#!/bin/sh\nsh -c \"$(git config lfs.extension.x.clean)\"\necho pointer $3\n";
    fs::write(bin.join("git-lfs"), script).unwrap();
    fs::set_permissions(bin.join("git-lfs"), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = trap.person.home().join("secret");
    fs::write(&secret, "secret\n").unwrap();
    trap.set("filter.lfs.clean", "git-lfs clean -- %f");
    trap.set("lfs.extension.x.clean", &format!("cat {}", secret.display()));
    commit_large(&trap, &bin);
    assert_eq!(trap.person.git(&["show", "HEAD:x.bin"]), "pointer x.bin\n", "it did not see the home");
}

fn make_pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// How many processes of git work in this person's home.
fn gits(trap: &Trap) -> usize {
    let home = trap.person.home();
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .filter(|process| fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "git"))
        .filter(|process| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&home)))
        .count()
}

#[test]
fn a_pipe_or_device_among_the_files_of_a_repository_is_not_waited_for() {
    let files = ["config", "HEAD", "index", "packed-refs", "info/exclude", "config.worktree", "shallow"];
    for name in files {
        let trap = Trap::new();
        let place = trap.project().join(".git").join(name);
        make_pipe(&place);
        for strategy in ["auto", "copy"] {
            trap.choose(strategy);
            let said = trap.agents(&["run", "--", "sh", "-c", "echo x > build.log; echo y > new.txt"]);
            assert!(said.exit == 0 || strategy == "copy", "{name} {strategy} {said:?}");
        }
        let said = trap.agents(&["doctor"]);
        assert_eq!(said.exit, 0, "{name} {said:?}");
        let said = trap.agents(&["context", "assemble", "what is a.txt?"]);
        assert_eq!(said.exit, 0, "{name} {said:?}");
        let said = trap.agents(&["plan", "apply", "@last", "--yes", "--commit"]);
        assert_ne!(said.exit, 0, "{name} {said:?}");
        fs::remove_file(&place).unwrap();
        symlink("/dev/zero", &place).unwrap();
        let said = trap.agents(&["run", "--", "true"]);
        assert_eq!(said.exit, 0, "{name} {said:?}");
        assert_eq!(gits(&trap), 0, "{name}");
    }
}

#[test]
fn a_pipe_among_the_packs_of_a_repository_is_named_before_git_waits_for_it() {
    let files = [
        "objects/pack/multi-pack-index",
        "objects/pack/multi-pack-index.d/multi-pack-index-chain",
        "objects/pack/pack-0123456789012345678901234567890123456789.idx",
        "objects/info/commit-graph",
        "objects/info/commit-graphs/commit-graph-chain",
    ];
    for name in files {
        let trap = Trap::new();
        let place = trap.project().join(".git").join(name);
        make_pipe(&place);
        assert_eq!(trap.agents(&["run", "--", "sh", "-c", "echo y > new.txt"]).exit, 0, "{name}");
        let said = trap.agents(&["plan", "apply", "@last", "--yes", "--commit"]);
        assert_ne!(said.exit, 0, "{name} {said:?}");
        let told = format!("git was not run, because {} is a pipe", place.display());
        assert!(said.stderr.contains(&told), "{name} {said:?}");
        assert_eq!(gits(&trap), 0, "{name}");
    }
}

#[test]
fn a_pipe_that_a_repository_leads_to_ends_git_and_not_the_plan() {
    for (name, is_setting) in
        [("include.path", true), ("core.attributesFile", true), ("refs/heads/side", false)]
    {
        let trap = Trap::new();
        let pipe = match is_setting {
            true => trap.person.home().join("pipe"),
            false => trap.project().join(".git").join(name),
        };
        make_pipe(&pipe);
        if is_setting {
            trap.set(name, &pipe.display().to_string());
        }
        trap.choose("copy");
        let said = trap.agents(&["run", "--", "sh", "-c", "echo y > new.txt"]);
        assert_eq!((said.exit, gits(&trap)), (0, 0), "{name} {said:?}");
        let said = trap.agents(&["plan", "apply", "@last", "--yes", "--commit"]);
        assert_eq!(gits(&trap), 0, "{name} {said:?}");
        if name == "include.path" {
            assert!(said.stderr.contains("look for pipes"), "{said:?}");
        }
    }
}
