//! The cases, by what they are about.

mod calling;
mod disk;
mod for_each;
mod hostile;
mod interrupted;
mod late;
mod limits;
mod many;
mod pages;
mod plans;
mod refusals;
mod settings;
mod steps;
mod stopped;
mod stopping;
mod support;
mod survive;
mod terminal;
mod together;
mod told;
mod top;
mod trouble;
mod using_with;
mod workers;
