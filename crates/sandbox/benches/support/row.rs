//! What every benchmark prints and asks: a row beside a peer, a median, an option of its command line.

/// Which of two values is the better one.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "not every benchmark has both")]
pub(crate) enum Better {
    Less,
    More,
}

/// `bench NAME/PEER ours=N peer=N ratio=N unit=U`; a ratio above 1 means that ours is better, whatever the unit.
pub(crate) fn row(name: &str, peer_name: &str, ours: f64, peer: f64, better: Better, unit: &str) -> String {
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
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// The number behind `--name` on the command line.
pub(crate) fn option(name: &str, default: usize) -> usize {
    let mut words = std::env::args().skip_while(|word| word != name).skip(1);
    words.next().and_then(|word| word.parse().ok()).unwrap_or(default)
}
