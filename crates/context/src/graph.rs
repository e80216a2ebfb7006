//! The references between the files of a project: names that one file defines and another uses.
//!
//! # Invariants
//! 1. The graph depends on the snapshot only. It is built once for it, and stored for other processes under a
//!    key of the snapshot and the version.
//! 2. Two files are joined by at most one edge each way. Sums run in the order of identifiers, so the weights
//!    are the same wherever, and on however many threads, it is built.
//!
//! # Not here
//! What is reached from where: the navigator.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use domain::Hash;

use crate::hash_filter::HashFilter;
use crate::index::codec::{Decoder, Encoder};
use crate::index::{FACTS_VERSION, File, HashCounts, Snapshot, module_name, terms};
use crate::parallel_map::in_parallel_with;

/// A name that more files define says nothing about where it comes from.
const DEFINERS_MAX: usize = 8;
/// Shorter names are said by chance.
const NAME_LETTERS_MIN: usize = 3;
const FILES_AT_A_TIME: usize = 256;
/// The number of files a file refers to at most, those it refers to most: the others are names that
/// everything uses.
const ENDS_MAX: usize = 64;
/// From so many letters on a name counts twice.
const LONG_NAME_LETTERS: usize = 8;

/// The version of the graph builder: a graph stored by another version is not used. Any change of the joining
/// rules must raise it.
const GRAPH_VERSION: u32 = 1;

/// References between the files of one snapshot, both ways, by their position in it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ReferenceGraph {
    going: Lists,
    coming: Lists,
}

/// Edges by file.
#[derive(Debug, Default, PartialEq)]
struct Lists {
    /// The start of each file's edges in `edges`; one more than files.
    starts: Vec<u32>,
    edges: Vec<(u32, f32)>,
}

/// The keys are hashes already, so they are only spread: a snapshot is asked for millions of them.
#[derive(Default)]
pub(crate) struct SpreadHasher(u64);

impl Hasher for SpreadHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, key: u32) {
        self.write_u64(u64::from(key));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = (self.0 ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Most identifiers are defined nowhere, and the table of all definitions is far larger than what is near to
/// a processor.
const SIEVE_BITS: u32 = 20;

type ByName = HashMap<u32, Definers, BuildHasherDefault<SpreadHasher>>;

/// Files that define a name.
struct Definers {
    is_long: bool,
    files: Vec<u32>,
}

impl ReferenceGraph {
    /// The graph of a snapshot.
    pub(crate) fn from_snapshot(snapshot: &Snapshot) -> ReferenceGraph {
        let definers = definers(snapshot);
        let sieve = HashFilter::from_hashes(SIEVE_BITS, definers.keys().copied());
        let files = snapshot.files();
        let scratch = || EdgeSums { sums: vec![0.0; files.len()], touched: Vec::new() };
        let blocks: Vec<&[File]> = files.chunks(FILES_AT_A_TIME).collect();
        let blocks = in_parallel_with(blocks.len(), 1, scratch, |scratch, block| {
            let mut going = OutgoingEdges::default();
            for (number, file) in (block * FILES_AT_A_TIME..).zip(blocks[block]) {
                scratch.refer(number as u32, file.facts.idents(), &definers, &sieve);
                going.push(scratch);
            }
            going
        });
        let counts = blocks.iter().map(|block| &*block.counts).collect::<Vec<_>>().concat();
        let edges = blocks.iter().map(|block| &*block.edges).collect::<Vec<_>>().concat();
        both_ways(OutgoingEdges { counts, edges })
    }

    /// Returns the key under which the graph of a snapshot is stored: no other list of files has it.
    pub(crate) fn key(snapshot: &Snapshot) -> Hash {
        let mut named = [GRAPH_VERSION, FACTS_VERSION].map(u32::to_le_bytes).concat();
        for file in snapshot.files() {
            named.extend(file.path.as_bytes());
            // No path holds it, so no two lists of files are named alike.
            named.push(0);
            named.push(u8::from(file.hash.is_some()));
            named.extend(file.hash.iter().flat_map(|hash| hash.as_bytes()));
        }
        Hash::from_content(&named)
    }

    /// Encodes the graph for storage: the number of outgoing edges of each file, then all edges.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        let counts = self.going.starts.windows(2).map(|ends| ends[1] - ends[0]);
        counts.for_each(|count| out.number(count));
        for (to, weight) in &self.going.edges {
            out.number(*to);
            out.number(weight.to_bits());
        }
        out.summed()
    }

    /// Decodes a stored graph of `files` files; `None` if the bytes are not such a graph.
    pub(crate) fn decode(bytes: &[u8], files: usize) -> Option<ReferenceGraph> {
        let mut from = Decoder::checked(bytes)?;
        let counts = from.many(u32::try_from(files).ok()?, Decoder::number)?;
        let edge = |from: &mut Decoder<'_>| {
            let (to, weight) = (from.number()?, f32::from_bits(from.number()?));
            ((to as usize) < files).then_some((to, weight))
        };
        let all = counts.iter().try_fold(0_u32, |sum, count| sum.checked_add(*count))?;
        let edges = from.many(all, edge)?;
        from.is_empty().then(|| both_ways(OutgoingEdges { counts, edges }))
    }

    /// The edges of a file.
    pub(crate) fn edges(&self, file: u32) -> impl Iterator<Item = (u32, f32)> {
        self.going.of(file).iter().chain(self.coming.of(file)).copied()
    }
}

impl Lists {
    fn of(&self, file: u32) -> &[(u32, f32)] {
        let at = file as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(from), Some(to)) => &self.edges[*from as usize..*to as usize],
            (Some(_) | None, _) => &[],
        }
    }
}

/// The edges of some files, one file after the other.
#[derive(Default)]
struct OutgoingEdges {
    /// The number of edges each file has.
    counts: Vec<u32>,
    edges: Vec<(u32, f32)>,
}

/// The edges of the file at hand.
struct EdgeSums {
    /// The sums of the weights so far, by the end of the edge.
    sums: Vec<f32>,
    /// The ends that have a sum.
    touched: Vec<u32>,
}

impl EdgeSums {
    /// Sums up what a file refers to.
    fn refer(&mut self, file: u32, idents: HashCounts<'_>, definers: &ByName, sieve: &HashFilter) {
        for (hash, count) in idents.iter().filter(|(hash, _)| sieve.may_hold(*hash)) {
            let Some(named) = definers.get(&hash) else { continue };
            if named.files.binary_search(&file).is_ok() {
                continue;
            }
            let letters = if named.is_long { 2.0 } else { 1.0 };
            let gain = f32::from(count).sqrt() * letters / named.files.len() as f32;
            for to in &named.files {
                if self.sums[*to as usize] == 0.0 {
                    self.touched.push(*to);
                }
                self.sums[*to as usize] += gain;
            }
        }
    }
}

impl OutgoingEdges {
    /// Takes over the edges of the next file, the strongest of them, and leaves the scratch empty.
    fn push(&mut self, scratch: &mut EdgeSums) {
        let from = self.edges.len();
        let EdgeSums { sums, touched } = scratch;
        self.edges.extend(touched.drain(..).map(|to| (to, std::mem::take(&mut sums[to as usize]))));
        let own = &mut self.edges[from..];
        if own.len() > ENDS_MAX {
            own.select_nth_unstable_by(ENDS_MAX, |one, other| {
                other.1.total_cmp(&one.1).then(one.0.cmp(&other.0))
            });
            self.edges.truncate(from + ENDS_MAX);
        }
        self.counts.push((self.edges.len() - from) as u32);
    }
}

/// Maps the hash of a name to the files that define it; names that too many files define are left out.
fn definers(snapshot: &Snapshot) -> ByName {
    let mut definers = ByName::default();
    for (file, known) in snapshot.files().iter().enumerate() {
        let file = file as u32;
        let module = module_name(&known.path);
        let names = known.facts.defs().iter().map(|def| &*def.name).chain(module.as_deref());
        for name in names {
            let says_nothing = name.len() < NAME_LETTERS_MIN || terms::is_everyday(name);
            if says_nothing || name.contains(char::is_whitespace) {
                continue;
            }
            let named = definers
                .entry(terms::hash(name))
                .or_insert_with(|| Definers { is_long: name.len() >= LONG_NAME_LETTERS, files: Vec::new() });
            // Files come in rising order, so the last one is the only one that may be there already.
            if named.files.last() != Some(&file) {
                named.files.push(file);
            }
        }
    }
    definers.retain(|_, named| named.files.len() <= DEFINERS_MAX);
    definers
}

/// Each edge from both its ends: those that come in are counted first, so that they lie in one list.
fn both_ways(OutgoingEdges { counts, edges }: OutgoingEdges) -> ReferenceGraph {
    let files = counts.len();
    let going = Lists { starts: starts(counts.into_iter()), edges };
    let mut counts = vec![0_u32; files];
    going.edges.iter().for_each(|(to, _)| counts[*to as usize] += 1);
    let mut coming = Lists { starts: starts(counts.into_iter()), edges: vec![(0, 0.0); going.edges.len()] };
    let mut next = coming.starts.clone();
    for from in 0..files as u32 {
        for (to, weight) in going.of(from) {
            coming.edges[next[*to as usize] as usize] = (from, *weight);
            next[*to as usize] += 1;
        }
    }
    ReferenceGraph { going, coming }
}

/// Returns the start of each list of these lengths in one list, and the end of the last.
fn starts(counts: impl Iterator<Item = u32>) -> Vec<u32> {
    let sums = counts.scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

#[cfg(test)]
mod tests {
    use domain::RelPath;

    use super::*;

    #[test]
    fn an_edge_leads_from_both_its_ends_to_the_other() {
        let files = [
            ("a.rs", "pub fn alpha() { beta_of_b() }\n"),
            ("b.rs", "pub fn beta_of_b() { alpha() }\n"),
            ("c.rs", "fn main() { alpha(); alpha(); alpha(); alpha() }\n"),
        ];
        let files = files.map(|(path, text)| (RelPath::new(path).expect("a path"), text.as_bytes().to_vec()));
        let graph = ReferenceGraph::from_snapshot(&Snapshot::of_files(files));
        // A long name counts twice, a name said four times counts twice.
        let edges = |file: u32| graph.edges(file).collect::<Vec<_>>();
        assert_eq!(edges(0), [(1, 2.0), (1, 1.0), (2, 2.0)]);
        assert_eq!(edges(1), [(0, 1.0), (0, 2.0)]);
        assert_eq!(edges(2), [(0, 2.0)]);
        assert_eq!(edges(3), []);
        let kept = graph.encode();
        assert_eq!(ReferenceGraph::decode(&kept, 3).as_ref(), Some(&graph));
        assert_eq!(
            (ReferenceGraph::decode(&kept, 4), ReferenceGraph::decode(&kept[..kept.len() - 1], 3)),
            (None, None)
        );
    }

    #[test]
    fn a_graph_is_kept_for_these_files_only() {
        let key = |files: &[(&str, &str)]| {
            let named = |(path, text): &(&str, &str)| {
                (RelPath::new(*path).expect("a path"), text.as_bytes().to_vec())
            };
            ReferenceGraph::key(&Snapshot::of_files(files.iter().map(named)))
        };
        let base = key(&[("a.rs", "one"), ("b.rs", "two")]);
        assert_eq!(base, key(&[("b.rs", "two"), ("a.rs", "one")]));
        for other in [
            vec![("a.rs", "one")],
            vec![("a.rs", "one"), ("b.rs", "zwei")],
            vec![("a.rs", "one"), ("c.rs", "two")],
        ] {
            assert_ne!(base, key(&other), "{other:?}");
        }
    }

    #[test]
    fn words_of_everyday_english_are_no_references() {
        let files = [
            ("a.rs", "pub fn the() {}\npub fn checkout() {}\n"),
            ("b.md", "The shop: the end, the beginning, the.\n"),
            ("c.rs", "fn main() { checkout() }\n"),
        ];
        let files = files.map(|(path, text)| (RelPath::new(path).expect("a path"), text.as_bytes().to_vec()));
        let graph = ReferenceGraph::from_snapshot(&Snapshot::of_files(files));
        let ends = |file: u32| graph.edges(file).map(|(end, _)| end).collect::<Vec<_>>();
        assert_eq!((ends(0), ends(1), ends(2)), (vec![2], vec![], vec![0]));
    }
}
