//! Explains how to use the crate, with one page for each task.
//!
//! The pages are those of `docs/guide` in the repository, and four pages of reference from `docs`.
//! Their examples run as tests.
//!
#![doc = include_str!("guide/links.txt")]
#![doc = include_str!("../docs/guide/README.md")]

// A page links to another by a label, which it defines for the repository at its end. The first
// definition of a label counts, and here that is the one for rustdoc.
macro_rules! pages {
    ($($(#[$attribute:meta])* $name:ident: $page:literal;)*) => {$(
        $(#[$attribute])*
        #[doc = ""]
        #[doc = include_str!("guide/links.txt")]
        #[doc = include_str!($page)]
        pub mod $name {}
    )*};
}

pages! {
    /// Edits and reads a document: batches, scripts in JSON, transactions by hand.
    editing: "../docs/guide/editing.md";
    /// Embeds the store in a desktop editor: opening, typing, drawing, saving.
    desktop: "../docs/guide/desktop.md";
    /// Embeds the store in a server: threads, requests, held locks, errors as JSON.
    server: "../docs/guide/server.md";
    /// Undoes and redoes the edits of one editor beside the edits of others.
    undo: "../docs/guide/undo.md";
    /// Restricts documents to a schema.
    schema: "../docs/guide/schema.md";
    /// Runs transactions on different nodes at the same time.
    node_locks: "../docs/guide/node-locks.md";
    /// Locks nodes for an owner that is no thread, for a limited time.
    leases: "../docs/guide/leases.md";
    /// Applies the effect of each message once, even if the message is delivered again.
    inbox: "../docs/guide/inbox.md";
    /// Limits the calls in flight, for each downstream and in total.
    limiter: "../docs/guide/limiter.md";
    /// Runs the tasks of one key one after the other.
    keyed: "../docs/guide/keyed.md";
    /// Chooses timeouts, bounds and other limits.
    limits: "../docs/guide/limits.md";
    /// Finds out why an editor does not respond.
    stuck_editor: "../docs/guide/stuck-editor.md";
    /// Tests timeouts and expiry without sleeping.
    testing: "../docs/guide/testing.md";
    /// Runs the scripts of untrusted clients.
    untrusted_scripts: "../docs/guide/untrusted-scripts.md";
    /// Translates a program for the TypeScript API, name by name.
    typescript: "../docs/guide/typescript.md";
    /// Lists every operation: builder, JSON form, effect, errors, selection.
    operations: "../docs/operations.md";
    /// Describes the queries of snapshots and transactions, nested JSON and Markdown.
    // Its examples need the feature; its text does not.
    #[cfg(any(not(doctest), feature = "markdown"))]
    queries: "../docs/queries.md";
    /// Describes hooks, subscriptions and idempotency keys.
    hooks: "../docs/hooks.md";
    /// Lists every error code, its evidence, and which errors to retry.
    errors: "../docs/errors.md";
}
