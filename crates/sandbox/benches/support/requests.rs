//! The journal's request that leads from one tree to another.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use domain::{Fence, FileState, Hash, PlanId, RelPath, RootNo};
use sandbox::content::ContentSource;
use sandbox::journal::{
    Boot, Bytes, Change, Image, JournalId, JournalKind, JournalRoot, Journals, Merger, Request,
};

use crate::trees::{Planted, Tree};

fn image(file: &Planted) -> Image {
    let state = FileState::file(&file.bytes, file.mode);
    Image { state, bytes: Bytes::Here(file.bytes.clone()), attributes: None }
}

/// What leads from one tree to the other.
pub(crate) fn changes(before: &Tree, after: &Tree) -> Vec<Change> {
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    let differ = |path: &&String| before.get(*path) != after.get(*path);
    let change = |path: &String| Change {
        root: RootNo(0),
        path: RelPath::new(path).unwrap(),
        from: None,
        pre: before.get(path).map(image),
        post: after.get(path).map(image),
    };
    paths.into_iter().filter(differ).map(change).collect()
}

/// Nobody edits anything here.
struct NoMerges;

impl Merger for NoMerges {
    fn merge(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

pub(crate) fn journals(data: &Path) -> Journals {
    Journals::open(data, Boot::present().unwrap(), Arc::new(NoMerges)).unwrap()
}

pub(crate) fn request(id: JournalId, kind: JournalKind, root: &Path, changes: Vec<Change>) -> Request {
    Request {
        id,
        plan: PlanId::from_u128(7),
        kind,
        roots: vec![JournalRoot::of(RootNo(0), root).unwrap()],
        fence: Fence(1),
        time_ms: 1,
        net_hash: Hash::of(b"net"),
        changes,
        apart: Default::default(),
        refs: vec![],
    }
}

/// All bytes are in the request.
pub(crate) struct NoContent;

impl ContentSource for NoContent {
    fn open(&self, _: &Hash) -> io::Result<Box<dyn Read + '_>> {
        Err(io::ErrorKind::NotFound.into())
    }
}
