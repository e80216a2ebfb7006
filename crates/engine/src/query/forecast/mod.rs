//! The conflict forecast: reports plans that are not applied yet and change the same paths, before any of
//! them is applied.
//!
//! Two plans meet where their net changes touch one place of the disk. Each of them is applied after the
//! other, on the states alone. If that is not enough, the lines that each replaces are compared
//! ([`footprint`]). Only if these do not decide are the texts merged.
//!
//! # Invariants
//! 1. A forecast does not depend on which of the two is asked about: it reports the worse of both orders.
//! 2. A verdict is that of the merge itself. Files that were not compared, for lack of time, are counted and
//!    not guessed.
//! 3. The reads, comparisons, merges and list items of a forecast have a bound each. So no number of plans
//!    and files makes it slow or large.
//! 4. A forecast is about the two plans: the present state of the user's files plays no part. That is
//!    `preview`.
//! 5. Nothing is written but footprints that were missing.

mod footprint;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    ApplyState, Base, ConflictKind, FileMerge, FileState, Hash, Kind, LinesVerdict, Merge, MergeSides,
    NetChange, Plan, PlanId, PlanState, ProjectAlias, ReplacedLines, RootIndex, WorkState, change_address,
    compare_lines, merge, merge_file,
};
use sandbox::content::ContentSource;
use store::{ChangedPlan, PlanStoreError, StoreError};

use crate::engine::{Engine, EngineInner};
use crate::run::plan_sandbox::content::StoreContents;
use footprint::{Footprint, TouchedFile, edited_text};

/// The maximum number of plans that are compared with each other, the newest first. With more of them most
/// pairs are no news to the user.
const PLANS_MAX: usize = 100;
/// The number of plans that are compared with one.
const PLANS_OF_ONE_MAX: usize = 1_000;
/// The number of files of all plans together that are compared, those of the newest plans first.
const FILES_MAX: usize = 40_000;
/// A plan with more files has no footprint.
const FOOTPRINT_FILES_MAX: usize = 10_000;
/// With more files, the end of a plan's work does not wait for its footprint.
const FILES_AT_ONCE_MAX: usize = 2_000;
/// The maximum processor time for making missing footprints.
const MAKING_MAX: Duration = Duration::from_secs(1);
/// After how many changes the time is looked at.
const LOOK_AT_TIMER_EVERY: usize = 16;
/// The number of bytes of contents that are cached while texts are merged.
const READ_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The limits of one forecast.
#[derive(Clone, Copy, Debug)]
struct ForecastLimits {
    /// Time of the processor for comparing.
    compare: Duration,
    /// Texts that are merged.
    merges: usize,
    /// Paths of one pair of plans that are listed.
    listed_of_pair: usize,
    /// Paths of all pairs that are listed, in addition to the first of each pair.
    listed: usize,
}

/// For all plans at once, which is looked at often and shows little.
const OF_ALL: ForecastLimits =
    ForecastLimits { compare: Duration::from_millis(30), merges: 200, listed_of_pair: 20, listed: 4_000 };
/// For one plan.
const OF_ONE: ForecastLimits = ForecastLimits {
    compare: Duration::from_millis(500),
    merges: 5_000,
    listed_of_pair: 10_000,
    listed: 20_000,
};

/// The kinds of overlap of two plans at one path, the harmless kind first.
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

    /// Returns true if the plan that is applied second will have a conflict.
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
    /// The address for people: its path, with the project before it if the plan has several.
    pub address: String,
    /// The kind of overlap at this path.
    pub kind: ForecastKind,
}

/// Two plans that are not applied yet and change the same paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The one.
    pub plan: PlanId,
    /// The other.
    pub other: PlanId,
    /// The paths that both plans change, in order; at least one, and as many as are listed.
    pub paths: Arc<[ForecastPath]>,
    /// The number of further paths that are in conflict.
    pub more_conflicts: usize,
    /// The number of further paths that both change in ways that merge.
    pub more_merges: usize,
    /// The worst of all paths.
    pub kind: ForecastKind,
}

impl Forecast {
    /// The plan that meets this one here; none when this one has no part in it.
    pub fn other_than(&self, plan: PlanId) -> Option<PlanId> {
        match plan {
            _ if plan == self.plan => Some(self.other),
            _ if plan == self.other => Some(self.plan),
            _ => None,
        }
    }
}

/// The forecasts, and the number of plans and paths that were not examined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecasts {
    /// Each pair once.
    pub pairs: Vec<Forecast>,
    /// The number of meetings of two plans at a path that were not compared, for want of time.
    pub not_compared: usize,
    /// The number of plans that were not looked at: there are too many, or they change too much.
    pub plans_left_out: usize,
}

impl Forecasts {
    /// Returns the total number that was not examined.
    pub fn left_out(&self) -> usize {
        self.not_compared + self.plans_left_out
    }
}

impl Engine {
    /// The plans that meet this one, in the order of their ids; none when it can no more be applied.
    ///
    /// # Errors
    /// There is no such plan, or the store failed.
    pub async fn forecast(&self, id: PlanId) -> Result<Forecasts, PlanStoreError> {
        let plan = self.inner.store.plan(id).await?;
        if !is_open(plan.state) {
            return Ok(Forecasts::default());
        }
        let (changed, left_out) = self.inner.changed_plans(PLANS_OF_ONE_MAX).await?;
        let mut making = FootprintTimer::new();
        let touched = match changed.iter().find(|changed| changed.plan == id) {
            Some(changed) => self.touched(changed, &mut making).await?,
            None => self.inner.make_footprint(plan).await?.touched,
        };
        let Some(one) = touched.filter(|one| !one.files.is_empty()) else {
            return Ok(Forecasts::default());
        };
        let others = changed.into_iter().filter(|changed| changed.plan != id).collect();
        let (others, also_left_out) = self.all_touched(others, &mut making).await?;
        let mut all = vec![one];
        all.extend(others);
        let stored = StoreContents(self.inner.store.as_ref());
        let mut forecasts = Comparison::new(&all, &stored, OF_ONE).of_first();
        forecasts.plans_left_out = left_out + also_left_out;
        forecasts.pairs.sort_by_key(|forecast| forecast.other);
        Ok(forecasts)
    }

    /// All plans that meet another one, each pair once, the older plan first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn forecasts(&self) -> Result<Forecasts, StoreError> {
        let (changed, left_out) = self.inner.changed_plans(PLANS_MAX).await?;
        let (all, also_left_out) = self.all_touched(changed, &mut FootprintTimer::new()).await?;
        let stored = StoreContents(self.inner.store.as_ref());
        let mut forecasts = Comparison::new(&all, &stored, OF_ALL).of_all();
        forecasts.plans_left_out = left_out + also_left_out;
        Ok(forecasts)
    }

    /// The plans with their changes, oldest first, and how many of them are left out.
    async fn all_touched(
        &self,
        newest_first: Vec<ChangedPlan>,
        making: &mut FootprintTimer,
    ) -> Result<(Vec<PlanFootprint>, usize), StoreError> {
        let (mut all, mut files, mut left_out) = (Vec::new(), 0, 0);
        for changed in &newest_first {
            match self.touched(changed, making).await? {
                Some(touched) if files + touched.files.len() <= FILES_MAX => {
                    files += touched.files.len();
                    all.push(touched);
                }
                Some(_) | None => left_out += 1,
            }
        }
        all.reverse();
        Ok((all, left_out))
    }

    /// A plan with its changes: by its footprint, which is made and stored where it is missing. `None` if
    /// there is no time left for that, or the plan has come to its end or cannot be read.
    async fn touched(
        &self,
        changed: &ChangedPlan,
        making: &mut FootprintTimer,
    ) -> Result<Option<PlanFootprint>, StoreError> {
        match changed.footprint.as_deref().and_then(footprint::from_bytes) {
            Some(Footprint::Files(files)) => {
                let roots = changed.projects.iter().map(|project| project.root.as_bytes().to_vec()).collect();
                let aliases = super::diff::aliases_of(&changed.projects);
                return Ok(Some(PlanFootprint { plan: changed.plan, roots, aliases, files }));
            }
            Some(Footprint::TooLarge) => return Ok(None),
            None => {}
        }
        if !making.has_time() {
            return Ok(None);
        }
        let plan = match self.inner.store.find_plan(changed.plan).await {
            Ok(Some(plan)) if is_open(plan.state) => plan,
            // One that only a newer program can read does not prevent the forecast of the others.
            Ok(_) | Err(StoreError::Unreadable { .. } | StoreError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_at_rest = plan.state != PlanState::Execute(WorkState::Processing);
        let NewFootprint { touched, files, bytes } = self.inner.make_footprint(plan).await?;
        if is_at_rest {
            let stamp = (changed.attempt, changed.entries);
            // It is made again next time, if it cannot be stored.
            let _ = self.inner.store.store_footprint(changed.plan, stamp, files, bytes).await;
        }
        Ok(touched)
    }
}

impl EngineInner {
    /// The newest plans that may still be applied and changed something, and how many more there are.
    async fn changed_plans(&self, plans_max: usize) -> Result<(Vec<ChangedPlan>, usize), StoreError> {
        self.store.changed_plans(&open_states(), plans_max).await
    }

    /// The plan with its changes, and its footprint.
    async fn make_footprint(&self, plan: Plan) -> Result<NewFootprint, StoreError> {
        let changes = self.net_changes(&plan).await?;
        let files = changes.len();
        if files > FOOTPRINT_FILES_MAX {
            return Ok(NewFootprint { touched: None, files, bytes: footprint::too_large() });
        }
        let touched = PlanFootprint::new(&plan, changes, &StoreContents(self.store.as_ref()));
        let bytes = footprint::to_bytes(&touched.files);
        Ok(NewFootprint { touched: Some(touched), files, bytes })
    }
}

/// A footprint that was made just now.
struct NewFootprint {
    /// `None` if the plan changes too much.
    touched: Option<PlanFootprint>,
    files: usize,
    bytes: Vec<u8>,
}

/// Stores the footprint of a plan whose work is done, so that no forecast has to make it.
pub(crate) async fn store_footprint(engine: &Arc<EngineInner>, plan: &Plan) -> Result<(), StoreError> {
    let Some(changed) = engine.store.changed_plan(plan.id).await? else { return Ok(()) };
    let changes = engine.net_changes(plan).await?;
    let (files, stamp) = (changes.len(), (changed.attempt, changed.entries));
    if files > FOOTPRINT_FILES_MAX {
        return engine.store.store_footprint(plan.id, stamp, files, footprint::too_large()).await;
    }
    if files > FILES_AT_ONCE_MAX {
        return Ok(());
    }
    let (making, plan_id, plan) = (Arc::clone(engine), plan.id, plan.clone());
    let made = tokio::task::spawn_blocking(move || {
        let touched = PlanFootprint::new(&plan, changes, &StoreContents(making.store.as_ref()));
        footprint::to_bytes(&touched.files)
    });
    match made.await {
        Ok(bytes) => engine.store.store_footprint(plan_id, stamp, files, bytes).await,
        // The next forecast makes it.
        Err(_) => Ok(()),
    }
}

/// The time that is left for making footprints.
struct FootprintTimer(CpuTimer);

impl FootprintTimer {
    fn new() -> Self {
        Self(CpuTimer::new())
    }

    fn has_time(&self) -> bool {
        self.0.elapsed() < MAKING_MAX
    }
}

/// The time that this thread took of the processor: how busy the machine is does not matter.
struct CpuTimer(Duration);

impl CpuTimer {
    fn new() -> Self {
        Self(Self::now())
    }

    fn now() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    fn elapsed(&self) -> Duration {
        // On another thread it begins again.
        Self::now().saturating_sub(self.0)
    }
}

/// The states in which a plan may still be applied.
fn open_states() -> Vec<PlanState> {
    PlanState::ALL.into_iter().filter(|state| is_open(*state)).collect()
}

/// Returns true if the changes of a plan in this state are on their way to the user's files.
fn is_open(state: PlanState) -> bool {
    match state {
        PlanState::Strategize(_) | PlanState::Execute(WorkState::Errored | WorkState::Cancelled) => false,
        PlanState::Execute(WorkState::Queued | WorkState::Processing | WorkState::Complete) => true,
        PlanState::Apply(ApplyState::Applied | ApplyState::Cancelled) => false,
        PlanState::Apply(
            ApplyState::Queued | ApplyState::Processing | ApplyState::Constrained | ApplyState::Errored,
        ) => true,
    }
}

/// A place on the disk.
type DiskPath = Vec<u8>;

/// A plan and its changes.
#[derive(Clone, Debug)]
struct PlanFootprint {
    plan: PlanId,
    roots: Vec<Vec<u8>>,
    aliases: Vec<ProjectAlias>,
    files: Vec<TouchedFile>,
}

impl PlanFootprint {
    fn new(plan: &Plan, changes: Vec<NetChange>, contents: &dyn ContentSource) -> PlanFootprint {
        let roots = plan.projects.iter().map(|project| project.root.as_bytes().to_vec()).collect();
        let files = changes.into_iter().map(|change| TouchedFile::new(change, contents)).collect();
        PlanFootprint { plan: plan.id, roots, aliases: super::diff::aliases_of(&plan.projects), files }
    }

    /// Returns the place of a change, and the place from which it removes something.
    fn places_of(&self, change: &NetChange) -> (DiskPath, Option<DiskPath>) {
        let RootIndex(root) = change.root;
        let root = self.roots.get(usize::from(root)).map(Vec::as_slice).unwrap_or_default();
        let at = |path: &domain::RelPath| [root, b"/", path.as_bytes()].concat();
        (at(&change.path), change.from.as_ref().map(at))
    }
}

/// A change and its places.
struct LocatedChange<'a> {
    net: &'a NetChange,
    here: DiskPath,
    from: Option<DiskPath>,
}

impl<'a> LocatedChange<'a> {
    fn new(touched: &'a PlanFootprint, net: &'a NetChange) -> Self {
        let (here, from) = touched.places_of(net);
        LocatedChange { net, here, from }
    }

    /// Returns the state at a place after this change; `unless` if the change does not touch it.
    fn leaves(&self, at: &DiskPath, unless: Option<FileState>) -> Option<FileState> {
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

/// A change at a place: which of the plans, and which of its files.
#[derive(Clone, Copy)]
struct ChangeAtPath<'a> {
    plan: usize,
    file: usize,
    /// The lines of an edited text, and which of the bases at this place they are of.
    lines: Option<(usize, &'a [ReplacedLines])>,
}

/// Two plans, as far as they were compared.
#[derive(Clone, Default)]
struct PlanPair {
    /// Files of the first plan.
    listed: Vec<(usize, ForecastKind)>,
    conflicts: usize,
    merges: usize,
    worst: Option<ForecastKind>,
}

/// Compares plans place by place.
struct Comparison<'a> {
    all: &'a [PlanFootprint],
    meetings: OverlapFinder<'a>,
    bounds: ForecastLimits,
    timer: CpuTimer,
    is_over: bool,
    /// The number of changes that were compared with all others at their places.
    compared: usize,
    /// A row for each first plan, with a place for each other.
    pairs: Vec<PlanPair>,
    listed: usize,
    not_compared: usize,
    /// Pairs of changes that were compared at one place and meet at another one, too.
    seen: BTreeSet<(usize, usize, usize, usize)>,
}

impl<'a> Comparison<'a> {
    fn new(all: &'a [PlanFootprint], contents: &'a dyn ContentSource, bounds: ForecastLimits) -> Self {
        Self {
            all,
            meetings: OverlapFinder::new(contents, bounds.merges),
            bounds,
            timer: CpuTimer::new(),
            is_over: false,
            compared: 0,
            pairs: Vec::new(),
            listed: 0,
            not_compared: 0,
            seen: BTreeSet::new(),
        }
    }

    /// Each plan with each other.
    fn of_all(mut self) -> Forecasts {
        self.pairs = vec![PlanPair::default(); self.all.len() * self.all.len()];
        for members in self.places() {
            for (no, one) in members.iter().enumerate() {
                self.compare_one(*one, &members[no + 1..]);
            }
        }
        self.into_forecasts()
    }

    /// The first plan with each other.
    fn of_first(mut self) -> Forecasts {
        self.pairs = vec![PlanPair::default(); self.all.len()];
        for members in self.places() {
            let (ours, others): (Vec<ChangeAtPath<'_>>, Vec<ChangeAtPath<'_>>) =
                members.into_iter().partition(|member| member.plan == 0);
            ours.into_iter().for_each(|one| self.compare_one(one, &others));
        }
        self.into_forecasts()
    }

    /// The places that more than one plan touches, in order, with who touches them, in the order of plans.
    fn places(&self) -> Vec<Vec<ChangeAtPath<'a>>> {
        let mut places: HashMap<DiskPath, Vec<ChangeAtPath<'a>>> = HashMap::new();
        for (plan, touched) in self.all.iter().enumerate() {
            for (file, TouchedFile { change, .. }) in touched.files.iter().enumerate() {
                let (here, from) = touched.places_of(change);
                for at in [Some(here), from].into_iter().flatten() {
                    places.entry(at).or_default().push(ChangeAtPath { plan, file, lines: None });
                }
            }
        }
        let is_shared =
            |members: &[ChangeAtPath<'_>]| members.windows(2).any(|two| two[0].plan != two[1].plan);
        let mut shared: Vec<(DiskPath, Vec<ChangeAtPath<'a>>)> =
            places.into_iter().filter(|(_, members)| is_shared(members)).collect();
        shared.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        shared.into_iter().map(|(_, members)| self.with_lines(members)).collect()
    }

    fn with_lines(&self, mut members: Vec<ChangeAtPath<'a>>) -> Vec<ChangeAtPath<'a>> {
        let mut bases: Vec<FileState> = Vec::new();
        for member in &mut members {
            let TouchedFile { change, lines } = &self.all[member.plan].files[member.file];
            if let (Some((before, _)), Some(lines)) = (edited_text(change), lines) {
                let known = bases.iter().position(|base| *base == before);
                let base = known.unwrap_or_else(|| {
                    bases.push(before);
                    bases.len() - 1
                });
                member.lines = Some((base, lines));
            }
        }
        members
    }

    fn compare_one(&mut self, one: ChangeAtPath<'a>, others: &[ChangeAtPath<'a>]) {
        let others = others.iter().filter(|other| other.plan != one.plan);
        // To ask for the time costs as much as to compare some changes.
        if self.compared.is_multiple_of(LOOK_AT_TIMER_EVERY) {
            self.is_over |= self.timer.elapsed() > self.bounds.compare;
        }
        self.compared += 1;
        if self.is_over {
            self.not_compared += others.count();
            return;
        }
        for other in others {
            match self.kind(one, *other) {
                ChangeOverlap::Met(kind) => self.note(one, *other, kind),
                ChangeOverlap::Apart => {}
                ChangeOverlap::NotCompared => self.not_compared += 1,
            }
        }
    }

    fn kind(&mut self, one: ChangeAtPath<'a>, other: ChangeAtPath<'a>) -> ChangeOverlap {
        if let (Some((base, lines)), Some((same_base, other_lines))) = (one.lines, other.lines)
            && base == same_base
        {
            match compare_lines(lines, other_lines) {
                LinesVerdict::Merge => return ChangeOverlap::Met(ForecastKind::SameFile),
                LinesVerdict::Conflict => return ChangeOverlap::Met(ForecastKind::SameLines),
                LinesVerdict::Unsure => {}
            }
        }
        let (ours, theirs) = (&self.all[one.plan], &self.all[other.plan]);
        let (net, other_net) = (&ours.files[one.file].change, &theirs.files[other.file].change);
        // A moved file may meet the same change at both its places.
        let is_moved = net.from.is_some() || other_net.from.is_some();
        if is_moved && !self.seen.insert((one.plan, one.file, other.plan, other.file)) {
            return ChangeOverlap::Apart;
        }
        self.meetings.compare_changes(&LocatedChange::new(ours, net), &LocatedChange::new(theirs, other_net))
    }

    fn note(&mut self, one: ChangeAtPath<'_>, other: ChangeAtPath<'_>, kind: ForecastKind) {
        let Some(pair) = self.pairs.get_mut(one.plan * self.all.len() + other.plan) else { return };
        pair.worst = pair.worst.max(Some(kind));
        let is_first = pair.listed.is_empty();
        let has_place = pair.listed.len() < self.bounds.listed_of_pair && self.listed < self.bounds.listed;
        if is_first || has_place {
            self.listed += usize::from(!is_first);
            pair.listed.push((one.file, kind));
        } else if !kind.is_conflict() {
            pair.merges += 1;
        } else if let Some(place) = pair.listed.iter_mut().find(|(_, listed)| !listed.is_conflict()) {
            // A conflict is listed before what goes together.
            pair.merges += 1;
            *place = (one.file, kind);
        } else {
            pair.conflicts += 1;
        }
    }

    fn into_forecasts(self) -> Forecasts {
        let plans = self.all.len().max(1);
        let forecast = |(no, mut pair): (usize, PlanPair)| {
            let kind = pair.worst?;
            let (one, other) = (self.all.get(no / plans)?, self.all.get(no % plans)?);
            pair.listed.sort_unstable();
            let path = |(file, kind): (usize, ForecastKind)| {
                let change = &one.files.get(file)?.change;
                Some(ForecastPath { address: change_address(change, &one.aliases), kind })
            };
            Some(Forecast {
                plan: one.plan,
                other: other.plan,
                paths: pair.listed.into_iter().filter_map(path).collect(),
                more_conflicts: pair.conflicts,
                more_merges: pair.merges,
                kind,
            })
        };
        let pairs = self.pairs.into_iter().enumerate().filter_map(forecast).collect();
        Forecasts { pairs, not_compared: self.not_compared, plans_left_out: 0 }
    }
}

/// The overlap of two changes.
enum ChangeOverlap {
    /// They meet so.
    Met(ForecastKind),
    /// They do not meet, or their overlap was reported before.
    Apart,
    /// It would have to be merged, and enough was.
    NotCompared,
}

/// Finds out how changes overlap if their lines do not decide it. A content that was read or merged once is
/// not read or merged again.
struct OverlapFinder<'a> {
    contents: &'a dyn ContentSource,
    merges_left: usize,
    /// True if the lines of base, one and other are in conflict. The order of two merged contents does not
    /// matter, so the smaller hash is first. `None` if a content is not stored.
    merged: BTreeMap<[Hash; 3], Option<bool>>,
    /// Contents that were read, and how many bytes they have.
    read: BTreeMap<Hash, Arc<[u8]>>,
    read_bytes: usize,
}

impl<'a> OverlapFinder<'a> {
    fn new(contents: &'a dyn ContentSource, merges_left: usize) -> Self {
        Self { contents, merges_left, merged: BTreeMap::new(), read: BTreeMap::new(), read_bytes: 0 }
    }

    /// Returns the overlap of two changes: the worse of both orders.
    fn compare_changes(&mut self, one: &LocatedChange<'_>, other: &LocatedChange<'_>) -> ChangeOverlap {
        let (Ok(first), Ok(second)) = (self.after(one, other), self.after(other, one)) else {
            return ChangeOverlap::NotCompared;
        };
        let kind = first.max(second);
        // Both made or removed the same directory: neither loses anything.
        if kind.is_none() && one.is_of_dirs() {
            return ChangeOverlap::Apart;
        }
        ChangeOverlap::Met(kind.unwrap_or(ForecastKind::SameFile))
    }

    /// Returns the overlap of `second` with an applied `first`; `None` if the change is there already.
    fn after(
        &mut self,
        first: &LocatedChange<'_>,
        second: &LocatedChange<'_>,
    ) -> Result<Option<ForecastKind>, MergeLimitReached> {
        let now = first.leaves(second.from.as_ref().unwrap_or(&second.here), second.net.before);
        let there = first.leaves(&second.here, None);
        // The base of a change may not be known; here the part that is known counts.
        let sides = MergeSides { trust: Base::Known, ..MergeSides::from_change(second.net, now, there) };
        Ok(match merge_file(&sides) {
            FileMerge::AlreadyThere => None,
            FileMerge::Write(_) | FileMerge::Remove | FileMerge::Move(_) => Some(ForecastKind::SameFile),
            FileMerge::MergeLines { .. } => Some(self.lines(second.net.before, now, second.net.after)?),
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
        })
    }

    fn lines(
        &mut self,
        base: Option<FileState>,
        now: Option<FileState>,
        plan: Option<FileState>,
    ) -> Result<ForecastKind, MergeLimitReached> {
        let (Some(base), Some(now), Some(plan)) = (base, now, plan) else { return Ok(ForecastKind::NoMerge) };
        let hashes = [base.hash, now.hash.min(plan.hash), now.hash.max(plan.hash)];
        let is_conflict = match self.merged.get(&hashes) {
            Some(known) => *known,
            None => {
                self.merges_left = self.merges_left.checked_sub(1).ok_or(MergeLimitReached)?;
                let is_conflict = self.is_conflict(&hashes);
                self.merged.insert(hashes, is_conflict);
                is_conflict
            }
        };
        Ok(match is_conflict {
            Some(true) => ForecastKind::SameLines,
            Some(false) => ForecastKind::SameFile,
            // A content that is not stored cannot be merged by an apply either.
            None => ForecastKind::NoMerge,
        })
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

/// As many texts were merged as may be.
struct MergeLimitReached;

#[cfg(test)]
mod tests;
