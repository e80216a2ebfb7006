//! Lists all definitions of a kind, with the errors of each.
//!
//! # Invariants
//! Every definition that exists is listed, also one that is hidden or has errors. One that is made of others
//! is free of errors if they can be joined.

use std::path::Path;

use crate::builtin;
use crate::error::{DefinitionError, Diagnostic, DiagnosticKind, SourcePosition};
use crate::freeze::{FreezeOptions, FrozenDefinition, preview_action, preview_actor};
use crate::search_path::{
    DefinitionOrigin, DefinitionText, Kind, Library, built_in, files, name_of, source_of,
};

/// A line of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionListing {
    /// Its name.
    pub name: String,
    /// Its origin.
    pub origin: DefinitionOrigin,
    /// Its file, or `built in`.
    pub place: String,
    /// Its description of itself.
    pub description: String,
    /// The origin of the definition of the same name that is taken instead.
    pub hidden_by: Option<DefinitionOrigin>,
    /// Its problems.
    pub findings: Vec<Diagnostic>,
}

impl Library {
    /// All definitions of a kind, by name and in the order in which they are taken.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be read.
    pub fn list(&self, kind: Kind) -> Result<Vec<DefinitionListing>, DefinitionError> {
        let mut listed: Vec<DefinitionListing> = Vec::new();
        for (origin, folder) in &self.folders {
            for path in files(&folder.join(kind.folder()))? {
                listed.push(match source_of(kind, &path, *origin) {
                    Ok(source) => self.line(kind, source),
                    Err(error) => unreadable(kind, &path, *origin, &error),
                });
            }
        }
        for (name, text) in builtin::of(kind) {
            listed.push(self.line(kind, built_in(name, text)));
        }
        // The sort is stable: of one name the first is the one that is taken.
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        for at in 1..listed.len() {
            let (before, rest) = listed.split_at_mut(at);
            if let Some(taken) =
                before.iter().find(|line| line.name == rest[0].name && line.hidden_by.is_none())
            {
                rest[0].hidden_by = Some(taken.origin);
            }
        }
        Ok(listed)
    }

    /// A line of the list: what is wrong with a definition itself, or with what it is made of.
    fn line(&self, kind: Kind, source: DefinitionText) -> DefinitionListing {
        let (name, origin, place) = (source.name.clone(), source.origin, source.place.clone());
        let around = FreezeOptions::default();
        let read = match kind {
            Kind::Action => self.as_action(source).map(|action| {
                let found = diagnostics_of(preview_action(self, &action, &around));
                (action.definition.description, found)
            }),
            Kind::Actor => self.as_actor(source).map(|actor| {
                let found = diagnostics_of(preview_actor(self, &actor, &around));
                (actor.definition.description, found)
            }),
        };
        match read {
            Ok((description, findings)) => {
                DefinitionListing { name, origin, place, description, hidden_by: None, findings }
            }
            Err(error) => DefinitionListing { name, origin, place, ..faulty(error) },
        }
    }
}

/// Returns the diagnostics of a frozen definition and its parts.
fn diagnostics_of(frozen: Result<FrozenDefinition, DefinitionError>) -> Vec<Diagnostic> {
    match frozen {
        Err(DefinitionError::Invalid(findings)) => findings,
        Ok(_)
        | Err(
            DefinitionError::NotFound { .. }
            | DefinitionError::Unreadable { .. }
            | DefinitionError::Args(_)
            | DefinitionError::NoActor,
        ) => Vec::new(),
    }
}

fn unreadable(
    kind: Kind,
    path: &Path,
    origin: DefinitionOrigin,
    error: &DefinitionError,
) -> DefinitionListing {
    let place = path.display().to_string();
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name_of(kind, origin, &name);
    let message = error.to_string();
    let finding = Diagnostic {
        file: place.clone(),
        at: SourcePosition::default(),
        kind: DiagnosticKind::Invalid,
        message,
    };
    DefinitionListing {
        name,
        origin,
        place,
        description: String::new(),
        hidden_by: None,
        findings: vec![finding],
    }
}

fn faulty(error: DefinitionError) -> DefinitionListing {
    let findings = match error {
        DefinitionError::Invalid(findings) => findings,
        DefinitionError::NotFound { .. }
        | DefinitionError::Unreadable { .. }
        | DefinitionError::Args(_)
        | DefinitionError::NoActor => Vec::new(),
    };
    DefinitionListing {
        name: String::new(),
        origin: DefinitionOrigin::File,
        place: String::new(),
        description: String::new(),
        hidden_by: None,
        findings,
    }
}
