//! The cases, by what they are about.

mod calling;
mod disk;
mod for_each;
mod hostile;
mod interrupted;
mod limits;
mod pages;
mod plans;
mod refusals;
mod settings;
mod steps;
mod stopping;
mod support;
mod survive;
mod terminal;
mod together;
mod told;
mod top;
mod using_with;
mod workers;
