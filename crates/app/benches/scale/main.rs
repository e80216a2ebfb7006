//! `cargo xtask bench scale [--quick] [--captured N] [row…]`: how cost grows with plans, files and
//! concurrency.
//!
//! | row | what is measured |
//! |---|---|
//! | `forecast` | `plan list` and `top --once`, with open plans that all change the same files; CPU and memory |
//! | `last` | `plan status @last` in a store of many plans |
//! | `gc` | `plan gc` of all of them: memory, and the store's size before and after |
//! | `diff` | memory of `plan diff` of a plan that changed many files |
//! | `crowd` | command plans that run at once under `ulimit -n 1024:524288`, and how many fail |
//! | `moved` | files that no other process touched and capture calls moved, on a busy machine; `--captured` says how many |
//! | `disk` | bytes on disk for each byte of a file that was applied and undone |
//!
//! CPU and memory are those of the whole process (`wait4`), the least CPU of several runs. The peer of a row
//! is its target, and the benchmark fails at its end if one is missed. The nearest thing that git does to the
//! same files (`git status`, `git log -1`, `git diff`) is printed before it.
//!
//! # Not fair
//! The many plans of `last` and `gc` are copies of one that really ran, written by SQL.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "../support/program.rs"]
mod program;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

use program::Program;
use rusqlite::Connection;
use testkit::bench_row::{Better, Targets, option};
use testkit::cost::{Cost, of_command};

/// How often a command is run; the least CPU counts.
const RUNS: usize = 5;
const MB: f64 = 1_000_000.0;

const LIST_MS_MAX: f64 = 50.0;
const LAST_MS_MAX: f64 = 10.0;
const MEMORY_MB_MAX: f64 = 60.0;
/// Of what a store takes, how much may be left when all its plans but one are cleared.
const LEFT_BY_GC_MAX: f64 = 0.05;
/// The content before and after, and a little for the records.
const COPIES_MAX: f64 = 2.05;

/// How large everything is.
struct Sizes {
    open_plans: usize,
    shared_files: usize,
    stored_plans: usize,
    changed_files: usize,
    crowd: usize,
    captured_files: usize,
    busy_processes: usize,
    file_bytes: usize,
}

const WHOLE: Sizes = Sizes {
    open_plans: 100,
    shared_files: 200,
    stored_plans: 100_000,
    changed_files: 100_000,
    crowd: 256,
    captured_files: 100_000,
    busy_processes: 20,
    file_bytes: 32 << 20,
};

const QUICK: Sizes = Sizes {
    open_plans: 20,
    shared_files: 50,
    stored_plans: 5_000,
    changed_files: 3_000,
    crowd: 32,
    captured_files: 5_000,
    busy_processes: 4,
    file_bytes: 2 << 20,
};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let mut sizes = if words.iter().any(|word| word == "--quick") { QUICK } else { WHOLE };
    sizes.captured_files = option("--captured", sizes.captured_files);
    let is_name = |word: &&String| word.starts_with(|letter: char| letter.is_ascii_lowercase());
    let asked: Vec<&String> = words.iter().filter(is_name).collect();
    let mut targets = Targets::default();
    type Row = (&'static str, fn(&Sizes, &mut Targets));
    let rows: [Row; 6] = [
        ("forecast", forecast),
        ("last", last_and_gc),
        ("diff", diff),
        ("crowd", crowd),
        ("moved", moved),
        ("disk", disk),
    ];
    for (name, measure) in rows {
        if asked.is_empty() || asked.iter().any(|word| *word == name || (name == "last" && *word == "gc")) {
            measure(&sizes, &mut targets);
        }
    }
    targets.check();
}

/// What the command costs, of several runs the least.
fn least(mut command: impl FnMut() -> Command) -> Cost {
    let run = |_| {
        let mut command = command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        of_command(&mut command).1
    };
    let costs: Vec<Cost> = (0..RUNS).map(run).collect();
    let cpu_s = costs.iter().map(|cost| cost.cpu_s).fold(f64::INFINITY, f64::min);
    let wall_s = costs.iter().map(|cost| cost.wall_s).fold(f64::INFINITY, f64::min);
    let peak_mb = costs.iter().map(|cost| cost.peak_mb).fold(0.0, f64::max);
    Cost { cpu_s, wall_s, peak_mb }
}

fn git(program: &Program, words: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(words).current_dir(program.project()).env("HOME", program.dir());
    git
}

fn ms(cost: &Cost) -> f64 {
    cost.cpu_s * 1_000.0
}

fn commit_all(program: &Program) {
    for words in [
        &["add", "."][..],
        &["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "b"],
    ] {
        assert!(git(program, words).status().unwrap().success());
    }
}

/// Makes so many files of so many lines, and commits them.
fn make_files(program: &Program, files: usize, lines: usize) {
    for no in 0..files {
        let dir = program.project().join(format!("d{}", no / 1_000));
        fs::create_dir_all(&dir).unwrap();
        let text: String = (1..=lines).map(|line| format!("file {no} line {line}\n")).collect();
        fs::write(dir.join(format!("f{no}.txt")), text).unwrap();
    }
    commit_all(program);
}

fn forecast(sizes: &Sizes, targets: &mut Targets) {
    let Sizes { open_plans, shared_files, .. } = *sizes;
    let program = Program::new(4, &[]);
    make_files(&program, shared_files, 400);
    for plan in 1..=open_plans {
        // Each another line of each file; every tenth the same as its neighbour's.
        let line = if plan % 10 == 0 { (plan - 1) * 3 } else { plan * 3 };
        let script = format!("sed -i '{line}s/.*/plan {plan}/' d*/f*.txt");
        program.answer(&["run", "--", "sh", "-ec", &script]);
    }
    let list = least(|| program.command(&["plan", "list"]));
    let top = least(|| program.command(&["top", "--once"]));
    let status = least(|| git(&program, &["status", "--porcelain"]));
    println!("forecast: {open_plans} open plans on the same {shared_files} files");
    println!("`git status`: {:.1} ms, {:.1} MB", ms(&status), status.peak_mb);
    println!("on the wall: `plan list` {:.1} ms, `top --once` {:.1} ms", list.wall_s * 1e3, top.wall_s * 1e3);
    targets.meet("scale_list_cpu", ms(&list), LIST_MS_MAX, Better::Less, "ms");
    targets.meet("scale_list_memory", list.peak_mb, MEMORY_MB_MAX, Better::Less, "MB");
    targets.meet("scale_top_cpu", ms(&top), LIST_MS_MAX, Better::Less, "ms");
    targets.meet("scale_top_memory", top.peak_mb, MEMORY_MB_MAX, Better::Less, "MB");
}

/// Copies of the plan that is there.
const COPIES: &str = "
    WITH RECURSIVE n(no) AS (SELECT 1 UNION ALL SELECT no + 1 FROM n WHERE no < ?1)
    INSERT INTO plan_heads (no, plan, events)
        SELECT 1000000 + n.no, '00' || printf('%024d', n.no), 0 FROM n";
const COPIED_PLANS: &str = "
    INSERT INTO plans SELECT h.no, h.plan, p.title, p.spec, p.projects, p.phase, p.state, p.attempt, p.reversions, p.version,
        p.constrained_by, p.request, p.undone_at, p.created, p.updated
    FROM plan_heads h, plans p WHERE h.no > 1000000 AND p.head < 1000000";
const COPIED_PROJECTS: &str = "
    INSERT INTO plan_projects (head, no, root, plan)
        SELECT h.no, 0, r.root, h.plan FROM plan_heads h, plan_projects r WHERE h.no > 1000000 AND r.head < 1000000";

fn last_and_gc(sizes: &Sizes, targets: &mut Targets) {
    let program = Program::new(4, &[("a.txt", "one\n")]);
    program.answer(&["run", "--", "true"]);
    let mut store = Connection::open(program.data().join("agents.db")).unwrap();
    let copying = store.transaction().unwrap();
    copying.execute(COPIES, [sizes.stored_plans as i64]).unwrap();
    assert_eq!(copying.execute(COPIED_PLANS, []).unwrap(), sizes.stored_plans);
    copying.execute(COPIED_PROJECTS, []).unwrap();
    copying.commit().unwrap();
    drop(store);
    let last = least(|| program.command(&["plan", "status", "@last"]));
    let log = least(|| git(&program, &["log", "-1"]));
    println!("last: {} plans; `git log -1`: {:.1} ms", sizes.stored_plans, ms(&log));
    targets.meet("scale_last_cpu", ms(&last), LAST_MS_MAX, Better::Less, "ms");
    let list = least(|| program.command(&["plan", "list"]));
    targets.meet("scale_list_many_cpu", ms(&list), LIST_MS_MAX, Better::Less, "ms");
    let store = Connection::open(program.data().join("agents.db")).unwrap();
    store
        .execute(
            "UPDATE plans SET phase = 'execute', state = 'cancelled', updated = 1 WHERE head > 1000000",
            [],
        )
        .unwrap();
    drop(store);
    let dry = least(|| program.command(&["plan", "gc", "--dry-run", "--older", "0s"]));
    let before = bytes_below(&program.data());
    let cleared = of_command(program.command(&["plan", "gc", "--older", "0s"]).stdout(Stdio::null())).1;
    let after = bytes_below(&program.data());
    println!("gc: {:.1} MB before, {:.1} MB after, {:.1} s CPU", before / MB, after / MB, cleared.cpu_s);
    targets.meet("scale_gc_dry_memory", dry.peak_mb, MEMORY_MB_MAX, Better::Less, "MB");
    targets.meet("scale_gc_memory", cleared.peak_mb, MEMORY_MB_MAX, Better::Less, "MB");
    targets.meet("scale_store_after_gc", after / MB, before * LEFT_BY_GC_MAX / MB, Better::Less, "MB");
}

fn bytes_below(dir: &Path) -> f64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0.0 };
    let entries = entries.flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_below(&entry.path()),
            Ok(found) => found.len() as f64,
            Err(_) => 0.0,
        })
        .sum()
}

fn diff(sizes: &Sizes, targets: &mut Targets) {
    let program = Program::new(4, &[]);
    make_files(&program, sizes.changed_files, 30);
    let plan =
        program.answer(&["run", "--", "sh", "-ec", "for d in d*; do sed -i '7s/.*/changed/' $d/*.txt; done"]);
    let plan = plan["plan_id"].as_str().unwrap().to_owned();
    let shown = |words: &[&str]| {
        let words = [&["plan", "diff", &plan][..], words].concat();
        of_command(program.command(&words).stdout(Stdio::null())).1
    };
    let forms = [
        ("", shown(&["--format", "plain"])),
        ("_json", shown(&[])),
        ("_stat", shown(&["--format", "plain", "--stat"])),
        ("_names", shown(&["--format", "plain", "--name-only"])),
    ];
    let list = least(|| program.command(&["plan", "list"]));
    assert!(
        program.command(&["plan", "apply", &plan, "--yes"]).stdout(Stdio::null()).status().unwrap().success()
    );
    let peer = of_command(git(&program, &["--no-pager", "diff"]).stdout(Stdio::null())).1;
    println!("diff: {} files; `git diff`: {:.1} s, {:.1} MB", sizes.changed_files, peer.cpu_s, peer.peak_mb);
    for (form, cost) in forms {
        println!("plan diff{form}: {:.1} s CPU", cost.cpu_s);
        targets.meet(&format!("scale_diff{form}_memory"), cost.peak_mb, MEMORY_MB_MAX, Better::Less, "MB");
    }
    targets.meet("scale_list_large_cpu", ms(&list), LIST_MS_MAX, Better::Less, "ms");
}

fn crowd(sizes: &Sizes, targets: &mut Targets) {
    let program = Program::new(1_024, &[("a.txt", "one\n")]);
    let gate = program.dir().join("gate");
    fs::create_dir(&gate).unwrap();
    let mut limited = Command::new("sh");
    let worker = program.command(&["worker", "--max", &sizes.crowd.to_string()]);
    limited
        .args(["-c", "ulimit -Sn 1024; ulimit -Hn 524288 2>/dev/null; exec \"$0\" \"$@\""])
        .arg(worker.get_program())
        .args(worker.get_args());
    limited.envs(worker.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(program.project()).stdin(Stdio::null());
    let (tell, news) = channel();
    let worker = Program::watched(&mut limited, &tell);
    assert!(news.recv().unwrap().is("ready"));
    let items: String = (0..sizes.crowd).map(|item| format!("{item}\n")).collect();
    fs::write(program.dir().join("items"), items).unwrap();
    let (items, gate_word) = (program.dir().join("items").display().to_string(), gate.display().to_string());
    let script = format!("echo >> {gate_word}/began; until [ -e {gate_word}/go ]; do sleep 0.2; done");
    program.answer(&["run", "--for-each", &items, "--writable", &gate_word, "--", "sh", "-c", &script]);
    let began = || fs::read(gate.join("began")).unwrap_or_default().len();
    let (mut most, mut ended, mut failed) = (0, 0, 0);
    while most < sizes.crowd && failed == 0 {
        most = began();
        failed += news.try_iter().filter(|one| one.is("finished") && one.how() != "succeeded").count();
        std::thread::sleep(LOOK);
    }
    fs::write(gate.join("go"), "").unwrap();
    while ended + failed < sizes.crowd {
        let one = news.recv().unwrap();
        if one.is("finished") {
            if one.how() == "succeeded" { ended += 1 } else { failed += 1 }
        }
    }
    println!("crowd: {most} command plans at once under `ulimit -n 1024:524288`");
    targets.meet("scale_crowd", most as f64, sizes.crowd as f64, Better::More, "plans");
    targets.meet("scale_crowd_failed", failed as f64, 0.0, Better::Less, "plans");
    assert!(worker.stop().success());
}

/// How long to wait before looking again how many plans have begun.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Processes that keep the machine busy; killed when dropped.
struct Load(Vec<Child>);

impl Load {
    fn new(processes: usize) -> Load {
        let busy = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Load((0..processes).map(busy).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn moved(sizes: &Sizes, targets: &mut Targets) {
    const FILES_OF_PLAN_MAX: usize = 100_000;
    let files = sizes.captured_files.min(FILES_OF_PLAN_MAX);
    let program = Program::new(4, &[]);
    make_files(&program, files, 3);
    let load = Load::new(sizes.busy_processes);
    let mut captured = 0;
    while captured < sizes.captured_files {
        let script = format!("for f in d*/*.txt; do echo {captured} >> $f; done");
        let plan = program.answer(&["run", "--", "sh", "-ec", &script]);
        captured += usize::try_from(plan["changes"]["files"].as_u64().unwrap()).unwrap();
        println!("moved: {captured} captured");
    }
    drop(load);
    let store = Connection::open(program.data().join("agents.db")).unwrap();
    let moved: i64 = store
        .query_row("SELECT count(*) FROM change_entries WHERE base = 'moved'", [], |row| row.get(0))
        .unwrap();
    println!("moved: {moved} of {captured} captured files at a load of {}", sizes.busy_processes);
    targets.meet("scale_falsely_moved", moved as f64, 0.0, Better::Less, "files");
}

fn disk(sizes: &Sizes, targets: &mut Targets) {
    let program = Program::new(4, &[]);
    let line = "0123456789abcdef0123456789abcdef\n";
    fs::write(program.project().join("large.txt"), line.repeat(sizes.file_bytes / line.len())).unwrap();
    commit_all(&program);
    let before = bytes_below(&program.data());
    let plan = program.answer(&["run", "--", "sed", "-i", "7s/.*/changed/", "large.txt"]);
    let plan = plan["plan_id"].as_str().unwrap().to_owned();
    for verb in ["apply", "undo"] {
        let done = program.command(&["plan", verb, &plan, "--yes"]).stdout(Stdio::null()).status().unwrap();
        assert!(done.success(), "{verb}");
    }
    let copies = (bytes_below(&program.data()) - before) / sizes.file_bytes as f64;
    println!("disk: {copies:.2} bytes for each byte of a file that was applied and undone");
    targets.meet("scale_disk_copies", copies, COPIES_MAX, Better::Less, "copies");
}
