//! Data sets: texts by line or document, tables, parallel texts, labels, images, and how to divide them.
//! Texts stay where they are, memory-mapped, with an index of where each line begins, so that a file need not
//! fit in memory. What a file gets wrong is said when it is opened, with its line.

mod file;
mod images;
mod labels;
mod lines;
mod nearest;
mod packed;
mod parallel;
mod split;
mod table;
mod text;

pub use images::{Before, FolderOptions, ImageForm, Images, Resample, read_image, read_middle};
pub use labels::Labels;
pub use lines::{Lines, MOST_OF_A_TEXT};
pub use packed::Cifar100;
pub use parallel::Parallel;
pub use split::{Amount, Part, held_out};
pub use table::{Column, Format, Table};
pub use text::{Cut, TextRows};
