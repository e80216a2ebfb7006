//! The rows that every benchmark prints next to a peer's, its medians, and the options of its command line.

/// The better one of two values.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "not every benchmark has both")]
pub enum Better {
    Less,
    More,
}

/// `bench NAME/PEER ours=N peer=N ratio=N unit=U`; a ratio above 1 means that ours is better, whatever the
/// unit.
pub fn row(name: &str, peer_name: &str, ours: f64, peer: f64, better: Better, unit: &str) -> String {
    let ratio = match better {
        // Nothing torn on either side is a draw, not a division by nothing.
        _ if ours == peer => 1.0,
        Better::Less => peer / ours,
        Better::More => ours / peer,
    };
    format!("bench {name}/{peer_name} ours={ours:.3} peer={peer:.3} ratio={ratio:.2} unit={unit}")
}

/// The middle one of these; of an even number the lower of the two.
#[allow(dead_code, reason = "not every benchmark measures times")]
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// The number behind `--name` on the command line.
#[allow(dead_code, reason = "not every benchmark has numbers")]
pub fn option(name: &str, default: usize) -> usize {
    word_behind(name).and_then(|word| word.parse().ok()).unwrap_or(default)
}

/// An older program to compare with: the argument of `--old` on the command line.
#[allow(dead_code, reason = "not every benchmark compares with an older program")]
pub fn old_program() -> Option<std::path::PathBuf> {
    let path = word_behind("--old")?;
    Some(std::fs::canonicalize(&path).unwrap_or_else(|error| panic!("{path}: {error}")))
}

fn word_behind(name: &str) -> Option<String> {
    std::env::args().skip_while(|word| word != name).nth(1)
}

/// Rows that have to be so good; those that are not make the benchmark fail at its end.
#[allow(dead_code, reason = "not every benchmark has them")]
#[derive(Default)]
pub struct Targets {
    missed: Vec<String>,
}

#[allow(dead_code, reason = "not every benchmark has them")]
impl Targets {
    /// Prints a row whose peer is the target, and notes if it is missed.
    pub fn meet(&mut self, name: &str, ours: f64, target: f64, better: Better, unit: &str) {
        self.ratio(name, "target", [ours, target], better, unit, 1.0);
    }

    /// Prints a row next to a peer's, and notes if the ratio is below the least that is allowed.
    pub fn ratio(
        &mut self,
        name: &str,
        peer_name: &str,
        [ours, peer]: [f64; 2],
        better: Better,
        unit: &str,
        ratio_min: f64,
    ) {
        let line = row(name, peer_name, ours, peer, better, unit);
        println!("{line}");
        let is_met = match better {
            Better::Less => ours * ratio_min <= peer,
            Better::More => ours >= peer * ratio_min,
        };
        if !is_met {
            self.missed.push(line);
        }
    }

    /// Fails if a target was missed.
    pub fn check(self) {
        assert!(self.missed.is_empty(), "targets are missed:\n{}", self.missed.join("\n"));
    }
}
