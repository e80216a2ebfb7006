//! What an apply does to the user's files, and what it leaves alone.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;

use domain::{FileState, Hash, RelPath, RootIndex};
use sandbox::journal::{
    FileImage, HookPoint, ImageBytes, JournalChange, JournalEnding, JournalPath, JournalStep, PrepareError,
    RollbackReason,
};

use super::journal_stage::*;

fn inode(path: &std::path::Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

fn place(path: &str) -> JournalPath {
    JournalPath { root: RootIndex(0), path: RelPath::new(path).unwrap() }
}

#[test]
fn an_apply_makes_the_tree_as_asked_and_keeps_inodes() {
    let before = tree([
        ("grows", file("one\n")),
        ("shrinks", file("one two three\n")),
        ("sub/same length", file("aaa")),
        ("emptied", file("something")),
        ("filled", file("")),
        ("goes", file("bye")),
        ("deep/er/goes", TestNode::Link(b"nowhere".to_vec())),
        ("deep/er", TestNode::Dir(0o755)),
        ("deep", TestNode::Dir(0o755)),
        ("link", TestNode::Link(b"old".to_vec())),
        ("script", file("#!/bin/sh\n")),
        ("both", TestNode::File(b"x".to_vec(), 0o600)),
    ]);
    let after = tree([
        ("grows", file("one\ntwo\n")),
        ("shrinks", file("1")),
        ("sub/same length", file("bbb")),
        ("emptied", file("")),
        ("filled", file("not empty")),
        ("link", TestNode::Link(b"new".to_vec())),
        ("new link", TestNode::Link(b"over/there".to_vec())),
        ("script", TestNode::File(b"#!/bin/sh\n".to_vec(), 0o755)),
        ("both", TestNode::File(b"y".to_vec(), 0o640)),
        ("new", TestNode::File(b"fresh".to_vec(), 0o600)),
        ("made/for/it", file("deep")),
        ("empty dir", TestNode::Dir(0o700)),
    ]);
    let stage = JournalFixture::new(&before);
    let kept = ["grows", "shrinks", "sub/same length", "emptied", "filled", "script", "both"];
    let inodes: Vec<u64> = kept.iter().map(|name| inode(&stage.root.join(name))).collect();

    let ending = stage.apply(&before, &after);

    match ending {
        JournalEnding::Applied { replaced, left } => {
            assert_eq!((replaced, left), (vec![place("link")], vec![]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(stage.survey(), after);
    assert_eq!(kept.iter().map(|name| inode(&stage.root.join(name))).collect::<Vec<_>>(), inodes);
    let journals = stage.journals();
    assert_eq!(journals.open_ids().unwrap(), []);
    assert_eq!(journals.undo_ids().unwrap().len(), 1);
    assert!(journals.recover().unwrap().settled.is_empty());
}

#[test]
fn a_file_becomes_a_directory_and_a_directory_a_file() {
    let before = tree([
        ("was file", file("f")),
        ("was dir/a", file("a")),
        ("was dir/b/c", file("c")),
        ("was dir/b", TestNode::Dir(0o755)),
        ("was dir", TestNode::Dir(0o755)),
        ("was link", TestNode::Link(b"x".to_vec())),
        ("was text", file("t")),
    ]);
    let after = tree([
        ("was file/in it", file("new")),
        ("was dir", file("flat")),
        ("was link", file("file")),
        ("was text", TestNode::Link(b"elsewhere".to_vec())),
    ]);
    let stage = JournalFixture::new(&before);
    let ending = stage.apply(&before, &after);
    assert!(matches!(ending, JournalEnding::Applied { .. }), "{ending:?}");
    assert_eq!(stage.survey(), after);
}

#[test]
fn a_directory_with_something_else_in_it_stays_and_is_named() {
    let before = tree([("d/ours", file("x")), ("d", TestNode::Dir(0o755))]);
    let stage = JournalFixture::new(&before);
    fs::write(stage.root.join("d/build output"), "o").unwrap();
    let ending = stage.apply(&before, &tree([]));
    assert!(matches!(&ending, JournalEnding::Applied { left, .. } if left == &[place("d")]), "{ending:?}");
    assert_eq!(stage.survey(), tree([("d/build output", file("o"))]));
}

#[test]
fn hard_links_and_extended_attributes_stay() {
    let before = tree([("a", file("old"))]);
    let stage = JournalFixture::new(&before);
    let (a, b) = (stage.root.join("a"), stage.root.join("b"));
    fs::hard_link(&a, &b).unwrap();
    rustix::fs::setxattr(&a, "user.note", b"mine", rustix::fs::XattrFlags::empty()).unwrap();
    stage.apply(&before, &tree([("a", file("new and longer"))]));
    assert_eq!(fs::read(&b).unwrap(), b"new and longer");
    assert_eq!(fs::metadata(&a).unwrap().nlink(), 2);
    let mut value = [0; 16];
    assert_eq!(rustix::fs::getxattr(&a, "user.note", &mut value[..]).unwrap(), 4);
}

#[test]
fn two_names_of_one_file_that_get_the_same_bytes_are_written_once() {
    let before = tree([("a", file("old")), ("b", file("old")), ("c", file("old"))]);
    let after = tree([("a", file("new and longer")), ("b", file("new and longer")), ("c", file("new"))]);
    for fails in [false, true] {
        let stage = JournalFixture::new(&tree([("a", file("old")), ("c", file("old"))]));
        fs::hard_link(stage.root.join("a"), stage.root.join("b")).unwrap();
        let hooks = at(JournalStep::Op { n: 2, at: HookPoint::Checked }, move || {
            if fails { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        let request = stage.request(changes(&before, &after));
        let ending = carry_out(&stage.journals().with_hooks(hooks), request).unwrap().retire().unwrap();
        assert_eq!(matches!(ending, JournalEnding::RolledBack { .. }), fails, "{ending:?}");
        assert_eq!(stage.survey(), if fails { before.clone() } else { after.clone() });
        assert_eq!(fs::metadata(stage.root.join("a")).unwrap().nlink(), 2);
    }
}

#[test]
fn a_new_file_belongs_to_the_owner_of_its_directory() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let stage = JournalFixture::new(&tree([("shared", TestNode::Dir(0o2775))]));
    std::os::unix::fs::chown(stage.root.join("shared"), Some(1234), Some(2345)).unwrap();
    fs::set_permissions(stage.root.join("shared"), std::os::unix::fs::PermissionsExt::from_mode(0o2775))
        .unwrap();
    let after = tree([("shared/sub/f", file("x")), ("shared/l", TestNode::Link(b"t".to_vec()))]);
    stage.apply(&tree([]), &after);
    for name in ["shared/sub", "shared/sub/f", "shared/l"] {
        let metadata = fs::symlink_metadata(stage.root.join(name)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (1234, 2345), "{name}");
    }
    assert_eq!(fs::metadata(stage.root.join("shared/sub")).unwrap().mode() & 0o7777, 0o2775);
}

#[test]
fn a_running_program_is_replaced_and_named() {
    let stage = JournalFixture::new(&tree([]));
    let program = stage.root.join("program");
    fs::copy("/bin/cat", &program).unwrap();
    let old = fs::read(&program).unwrap();
    let (before, after) = (
        tree([("program", TestNode::File(old, 0o755))]),
        tree([("program", TestNode::File(b"#!/bin/sh\n".to_vec(), 0o755))]),
    );
    rustix::fs::setxattr(&program, "user.note", b"mine", rustix::fs::XattrFlags::empty()).unwrap();
    let mut running =
        std::process::Command::new(&program).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let inode_before = inode(&program);

    let ending = stage.apply(&before, &after);

    assert!(
        matches!(&ending, JournalEnding::Applied { replaced, .. } if replaced == &[place("program")]),
        "{ending:?}"
    );
    assert_eq!(stage.survey(), after);
    assert_ne!(inode(&program), inode_before);
    assert!(rustix::fs::getxattr(&program, "user.note", &mut [0_u8; 16][..]).is_ok());
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
}

#[test]
fn a_protected_path_is_refused_before_anything_is_written() {
    let stage = JournalFixture::new(&tree([]));
    for path in [".git/config", "sub/.hg/x", "a/.SVN", ".jj/x", "deep/er/.cleveragents/y"] {
        let changes = changes(&tree([]), &tree([("ok", file("x")), (path, file("x"))]));
        let refused = stage.journals().prepare(stage.request(changes), &NoContentSource);
        assert!(matches!(refused, Err(PrepareError::Protected { .. })), "{path}");
    }
    assert_eq!(stage.survey(), tree([]));
    assert_eq!(stage.journals().open_ids().unwrap(), []);
}

#[test]
fn nothing_outside_is_touched_through_a_link() {
    let before = tree([("d/f", file("old"))]);
    let stage = JournalFixture::new(&before);
    let outside = stage.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f"), "old").unwrap();
    let (root, target) = (stage.root.clone(), outside.clone());
    let swapped = at(JournalStep::Commit, move || {
        fs::rename(root.join("d"), root.join("was d"))?;
        symlink(&target, root.join("d"))
    });
    for after in [
        tree([("d/f", file("new"))]),
        tree([]),
        tree([("d/f", file("old")), ("d/g", file("new"))]),
        tree([("d/f", TestNode::File(b"old".to_vec(), 0o777))]),
    ] {
        let request = stage.request(changes(&before, &after));
        let settled = carry_out(&stage.journals().with_hooks(swapped.clone()), request).unwrap();
        match settled.retire().unwrap() {
            JournalEnding::RolledBack { why: RollbackReason::Escapes { .. }, left } => {
                assert!(left.len() <= 1, "{left:?}")
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(survey(&outside), tree([("f", file("old"))]));
        fs::remove_file(stage.root.join("d")).unwrap();
        fs::rename(stage.root.join("was d"), stage.root.join("d")).unwrap();
        stage.journals().forget_undo(ID).unwrap();
        swapped.once.store(0, std::sync::atomic::Ordering::SeqCst);
    }
    symlink(&outside, stage.root.join("link")).unwrap();
    let into = changes(&tree([]), &tree([("link/new", file("x"))]));
    let refused = stage.journals().prepare(stage.request(into), &NoContentSource);
    assert!(matches!(refused, Err(PrepareError::Escapes { .. })));
    assert_eq!(survey(&outside), tree([("f", file("old"))]));
}

#[test]
fn a_save_between_the_merge_and_the_write_is_not_lost() {
    let before = tree([("a", file("a1")), ("b", file("b1")), ("c", file("c1"))]);
    let after = tree([("a", file("a2")), ("b", file("b2 longer")), ("d", file("d2"))]);
    // Ops: 0 writes a, 1 writes b, 2 creates d, 3 removes c.
    type Save = fn(&std::path::Path) -> std::io::Result<()>;
    let in_place: Save = |root| fs::write(root.join("b"), "mine");
    let by_rename: Save = |root| {
        fs::write(root.join("b~"), "mine")?;
        fs::rename(root.join("b~"), root.join("b"))
    };
    let create: Save = |root| fs::write(root.join("d"), "mine");
    let edit_removed: Save = |root| fs::write(root.join("c"), "mine");
    let table: [(u32, HookPoint, Save, (&str, &str)); 7] = [
        (1, HookPoint::Begin, in_place, ("b", "mine")),
        (1, HookPoint::Begin, by_rename, ("b", "mine")),
        (1, HookPoint::Checked, by_rename, ("b", "mine")),
        (1, HookPoint::Verify, by_rename, ("b", "mine")),
        (2, HookPoint::Begin, create, ("d", "mine")),
        (2, HookPoint::Swap, create, ("d", "mine")),
        (3, HookPoint::Begin, edit_removed, ("c", "mine")),
    ];
    for (n, moment, save, (name, text)) in table {
        let stage = JournalFixture::new(&before);
        let root = stage.root.clone();
        let hooks = at(JournalStep::Op { n, at: moment }, move || save(&root));
        let request = stage.request(changes(&before, &after));
        let ending = carry_out(&stage.journals().with_hooks(hooks), request).unwrap().retire().unwrap();
        let JournalEnding::RolledBack { why: RollbackReason::ChangedUnderUs { place: where_ }, .. } = ending
        else {
            panic!("{n} {moment:?}: {ending:?}");
        };
        assert_eq!(where_, place(name));
        let mut expected = before.clone();
        expected.insert(name.to_owned(), file(text));
        assert_eq!(stage.survey(), expected, "{n} {moment:?}");
    }
}

#[test]
fn a_save_in_the_moment_of_a_swap_is_not_lost() {
    let before = tree([("l", TestNode::Link(b"old".to_vec()))]);
    let after = tree([("l", TestNode::Link(b"new".to_vec()))]);
    let stage = JournalFixture::new(&before);
    let root = stage.root.clone();
    let hooks = at(JournalStep::Op { n: 0, at: HookPoint::Swap }, move || {
        fs::remove_file(root.join("l"))?;
        fs::write(root.join("l"), "mine")
    });
    let request = stage.request(changes(&before, &after));
    let ending = carry_out(&stage.journals().with_hooks(hooks), request).unwrap().retire().unwrap();
    assert!(
        matches!(ending, JournalEnding::RolledBack { why: RollbackReason::ChangedUnderUs { .. }, .. }),
        "{ending:?}"
    );
    assert_eq!(stage.survey(), tree([("l", file("mine"))]));
}

#[test]
fn a_file_that_was_moved_away_while_it_was_written_gets_its_bytes_back() {
    let before = tree([("a", file("old"))]);
    let stage = JournalFixture::new(&before);
    let root = stage.root.clone();
    let hooks = at(JournalStep::Op { n: 0, at: HookPoint::Verify }, move || {
        fs::rename(root.join("a"), root.join("a.bak"))?;
        fs::write(root.join("a"), "mine")
    });
    let request = stage.request(changes(&before, &tree([("a", file("new and longer"))])));
    carry_out(&stage.journals().with_hooks(hooks), request).unwrap().retire().unwrap();
    assert_eq!(stage.survey(), tree([("a", file("mine")), ("a.bak", file("old"))]));
}

#[test]
fn a_content_that_is_not_what_its_hash_says_is_refused() {
    let stage = JournalFixture::new(&tree([("a", file("now"))]));
    let image = |bytes, state| FileImage { state, bytes, attributes: None };
    let change = |pre, post| JournalChange {
        root: RootIndex(0),
        path: RelPath::new("a").unwrap(),
        from: None,
        pre,
        post,
    };
    let state = FileState::file(b"promised", 0o644);
    let kept = change(None, Some(image(ImageBytes::Content, state)));
    let refused = stage.journals().prepare(stage.request(vec![kept]), &NoContentSource);
    assert!(matches!(refused, Err(PrepareError::Content { .. })));
    let wrong = change(None, Some(image(ImageBytes::Here(b"else".to_vec()), state)));
    let refused = stage.journals().prepare(stage.request(vec![wrong]), &NoContentSource);
    assert!(matches!(refused, Err(PrepareError::Content { .. })));
    let stale = change(Some(image(ImageBytes::AsFound, FileState::file(b"then", 0o644))), None);
    let refused = stage.journals().prepare(stage.request(vec![stale]), &NoContentSource);
    assert!(matches!(refused, Err(PrepareError::ChangedUnderUs { .. })));
    assert_eq!(stage.journals().open_ids().unwrap(), []);
    let fresh = change(Some(image(ImageBytes::AsFound, FileState::file(b"now", 0o644))), None);
    let request = stage.request(vec![fresh]);
    let settled = carry_out(&stage.journals(), request).unwrap();
    assert!(matches!(settled.ending(), JournalEnding::Applied { .. }));
    assert_eq!(settled.header().unwrap().net_hash, Hash::from_content(b"net"));
}

#[test]
fn a_root_that_is_another_directory_by_now_is_refused() {
    let stage = JournalFixture::new(&tree([]));
    let request = stage.request(changes(&tree([]), &tree([("a", file("x"))])));
    fs::rename(&stage.root, stage.dir.path().join("moved")).unwrap();
    fs::create_dir(&stage.root).unwrap();
    assert!(matches!(stage.journals().prepare(request, &NoContentSource), Err(PrepareError::RootMoved(_))));
    assert_eq!(stage.survey(), tree([]));
}

#[test]
fn an_error_at_any_step_changes_nothing_or_all() {
    let before = tree([
        ("w", file("old")),
        ("x/goes", file("bye")),
        ("x", TestNode::Dir(0o755)),
        ("l", TestNode::Link(b"old".to_vec())),
        ("m", file("m")),
        ("k", file("file")),
    ]);
    let after = tree([
        ("w", file("new and longer")),
        ("n/ew", file("n")),
        ("l", TestNode::Link(b"new".to_vec())),
        ("m", TestNode::File(b"m".to_vec(), 0o700)),
        ("k/now", file("dir")),
    ]);
    let mut failures = 0;
    for k in 1.. {
        let stage = JournalFixture::new(&before);
        let hooks = nth(k, || Err(std::io::ErrorKind::StorageFull.into()));
        let journals = stage.journals().with_hooks(hooks.clone());
        let prepared = journals.prepare(stage.request(changes(&before, &after)), &NoContentSource);
        let settled = prepared
            .and_then(|prepared| Ok(prepared.commit()?.carry_out().map_err(std::io::Error::other)?));
        let happened = hooks.left.load(std::sync::atomic::Ordering::SeqCst) == 0;
        let expected = match settled.and_then(|settled| Ok(settled.retire()?)) {
            Ok(JournalEnding::Applied { .. }) => after.clone(),
            Ok(JournalEnding::RolledBack { why, left }) => {
                assert!(matches!(why, RollbackReason::Io { .. }) && left.is_empty(), "{why:?} {left:?}");
                before.clone()
            }
            Ok(JournalEnding::NeverBegan) => unreachable!("a recovery says that"),
            // Stuck, or the journal could not be written: the next command puts it right.
            Err(_) => match stage.journals().recover().unwrap().settled.pop() {
                Some(settled) => match settled.retire().unwrap() {
                    JournalEnding::Applied { .. } => after.clone(),
                    JournalEnding::RolledBack { .. } | JournalEnding::NeverBegan => before.clone(),
                },
                None => before.clone(),
            },
        };
        assert_eq!(stage.survey(), shown(&expected), "step {k}");
        assert_eq!(stage.journals().open_ids().unwrap(), []);
        if !happened {
            break;
        }
        failures += 1;
    }
    assert!(failures > 30, "{failures}");
}

#[test]
fn a_second_project_that_cannot_be_written_leaves_the_first_as_it_was() {
    let stage = JournalFixture::new(&tree([("f", file("old"))]));
    let second = stage.dir.path().join("second");
    fs::create_dir(&second).unwrap();
    fs::write(second.join("f"), "other").unwrap();
    let mut request = stage.request(changes(&tree([("f", file("old"))]), &tree([("f", file("new"))])));
    request.roots.push(sandbox::journal::JournalRoot::new(RootIndex(1), &second).unwrap());
    for mut change in changes(&tree([("f", file("other"))]), &tree([("f", file("new"))])) {
        change.root = RootIndex(1);
        request.changes.push(change);
    }
    let refuse = at(JournalStep::Op { n: 1, at: HookPoint::Begin }, || {
        Err(std::io::ErrorKind::ReadOnlyFilesystem.into())
    });
    let ending = carry_out(&stage.journals().with_hooks(refuse), request).unwrap().retire().unwrap();
    assert!(matches!(ending, JournalEnding::RolledBack { why: RollbackReason::Io { .. }, .. }), "{ending:?}");
    assert_eq!(stage.survey(), tree([("f", file("old"))]));
    assert_eq!(survey(&second), tree([("f", file("other"))]));
}

#[test]
fn a_request_that_contradicts_itself_is_a_bug() {
    let stage = JournalFixture::new(&tree([]));
    let one = changes(&tree([]), &tree([("a", file("x"))]));
    let twice = [one.clone(), one.clone()].concat();
    let mut elsewhere = one.clone();
    elsewhere[0].root = RootIndex(9);
    for wrong in [twice, elsewhere] {
        let refused = stage.journals().prepare(stage.request(wrong), &NoContentSource).unwrap_err();
        assert_eq!(refused.class(), domain::ErrorClass::Bug);
    }
    let hooks: Arc<HookAt<_>> = at(JournalStep::Commit, || Err(std::io::ErrorKind::StorageFull.into()));
    let prepared = stage.journals().with_hooks(hooks).prepare(stage.request(one), &NoContentSource).unwrap();
    assert!(prepared.commit().is_err());
    assert_eq!(stage.journals().open_ids().unwrap(), []);
    assert_eq!(stage.survey(), tree([]));
}
