//! Parses an expression, and reports the place of an error.

use serde_json::{Number, Value};

use super::{Compare, DEPTH_MAX, Expr, ExprFlaw};
use crate::template::{TemplatePath, is_path_char};

/// The operators made of signs, the longer ones first.
const SIGNS: [(&str, Compare); 6] = [
    ("==", Compare::Equal),
    ("!=", Compare::Unequal),
    ("<=", Compare::AtMost),
    (">=", Compare::AtLeast),
    ("<", Compare::Less),
    (">", Compare::More),
];

pub(super) fn parse(text: &str) -> Result<Expr, ExprFlaw> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let expr = parser.any()?;
    parser.skip_space();
    match parser.rest().chars().next() {
        None => Ok(expr),
        Some(letter) => Err(parser.flaw(parser.unexpected(letter))),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Parses the operator that binds least: `or`.
    fn any(&mut self) -> Result<Expr, ExprFlaw> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.flaw(format!("it is nested deeper than {DEPTH_MAX}")));
        }
        let mut expr = self.all()?;
        while self.take_word("or") {
            expr = Expr::Or(Box::new(expr), Box::new(self.all()?));
        }
        self.depth -= 1;
        Ok(expr)
    }

    fn all(&mut self) -> Result<Expr, ExprFlaw> {
        let mut expr = self.not()?;
        while self.take_word("and") {
            expr = Expr::And(Box::new(expr), Box::new(self.not()?));
        }
        Ok(expr)
    }

    fn not(&mut self) -> Result<Expr, ExprFlaw> {
        let mut nots = 0_usize;
        while self.take_word("not") {
            nots += 1;
            if nots > DEPTH_MAX {
                return Err(self.flaw(format!("it is nested deeper than {DEPTH_MAX}")));
            }
        }
        let expr = self.compare()?;
        Ok((0..nots).fold(expr, |expr, _| Expr::Not(Box::new(expr))))
    }

    fn compare(&mut self) -> Result<Expr, ExprFlaw> {
        let left = self.value()?;
        let Some(how) = self.take_compare() else { return Ok(left) };
        let right = self.value()?;
        if self.take_compare().is_some() {
            let why = "comparisons do not follow each other: join them with `and`, or use parentheses";
            return Err(self.flaw(why.to_owned()));
        }
        Ok(Expr::Compare(Box::new(left), how, Box::new(right)))
    }

    fn take_compare(&mut self) -> Option<Compare> {
        self.skip_space();
        for (sign, how) in SIGNS {
            if self.rest().starts_with(sign) {
                self.at += sign.len();
                return Some(how);
            }
        }
        self.take_word("in").then_some(Compare::In)
    }

    fn value(&mut self) -> Result<Expr, ExprFlaw> {
        self.skip_space();
        match self.rest().chars().next() {
            None => Err(self.flaw("a value is missing at the end".to_owned())),
            Some('(') => {
                self.at += 1;
                let inner = self.any()?;
                self.expect(')')?;
                Ok(inner)
            }
            Some('[') => self.list(),
            Some(quote @ ('"' | '\'')) => self.parse_quoted(quote),
            Some(letter) if letter.is_ascii_digit() || letter == '-' => self.number(),
            Some(letter) if letter.is_ascii_alphabetic() || letter == '_' => self.word(),
            Some(letter) => Err(self.flaw(self.unexpected(letter))),
        }
    }

    fn list(&mut self) -> Result<Expr, ExprFlaw> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_space();
            if self.rest().starts_with(']') {
                self.at += 1;
                return Ok(Expr::List(items));
            }
            if !items.is_empty() {
                self.expect(',')?;
            }
            items.push(self.any()?);
        }
    }

    fn parse_quoted(&mut self, quote: char) -> Result<Expr, ExprFlaw> {
        let open = self.at;
        let mut text = String::new();
        let mut letters = self.text[open + 1..].char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => match letters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, 'b')) => text.push('\u{8}'),
                    Some((_, 'f')) => text.push('\u{c}'),
                    Some((_, 'u')) => {
                        let digits: String = letters.by_ref().take(4).map(|(_, digit)| digit).collect();
                        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                        match code.and_then(char::from_u32) {
                            Some(letter) => text.push(letter),
                            None => {
                                return Err(self.flaw("`\\u` needs four hexadecimal digits".to_owned()));
                            }
                        }
                    }
                    Some((_, other @ ('\\' | '"' | '\'' | '/'))) => text.push(other),
                    Some((_, other)) => return Err(self.flaw(format!("there is no escape `\\{other}`"))),
                    None => break,
                },
                letter if letter == quote => {
                    self.at = open + 1 + at + letter.len_utf8();
                    return Ok(Expr::Literal(Value::String(text)));
                }
                letter => text.push(letter),
            }
        }
        Err(self.flaw(format!("the text that begins with {quote} does not end")))
    }

    fn number(&mut self) -> Result<Expr, ExprFlaw> {
        let rest = self.rest();
        let is_part = |(at, letter): (usize, char)| {
            let after_exponent = at > 0 && matches!(rest.as_bytes().get(at - 1), Some(b'e' | b'E'));
            letter.is_ascii_digit()
                || matches!(letter, '.' | 'e' | 'E')
                || ((at == 0 || after_exponent) && matches!(letter, '-' | '+'))
        };
        let end = rest.char_indices().find(|found| !is_part(*found)).map_or(rest.len(), |(at, _)| at);
        let text = &rest[..end];
        let whole = text.parse::<u64>().map(Number::from).or_else(|_| text.parse::<i64>().map(Number::from));
        let number = whole.ok().or_else(|| Number::from_f64(text.parse::<f64>().ok()?));
        match number {
            Some(number) => {
                self.at += end;
                Ok(Expr::Literal(Value::Number(number)))
            }
            None => Err(self.flaw(format!("`{text}` is not a number"))),
        }
    }

    fn word(&mut self) -> Result<Expr, ExprFlaw> {
        let word = self.peek_word();
        let expr = match word {
            "true" => Expr::Literal(Value::Bool(true)),
            "false" => Expr::Literal(Value::Bool(false)),
            "null" => Expr::Literal(Value::Null),
            "and" | "or" | "not" | "in" => {
                return Err(self.flaw(format!("a value is missing before `{word}`")));
            }
            path => match TemplatePath::parse(path) {
                Ok(path) => Expr::Path(path),
                Err(flaw) => return Err(self.flaw(format!("`{path}` {flaw}"))),
            },
        };
        self.at += word.len();
        Ok(expr)
    }

    /// The letters up to the end of a word, which may be a path.
    fn peek_word(&self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find(|letter| !(is_path_char(letter) || letter == '.')).unwrap_or(rest.len());
        &rest[..end]
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.skip_space();
        let is_there = self.peek_word() == word;
        if is_there {
            self.at += word.len();
        }
        is_there
    }

    fn expect(&mut self, wanted: char) -> Result<(), ExprFlaw> {
        self.skip_space();
        match self.rest().chars().next() {
            Some(letter) if letter == wanted => {
                self.at += letter.len_utf8();
                Ok(())
            }
            Some(letter) => Err(self.flaw(format!("`{wanted}` is missing before `{letter}`"))),
            None => Err(self.flaw(format!("`{wanted}` is missing at the end"))),
        }
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn unexpected(&self, letter: char) -> String {
        let hint = match (letter, self.rest().starts_with("&&"), self.rest().starts_with("||")) {
            ('=', _, _) => "; compare with `==`",
            ('!', _, _) => "; the opposite is `not`",
            (_, true, _) => "; write `and`",
            (_, _, true) => "; write `or`",
            ('{', _, _) => "; write a path without braces here",
            (_, false, false) => "",
        };
        format!("`{letter}` is not expected here{hint}")
    }

    fn flaw(&self, why: String) -> ExprFlaw {
        ExprFlaw { at: self.at, why }
    }
}
