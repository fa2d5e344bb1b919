// SPDX-License-Identifier: Apache-2.0
//! Finds the earlier deliveries of redelivered records.

use std::collections::HashMap;

use crate::delivery::{Delivery, Identity, Scope};

/// The records of this session that a redelivery may concern, and some that are confirmed. It costs less to collect all
/// again now and then than to remove each record that is confirmed.
pub(crate) struct Earlier {
    /// The last delivery of each record.
    records: HashMap<Identity, Delivery>,
    /// Records that a redelivery may take back, in the order of their delivery.
    waiting: HashMap<Scope, Vec<Delivery>>,
    /// Records when it was made.
    first: usize,
    /// Bytes of the records that were added since.
    bytes: u64,
}

impl Earlier {
    pub(crate) fn new(mut records: Vec<Delivery>) -> Self {
        let mut earlier = Earlier { records: HashMap::new(), waiting: HashMap::new(), first: 0, bytes: 0 };
        records.sort_by_key(|record| record.block.group); // In the order of their delivery.
        for record in records {
            earlier.add(record);
        }
        earlier.first = earlier.records.len();
        earlier.bytes = 0;
        earlier
    }

    pub(crate) fn add(&mut self, record: Delivery) {
        self.bytes += record.bytes();
        if let Some(scope) = record.scope().filter(|_| record.is_waiting()) {
            self.waiting.entry(scope).or_default().push(record.clone());
        }
        self.records.insert(record.identity(), record);
    }

    /// The last delivery of the record before this one.
    pub(crate) fn delivery(&self, redelivery: &Delivery) -> Option<&Delivery> {
        self.records.get(&redelivery.identity())
    }

    /// Removes and returns the last record of the scope, if it is at or after the position of the redelivery.
    pub(crate) fn take_back(&mut self, redelivery: &Delivery) -> Option<Delivery> {
        let waiting = self.waiting.get_mut(&redelivery.scope()?)?;
        let is_after = waiting.last().is_some_and(|last| last.position() >= redelivery.position());
        is_after.then(|| waiting.pop())?
    }

    /// It has to be made again: most of its records may be confirmed by now.
    pub(crate) fn is_large(&self, max_in_flight: usize, max_in_flight_bytes: u64) -> bool {
        self.records.len() > 2 * self.first + max_in_flight || self.bytes > max_in_flight_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use tokio::sync::mpsc::unbounded_channel;
    use tokio::sync::Notify;

    use crate::delivery::{Entry, Records, Span, State, ENTRIES_READ};
    use crate::engine::{Engine, Item};
    use crate::options::Builder;
    use crate::wire::Frame;

    /// A batch of one record.
    fn batch(number: usize, attempt: u32) -> Frame {
        let text = format!("{number:09}");
        let sequence_number = Span::new(&(0..text.len()));
        let entries = vec![Entry { sequence_number, attempt, ..Entry::default() }];
        let batch_id = format!("b{number}.{attempt}");
        Frame::Records(Records { batch_id, bytes: text.into(), entries, ..Records::default() })
    }

    /// Lets an app take 1,000 records, or leave them, and redelivers others 2,000 times. Returns how often the state of
    /// a record was read, or its position.
    fn reads(is_begun: bool, redelivered: impl Iterator<Item = (usize, u32)>) -> usize {
        let (sender, mut items) = unbounded_channel();
        let options = Builder::new("orders").options().expect("the options are valid");
        let mut engine = Engine::new(&options, sender, Arc::new(Notify::new()));
        engine.receive((0..1000).map(|number| batch(number, 1)).collect(), Instant::now());
        while let Ok(Item::Records(block)) = items.try_recv() {
            block.deliveries().for_each(|record| assert!(!is_begun || record.begin()));
        }
        ENTRIES_READ.set(0);
        for (number, attempt) in redelivered {
            engine.receive(vec![batch(number, attempt)], Instant::now());
            let Ok(Item::Records(block)) = items.try_recv() else { panic!("the records are handed out") };
            let is_new = block.deliveries().all(|record| record.is(State::Waiting));
            assert_eq!(is_new, !is_begun || number >= 1000);
        }
        ENTRIES_READ.get()
    }

    #[test]
    fn redelivery_costs_the_same_however_many_records_the_app_has() {
        let again = (0..1000).map(|number| (number, 2)).chain((0..1000).map(|number| (number, 3)));
        assert!(reads(true, again) < 50 * 2000);
    }

    #[test]
    fn redelivery_of_records_that_the_app_never_had_costs_the_same() {
        assert!(reads(true, (1000..3000).map(|number| (number, 2))) < 50 * 2000);
    }

    #[test]
    fn redelivery_costs_the_same_however_many_records_wait() {
        assert!(reads(false, (1000..3000).map(|number| (number, 2))) < 50 * 2000);
    }
}
