//! The cost of something: CPU, time and memory, of a process that is waited for or of this one.

#![allow(dead_code, reason = "not every benchmark measures everything")]

use std::io::Read;
use std::process::Command;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use wait4::Wait4 as _;

/// As the kernel counts in /proc.
const TICKS_PER_S: f64 = 100.0;
const MB: f64 = 1024.0 * 1024.0;

/// Seconds of CPU of all threads and children, seconds on the wall, and the most memory at once.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub cpu_s: f64,
    pub wall_s: f64,
    pub peak_mb: f64,
}

/// Runs a command to its end, with what it has started; what it printed, if the command has a pipe for it.
pub fn of_command(command: &mut Command) -> (String, Cost) {
    let begun = Instant::now();
    let mut process = command.spawn().unwrap();
    let mut printed = String::new();
    if let Some(mut stdout) = process.stdout.take() {
        stdout.read_to_string(&mut printed).unwrap();
    }
    let ended = process.wait4().unwrap();
    let wall_s = begun.elapsed().as_secs_f64();
    // ripgrep ends with 1 when it finds nothing.
    assert!(ended.status.code().is_some_and(|code| code <= 1), "{command:?}: {}", ended.status);
    let cpu_s = (ended.rusage.utime + ended.rusage.stime).as_secs_f64();
    (printed, Cost { cpu_s, wall_s, peak_mb: ended.rusage.maxrss as f64 / MB })
}

/// Does something, and what it cost this process and the children that were waited for meanwhile. The memory
/// is the most that this process has ever had.
pub fn of<T>(act: impl FnOnce() -> T) -> (T, Cost) {
    let (cpu, begun) = (own_cpu_s(), Instant::now());
    let done = act();
    let (cpu_s, wall_s) = (own_cpu_s() - cpu, begun.elapsed().as_secs_f64());
    (done, Cost { cpu_s, wall_s, peak_mb: own_peak_mb() })
}

fn own_cpu_s() -> f64 {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name may hold anything; the numbers begin behind it. Of the line these are the 16th and the 17th.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = [13, 14].into_iter().map(|at| fields[at].parse::<f64>().unwrap()).sum();
    own.tv_sec as f64 + own.tv_nsec as f64 / 1e9 + ticks / TICKS_PER_S
}

fn own_peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}
