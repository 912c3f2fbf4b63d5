//! Lock types beside a store.
