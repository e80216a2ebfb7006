//! Plans from the first word to the user's files: the verbs that people and programs use.
//!
//! [`Engine`] joins store, sandbox and journal of one data directory. Each verb has a file: `use_plan`, `execute`,
//! `apply`, `undo`, `cancel`, `guide`; whether one goes on without being asked says `verdict`; what they read about a plan is in `facts`, `diff`, `logs`. The phases themselves are jobs
//! and are done by `phases`, whoever claims them.
//!
//! # Invariants
//! 1. Every move of a plan goes through the store, by the one transition function of `domain`.
//! 2. Phases run under a claim. Undo, and an apply after an undo, are no phases: they run under the plan's lock.
//! 3. The user's files are written by the journal alone.
//! 4. Recovery of unfinished applies is the first act of every engine.
//!
//! # Not here
//! Words for people, codes, exit statuses and questions: the program's.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use domain::{BootId, PlanId, Policy, Redactor, WallMs};
use sandbox::journal::{Boot, Journals, Stuck};
use sandbox::{ChildProgram, CopyWatch};
use store::{SqliteOptions, SqliteStore, Store};
use sync::Clock;
use sync::primitives::{Mutex, lock};

use crate::apply::check_validity::RecheckWhen;
use crate::apply::crash_recovery::{OpenApply, RecoveredApply, RecoveryError};
use crate::clock::{BootClock, wall_now};
use crate::context::{Contexts, ContextsSetup};
use crate::models::ModelsSetup;
use crate::redaction::SecretFilter;
use crate::workers::breaker_log::breakers_told;
use worker::AsyncWorker;
use worker::ErrorRecoveryService;
use worker::{Ids, RandomIds};

/// What an engine works with.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Where everything is kept; made when it is not there, mode 0700.
    pub data_dir: PathBuf,
    /// Where sandboxes are made.
    pub sandbox_dir: PathBuf,
    /// The program whose children run commands.
    pub child: ChildProgram,
    /// How many files, and how many bytes, a copy of a plan's projects may have.
    pub copy_max: (u64, u64),
    /// How many plans process at once in the store.
    pub plan_concurrency: u32,
    /// How long a job stays owned by a worker that is not heard of.
    pub lease: Duration,
    /// How long what an interrupted command changed may take to be captured; afterwards its sandbox is kept. At most
    /// 5 min.
    pub capture_wait: Duration,
    /// When an apply runs the required checks again, unless it says so itself.
    pub recheck: RecheckWhen,
    /// How far recovery goes by itself.
    pub recovery: Policy,
    /// How long an applied plan can be undone.
    pub retention: Duration,
    /// What models are asked with.
    pub models: ModelsSetup,
    /// What contexts are made with.
    pub contexts: ContextsSetup,
}

/// Why an engine could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum EngineOpenError {
    /// The data directory cannot be used.
    #[error("the data directory {} cannot be used: {source}", dir.display())]
    DataDir {
        /// Which.
        dir: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] store::OpenError),
    /// An apply that was broken off can be neither finished nor taken back now.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// Contexts cannot be made like this.
    #[error(transparent)]
    Contexts(#[from] context::ExecutorConfigError),
}

/// Plans of one data directory. `Clone` is the same engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) house: Arc<House>,
    recovered: Arc<[RecoveredApply]>,
    open: Arc<[OpenApply]>,
    set_aside: Arc<[PathBuf]>,
}

/// What all verbs share.
pub(crate) struct House {
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
    /// The workers of this process, to be told of a cancel at once.
    pub(crate) workers: Mutex<Vec<AsyncWorker>>,
    /// What went wrong last in this process, should the store not take it.
    pub(crate) last_failure: Mutex<Option<String>>,
    /// Copies of projects that are being made, to be shown.
    copies: Mutex<BTreeMap<PlanId, Weak<CopyWatch>>>,
}

impl Engine {
    /// Opens the store, and first of all finishes or takes back every apply that was broken off.
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

    /// The same, though an apply is stuck: for those who look at what is open, or give it up.
    ///
    /// # Errors
    /// The data directory or the store cannot be used.
    pub async fn open_to_mend(options: EngineOptions) -> Result<Self, EngineOpenError> {
        Ok(Self::open_and_recover(options).await?.0)
    }

    async fn open_and_recover(options: EngineOptions) -> Result<(Self, Option<Stuck>), EngineOpenError> {
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
        let journals = Journals::open(&options.data_dir, boot, Arc::new(crate::apply::crash_recovery::Lines))
            .map_err(data_dir)?;
        let recovery = ErrorRecoveryService::new(Arc::clone(&store) as _, options.recovery);
        let redactor = Arc::new(crate::redaction::Secrets::of(&options.data_dir, &options.models.providers));
        let models =
            crate::models::Models::new(options.models.clone(), Arc::clone(&clock), &options.data_dir);
        let contexts = Contexts::of(
            &options.contexts,
            &options.data_dir,
            Arc::clone(&redactor),
            Arc::clone(&clock),
            breakers_told(&options.data_dir),
        )?;
        let house = House {
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
        let house = Arc::new(house);
        let recovery =
            crate::apply::crash_recovery::recover(&house, &crate::apply::locks::RootLocks::default()).await?;
        let engine = Self {
            house,
            recovered: recovery.ended.into(),
            open: recovery.open.into(),
            set_aside: recovery.set_aside.into(),
        };
        Ok((engine, recovery.stuck))
    }

    /// What lay among the journals without being a file, and was set aside when this engine was opened.
    pub fn set_aside_files(&self) -> &[PathBuf] {
        &self.set_aside
    }

    /// What was finished or taken back when this engine was opened.
    pub fn recovered(&self) -> &[RecoveredApply] {
        &self.recovered
    }

    /// What was begun and could not be brought to its end when this engine was opened.
    pub fn open_applies(&self) -> &[OpenApply] {
        &self.open
    }

    /// What takes secrets out of texts before they are shown; none when its key can be neither read nor made, and then
    /// nothing that may hold a secret must be shown.
    pub fn redactor(&self) -> Option<Arc<Redactor>> {
        self.house.redactor.redactor()
    }

    /// What takes secrets out of answers.
    pub fn secret_filter(&self) -> SecretFilter {
        SecretFilter::new(&self.house.redactor)
    }

    /// How many files and bytes of its projects were copied for a plan so far; none while none are.
    pub fn copied(&self, plan: PlanId) -> Option<(u64, u64)> {
        let copies = lock(&self.house.copies);
        let copied = copies.get(&plan).and_then(Weak::upgrade)?.copied();
        (copied.0 > 0).then_some(copied)
    }

    /// The store, for what no verb tells.
    pub fn store(&self) -> &dyn Store {
        self.house.store.as_ref()
    }
}

impl House {
    /// How long a run may wind down: capture what is left, and store that.
    pub(crate) fn wind_down_wait(&self) -> Duration {
        // The store is asked four times at most: whose the job is, for the call, for the error, for the sandbox.
        self.options.capture_wait.saturating_add(crate::run::STORE_WAIT * 4)
    }

    /// Counts the copy that is about to be made for a plan, within the bounds of the settings.
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
        f.debug_struct("Engine").field("data_dir", &self.house.options.data_dir).finish_non_exhaustive()
    }
}
