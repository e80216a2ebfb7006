//! The rules for visible files: globs and bounds by view, the user's and each project's.
//!
//! # Invariants
//! 1. `exclude` beats `include`, and is joined over all levels; a field that a view leaves unset is
//!    `default`'s.
//! 2. A project's rules narrow the user's and never widen them: a file must pass both, of two bounds the
//!    lower holds.
//! 3. Rules are checked when they are compiled, once; looking at a path cannot fail.
//!
//! # Not here
//! Secret files, which no rule shows: the index marks them, and they are only ever listed.

use domain::RelPath;
use domain::context::{ContextView, Name};
use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

/// The rules of one view, as they are written. A rule that is unset is inherited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewRules {
    /// Globs of what is seen; empty: all.
    pub include: Option<Vec<String>>,
    /// Globs of what is not seen.
    pub exclude: Vec<String>,
    /// Larger files are only listed.
    pub max_file_kb: Option<u32>,
    /// The number of files that may be in a context; 0: any.
    pub max_files: Option<u32>,
    /// The token limit of a context.
    pub max_tokens: Option<u32>,
    /// The strategies that may run.
    pub strategies: Option<Vec<Name>>,
}

impl ViewRules {
    /// These rules, and where they are silent those of `default`.
    #[must_use]
    fn over(&self, default: &ViewRules) -> ViewRules {
        let exclude = default.exclude.iter().chain(&self.exclude).cloned().collect();
        ViewRules {
            include: self.include.clone().or_else(|| default.include.clone()),
            exclude,
            max_file_kb: self.max_file_kb.or(default.max_file_kb),
            max_files: self.max_files.or(default.max_files),
            max_tokens: self.max_tokens.or(default.max_tokens),
            strategies: self.strategies.clone().or_else(|| default.strategies.clone()),
        }
    }
}

/// The rules of all views of one level: the user's, or a project's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Views {
    /// The rules for all that a view does not set.
    pub default: ViewRules,
    /// For a plan that thinks.
    pub strategize: ViewRules,
    /// For a plan that works.
    pub execute: ViewRules,
}

impl Views {
    /// The rules of one view, with what it inherits.
    ///
    /// ```
    /// use context::{ViewRules, Views};
    /// use domain::context::ContextView;
    ///
    /// let default = ViewRules { max_files: Some(40), exclude: vec!["*.lock".into()], ..ViewRules::default() };
    /// let execute = ViewRules { exclude: vec!["docs/**".into()], ..ViewRules::default() };
    /// let views = Views { default, execute, ..Views::default() };
    /// let rules = views.resolve(ContextView::Execute);
    /// assert_eq!(rules.max_files, Some(40));
    /// assert_eq!(rules.exclude, ["*.lock", "docs/**"]);
    /// ```
    pub fn resolve(&self, view: ContextView) -> ViewRules {
        match view {
            ContextView::Default => self.default.clone(),
            ContextView::Strategize => self.strategize.over(&self.default),
            ContextView::Execute => self.execute.over(&self.default),
        }
    }
}

/// A glob that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the glob `{glob}` cannot be read: {why}")]
pub struct GlobUnreadable {
    /// As it is written.
    pub glob: String,
    /// The problem.
    pub why: String,
}

/// The rules that hold for one project in one view: the user's and the project's own, ready to be asked.
#[derive(Clone, Debug)]
pub struct ViewFilter {
    includes: Vec<GlobSet>,
    exclude: GlobSet,
    max_file_bytes: Option<u64>,
}

impl ViewFilter {
    /// Joins rules of several levels: all of them must be passed.
    ///
    /// # Errors
    /// The first glob that cannot be read.
    pub fn compile(levels: &[&ViewRules]) -> Result<ViewFilter, GlobUnreadable> {
        let mut includes = Vec::new();
        let mut excluded = Vec::new();
        for rules in levels {
            match &rules.include {
                Some(globs) if !globs.is_empty() => includes.push(set(globs)?),
                Some(_) | None => {}
            }
            excluded.extend(rules.exclude.iter().cloned());
        }
        let bytes = levels.iter().filter_map(|rules| rules.max_file_kb).min().map(|kb| u64::from(kb) * 1024);
        Ok(ViewFilter { includes, exclude: set(&excluded)?, max_file_bytes: bytes })
    }

    /// Returns true if the file may be seen.
    pub fn admits(&self, path: &RelPath) -> bool {
        let text = String::from_utf8_lossy(path.as_bytes());
        let candidate = Candidate::new(text.as_ref());
        self.includes.iter().all(|include| include.is_match_candidate(&candidate))
            && !self.exclude.is_match_candidate(&candidate)
    }

    /// Returns true if a file of this size may be looked into.
    pub fn admits_size(&self, bytes: u64) -> bool {
        self.max_file_bytes.is_none_or(|max| bytes <= max)
    }
}

/// The lower of the bounds that are set, where 0 means any.
pub(crate) fn lowest_above_zero(bounds: impl IntoIterator<Item = Option<u32>>) -> Option<u32> {
    bounds.into_iter().flatten().filter(|bound| *bound > 0).min()
}

/// A glob without a slash is about names in any folder; a folder's glob is about all below it.
fn set(globs: &[String]) -> Result<GlobSet, GlobUnreadable> {
    let mut builder = GlobSetBuilder::new();
    for glob in globs {
        let unreadable =
            |error: &globset::Error| GlobUnreadable { glob: glob.clone(), why: error.kind().to_string() };
        let plain = glob.trim_end_matches('/');
        let rooted = plain.trim_start_matches('/');
        if rooted.is_empty() {
            return Err(GlobUnreadable { glob: glob.clone(), why: "it is empty".to_owned() });
        }
        let anywhere = if plain.contains('/') { String::new() } else { "**/".to_owned() };
        for form in [format!("{anywhere}{rooted}"), format!("{anywhere}{rooted}/**")] {
            let glob = GlobBuilder::new(&form).literal_separator(true).build();
            builder.add(glob.map_err(|error| unreadable(&error))?);
        }
    }
    builder.build().map_err(|error| GlobUnreadable { glob: globs.join(" "), why: error.kind().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::new(text).expect("a path")
    }

    fn rules(include: &[&str], exclude: &[&str]) -> ViewRules {
        let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>();
        ViewRules { include: Some(owned(include)), exclude: owned(exclude), ..ViewRules::default() }
    }

    #[test]
    fn exclude_beats_include_at_every_level() {
        let user = rules(&["src/**", "*.md"], &["src/gen"]);
        let project = rules(&[], &["*.tmp.rs"]);
        let filter = ViewFilter::compile(&[&user, &project]).expect("globs");
        let table = [
            ("src/a.rs", true),
            ("src/deep/b.rs", true),
            ("docs/x.md", true),
            ("docs/x.txt", false),
            ("src/gen/a.rs", false),
            ("src/a.tmp.rs", false),
        ];
        for (file, seen) in table {
            assert_eq!(filter.admits(&path(file)), seen, "{file}");
        }
    }

    #[test]
    fn a_project_narrows_and_never_widens() {
        let user = ViewRules { max_file_kb: Some(8), ..rules(&["src/**"], &[]) };
        let project = ViewRules { max_file_kb: Some(64), ..rules(&["**/*"], &[]) };
        let filter = ViewFilter::compile(&[&user, &project]).expect("globs");
        assert!(filter.admits(&path("src/a.rs")) && !filter.admits(&path("etc/a.rs")));
        assert!(filter.admits_size(8192) && !filter.admits_size(8193));
        assert_eq!(lowest_above_zero([Some(0), None, Some(9), Some(4)]), Some(4));
        assert_eq!(lowest_above_zero([Some(0), None]), None);
    }

    #[test]
    fn a_bad_glob_is_named() {
        let error = ViewFilter::compile(&[&rules(&["src/["], &[])]).expect_err("no glob");
        assert_eq!(error.glob, "src/[");
        assert!(ViewFilter::compile(&[&rules(&[], &["/"])]).is_err());
    }
}
