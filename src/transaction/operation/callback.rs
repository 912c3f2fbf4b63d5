//! Code as an operation.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::list::{Edited, SizeCheck};
use super::{DocumentTarget, OperationOn};
use crate::document::Budget;
use crate::store::Draft;
use crate::transaction::run;
use crate::transaction::user_code::UserCode;

type CallbackResult = Result<(), Box<dyn Error + Send + Sync>>;
type Code = Arc<UserCode<dyn Fn(&mut Draft) -> CallbackResult + Send + Sync>>;

/// Code that runs as a step of a transaction.
#[derive(Clone)]
pub struct Callback {
    code: Code,
    inverse: Option<Code>,
}

impl Callback {
    pub(in crate::transaction) fn new<E>(
        code: impl Fn(&mut Draft) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let code = move |draft: &mut Draft| code(draft).map_err(Into::into);
        Self {
            code: Arc::new(UserCode::new(code)),
            inverse: None,
        }
    }

    pub(in crate::transaction) fn with_inverse(self, inverse: Self) -> Self {
        Self {
            inverse: Some(inverse.code),
            ..self
        }
    }

    /// The code that runs when this is undone.
    pub(in crate::transaction) fn inverse(&self) -> Option<Self> {
        let code = self.inverse.clone()?;
        Some(Self {
            code,
            inverse: None,
        })
    }

    pub(in crate::transaction) fn call(&self, draft: &mut Draft) -> CallbackResult {
        (self.code.get())(draft)
    }
}

impl OperationOn<DocumentTarget> for Callback {
    fn size(&self, _: &Budget) -> SizeCheck {
        Ok(())
    }

    fn to_scalars(&mut self, _: &mut Draft, _: &DocumentTarget) -> Edited {
        Ok(())
    }

    fn is_code(&self) -> bool {
        true
    }

    fn run(self, on: &mut Draft, _: &DocumentTarget) -> Edited {
        run::call(&self, on)
    }
}

impl PartialEq for Callback {
    /// Whether both are the same closure, by identity.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.code, &other.code)
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}
