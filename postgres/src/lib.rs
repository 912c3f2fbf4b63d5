//! One document on several machines.
