//! The prices of tokens: list prices by model, as of the date in the table, and the overrides of the user's
//! configuration.
//!
//! # Invariants
//! 1. A price is in micro-dollars for a million tokens; a cost is rounded up, so that none is ever below the
//!    truth.
//! 2. A price that is not known is `None`, never 0. A model on this machine costs nothing, and that is known.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

const TABLE: &str = include_str!("prices.toml");
const MILLION: u128 = 1_000_000;

/// The cost of a million tokens, in micro-dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens that the model reads.
    pub input: u64,
    /// Tokens that it writes.
    pub output: u64,
    /// Tokens that it reads out of the provider's cache; as `input` if unsaid.
    pub cache_read: Option<u64>,
    /// Tokens that go into the cache; as `input` if unsaid.
    pub cache_write: Option<u64>,
}

/// Tokens by what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read, and in no cache.
    pub input: u64,
    /// Read out of the cache.
    pub cache_read: u64,
    /// Read, and put into the cache.
    pub cache_write: u64,
    /// Written.
    pub output: u64,
}

impl Price {
    /// Nothing.
    pub const FREE: Price = Price { input: 0, output: 0, cache_read: None, cache_write: None };

    /// The cost of `tokens`, in micro-dollars.
    pub fn cost_micros(&self, tokens: &Tokens) -> u64 {
        let Price { input, output, cache_read, cache_write } = *self;
        let parts = [
            (tokens.input, input),
            (tokens.cache_read, cache_read.unwrap_or(input)),
            (tokens.cache_write, cache_write.unwrap_or(input)),
            (tokens.output, output),
        ];
        // Four products of 64 bits each can go beyond 128 only together.
        let sum = parts
            .into_iter()
            .fold(0_u128, |sum, (count, price)| sum.saturating_add(u128::from(count) * u128::from(price)));
        u64::try_from(sum.div_ceil(MILLION)).unwrap_or(u64::MAX)
    }

    /// The most that a call can cost whose prompt and answer have at most so many tokens: what is reserved
    /// for it.
    pub fn most_micros(&self, prompt_tokens: u64, answer_tokens: u64) -> u64 {
        let dearest = self.input.max(self.cache_read.unwrap_or(0)).max(self.cache_write.unwrap_or(0));
        let price = Price { input: dearest, ..*self };
        price.cost_micros(&Tokens { input: prompt_tokens, output: answer_tokens, ..Tokens::default() })
    }
}

/// The table cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the table of prices cannot be read")]
pub struct PricesError(#[from] toml::de::Error);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceTable {
    date: String,
    prices: BTreeMap<String, Price>,
}

/// Prices by `PROVIDER/NAME`.
#[derive(Clone, Debug)]
pub struct Prices {
    date: String,
    prices: BTreeMap<String, Price>,
}

impl Prices {
    /// The table of this program, with what the configuration says instead, by `PROVIDER/NAME`.
    ///
    /// # Errors
    /// Returns an error if the table of this program cannot be read, which a test rules out.
    pub fn with_overrides(overrides: &BTreeMap<String, Price>) -> Result<Prices, PricesError> {
        let PriceTable { date, mut prices } = toml::from_str(TABLE)?;
        prices.extend(overrides.iter().map(|(model, price)| (model.clone(), *price)));
        Ok(Prices { date, prices })
    }

    /// The day of the list prices, `2025-11-30`.
    pub fn date(&self) -> &str {
        &self.date
    }

    /// Returns the price of `PROVIDER/NAME`. A name may end in a date (`-20250929`, `-2024-08-06`) or
    /// `-latest`. Unless it has a price of its own, it has that of the name without this end.
    pub fn of(&self, model: &str) -> Option<Price> {
        self.prices.get(model).or_else(|| self.prices.get(undated(model)?)).copied()
    }
}

/// The prices of one provider's models.
#[derive(Clone, Debug, Default)]
pub struct PriceList {
    /// Without one, everything is free.
    listed: Option<(Arc<Prices>, String)>,
}

impl PriceList {
    /// Models on one's own machine.
    pub fn free() -> PriceList {
        PriceList { listed: None }
    }

    /// Those that `prices` has of `provider`.
    pub fn for_provider(prices: Arc<Prices>, provider: &str) -> PriceList {
        PriceList { listed: Some((prices, provider.to_owned())) }
    }

    /// The price of a model, by its name at the provider.
    pub fn of(&self, model: &str) -> Option<Price> {
        match &self.listed {
            None => Some(Price::FREE),
            Some((prices, provider)) => prices.of(&format!("{provider}/{model}")),
        }
    }
}

fn undated(model: &str) -> Option<&str> {
    if let Some(name) = model.strip_suffix("-latest") {
        return Some(name);
    }
    let name = model.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '-');
    let (date, dash) = (&model[name.len()..], "-");
    // The name itself may end in digits: only the date is cut off.
    for parts in [&[8_usize][..], &[4, 2, 2]] {
        let bytes = parts.iter().map(|digits| digits + dash.len()).sum::<usize>();
        if date.len() >= bytes && is_date(&date[date.len() - bytes..], parts) {
            return Some(&model[..model.len() - bytes]);
        }
    }
    None
}

fn is_date(text: &str, parts: &[usize]) -> bool {
    let found: Vec<usize> = text.split('-').skip(1).map(str::len).collect();
    text.starts_with('-') && found == parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAR: Price = Price { input: 3, output: 15, cache_read: Some(1), cache_write: Some(4) };

    #[test]
    fn a_cost_is_the_sum_of_its_parts_rounded_up() {
        let tokens =
            Tokens { input: 1_000_000, cache_read: 2_000_000, cache_write: 3_000_000, output: 4_000_000 };
        assert_eq!(DEAR.cost_micros(&tokens), 3 + 2 + 12 + 60);
        assert_eq!(DEAR.cost_micros(&Tokens { output: 1, ..Tokens::default() }), 1);
        assert_eq!(DEAR.cost_micros(&Tokens::default()), 0);
        let plain = Price { cache_read: None, cache_write: None, ..DEAR };
        assert_eq!(plain.cost_micros(&tokens), 3 + 6 + 9 + 60);
        let all = Tokens { input: u64::MAX, cache_read: u64::MAX, cache_write: u64::MAX, output: u64::MAX };
        let dearest = Price { input: u64::MAX, output: u64::MAX, cache_read: None, cache_write: None };
        assert_eq!(dearest.cost_micros(&all), u64::MAX);
    }

    #[test]
    fn what_is_reserved_covers_every_use_of_the_cache() {
        let most = DEAR.most_micros(1_000_000, 1_000_000);
        assert_eq!(most, 4 + 15);
        for (input, cache_read, cache_write) in [(1_000_000, 0, 0), (0, 1_000_000, 0), (0, 0, 1_000_000)] {
            let tokens = Tokens { input, cache_read, cache_write, output: 1_000_000 };
            assert!(DEAR.cost_micros(&tokens) <= most);
        }
    }

    #[test]
    fn the_table_can_be_read_and_has_sensible_prices() {
        let prices = Prices::with_overrides(&BTreeMap::new()).unwrap();
        assert_eq!(prices.date().len(), "2025-11-30".len());
        for (model, price) in &prices.prices {
            assert!(model.contains('/') && price.input > 0 && price.output >= price.input, "{model}");
            assert!(price.cache_read.is_none_or(|cached| cached < price.input), "{model}");
            assert!(price.cache_write.is_none_or(|cached| cached > price.input), "{model}");
        }
        // 3 dollars for a million tokens read, 15 for a million written.
        let price = prices.of("anthropic/claude-sonnet-4-5").unwrap();
        assert_eq!((price.input, price.output), (3_000_000, 15_000_000));
    }

    #[test]
    fn a_dated_name_has_the_price_of_the_one_without() {
        let overrides =
            BTreeMap::from([("x/m-4".to_owned(), DEAR), ("x/m-4-20990101".to_owned(), Price::FREE)]);
        let prices = Prices::with_overrides(&overrides).unwrap();
        for name in ["x/m-4", "x/m-4-20250929", "x/m-4-2024-08-06", "x/m-4-latest"] {
            assert_eq!(prices.of(name), Some(DEAR), "{name}");
        }
        assert_eq!(prices.of("x/m-4-20990101"), Some(Price::FREE));
        for name in ["x/m-5", "x/m", "m-4", "x/m-4-2024", "x/m-4-mini", "x/m-420250929", ""] {
            assert_eq!(prices.of(name), None, "{name}");
        }
    }

    #[test]
    fn the_configuration_goes_before_the_table() {
        let model = "anthropic/claude-sonnet-4-5";
        let prices = Prices::with_overrides(&BTreeMap::from([(model.to_owned(), DEAR)])).unwrap();
        assert_eq!(prices.of(model), Some(DEAR));
    }
}
