//! A project's files as the index sees them: what git tracks or does not ignore, and nothing through a link.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::RelPath;
use sandbox::project_tree::{ProjectTree, TreeFile, WalkEnd};

fn path(text: impl AsRef<[u8]>) -> RelPath {
    RelPath::new(text).unwrap()
}

fn write(root: &Path, at: &str, text: &str) {
    let at = root.join(at);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, text).unwrap();
}

fn told(root: &Path) -> (Vec<TreeFile>, WalkEnd) {
    let mut files = Vec::new();
    let tree = ProjectTree::open(root).unwrap();
    let end = tree.walk(&|| false, &mut |file| files.push(file));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    (files, end.unwrap())
}

fn names(root: &Path) -> Vec<String> {
    told(root).0.iter().map(|file| file.path.to_string()).collect()
}

#[test]
fn what_git_ignores_and_its_own_files_are_not_told() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    assert!(Command::new("git").arg("init").arg("-q").arg(root).status().unwrap().success());
    write(root, ".gitignore", "/target\n*.log\n!keep.log\n");
    write(root, "src/.gitignore", "gen/\n");
    for at in ["src/a.rs", "src/gen/b.rs", "target/debug/x", "x.log", "keep.log", "docs/.hidden/y.md"] {
        write(root, at, "x");
    }
    fs::write(root.join(".git/info/exclude"), "docs/z.md\n").unwrap();
    write(root, "docs/z.md", "x");
    assert_eq!(names(root), [".gitignore", "docs/.hidden/y.md", "keep.log", "src/.gitignore", "src/a.rs"]);
}

#[test]
fn links_pipes_and_sockets_are_neither_told_nor_read() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret", "out");
    let root = dir.path();
    write(root, "a.rs", "in");
    symlink(outside.path(), root.join("out")).unwrap();
    symlink(outside.path().join("secret"), root.join("link")).unwrap();
    symlink(".", root.join("loop")).unwrap();
    symlink("a.rs", root.join("inner")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    assert_eq!(names(root), ["a.rs"]);
    let tree = ProjectTree::open(root).unwrap();
    assert_eq!(tree.read(&path("a.rs"), 10).unwrap(), b"in");
    assert_eq!(tree.size(&path("a.rs")).unwrap(), 2);
    for at in ["out/secret", "link", "loop/a.rs", "inner", "pipe", "socket", "none"] {
        assert!(tree.read(&path(at), 10).is_err(), "{at}");
        assert!(tree.size(&path(at)).is_err(), "{at}");
    }
    assert_eq!(tree.size(&path("none")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert_eq!(tree.read(&path("none"), 10).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_directory_that_becomes_a_link_after_it_was_met_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret", "out");
    let root = dir.path();
    write(root, "b/inner", "in");
    write(root, "a", "x");
    let tree = ProjectTree::open(root).unwrap();
    let mut names = Vec::new();
    tree.walk(&|| false, &mut |file| {
        names.push(file.path.to_string());
        // `b` is known by now, and waits.
        fs::rename(root.join("b"), root.join("c")).unwrap();
        symlink(outside.path(), root.join("b")).unwrap();
    })
    .unwrap();
    assert_eq!(names, ["a"]);
}

#[test]
fn names_of_any_bytes_are_told_with_their_record() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    for name in [&b"new\nline"[..], b"caf\xe9", b"## x"] {
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(name)), b"12345").unwrap();
    }
    let (files, end) = told(dir.path());
    assert_eq!(end, WalkEnd { is_complete: true, unread: Vec::new() });
    assert_eq!(
        files.iter().map(|file| file.path.to_string()).collect::<Vec<_>>(),
        ["## x", r"caf\xE9", r"new\x0Aline"]
    );
    let found = fs::metadata(dir.path().join("## x")).unwrap();
    let ns = |seconds: i64, nanoseconds: i64| seconds * 1_000_000_000 + nanoseconds;
    assert_eq!(
        files[0],
        TreeFile {
            path: path("## x"),
            size: 5,
            mtime_ns: ns(found.mtime(), found.mtime_nsec()),
            ctime_ns: ns(found.ctime(), found.ctime_nsec()),
            inode: found.ino(),
        }
    );
}

#[test]
fn hundreds_of_folders_are_told_each_by_its_own_rules() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let mut expected = Vec::new();
    for number in 0..300 {
        let folder = format!("a{}/b{}/c{number}", number % 3, number % 20);
        let ignored = if number % 2 == 0 { "x.rs" } else { "y.rs" };
        write(root, &format!("{folder}/.gitignore"), ignored);
        let kept = if number % 2 == 0 { "y.rs" } else { "x.rs" };
        for name in ["x.rs", "y.rs", "deep/er/x.rs", "deep/er/y.rs"] {
            write(root, &format!("{folder}/{name}"), "");
        }
        expected.extend([".gitignore", kept].map(|name| format!("{folder}/{name}")));
        expected.push(format!("{folder}/deep/er/{kept}"));
    }
    expected.sort();
    assert!(Command::new("git").arg("init").arg("-q").arg(root).status().unwrap().success());
    assert_eq!(names(root), expected);
}

#[test]
fn a_walk_that_is_stopped_says_so_and_a_missing_root_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a", "x");
    write(dir.path(), "b", "x");
    let tree = ProjectTree::open(dir.path()).unwrap();
    let mut met = 0;
    let end = tree.walk(&|| true, &mut |_| met += 1);
    assert_eq!((end.unwrap().is_complete, met), (false, 0));
    assert!(ProjectTree::open(&dir.path().join("none")).is_err());
}

fn pipe(at: &Path) {
    let _ = fs::remove_file(at);
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn a_pipe_in_the_place_of_what_says_what_is_ignored_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("p");
    write(&root, "a.rs", "x");
    write(&root, "b.o", "x");
    // No repository, and the pipe is no project's file.
    pipe(&root.join(".git"));
    assert_eq!(names(&root), ["a.rs", "b.o"]);
    fs::remove_file(root.join(".git")).unwrap();
    assert!(Command::new("git").arg("init").arg("-q").arg(dir.path()).status().unwrap().success());
    for at in
        ["p/.gitignore", ".gitignore", ".git/info/exclude", ".git/commondir", ".git/shallow", ".git/index"]
    {
        pipe(&dir.path().join(at));
    }
    write(&root, "d/.gitignore", "*.o\n");
    write(&root, "d/c.o", "x");
    assert_eq!(names(&root), ["a.rs", "b.o", "d/.gitignore"]);
    let history = sandbox::git::log::GitHistory::around(&root).unwrap();
    assert!(!history.cut_at().is_empty(), "what cannot be read is cut off somewhere");
}

/// How often a walk looks whether it is over, if it is so at the last of these looks; and whether it then
/// ended.
fn looks(root: &Path, last: usize) -> (usize, bool) {
    let looks = AtomicUsize::new(0);
    let is_over = || looks.fetch_add(1, Ordering::SeqCst) + 1 >= last;
    let end = ProjectTree::open(root).unwrap().walk(&is_over, &mut |_| {}).unwrap();
    (looks.into_inner(), !end.is_complete)
}

#[test]
fn a_walk_that_tells_nothing_looks_whether_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..200 {
        fs::create_dir_all(dir.path().join(format!("empty/d{number}"))).unwrap();
    }
    let (all, was_stopped) = looks(dir.path(), usize::MAX);
    assert!(all >= 200 && !was_stopped, "{all}");
    let (early, was_stopped) = looks(dir.path(), 20);
    assert!(early < 20 + 2 * 64 && was_stopped, "{early}");

    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), ".gitignore", "*.o\n");
    for number in 0..3000 {
        write(dir.path(), &format!("f{number:04}.o"), "");
    }
    let (all, was_stopped) = looks(dir.path(), usize::MAX);
    assert!(all >= 2 * 3000 / 256 && !was_stopped, "{all}");
    for last in [all / 3, all - 2] {
        assert!(looks(dir.path(), last).1, "while it is listed, and while it is told");
    }
}

#[test]
fn a_walk_with_little_time_tells_something() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..100 {
        write(dir.path(), &format!("d{number}/a"), "");
    }
    let (looked, mut told) = (AtomicUsize::new(0), 0);
    let is_over = || looked.fetch_add(1, Ordering::Relaxed) >= 40;
    let end = ProjectTree::open(dir.path()).unwrap().walk(&is_over, &mut |_| told += 1).unwrap();
    assert!(told > 0 && !end.is_complete, "{told}");
}

#[test]
fn a_mark_of_byte_order_is_no_part_of_the_first_pattern() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("p");
    assert!(Command::new("git").arg("init").arg("-q").arg(dir.path()).status().unwrap().success());
    write(dir.path(), ".gitignore", "\u{feff}*.above\n");
    write(dir.path(), ".git/info/exclude", "\u{feff}*.excluded\n");
    write(&root, ".gitignore", "\u{feff}*.own\n*.second\n");
    for at in ["a.rs", "x.above", "x.excluded", "x.own", "x.second"] {
        write(&root, at, "x");
    }
    assert_eq!(names(&root), [".gitignore", "a.rs"]);
}

#[test]
fn what_git_tracks_is_told_although_a_pattern_ignores_it() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path();
    let root = top.join("p");
    let git = |arguments: &[&str]| {
        assert!(Command::new("git").arg("-C").arg(top).args(arguments).status().unwrap().success());
    };
    git(&["init", "-q"]);
    write(&root, ".gitignore", "*.log\nbuild/\n");
    let tracked = ["build/a/kept.rs", "kept.log"];
    for at in ["build/a/other.rs", "build/b/c.rs", "other.log", "z.rs"].into_iter().chain(tracked) {
        write(&root, at, "x");
    }
    assert_eq!(names(&root), [".gitignore", "z.rs"]);
    for at in tracked {
        git(&["add", "-f", &format!("p/{at}")]);
    }
    assert_eq!(names(&root), [".gitignore", "build/a/kept.rs", "kept.log", "z.rs"]);
    git(&["rm", "-q", "-f", "--cached", "p/kept.log"]);
    assert_eq!(names(&root), [".gitignore", "build/a/kept.rs", "z.rs"]);
}

#[test]
fn a_git_that_does_not_answer_is_not_waited_for_longer_than_there_is_time() {
    let dir = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        assert!(Command::new("git").arg("-C").arg(dir.path()).args(arguments).status().unwrap().success());
    };
    git(&["init", "-q"]);
    write(dir.path(), ".gitignore", "*.o\n");
    write(dir.path(), "z.o", "x");
    // Only git reads a split index, and it waits for its settings.
    git(&["add", ".gitignore"]);
    git(&["update-index", "--split-index"]);
    pipe(&dir.path().join(".git/pipe"));
    git(&["config", "include.path", "pipe"]);
    let (looked, was_stopped) = looks(dir.path(), 20);
    assert!(was_stopped, "after {looked} looks");
}
