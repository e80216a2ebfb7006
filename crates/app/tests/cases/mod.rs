//! The cases, by what they are about.

mod calling;
mod disk;
mod hostile;
mod interrupted;
mod pages;
mod plans;
mod refusals;
mod settings;
mod steps;
mod stopping;
mod support;
mod survive;
mod terminal;
mod told;
mod using_with;
