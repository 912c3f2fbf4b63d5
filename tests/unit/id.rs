//! Unit tests of `src/id.rs`.

use super::*;

#[test]
fn a_transaction_id_reads_back_as_it_prints() {
    let id = TransactionId {
        session: 7,
        number: 0,
    };
    assert_eq!(id.to_string().parse(), Ok(id));
}
