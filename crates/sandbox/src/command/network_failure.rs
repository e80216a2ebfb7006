//! Detects output that looks as if a command had wanted the network.
//!
//! It is a guess, for a hint: nothing depends on it.

/// Messages of common programs, in lower case, if a name is not resolved or a connection not made.
const SIGNS: [&[u8]; 18] = [
    b"could not resolve host",
    b"couldn't resolve host",
    b"temporary failure in name resolution",
    b"temporary failure resolving",
    b"name or service not known",
    b"nodename nor servname provided",
    b"failed to lookup address",
    b"no address associated with hostname",
    b"getaddrinfo",
    b"eai_again",
    b"enotfound",
    b"network is unreachable",
    b"connection refused",
    b"connection error",
    b"waiting for network",
    b"dial tcp",
    b"dns error",
    b"address family not supported",
];

/// Returns true if the output shows that no program listened at a port.
pub(super) fn is_refusal_shown_in(output: &[u8]) -> bool {
    let lower = output.to_ascii_lowercase();
    let has = |sign: &[u8]| lower.windows(sign.len()).any(|window| window == sign);
    has(b"connection refused") || has(b"econnrefused")
}

/// Returns true if the output shows a failure to resolve or to connect.
pub(super) fn is_shown_in(output: &[u8]) -> bool {
    let lower = output.to_ascii_lowercase();
    SIGNS.iter().any(|sign| lower.windows(sign.len()).any(|window| window == *sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_waits_for_a_network_is_recognized_however_it_is_written() {
        assert!(is_shown_in(b"Waiting for network...\n"));
        assert!(is_shown_in(b"API Error: Connection error."));
        assert!(is_shown_in(b"connection error: desc = \"transport\""));
        assert!(!is_shown_in(b"waiting for a lock"));
    }

    #[test]
    fn a_failed_lookup_is_told_from_an_ordinary_failure() {
        assert!(is_shown_in(b"curl: (6) Could not resolve host: example.org\n"));
        assert!(is_shown_in(b"connect: Network is unreachable"));
        assert!(!is_shown_in(b"error[E0308]: mismatched types"));
        assert!(!is_shown_in(b""));
    }
}
