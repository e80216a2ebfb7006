//! Money as users type it: dollars, stored as millionths.
//!
//! # Invariants
//! 1. No floating point: the typed amount is stored exactly.
//! 2. [`parse`] reads a text that [`format_dollars`] printed back as the same amount.

/// A dollar, in millionths.
const DOLLAR: u64 = 1_000_000;
/// The number of decimal places that count.
const PLACES: usize = 6;
/// More dollars than this are a slip.
const DOLLARS_MAX: u64 = 1_000_000;

/// The allowed amounts, in words that follow "it takes".
pub const ALLOWED: &str = "dollars, like 20 or 0.50, up to 1000000";

/// The millionths of a dollar in `20`, `0.5` or `12.345678`; `None` if it is no amount.
pub fn parse(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > PLACES {
        return None;
    }
    let whole = whole.parse::<u64>().ok().filter(|dollars| *dollars <= DOLLARS_MAX)?;
    let part = format!("{part:0<PLACES$}").parse::<u64>().ok()?;
    Some(whole * DOLLAR + part).filter(|micros| *micros <= DOLLARS_MAX * DOLLAR)
}

/// The amount as it is typed, with two places after the point at least.
pub fn format_dollars(micros: u64) -> String {
    let part = format!("{:06}", micros % DOLLAR);
    let (cents, rest) = part.split_at(2);
    format!("{}.{cents}{}", micros / DOLLAR, rest.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_and_printed_exactly() {
        for (text, micros, shown) in [
            ("20", 20_000_000, "20.00"),
            ("0.5", 500_000, "0.50"),
            ("10.00", 10_000_000, "10.00"),
            ("12.345678", 12_345_678, "12.345678"),
            ("0.000001", 1, "0.000001"),
            ("0", 0, "0.00"),
            ("1000000", 1_000_000_000_000, "1000000.00"),
        ] {
            assert_eq!((parse(text), format_dollars(micros).as_str()), (Some(micros), shown));
            assert_eq!(parse(shown), Some(micros));
        }
        for wrong in
            ["", ".5", "5.", "-1", "1e3", "1,5", "0.0000001", "1000000.01", "99999999999999999999", "$5"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
