//! Ours: plans of 4 steps left to a worker that waits for them, and a worker that holds 1000 of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::program::{News, Program, Worker};

/// Nothing of a worker for so long means that it is stuck.
const TOLD_WITHIN: Duration = Duration::from_secs(120);
/// How long held plans wait: longer than anybody measures.
const HELD_SECONDS: usize = 3600;

/// What the 4 steps of a plan do.
#[derive(Clone, Copy)]
pub(crate) enum Steps {
    /// Read a file of the project.
    Read,
    /// Write and edit files of a sandbox.
    Edit,
    /// Each start a program that changes a file of a sandbox.
    Command,
}

impl Steps {
    fn actor(self) -> String {
        let steps = match self {
            Steps::Read => ["{ tool: read, with: { path: a.txt }"; 4],
            Steps::Edit => [
                "{ tool: edit, with: { path: a.txt, old: one, new: two }",
                "{ tool: write, with: { path: b.txt, text: one }",
                "{ tool: edit, with: { path: b.txt, old: one, new: two }",
                "{ tool: edit, with: { path: a.txt, old: two, new: three }",
            ],
            Steps::Command => ["{ run: 'echo one >> a.txt'"; 4],
        };
        let node = |(number, step): (usize, &&str)| match number {
            0 => format!("  step0: {step} }}\n"),
            _ => format!("  step{number}: {step}, needs: [step{}] }}\n", number - 1),
        };
        format!("nodes:\n{}", steps.iter().enumerate().map(node).collect::<String>())
    }

    /// How many files a plan of it changed.
    fn files_changed(self) -> u64 {
        match self {
            Steps::Read => 0,
            Steps::Edit => 2,
            Steps::Command => 1,
        }
    }
}

/// A store, a project, and a worker that waits for plans.
pub(crate) struct Ours {
    program: Program,
    news: Receiver<News>,
    worker: Worker,
}

impl Ours {
    pub(crate) fn start(agents: &Path, at_once: usize) -> Ours {
        let program = Program::at(agents, at_once, &[("a.txt", "one\n")]);
        let (tell, news) = channel();
        let worker = program.worker(at_once, &tell);
        let ours = Ours { program, news, worker };
        assert!(ours.next().is("ready"));
        ours
    }

    fn next(&self) -> News {
        self.news.recv_timeout(TOLD_WITHIN).expect("the worker tells nothing any more")
    }

    /// Plans a second, from the start of the command that makes them to the end of the last of them.
    pub(crate) fn rate(&self, steps: Steps, plans: usize) -> f64 {
        let (actor, items) = (steps.actor(), items(plans));
        let start = Instant::now();
        let made = self.program.submit(&actor, &items);
        let mut left: BTreeSet<&str> = made.iter().map(String::as_str).collect();
        let mut end = start;
        while !left.is_empty() {
            let news = self.next();
            if news.is("finished") {
                if news.how() != "succeeded" {
                    panic!("{}\n{}", news.told, self.program.answer(&["plan", "errors", news.plan()]));
                }
                assert!(left.remove(news.plan()), "it ended twice: {}", news.told);
                end = news.at;
            }
        }
        for plan in [made.first(), made.last()].into_iter().flatten() {
            let status = self.program.answer(&["plan", "status", plan]);
            assert_eq!(status["state"], "complete", "{status}");
            assert_eq!(status["changes"]["files"].as_u64().unwrap_or(0), steps.files_changed(), "{status}");
        }
        plans as f64 / end.duration_since(start).as_secs_f64()
    }

    /// How much the worker's memory grows while it holds so many plans in a step that waits.
    pub(crate) fn held_bytes(plans: usize) -> f64 {
        let ours = Ours::start(crate::this_program(), plans);
        // What a first plan needs once is no part of what each of them needs.
        ours.rate(Steps::Read, plans.div_ceil(10));
        let before = ours.worker.rss_bytes();
        let actor = format!("nodes:\n  hold: {{ tool: wait, with: {{ seconds: {HELD_SECONDS} }} }}\n");
        ours.program.submit(&actor, &items(plans));
        let mut held = 0;
        while held < plans {
            held += usize::from(ours.next().is("claimed"));
        }
        ours.wait_until_all_wait(plans);
        ours.worker.rss_bytes() as f64 - before as f64
    }

    /// Claimed is not yet begun: the memory stands still when all of them are in their step.
    fn wait_until_all_wait(&self, plans: usize) {
        let jobs = self.program.answer(&["job", "list"]);
        assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(plans), "{jobs}");
        let mut last = 0;
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let now = self.worker.rss_bytes();
            if now == last {
                return;
            }
            last = now;
        }
    }
}

fn items(count: usize) -> Vec<String> {
    (0..count).map(|item| item.to_string()).collect()
}
