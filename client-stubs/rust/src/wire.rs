// SPDX-License-Identifier: Apache-2.0
//! The protobuf stream: messages behind their lengths.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, BytesMut};
use prost::Message;

use crate::event::Event;
use crate::v1::{self, stream_event};

pub(crate) const FRAME_BYTES_MAX: usize = 32 << 20;
const LENGTH_BYTES_MAX: usize = 5;

/// One message of the stream.
pub(crate) enum Frame {
    Record(v1::Record),
    Barrier(u64),
    Event(Event),
}

/// Moves complete frames from the front of `buffer` to `frames`. Errors: a frame that is too large or cannot be parsed; the frames
/// before it are good.
pub(crate) fn take_frames(buffer: &mut BytesMut, frames: &mut Vec<Frame>) -> io::Result<()> {
    while let Some((length, prefix)) = read_length(buffer)? {
        if buffer.len() < prefix + length {
            buffer.reserve(prefix + length - buffer.len());
            break;
        }
        buffer.advance(prefix);
        let event = v1::StreamEvent::decode(buffer.split_to(length).freeze()).map_err(io::Error::other)?;
        frames.push(frame_of(event.event));
    }
    Ok(())
}

/// The length of the next frame, and how many bytes it takes. None: it is not complete.
fn read_length(buffer: &BytesMut) -> io::Result<Option<(usize, usize)>> {
    let mut length = 0;
    for (at, byte) in buffer.iter().take(LENGTH_BYTES_MAX).enumerate() {
        length |= usize::from(byte & 0x7F) << (7 * at);
        if length > FRAME_BYTES_MAX {
            return Err(io::Error::other(format!("a frame has more than {FRAME_BYTES_MAX} bytes")));
        }
        if *byte < 0x80 {
            return Ok(Some((length, at + 1)));
        }
    }
    if buffer.len() >= LENGTH_BYTES_MAX {
        return Err(io::Error::other("the length of a frame is damaged"));
    }
    Ok(None)
}

fn frame_of(event: Option<stream_event::Event>) -> Frame {
    Frame::Event(match event {
        Some(stream_event::Event::Record(record)) => return Frame::Record(record),
        Some(stream_event::Event::Barrier(barrier)) => return Frame::Barrier(barrier.barrier.parse().unwrap_or(0)),
        Some(stream_event::Event::Session(session)) => Event::Session {
            session: session.session,
            boot_id: session.boot_id,
            max_in_flight: session.max_in_flight,
            max_in_flight_bytes: session.max_in_flight_bytes,
            ack_deadline: millis(session.ack_deadline_ms),
            heartbeat: millis(session.heartbeat_ms),
        },
        Some(stream_event::Event::Heartbeat(heartbeat)) => Event::Heartbeat {
            in_flight: heartbeat.in_flight,
            credit: heartbeat.credit,
            idle_reason: word(heartbeat.idle_reason().as_str_name(), "IDLE_REASON_"),
        },
        Some(stream_event::Event::Draining(draining)) => Event::Draining { deadline: instant(draining.deadline) },
        Some(stream_event::Event::LeaseReturning(lease)) => {
            Event::LeaseReturning { shard_id: lease.shard_id, deadline: instant(lease.deadline) }
        }
        Some(stream_event::Event::LeaseLost(lease)) => Event::LeaseLost { shard_id: lease.shard_id },
        Some(stream_event::Event::RecordTooLarge(record)) => Event::RecordTooLarge {
            shard_id: record.shard_id,
            sequence_number: record.sequence_number,
            bytes: record.bytes,
            max_message_bytes: record.max_message_bytes,
        },
        Some(stream_event::Event::Ended(ended)) => Event::Ended { reason: word(ended.reason().as_str_name(), "SESSION_END_") },
        Some(stream_event::Event::Batch(_) | stream_event::Event::Answer(_)) | None => Event::Unknown,
    })
}

/// An enum value as JSON writes it: `SESSION_END_TAKEN_OVER` is `taken_over`.
fn word(name: &str, prefix: &str) -> String {
    let word = name.trim_start_matches(prefix).to_lowercase();
    if word == "unspecified" {
        return String::new();
    }
    word
}

fn millis(value: i64) -> Duration {
    Duration::from_millis(value.try_into().unwrap_or(0))
}

/// An instant of the API: Unix milliseconds.
pub(crate) fn instant(value: i64) -> SystemTime {
    UNIX_EPOCH + millis(value)
}
