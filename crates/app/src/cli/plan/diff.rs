//! `agents plan diff`: the changes of a plan, as a patch, a list, a page, or as the conflicts that prevent
//! applying it.
//!
//! # Invariants
//! Files are read, compared and written one after the other, except as YAML: how many there are does not
//! matter.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use domain::{CallNumber, DetectedRename, NetChange, Redactor, RelPath, change_address};
use engine::{ApplyRequest, ChangedFiles, DiffRange, DiffRequest, Engine, FileDiff};
use serde_json::{Value, json};

use super::selection::LAST;
use crate::cli::invocation::NamedPlan;
use crate::cli::{Invocation, forecast};
use crate::errors::{CommandError, codes, from_engine, hints};
use crate::output::{
    BodyForm, CommandReport, Format, OutputNote, OutputStyle, StreamedBody, escape_control_bytes,
};
use crate::render;
use crate::render::diff::{DiffSum, RenameOtherEnd, ShownDiff};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DiffArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
    /// Only these files and directories
    paths: Vec<String>,
    /// Print one line per file
    #[arg(long, conflicts_with = "name_only")]
    stat: bool,
    /// Print only the names of the files
    #[arg(long)]
    name_only: bool,
    /// Only the changes of this call
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to", "attempts"])]
    call: Option<u32>,
    /// Only the changes after this checkpoint (see `agents plan checkpoints`)
    #[arg(long, value_name = "N", conflicts_with = "attempts")]
    from: Option<u64>,
    /// Only the changes up to this checkpoint
    #[arg(long, value_name = "N", conflicts_with = "attempts")]
    to: Option<u64>,
    /// The difference between the results of two attempts
    #[arg(long, value_name = "A..B", value_parser = attempts)]
    attempts: Option<(u32, u32)>,
    /// Print the conflicts that block an apply now
    #[arg(long)]
    conflicts: bool,
    /// Do not hide secrets
    #[arg(long)]
    reveal: bool,
}

pub(super) async fn run(args: DiffArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let mut args = args;
    let plan = match invocation.plan(&engine, &args.plan).await {
        // A word that names no plan and is a file here is a path of the newest plan.
        Err(failure) if failure.code == &codes::PLAN_NOT_FOUND && is_path(&args.plan, invocation) => {
            args.paths.insert(0, std::mem::replace(&mut args.plan, LAST.to_owned()));
            invocation.plan(&engine, LAST).await?
        }
        found => found?,
    };
    if args.conflicts {
        return conflicts(&engine, &plan).await;
    }
    // One after the other, since each may have to go through all changes.
    let mets = forecast::find_overlaps(&engine, &plan).await?.mets;
    let (warning, forecast) = (render::forecast::warning(&mets), render::forecast::to_json(&mets));
    drop(mets);
    let changed_files = async |range| {
        let found = engine.changed_files(plan.id, &DiffRequest { range }).await;
        found.map_err(|error| from_engine::plan(&error, &plan.short))
    };
    let mut found = changed_files(DiffRange::Whole).await?;
    let linked = engine.linked(&found.plan, &found.changes);
    let range = args.range(found.plan.attempt, &plan.short)?;
    if let Some(call) = args.call {
        let details = super::details(&engine, &plan).await?;
        if !details.calls.iter().any(|known| known.no.0 == call) {
            let message = format!("plan {} made no call {call}", plan.short);
            return Err(CommandError::new(&codes::CALL_NOT_FOUND, message).plan(&plan.short));
        }
    }
    if range != DiffRange::Whole {
        found = changed_files(range).await?;
    }
    if !args.paths.is_empty() {
        let aliases = &found.aliases;
        let is_asked = |change: &NetChange| {
            let address = change_address(change, aliases);
            args.paths.iter().any(|path| is_below(&address, path))
        };
        found.changes.retain(is_asked);
        if found.changes.is_empty() {
            return Err(CommandError::new(
                &codes::NO_SUCH_HUNK,
                format!("nothing that plan {} changed is called `{}`", plan.short, args.paths.join("`, `")),
            )
            .hint(hints::SEE_NAMES)
            .plan(&plan.short));
        }
    }
    let style = invocation.style;
    let form = match style.format {
        _ if args.name_only => TextForm::Names,
        _ if args.stat => TextForm::Stat,
        Format::Rich => TextForm::Page,
        Format::Plain | Format::Json | Format::Yaml => TextForm::Patch,
    };
    if !args.reveal {
        // Before anything is written, since it may be refused.
        redactor(&engine)?;
    }
    // A patch has no place for it.
    let left_out = match form {
        TextForm::Patch => render::diff::left_out_parts(&found.not_captured),
        TextForm::Names | TextForm::Stat | TextForm::Page => Vec::new(),
    };
    let notes = render::diff::linked_warning(&linked, false).into_iter().chain(left_out);
    let notes: Vec<OutputNote> = notes.map(OutputNote::warning).collect();
    let renames = renames_by_end(&engine, &found);
    let diff = StreamedDiff { engine, found, renames, reveal: args.reveal, form, style, forecast, linked };
    let report = CommandReport::streamed(StreamedBody::new(move |body, out| diff.write(body, out)));
    let report = notes.into_iter().fold(report, CommandReport::note);
    // In addition to the answer: a patch is read by programs too.
    Ok(match warning {
        Some(warning) => report.note(OutputNote::warning(warning)),
        None => report,
    })
}

fn attempts(text: &str) -> Result<(u32, u32), String> {
    let (from, to) = text.split_once("..").ok_or("write two numbers of attempts: 1..2")?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    match (number(from), number(to)) {
        (Some(from), Some(to)) => Ok((from, to)),
        _ => Err("write two numbers of attempts: 1..2".to_owned()),
    }
}

impl DiffArgs {
    /// Returns the part of the changes that is asked for.
    fn range(&self, newest: u32, short: &str) -> Result<DiffRange, CommandError> {
        if let Some((from, to)) = self.attempts {
            if let Some(unknown) = [from, to].into_iter().find(|attempt| *attempt > newest) {
                let message = format!("plan {short} has no attempt {unknown}; it is in attempt {newest}");
                return Err(CommandError::new(&codes::NO_CHECKPOINT, message).plan(short));
            }
            return Ok(DiffRange::Attempts { from, to });
        }
        Ok(match (self.call, self.from, self.to) {
            (Some(call), _, _) => DiffRange::Call(CallNumber(call)),
            (None, None, None) => DiffRange::Whole,
            (None, from, to) => DiffRange::Entries { from: from.unwrap_or(0), to },
        })
    }
}

/// The form of the text for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextForm {
    Names,
    Stat,
    Page,
    Patch,
}

/// The changes of a plan, read, compared and written one file after the other: never more than one is in
/// memory.
struct StreamedDiff {
    engine: Engine,
    found: ChangedFiles,
    /// The renames among its changes, by the index of each of their ends.
    renames: BTreeMap<usize, DetectedRename>,
    reveal: bool,
    form: TextForm,
    style: OutputStyle,
    forecast: Value,
    /// Files that have other names.
    linked: Vec<String>,
}

impl StreamedDiff {
    fn write(&self, body: BodyForm, out: &mut dyn Write) -> io::Result<Vec<OutputNote>> {
        let sum = match body {
            BodyForm::Text => self.write_text(out)?,
            BodyForm::Data => self.write_data(out)?,
        };
        Ok(if sum.redacted.is_empty() {
            Vec::new()
        } else {
            vec![OutputNote::warning(format!(
                "secrets are hidden in {}: this is not a patch to apply; see them with `--reveal`",
                sum.redacted.join(", ")
            ))]
        })
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<DiffSum> {
        let ChangedFiles { changes, not_captured, aliases, .. } = &self.found;
        let style = &self.style;
        let shown: Vec<(usize, Cow<'_, NetChange>, Option<u8>)> =
            (0..changes.len()).filter_map(|at| self.shown_change(at)).collect();
        let width = match self.form {
            TextForm::Stat => {
                let labels = shown.iter().map(|(_, change, _)| (&**change, change_address(change, aliases)));
                render::diff::stat_width(labels)
            }
            TextForm::Names | TextForm::Page | TextForm::Patch => 0,
        };
        let shown = shown.into_iter().map(|(at, change, similarity)| (at, change.into_owned(), similarity));
        let sum = self.each(shown, |_, file| match self.form {
            TextForm::Names => out.write_all(render::diff::name_of(file).as_bytes()),
            TextForm::Stat => out.write_all(render::diff::stat_of(file, width, style).as_bytes()),
            TextForm::Page => out.write_all(render::diff::page_of(file, style).as_bytes()),
            TextForm::Patch => out.write_all(&render::diff::patch_of(file)),
        })?;
        match self.form {
            TextForm::Stat | TextForm::Page => {
                out.write_all(sum.line().as_bytes())?;
                let mut left_out = render::diff::left_out_line(not_captured);
                if self.form == TextForm::Stat {
                    left_out.push_str(&render::diff::left_out_files(not_captured));
                }
                out.write_all(&self.engine.secret_filter().text(left_out.into_bytes()))?;
            }
            TextForm::Names | TextForm::Patch => {}
        }
        Ok(sum)
    }

    /// The keys in their order, which is that of letters.
    fn write_data(&self, out: &mut dyn Write) -> io::Result<DiffSum> {
        let mut separator = "";
        out.write_all(b"{\"files\":[")?;
        let changes = self.found.changes.iter().enumerate();
        let mut sum = self.each(changes.map(|(at, change)| (at, change.clone(), None)), |at, file| {
            out.write_all(separator.as_bytes())?;
            separator = ",";
            let mut value = render::diff::file_json(file);
            if let Some(other) = self.other_end(at) {
                value["rename"] = self.engine.secret_filter().value(other.to_json());
            }
            Ok(serde_json::to_writer(&mut *out, &value)?)
        })?;
        sum.renames += self.renames.len() / 2;
        let filter = self.engine.secret_filter();
        out.write_all(b"],\"forecast\":")?;
        serde_json::to_writer(&mut *out, &filter.value(self.forecast.clone()))?;
        out.write_all(b",\"linked\":")?;
        serde_json::to_writer(&mut *out, &filter.value(json!(self.linked)))?;
        out.write_all(b",\"plan\":")?;
        serde_json::to_writer(&mut *out, &self.found.plan.id.to_string())?;
        out.write_all(b",\"summary\":")?;
        let summary = render::diff::summary_json(&sum, &self.found.not_captured);
        serde_json::to_writer(&mut *out, &filter.value(summary))?;
        out.write_all(b"}")?;
        Ok(sum)
    }

    /// The change with this index as text shows it, with its similarity if it is a rename; `None` if it is
    /// shown with another one.
    fn shown_change(&self, at: usize) -> Option<(usize, Cow<'_, NetChange>, Option<u8>)> {
        // A list of names has both ends of a rename.
        let rename = self.renames.get(&at).filter(|_| self.form != TextForm::Names);
        let (change, similarity) = match rename {
            Some(rename) if rename.from == at => return None,
            Some(rename) => (Cow::Owned(rename.as_change(&self.found.changes)?), Some(rename.similarity)),
            None => (Cow::Borrowed(self.found.changes.get(at)?), None),
        };
        Some((at, change, similarity))
    }

    /// The other end of the rename that the change with this index is an end of.
    fn other_end(&self, at: usize) -> Option<RenameOtherEnd> {
        let rename = self.renames.get(&at)?;
        let is_source = rename.from == at;
        let other = self.found.changes.get(if is_source { rename.to } else { rename.from })?;
        let address = change_address(other, &self.found.aliases);
        Some(RenameOtherEnd { is_source, address, similarity: rename.similarity })
    }

    /// Calls `write` with each file, ready to be shown.
    fn each(
        &self,
        changes: impl Iterator<Item = (usize, NetChange, Option<u8>)>,
        mut write: impl FnMut(usize, &ShownDiff<'_>) -> io::Result<()>,
    ) -> io::Result<DiffSum> {
        let redactor = self.engine.redactor();
        let redact = |path: &RelPath, content: &[u8]| match &redactor {
            Some(redactor) => redactor.redact_file(path, content).into_owned(),
            None => Vec::new(),
        };
        let mut sum = DiffSum::default();
        for (at, change, similarity) in changes {
            let file = self.engine.file_diff(change, &self.found.aliases);
            let shown =
                if self.reveal { ShownDiff::revealed(&file) } else { ShownDiff::redacted(&file, &redact) };
            let shown = match similarity {
                Some(percent) => shown.as_rename(percent),
                None => shown,
            };
            write(at, &shown)?;
            sum.add(&shown);
        }
        Ok(sum)
    }
}

/// The renames among the changes, by the index of each of their ends.
fn renames_by_end(engine: &Engine, found: &ChangedFiles) -> BTreeMap<usize, DetectedRename> {
    let renames = engine.find_renames(&found.changes);
    renames.into_iter().flat_map(|rename| [(rename.from, rename), (rename.to, rename)]).collect()
}

/// All that a plan changed, as a person reads it after a run.
pub(in crate::cli) async fn whole(
    engine: &Engine,
    plan: &NamedPlan,
    invocation: &Invocation,
) -> Result<Vec<u8>, CommandError> {
    redactor(engine)?;
    let found = engine.changed_files(plan.id, &DiffRequest::default()).await;
    let found = found.map_err(|error| from_engine::plan(&error, &plan.short))?;
    let style = invocation.style;
    let form = match style.format {
        Format::Rich => TextForm::Page,
        Format::Plain | Format::Json | Format::Yaml => TextForm::Patch,
    };
    let (engine, renames) = (engine.clone(), renames_by_end(engine, &found));
    let (forecast, linked) = (Value::Null, Vec::new());
    let diff = StreamedDiff { engine, found, renames, reveal: false, form, style, forecast, linked };
    let mut text = Vec::new();
    let written = diff.write_text(&mut text);
    written.map_err(|error| CommandError::new(&codes::IO_FAILED, error.to_string()))?;
    Ok(text)
}

/// Returns true if a word is rather a path than a plan.
fn is_path(word: &str, invocation: &Invocation) -> bool {
    word != LAST && (word.contains('/') || invocation.here.join(word).exists())
}

/// Returns true if `path` is the file itself, a directory that contains it, or its project (`shop:`).
fn is_below(address: &str, path: &str) -> bool {
    if path.ends_with(':') && address.starts_with(path) {
        return true;
    }
    let path = path.trim_end_matches('/');
    let path = path.strip_prefix("./").unwrap_or(path);
    address == path || address.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')) || path == "."
}

/// The changes ready to be shown, without their secrets unless those are asked for.
pub(in crate::cli) fn shown_diffs<'a>(
    files: &[&'a FileDiff],
    reveal: bool,
    engine: &Engine,
) -> Result<Vec<ShownDiff<'a>>, CommandError> {
    if reveal {
        return Ok(files.iter().map(|file| ShownDiff::revealed(file)).collect());
    }
    let redactor = redactor(engine)?;
    let redact = |path: &domain::RelPath, content: &[u8]| redactor.redact_file(path, content).into_owned();
    Ok(files.iter().map(|file| ShownDiff::redacted(file, &redact)).collect())
}

/// Returns the redactor, which takes secrets out. Returns an error if there is none.
fn redactor(engine: &Engine) -> Result<Arc<Redactor>, CommandError> {
    engine.redactor().ok_or_else(|| {
        let message =
            "the key by which secrets are hidden can be neither read nor made in the data directory";
        CommandError::new(&codes::IO_FAILED, message).hint(hints::REVEAL)
    })
}

async fn conflicts(engine: &Engine, plan: &NamedPlan) -> Result<CommandReport, CommandError> {
    let preview = engine.preview(plan.id, &ApplyRequest::default()).await;
    let preview = preview.map_err(|error| from_engine::apply(&error, &plan.short))?;
    let mut text = String::new();
    for conflict in &preview.conflicts {
        text.push_str(&format!("{}  {}\n", conflict.address, conflict.kind.sentence()));
        for place in &conflict.places {
            text.push_str(&format!("  line {}\n  yours:\n{}", place.line, indented(&place.yours)));
            text.push_str(&format!("  the plan's:\n{}", indented(&place.plans)));
        }
    }
    if preview.conflicts.is_empty() {
        text.push_str(&format!("nothing blocks plan {}\n", plan.short));
    }
    let conflicts: Vec<_> = preview.conflicts.iter().map(from_engine::conflict_json).collect();
    Ok(CommandReport::new(json!({ "plan": plan.id, "conflicts": conflicts, "merged": preview.merged }), text))
}

fn indented(bytes: &[u8]) -> String {
    escape_control_bytes(bytes).lines().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_file_or_all_below_it() {
        for (address, path, is) in [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "src", true),
            ("src/a.rs", "./src/", true),
            ("src/a.rs", ".", true),
            ("src2/a.rs", "src", false),
            ("src/a.rs", "a.rs", false),
            ("shop:src/a.rs", "shop:", true),
            ("shop:src/a.rs", "shop:src", true),
            ("shop:src/a.rs", "hop:", false),
        ] {
            assert_eq!(is_below(address, path), is, "{address} {path}");
        }
    }
}
