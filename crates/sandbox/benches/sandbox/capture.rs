//! What it costs to find out what one edit changed, beside a snapshot into a shadow repository.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use domain::{RelPath, RootIndex};
use rustix::fs::{Mode, OFlags};
use sandbox::fs::beneath;
use sandbox::fs::beneath::LinkPolicy;
use sandbox::{CaptureRules, SandboxStrategy};

use crate::cpu::{ms, spent};
use crate::project::{BenchProject, BenchProjects, HashOnly, git, run};
use testkit::bench_row::{Better, median, row};

/// How many captures to one snapshot of the peer.
const PER_ROUND: usize = 5;

pub(crate) fn measure(projects: &BenchProjects, rounds: usize) -> Vec<String> {
    let peers = [&projects.small, &projects.large].map(|project| Shadow::new(project, &projects.dir));
    let (mut ours, mut peer): ([Vec<f64>; 2], [Vec<f64>; 2]) = Default::default();
    for round in 0..rounds {
        for (at, shadow) in peers.iter().enumerate() {
            ours[at].extend((0..PER_ROUND).map(|again| capture(shadow.project, round * PER_ROUND + again)));
            peer[at].push(shadow.snapshot(round));
        }
    }
    let ([small, large], [shadow_small, shadow_large]) =
        (ours.map(|of| median(&of)), peer.map(|of| median(&of)));
    let (files, more) = (projects.small.files, projects.large.files);
    let name = |files| format!("capture_{files}");
    vec![
        row(&name(files), "shadow-git", small, shadow_small, Better::Less, "cpu_ms"),
        row(&name(more), "shadow-git", large, shadow_large, Better::Less, "cpu_ms"),
        row(&name(more), &name(files), large, small, Better::Less, "cpu_ms"),
    ]
}

/// CPU milliseconds of the first scan of a fresh sandbox, after one edit in it.
fn capture(project: &BenchProject, number: usize) -> f64 {
    let mut sandbox = project.open(SandboxStrategy::Overlay);
    let path = RelPath::new(project.name(number * 37 % project.files)).unwrap();
    let flags = OFlags::WRONLY | OFlags::APPEND;
    let root = sandbox.root(RootIndex(0)).unwrap();
    let file = beneath::open(root, &path, flags, Mode::empty(), LinkPolicy::Refuse).unwrap();
    fs::File::from(file).write_all(b"// one line more\n").unwrap();
    let rules = CaptureRules::default();
    let before = spent();
    let captured = sandbox.scan(&HashOnly, &rules).unwrap();
    let took = ms(spent() - before);
    assert_eq!(captured.drafts.len(), 1, "{captured:?}");
    sandbox.close().unwrap();
    took
}

/// A repository of its own over somebody's tree, as agents keep it to take snapshots.
struct Shadow<'a> {
    project: &'a BenchProject,
    git_dir: PathBuf,
}

impl<'a> Shadow<'a> {
    fn new(project: &'a BenchProject, dir: &Path) -> Shadow<'a> {
        let git_dir = dir.join(format!("shadow-{}", project.files));
        run(git().arg("init").arg("-q").arg("--bare").arg(&git_dir));
        let shadow = Shadow { project, git_dir };
        shadow.write_tree();
        // Entries as young as the index would be hashed again and again; a second writing settles them.
        shadow.write_tree();
        shadow
    }

    fn write_tree(&self) {
        for verb in [&["add", "-A"][..], &["write-tree"]] {
            let mut command = git();
            command
                .arg("-c")
                .arg("core.bare=false")
                .env("GIT_DIR", &self.git_dir)
                .env("GIT_WORK_TREE", &self.project.path);
            run(command.current_dir(&self.project.path).args(verb));
        }
    }

    /// CPU milliseconds of a snapshot after one edit.
    fn snapshot(&self, round: usize) -> f64 {
        let mut file = OpenOptions::new().append(true).open(self.project.file(round)).unwrap();
        file.write_all(b"// one line more\n").unwrap();
        let before = spent();
        self.write_tree();
        ms(spent() - before)
    }
}
