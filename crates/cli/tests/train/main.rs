//! Journeys from a recipe to an answer, with the real command and data of a few lines.

mod bad_input;
mod examples;
mod faults;
mod hostile;
mod interrupted;
mod journeys;
mod masked;
mod mechanisms;
mod mutated;
mod opened;
mod scratch;
mod study_files;
