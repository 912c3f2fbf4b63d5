//! Operations on tables. The schema says what is a table, a row and a cell.

use serde::{Deserialize, Serialize};

use super::{Edited, NodeOperation, OperationOn, tree::resolve_some};
use crate::document::{
    HeaderPart, TableSide,
    table::{self, TableEdit},
};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::operation::NodeRef;

/// Defines operations on the cell that the node is or is in. After `or` is the field of an optional
/// other cell with the function that sets it, after `to` that of a required one.
macro_rules! table_operations {
    ($(
        $(#[$about:meta])*
        $function:ident => $name:ident { $($field:ident: $type:ty = $of:literal)? }
        $(or $last:ident $up_to:ident($($part:ident: $of_part:ty)?))? $(to $other:ident)?
        = $edit:expr, $run:literal => $table:literal;
    )+) => {$(
        $(#[$about])*
        ///
        /// ```
        #[doc = include_str!("tables.example")]
        #[doc = concat!("editor.execute([", $run, "])?;")]
        #[doc = concat!("assert_eq!(shown(), \"", $table, "\");")]
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn $function($($field: $type)? $($other: impl Into<NodeRef>)?) -> NodeOperation {
            $name { $($field,)? $($last: None,)? $($other: $other.into(),)? }.into()
        }

        $(
            #[doc = concat!("[`", stringify!($function), "`] for all cells from one to another.")]
            pub fn $up_to($($part: $of_part,)? last_id: impl Into<NodeRef>) -> NodeOperation {
                $name { $($part,)? $last: Some(last_id.into()) }.into()
            }
        )?

        #[doc = concat!("See [`", stringify!($function), "`].")]
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            $(#[doc = $of] pub $field: $type,)?
            $(
                /// The cell in the other corner of the rectangle; only the cell itself for `None`.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $last: Option<NodeRef>,
            )?
            $(
                /// The other cell, or a node in it.
                pub $other: NodeRef,
            )?
        }

        impl OperationOn<NodeId> for $name {
            without!(size, positions);

            fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
                let edit: fn(&Self) -> TableEdit = $edit;
                let other = None::<&NodeRef>$(.or(self.$last.as_ref()))?$(.or(Some(&self.$other)))?;
                let (edit, other) = (edit(&self), resolve_some(on, other)?);
                let schema = on.shared_schema();
                Ok(table::edit(on, schema.as_deref(), id, other.as_ref(), edit)?)
            }
        }
    )+};
}

table_operations! {
    /// Adds a row above the cell or below it. Cells that reach across grow, and the others have the
    /// type of the cells above the new row, unless all of those are headers.
    add_table_row => AddTableRow { side: TableSide = "The side of the cell." }
    = |it| TableEdit::AddRow(it.side),
    r#"add_table_row(TableSide::After).on("b")"# => "a b / _ _ / c d";
    /// Adds a column to the left or to the right of the cell, as [`add_table_row`] adds a row.
    add_table_column => AddTableColumn { side: TableSide = "The side of the cell." }
    = |it| TableEdit::AddColumn(it.side),
    r#"add_table_column(TableSide::Before).on("b")"# => "a _ b / c _ d";
    /// Deletes the rows of the cell. Cells that reach into them shrink, and those that reach out of
    /// them below move down. A row must be left.
    delete_table_rows => DeleteTableRows {} or last_id delete_table_rows_up_to()
    = |_| TableEdit::DeleteRows, r#"delete_table_rows().on("b")"# => "c d";
    /// Deletes the columns of the cell. Cells that reach out of them shrink. A column must be left.
    delete_table_columns => DeleteTableColumns {} or last_id delete_table_columns_up_to()
    = |_| TableEdit::DeleteColumns, r#"delete_table_columns().on("b")"# => "a / c";
    /// Makes one cell of all in the smallest rectangle with the two cells in it. No cell may reach
    /// out of the rectangle. The first one stays, with the content of all that are not empty.
    merge_cells => MergeCells {} to last_id = |_| TableEdit::Merge,
    r#"merge_cells("d").on("b")"# => "a bd / c";
    /// Makes cells of one column and one row of a cell that spans more. The first keeps the
    /// content, and all have its other attributes.
    split_cell => SplitCell {} = |_| TableEdit::Split,
    r#"merge_cells("d").on("b"), split_cell().on("b")"# => "a bd / c _";
    /// Makes cells headers, or plain cells if some of them are headers. The first row and the first
    /// column are those of the table, whichever the cells are.
    toggle_header => ToggleHeader { part: HeaderPart = "Which cells." }
    or last_id toggle_header_up_to(part: HeaderPart) = |it| TableEdit::ToggleHeader(it.part),
    r#"toggle_header(HeaderPart::Rows).on("b")"# => "A B / c d";
    /// Deletes the content of the cell, which stays.
    clear_cells => ClearCells {} or last_id clear_cells_up_to() = |_| TableEdit::Clear,
    r#"clear_cells_up_to("c").on("a")"# => "_ b / _ d";
    /// Moves the row of the cell to the place of that of another, with the rows that cells join to
    /// it. Cells become headers where headers were.
    move_table_row => MoveTableRow {} to target_id = |_| TableEdit::MoveRow,
    r#"move_table_row("d").on("a")"# => "c d / a b";
    /// Moves the column of the cell to that of another, as [`move_table_row`] moves a row.
    move_table_column => MoveTableColumn {} to target_id = |_| TableEdit::MoveColumn,
    r#"move_table_column("d").on("a")"# => "b a / d c";
    /// Repairs the table that the node is or is in. Overlapping cells are cut, short rows get cells
    /// and columns one width. A table without cells is deleted. All others repair a table first.
    fix_table => FixTable {} = |_| TableEdit::Repair,
    r#"set_attrs([("colspan", 2.into())]).on("b"), fix_table().on("table")"# => "a b / c d _";
}
