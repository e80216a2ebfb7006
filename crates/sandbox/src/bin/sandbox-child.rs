//! The child processes of this crate as a program of their own, for its tests; users have them in `agents`.

fn main() {
    sandbox::child::dispatch();
}
