//! `doctor`: what this machine offers, found out by trying, and what a crash left behind.

use std::path::{Path, PathBuf};

use domain::RootNo;
use sandbox::RootSpec;
use sandbox::isolation::{Isolation, IsolationPolicy};
use store::StoreError;

use super::retained_sandboxes;
use super::retained_sandboxes::KeptSandbox;
use crate::apply::crash_recovery::OpenApply;
use crate::engine::{Engine, EngineOptions};
use crate::workers::registry::bury_the_dead;

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub name: String,
    /// Whether it works.
    pub works: bool,
    /// How, or why not.
    pub detail: String,
}

/// What a crash left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Sandboxes without an owner that were removed now.
    pub sandboxes: u64,
    /// What could not be removed, and why.
    pub stuck: Vec<String>,
    /// Leases of dead workers that were ended now.
    pub leases: usize,
    /// Applies that were finished or taken back when this engine was opened.
    pub applies: usize,
    /// Applies that were begun and have not come to their end.
    pub open: Vec<OpenApply>,
    /// Sandboxes that stay: what was done in them could not be captured yet.
    pub kept: Vec<KeptSandbox>,
}

/// What this machine offers.
#[derive(Clone, Debug)]
pub struct DoctorReport {
    /// The rungs of the sandbox ladder, best first.
    pub sandbox: Vec<Finding>,
    /// The rungs of isolation, best first.
    pub isolation: Vec<Finding>,
    /// The git program.
    pub git: Finding,
    /// The disk that data and sandboxes lie on.
    pub disk: Finding,
    /// The store.
    pub store: Finding,
    /// What a crash left behind.
    pub leftovers: Leftovers,
}

/// Below this the disk is said to be too full to work on.
const DISK_BYTES_LOW: u64 = 256 * 1024 * 1024;

/// What was tried without the store.
struct Tried {
    sandbox: Vec<Finding>,
    isolation: Vec<Finding>,
}

/// Tries what plans will need though the store cannot be used, for the reason `why`. Nothing is cleared: who needs what
/// lies there is written in the store.
pub async fn doctor_without_store(options: &EngineOptions, project: &Path, why: String) -> DoctorReport {
    let tried = tried(options, project).await.unwrap_or_else(|error| {
        let broken = Finding { name: "probe".to_owned(), works: false, detail: error.to_string() };
        Tried { sandbox: vec![broken.clone()], isolation: vec![broken] }
    });
    DoctorReport {
        sandbox: tried.sandbox,
        isolation: tried.isolation,
        git: git(),
        disk: disk(&options.data_dir),
        store: Finding { name: "store".to_owned(), works: false, detail: why },
        leftovers: Leftovers::default(),
    }
}

async fn tried(options: &EngineOptions, project: &Path) -> Result<Tried, tokio::task::JoinError> {
    let (dir, child) = (options.sandbox_dir.clone(), options.child.clone());
    let project = project.to_path_buf();
    let finding = |name: &str, tried: Result<(), String>| match tried {
        Ok(()) => Finding { name: name.to_owned(), works: true, detail: "works".to_owned() },
        Err(why) => Finding { name: name.to_owned(), works: false, detail: why },
    };
    tokio::task::spawn_blocking(move || {
        let sandbox = sandbox::probe(&dir, &[RootSpec { no: RootNo(0), path: project, read_only: false }]);
        let isolation = Isolation::new(IsolationPolicy::Required, child).probe();
        Tried {
            sandbox: sandbox.into_iter().map(|(rung, tried)| finding(rung.as_str(), tried)).collect(),
            isolation: isolation.into_iter().map(|(rung, tried)| finding(rung.as_str(), tried)).collect(),
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
        let house = &self.house;
        let broken = |error: tokio::task::JoinError| StoreError::Broken { why: error.to_string() };
        let tried = tried(&house.options, project).await.map_err(broken)?;
        let dir = house.options.sandbox_dir.clone();
        let swept = tokio::task::spawn_blocking(move || sandbox::sweep(&dir)).await.map_err(broken)?;
        let freed = bury_the_dead(&house.options.data_dir, house.store.as_ref());
        let leases = freed.await.map_err(crate::query::details::store_error)?.leases;
        Ok(DoctorReport {
            sandbox: tried.sandbox,
            isolation: tried.isolation,
            git: git(),
            disk: disk(&house.options.data_dir),
            store: Finding {
                name: "store".to_owned(),
                works: true,
                detail: house.options.data_dir.display().to_string(),
            },
            leftovers: Leftovers {
                sandboxes: swept.removed.len() as u64,
                stuck: swept.left.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect(),
                leases,
                applies: self.recovered().len(),
                open: self.open_applies().to_vec(),
                kept: retained_sandboxes::known(house, &swept.kept).await?,
            },
        })
    }
}

fn git() -> Finding {
    let name = "git".to_owned();
    match sandbox::git_version() {
        Ok(detail) => Finding { name, works: true, detail },
        Err(error) => Finding { name, works: false, detail: error.to_string() },
    }
}

fn disk(dir: &PathBuf) -> Finding {
    let name = "disk".to_owned();
    match rustix::fs::statvfs(dir) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let detail = format!("{} MiB free at {}", free / (1024 * 1024), dir.display());
            Finding { name, works: free >= DISK_BYTES_LOW, detail }
        }
        Err(error) => Finding { name, works: false, detail: error.to_string() },
    }
}
