//! The functions of the DSL beside those of a program.

use doclock::dsl::*;

use self::program::*;

/// Names that many programs have.
mod program {
    pub(super) fn copy(text: &str) -> String {
        text.to_owned()
    }

    pub(super) fn cut(text: &str) -> &str {
        text.split(' ').next().unwrap_or_default()
    }

    pub(super) fn wrap(text: &str) -> String {
        format!("({text})")
    }

    pub(super) fn unwrap(text: &str) -> &str {
        text.trim_matches(['(', ')'])
    }

    pub(super) fn update(text: &mut String) {
        text.push('!');
    }

    pub(super) fn delete(text: &mut String) {
        text.clear();
    }
}

/// `dsl::*` had functions with these names, so programs that defined them did not compile.
#[test]
fn the_words_of_the_dsl_do_not_collide_with_common_names() {
    let mut text = copy(unwrap(&wrap(cut("one two"))));
    update(&mut text);
    assert_eq!(text, "one!");
    delete(&mut text);
    assert!(text.is_empty());
    let names = [
        copy_range(..),
        cut_range(..),
        wrap_text("(", ")", ..),
        unwrap_text("(", ")", ..),
        update_node([("a", 1.into())], None, None),
        delete_node(),
    ]
    .map(|operation| operation.name());
    assert_eq!(names, ["copy", "cut", "wrap", "unwrap", "update", "delete"]);
}
