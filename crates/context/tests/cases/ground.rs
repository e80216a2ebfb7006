//! Projects in memory, and a pipeline over them whose clock stands still.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use context::index::{CommitFacts, Oid, Snapshot, terms};
use context::stages::{Stages, StrategyExecutor};
use context::strategies::{ContextStrategy, built_in};
use context::{
    Batch, BatchCancelled, Error, ExecutorConfig, IndexedContents, IndexedRoot, LexicalCounter,
    OpenedProjects, ParallelStrategyExecutor, Pipeline, PipelineConfig, PipelineParts, Projects,
    SnapshotCache, StopCheck, StrategyRun, Views,
};
use domain::context::{
    AssembledContext, Budget, Candidate, ContextRequest, FileLocation, IndexLine, ProjectIndex,
};
use domain::{ContextId, Redactor, RelPath, RootIndex};
use sync::{BreakerConfig, CancellationToken, CircuitBreaker, ManualClock};

pub(crate) type Files = BTreeMap<RelPath, Vec<u8>>;

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::new(text).expect("a path")
}

pub(crate) fn files(files: &[(&str, &str)]) -> Files {
    files.iter().map(|(name, text)| (path(name), text.as_bytes().to_vec())).collect()
}

/// Files in memory, which a test may change after the snapshot was made.
#[derive(Default)]
pub(crate) struct Memory(pub(crate) Mutex<Files>);

impl IndexedContents for Memory {
    fn read(&self, path: &RelPath, max_bytes: usize) -> io::Result<Vec<u8>> {
        let files = self.0.lock().expect("no test panics in here");
        let bytes = files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(bytes[..bytes.len().min(max_bytes + 1)].to_vec())
    }

    fn is_there(&self, path: &RelPath) -> bool {
        self.0.lock().expect("no test panics in here").contains_key(path)
    }
}

pub(crate) struct Fixed(pub(crate) OpenedProjects);

impl Projects for Fixed {
    fn open(&self, _: &StopCheck) -> Result<OpenedProjects, Error> {
        Ok(self.0.clone())
    }
}

/// Remembers what the strategies proposed.
pub(crate) struct Spy {
    pub(crate) executor: ParallelStrategyExecutor<dyn ContextStrategy>,
    pub(crate) proposed: Mutex<Vec<FileLocation>>,
}

impl StrategyExecutor for Spy {
    fn execute(
        &self,
        batch: Batch<dyn ContextStrategy>,
    ) -> Result<Vec<StrategyRun<Candidate>>, BatchCancelled> {
        let runs = self.executor.execute(batch)?;
        let usable = |candidate: &&Candidate| candidate.score.is_finite() && candidate.score > 0.0;
        let places = runs.iter().flat_map(|run| &run.candidates).filter(usable);
        *self.proposed.lock().expect("no test panics in here") =
            places.map(|candidate| FileLocation { span: None, ..candidate.place.clone() }).collect();
        Ok(runs)
    }
}

pub(crate) struct Ground {
    pub(crate) memory: Vec<Arc<Memory>>,
    pub(crate) opened: OpenedProjects,
    pub(crate) parts: PipelineParts,
    pub(crate) spy: Arc<Spy>,
    pub(crate) clock: ManualClock,
}

pub(crate) fn project(
    no: u16,
    alias: &str,
    files: &Files,
    commits: Vec<CommitFacts>,
) -> (IndexedRoot, Arc<Memory>) {
    let memory = Arc::new(Memory(Mutex::new(files.clone())));
    let snapshot = Snapshot::of_files(files.clone()).with_commits(commits);
    let project = IndexedRoot {
        no: RootIndex(no),
        alias: alias.to_owned(),
        snapshot: Arc::new(snapshot),
        source: Arc::clone(&memory) as Arc<dyn IndexedContents>,
        views: Views::default(),
    };
    (project, memory)
}

pub(crate) fn commit(rank: u32, message: &str, paths: &[&str]) -> CommitFacts {
    CommitFacts {
        oid: Oid::new(&format!("{rank:040x}")).expect("digits"),
        rank,
        at: 1_000_000 - i64::from(rank),
        subject: message.to_owned(),
        terms: terms::of_text(message),
        paths: paths.iter().map(|name| path(name)).collect(),
    }
}

impl Ground {
    pub(crate) fn of(projects: Vec<(IndexedRoot, Arc<Memory>)>) -> Ground {
        let (projects, memory): (Vec<_>, Vec<_>) = projects.into_iter().unzip();
        let files: usize = projects.iter().map(|project| project.snapshot.files().len()).sum();
        let commits: usize = projects.iter().map(|project| project.snapshot.commits().len()).sum();
        let index = IndexLine { files: files as u32, commits: commits as u32, ..IndexLine::default() };
        let opened = OpenedProjects { projects, index, notes: Vec::new() };
        let clock = ManualClock::new();
        let executor = ParallelStrategyExecutor::new(
            ExecutorConfig::default(),
            CircuitBreaker::new(BreakerConfig::default(), Arc::new(clock.clone())).expect("the default"),
            Arc::new(clock.clone()),
        );
        let executor = executor.expect("the default is within bounds");
        let spy = Arc::new(Spy { executor, proposed: Mutex::default() });
        let parts = PipelineParts {
            config: PipelineConfig::default(),
            projects: Arc::new(Fixed(opened.clone())),
            strategies: built_in(),
            stages: Stages::new(Arc::clone(&spy) as Arc<dyn StrategyExecutor>),
            counter: Arc::new(LexicalCounter::default()),
            redactor: Arc::new(Redactor::new([7; 32], Vec::new()).expect("a redactor")),
            clock: Arc::new(clock.clone()),
            cache: Arc::new(SnapshotCache::default()),
        };
        Ground { memory, opened, parts, spy, clock }
    }

    pub(crate) fn files(files: &Files) -> Ground {
        Ground::of(vec![project(0, "app", files, Vec::new())])
    }

    pub(crate) fn sample() -> Ground {
        Ground::of(vec![project(0, "app", &sample_files(), sample_commits())])
    }

    pub(crate) fn pipeline(&self) -> Pipeline {
        Pipeline::new(self.parts.clone()).expect("a checked configuration")
    }

    pub(crate) fn stop(&self) -> StopCheck {
        StopCheck::new(CancellationToken::new().observe(), None, Arc::new(self.clock.clone()))
    }

    pub(crate) fn try_assemble(&self, request: &ContextRequest) -> Result<AssembledContext, Error> {
        self.pipeline().assemble(request, &self.stop())
    }

    /// Assembles, and looks at what every context promises.
    pub(crate) fn assemble(&self, request: &ContextRequest) -> AssembledContext {
        let context = self.try_assemble(request).expect("a context");
        let total = context.receipt.budget.total;
        let counted = self.parts.counter.tokens(&context.text);
        assert_eq!(context.tokens, counted);
        assert!(counted <= total, "{counted} tokens of {total}");
        let of_fragments: String = context.fragments.iter().map(|fragment| fragment.text.as_str()).collect();
        assert!(
            context.text.contains(&of_fragments),
            "fragments are the text:\n{}\n---\n{of_fragments}",
            context.text
        );
        assert_eq!(context.receipt.strategies.len(), self.parts.strategies.len(), "one line each");
        context
    }
}

pub(crate) fn request(query: &str, tokens: u32) -> ContextRequest {
    ContextRequest {
        query: query.to_owned(),
        ..ContextRequest::new(ContextId::from_u128(1), Budget::fixed(tokens))
    }
}

pub(crate) const FIRST: ProjectIndex = RootIndex(0);

/// A small project: a queue of jobs, its documentation, settings, a secret, a binary and a lock file.
pub(crate) fn sample_files() -> Files {
    let mut all = files(&[
        ("src/lib.rs", "//! Jobs and their queue.\n\npub mod queue;\npub mod rescue;\npub mod retry;\n"),
        (
            "src/queue.rs",
            "//! The queue.\n\nuse crate::retry::RetryLimit;\n\n/// Jobs that wait.\npub struct JobQueue {\n    jobs: Vec<Job>,\n}\n\n/// One job.\npub struct Job {\n    pub attempts: u32,\n}\n\nimpl JobQueue {\n    /// Takes the oldest job out.\n    pub fn take(&mut self) -> Option<Job> {\n        self.jobs.pop()\n    }\n\n    /// Puts a job back.\n    pub fn put_back(&mut self, job: Job, limit: &RetryLimit) {\n        if limit.allows(job.attempts) {\n            self.jobs.push(job);\n        }\n    }\n}\n",
        ),
        (
            "src/rescue.rs",
            "//! Rescues jobs whose worker died.\n\nuse crate::queue::{Job, JobQueue};\n\n/// Puts rescued jobs back, whatever their retry limit says.\npub fn rescue(queue: &mut JobQueue, lost: Vec<Job>) {\n    for job in lost {\n        queue.jobs.push(job);\n    }\n}\n",
        ),
        (
            "src/retry.rs",
            "//! How often a job is tried.\n\n/// The most attempts.\npub struct RetryLimit {\n    pub attempts_max: u32,\n}\n\nimpl RetryLimit {\n    /// Whether one more attempt is allowed.\n    pub fn allows(&self, attempts: u32) -> bool {\n        attempts < self.attempts_max\n    }\n}\n",
        ),
        (
            "tests/queue.rs",
            "use app::queue::JobQueue;\n\n#[test]\nfn jobs_come_out_in_order() {\n    let queue = JobQueue::default();\n}\n",
        ),
        (
            "tools/report.py",
            "\"\"\"Prints a report.\"\"\"\n\ndef report(rows):\n    for row in rows:\n        print(row)\n",
        ),
        (
            "README.md",
            "# Jobs\n\nA queue of jobs.\n\n## Retries\n\nA job is tried up to its retry limit. Then it fails.\n",
        ),
        ("settings.toml", "[queue]\nsize = 10\n\n[retry]\nattempts_max = 3\n"),
        (".env", "API_KEY=sk-live-0123456789abcdef0123456789abcdef\n"),
        ("Cargo.lock", "# generated\n[[package]]\nname = \"retry\"\n"),
    ]);
    all.insert(path("logo.png"), b"\x89PNG\0\0\0retry".to_vec());
    all
}

pub(crate) fn sample_commits() -> Vec<CommitFacts> {
    vec![
        commit(0, "rescue: give lost jobs back to the queue", &["src/rescue.rs", "src/queue.rs"]),
        commit(1, "report: print rows", &["tools/report.py"]),
        commit(2, "retry: count attempts", &["src/retry.rs", "settings.toml", "src/gone.rs"]),
    ]
}
