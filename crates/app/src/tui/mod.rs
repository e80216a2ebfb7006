//! Full-screen terminal views: the review of changes and `agents top`.

pub mod review;
pub mod screen;
pub mod top;
