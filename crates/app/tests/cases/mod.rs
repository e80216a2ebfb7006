//! The cases, by what they are about.

mod calling;
mod hostile;
mod pages;
mod plans;
mod refusals;
mod settings;
mod support;
mod survive;
mod using_with;
