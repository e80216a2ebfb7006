//! Which file of a project refers to which: names that one defines and another uses.
//!
//! # Invariants
//! 1. The graph depends on the snapshot only: it is built once for it.
//! 2. Edges of a node are sorted by their end, each end once. Sums run in the order of files and identifiers, so the
//!    weights are the same wherever it is built.
//!
//! # Not here
//! What is reached from where: the navigator.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::index::{Snapshot, module_name, terms};

/// A name that more files define says nothing about where it comes from.
const DEFINERS_MAX: usize = 20;
/// Shorter names are said by chance.
const NAME_LETTERS_MIN: usize = 3;
/// From so many letters on a name counts twice.
const LONG_NAME_LETTERS: usize = 8;

/// References between the files of one snapshot, both ways, by their position in it.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Where the edges of each file begin in `edges`; one more than files.
    starts: Vec<u32>,
    edges: Vec<(u32, f32)>,
}

/// The keys are hashes already, so they are only spread: a snapshot is asked for millions of them.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
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

type ByName = HashMap<u32, Definers, BuildHasherDefault<Spread>>;

/// Files that define a name.
struct Definers {
    is_long: bool,
    files: Vec<u32>,
}

impl Graph {
    /// The graph of a snapshot.
    pub(crate) fn of(snapshot: &Snapshot) -> Graph {
        let definers = definers(snapshot);
        let mut out: Vec<Vec<(u32, f32)>> = Vec::with_capacity(snapshot.files().len());
        let mut sums: Vec<f32> = vec![0.0; snapshot.files().len()];
        let mut touched: Vec<u32> = Vec::new();
        for (from, file) in snapshot.files().iter().enumerate() {
            let from = from as u32;
            for (hash, count) in &file.facts.idents {
                let Some(named) = definers.get(hash) else { continue };
                if named.files.binary_search(&from).is_ok() {
                    continue;
                }
                let letters = if named.is_long { 2.0 } else { 1.0 };
                let gain = f32::from(*count).sqrt() * letters / named.files.len() as f32;
                for to in &named.files {
                    if sums[*to as usize] == 0.0 {
                        touched.push(*to);
                    }
                    sums[*to as usize] += gain;
                }
            }
            let edges = touched.drain(..).map(|to| (to, std::mem::take(&mut sums[to as usize])));
            out.push(edges.collect());
        }
        both_ways(&out)
    }

    /// The edges of a file.
    pub(crate) fn edges(&self, file: u32) -> &[(u32, f32)] {
        let at = file as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(from), Some(to)) => &self.edges[*from as usize..*to as usize],
            (Some(_) | None, _) => &[],
        }
    }
}

/// Who defines what, by the hash of the name; names that too many define are left out.
fn definers(snapshot: &Snapshot) -> ByName {
    let mut definers = ByName::default();
    for (file, known) in snapshot.files().iter().enumerate() {
        let file = file as u32;
        let module = module_name(&known.path);
        let names = known.facts.defs.iter().map(|def| &*def.name).chain(module.as_deref());
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

/// Each edge from both its ends, the weights of two that join the same files added up.
fn both_ways(out: &[Vec<(u32, f32)>]) -> Graph {
    let mut all: Vec<Vec<(u32, f32)>> = vec![Vec::new(); out.len()];
    for (from, edges) in out.iter().enumerate() {
        for (to, weight) in edges {
            all[from].push((*to, *weight));
            all[*to as usize].push((from as u32, *weight));
        }
    }
    let mut graph = Graph { starts: vec![0], edges: Vec::new() };
    for edges in &mut all {
        // Stable: of two with one end the outgoing one was pushed in a fixed order, so the sum is fixed too.
        edges.sort_by_key(|(to, _)| *to);
        edges.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        graph.edges.extend_from_slice(edges);
        graph.starts.push(graph.edges.len() as u32);
    }
    graph
}

#[cfg(test)]
mod tests {
    use domain::RelPath;

    use super::*;

    #[test]
    fn words_of_everyday_english_are_no_references() {
        let files = [
            ("a.rs", "pub fn the() {}\npub fn checkout() {}\n"),
            ("b.md", "The shop: the end, the beginning, the.\n"),
            ("c.rs", "fn main() { checkout() }\n"),
        ];
        let files = files.map(|(path, text)| (RelPath::new(path).expect("a path"), text.as_bytes().to_vec()));
        let graph = Graph::of(&Snapshot::of_files(files));
        let ends = |file: u32| graph.edges(file).iter().map(|(end, _)| *end).collect::<Vec<_>>();
        assert_eq!((ends(0), ends(1), ends(2)), (vec![2], vec![], vec![0]));
    }
}
