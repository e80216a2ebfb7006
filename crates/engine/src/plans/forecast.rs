//! The conflict forecast: plans that are not applied yet and change the same paths, told before anybody applies.
//!
//! Two plans meet where their net changes touch one place of the disk. How they meet is found out by carrying each of
//! them out after the other, on the states alone and, where that is not enough, by merging the lines.
//!
//! # Invariants
//! 1. A forecast does not depend on which of the two is asked about: the worse of both orders is told.
//! 2. Only contents of files that both plans changed are read, and nothing is written.
//! 3. A forecast is about the two plans: what the user's files are like now plays no part. That is `preview`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use domain::{
    ApplyState, Base, ConflictKind, FileMerge, FileState, Hash, Kind, Merge, NetChange, Plan, PlanId,
    PlanState, ProjectAlias, Sides, Work, change_address, fold, merge, merge_file,
};
use sandbox::content::ContentSource;
use store::{PlanFilter, PlanStoreError, StoreError};

use super::Engine;
use super::contents::Stored;
use super::diff::aliases;

/// How many plans are held against each other, the newest first: with more of them most pairs are news to nobody.
const PLANS_MAX: usize = 100;
/// How many plans of a state are looked through for those of the same place.
const LISTED_MAX: usize = 1_000;

/// How two plans meet at one path, the harmless way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ForecastKind {
    /// Both change the file, and both changes go together.
    SameFile,
    /// Both change it in ways that no merge brings together.
    NoMerge,
    /// One deletes or moves what the other changes.
    OneDeletes,
    /// Both change the same lines, or lines that touch.
    SameLines,
}

impl ForecastKind {
    /// The name that programs read.
    pub const fn as_str(self) -> &'static str {
        match self {
            ForecastKind::SameFile => "same_file",
            ForecastKind::NoMerge => "no_merge",
            ForecastKind::OneDeletes => "one_deletes",
            ForecastKind::SameLines => "same_lines",
        }
    }

    /// Whether the plan that is applied second will stand before a conflict.
    pub const fn is_conflict(self) -> bool {
        match self {
            ForecastKind::SameFile => false,
            ForecastKind::NoMerge | ForecastKind::OneDeletes | ForecastKind::SameLines => true,
        }
    }
}

/// A path that two plans change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForecastPath {
    /// What people call it: its path, with the project before it if the plan has several.
    pub address: String,
    /// How the plans meet there.
    pub kind: ForecastKind,
}

/// Two plans that are not applied yet and change the same paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The one.
    pub plan: PlanId,
    /// The other.
    pub other: PlanId,
    /// Where they meet, in order; at least one.
    pub paths: Vec<ForecastPath>,
}

impl Forecast {
    /// The worst of its paths.
    pub fn kind(&self) -> ForecastKind {
        self.paths.iter().map(|path| path.kind).max().unwrap_or(ForecastKind::SameFile)
    }

    /// The plan that meets this one here; none when this one has no part in it.
    pub fn other_than(&self, plan: PlanId) -> Option<PlanId> {
        match plan {
            _ if plan == self.plan => Some(self.other),
            _ if plan == self.other => Some(self.plan),
            _ => None,
        }
    }
}

impl Engine {
    /// The plans that meet this one, in the order of their ids; none when it can no more be applied.
    ///
    /// # Errors
    /// There is no such plan, or the store failed.
    pub async fn forecast(&self, id: PlanId) -> Result<Vec<Forecast>, PlanStoreError> {
        let plan = self.house.store.plan(id).await?;
        if !is_open(plan.state) {
            return Ok(Vec::new());
        }
        let one = Touched::of(plan, self).await?;
        if one.changes.is_empty() {
            return Ok(Vec::new());
        }
        let mut others = self.open_plans().await?;
        others.retain(|other| other.id != id && may_meet(&one.plan, other));
        others.truncate(PLANS_MAX);
        let stored = Stored(self.house.store.as_ref());
        let mut meetings = Meetings::new(&stored);
        let mut forecasts = Vec::new();
        for other in others {
            let other = Touched::of(other, self).await?;
            forecasts.extend(meetings.between(&one, &other));
        }
        forecasts.sort_by_key(|forecast| forecast.other);
        Ok(forecasts)
    }

    /// All plans that meet another one, each pair once, the older plan first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn forecasts(&self) -> Result<Vec<Forecast>, StoreError> {
        let mut plans = self.open_plans().await?;
        plans.truncate(PLANS_MAX);
        let mut touched = Vec::with_capacity(plans.len());
        for plan in plans.into_iter().rev() {
            touched.push(Touched::of(plan, self).await?);
        }
        let stored = Stored(self.house.store.as_ref());
        let mut meetings = Meetings::new(&stored);
        let mut forecasts = Vec::new();
        for (no, one) in touched.iter().enumerate() {
            let later = touched.iter().skip(no + 1);
            forecasts.extend(later.filter_map(|other| meetings.between(one, other)));
        }
        Ok(forecasts)
    }

    /// The plans that may still be applied, newest first.
    async fn open_plans(&self) -> Result<Vec<Plan>, StoreError> {
        let mut plans = Vec::new();
        for state in PlanState::ALL.into_iter().filter(|state| is_open(*state)) {
            let filter = PlanFilter {
                phase: Some(state.phase().as_str().to_owned()),
                state: Some(state.word().to_owned()),
                root: None,
                limit: LISTED_MAX,
            };
            plans.append(&mut self.house.store.plans(&filter).await?.0);
        }
        plans.sort_by_key(|plan| std::cmp::Reverse(plan.id));
        Ok(plans)
    }
}

/// Whether the changes of a plan in this state are on their way to the user's files.
fn is_open(state: PlanState) -> bool {
    match state {
        PlanState::Strategize(_) | PlanState::Execute(Work::Errored | Work::Cancelled) => false,
        PlanState::Execute(Work::Queued | Work::Processing | Work::Complete) => true,
        PlanState::Apply(ApplyState::Applied | ApplyState::Cancelled) => false,
        PlanState::Apply(
            ApplyState::Queued | ApplyState::Processing | ApplyState::Constrained | ApplyState::Errored,
        ) => true,
    }
}

/// Whether a place can lie in projects of both: one project, or one that lies in the other.
fn may_meet(one: &Plan, other: &Plan) -> bool {
    let is_within = |inner: &[u8], outer: &[u8]| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    let roots = |plan: &Plan| plan.projects.iter().map(|project| project.root.clone()).collect::<Vec<_>>();
    let others = roots(other);
    roots(one).iter().any(|one| {
        let one = one.as_bytes();
        others.iter().any(|other| is_within(one, other.as_bytes()) || is_within(other.as_bytes(), one))
    })
}

/// A place on the disk.
type At = Vec<u8>;

/// A plan, its changes, and the places that they touch.
struct Touched {
    plan: Plan,
    changes: Vec<NetChange>,
    /// Which change touches a place: where a file is changed, and where a moved one was.
    places: BTreeMap<At, usize>,
    aliases: Vec<ProjectAlias>,
}

impl Touched {
    async fn of(plan: Plan, engine: &Engine) -> Result<Touched, StoreError> {
        let changes = fold(&engine.entries(&plan).await?);
        Ok(Touched::new(plan, changes))
    }

    fn new(plan: Plan, changes: Vec<NetChange>) -> Touched {
        let mut places = BTreeMap::new();
        for (no, change) in changes.iter().enumerate() {
            let (here, from) = places_of(&plan, change);
            places.extend([Some(here), from].into_iter().flatten().map(|at| (at, no)));
        }
        Touched { aliases: aliases(&plan), plan, changes, places }
    }
}

/// Where a change happens, and where it takes something away from.
fn places_of(plan: &Plan, change: &NetChange) -> (At, Option<At>) {
    let root = usize::from(change.root.0);
    let root = plan.projects.get(root).map(|project| project.root.as_bytes()).unwrap_or_default();
    let at = |path: &domain::RelPath| [root, b"/", path.as_bytes()].concat();
    (at(&change.path), change.from.as_ref().map(at))
}

/// A change and its places.
struct Change<'a> {
    net: &'a NetChange,
    here: At,
    from: Option<At>,
}

impl<'a> Change<'a> {
    fn of(touched: &'a Touched, no: usize) -> Option<Self> {
        let net = touched.changes.get(no)?;
        let (here, from) = places_of(&touched.plan, net);
        Some(Change { net, here, from })
    }

    /// What lies at a place after this change; `unless` where it does not touch it.
    fn leaves(&self, at: &At, unless: Option<FileState>) -> Option<FileState> {
        match &self.from {
            _ if *at == self.here => self.net.after,
            Some(from) if from == at => None,
            Some(_) | None => unless,
        }
    }

    fn is_of_dirs(&self) -> bool {
        let states = [self.net.before, self.net.after];
        states.into_iter().flatten().all(|state| state.kind == Kind::Dir)
    }
}

/// Finds out how plans meet; what was merged once is not merged again.
struct Meetings<'a> {
    contents: &'a dyn ContentSource,
    /// Whether the lines of base, one and other are in conflict.
    merged: BTreeMap<[Hash; 3], bool>,
}

impl<'a> Meetings<'a> {
    fn new(contents: &'a dyn ContentSource) -> Self {
        Self { contents, merged: BTreeMap::new() }
    }

    /// Where two plans meet; none when they do not.
    fn between(&mut self, one: &Touched, other: &Touched) -> Option<Forecast> {
        let shared = one.places.iter().filter_map(|(at, no)| Some((*no, *other.places.get(at)?)));
        let pairs: BTreeSet<(usize, usize)> = shared.collect();
        let mut paths = Vec::new();
        for (ours, theirs) in pairs {
            let (Some(ours), Some(theirs)) = (Change::of(one, ours), Change::of(other, theirs)) else {
                continue;
            };
            if let Some(kind) = self.met(&ours, &theirs) {
                paths.push(ForecastPath { address: change_address(ours.net, &one.aliases), kind });
            }
        }
        (!paths.is_empty()).then_some(Forecast { plan: one.plan.id, other: other.plan.id, paths })
    }

    /// How two changes meet: the worse of both orders.
    fn met(&mut self, one: &Change<'_>, other: &Change<'_>) -> Option<ForecastKind> {
        let kind = self.after(one, other).max(self.after(other, one));
        // Both made the same directory, or took it away: that is nobody's work.
        if kind.is_none() && one.is_of_dirs() {
            return None;
        }
        Some(kind.unwrap_or(ForecastKind::SameFile))
    }

    /// What `second` meets when `first` was applied before; none when it is there already.
    fn after(&mut self, first: &Change<'_>, second: &Change<'_>) -> Option<ForecastKind> {
        let now = first.leaves(second.from.as_ref().unwrap_or(&second.here), second.net.before);
        let there = first.leaves(&second.here, None);
        // What a change was made upon may not be known; here it counts for as much as is known of it.
        let sides = Sides { trust: Base::Known, ..Sides::of(second.net, now, there) };
        match merge_file(&sides) {
            FileMerge::AlreadyThere => None,
            FileMerge::Write(_) | FileMerge::Remove | FileMerge::Move(_) => Some(ForecastKind::SameFile),
            FileMerge::MergeLines { .. } => Some(self.lines(second.net.before, now, second.net.after)),
            FileMerge::Conflict(kind) => Some(match kind {
                ConflictKind::ChangedDeleted | ConflictKind::DeletedChanged => ForecastKind::OneDeletes,
                ConflictKind::Lines(_) => ForecastKind::SameLines,
                ConflictKind::BothCreated
                | ConflictKind::BaseMoved
                | ConflictKind::Mode
                | ConflictKind::Kind
                | ConflictKind::Occupied
                | ConflictKind::Linked
                | ConflictKind::Binary => ForecastKind::NoMerge,
            }),
        }
    }

    fn lines(
        &mut self,
        base: Option<FileState>,
        now: Option<FileState>,
        plan: Option<FileState>,
    ) -> ForecastKind {
        let (Some(base), Some(now), Some(plan)) = (base, now, plan) else { return ForecastKind::NoMerge };
        let hashes = [base.hash, now.hash, plan.hash];
        let known = self.merged.get(&hashes).copied();
        let is_conflict = known.or_else(|| self.is_conflict(&hashes));
        match is_conflict {
            Some(is_conflict) => {
                self.merged.insert(hashes, is_conflict);
                if is_conflict { ForecastKind::SameLines } else { ForecastKind::SameFile }
            }
            // A content that is not kept cannot be merged by whoever applies either.
            None => ForecastKind::NoMerge,
        }
    }

    fn is_conflict(&self, hashes: &[Hash; 3]) -> Option<bool> {
        let [base, now, plan] = hashes.each_ref().map(|hash| self.read(hash));
        match merge(&base?, &now?, &plan?) {
            Merge::Same | Merge::Merged(_) => Some(false),
            Merge::Conflict(_) => Some(true),
        }
    }

    fn read(&self, hash: &Hash) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.contents.open(hash).ok()?.read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests;
