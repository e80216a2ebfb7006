//! The remains after the last worker is gone: there should be none.

use std::fs;
use std::path::Path;

use crate::program::{Program, processes_with};

/// Sandboxes, mounts, processes, locks, and what `agents doctor` finds.
pub(crate) fn over(program: &Program) -> Vec<String> {
    let dir = program.dir().to_str().unwrap();
    let mut left = Vec::new();
    // Before the doctor, which clears what it finds.
    left.extend(names(&program.data().join("sandboxes")).map(|name| format!("the sandbox {name} is left")));
    left.extend(names(&program.data().join("journal")).map(|name| format!("the journal {name} is left")));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    left.extend(mounts.lines().filter(|line| line.contains(dir)).map(|line| format!("mounted: {line}")));
    let workers = names(&program.data().join("workers"));
    // One lock serves whoever wants to start a worker, and stays.
    left.extend(workers.filter(|name| name != "starting").map(|name| format!("the lock {name} is left")));
    left.extend(processes_with(dir).iter().map(|&id| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        format!("process {id} lives: {}", String::from_utf8_lossy(&line).replace('\0', " "))
    }));
    let found = &program.answer(&["doctor"])["leftovers"];
    let is_nothing = |value: &serde_json::Value| value == 0 || value.as_array().is_some_and(Vec::is_empty);
    if !found.as_object().is_some_and(|found| found.values().all(is_nothing)) {
        left.push(format!("the doctor finds {found}"));
    }
    left
}

fn names(dir: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}
