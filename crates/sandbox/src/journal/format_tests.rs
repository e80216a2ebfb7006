//! Tests of a journal's format when bytes of it are missing or wrong.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;

use domain::{BootId, Fence, FileState, Hash, PlanId, RelPath, RootIndex};
use proptest::prelude::*;

use super::codec::{self, BackMark, DoneMark};
use super::content_links::ContentLinks;
use super::frame::{FrameKind, FrameWriter, PIECE_BYTES};
use super::journal_file::JournalFile;
use super::log::{JournalIntegrity, JournalLog, Mark};
use super::op::{ByteSource, JournalOp, OpAction, SavedState};
use super::request::{Attributes, JournalHeader, JournalRoot};
use super::{Boot, JournalId, JournalKind, Journals, Merger};
use crate::git::refs::{IndexEntry, IndexMove, RefMove};

fn header() -> JournalHeader {
    JournalHeader {
        id: JournalId::from_u128(1),
        plan: PlanId::from_u128(2),
        kind: JournalKind::Undo,
        roots: vec![JournalRoot { no: RootIndex(3), path: "/a/b".into(), dev: 4, ino: 5 }],
        boot: BootId::from_u128(6),
        fence: Fence(7),
        time_ms: 8,
        net_hash: Hash::from_content(b"net"),
    }
}

fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

fn op(n: u32, how: OpAction) -> JournalOp {
    JournalOp {
        n,
        root: RootIndex(3),
        path: path("a/b"),
        from: Some(path("from")),
        how,
        parked: path(&format!("a/.agents-{}-{n}", header().id)),
        in_the_way: n == 0,
        cleared_by: (n > 0).then_some(0),
    }
}

/// A journal with an op of each kind: its bytes, and where the commit mark ends.
fn journal() -> (Vec<u8>, Vec<JournalOp>, usize) {
    let file = tempfile::tempfile().unwrap();
    let mut frames = FrameWriter::begin(JournalFile::without_lock(file.try_clone().unwrap())).unwrap();
    frames.append(FrameKind::Header, &codec::encode_header(&header())).unwrap();
    let span = frames.append_image(&mut &b"some bytes"[..]).unwrap();
    let attributes = Some(Attributes { uid: 1, gid: 2, extended: vec![(b"user.x".to_vec(), b"y".to_vec())] });
    let pre = SavedState {
        state: FileState::file(b"some bytes", 0o644),
        bytes: Some(ByteSource::Inline(span)),
        attributes,
    };
    let post = SavedState { state: FileState::symlink(b"t"), bytes: None, attributes: None };
    let linked = SavedState { bytes: Some(ByteSource::Linked), ..post.clone() };
    let dir = SavedState { state: FileState::dir(0o755), bytes: None, attributes: None };
    let entry = IndexEntry { mode: "100644".to_owned(), oid: "abc".to_owned() };
    let moved = RefMove {
        name: "refs/heads/x".to_owned(),
        old: None,
        new: Some("def".to_owned()),
        index: vec![IndexMove { path: path("i"), before: Some(entry), after: None }],
    };
    let hows = [
        OpAction::Write { pre: pre.clone(), post: post.clone(), apart: true },
        OpAction::Create { post: pre.clone() },
        OpAction::Remove { pre: pre.clone() },
        OpAction::MakeDir { post: dir.clone() },
        OpAction::RemoveDir { pre: dir },
        OpAction::Link { pre: None, post: linked },
        OpAction::Link { pre: Some(post.clone()), post: pre.clone() },
        OpAction::Mode { pre, post },
        OpAction::Ref(moved),
    ];
    let ops: Vec<JournalOp> = (0_u32..).zip(hows).map(|(n, how)| op(n, how)).collect();
    for op in &ops {
        frames.append(FrameKind::Op, &codec::encode_op(op)).unwrap();
    }
    for op in &ops {
        frames.append(FrameKind::OpCopy, &codec::encode_op(op)).unwrap();
    }
    let count = u32::try_from(ops.len()).unwrap();
    frames.append(FrameKind::HeaderCopy, &codec::encode_header_copy(&header(), count)).unwrap();
    frames.append(FrameKind::Commit, &codec::encode_commit(count)).unwrap();
    let (_, committed) = frames.finish().unwrap();
    let mut log = read(&contents(&file));
    let back = BackMark { reason: "because".to_owned(), reached: 4 };
    log.append(FrameKind::Back, &codec::encode_back(&back)).unwrap();
    let done = DoneMark { applied: false, left: vec![1], replaced: vec![2, 3] };
    log.append(FrameKind::Done, &codec::encode_done(&done)).unwrap();
    (contents(&log.file), ops, usize::try_from(committed).unwrap())
}

fn contents(mut file: &File) -> Vec<u8> {
    use std::io::Seek;
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> JournalLog {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let links = ContentLinks::new(std::path::Path::new("nowhere"), header().id);
    JournalLog::read(JournalFile::without_lock(file), links).unwrap()
}

#[test]
fn what_is_written_reads_back() {
    let (bytes, ops, committed) = journal();
    let log = read(&bytes);
    assert_eq!(log.header, Some(header()));
    assert_eq!(&log.ops[..], &ops[..]);
    assert_eq!(log.mark, Mark::Done(DoneMark { applied: false, left: vec![1], replaced: vec![2, 3] }));
    assert_eq!(read(&bytes[..committed]).mark, Mark::Committed);
    let mut image = Vec::new();
    log.image(ops[2].how.pre().unwrap()).read_to_end(&mut image).unwrap();
    assert_eq!(image, b"some bytes");
}

#[test]
fn a_journal_cut_at_any_byte_is_committed_only_with_its_whole_mark() {
    let (bytes, ops, committed) = journal();
    for cut in 0..bytes.len() {
        let log = read(&bytes[..cut]);
        assert_eq!(log.mark == Mark::Open, cut < committed, "cut at {cut}");
        if log.mark != Mark::Open {
            assert_eq!(&log.ops[..], &ops[..]);
        }
        assert!(log.end as usize <= cut);
    }
}

#[test]
fn half_a_mark_is_cut_off_before_the_next_and_what_cannot_be_told_is_damage() {
    let (bytes, _, committed) = journal();
    let back = BackMark { reason: "why".to_owned(), reached: 1 };
    let payload = codec::encode_back(&back);
    let frame = super::frame::frame(FrameKind::Back, &payload).unwrap();
    let done = codec::encode_done(&DoneMark { applied: true, left: vec![], replaced: vec![] });
    let done = super::frame::frame(FrameKind::Done, &done).unwrap();
    let mut log = read(&[&bytes[..committed], &frame[..frame.len() - 1]].concat());
    assert_eq!((&log.mark, log.wholeness), (&Mark::Committed, JournalIntegrity::Whole));
    log.append(FrameKind::Back, &payload).unwrap();
    assert_eq!(read(&contents(&log.file)).mark, Mark::Back(back));
    // A mark behind one that is damaged counts, if nothing wrong follows.
    let zeros = vec![0; frame.len()];
    let log = read(&[&bytes[..committed], &zeros, &done].concat());
    assert!(matches!(log.mark, Mark::Done(_)) && log.wholeness == JournalIntegrity::Whole);
    let log = read(&[&bytes[..committed], &zeros, &done, &[0]].concat());
    assert_eq!(log.wholeness, JournalIntegrity::Damaged);
}

#[test]
fn a_journal_that_is_doubled_or_whose_ops_changed_places_says_the_same() {
    let (bytes, ops, _) = journal();
    let log = read(&[&bytes[..], &bytes[..]].concat());
    assert_eq!((&log.ops[..], log.wholeness), (&ops[..], JournalIntegrity::Whole));
    let frame = |n: usize| super::frame::frame(FrameKind::Op, &codec::encode_op(&ops[n])).unwrap();
    let pair = [frame(0), frame(1)].concat();
    let at = bytes.windows(pair.len()).position(|window| window == pair).unwrap();
    let mut swapped = bytes.clone();
    swapped[at..at + pair.len()].copy_from_slice(&[frame(1), frame(0)].concat());
    let log = read(&swapped);
    assert_eq!((&log.ops[..], log.wholeness), (&ops[..], JournalIntegrity::Whole));
    let other = JournalHeader { time_ms: 9, ..header() };
    let frame = super::frame::frame(FrameKind::Header, &codec::encode_header(&other)).unwrap();
    assert_eq!(read(&[&bytes[..], &frame].concat()).wholeness, JournalIntegrity::Damaged);
}

#[test]
fn a_mark_that_names_what_is_not_there_does_not_count() {
    let (bytes, _, committed) = journal();
    let with = |kind, payload: Vec<u8>| {
        let frame = super::frame::frame(kind, &payload).unwrap();
        read(&[&bytes[..committed], &frame[..]].concat()).mark
    };
    let done = |left| codec::encode_done(&DoneMark { applied: true, left, replaced: vec![] });
    assert_eq!(with(FrameKind::Done, done(vec![9])), Mark::Committed);
    assert_ne!(with(FrameKind::Done, done(vec![8])), Mark::Committed);
    let back = BackMark { reason: String::new(), reached: 10 };
    assert_eq!(with(FrameKind::Back, codec::encode_back(&back)), Mark::Committed);
    assert_eq!(with(FrameKind::Commit, codec::encode_commit(9)), Mark::Committed);
    let empty = super::frame::frame(FrameKind::Commit, &codec::encode_commit(0)).unwrap();
    assert_eq!(read(&[&b"AGENTJ01"[..], &empty].concat()).wholeness, JournalIntegrity::Damaged);
}

#[test]
fn a_large_image_is_cut_into_pieces_and_read_back() {
    for length in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let mut frames =
            FrameWriter::begin(JournalFile::without_lock(tempfile::tempfile().unwrap())).unwrap();
        let span = frames.append_image(&mut &bytes[..]).unwrap();
        let (file, end) = frames.finish().unwrap();
        assert_eq!((span.len, span.end()), (length as u64, Some(end)));
        let mut image = Vec::new();
        super::frame::ImageReader::new(&file, span).read_to_end(&mut image).unwrap();
        assert!(image == bytes);
        if length > 0 {
            std::os::unix::fs::FileExt::write_all_at(&*file, b"\xff\xff", end - 1).unwrap();
            assert!(super::frame::ImageReader::new(&file, span).read_to_end(&mut image).is_err());
        }
    }
}

struct UnusedMerger;

impl Merger for UnusedMerger {
    fn merge(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

proptest! {
    #[test]
    fn a_wrong_byte_anywhere_is_made_good_by_the_copies(place in 0..1_000_000_usize, with: u8) {
        let (mut bytes, ops, committed) = journal();
        let place = place % bytes.len();
        prop_assume!(bytes[place] != with);
        bytes[place] = with;
        let log = read(&bytes);
        prop_assert_eq!((&log.ops[..], log.header, log.wholeness), (&ops[..], Some(header()), JournalIntegrity::Whole));
        prop_assert!(place >= committed || matches!(log.mark, Mark::Done(_)));
    }

    #[test]
    fn zeroed_pages_make_another_journal_damaged_never_another_one(place in 0..1_000_000_usize, length in 1..4096_usize) {
        let (mut bytes, ops, _) = journal();
        let place = place % bytes.len();
        let end = (place + length).min(bytes.len());
        bytes[place..end].fill(0);
        let log = read(&bytes);
        if log.wholeness == JournalIntegrity::Whole {
            prop_assert_eq!((&log.ops[..], log.header), (&ops[..], Some(header())));
        }
        prop_assert!(log.wholeness != JournalIntegrity::Begun || end == bytes.len());
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, tail: Vec<u8>) {
        let (whole, _, committed) = journal();
        prop_assert_eq!(read(&bytes).mark, Mark::Open);
        read(&[b"AGENTJ01", &bytes[..]].concat());
        let log = read(&[&whole[..committed], &tail[..]].concat());
        prop_assert_eq!(log.mark, Mark::Committed);
        codec::decode_header(&bytes);
        codec::decode_op(&bytes);
        codec::decode_done(&bytes);
        codec::decode_back(&bytes);
    }
}

#[test]
fn a_name_that_is_not_a_journals_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let boot = Boot { id: BootId::from_u128(1), started_s: 0 };
    let journals = Journals::open(dir.path(), boot, Arc::new(UnusedMerger)).unwrap();
    for name in [
        "x.journal",
        "01J80000000000000000000001.txt",
        "01j80000000000000000000001.journal",
        "8ZZZZZZZZZZZZZZZZZZZZZZZZZ.journal",
    ] {
        std::fs::write(dir.path().join("journal").join(name), "x").unwrap();
    }
    assert_eq!(journals.open_ids().unwrap(), []);
    assert!(format!("{journals:?}").contains("journal"));
}
