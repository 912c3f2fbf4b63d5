//! Every type is `Send` and `Sync` (LOCK 18).

fn shared<T: Send + Sync>() {}

#[test]
fn lock_18_every_public_type_is_send_and_sync() {
    shared::<doclock_formats::html::HtmlError>();
    shared::<doclock_formats::markdown::AmbiguousName>();
    shared::<doclock_formats::markdown::Dropped<doclock::NodeId>>();
    shared::<doclock_formats::markdown::DroppedPart>();
    shared::<doclock_formats::markdown::MarkdownAttribute>();
    shared::<doclock_formats::markdown::MarkdownMark>();
    shared::<doclock_formats::markdown::MarkdownNames>();
    shared::<doclock_formats::markdown::MarkdownNode>();
    shared::<doclock_formats::markdown::MarkdownOptions>();
    shared::<doclock_formats::markdown::TargetFilter>();
    shared::<doclock_formats::prosemirror::ProseMirrorContent>();
    shared::<doclock_formats::prosemirror::ProseMirrorError>();
    shared::<doclock_formats::prosemirror::ProseMirrorNames>();
    shared::<doclock_formats::prosemirror::ProseMirrorNamesError>();
    shared::<doclock_formats::prosemirror::ProseMirrorOptions>();
    shared::<doclock_formats::prosemirror::ProseMirrorStep>();
    shared::<doclock_formats::prosemirror::StepError>();
}
