//! The replacement of a piece of a text, which forgives what a model cannot see and never guesses.
//!
//! | rule | `old` is found by ignoring |
//! |---|---|
//! | exact | nothing |
//! | line ends | CR before a line end; a newline at the end of `old` where the file ends without one |
//! | trailing blanks | the same, and blanks and tabs before a line end |
//!
//! # Invariants
//! 1. The first rule that finds `old` is taken. It has to find it once, unless all occurrences are wanted.
//! 2. Every byte outside the places that were found stays as it is.
//! 3. The new text gets the line ends of its place. The file ends with a newline exactly if it did before,
//!    unless `old` and `new` differ in nothing else.
//!
//! # Not here
//! The permission to change the file, and its mode: `write`.

/// The rule by which the replaced text was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchRule {
    Exact,
    LineEnds,
    TrailingBlanks,
}

impl MatchRule {
    const ALL: [MatchRule; 3] = [MatchRule::Exact, MatchRule::LineEnds, MatchRule::TrailingBlanks];

    /// The name that the model reads: what was ignored.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            MatchRule::Exact => "exact",
            MatchRule::LineEnds => "line ends",
            MatchRule::TrailingBlanks => "trailing blanks",
        }
    }
}

/// An edited text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EditOutcome {
    pub(crate) text: String,
    pub(crate) count: usize,
    pub(crate) rule: MatchRule,
}

/// The reason why a text was not edited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EditFailure {
    NoMatch,
    /// It was found so often, and only one was asked for.
    NotUnique(usize),
}

/// Replaces `old` by `new`.
///
/// # Errors
/// Returns an error if no rule finds `old`, or the first that does finds it more than once and only one
/// replacement is wanted.
pub(crate) fn edit(now: &str, old: &str, new: &str, replace_all: bool) -> Result<EditOutcome, EditFailure> {
    for rule in MatchRule::ALL {
        let places = places(now, old, rule);
        match places.len() {
            0 => continue,
            count if count > 1 && !replace_all => return Err(EditFailure::NotUnique(count)),
            count => return Ok(EditOutcome { text: replaced(now, (old, new), &places), count, rule }),
        }
    }
    Err(EditFailure::NoMatch)
}

/// A part of the text, from its first byte to the one after its last.
type Place = (usize, usize);

fn places(now: &str, old: &str, rule: MatchRule) -> Vec<Place> {
    if rule == MatchRule::Exact {
        // A place that begins with a line end begins with all of it.
        let from = |at: usize| at - usize::from(old.starts_with('\n') && now[..at].ends_with('\r'));
        return now.match_indices(old).map(|(at, found)| (from(at), at + found.len())).collect();
    }
    let (now_bare, old_bare) = (BareText::new(now, rule), BareText::new(old, rule));
    let sought = old_bare.text.as_str();
    if rule == MatchRule::TrailingBlanks && sought.trim().is_empty() {
        // Nothing but blanks is everywhere.
        return Vec::new();
    }
    let mut places: Vec<Place> =
        now_bare.text.match_indices(sought).map(|(at, _)| now_bare.place(at, at + sought.len())).collect();
    // At its end a file may lack the newline that every line of `old` has.
    let unended = sought.strip_suffix('\n').filter(|text| !text.is_empty() && now_bare.text.ends_with(text));
    if let Some(text) = unended.filter(|_| places.is_empty() && !now.ends_with('\n')) {
        let end = now_bare.text.len();
        places.push(now_bare.place(end - text.len(), end));
    }
    places
}

/// A text without the bytes that a rule ignores, and the way back to the whole text.
struct BareText {
    text: String,
    /// For each run of ignored bytes its place in the bare text, and the bytes ignored up to its end. Rising.
    ignored: Vec<(usize, usize)>,
}

impl BareText {
    fn new(whole: &str, rule: MatchRule) -> BareText {
        let mut bare = BareText { text: String::with_capacity(whole.len()), ignored: Vec::new() };
        let mut sum = 0;
        for line in whole.split_inclusive('\n') {
            let content = line.strip_suffix('\n').unwrap_or(line);
            let has_end = content.len() < line.len();
            let kept = match rule {
                MatchRule::Exact => content,
                _ if !has_end => content,
                MatchRule::LineEnds => content.strip_suffix('\r').unwrap_or(content),
                MatchRule::TrailingBlanks => {
                    content.strip_suffix('\r').unwrap_or(content).trim_end_matches([' ', '\t'])
                }
            };
            bare.text.push_str(kept);
            if kept.len() < content.len() {
                sum += content.len() - kept.len();
                bare.ignored.push((bare.text.len(), sum));
            }
            if has_end {
                bare.text.push('\n');
            }
        }
        bare
    }

    /// The same part of the whole text. A part that begins with a line end begins with what is ignored before that;
    /// what is ignored after its last byte is outside.
    fn place(&self, from: usize, to: usize) -> Place {
        (self.whole_at(from), self.whole_at(to))
    }

    fn whole_at(&self, at: usize) -> usize {
        let before = self.ignored.partition_point(|(place, _)| *place < at);
        at + before.checked_sub(1).map_or(0, |last| self.ignored[last].1)
    }
}

fn replaced(now: &str, (old, new): (&str, &str), places: &[Place]) -> String {
    let mut text = String::with_capacity(now.len() + new.len());
    let mut done = 0;
    for (from, to) in places.iter().copied() {
        text.push_str(&now[done..from]);
        let mut put = with_line_ends(new, line_end_at(now, (from, to)));
        if to == now.len() && !differ_in_last_newline_only(old, new) {
            put = with_last_newline_of(now, &text, put);
        }
        text.push_str(&put);
        done = to;
    }
    text.push_str(&now[done..]);
    text
}

fn differ_in_last_newline_only(old: &str, new: &str) -> bool {
    let bare = |text: &str| text.trim_end_matches(['\r', '\n']).to_owned();
    old != new && bare(old) == bare(new)
}

/// Returns the text for the end of a file, which ends with a newline exactly if the file did. `before` is what
/// comes before it: a file that becomes empty needs none.
fn with_last_newline_of(now: &str, before: &str, mut put: String) -> String {
    if !now.ends_with('\n') {
        put.truncate(put.trim_end_matches(['\r', '\n']).len());
    } else if !put.ends_with('\n') && !(put.is_empty() && (before.is_empty() || before.ends_with('\n'))) {
        put.push_str(line_end_at(now, (now.len(), now.len())));
    }
    put
}

/// Returns the line end at a place: the first inside it, else the nearest before it, else the first after it.
fn line_end_at(now: &str, (from, to): Place) -> &'static str {
    let at = |found: usize| if now[..found].ends_with('\r') { "\r\n" } else { "\n" };
    let inside = now[from..to].find('\n').map(|found| from + found);
    let nearest =
        inside.or_else(|| now[..from].rfind('\n')).or_else(|| now[to..].find('\n').map(|found| to + found));
    nearest.map_or("\n", at)
}

fn with_line_ends(text: &str, end: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(content) => format!("{}{end}", content.strip_suffix('\r').unwrap_or(content)),
            None => line.to_owned(),
        })
        .collect()
}

/// Returns a whole new content with the line ends of the present one, if all of those are CRLF and the new
/// content has none.
pub(crate) fn with_line_ends_of(now: &str, new: &str) -> String {
    let ends = now.matches('\n').count();
    match ends > 0 && ends == now.matches("\r\n").count() && !new.contains('\r') {
        true => with_line_ends(new, "\r\n"),
        false => new.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edited(now: &str, old: &str, new: &str) -> (String, MatchRule) {
        let done = edit(now, old, new, false).unwrap();
        (done.text, done.rule)
    }

    #[test]
    fn a_file_keeps_its_line_ends() {
        let crlf = "one\r\ntwo\r\nthree\r\n";
        assert_eq!(
            edited(crlf, "two", "2a\n2b"),
            ("one\r\n2a\r\n2b\r\nthree\r\n".to_owned(), MatchRule::Exact)
        );
        assert_eq!(
            edited(crlf, "one\ntwo\n", "1\n2\n3\n"),
            ("1\r\n2\r\n3\r\nthree\r\n".to_owned(), MatchRule::LineEnds)
        );
        assert_eq!(edited("one\ntwo\n", "one\n", "a\r\nb\r\n").0, "a\nb\ntwo\n");
        // In a mixed file the line ends next to the place count.
        assert_eq!(edited("a\nb\nc\r\nd\r\n", "d", "d\ne").0, "a\nb\nc\r\nd\r\ne\r\n");
        assert_eq!(edited("a\nb\nc\r\nd\r\n", "b", "b\nx").0, "a\nb\nx\nc\r\nd\r\n");
    }

    #[test]
    fn a_file_keeps_its_last_newline() {
        assert_eq!(edited("one\ntwo\n", "two\n", "2").0, "one\n2\n");
        assert_eq!(edited("one\r\ntwo\r\n", "two\r\n", "2").0, "one\r\n2\r\n");
        assert_eq!(edited("one\ntwo", "two", "2\n").0, "one\n2");
        assert_eq!(edited("one\ntwo", "one\ntwo\n", "1\n2\n"), ("1\n2".to_owned(), MatchRule::LineEnds));
        assert_eq!(edited("one\ntwo\n", "two\n", "").0, "one\n", "a line can be removed");
        assert_eq!(edited("one\n", "one\n", "").0, "", "and all of them");
        assert_eq!(edited("one", "one", "one\n").0, "one\n", "a newline that is asked for is added");
        assert_eq!(edited("one\n", "one\n", "one").0, "one", "or removed");
    }

    #[test]
    fn blanks_at_line_ends_are_forgiven_and_the_exact_text_wins() {
        assert_eq!(
            edited("if a:  \n\tb()\t\nc\n", "if a:\n\tb()\nc", "c"),
            ("c\n".to_owned(), MatchRule::TrailingBlanks)
        );
        assert_eq!(edited("a \nb\na\nb\n", "a\nb", "x").0, "a \nb\nx\n");
        assert_eq!(edit("a\r\nb\r\na\r\nb\r\n", "a\nb", "x", false), Err(EditFailure::NotUnique(2)));
        let all = edit("a\r\nb\r\na\r\nb\r\n", "a\nb", "x\ny", true).unwrap();
        assert_eq!((all.text.as_str(), all.count), ("x\r\ny\r\nx\r\ny\r\n", 2));
        assert_eq!(edit("a\n  b\n", "a\n    b", "x", false), Err(EditFailure::NoMatch), "indentation counts");
    }

    #[test]
    fn a_whole_content_gets_crlf_only_where_all_lines_have_it() {
        assert_eq!(with_line_ends_of("a\r\nb\r\n", "x\ny\n"), "x\r\ny\r\n");
        assert_eq!(with_line_ends_of("a\r\nb\n", "x\ny\n"), "x\ny\n");
        assert_eq!(with_line_ends_of("", "x\n"), "x\n");
        assert_eq!(with_line_ends_of("a\r\n", "x\r\ny\n"), "x\r\ny\n", "it says itself what it wants");
    }

    /// Lines of few letters, so that texts occur by accident, with every kind of end.
    fn some_text() -> impl Strategy<Value = String> {
        let line = ("[ab \t]{0,3}", prop_oneof![Just("\n"), Just("\r\n"), Just("")]);
        proptest::collection::vec(line, 0..8)
            .prop_map(|lines| lines.into_iter().map(|(text, end)| text + end).collect())
    }

    proptest! {
        #[test]
        fn no_rule_changes_a_byte_outside_the_place_that_it_found(
            now in some_text(), old in some_text(), new in some_text(),
        ) {
            prop_assume!(!old.is_empty());
            let found = MatchRule::ALL.into_iter().map(|rule| (rule, places(&now, &old, rule)));
            let Some((rule, found)) = found.into_iter().find(|(_, places)| !places.is_empty()) else {
                prop_assert_eq!(edit(&now, &old, &new, false), Err(EditFailure::NoMatch));
                return Ok(());
            };
            let answer = edit(&now, &old, &new, false);
            let [(from, to)] = found[..] else {
                prop_assert_eq!(answer, Err(EditFailure::NotUnique(found.len())));
                return Ok(());
            };
            let done = answer.unwrap();
            prop_assert_eq!(done.rule, rule);
            let (before, after) = (&now[..from], &now[to..]);
            prop_assert!(done.text.starts_with(before) && done.text.ends_with(after));
            let put = &done.text[before.len()..done.text.len() - after.len()];
            // What was put there is the new text, but for its line ends and the last newline of the file.
            let bare = |text: &str| text.replace("\r\n", "\n").trim_end_matches('\n').to_owned();
            prop_assert_eq!(bare(put), bare(&new));
            // The place is the old text, but for what the rule ignores.
            let bare = |text: &str| {
                let bare = BareText::new(&format!("{text}\n"), MatchRule::TrailingBlanks).text;
                bare.trim_end_matches('\n').to_owned()
            };
            prop_assert_eq!(bare(&now[from..to]), bare(&old));
            let ends = |text: &str| (text.matches("\r\n").count(), text.matches('\n').count());
            let ((put_crlf, put_ends), (now_crlf, now_ends)) = (ends(put), ends(&now));
            if now_crlf == 0 { prop_assert_eq!(put_crlf, 0); }
            if now_ends > 0 && now_crlf == now_ends { prop_assert_eq!(put_crlf, put_ends); }
            let bare = |text: &str| text.trim_end_matches(['\r', '\n']).to_owned();
            if !put.is_empty() && bare(&old) != bare(&new) {
                prop_assert_eq!(done.text.ends_with('\n'), now.ends_with('\n'), "{:?} {:?}", now, done.text);
            }
        }
    }
}
