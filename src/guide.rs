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
    /// Shows how to edit and read a document: batches, scripts in JSON, transactions by hand.
    editing: "../docs/guide/editing.md";
    /// Shows how to embed the store in a desktop program: commands, events, a lock across two
    /// commands, saving on close.
    // Its examples need the feature; its text does not.
    #[cfg(any(not(doctest), feature = "redb"))]
    desktop: "../docs/guide/desktop.md";
    /// Shows how to embed the store in a server: threads, requests, held locks, errors as JSON.
    server: "../docs/guide/server.md";
    /// Shows how to embed the store in an async server: tasks, dropped futures, tasks that are not
    /// polled.
    async_server: "../docs/guide/async-server.md";
    /// Shows how to sync a browser tab: base versions, rebasing, keys, acknowledgements.
    browser_tab: "../docs/guide/browser-tab.md";
    /// Shows how to save a document, load it, and continue in another process.
    saving: "../docs/guide/saving.md";
    /// Shows how to keep a document in a file: open, commit, close, and what survives.
    // Its examples need the feature; its text does not.
    #[cfg(any(not(doctest), feature = "redb"))]
    durable: "../docs/guide/durable.md";
    /// Shows how to restore a backup, and how to salvage what a damaged file still has.
    // Its examples need the feature; its text does not.
    #[cfg(any(not(doctest), feature = "redb"))]
    damaged: "../docs/guide/damaged.md";
    /// Shows how to open documents on demand, close idle ones, and bound how many are open.
    // Its examples need the feature; its text does not.
    #[cfg(any(not(doctest), feature = "redb"))]
    many_documents: "../docs/guide/many-documents.md";
    /// Shows how several machines share a document, with PostgreSQL underneath.
    // Its examples run in the package doclock-postgres.
    #[cfg(not(doctest))]
    cluster: "../docs/guide/cluster.md";
    /// Shows how to undo and redo the edits of one editor beside the edits of others.
    undo: "../docs/guide/undo.md";
    /// Shows how to restrict documents to a schema.
    schema: "../docs/guide/schema.md";
    /// Shows how to run transactions on different nodes at the same time.
    node_locks: "../docs/guide/node-locks.md";
    /// Shows how to lock nodes for an owner that is no thread, for a limited time.
    leases: "../docs/guide/leases.md";
    /// Shows how to apply the effect of a message once, even if it is delivered again.
    inbox: "../docs/guide/inbox.md";
    /// Shows how to limit the calls in flight, for each downstream and in total.
    limiter: "../docs/guide/limiter.md";
    /// Shows how to run the tasks of one key one after the other.
    keyed: "../docs/guide/keyed.md";
    /// Shows how to choose timeouts, bounds and other limits.
    limits: "../docs/guide/limits.md";
    /// Leads from the symptom of an editor that hangs to the line of code that causes it.
    my_editor_hangs: "../docs/guide/my-editor-hangs.md";
    /// Shows how to measure waits, holds and outcomes of transactions with `metrics` and `tracing`.
    // Its examples need the features; its text does not.
    #[cfg(any(not(doctest), all(feature = "metrics", feature = "tracing")))]
    observing: "../docs/guide/observing.md";
    /// Shows how to find out why an editor does not respond.
    stuck_editor: "../docs/guide/stuck-editor.md";
    /// Shows the command-line tool: scripts, recorded histories, the files of durable documents.
    tool: "../docs/guide/tool.md";
    /// Shows how to record the requests of a lock, and how to read the page and the trace.
    timeline: "../docs/guide/timeline.md";
    /// Shows how to test timeouts and expiry without sleeping.
    testing: "../docs/guide/testing.md";
    /// Shows how to run the scripts of untrusted clients.
    untrusted_scripts: "../docs/guide/untrusted-scripts.md";
    /// Shows how to port a program from the TypeScript API, name by name.
    typescript: "../docs/guide/typescript.md";
    /// Shows how to convert documents of ProseMirror, Tiptap and HTML, and how to apply steps.
    other_editors: "../docs/guide/other-editors.md";
    /// Lists every operation: builder, JSON form, effect, errors, selection.
    operations: "../docs/operations.md";
    /// Compares the commands of ProseMirror with the operations that do the same.
    coming_from_prosemirror: "../docs/coming-from-prosemirror.md";
    /// Describes the queries of snapshots and transactions, nested JSON and Markdown.
    queries: "../docs/queries.md";
    /// Describes hooks, subscriptions and idempotency keys.
    hooks: "../docs/hooks.md";
    /// Lists every error code, its evidence, and which errors to retry.
    errors: "../docs/errors.md";
}
