//! Runs of zeros in bytes, which a sparse file leaves out.

/// The number of bytes that are looked at together: a block of most file systems.
const BLOCK_BYTES: usize = 4096;

/// Bytes that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroRun<'a> {
    /// Whole blocks of zeros.
    Zeros(&'a [u8]),
    /// Anything else.
    Other(&'a [u8]),
}

/// Splits bytes that begin at a block into runs of blocks that hold nothing but zeros, and the others.
/// Together they are all the bytes.
///
/// ```
/// use domain::{ZeroRun, zero_runs};
///
/// let bytes = [&[0; 8192][..], b"text"].concat();
/// let runs: Vec<_> = zero_runs(&bytes).collect();
/// assert_eq!(runs, [ZeroRun::Zeros(&[0; 8192]), ZeroRun::Other(b"text")]);
/// ```
pub fn zero_runs(bytes: &[u8]) -> impl Iterator<Item = ZeroRun<'_>> {
    let mut blocks = bytes.chunks(BLOCK_BYTES).map(is_zero).peekable();
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let zeros = blocks.next()?;
        let mut count = 1;
        while blocks.next_if_eq(&zeros).is_some() {
            count += 1;
        }
        let (run, behind) = rest.split_at_checked(count * BLOCK_BYTES).unwrap_or((rest, &[]));
        rest = behind;
        Some(if zeros { ZeroRun::Zeros(run) } else { ZeroRun::Other(run) })
    })
}

fn is_zero(block: &[u8]) -> bool {
    static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
    ZEROS.get(..block.len()) == Some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_are_all_the_bytes_in_their_order() {
        let zeros = [0; BLOCK_BYTES];
        let mut mixed = [0; BLOCK_BYTES];
        mixed[BLOCK_BYTES - 1] = 1;
        for parts in [
            vec![],
            vec![&zeros[..]],
            vec![&mixed[..], &mixed, &zeros, &zeros, &mixed, &zeros, &zeros[..7]],
            vec![&zeros[..], &mixed[..9]],
        ] {
            let bytes = parts.concat();
            let runs: Vec<ZeroRun<'_>> = zero_runs(&bytes).collect();
            let is_zeros: Vec<bool> = runs.iter().map(|run| matches!(run, ZeroRun::Zeros(_))).collect();
            assert!(is_zeros.windows(2).all(|pair| pair[0] != pair[1]), "{is_zeros:?}");
            let together: Vec<u8> = runs
                .iter()
                .flat_map(|run| match run {
                    ZeroRun::Zeros(run) => {
                        assert!(run.iter().all(|byte| *byte == 0));
                        *run
                    }
                    ZeroRun::Other(run) => *run,
                })
                .copied()
                .collect();
            assert_eq!(together, bytes);
        }
    }
}
