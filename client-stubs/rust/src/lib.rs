// SPDX-License-Identifier: Apache-2.0
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod consumer;
mod delivery;
mod driver;
mod earlier;
mod engine;
mod error;
mod event;
mod http;
mod lanes;
#[cfg(feature = "rusqlite")]
pub mod once;
mod options;
mod record;
mod request;
pub mod testing;
mod wire;

pub use consumer::{Consumer, Stopper};
pub use error::{Error, SidecarError};
pub use event::Event;
pub use options::{Builder, Ordering};
pub use record::{Batch, Record};
