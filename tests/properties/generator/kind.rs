//! The kinds of operations.

/// Every operation, under its name in JSON.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, strum::EnumCount, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "camelCase")]
pub(crate) enum Kind {
    Create,
    JoinNeighbours,
    ApplyInputRules,
    Control,
    SetSelection,
    ClearSelection,
    IfUnchanged,
    RequireLease,
    /// Code.
    Op,

    Delete,
    AddChild,
    RemoveChild,
    RemoveChildren,
    MoveNode,
    MoveChildren,
    MoveBlockUp,
    MoveBlockDown,
    ReorderChildren,
    CopyNode,
    CloneNodeWithChildren,
    WrapNode,
    LiftNode,
    IndentNode,
    OutdentNode,

    SetText,
    InsertText,
    DeleteTextRange,
    DeleteRange,
    ReplaceText,
    ReplacePattern,
    Wrap,
    Unwrap,
    IndentText,
    OutdentText,

    SplitTextNode,
    MergeTextNodes,
    SplitBlockNode,
    MergeBlockNodes,
    AutoMergeTextNodes,
    InsertParagraph,
    JoinBlock,
    LiftEmptyBlock,
    SplitListItem,
    WrapInList,

    ApplyMark,
    RemoveMark,
    ToggleMark,
    UpdateMark,
    SetMarks,
    ClearFormatting,

    SetAttrs,
    RemoveAttrs,
    Update,
    TransformNode,
    SetRoot,

    AddTableRow,
    AddTableColumn,
    DeleteTableRows,
    DeleteTableColumns,
    MergeCells,
    SplitCell,
    ToggleHeader,
    ClearCells,
    MoveTableRow,
    MoveTableColumn,
    FixTable,

    Copy,
    Cut,
    Paste,
    SelectNode,
    SelectRange,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it applies to a node.
    pub(crate) fn is_on_a_node(self) -> bool {
        !matches!(
            self,
            Self::Create
                | Self::JoinNeighbours
                | Self::ApplyInputRules
                | Self::Control
                | Self::SetSelection
                | Self::ClearSelection
                | Self::IfUnchanged
                | Self::RequireLease
                | Self::Op
        )
    }

    /// Whether it applies to a table, which a document without a schema does not have.
    pub(crate) fn is_on_a_table(self) -> bool {
        matches!(
            self,
            Self::AddTableRow
                | Self::AddTableColumn
                | Self::DeleteTableRows
                | Self::DeleteTableColumns
                | Self::MergeCells
                | Self::SplitCell
                | Self::ToggleHeader
                | Self::ClearCells
                | Self::MoveTableRow
                | Self::MoveTableColumn
                | Self::FixTable
        )
    }
}
