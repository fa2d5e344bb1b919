// SPDX-License-Identifier: Apache-2.0
//! The suite of the package: `KINESIS_SIDECAR_BIN=/path/to/kinesis-sidecar cargo test --features rusqlite`.

mod client;
mod fake;
#[cfg(feature = "rusqlite")]
mod once;
mod redelivery;
mod retry;
mod scripted;
mod sidecar;
mod support;
mod trouble;
