//! The engine of one data directory: joins its store, its sandboxes and its journals.
//!
//! Each command on a plan has a file: `plan::create`, `plan::execute`, `plan::cancel`, `plan::guidance`,
//! `apply`, `apply::undo`. `plan::gates` decides if a plan continues without approval. `query::details`,
//! `query::diff` and `query::logs` read plans. The phases themselves are jobs: `run` does them, in the
//! process that claims the job.
//!
//! # Invariants
//! 1. Every move of a plan goes through the store, by the one transition function of `domain`.
//! 2. Phases run under a claim. Undo, and an apply after an undo, are no phases: they run under the plan's
//!    lock.
//! 3. The user's files are written by the journal alone.
//! 4. Recovery of unfinished applies is the first act of every engine.
//!
//! # Not here
//! Words for people, codes, exit statuses and questions: the program's.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use domain::{BootId, PlanId, RecoveryPolicy, Redactor, WallMs};
use sandbox::journal::{Boot, Journals, StuckJournal};
use sandbox::{ChildProgram, CopyWatch};
use store::{SqliteOptions, SqliteStore, Store};
use sync::Clock;
use sync::primitives::{Mutex, lock};

use crate::apply::check_validity::RecheckWhen;
use crate::apply::crash_recovery::{RecoveredApply, RecoveryError, UnsettledApply};
use crate::clock::{BootClock, wall_now};
use crate::context::{Contexts, ContextsSetup};
use crate::models::ModelsSetup;
use crate::redaction::SecretFilter;
use crate::workers::breaker_log::breaker_event_sink;
use worker::AsyncWorker;
use worker::ErrorRecoveryService;
use worker::{Ids, RandomIds};

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The directory of all stored data; created with mode 0700 if it does not exist.
    pub data_dir: PathBuf,
    /// The directory of the sandboxes.
    pub sandbox_dir: PathBuf,
    /// The program whose children run commands.
    pub child: ChildProgram,
    /// The most files, and the most bytes, that a copy of a plan's projects may have.
    pub copy_max: (u64, u64),
    /// The number of plans of the store that may be processed at the same time.
    pub plan_concurrency: u32,
    /// The time for which a job stays leased to a worker that does not renew the lease.
    pub lease: Duration,
    /// The time limit for capturing the changes of an interrupted command; afterwards its sandbox is
    /// retained. At most 5 min.
    pub capture_wait: Duration,
    /// When an apply runs the required checks again, unless it says so itself.
    pub recheck: RecheckWhen,
    /// The failures from which a plan recovers without the user.
    pub recovery: RecoveryPolicy,
    /// The time for which an applied plan can be undone.
    pub retention: Duration,
    /// The setup of the models.
    pub models: ModelsSetup,
    /// The setup of the context pipeline.
    pub contexts: ContextsSetup,
}

/// An error of opening an engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineOpenError {
    /// The data directory cannot be used.
    #[error("the data directory {} cannot be used: {source}", dir.display())]
    DataDir {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] store::StoreOpenError),
    /// An interrupted apply can be neither finished nor rolled back now.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// Contexts cannot be made like this.
    #[error(transparent)]
    Contexts(#[from] context::ExecutorConfigError),
}

/// Plans of one data directory. `Clone` is the same engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<EngineInner>,
    recovered: Arc<[RecoveredApply]>,
    open: Arc<[UnsettledApply]>,
    set_aside: Arc<[PathBuf]>,
}

/// The shared state of an [`Engine`] and of everything that runs for it.
pub(crate) struct EngineInner {
    pub(crate) options: EngineOptions,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) store_file: crate::workers::store_identity::StoreFile,
    pub(crate) journals: Journals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) boot: BootId,
    pub(crate) recovery: ErrorRecoveryService,
    pub(crate) redactor: Arc<crate::redaction::Secrets>,
    pub(crate) models: crate::models::Models,
    /// The context pipeline of this process.
    pub(crate) contexts: Contexts,
    /// The workers of this process, which are notified of a cancel at once.
    pub(crate) workers: Mutex<Vec<AsyncWorker>>,
    /// The last failure in this process, in case the store does not accept it.
    pub(crate) last_failure: Mutex<Option<String>>,
    /// Copies of projects that are being made, to be shown.
    copies: Mutex<BTreeMap<PlanId, Weak<CopyWatch>>>,
}

impl Engine {
    /// Opens the store, and first of all finishes or rolls back every interrupted apply.
    ///
    /// # Errors
    /// The data directory or the store cannot be used, or an apply is stuck.
    pub async fn open(options: EngineOptions) -> Result<Self, EngineOpenError> {
        let (engine, stuck) = Self::open_and_recover(options).await?;
        match stuck {
            Some(stuck) => Err(RecoveryError::from(stuck).into()),
            None => Ok(engine),
        }
    }

    /// The same, even if an apply is stuck: for commands that list unsettled applies or abandon them.
    ///
    /// # Errors
    /// The data directory or the store cannot be used.
    pub async fn open_for_repair(options: EngineOptions) -> Result<Self, EngineOpenError> {
        Ok(Self::open_and_recover(options).await?.0)
    }

    async fn open_and_recover(
        options: EngineOptions,
    ) -> Result<(Self, Option<StuckJournal>), EngineOpenError> {
        let data_dir = |source| EngineOpenError::DataDir { dir: options.data_dir.clone(), source };
        make_private(&options.data_dir).map_err(data_dir)?;
        crate::data_files::refuse_others(&options.data_dir).map_err(data_dir)?;
        crate::redaction::check_key(&options.data_dir).map_err(data_dir)?;
        let clock: Arc<dyn Clock> = Arc::new(BootClock);
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(SqliteOptions {
            dir: options.data_dir.clone(),
            clock: Arc::clone(&clock),
            wall: wall_now,
        })?);
        let store_file = crate::workers::store_identity::StoreFile::in_dir(&options.data_dir);
        let boot = Boot::present().map_err(data_dir)?;
        let journals =
            Journals::open(&options.data_dir, boot, Arc::new(crate::apply::crash_recovery::LineMerger))
                .map_err(data_dir)?;
        let recovery = ErrorRecoveryService::new(Arc::clone(&store) as _, options.recovery);
        let redactor = Arc::new(crate::redaction::Secrets::new(&options.data_dir, &options.models.providers));
        let models =
            crate::models::Models::new(options.models.clone(), Arc::clone(&clock), &options.data_dir);
        let contexts = Contexts::with_secrets(
            &options.contexts,
            &options.data_dir,
            Arc::clone(&redactor),
            Arc::clone(&clock),
            breaker_event_sink(&options.data_dir),
        )?;
        let inner = EngineInner {
            options,
            store,
            store_file,
            journals,
            clock,
            ids: Arc::new(RandomIds::new()),
            boot: boot.id,
            recovery,
            redactor,
            models,
            contexts,
            workers: Mutex::default(),
            last_failure: Mutex::default(),
            copies: Mutex::default(),
        };
        let inner = Arc::new(inner);
        let recovery =
            crate::apply::crash_recovery::recover(&inner, &crate::apply::locks::RootLocks::default()).await?;
        let engine = Self {
            inner,
            recovered: recovery.ended.into(),
            open: recovery.open.into(),
            set_aside: recovery.set_aside.into(),
        };
        Ok((engine, recovery.stuck))
    }

    /// The entries of the journal directory that are no files, and that were moved away when this engine was
    /// opened.
    pub fn set_aside_files(&self) -> &[PathBuf] {
        &self.set_aside
    }

    /// The applies that were finished or rolled back when this engine was opened.
    pub fn recovered(&self) -> &[RecoveredApply] {
        &self.recovered
    }

    /// The applies that could not be settled when this engine was opened.
    pub fn open_applies(&self) -> &[UnsettledApply] {
        &self.open
    }

    /// The redactor of texts that are shown. `None` if its key can be neither read nor created; then nothing
    /// that may hold a secret must be shown.
    pub fn redactor(&self) -> Option<Arc<Redactor>> {
        self.inner.redactor.redactor()
    }

    /// The filter that takes secrets out of answers.
    pub fn secret_filter(&self) -> SecretFilter {
        SecretFilter::new(&self.inner.redactor)
    }

    /// Returns the number of files and bytes that were copied for a plan so far; `None` if nothing is copied.
    pub fn copied(&self, plan: PlanId) -> Option<(u64, u64)> {
        let copies = lock(&self.inner.copies);
        let copied = copies.get(&plan).and_then(Weak::upgrade)?.copied();
        (copied.0 > 0).then_some(copied)
    }

    /// The store, for facts that no command reports.
    pub fn store(&self) -> &dyn Store {
        self.inner.store.as_ref()
    }
}

impl EngineInner {
    /// The time limit for winding a run down: capturing its last changes and storing them.
    pub(crate) fn wind_down_wait(&self) -> Duration {
        // The store is asked four times at most: whose the job is, for the call, for the error, for the sandbox.
        self.options.capture_wait.saturating_add(crate::run::STORE_WAIT * 4)
    }

    /// Registers the copy that is about to be made for a plan, within the limits of the settings.
    pub(crate) fn watch_copy(&self, plan: PlanId) -> Arc<CopyWatch> {
        let (files, bytes) = self.options.copy_max;
        let watch = Arc::new(CopyWatch::new(files, bytes));
        let mut copies = lock(&self.copies);
        copies.retain(|_, watch| watch.strong_count() > 0);
        copies.insert(plan, Arc::downgrade(&watch));
        watch
    }

    pub(crate) fn wall(&self) -> WallMs {
        wall_now()
    }
}

/// Makes a directory that only its owner can look into.
pub(crate) fn make_private(dir: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("data_dir", &self.inner.options.data_dir).finish_non_exhaustive()
    }
}
