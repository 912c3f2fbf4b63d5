//! Converts what a caller passes into the operations of a batch: one, a list, or nested lists.

use super::Operation;

/// A type that converts into operations: one operation, a list of them, or nested lists.
///
/// ```
/// use doclock::{dsl::*, transaction::IntoOperations};
///
/// let flat = (create(text_node("inline-text", "one")), vec![[delete_node().on("a"), delete_node().on("b")]])
///     .into_operations();
/// assert_eq!(flat.len(), 3);
/// ```
pub trait IntoOperations {
    /// Appends the operations to a list, in order.
    fn append_to(self, list: &mut Vec<Operation>);

    /// Converts into one flat list of operations.
    fn into_operations(self) -> Vec<Operation>
    where
        Self: Sized,
    {
        let mut list = Vec::new();
        self.append_to(&mut list);
        list
    }

    /// Flattens many of these into one list. It is a method here so that `Vec<Operation>` can
    /// return itself.
    #[doc(hidden)]
    fn flatten(items: Vec<Self>) -> Vec<Operation>
    where
        Self: Sized,
    {
        let mut list = Vec::with_capacity(items.len());
        items.append_to(&mut list);
        list
    }
}

impl IntoOperations for Operation {
    fn append_to(self, list: &mut Vec<Operation>) {
        list.push(self);
    }

    fn into_operations(self) -> Vec<Operation> {
        vec![self]
    }

    fn flatten(items: Vec<Self>) -> Vec<Operation> {
        items
    }
}

impl<T: IntoOperations, const N: usize> IntoOperations for [T; N] {
    fn append_to(self, list: &mut Vec<Operation>) {
        list.reserve(N);
        self.into_iter().for_each(|item| item.append_to(list));
    }

    fn into_operations(self) -> Vec<Operation> {
        T::flatten(self.into())
    }
}

impl<T: IntoOperations> IntoOperations for Vec<T> {
    fn append_to(self, list: &mut Vec<Operation>) {
        list.reserve(self.len());
        self.into_iter().for_each(|item| item.append_to(list));
    }

    fn into_operations(self) -> Vec<Operation> {
        T::flatten(self)
    }
}

impl<T: IntoOperations> IntoOperations for Option<T> {
    fn append_to(self, list: &mut Vec<Operation>) {
        self.into_iter().for_each(|item| item.append_to(list));
    }
}

macro_rules! tuples {
    ($($item:ident)+) => {
        impl<$($item: IntoOperations),+> IntoOperations for ($($item,)+) {
            #[expect(non_snake_case, reason = "each item is named as its type")]
            fn append_to(self, list: &mut Vec<Operation>) {
                let ($($item,)+) = self;
                $($item.append_to(list);)+
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
