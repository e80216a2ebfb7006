//! Prints a part of the docs from the code that it describes; run by `cargo xtask docs` and `cargo xtask
//! tidy`.
//!
//! An example, because examples may use dev-dependencies: `xtask` itself is built without any crate of the
//! product.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    match name.as_str() {
        "jobs" => print!("{}", domain::job::table_markdown()),
        "strategies" => print!("{}", context::strategies::table_markdown()),
        "plans" => print!("{}", domain::plan::table_markdown()),
        "action-schema" => println!("{:#}", definitions::action_schema()),
        "actor-schema" => println!("{:#}", definitions::actor_schema()),
        "envelope-schema" => println!("{:#}", app::output::envelope::schema()),
        "errors" => print!("{}", app::errors::codes::markdown()),
        unknown => {
            eprintln!("error: nothing prints `{unknown}`");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
