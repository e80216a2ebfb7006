//! The conflict forecast: plans that are not applied yet and change the same paths, told before anybody applies.
//!
//! Two plans meet where their net changes touch one place of the disk. How they meet is found out by carrying each of
//! them out after the other, on the states alone and, where that is not enough, by merging the lines.
//!
//! # Invariants
//! 1. A forecast does not depend on which of the two is asked about: the worse of both orders is told.
//! 2. Places come first, of all plans in one query: only of plans that share one are the changes read, and only of files
//!    that both changed the contents. Nothing is written.
//! 3. A forecast is about the two plans: what the user's files are like now plays no part. That is `preview`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::sync::Arc;

use domain::{
    ApplyState, Base, ConflictKind, FileMerge, FileState, Hash, Kind, Merge, NetChange, Plan, PlanId,
    PlanState, ProjectAlias, Sides, Work, change_address, fold, merge, merge_file,
};
use sandbox::content::ContentSource;
use store::{ChangedPlace, PlanStoreError, StoreError};

use super::Engine;
use super::contents::Stored;
use super::diff::aliases;

/// How many plans are held against each other, the newest first: with more of them most pairs are news to nobody.
const PLANS_MAX: usize = 100;
/// How many changes are looked through for the places of one plan, those of the newest plans first.
const ENTRIES_MAX: usize = 100_000;
/// The same for all plans at once, which is looked at more often and shows less.
const ENTRIES_OF_ALL_MAX: usize = 20_000;

/// How many bytes of contents are kept at hand while plans are held against each other.
const READ_BYTES_MAX: usize = 32 * 1024 * 1024;

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
        let places = self.house.store.changed_places(&open_states(), ENTRIES_MAX).await?;
        let meets = |place: &ChangedPlace| place.plan != id && one.places.contains_key(&place.at);
        let others = newest(places.iter().filter(|place| meets(place)).map(|place| place.plan));
        let stored = Stored(self.house.store.as_ref());
        let mut meetings = Meetings::new(&stored);
        let mut forecasts = Vec::new();
        for other in others {
            if let Some(other) = self.touched(other).await? {
                forecasts.extend(meetings.between(&one, &other));
            }
        }
        forecasts.sort_by_key(|forecast| forecast.other);
        Ok(forecasts)
    }

    /// All plans that meet another one, each pair once, the older plan first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn forecasts(&self) -> Result<Vec<Forecast>, StoreError> {
        let mut places = self.house.store.changed_places(&open_states(), ENTRIES_OF_ALL_MAX).await?;
        let among: BTreeSet<PlanId> = newest(places.iter().map(|place| place.plan)).into_iter().collect();
        places.retain(|place| among.contains(&place.plan));
        let mut touched = Vec::new();
        for plan in shared(&places) {
            touched.extend(self.touched(plan).await?);
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

    /// A plan with its changes; none when it was forgotten or came to its end meanwhile.
    async fn touched(&self, id: PlanId) -> Result<Option<Touched>, StoreError> {
        match self.house.store.plan(id).await {
            Ok(plan) if is_open(plan.state) => Ok(Some(Touched::of(plan, self).await?)),
            Ok(_) => Ok(None),
            // One that only a newer program can read keeps nobody from the others.
            Err(PlanStoreError::Store(StoreError::Unreadable { .. })) => Ok(None),
            Err(PlanStoreError::Store(error)) => Err(error),
            Err(
                PlanStoreError::NotFound { .. }
                | PlanStoreError::Moved { .. }
                | PlanStoreError::Refused(_)
                | PlanStoreError::Job(_)
                | PlanStoreError::QueueFull { .. }
                | PlanStoreError::IdTaken { .. },
            ) => Ok(None),
        }
    }
}

/// The states in which a plan may still be applied.
fn open_states() -> Vec<PlanState> {
    PlanState::ALL.into_iter().filter(|state| is_open(*state)).collect()
}

/// Each plan once, as many as are held against each other, newest first.
fn newest(plans: impl Iterator<Item = PlanId>) -> Vec<PlanId> {
    let plans: BTreeSet<PlanId> = plans.collect();
    plans.into_iter().rev().take(PLANS_MAX).collect()
}

/// The plans that change a place which another one changes too.
fn shared(places: &[ChangedPlace]) -> BTreeSet<PlanId> {
    let mut first: HashMap<&[u8], PlanId> = HashMap::new();
    let mut shared = BTreeSet::new();
    for ChangedPlace { plan, at } in places {
        match first.get(at.as_slice()) {
            Some(other) if other == plan => {}
            Some(other) => shared.extend([*other, *plan]),
            None => drop(first.insert(at, *plan)),
        }
    }
    shared
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

/// Finds out how plans meet; what was read or merged once is not read or merged again.
struct Meetings<'a> {
    contents: &'a dyn ContentSource,
    /// Whether the lines of base, one and other are in conflict; of two that are merged it does not matter which is the
    /// first, so the smaller hash is.
    merged: BTreeMap<[Hash; 3], bool>,
    /// Contents that were read, and how many bytes they have.
    read: BTreeMap<Hash, Arc<[u8]>>,
    read_bytes: usize,
}

impl<'a> Meetings<'a> {
    fn new(contents: &'a dyn ContentSource) -> Self {
        Self { contents, merged: BTreeMap::new(), read: BTreeMap::new(), read_bytes: 0 }
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
        let hashes = [base.hash, now.hash.min(plan.hash), now.hash.max(plan.hash)];
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

    fn is_conflict(&mut self, hashes: &[Hash; 3]) -> Option<bool> {
        let [base, one, other] = hashes.each_ref().map(|hash| self.read(hash));
        match merge(&base?, &one?, &other?) {
            Merge::Same | Merge::Merged(_) => Some(false),
            Merge::Conflict(_) => Some(true),
        }
    }

    fn read(&mut self, hash: &Hash) -> Option<Arc<[u8]>> {
        if let Some(known) = self.read.get(hash) {
            return Some(Arc::clone(known));
        }
        let mut bytes = Vec::new();
        self.contents.open(hash).ok()?.read_to_end(&mut bytes).ok()?;
        if self.read_bytes + bytes.len() > READ_BYTES_MAX {
            self.read.clear();
            self.read_bytes = 0;
        }
        self.read_bytes += bytes.len();
        let bytes: Arc<[u8]> = bytes.into();
        self.read.insert(*hash, Arc::clone(&bytes));
        Some(bytes)
    }
}

#[cfg(test)]
mod tests;
