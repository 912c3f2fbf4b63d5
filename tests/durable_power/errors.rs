//! I/O errors at every call.
