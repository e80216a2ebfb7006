//! The journal's request that leads from one tree to another.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use domain::{Fence, FileState, Hash, PlanId, RelPath, RootIndex};
use sandbox::content::ContentSource;
use sandbox::journal::{
    Boot, FileImage, ImageBytes, JournalChange, JournalId, JournalKind, JournalRoot, Journals, Merger,
    Request,
};

use testkit::trees::{BenchTree, PlantedFile};

fn image(file: &PlantedFile) -> FileImage {
    let state = FileState::file(&file.bytes, file.mode);
    FileImage { state, bytes: ImageBytes::Here(file.bytes.clone()), attributes: None }
}

/// What leads from one tree to the other.
pub(crate) fn changes(before: &BenchTree, after: &BenchTree) -> Vec<JournalChange> {
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    let differ = |path: &&String| before.get(*path) != after.get(*path);
    let change = |path: &String| JournalChange {
        root: RootIndex(0),
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

pub(crate) fn request(id: JournalId, kind: JournalKind, root: &Path, changes: Vec<JournalChange>) -> Request {
    Request {
        id,
        plan: PlanId::from_u128(7),
        kind,
        roots: vec![JournalRoot::new(RootIndex(0), root).unwrap()],
        fence: Fence(1),
        time_ms: 1,
        net_hash: Hash::from_content(b"net"),
        changes,
        apart: Default::default(),
        refs: vec![],
    }
}

/// All bytes are in the request.
pub(crate) struct EmptyContentSource;

impl ContentSource for EmptyContentSource {
    fn open(&self, _: &Hash) -> io::Result<Box<dyn Read + '_>> {
        Err(io::ErrorKind::NotFound.into())
    }
}
