//! Versions, the journal, followers, leases and inboxes.
