//! Probes this machine for `doctor`: its sandboxes, its isolation, its disk, and the leftovers of a crash.

use std::path::{Path, PathBuf};

use domain::RootIndex;
use sandbox::RootSpec;
use sandbox::isolation::{Isolation, IsolationPolicy};
use store::StoreError;

use super::retained_sandboxes;
use super::retained_sandboxes::RetainedSandbox;
use crate::apply::crash_recovery::UnsettledApply;
use crate::engine::{Engine, EngineOptions};
use crate::workers::registry::release_dead_leases;

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorFinding {
    /// The name of the check.
    pub name: String,
    /// True if it works.
    pub works: bool,
    /// The details, or the reason of the failure.
    pub detail: String,
}

/// The leftovers of a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Sandboxes without an owner that were removed now.
    pub sandboxes: u64,
    /// The files that could not be removed, each with the reason.
    pub stuck: Vec<String>,
    /// Leases of dead workers that were ended now.
    pub leases: usize,
    /// Applies that were finished or rolled back when this engine was opened.
    pub applies: usize,
    /// Applies that were begun and have not come to their end.
    pub open: Vec<UnsettledApply>,
    /// Sandboxes that stay: what was done in them could not be captured yet.
    pub kept: Vec<RetainedSandbox>,
}

/// The abilities of this machine.
#[derive(Clone, Debug)]
pub struct DoctorReport {
    /// The rungs of the sandbox ladder, best first.
    pub sandbox: Vec<DoctorFinding>,
    /// The rungs of isolation, best first.
    pub isolation: Vec<DoctorFinding>,
    /// The git program.
    pub git: DoctorFinding,
    /// The disk that data and sandboxes lie on.
    pub disk: DoctorFinding,
    /// The store.
    pub store: DoctorFinding,
    /// The leftovers of a crash.
    pub leftovers: Leftovers,
}

/// Below this the disk is said to be too full to work on.
const DISK_BYTES_LOW: u64 = 256 * 1024 * 1024;

/// The results of the tests without the store.
struct ProbeResults {
    sandbox: Vec<DoctorFinding>,
    isolation: Vec<DoctorFinding>,
}

/// Tests what plans will need although the store cannot be used, for the reason `why`. Nothing is cleared:
/// only the store knows which files are still needed.
pub async fn doctor_without_store(options: &EngineOptions, project: &Path, why: String) -> DoctorReport {
    let tried = tried(options, project).await.unwrap_or_else(|error| {
        let broken = DoctorFinding { name: "probe".to_owned(), works: false, detail: error.to_string() };
        ProbeResults { sandbox: vec![broken.clone()], isolation: vec![broken] }
    });
    DoctorReport {
        sandbox: tried.sandbox,
        isolation: tried.isolation,
        git: git(),
        disk: disk(&options.data_dir),
        store: DoctorFinding { name: "store".to_owned(), works: false, detail: why },
        leftovers: Leftovers::default(),
    }
}

async fn tried(options: &EngineOptions, project: &Path) -> Result<ProbeResults, tokio::task::JoinError> {
    let (dir, child) = (options.sandbox_dir.clone(), options.child.clone());
    let project = project.to_path_buf();
    let finding = |name: &str, tried: Result<(), String>| match tried {
        Ok(()) => DoctorFinding { name: name.to_owned(), works: true, detail: "works".to_owned() },
        Err(why) => DoctorFinding { name: name.to_owned(), works: false, detail: why },
    };
    tokio::task::spawn_blocking(move || {
        let sandbox = sandbox::probe(&dir, &[RootSpec { no: RootIndex(0), path: project, read_only: false }]);
        let isolation = Isolation::new(IsolationPolicy::Required, child).probe();
        ProbeResults {
            sandbox: sandbox.into_iter().map(|(strategy, tried)| finding(strategy.as_str(), tried)).collect(),
            isolation: isolation
                .into_iter()
                .map(|(backend, tried)| finding(backend.as_str(), tried))
                .collect(),
        }
    })
    .await
}

impl Engine {
    /// Tries what plans will need, with `project` as the tree to work on, and clears what a crash left.
    ///
    /// # Errors
    /// The store failed.
    pub async fn doctor(&self, project: &Path) -> Result<DoctorReport, StoreError> {
        let engine = &self.inner;
        let broken = |error: tokio::task::JoinError| StoreError::Broken { why: error.to_string() };
        let tried = tried(&engine.options, project).await.map_err(broken)?;
        let dir = engine.options.sandbox_dir.clone();
        let swept = tokio::task::spawn_blocking(move || sandbox::sweep(&dir)).await.map_err(broken)?;
        let freed = release_dead_leases(&engine.options.data_dir, engine.store.as_ref());
        let leases = freed.await.map_err(crate::query::details::store_error)?.leases;
        Ok(DoctorReport {
            sandbox: tried.sandbox,
            isolation: tried.isolation,
            git: git(),
            disk: disk(&engine.options.data_dir),
            store: DoctorFinding {
                name: "store".to_owned(),
                works: true,
                detail: engine.options.data_dir.display().to_string(),
            },
            leftovers: Leftovers {
                sandboxes: swept.removed.len() as u64,
                stuck: swept.left.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect(),
                leases,
                applies: self.recovered().len(),
                open: self.open_applies().to_vec(),
                kept: retained_sandboxes::known(engine, &swept.kept).await?,
            },
        })
    }
}

fn git() -> DoctorFinding {
    let name = "git".to_owned();
    match sandbox::git_version() {
        Ok(detail) => DoctorFinding { name, works: true, detail },
        Err(error) => DoctorFinding { name, works: false, detail: error.to_string() },
    }
}

fn disk(dir: &PathBuf) -> DoctorFinding {
    let name = "disk".to_owned();
    match rustix::fs::statvfs(dir) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let gb = free / 100_000_000;
            let detail = format!("{}.{} GB free at {}", gb / 10, gb % 10, dir.display());
            DoctorFinding { name, works: free >= DISK_BYTES_LOW, detail }
        }
        Err(error) => DoctorFinding { name, works: false, detail: error.to_string() },
    }
}
