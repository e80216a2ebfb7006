//! The search path of definitions: a name is looked up in the project, then in the user's folder, then in the
//! program.
//!
//! # Invariants
//! 0. A built-in name means the built-in definition, or the user's own. A project's definition of that name
//!    is `project:NAME`, and nothing else.
//! 1. A file's name is its definition's: there is no registry.
//! 2. A file is read once, never more of it than [`DEFINITION_BYTES_MAX`], and what was read is what was
//!    hashed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use domain::did_you_mean;

use crate::action::{self, Action};
use crate::actor::{self, Actor};
use crate::check::{self, KnownArguments};
use crate::error::{DefinitionError, Diagnostic, DiagnosticKind, SourcePosition};
use crate::reader::DefinitionReader;
use crate::{builtin, yaml};

/// The limit of the size of a definition.
pub const DEFINITION_BYTES_MAX: u64 = 256 * 1024;
/// The number of definitions of one folder that are looked at.
const LISTED_MAX: usize = 1_000;
/// The folder of a project.
const PROJECT_FOLDER: &str = ".cleveragents";
/// The limit of the length of a name.
const NAME_CHARS_MAX: usize = 64;

/// The kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A piece of work.
    Action,
    /// A performer of work.
    Actor,
}

impl Kind {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Action => "action",
            Kind::Actor => "actor",
        }
    }

    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Kind::Action => "actions",
            Kind::Actor => "actors",
        }
    }
}

/// The origin of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DefinitionOrigin {
    /// A file that was named itself.
    File,
    /// A project's.
    Project,
    /// The user's.
    User,
    /// The program's.
    BuiltIn,
}

impl DefinitionOrigin {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            DefinitionOrigin::File => "file",
            DefinitionOrigin::Project => "project",
            DefinitionOrigin::User => "user",
            DefinitionOrigin::BuiltIn => "built in",
        }
    }

    /// Returns true if another person may have written it: only the user can allow what it asks for.
    pub const fn is_foreign(self) -> bool {
        match self {
            DefinitionOrigin::File | DefinitionOrigin::Project => true,
            DefinitionOrigin::User | DefinitionOrigin::BuiltIn => false,
        }
    }
}

/// Returns true if a text is a name of a definition or an argument.
pub fn is_name(text: &str) -> bool {
    let part =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.len() <= NAME_CHARS_MAX
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.split(['-', '_']).all(part)
}

/// The prefix of a name that means a project's definition only.
const PROJECT_PREFIX: &str = "project:";

/// Returns true if a text can refer to a definition: a name, or `project:NAME`.
pub fn is_reference(text: &str) -> bool {
    is_name(text.strip_prefix(PROJECT_PREFIX).unwrap_or(text))
}

fn is_built_in(kind: Kind, name: &str) -> bool {
    builtin::of(kind).any(|(known, _)| known == name)
}

/// Returns how a definition of this origin and file name is called.
pub(crate) fn name_of(kind: Kind, origin: DefinitionOrigin, name: &str) -> String {
    match origin {
        DefinitionOrigin::Project if is_built_in(kind, name) => format!("{PROJECT_PREFIX}{name}"),
        DefinitionOrigin::Project
        | DefinitionOrigin::File
        | DefinitionOrigin::User
        | DefinitionOrigin::BuiltIn => name.to_owned(),
    }
}

/// A definition that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedDefinition<T> {
    /// Its name.
    pub name: String,
    /// Its origin.
    pub origin: DefinitionOrigin,
    /// Its file, or `built in`.
    pub place: String,
    /// The BLAKE3 hash of its text.
    pub digest: String,
    /// Its text.
    pub text: String,
    /// The definition itself.
    pub definition: T,
}

/// The names that the settings describe and definitions use; `None` where the settings were not read.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredNames {
    /// Servers of tools.
    pub servers: Option<BTreeSet<String>>,
    /// Providers of models.
    pub providers: Option<BTreeSet<String>>,
}

/// All places where definitions are stored.
#[derive(Clone, Debug, Default)]
pub struct Library {
    pub(crate) folders: Vec<(DefinitionOrigin, PathBuf)>,
    pub(crate) configured: ConfiguredNames,
}

/// A text with its name, before it is parsed.
pub(crate) struct DefinitionText {
    pub(crate) name: String,
    pub(crate) origin: DefinitionOrigin,
    pub(crate) place: String,
    text: String,
}

impl Library {
    /// The definitions of these projects, the first one first, and of the user.
    pub fn new(project_roots: &[PathBuf], user_folder: Option<PathBuf>) -> Library {
        let projects =
            project_roots.iter().map(|root| (DefinitionOrigin::Project, root.join(PROJECT_FOLDER)));
        let folders = projects.chain(user_folder.map(|folder| (DefinitionOrigin::User, folder))).collect();
        Library { folders, configured: ConfiguredNames::default() }
    }

    /// The same, which also holds definitions against this.
    #[must_use]
    pub fn knowing(self, configured: ConfiguredNames) -> Library {
        Library { configured, ..self }
    }

    /// The action with this name.
    ///
    /// # Errors
    /// Returns an error if there is none, its file cannot be read, or it is not sound.
    pub fn action(&self, name: &str) -> Result<LoadedDefinition<Action>, DefinitionError> {
        self.as_action(self.source(Kind::Action, name)?)
    }

    /// The action in this file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or the definition is not sound.
    pub fn action_file(&self, path: &Path) -> Result<LoadedDefinition<Action>, DefinitionError> {
        self.as_action(source_of(Kind::Action, path, DefinitionOrigin::File)?)
    }

    /// The actor with this name.
    ///
    /// # Errors
    /// Returns an error if there is none, its file cannot be read, or it is not sound.
    pub fn actor(&self, name: &str) -> Result<LoadedDefinition<Actor>, DefinitionError> {
        self.as_actor(self.source(Kind::Actor, name)?)
    }

    /// The actor in this file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or the definition is not sound.
    pub fn actor_file(&self, path: &Path) -> Result<LoadedDefinition<Actor>, DefinitionError> {
        self.as_actor(source_of(Kind::Actor, path, DefinitionOrigin::File)?)
    }

    /// The names of a kind, each once.
    pub fn names(&self, kind: Kind) -> BTreeSet<String> {
        let of_files = self.folders.iter().flat_map(|(origin, folder)| {
            let paths = files(&folder.join(kind.folder())).unwrap_or_default().into_iter();
            paths.filter_map(|path| Some(name_of(kind, *origin, path.file_stem()?.to_str()?)))
        });
        of_files.chain(builtin::of(kind).map(|(name, _)| name.to_owned())).collect()
    }

    /// That there is no actor with this name, in words.
    pub(crate) fn missing_actor(&self, name: &str) -> Option<String> {
        // A text that is no name was reported before.
        if !is_reference(name) || is_built_in(Kind::Actor, name) || self.find(Kind::Actor, name).is_some() {
            return None;
        }
        Some(self.not_found(Kind::Actor, name).to_string())
    }

    /// Returns the file that a name means; `None` if there is none, or a built-in definition is meant.
    fn find(&self, kind: Kind, name: &str) -> Option<(DefinitionOrigin, PathBuf)> {
        let (plain, is_of_project) = match name.strip_prefix(PROJECT_PREFIX) {
            Some(plain) => (plain, true),
            None => (name, false),
        };
        let is_meant = |origin: DefinitionOrigin| match origin {
            DefinitionOrigin::Project => is_of_project || !is_built_in(kind, plain),
            DefinitionOrigin::User | DefinitionOrigin::File | DefinitionOrigin::BuiltIn => !is_of_project,
        };
        let file = Path::new(kind.folder()).join(format!("{plain}.yaml"));
        let meant = self.folders.iter().filter(|(origin, _)| is_meant(*origin) && is_name(plain));
        let mut paths = meant.map(|(origin, folder)| (*origin, folder.join(&file)));
        paths.find(|(_, path)| path.symlink_metadata().is_ok())
    }

    /// Returns how a project's definition is called that has this built-in name; `None` if there is none.
    pub fn project_twin(&self, kind: Kind, name: &str) -> Option<String> {
        let twin = format!("{PROJECT_PREFIX}{name}");
        (is_built_in(kind, name) && self.find(kind, &twin).is_some()).then_some(twin)
    }

    /// Returns the one name of a definition that several references may mean.
    pub(crate) fn canonical<'n>(&self, kind: Kind, name: &'n str) -> &'n str {
        match name.strip_prefix(PROJECT_PREFIX) {
            Some(plain) if !is_built_in(kind, plain) => plain,
            Some(_) | None => name,
        }
    }

    fn source(&self, kind: Kind, name: &str) -> Result<DefinitionText, DefinitionError> {
        if let Some((origin, path)) = self.find(kind, name) {
            return source_of(kind, &path, origin);
        }
        match builtin::of(kind).find(|(known, _)| *known == name) {
            Some((name, text)) => Ok(built_in(name, text)),
            None => Err(self.not_found(kind, name)),
        }
    }

    fn not_found(&self, kind: Kind, name: &str) -> DefinitionError {
        let plain = name.strip_prefix(PROJECT_PREFIX).unwrap_or(name);
        let file = Path::new(kind.folder()).join(format!("{plain}.yaml"));
        let names = self.names(kind);
        DefinitionError::NotFound {
            kind: kind.as_str(),
            name: name.to_owned(),
            meant: did_you_mean(name, names.iter().map(String::as_str)),
            places: self.folders.iter().map(|(_, folder)| folder.join(&file).display().to_string()).collect(),
        }
    }

    pub(crate) fn as_action(
        &self,
        source: DefinitionText,
    ) -> Result<LoadedDefinition<Action>, DefinitionError> {
        understood(source, |reader, tree| {
            let action = action::read(reader, tree)?;
            let given: BTreeSet<String> = action.args.keys().cloned().collect();
            let inline = [Some(&action.actor), action.strategist.actor()].into_iter().flatten();
            inline.filter_map(action::ActorRef::inline).for_each(|actor| {
                check::actor(reader, self, actor, &KnownArguments::These(&given));
            });
            Some(action)
        })
    }

    pub(crate) fn as_actor(
        &self,
        source: DefinitionText,
    ) -> Result<LoadedDefinition<Actor>, DefinitionError> {
        understood(source, |reader, tree| {
            let actor = actor::read(reader, tree)?;
            check::actor(reader, self, &actor, &KnownArguments::Unknown);
            Some(actor)
        })
    }
}

pub(crate) fn built_in(name: &str, text: &str) -> DefinitionText {
    DefinitionText {
        name: name.to_owned(),
        origin: DefinitionOrigin::BuiltIn,
        place: "built in".to_owned(),
        text: text.to_owned(),
    }
}

/// Reads a file, once and not too much of it.
pub(crate) fn source_of(
    kind: Kind,
    path: &Path,
    origin: DefinitionOrigin,
) -> Result<DefinitionText, DefinitionError> {
    let unreadable = |source: io::Error| DefinitionError::Unreadable { path: path.to_owned(), source };
    let place = path.display().to_string();
    // A pipe or a device would never end.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(DEFINITION_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let whole = |message: String| {
        let finding = Diagnostic {
            file: place.clone(),
            at: SourcePosition::default(),
            kind: DiagnosticKind::Invalid,
            message,
        };
        DefinitionError::Invalid(vec![finding])
    };
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > DEFINITION_BYTES_MAX {
        return Err(whole(format!("a definition has at most {DEFINITION_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| whole("a definition is text in UTF-8".to_owned()))?;
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(DefinitionText { name: name_of(kind, origin, &name), origin, place, text })
}

/// The files of a folder that can be definitions, by name; a folder that is not there has none.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, DefinitionError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(source) => return Err(DefinitionError::Unreadable { path: folder.to_owned(), source }),
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "yaml")).take(LISTED_MAX).collect();
    paths.sort();
    Ok(paths)
}

fn understood<T>(
    source: DefinitionText,
    read: impl FnOnce(&DefinitionReader<'_>, &yaml::YamlTree) -> Option<T>,
) -> Result<LoadedDefinition<T>, DefinitionError> {
    let DefinitionText { name, origin, place, text } = source;
    let file = if origin == DefinitionOrigin::BuiltIn { format!("{name} ({place})") } else { place.clone() };
    let reader = DefinitionReader::with_text(&file, &text);
    let definition = match yaml::parse(&text) {
        Ok(tree) => read(&reader, &tree),
        Err(no) => {
            reader.wrong(no.at, no.why);
            None
        }
    };
    let findings = reader.findings();
    match definition {
        Some(definition) if findings.is_empty() => {
            let digest = blake3::hash(text.as_bytes()).to_hex().to_string();
            Ok(LoadedDefinition { name, origin, place, digest, text, definition })
        }
        Some(_) | None => Err(DefinitionError::Invalid(findings)),
    }
}
