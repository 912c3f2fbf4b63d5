//! The document that a script edits.

use std::ffi::OsStr;
use std::path::Path;

use doclock::document::NodeSpec;
use doclock::durable::DurableOptions;
use doclock::{DataStore, Snapshot, StoreOptions};
use doclock_formats::html::{MarkdownOptions, from_html};
use doclock_formats::markdown::from_markdown;

use crate::error::ToolError;
use crate::{input, progress};

/// Opens a store with the document of a file, by the end of its name.
pub(crate) fn open(
    path: &Path,
    options: StoreOptions,
    allow_readers: bool,
) -> Result<DataStore, ToolError> {
    let kind = path.extension().and_then(OsStr::to_str);
    if allow_readers && kind != Some("doclock") {
        let reason = "--allow-readers is for durable files, whose names end in .doclock";
        return Err(ToolError::input(path, reason));
    }
    match kind {
        Some("md") => imported(
            path,
            options,
            from_markdown(&input::text(path, input::PAGE)?),
        ),
        Some("html") => {
            let html = input::text(path, input::PAGE)?;
            let (document, _) = from_html(&html, &MarkdownOptions::new())
                .map_err(|error| ToolError::input(path, error))?;
            imported(path, options, document)
        }
        Some("json") => {
            let json = input::bytes(path, input::DATA)?;
            let json = input::without_byte_order_mark(&json);
            let document: Snapshot = serde_json::from_slice(json).map_err(|error| {
                ToolError::input(path, format_args!("is not a snapshot: {error}"))
            })?;
            let store = options.document(document);
            store.map_err(|error| ToolError::input(path, error))
        }
        Some("doclock") => durable(path, options, allow_readers),
        _ => {
            let reason = "the name of a document must end in .md, .html, .json or .doclock";
            Err(ToolError::input(path, reason))
        }
    }
}

/// Opens a durable file, of whose log nothing is removed.
fn durable(path: &Path, store: StoreOptions, allow_readers: bool) -> Result<DataStore, ToolError> {
    if path.exists() {
        input::check_kind(path)?;
    }
    let bar = progress::reading();
    let shown = bar.clone();
    let mut options = DurableOptions::new()
        .store(store)
        .keep_log(usize::MAX)
        .progress(move |reached| progress::show(&shown, reached));
    if allow_readers {
        options = options.allow_readers();
    }
    let store = DataStore::open_with(path, options);
    bar.finish_and_clear();
    store.map_err(ToolError::open(path))
}

/// A store with an imported document as its first version.
pub(crate) fn imported(
    path: &Path,
    options: StoreOptions,
    document: NodeSpec,
) -> Result<DataStore, ToolError> {
    let store = DataStore::with_options(options);
    import(&store, document).map_err(|error| ToolError::input(path, error))?;
    Ok(store)
}

fn import(store: &DataStore, document: NodeSpec) -> Result<(), Box<dyn std::error::Error>> {
    let mut transaction = store.begin("import")?;
    let root = transaction.create(document)?;
    transaction.set_root(&root)?;
    transaction.commit()?;
    Ok(())
}
