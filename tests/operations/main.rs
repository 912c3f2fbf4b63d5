//! Every operation by its effect, its errors and its change of the selection.

#[path = "../common/mod.rs"]
mod common;

mod attributes;
mod backspace;
mod blocks;
mod cells;
mod clipboard;
mod exclusions;
mod fitting;
mod halves;
mod input_rules;
mod marks;
mod names;
mod range;
mod refused;
mod stored_marks;
mod tables;
mod text;
mod tree;
mod utf16;
