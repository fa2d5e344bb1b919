// SPDX-License-Identifier: Apache-2.0
//! The protobuf stream: messages behind their lengths, as `proto/kinesis_sidecar/v1/record.proto` describes them.
//!
//! Generated code would allocate each text of each record.

use std::io;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};

use crate::delivery::{Entry, Records, Span};
use crate::event::Event;

pub(crate) const FRAME_BYTES_MAX: usize = 32 << 20;
const LENGTH_BYTES_MAX: usize = 5;
/// The field of `StreamEvent` that is a record.
const RECORD: u64 = 2;
/// No control event has a member of a higher number that is used here.
const MEMBERS: usize = 8;
const SESSION_ENDS: [&str; 5] = ["", "taken_over", "expired", "drained", "closed"];
const IDLE_REASONS: [&str; 10] = [
    "",
    "no_data",
    "no_leases",
    "flow_controlled",
    "paused",
    "draining",
    "throttled",
    "lane_blocked",
    "fenced",
    "no_sessions",
];

/// What the stream brings.
pub(crate) enum Frame {
    Records(Records),
    Barrier(u64),
    Event(Event),
}

/// Moves complete messages from the front of `buffer` to `frames`. Errors: a message that is too large or cannot be
/// parsed; the frames before it are good.
pub(crate) fn take_frames(buffer: &mut BytesMut, frames: &mut Vec<Frame>) -> io::Result<()> {
    let mut whole = Vec::new();
    let found = find_messages(buffer, &mut whole);
    let bytes = buffer.split_to(whole.last().map_or(0, |message| message.end)).freeze();
    for message in &whole {
        take_message(&bytes, message.clone(), whole.len(), frames)?;
    }
    found
}

/// Finds the complete messages, and makes room for the next one.
fn find_messages(buffer: &mut BytesMut, whole: &mut Vec<Range<usize>>) -> io::Result<()> {
    let mut at = 0;
    while let Some((length, prefix)) = read_length(&buffer[at..])? {
        let message = at + prefix..at + prefix + length;
        if message.end > buffer.len() {
            buffer.reserve(message.end - buffer.len());
            break;
        }
        at = message.end;
        whole.push(message);
    }
    Ok(())
}

/// The length of the next message, and how many bytes it takes. None: it is not complete.
fn read_length(buffer: &[u8]) -> io::Result<Option<(usize, usize)>> {
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

/// Adds a `StreamEvent` to the frames. `count`: the number of messages that were read together.
fn take_message(bytes: &Bytes, message: Range<usize>, count: usize, frames: &mut Vec<Frame>) -> io::Result<()> {
    let Some(event) = Fields::new(bytes, message).next().transpose()? else {
        frames.push(Frame::Event(Event::Unknown));
        return Ok(());
    };
    if event.number == RECORD {
        return take_record(bytes, event.range(), count, frames);
    }
    frames.push(read_event(event.number, Fields::new(bytes, event.range()))?);
    Ok(())
}

/// Adds a record to those of its batch that were read just before, or to the frames.
fn take_record(bytes: &Bytes, record: Range<usize>, count: usize, frames: &mut Vec<Frame>) -> io::Result<()> {
    let mut entry = Entry::default();
    let (mut batch_id, mut stream, mut shard_id): (&[u8], &[u8], &[u8]) = Default::default();
    for field in Fields::new(bytes, record) {
        let field = field?;
        match field.number {
            1 => entry.ack_id = field.text_span(bytes)?,
            2 => batch_id = &bytes[field.range()],
            3 => stream = &bytes[field.range()],
            4 => shard_id = &bytes[field.range()],
            5 => entry.epoch = field.value,
            6 => entry.sequence_number = field.text_span(bytes)?,
            7 => entry.sub_sequence_number = field.value.try_into().unwrap_or(i64::MAX),
            8 => entry.partition_key = field.text_span(bytes)?,
            9 => entry.arrived_at = field.value,
            10 => entry.attempt = small(field.value),
            11 => entry.aggregated = field.value != 0,
            12 => entry.data = Span::new(&field.range()),
            13 => entry.redriven = field.value != 0,
            14 => entry.lane = small(field.value),
            _ => {}
        }
    }
    match frames.last_mut() {
        Some(Frame::Records(last)) if last.batch_id.as_bytes() == batch_id && last.shard_id.as_bytes() == shard_id => {
            last.entries.push(entry);
        }
        _ => {
            // Mostly all messages are records of one batch.
            let mut entries = Vec::with_capacity(if frames.is_empty() { count } else { 1 });
            entries.push(entry);
            frames.push(Frame::Records(Records {
                batch_id: text(batch_id)?.into(),
                stream: text(stream)?.into(),
                shard_id: text(shard_id)?.into(),
                bytes: bytes.clone(),
                entries,
            }));
        }
    }
    Ok(())
}

fn read_event(number: u64, fields: Fields<'_>) -> io::Result<Frame> {
    let Members { numbers, mut texts } =
        if matches!(number, 1..=7 | 10 | 11) { members(fields)? } else { Members::default() };
    let mut text = |number: usize| std::mem::take(&mut texts[number]);
    Ok(Frame::Event(match number {
        1 => Event::Session {
            session: text(1),
            boot_id: text(3),
            max_in_flight: small(numbers[4]),
            max_in_flight_bytes: numbers[5],
            ack_deadline: Duration::from_millis(numbers[6]),
            heartbeat: Duration::from_millis(numbers[7]),
        },
        3 => Event::Heartbeat {
            in_flight: small(numbers[1]),
            credit: small(numbers[2]),
            idle_reason: word(&IDLE_REASONS, numbers[3]),
        },
        4 => Event::Draining { deadline: instant(numbers[1]) },
        5 => Event::LeaseReturning { shard_id: text(1), deadline: instant(numbers[2]) },
        6 => Event::LeaseLost { shard_id: text(1) },
        7 => Event::Ended { reason: word(&SESSION_ENDS, numbers[1]) },
        10 => Event::RecordTooLarge {
            shard_id: text(1),
            sequence_number: text(3),
            bytes: numbers[6],
            max_message_bytes: numbers[7],
        },
        11 => return Ok(Frame::Barrier(text(1).parse().unwrap_or(0))),
        _ => Event::Unknown,
    }))
}

/// The members of a control event, by number.
#[derive(Default)]
struct Members {
    numbers: [u64; MEMBERS],
    texts: [String; MEMBERS],
}

fn members(fields: Fields<'_>) -> io::Result<Members> {
    let (bytes, mut members) = (fields.bytes, Members::default());
    for field in fields {
        let field = field?;
        if let Some(number) = usize::try_from(field.number).ok().filter(|number| *number < MEMBERS) {
            members.numbers[number] = field.value;
            members.texts[number] = text(&bytes[field.range()])?.into();
        }
    }
    Ok(members)
}

/// Bytes that are not a message of protobuf. It is smaller than an `io::Error`: each field returns it.
struct Damaged;

impl From<Damaged> for io::Error {
    fn from(_: Damaged) -> Self {
        io::Error::other("a frame is not a message of protobuf")
    }
}

/// Walks over the fields of a message. Its last item is an error if the message is damaged.
struct Fields<'a> {
    /// Up to the end of the message.
    bytes: &'a [u8],
    at: usize,
}

struct Field {
    number: u64,
    /// Of a number.
    value: u64,
    begin: usize,
    end: usize,
}

impl Field {
    /// Of a text, of bytes, or of a message; else it is empty.
    fn range(&self) -> Range<usize> {
        self.begin..self.end
    }

    fn text_span(&self, bytes: &[u8]) -> io::Result<Span> {
        let bytes = &bytes[self.range()];
        if !bytes.is_ascii() {
            text(bytes)?; // Slower.
        }
        Ok(Span::new(&self.range()))
    }
}

impl Iterator for Fields<'_> {
    type Item = Result<Field, Damaged>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8], message: Range<usize>) -> Self {
        Fields { bytes: &bytes[..message.end], at: message.start }
    }

    #[inline]
    fn field(&mut self) -> Result<Field, Damaged> {
        let tag = self.varint()?;
        let (value, length) = match tag & 7 {
            0 => (self.varint()?, 0),
            1 => (0, 8),
            2 => (0, self.varint()?),
            5 => (0, 4),
            _ => return Err(Damaged),
        };
        let begin = self.at;
        match usize::try_from(length) {
            Ok(length) if length <= self.bytes.len() - begin => self.at += length,
            _ => return Err(Damaged),
        }
        Ok(Field { number: tag >> 3, value, begin, end: self.at })
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Damaged> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(Damaged)?;
            self.at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damaged)
    }
}

fn text(bytes: &[u8]) -> io::Result<&str> {
    std::str::from_utf8(bytes).map_err(io::Error::other)
}

fn small(value: u64) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}

fn word(words: &[&str], value: u64) -> String {
    let word = usize::try_from(value).ok().and_then(|at| words.get(at));
    word.copied().unwrap_or_default().into()
}

/// An instant of the API: Unix milliseconds.
pub(crate) fn instant(milliseconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message that another implementation of protobuf has written.
    fn golden(name: &str) -> Vec<u8> {
        let path = format!("{}/../../proto/golden/{name}.bin", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn frames(bytes: &[u8]) -> (io::Result<()>, Vec<Frame>) {
        let mut frames = Vec::new();
        (take_frames(&mut BytesMut::from(bytes), &mut frames), frames)
    }

    fn event(name: &str) -> Event {
        match frames(&golden(name)) {
            (Ok(()), mut frames) => match frames.pop() {
                Some(Frame::Event(event)) if frames.is_empty() => event,
                _ => panic!("{name} is one event"),
            },
            (Err(error), _) => panic!("{name}: {error}"),
        }
    }

    #[test]
    fn control_events_are_read() {
        let deadline = instant(1_763_685_600_123);
        let shard_id = "shardId-000000000003".to_string();
        let session = Event::Session {
            session: "me".into(),
            boot_id: "00000000000000ab".into(),
            max_in_flight: 1000,
            max_in_flight_bytes: 16 << 20,
            ack_deadline: Duration::from_secs(60),
            heartbeat: Duration::from_secs(10),
        };
        assert_eq!(event("session"), session);
        assert!(matches!(event("heartbeat"), Event::Heartbeat { idle_reason, .. } if idle_reason == "no_data"));
        assert_eq!(event("draining"), Event::Draining { deadline });
        assert_eq!(event("lease_returning"), Event::LeaseReturning { shard_id: shard_id.clone(), deadline });
        assert_eq!(event("lease_lost"), Event::LeaseLost { shard_id });
        assert_eq!(event("ended"), Event::Ended { reason: "taken_over".into() });
        let Event::RecordTooLarge { bytes, max_message_bytes, .. } = event("record_too_large") else {
            panic!("a record is too large")
        };
        assert!(bytes > max_message_bytes);
    }

    #[test]
    fn records_of_one_batch_are_read_together() {
        let bytes = [golden("record"), golden("record_part"), golden("record_redriven")].concat();
        let (Ok(()), frames) = frames(&bytes) else { panic!("the records are read") };
        let records: Vec<&Records> = frames
            .iter()
            .map(|frame| match frame {
                Frame::Records(records) => records,
                _ => panic!("only records"),
            })
            .collect();
        assert_eq!(records.len(), 1);
        let entries = &records[0].entries;
        assert_eq!((records[0].stream.as_str(), records[0].shard_id.as_str()), ("the-stream", "shardId-000000000003"));
        assert_eq!(entries.iter().map(|entry| entry.redriven).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(records[0].text(entries[0].partition_key), "k\u{e9}y");
        assert_eq!(records[0].bytes(entries[0].data), (0..=255).collect::<Vec<u8>>());
        assert_eq!((entries[1].sub_sequence_number, entries[1].attempt), (17, 4));
    }

    #[test]
    fn incomplete_message_is_left() {
        let record = golden("record");
        for length in 0..record.len() {
            let mut buffer = BytesMut::from(&record[..length]);
            let mut frames = Vec::new();
            take_frames(&mut buffer, &mut frames).unwrap();
            assert_eq!((frames.len(), buffer.len()), (0, length));
        }
    }

    #[test]
    fn damaged_message_is_an_error_or_another_message() {
        for name in ["record", "session", "lease_returning"] {
            let message = golden(name);
            for at in 0..message.len() {
                for bit in 0..8 {
                    let mut damaged = message.clone();
                    damaged[at] ^= 1 << bit;
                    let _ = frames(&damaged); // It does not panic.
                }
            }
        }
    }
}
