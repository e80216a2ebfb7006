//! The `agents` program.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A graph of nodes is many small things that live for a moment: it takes a tenth less of the processor with
/// this one.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    // Before anything else: a child that runs a command must have one thread and nothing open.
    sandbox::child::dispatch();
    app::cli::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    use std::io::Write;
    let why = "error[UNSUPPORTED]: agents works on Linux only: its sandboxes are made by the Linux kernel\n\n\
               hint: run it in a Linux virtual machine or container\n";
    // Nothing is left to do when even this cannot be said.
    let _ = std::io::stderr().write_all(why.as_bytes());
    ExitCode::FAILURE
}
