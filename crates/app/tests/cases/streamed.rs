//! Large answers are written piece by piece: their size costs no memory.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use super::support::TestUser;

/// So many bytes are changed in all.
const CHANGED_BYTES: usize = 200 * 400_000;
/// So much may lie in memory: the program itself, a few files, and what the allocator gives back later. All
/// of it at once would be three times as much: the contents, their redacted copies and the answer.
const PEAK_BYTES_MAX: u64 = 150 << 20;

/// A plan that makes 200 files of 400 KB.
fn large_plan(person: &TestUser) -> String {
    let make = "head -c 300000 /dev/urandom | base64 -w 60";
    person.plan(&format!("i=0; while [ $i -lt 200 ]; do {make} > f$i; i=$((i+1)); done"))
}

/// Reads all that a process writes; returns the number of bytes, and the most memory that it had. What `wait4`
/// returns would count the memory of this process too, from which it was forked.
fn drain(child: &mut Child) -> (u64, u64) {
    let (mut out, mut buffer) = (child.stdout.take().unwrap(), vec![0; 64 << 10]);
    let (mut written, mut peak) = (0, 0);
    loop {
        let read = out.read(&mut buffer).unwrap() as u64;
        if read == 0 {
            return (written, peak);
        }
        written += read;
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak_kb = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        peak = peak.max(peak_kb.map_or(0, |kb| kb.parse::<u64>().unwrap() << 10));
    }
}

#[test]
fn a_diff_of_any_size_is_written_file_by_file() {
    let person = TestUser::new();
    let plan = large_plan(&person);
    for form in [&["--format", "plain"][..], &["--format", "json"], &["--format", "rich"], &["--stat"]] {
        let words = [&["plan", "diff", plan.as_str()][..], form].concat();
        let mut command = person.command(&person.project(), &words);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (written, peak) = drain(&mut child);
        assert!(child.wait().unwrap().success(), "{form:?}");
        assert!(form == ["--stat"] || written > CHANGED_BYTES as u64, "{form:?}: {written} bytes");
        assert!((1..PEAK_BYTES_MAX).contains(&peak), "{form:?}: {peak} bytes of memory");
    }
}

#[test]
fn a_reader_that_goes_away_ends_a_long_diff_in_silence() {
    let person = TestUser::new();
    let plan = large_plan(&person);
    for format in ["plain", "json"] {
        let words = ["plan", "diff", &plan, "--format", format];
        let mut command = person.command(&person.project(), &words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = Vec::new();
        BufReader::new(child.stdout.take().unwrap().take(1_000)).read_until(b'\n', &mut first).unwrap();
        assert!(!first.is_empty());
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!((child.wait().unwrap().code(), told.as_str()), (Some(0), ""), "{format}");
    }
}

#[test]
fn a_streamed_answer_is_the_same_in_json_and_in_yaml() {
    let person = TestUser::new();
    person.write("a.txt", "one\ntwo\n");
    let plan = person.plan("echo three >> a.txt; printf 'x\\0y' > b.bin; ln -s a.txt c");
    let json = person.json(&["plan", "diff", &plan]);
    let keys: Vec<&str> = json.stdout.split("\"data\":").next().unwrap().split(',').collect();
    assert_eq!(keys[0], "{\"command\":\"plan diff\"", "{json:?}");
    let data = json.data();
    assert_eq!(data["summary"]["files"], 3, "{data}");
    let paths: Vec<&str> =
        data["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["a.txt", "b.bin", "c"]);
    let yaml = person.agents(&["plan", "diff", &plan, "--format", "yaml"]);
    let yaml: serde_json::Value = serde_saphyr::from_str(&yaml.stdout).unwrap();
    assert_eq!(yaml["data"], data);
}
