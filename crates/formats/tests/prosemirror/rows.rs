//! The table of the page on ProseMirror.

/// A command of ProseMirror, the operation with the same purpose, the rate of equal results below
/// which this test fails, in percent, and why the results differ on purpose. A row without a rate
/// is not compared.
pub(crate) struct Row {
    pub(crate) package: &'static str,
    pub(crate) command: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) least: Option<f64>,
    pub(crate) why: &'static str,
}

const fn row(
    package: &'static str,
    command: &'static str,
    operation: &'static str,
    least: f64,
    why: &'static str,
) -> Row {
    Row {
        package,
        command,
        operation,
        least: Some(least),
        why,
    }
}

const fn other(
    package: &'static str,
    command: &'static str,
    operation: &'static str,
    why: &'static str,
) -> Row {
    Row {
        package,
        command,
        operation,
        least: None,
        why,
    }
}

const STATE: &str = "state";
const TRANSFORM: &str = "transform";
const COMMANDS: &str = "commands";
const LIST: &str = "schema-list";
const TABLES: &str = "tables";
const RULES: &str = "inputrules";
const STARTER_KIT: &str = "StarterKit of Tiptap";

pub(crate) const NEWLINE: &str =
    "it leaves a newline of code that it joins to a text; here that is a hard break";
const SELECTS: &str = "it only selects";
const BREAK: &str = "a hard break counts as white space";
const COLUMNS: &str = "all columns after a cell that spans rows and columns count";

#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    row(STATE, "insertText", "`insertText`", 99.5, ""),
    row(STATE, "insertTextOver", "`replaceText` with `endNodeId`", 98.0, NEWLINE),
    row(STATE, "paste", "`paste`", 98.0, NEWLINE),
    row(STATE, "cutAndPaste", "`cut`, `paste`", 98.0, NEWLINE),
    row(STATE, "copyOverItself", "`copy`, `paste`", 99.0, ""),
    row(STATE, "setStoredMarks", "`toggleMark` and `insertText` at a caret", 98.0, ""),
    row(TRANSFORM, "delete", "`deleteRange` with `exact`", 98.5, NEWLINE),
    row(TRANSFORM, "deleteRange", "`deleteRange`", 98.5, NEWLINE),
    row(TRANSFORM, "addMark", "`applyMark`", 99.5, ""),
    row(TRANSFORM, "removeMark", "`removeMark` with `attributes`", 99.5, ""),
    row(TRANSFORM, "removeMarkType", "`removeMark`", 99.5, ""),
    row(TRANSFORM, "clearMarks", "`clearFormatting`", 99.5, ""),
    other(TRANSFORM, "replace", "`paste`", "`paste` replaces the nodes that the range covers, as `replaceRange` does"),
    row(TRANSFORM, "replaceRange", "`paste`", 98.0, NEWLINE),
    row(TRANSFORM, "replaceRangeWith", "`paste`", 98.0, ""),
    row(TRANSFORM, "insert", "`addChild`, `paste` in a text", 99.0, ""),
    row(TRANSFORM, "split", "`splitTextNode`, `splitBlockNode`", 99.5, ""),
    row(TRANSFORM, "join", "`transformNode`, `joinBlock` `text`; `mergeBlockNodes`", 99.0, ""),
    row(TRANSFORM, "Transform.lift", "`liftNode`", 99.5, ""),
    row(TRANSFORM, "Transform.wrap", "`wrapNode`", 99.0, ""),
    row(TRANSFORM, "Transform.setBlockType", "`transformNode` of each block", 99.0, ""),
    other(TRANSFORM, "clearIncompatible", "`transformNode`", "a part of `setBlockType`"),
    row(TRANSFORM, "setNodeMarkup", "`transformNode`", 98.0, NEWLINE),
    row(TRANSFORM, "setNodeAttribute", "`setAttrs`", 99.5, ""),
    row(TRANSFORM, "setDocAttribute", "`setAttrs`", 99.5, ""),
    other(TRANSFORM, "addNodeMark, removeNodeMark", "", "only texts have marks; a leaf in a line is a character of a text"),
    row(COMMANDS, "deleteSelection", "`deleteRange`, `delete` with `fit`", 98.5, NEWLINE),
    row(COMMANDS, "splitBlock", "`insertParagraph`", 98.5, NEWLINE),
    row(COMMANDS, "joinBackward", "`joinBlock` `any`", 98.5, ""),
    row(COMMANDS, "joinForward", "`joinBlock` `any`", 98.5, ""),
    row(COMMANDS, "joinTextblockBackward", "`joinBlock` `text`", 98.0, NEWLINE),
    row(COMMANDS, "joinTextblockForward", "`joinBlock` `text`", 98.0, NEWLINE),
    row(COMMANDS, "joinUp", "`joinBlock` `around`, `mergeBlockNodes`", 98.5, ""),
    row(COMMANDS, "joinDown", "`joinBlock` `around`, `mergeBlockNodes`", 98.5, ""),
    row(COMMANDS, "lift", "`liftNode`", 99.5, ""),
    row(COMMANDS, "liftEmptyBlock", "`liftEmptyBlock`", 99.5, ""),
    row(COMMANDS, "wrapIn", "`wrapNode`", 99.0, ""),
    row(COMMANDS, "setBlockType", "`transformNode` of each block", 99.0, ""),
    row(COMMANDS, "exitCode", "`insertParagraph` at the end", 99.0, ""),
    row(COMMANDS, "newlineInCode", "`insertText`", 99.5, ""),
    row(COMMANDS, "createParagraphNear", "`addChild`", 99.5, ""),
    row(COMMANDS, "toggleMark", "`toggleMark`", 99.5, "it never removes a mark where a character may not have it, and adds none to white space"),
    row(COMMANDS, "splitBlockAs", "`insertParagraph` with `type`", 98.0, NEWLINE),
    row(COMMANDS, "splitBlockKeepMarks", "`insertParagraph`, `setSelection` with `marks`", 98.0, ""),
    other(COMMANDS, "selectAll, selectParentNode, selectTextblockStart, selectTextblockEnd, selectNodeBackward, selectNodeForward", "`setSelection`, `selectNode`", SELECTS),
    row(COMMANDS, "autoJoin", "`joinNeighbours` after the edit", 98.0, ""),
    other(COMMANDS, "chainCommands", "", "the program tries one operation after another"),
    row(LIST, "wrapInList", "`wrapInList`", 99.0, ""),
    row(LIST, "splitListItem", "`splitListItem`", 98.0, ""),
    row(LIST, "liftListItem", "`outdentNode`", 99.5, ""),
    row(LIST, "sinkListItem", "`indentNode`", 99.0, ""),
    row(LIST, "splitListItemKeepMarks", "`splitListItem`, `setSelection` with `marks`", 98.0, ""),
    row(LIST, "wrapRangeInList", "`wrapInList`", 99.0, ""),
    row(TABLES, "addRowBefore", "`addTableRow` `before`", 98.0, COLUMNS),
    row(TABLES, "addRowAfter", "`addTableRow` `after`", 98.0, COLUMNS),
    row(TABLES, "addColumnBefore", "`addTableColumn` `before`", 99.5, ""),
    row(TABLES, "addColumnAfter", "`addTableColumn` `after`", 99.5, ""),
    row(TABLES, "deleteRow", "`deleteTableRows`", 98.5, COLUMNS),
    row(TABLES, "deleteColumn", "`deleteTableColumns`", 99.5, ""),
    row(TABLES, "deleteTable", "`delete` with `fit`", 99.5, ""),
    row(TABLES, "mergeCells", "`mergeCells`", 99.5, ""),
    row(TABLES, "splitCell", "`splitCell`", 99.5, ""),
    row(TABLES, "splitCellWithType", "`transformNode`, `splitCell`", 99.5, ""),
    row(TABLES, "setCellAttr", "`setAttrs` of each cell", 99.5, ""),
    row(TABLES, "toggleHeaderRow", "`toggleHeader` `rows`", 99.5, ""),
    row(TABLES, "toggleHeaderColumn", "`toggleHeader` `columns`", 99.5, ""),
    row(TABLES, "toggleHeaderCell", "`toggleHeader` `cells`", 99.5, ""),
    row(TABLES, "toggleHeader", "`toggleHeader` `firstRow`, `firstColumn`", 99.5, ""),
    row(TABLES, "deleteCellSelection", "`clearCells`, `deleteRange`", 99.5, ""),
    row(TABLES, "handlePaste", "`copy`, `paste` of cells", 98.0, ""),
    row(TABLES, "handlePaste (no cells)", "`paste` over several cells", 98.0, "it makes the selected cells plain cells of one place"),
    row(TABLES, "moveTableRow", "`moveTableRow`", 98.0, "three or more rows that cells join move to their place"),
    row(TABLES, "moveTableColumn", "`moveTableColumn`", 98.0, "columns in which no cell begins move along"),
    row(TABLES, "fixTables", "`fixTable`", 99.0, "it adds columns beside a cell that overlaps another"),
    other(TABLES, "goToNextCell", "`setSelection`", SELECTS),
    row(RULES, "inputRules", "`applyInputRules` after each character", 99.0, BREAK),
    row(RULES, "undoInputRule", "undo, after `applyInputRules` as a transaction", 99.5, ""),
    other(RULES, "wrappingInputRule, textblockTypeInputRule", "`wrap`, `setType` of a rule", "see `inputRules`"),
    other(RULES, "smartQuotes, emDash, ellipsis", "`InputRule::typographic`", "see `inputRules`"),
    row(STARTER_KIT, "input rules", "`applyInputRules` after each character", 99.0, BREAK),
];
