//! Captured changes are exact, and the same with every strategy.

use std::os::unix::ffi::OsStrExt;

use domain::{Base, ChangeDraft, FileState, pair_renames};
use sandbox::{SandboxStrategy, UncapturedCounts};

use super::ladder_stage::{SandboxFixture, as_root_and_as_user, between, file, path, run};

const RUNGS: [SandboxStrategy; 3] =
    [SandboxStrategy::Overlay, SandboxStrategy::Worktree, SandboxStrategy::Copy];

fn project() -> SandboxFixture {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    stage.write("b", "two\n");
    stage.write("d/x", "x\n");
    stage.write("d/y", "y\n");
    stage.write("d/e/z", "z\n");
    stage.write("run.sh", "#!/bin/sh\n");
    std::os::unix::fs::symlink("a", stage.project.join("link")).unwrap();
    stage.commit_all();
    stage
}

fn dir() -> Option<FileState> {
    Some(FileState::dir(0o755))
}

fn dir_of(mode: u16) -> Option<FileState> {
    Some(FileState::dir(mode))
}

fn link(target: &str) -> Option<FileState> {
    Some(FileState::symlink(target.as_bytes()))
}

fn mode(bytes: &str, mode: u16) -> Option<FileState> {
    Some(FileState::file(bytes.as_bytes(), mode))
}

fn d_is_gone() -> Vec<ChangeDraft> {
    vec![
        between("d", dir(), None),
        between("d/e", dir(), None),
        between("d/e/z", file("z\n"), None),
        between("d/x", file("x\n"), None),
        between("d/y", file("y\n"), None),
    ]
}

/// Scripts, and what they change.
fn table() -> Vec<(Vec<u8>, Vec<ChangeDraft>)> {
    let table: Vec<(&[u8], Vec<ChangeDraft>)> = vec![
        (b"true", vec![]),
        (b"echo more >> a", vec![between("a", file("one\n"), file("one\nmore\n"))]),
        (
            b"mkdir -p n/m; echo new > n/m/new",
            vec![
                between("n", None, dir()),
                between("n/m", None, dir()),
                between("n/m/new", None, file("new\n")),
            ],
        ),
        (b"rm a", vec![between("a", file("one\n"), None)]),
        (b"rm -r d", d_is_gone()),
        (b"rm d/x d/y", vec![between("d/x", file("x\n"), None), between("d/y", file("y\n"), None)]),
        // A directory in place of itself.
        (b"rm -r d; mkdir d", d_is_gone().into_iter().filter(|draft| draft.path() != &path("d")).collect()),
        (
            b"rm -r d; mkdir -p d/e; echo x > d/x; echo other > d/y",
            vec![between("d/e/z", file("z\n"), None), between("d/y", file("y\n"), file("other\n"))],
        ),
        (b"mkdir empty", vec![between("empty", None, dir())]),
        (b"mkdir -p p/q", vec![between("p", None, dir()), between("p/q", None, dir())]),
        // File and directory in each other's place.
        (b"rm a; mkdir a", vec![between("a", file("one\n"), None), between("a", None, dir())]),
        (
            b"rm a; mkdir a; echo in > a/in",
            vec![
                between("a", file("one\n"), None),
                between("a", None, dir()),
                between("a/in", None, file("in\n")),
            ],
        ),
        (
            b"rm -r d; echo file > d",
            [&d_is_gone()[..1], &[between("d", None, file("file\n"))], &d_is_gone()[1..]].concat(),
        ),
        (
            b"rm -r d; ln -s a d",
            [&d_is_gone()[..1], &[between("d", None, link("a"))], &d_is_gone()[1..]].concat(),
        ),
        // Moves.
        (b"mv a c", pair_renames(vec![between("a", file("one\n"), None), between("c", None, file("one\n"))])),
        (
            b"mv a c; echo more >> c",
            vec![between("a", file("one\n"), None), between("c", None, file("one\nmore\n"))],
        ),
        (
            b"mv d g",
            pair_renames(
                d_is_gone()
                    .into_iter()
                    .chain([
                        between("g", None, dir()),
                        between("g/e", None, dir()),
                        between("g/x", None, file("x\n")),
                        between("g/y", None, file("y\n")),
                        between("g/e/z", None, file("z\n")),
                    ])
                    .collect(),
            ),
        ),
        (
            b"mv a c; mv b a; mv c b",
            vec![between("a", file("one\n"), file("two\n")), between("b", file("two\n"), file("one\n"))],
        ),
        // What is no change.
        (b"touch a d run.sh", vec![]),
        (b"echo one > a", vec![]),
        (b"cp a t; rm a; mv t a", vec![]),
        (b"echo x > n; rm n; mkdir n; rmdir n", vec![]),
        (b"chmod 700 d", vec![between("d", dir(), dir_of(0o700))]),
        (
            b"chmod 755 run.sh",
            vec![between("run.sh", mode("#!/bin/sh\n", 0o644), mode("#!/bin/sh\n", 0o755))],
        ),
        (
            b"chmod 000 a; chmod 000 d",
            vec![between("a", file("one\n"), mode("one\n", 0)), between("d", dir(), dir_of(0))],
        ),
        (
            b"mkdir -p k; echo s > k/s; chmod 0 k/s k",
            vec![between("k", None, dir_of(0)), between("k/s", None, mode("s\n", 0))],
        ),
        (
            b"mkdir k; echo s > k/s; chmod 0400 k",
            vec![between("k", None, dir_of(0o400)), between("k/s", None, file("s\n"))],
        ),
        // Links.
        (b"ln -sf b link", vec![between("link", link("a"), link("b"))]),
        (b"rm a; ln -s /nowhere/at/all a", vec![between("a", file("one\n"), link("/nowhere/at/all"))]),
        (b"rm link; echo file > link", vec![between("link", link("a"), file("file\n"))]),
        (b"ln a hard", vec![between("hard", None, file("one\n"))]),
        (b"ln -s ../../.. out", vec![between("out", None, link("../../.."))]),
        // Contents and names.
        (b"printf 'a\\000b' > bin", vec![between("bin", None, file("a\0b"))]),
        (b": > nothing", vec![between("nothing", None, file(""))]),
        (b"echo q > ' a b\n\x01\xff'", vec![between(b" a b\n\x01\xff", None, file("q\n"))]),
        (
            b"mkdir '\xff'; echo q > '\xff/\xfe'",
            vec![between(b"\xff", None, dir()), between(b"\xff/\xfe", None, file("q\n"))],
        ),
    ];
    table.into_iter().map(|(script, drafts)| (script.to_vec(), drafts)).collect()
}

#[test]
fn every_change_is_told_exactly_and_alike_on_every_rung() {
    as_root_and_as_user(
        "cases::ladder_capture::every_change_is_told_exactly_and_alike_on_every_rung",
        || {
            let stage = project();
            let before = stage.users_tree();
            for rung in RUNGS {
                for (script, expected) in table() {
                    let script = [b"umask 022; ", script.as_slice()].concat();
                    let shown = String::from_utf8_lossy(&script).into_owned();
                    let mut sandbox = stage.open(rung);
                    run(&sandbox, std::ffi::OsStr::from_bytes(&script));
                    let captured = stage.scan(&mut sandbox);
                    let drafts: Vec<ChangeDraft> =
                        captured.drafts.iter().map(|change| change.draft.clone()).collect();
                    assert_eq!(drafts, expected, "{rung}: {shown}");
                    assert!(
                        captured.drafts.iter().all(|change| change.base == Base::Known),
                        "{rung}: {shown}"
                    );
                    let hard_links = u64::from(shown.contains("ln a hard"));
                    let left_out = UncapturedCounts { hard_links, ..UncapturedCounts::default() };
                    assert_eq!(captured.not_captured, left_out, "{rung}: {shown}");
                    for state in drafts.iter().flat_map(|draft| [draft.before(), draft.after()]).flatten() {
                        let kept = stage.contents.of(&state.hash).map(|bytes| bytes.len() as u64);
                        assert_eq!(kept.unwrap_or(0), state.size, "{rung}: {shown}");
                    }
                    assert_eq!(stage.drafts(&mut sandbox), [], "{rung}: a second scan after {shown}");
                    sandbox.close().unwrap();
                }
            }
            assert!(stage.nothing_left());
            assert_eq!(stage.users_tree(), before, "the user's tree was never touched");
        },
    );
}
