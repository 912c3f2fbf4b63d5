//! Panics that were caught.

use doclock_common::caught::catch;

#[test]
fn a_caught_panic_keeps_its_message_and_resumes_with_its_payload() {
    let caught = catch(|| panic!("number {}", 7)).unwrap_err();
    assert_eq!(caught.message(), Some("number 7"));
    let resumed = catch(|| caught.resume()).unwrap_err();
    assert_eq!(resumed.message(), Some("number 7"));
    assert_eq!(catch(|| 7).unwrap(), 7);
}
