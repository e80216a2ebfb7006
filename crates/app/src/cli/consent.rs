//! The user's yes to what a project's files ask for: the network, variables, paths outside.
//!
//! # Invariants
//! 1. A yes is to one content at one place. It is kept in the store, and asked for once.
//! 2. Without a yes no plan is made.
//!
//! # Not here
//! Which files ask for what: `engine::definition`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use domain::{DefinitionSource, ProjectLink};
use engine::definition::Frozen;
use engine::plans::Engine;
use serde_json::json;

use super::Invocation;
use super::invocation::path_of;
use crate::failure::{Failure, codes, from_engine};
use crate::output::{calm, confirm};

/// What a plan needs its user's yes for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Consent {
    asks: Vec<String>,
    files: Vec<Asking>,
    is_given: bool,
}

/// A file that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asking {
    source: DefinitionSource,
    /// The project that it lies in, or the folder of a file that lies in none.
    root: Vec<u8>,
}

impl Consent {
    /// What the files of a definition ask for; `is_given` when the yes was typed with the command.
    pub(super) fn to(frozen: Option<&Frozen>, projects: &[ProjectLink], is_given: bool) -> Consent {
        let Some(frozen) = frozen else { return Consent::default() };
        let asking = frozen.sources.iter().filter(|source| frozen.asking.contains(&source.place));
        let mut files: Vec<Asking> = Vec::new();
        for source in asking {
            let root = root_of(Path::new(&source.place), projects);
            let file = Asking { source: source.clone(), root };
            if !files.contains(&file) {
                files.push(file);
            }
        }
        Consent { asks: frozen.asks.clone(), files, is_given }
    }

    /// Finds the yes in the store, takes the one that was typed, or asks for it; keeps what is new.
    ///
    /// # Errors
    /// There is none.
    pub(super) async fn settle(&self, engine: &Engine, invocation: &Invocation) -> Result<(), Failure> {
        let store = engine.store();
        let failed = |error| from_engine::store(&error);
        let mut open = Vec::new();
        for file in &self.files {
            if !store.consented(&file.root, &file.source.digest).await.map_err(failed)? {
                open.push(file);
            }
        }
        if self.asks.is_empty() || (open.is_empty() && !self.files.is_empty()) {
            return Ok(());
        }
        if !self.is_given && !self.is_asked_for(&open, invocation)? {
            return Err(self.missing(&open));
        }
        for file in open {
            store.consent(&file.root, &file.source.digest).await.map_err(failed)?;
        }
        Ok(())
    }

    fn is_asked_for(&self, open: &[&Asking], invocation: &Invocation) -> Result<bool, Failure> {
        if !invocation.look.can_ask || invocation.look.format.is_for_programs() {
            return Ok(false);
        }
        let question = format!("{}.\nAllow it, as long as the file stays as it is?", self.sentence(open));
        confirm(&calm(&question))
            .map_err(|error| Failure::new(&codes::IO_FAILED, format!("the terminal cannot be read: {error}")))
    }

    fn sentence(&self, open: &[&Asking]) -> String {
        let files: Vec<&str> = open.iter().map(|file| file.source.place.as_str()).collect();
        let verb = if files.len() == 1 { "asks" } else { "ask" };
        format!("{} {verb} for {}", files.join(", "), self.asks.join(", "))
    }

    fn missing(&self, open: &[&Asking]) -> Failure {
        let sources: Vec<&DefinitionSource> = open.iter().map(|file| &file.source).collect();
        Failure::new(&codes::CONSENT_NEEDED, self.sentence(open))
            .detail(json!({ "asks": self.asks, "sources": sources }))
            .hint("read the file; if you trust it, add `--trust`: you are asked again when it changes")
    }
}

fn root_of(file: &Path, projects: &[ProjectLink]) -> Vec<u8> {
    let around = projects.iter().find(|project| file.starts_with(path_of(project.root.as_bytes())));
    match around {
        Some(project) => project.root.as_bytes().to_vec(),
        None => file.parent().unwrap_or(file).as_os_str().as_bytes().to_vec(),
    }
}
