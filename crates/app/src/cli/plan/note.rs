//! `agents plan note` and `agents plan notes`: comments on places of a plan's changes.
//!
//! The next `agents plan revise` sends the open ones to the actor.

use engine::{NotePlace, PlacedNote};
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::errors::{CommandError, codes, from_engine};
use crate::output::{CommandReport, escape_control_chars};
use crate::render::diff::counted;
use crate::render::next_steps;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agents plan note @last src/lib.rs:12 \"use the helper in util.rs\"\n  \
                        agents plan note @last src/lib.rs#2 \"leave this as it was\"\n  \
                        agents plan note @last --resolve 4")]
pub(in crate::cli) struct NoteArgs {
    /// The plan
    plan: String,
    /// The place: PATH#HUNK, PATH:LINE or PATH:FIRST-LAST in the new file, -PATH:LINE in the old one
    #[arg(required_unless_present = "resolve", allow_hyphen_values = true)]
    place: Option<String>,
    /// The comment
    #[arg(required_unless_present = "resolve")]
    text: Option<String>,
    /// Mark this note as resolved instead of writing one
    #[arg(long, value_name = "N", conflicts_with_all = ["place", "text"])]
    resolve: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct NotesArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
    /// Include notes that were sent or resolved
    #[arg(long)]
    all: bool,
}

pub(super) async fn add(args: NoteArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let refused = |error| from_engine::note(&error, &plan.short);
    if let Some(number) = args.resolve {
        engine.resolve_note(plan.id, number).await.map_err(refused)?;
        let data = json!({ "plan_id": plan.id, "resolved": number });
        return Ok(CommandReport::new(data, format!("note {number} is resolved\n")));
    }
    let (place, text) = (args.place.unwrap_or_default(), args.text.unwrap_or_default());
    let place: NotePlace = place.parse().map_err(|error: engine::NotePlaceError| {
        CommandError::new(&codes::NO_SUCH_PLACE, error.to_string())
    })?;
    let note = engine.add_note(plan.id, &place, &text).await.map_err(refused)?;
    let data = json!({ "plan_id": plan.id, "number": note.seq, "place": place.to_string() });
    let next = next_steps::send_notes(&plan.short);
    Ok(CommandReport::new(
        data,
        format!("note {} on {}; {next}\n", note.seq, escape_control_chars(&place.to_string())),
    ))
}

pub(super) async fn list(args: NotesArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let mut notes = engine.notes(plan.id).await.map_err(|error| from_engine::plan(&error, &plan.short))?;
    let resolved = notes.iter().filter(|note| note.is_resolved).count();
    notes.retain(|note| args.all || !note.is_resolved);
    let rows: Vec<Value> = notes.iter().map(to_json).collect();
    let mut text: String = notes.iter().map(to_text).collect();
    if notes.is_empty() {
        text.push_str("no open notes\n");
    } else {
        text.push_str(&format!(
            "{}; {}\n",
            counted(notes.len(), "note"),
            next_steps::send_notes(&plan.short)
        ));
    }
    if resolved > 0 && !args.all {
        text.push_str(&format!("{} resolved (`--all` shows them)\n", counted(resolved, "note")));
    }
    Ok(CommandReport::new(json!({ "plan_id": plan.id, "notes": rows, "resolved": resolved }), text))
}

fn to_json(note: &PlacedNote) -> Value {
    json!({
        "number": note.note.seq, "place": note.place, "text": note.note.new.chosen,
        "lines": note.note.new.rationale, "resolved": note.is_resolved, "outdated": note.is_outdated,
        "attempt": note.note.new.attempt,
    })
}

fn to_text(note: &PlacedNote) -> String {
    let state = match (note.is_resolved, note.is_outdated) {
        (true, _) => " (resolved)",
        (false, true) => " (outdated: these lines are no longer there)",
        (false, false) => "",
    };
    let quoted: String = note
        .note
        .new
        .rationale
        .lines()
        .map(|line| format!("    > {}\n", escape_control_chars(line)))
        .collect();
    let said: String =
        note.note.new.chosen.lines().map(|line| format!("    {}\n", escape_control_chars(line))).collect();
    format!("{}  {}{state}\n{quoted}{said}", note.note.seq, escape_control_chars(&note.place))
}
