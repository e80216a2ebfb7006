//! The cases, by what they are about.

mod calling;
mod hostile;
mod pages;
mod plans;
mod refusals;
mod settings;
mod stopping;
mod support;
mod survive;
mod told;
mod using_with;
