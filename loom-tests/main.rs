//! The models that loom explores: `RUSTFLAGS="--cfg loom" cargo test --release --test loom`.
