// SPDX-License-Identifier: Apache-2.0
use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// Why a consumer cannot be made, or cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The sidecar refused a request, and the same request cannot succeed later.
    Sidecar(SidecarError),
    /// Another process opened a stream with the same client id.
    SessionTakenOver {
        /// The client id that both processes use.
        client_id: String,
    },
    /// An option is wrong. The text names the option and what is allowed.
    InvalidOption(String),
    /// The consumer was made in the parent of this process.
    Forked,
    /// `on_event` panicked.
    EventHandlerPanicked,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Sidecar(error) => error.fmt(f),
            Error::SessionTakenOver { client_id } => write!(f, "another process uses the client_id {client_id}"),
            Error::InvalidOption(sentence) => f.write_str(sentence),
            Error::Forked => f.write_str("the consumer was made in another process: make one after the fork"),
            Error::EventHandlerPanicked => f.write_str("on_event panicked: the consumer has ended"),
        }
    }
}

impl std::error::Error for Error {}

impl From<SidecarError> for Error {
    fn from(error: SidecarError) -> Self {
        Error::Sidecar(error)
    }
}

/// A refusal by the sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SidecarError {
    /// The HTTP status.
    pub status: u16,
    /// The short reason, as `invalid_argument`.
    pub code: String,
    /// The sentence of the sidecar.
    pub detail: String,
    /// The sidecar's own mark that the same request may succeed later.
    pub retryable: bool,
    /// The earliest time for the next attempt, if the sidecar named one.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for SidecarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.detail)
    }
}

impl std::error::Error for SidecarError {}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    code: String,
    title: String,
    detail: String,
    retryable: bool,
}

impl SidecarError {
    /// The error of a response. Bodies that are not a problem document give an error without detail.
    pub(crate) fn of_response(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
        let sentences = [problem.detail, problem.title, "refused".into()];
        let detail = sentences.into_iter().find(|sentence| !sentence.is_empty()).unwrap_or_default();
        SidecarError { status, code: problem.code, detail, retryable: problem.retryable, retry_after }
    }

    /// Returns whether the same request may succeed later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self.status, 429 | 500 | 502 | 503 | 504) || (self.status == 409 && self.retryable)
    }
}
