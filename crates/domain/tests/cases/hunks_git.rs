//! Patches as git takes them: real repositories, a real `git apply`, bytes compared.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

/// The entry at a path: a file with a mode, or a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    File(Vec<u8>, u16),
    Link(Vec<u8>),
}

impl Thing {
    pub(crate) fn state(&self) -> FileState {
        match self {
            Thing::File(content, mode) => FileState::file(content, *mode),
            Thing::Link(target) => FileState::symlink(target),
        }
    }

    pub(crate) fn content(&self) -> &[u8] {
        match self {
            Thing::File(content, _) | Thing::Link(content) => content,
        }
    }
}

fn file(content: impl AsRef<[u8]>, mode: u16) -> Option<Thing> {
    Some(Thing::File(content.as_ref().to_vec(), mode))
}

fn text(content: &str) -> Option<Thing> {
    file(content, 0o644)
}

pub(crate) fn place(dir: &Path, path: &RelPath) -> PathBuf {
    dir.join(OsStr::from_bytes(path.as_bytes()))
}

pub(crate) fn put(dir: &Path, path: &RelPath, thing: &Thing) {
    let place = place(dir, path);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    match thing {
        Thing::File(content, mode) => {
            fs::write(&place, content).unwrap();
            fs::set_permissions(&place, fs::Permissions::from_mode(u32::from(*mode))).unwrap();
        }
        Thing::Link(target) => symlink(OsStr::from_bytes(target), &place).unwrap(),
    }
}

pub(crate) fn found(dir: &Path, path: &RelPath) -> Option<Thing> {
    let place = place(dir, path);
    let meta = fs::symlink_metadata(&place).ok()?;
    if meta.is_symlink() {
        return Some(Thing::Link(fs::read_link(&place).unwrap().as_os_str().as_bytes().to_vec()));
    }
    let mode = if meta.permissions().mode() & 0o100 != 0 { 0o755 } else { 0o644 };
    Some(Thing::File(fs::read(&place).unwrap(), mode))
}

pub(crate) fn git(dir: &Path, words: &[&str], input: &[u8]) -> Result<(), String> {
    let mut child = Command::new("git")
        .args(words)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Git may be done before it has read all.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

pub(crate) fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q"], b"").unwrap();
    dir
}

pub(crate) fn change(
    path: &[u8],
    from: Option<&[u8]>,
    before: Option<&Thing>,
    after: Option<&Thing>,
) -> NetChange {
    NetChange {
        root: RootIndex(0),
        path: RelPath::new(path).unwrap(),
        from: from.map(|from| RelPath::new(from).unwrap()),
        before: before.map(Thing::state),
        after: after.map(Thing::state),
        base: Base::Known,
        calls: vec![],
    }
}

/// Makes the state before, has git apply the patch, and compares with the state after.
fn applies(path: &[u8], from: Option<&[u8]>, before: Option<Thing>, after: Option<Thing>) {
    let change = change(path, from, before.as_ref(), after.as_ref());
    let patch = unified(&change, before.as_ref().map(Thing::content), after.as_ref().map(Thing::content));
    let shown = patch.escape_ascii().to_string().replace("\\n", "\n");
    let dir = repository();
    let source = change.from.as_ref().unwrap_or(&change.path);
    if let Some(before) = &before {
        put(dir.path(), source, before);
    }
    git(dir.path(), &["apply", "--check"], &patch).unwrap_or_else(|error| panic!("{error}\n{shown}"));
    git(dir.path(), &["apply"], &patch).unwrap_or_else(|error| panic!("{error}\n{shown}"));
    assert_eq!(found(dir.path(), &change.path), after, "{shown}");
    if change.from.is_some() {
        assert_eq!(found(dir.path(), source), None, "{shown}");
    }
    if let (Some(old), Some(new)) = (change.before, change.after)
        && old.kind == new.kind
    {
        // And back again. Git itself does not turn the two halves of another kind round.
        git(dir.path(), &["apply", "-R"], &patch).unwrap_or_else(|error| panic!("{error}\n{shown}"));
        assert_eq!(found(dir.path(), source), before, "{shown}");
    }
}

#[test]
fn git_applies_every_kind_of_change() {
    let long: String = (0..40).map(|line| format!("line {line}\n")).collect();
    let edited = long.replace("line 3\n", "").replace("line 30\n", "line 30\nmore\n");
    applies(b"f", None, text(&long), text(&edited));
    applies(b"dir/new", None, None, text("a\nb\n"));
    applies(b"dir/new", None, None, text(""));
    applies(b"dir/old", None, text("a\n"), None);
    applies(b"dir/old", None, text(""), None);
    applies(b"run.sh", None, None, file("x\n", 0o755));
    applies(b"run.sh", None, text("x\n"), file("x\n", 0o755));
    applies(b"run.sh", None, file("x\n", 0o755), file("y\n", 0o644));
    applies(b"b", Some(b"a"), text("same\n"), text("same\n"));
    applies(b"deep/er/b", Some(b"a"), text(&long), text(&edited));
    applies(b"b", Some(b"a"), text(&long), file(&edited, 0o755));
    applies(b"f", None, text(""), text("a\n"));
    applies(b"f", None, text("a\n"), text(""));
}

#[test]
fn git_applies_changes_of_the_last_line_end() {
    applies(b"f", None, text("a\nb"), text("a\nb\n"));
    applies(b"f", None, text("a\nb\n"), text("a\nb"));
    applies(b"f", None, text("a\nb"), text("x\nb"));
    applies(b"f", None, None, text("a"));
    applies(b"f", None, text("a"), None);
    applies(b"f", None, text("a\r\nb\r\n"), text("a\r\nc\r\n"));
    applies(b"f", None, text("a\r\nb\r\n"), text("a\nb\n"));
    applies(b"f", None, file(b"\xff\xfe\n", 0o644), file(b"\xff\xfd\n", 0o644));
}

#[test]
fn git_applies_changes_of_links_and_kinds() {
    let link = |target: &str| Some(Thing::Link(target.as_bytes().to_vec()));
    applies(b"l", None, None, link("../target"));
    applies(b"l", None, link("a"), link("b"));
    applies(b"l", None, link("a"), None);
    applies(b"m", Some(b"l"), link("a"), link("a"));
    applies(b"l", None, text("text\n"), link("b"));
    applies(b"l", None, link("b"), text("text\n"));
}

#[test]
fn git_reads_the_names() {
    let names: [&[u8]; 9] = [
        b"with space",
        b"two  spaces /in a dir ",
        b"tab\there",
        b"new\nline",
        b"quote\"and\\slash",
        "gr\u{fc}n/caf\u{e9}".as_bytes(),
        b"not-utf8-\xff\xfe",
        b"a b/ b/x",
        b"control\x01\x7f",
    ];
    for name in names {
        applies(name, None, text("a\n"), text("b\n"));
        applies(name, None, None, text("a\n"));
        applies(name, None, None, text(""));
        applies(name, None, text("a\n"), None);
        applies(name, None, text("a\n"), file("a\n", 0o755));
        applies(name, Some(b"old name"), text("a\n"), text("a\n"));
        applies(b"plain", Some(name), text("a\nb\nc\n"), text("a\nb\nd\n"));
    }
}

#[test]
fn a_patch_reads_as_git_writes_it() {
    let (before, after) = (file("a\nb", 0o644), file("a\nc\n", 0o755));
    let change = change(b"new name", Some(b"old"), before.as_ref(), after.as_ref());
    let patch = unified(&change, Some(b"a\nb"), Some(b"a\nc\n"));
    let expected = "diff --git a/old b/new name\n\
                    old mode 100644\n\
                    new mode 100755\n\
                    similarity index 50%\n\
                    rename from old\n\
                    rename to new name\n\
                    --- a/old\n\
                    +++ b/new name\t\n\
                    @@ -1,2 +1,2 @@\n \
                    a\n\
                    -b\n\
                    \\ No newline at end of file\n\
                    +c\n";
    assert_eq!(String::from_utf8(patch).unwrap(), expected);
}

#[test]
fn what_has_no_lines_is_named_and_not_applied() {
    let (before, after) = (file(b"\0a", 0o644), file(b"\0b", 0o755));
    let change = change(b"f", None, before.as_ref(), after.as_ref());
    let patch = unified(&change, Some(b"\0a"), Some(b"\0b"));
    let expected = "diff --git a/f b/f\nold mode 100644\nnew mode 100755\nBinary files a/f and b/f differ\n";
    assert_eq!(String::from_utf8(patch.clone()).unwrap(), expected);
    let dir = repository();
    put(dir.path(), &change.path, &before.clone().unwrap());
    assert!(git(dir.path(), &["apply"], &patch).is_err());
    assert_eq!(found(dir.path(), &change.path), before);
}

#[test]
fn what_git_does_not_keep_is_told_in_lines_that_git_passes_over() {
    let dir = |mode| Some(FileState::dir(mode));
    let file = |mode| Some(FileState::file(b"a", mode));
    let cases = [
        (None, dir(0o700), "directory f\nnew directory mode 0700\n"),
        (dir(0o755), None, "directory f\ndeleted directory mode 0755\n"),
        (dir(0o755), dir(0o2775), "directory f\nold mode 0755\nnew mode 2775\n"),
        (file(0o644), file(0o600), "file f\nold mode 100644 (0644)\nnew mode 100644 (0600)\n"),
    ];
    let mut patch = Vec::new();
    for (before, after, told) in cases {
        let change = NetChange { before, after, ..change(b"f", None, None, None) };
        let text = unified(&change, Some(b"a"), Some(b"a"));
        assert_eq!(String::from_utf8_lossy(&text), told);
        patch.extend(text);
    }
    let new = text("new\n");
    let other = change(b"g", None, None, new.as_ref());
    patch.extend(unified(&other, None, Some(b"new\n")));
    let root = repository();
    git(root.path(), &["apply"], &patch).unwrap();
    assert_eq!(found(root.path(), &other.path), new);
}

#[test]
fn a_patch_of_some_hunks_applies_exactly() {
    let before: String = (0..60).map(|line| format!("line {}\n", line % 7)).collect();
    let lines: Vec<&str> = before.split_inclusive('\n').collect();
    let after = [&["new\n", "new\n"], &lines[..30], &["mid\n"], &lines[31..], &["end\n"]].concat().concat();
    let (old, new) = (text(&before), text(&after));
    let change = change(b"f", None, old.as_ref(), new.as_ref());
    let hunks = hunks(Some(before.as_bytes()), Some(after.as_bytes()), &change);
    assert_eq!(hunks.len(), 3);
    let whole = String::from_utf8(unified_from(&change, &hunks)).unwrap();
    assert!(whole.contains("@@ -1,3 +1,5 @@") && whole.contains("@@ -28,7 +30,7 @@"), "{whole}");
    let mut choice = ChangeChoice::new(&selectable_lines(&change, &hunks), true);
    choice.set_hunk(1, false);
    let chosen: Vec<Hunk> = hunks.into_iter().filter(|hunk| hunk.number != 1).collect();
    let patch = unified_from(&change, &chosen);
    let dir = repository();
    put(dir.path(), &change.path, &old.unwrap());
    git(dir.path(), &["apply"], &patch).unwrap();
    let expected = apply_hunks(before.as_bytes(), after.as_bytes(), &choice);
    assert_eq!(found(dir.path(), &change.path), file(expected, 0o644));
    assert!(
        String::from_utf8(patch).unwrap().contains("@@ -28,7 +28,7 @@"),
        "counted without the first hunk"
    );
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let byte =
        prop_oneof![8 => Just(b'a'), 2 => Just(b'b'), 4 => Just(b'\n'), 1 => Just(b'\r'), 1 => 1..=255_u8];
    prop::collection::vec(byte, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn git_applies_any_text(before in content(), after in content()) {
        prop_assume!(before != after);
        applies(b"f", None, file(&before, 0o644), file(&after, 0o644));
        applies(b"f", None, None, file(&after, 0o644));
    }
}
