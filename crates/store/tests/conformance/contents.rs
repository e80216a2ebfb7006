//! Contents: kept once under their hash, read back whole, collected when nobody names them.

use std::io::{self, Read};

use domain::{CallEnd, FileState, Hash, NewChange, Phase, StoredOutput};
use store::{CallOutcome, CollectedContents, INLINE_BYTES_MAX, JobEnd, STAGED_KEPT, StagedContent};

use super::bench::{Bench, Owner, outcome};
use super::sample::{ONE_MS, call_end, change_between, changeset_id, new_call, plan_id};
use super::walk::processing;

/// So many bytes that no two of them are alike by chance.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

const LARGE: usize = INLINE_BYTES_MAX + 1;

fn stage(bench: &Bench, bytes: &[u8]) -> StagedContent {
    bench.store.stage(&mut &bytes[..]).unwrap()
}

fn read(bench: &Bench, hash: &Hash) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bench.store.open_content(hash)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_gone(bench: &Bench, hash: &Hash) -> bool {
    read(bench, hash).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn collect(bench: &Bench) -> CollectedContents {
    let would = bench.store.collect(true).unwrap();
    let did = bench.store.collect(false).unwrap();
    assert_eq!(would, did, "a dry run says what is done");
    did
}

const NOTHING: CollectedContents = CollectedContents { contents: 0, bytes: 0 };

/// Ann executes plan n, with changeset n open and call 1 begun.
async fn calling(bench: &Bench, n: u64) -> Owner {
    let owner = processing(bench, n, Phase::Execute).await;
    owner.start(changeset_id(n)).await.unwrap();
    owner.begin_call(new_call(1, "execute")).await.unwrap();
    owner
}

fn file(bytes: &[u8]) -> Option<FileState> {
    Some(FileState::file(bytes, 0o644))
}

/// Ends call 1 of plan n with these changes and contents.
async fn end_call(owner: &Owner, n: u64, changes: Vec<NewChange>, contents: Vec<StagedContent>) {
    owner.end_call(CallOutcome { contents, ..outcome(1, changeset_id(n), changes) }).await.unwrap();
}

pub(crate) async fn a_content_is_read_hashed_and_told_from_binary(bench: Bench) {
    for len in [0, 1, 4_096, INLINE_BYTES_MAX - 1, INLINE_BYTES_MAX, LARGE, 3 << 20] {
        let bytes = bytes(7, len);
        let staged = stage(&bench, &bytes);
        let state = FileState::file(&bytes, 0o644);
        assert_eq!((staged.hash, staged.size, staged.text), (state.hash, state.size, state.text), "{len}");
        let inline = (len <= INLINE_BYTES_MAX).then_some(bytes);
        assert_eq!(staged.bytes, inline, "a small one is written with its call, a large one is there: {len}");
    }
    let large_text = "é\n".repeat(LARGE);
    assert!(stage(&bench, large_text.as_bytes()).text);
}

pub(crate) async fn a_content_comes_back_whole(bench: Bench) {
    let owner = calling(&bench, 1).await;
    let contents: Vec<Vec<u8>> =
        [0, 1, INLINE_BYTES_MAX, LARGE, 3 << 20].iter().map(|len| bytes(3, *len)).collect();
    let staged: Vec<StagedContent> = contents.iter().map(|bytes| stage(&bench, bytes)).collect();
    let changes = (1..)
        .zip(&contents)
        .map(|(n, bytes)| change_between(n, format!("file-{n}"), None, file(bytes)))
        .collect();
    end_call(&owner, 1, changes, staged.clone()).await;
    for (bytes, staged) in contents.iter().zip(&staged) {
        assert!(read(&bench, &staged.hash).unwrap() == *bytes, "{} bytes", bytes.len());
    }
    assert_eq!(collect(&bench), NOTHING);
    for (bytes, staged) in contents.iter().zip(&staged) {
        assert!(read(&bench, &staged.hash).unwrap() == *bytes, "{} bytes", bytes.len());
    }
}

pub(crate) async fn an_unknown_hash_is_not_found(bench: Bench) {
    assert!(is_gone(&bench, &Hash::from_content(b"nobody knows this")));
    let small = stage(&bench, b"small");
    assert!(is_gone(&bench, &small.hash), "a small one is kept with its call, not before");
}

/// Gives a few bytes at a time, and fails or ends after so many.
struct Slow {
    left: usize,
    fails: bool,
}

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && self.fails {
            return Err(io::Error::other("by the test"));
        }
        let count = buffer.len().min(self.left).min(7_001);
        buffer[..count].fill(b'a');
        self.left -= count;
        Ok(count)
    }
}

pub(crate) async fn a_reader_that_fails_leaves_nothing_behind(bench: Bench) {
    for len in [0, 10, LARGE, 1 << 20] {
        let failed = bench.store.stage(&mut Slow { left: len, fails: true }).unwrap_err();
        assert_eq!(failed.to_string(), "by the test");
        assert!(is_gone(&bench, &Hash::from_content(&vec![b'a'; len])));
        let staged = bench.store.stage(&mut Slow { left: len, fails: false }).unwrap();
        assert_eq!((staged.hash, staged.size), (Hash::from_content(&vec![b'a'; len]), len as u64));
    }
}

pub(crate) async fn what_is_named_by_an_entry_or_an_output_is_not_collected(bench: Bench) {
    let owner = calling(&bench, 1).await;
    let [before, after, out, err] = [1, 3, 5, 7].map(|seed| bytes(seed, 100));
    let staged = [&before, &after, &out, &err].map(|bytes| stage(&bench, bytes));
    let unnamed = stage(&bench, b"nobody names this");
    let output = |place: usize| Some(StoredOutput { hash: staged[place].hash, total: 100, left_out: 0 });
    let ended = CallOutcome {
        end: CallEnd { stdout: output(2), stderr: output(3), ..call_end() },
        contents: staged.iter().cloned().chain([unnamed.clone()]).collect(),
        ..outcome(1, changeset_id(1), vec![change_between(1, "file", file(&before), file(&after))])
    };
    owner.end_call(ended).await.unwrap();
    assert!(read(&bench, &unnamed.hash).is_ok());
    assert_eq!(collect(&bench), CollectedContents { contents: 1, bytes: unnamed.size });
    assert!(is_gone(&bench, &unnamed.hash));
    for content in &staged {
        assert!(read(&bench, &content.hash).is_ok());
    }
    assert_eq!(collect(&bench), NOTHING);
    let collectable = |without: &[domain::PlanId]| bench.store.collectable(without).unwrap();
    assert_eq!(collectable(&[plan_id(2)]), NOTHING);
    let bytes = staged.iter().map(|content| content.size).sum();
    assert_eq!(collectable(&[plan_id(2), plan_id(1)]), CollectedContents { contents: 4, bytes });
    assert_eq!(collect(&bench), NOTHING, "asking removes nothing");
}

pub(crate) async fn a_dry_run_removes_nothing(bench: Bench) {
    let owner = calling(&bench, 1).await;
    let content = stage(&bench, b"nobody names this");
    end_call(&owner, 1, Vec::new(), vec![content.clone()]).await;
    for _ in 0..2 {
        let would = bench.store.collect(true).unwrap();
        assert_eq!(would, CollectedContents { contents: 1, bytes: content.size });
        assert_eq!(read(&bench, &content.hash).unwrap(), b"nobody names this");
    }
}

pub(crate) async fn a_content_that_two_plans_name_goes_with_the_last(bench: Bench) {
    let (shared, own) = (b"shared".as_slice(), b"own".as_slice());
    for n in [1, 2] {
        let owner = calling(&bench, n).await;
        let contents = vec![stage(&bench, shared), stage(&bench, own)];
        let mut changes = vec![change_between(n * 10, "shared", None, file(shared))];
        if n == 1 {
            changes.push(change_between(n * 10 + 1, "own", None, file(own)));
        }
        end_call(&owner, n, changes, contents).await;
        bench.store.cancel(owner.claim.job, "enough").await.unwrap();
        owner.end(JobEnd::Cancelled).await.unwrap();
    }
    assert_eq!(collect(&bench), NOTHING);
    assert_eq!(bench.store.forget(vec![plan_id(1)]).await, Ok(vec![plan_id(1)]));
    assert_eq!(collect(&bench), CollectedContents { contents: 1, bytes: 3 });
    assert!(is_gone(&bench, &Hash::from_content(own)));
    assert_eq!(read(&bench, &Hash::from_content(shared)).unwrap(), shared);
    assert_eq!(bench.store.forget(vec![plan_id(2)]).await, Ok(vec![plan_id(2)]));
    assert_eq!(collect(&bench), CollectedContents { contents: 1, bytes: 6 });
    assert!(is_gone(&bench, &Hash::from_content(shared)));
    // And may come back.
    let owner = calling(&bench, 3).await;
    let change = change_between(30, "shared", None, file(shared));
    end_call(&owner, 3, vec![change], vec![stage(&bench, shared)]).await;
    assert_eq!(read(&bench, &Hash::from_content(shared)).unwrap(), shared);
}

pub(crate) async fn a_large_content_that_waits_for_its_name_is_not_collected(bench: Bench) {
    let owner = calling(&bench, 1).await;
    let bytes = bytes(5, LARGE);
    let staged = stage(&bench, &bytes);
    assert_eq!(collect(&bench), NOTHING);
    let change = change_between(1, "file", None, file(&bytes));
    end_call(&owner, 1, vec![change], vec![staged.clone()]).await;
    assert_eq!(collect(&bench), NOTHING);
    assert!(read(&bench, &staged.hash).unwrap() == bytes);
}

pub(crate) async fn a_large_content_that_nobody_named_in_time_is_collected(bench: Bench) {
    let staged = stage(&bench, &bytes(6, LARGE));
    bench.pass(STAGED_KEPT - ONE_MS);
    assert_eq!(collect(&bench), NOTHING);
    bench.pass(ONE_MS);
    assert_eq!(collect(&bench), CollectedContents { contents: 1, bytes: staged.size });
    assert!(is_gone(&bench, &staged.hash));
    // Staged again, it waits again.
    let staged = stage(&bench, &bytes(6, LARGE));
    assert_eq!(collect(&bench), NOTHING);
    assert!(read(&bench, &staged.hash).is_ok());
}

pub(crate) async fn what_a_long_call_staged_is_not_collected_before_its_job_ends(bench: Bench) {
    let owner = calling(&bench, 1).await;
    let before = bytes(7, LARGE);
    let staged = stage(&bench, &before);
    for _ in 0..10 {
        bench.pass(STAGED_KEPT / 2);
        assert_eq!(collect(&bench), NOTHING, "its job runs");
    }
    let change = change_between(1, "file", file(&before), None);
    end_call(&owner, 1, vec![change], Vec::new()).await;
    let other = stage(&bench, &bytes(8, LARGE));
    owner.end(JobEnd::Succeeded).await.unwrap();
    bench.pass(STAGED_KEPT);
    assert_eq!(collect(&bench), CollectedContents { contents: 1, bytes: other.size }, "no job runs any more");
    assert!(read(&bench, &staged.hash).unwrap() == before);
}

pub(crate) async fn whoever_collects_beside_calls_takes_nothing_that_they_name(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    owner.start(changeset_id(1)).await.unwrap();
    let named = bench.on_threads(4, async |thread| {
        if thread == 0 {
            for _ in 0..50 {
                bench.store.collect(false).unwrap();
            }
            return Vec::new();
        }
        let mut named = Vec::new();
        for n in 0..20 {
            // The same large ones by all, so that one thread's staged content is another's named one.
            let contents = [bytes(n + 1, LARGE), bytes(thread as u64 * 1_000 + n, 50)];
            let call = owner.begin_call(new_call(1, "execute")).await.unwrap();
            let staged = contents.iter().map(|bytes| stage(&bench, bytes)).collect();
            let changes = (0..)
                .zip(&contents)
                .map(|(k, bytes)| {
                    let id = thread as u64 * 1_000 + n * 2 + k;
                    change_between(id, format!("file-{id}"), None, file(bytes))
                })
                .collect();
            let ended = CallOutcome { contents: staged, ..outcome(call.no.0, changeset_id(1), changes) };
            owner.end_call(ended).await.unwrap();
            named.extend(contents.map(|bytes| Hash::from_content(&bytes)));
        }
        named
    });
    for hash in named.into_iter().flatten() {
        assert!(read(&bench, &hash).is_ok_and(|bytes| Hash::from_content(&bytes) == hash));
    }
}
