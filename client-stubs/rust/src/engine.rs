// SPDX-License-Identifier: Apache-2.0
//! The state of one consumer, without I/O: what the stream brings, what the app may have, and what has to be sent.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::Notify;

use crate::delivery::{
    Block, Delivery, DeliveryKey, Identity, Outcome, Records, Scope, Settled, Settlement, State, Unconfirmed,
};
use crate::earlier::Earlier;
use crate::event::Event;
use crate::options::{Options, Ordering};
use crate::request::{Answer, Failure, Request};
use crate::wire::Frame;

pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// Until the sidecar names its own.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// For the code that hands records to the app.
pub(crate) enum Item {
    /// In order. The app may begin those that wait.
    Records(Arc<Block>),
    /// No retry holds the scope any more.
    Resolved(Scope),
    /// The consumer was stopped, or has failed.
    End,
}

#[derive(Clone, Copy, Default)]
struct Amount {
    records: usize,
    bytes: u64,
}

impl Amount {
    fn add(&mut self, record: &Delivery) {
        self.records += 1;
        self.bytes += record.bytes();
    }
}

/// The records of one batch id.
struct Group {
    batch_id: String,
    shard: u32,
    since: Instant,
    blocks: Vec<Arc<Block>>,
    count: usize,
    /// Records that the app has or may begin.
    open: usize,
    acked: usize,
    /// Acknowledged, and not sent.
    unsent: Amount,
    /// When the first of the unsent was acknowledged.
    acked_at: Instant,
    /// Redeliveries of records that the app has, and when the first delivery arrived.
    adopted: Vec<(Delivery, Instant)>,
    /// No further record of the batch follows.
    whole: bool,
}

impl Group {
    fn is_acked(&self) -> bool {
        self.whole && self.acked == self.count
    }

    /// Without those whose outcome settles a later delivery.
    fn deliveries(&self) -> impl Iterator<Item = Delivery> + '_ {
        self.blocks.iter().flat_map(Block::deliveries).filter(|record| !record.is_redelivered())
    }

    /// When the first delivery of the record arrived.
    fn since(&self, record: &Delivery) -> Instant {
        let adopted = self.adopted.iter().find(|(adopted, _)| adopted == record);
        adopted.map_or(self.since, |(_, since)| *since)
    }

    /// Takes the records that the app has not begun, and that match.
    fn take_back(&mut self, matches: impl Fn(&Delivery) -> bool) {
        let takes = |record: &Delivery| matches(record) && record.change(State::Waiting, State::Gone);
        self.open -= self.deliveries().filter(takes).count();
    }
}

/// A retry that waits for its answer and its barrier.
struct Hold {
    record: Delivery,
    /// 0: not sent.
    barrier: u64,
    /// None: not answered.
    accepted: Option<bool>,
    /// The first group after the redelivery of the record, or after the loss of its lease: the retry does not take it
    /// back.
    end: u64,
}

impl Hold {
    fn is_resolved(&self, barriers_seen: u64) -> bool {
        self.accepted.is_some() && barriers_seen >= self.barrier
    }

    fn takes_back(&self, record: &Delivery) -> bool {
        let is_before = record.block.barriers < self.barrier && record.block.group < self.end;
        self.accepted == Some(true) && is_before && record.position() > self.record.position()
    }
}

/// A *scope* is the unit of order: a shard, or a lane of it. A retry takes the later records of its scope back. While
/// it holds the scope, none of them is handed to the app.
pub(crate) struct Engine {
    ordering: Ordering,
    max_processing: Duration,
    ack_interval: Duration,
    hand_out: UnboundedSender<Item>,
    /// For the task that settles.
    wake: Arc<Notify>,

    pub(crate) session_open: bool,
    pub(crate) heartbeat: Duration,
    max_in_flight: usize,
    max_in_flight_bytes: u64,
    ack_deadline: Duration,

    shards: HashMap<String, u32>,
    /// With records that have no outcome, or acknowledgements to send. By number, in the order of arrival.
    groups: BTreeMap<u64, Group>,
    groups_begun: u64,
    /// Of the last record.
    current: Option<u64>,
    /// By shard: sequence number and sub-sequence number of the first record of its last batch, dead letters aside.
    heads: HashMap<u32, (String, i64)>,
    /// Shards whose lease was lost, with the last group before. Attempts of their redeliveries begin at 1.
    lost_shards: HashMap<u32, u64>,
    /// None: no record was redelivered for a while.
    earlier: Option<Earlier>,
    /// Groups with acknowledgements to send, the oldest first.
    to_ack: VecDeque<u64>,
    unsent: Amount,
    /// With another outcome to send.
    urgent: VecDeque<Settled>,
    extensions: VecDeque<Settled>,
    extend_at: Option<Instant>,

    held: HashMap<Scope, HashMap<DeliveryKey, Hold>>,
    barriers_seen: u64,
    barriers_sent: u64,

    /// Sent, and not answered.
    pending: Option<Request>,
    requests: u64,
    retry_at: Option<Instant>,
    /// Until they are redelivered: of sessions that have ended, and of this one if the redelivery is here.
    unconfirmed: HashMap<Identity, Unconfirmed>,

    pub(crate) stale: u64,
    pub(crate) failed: u64,
}

impl Engine {
    pub(crate) fn new(options: &Options, hand_out: UnboundedSender<Item>, wake: Arc<Notify>) -> Self {
        Engine {
            ordering: options.ordering,
            max_processing: options.max_processing,
            ack_interval: options.ack_interval,
            hand_out,
            wake,
            session_open: false,
            heartbeat: HEARTBEAT,
            max_in_flight: options.max_in_flight as usize,
            max_in_flight_bytes: options.max_in_flight_bytes,
            ack_deadline: options.ack_deadline,
            shards: HashMap::new(),
            groups: BTreeMap::new(),
            groups_begun: 0,
            current: None,
            heads: HashMap::new(),
            lost_shards: HashMap::new(),
            earlier: None,
            to_ack: VecDeque::new(),
            unsent: Amount::default(),
            urgent: VecDeque::new(),
            extensions: VecDeque::new(),
            extend_at: None,
            held: HashMap::new(),
            barriers_seen: 0,
            barriers_sent: 0,
            pending: None,
            requests: 0,
            retry_at: None,
            unconfirmed: HashMap::new(),
            stale: 0,
            failed: 0,
        }
    }

    // --- For the app ---

    /// Takes the outcome of a record.
    pub(crate) fn settle(&mut self, record: &Delivery, settlement: Settlement) {
        let state = settlement.outcome.state();
        if record.change(State::Begun, state) {
            let last = record.last();
            last.set(state);
            self.decided(last, settlement);
        }
    }

    pub(crate) fn extend(&mut self, record: &Delivery, settlement: Settlement) {
        self.extensions.push_back(Settled { record: record.last().clone(), settlement });
        self.wake.notify_one();
    }

    pub(crate) fn is_held(&self, scope: Scope) -> bool {
        self.held.contains_key(&scope)
    }

    fn decided(&mut self, record: &Delivery, settlement: Settlement) {
        let Some(group) = self.groups.get_mut(&record.block.group) else {
            self.outlived(record, settlement);
            return;
        };
        group.open -= 1;
        if settlement.outcome != Outcome::Ack {
            self.hold(record, settlement.outcome);
            self.urgent.push_back(Settled { record: record.clone(), settlement });
            self.wake.notify_one();
            return;
        }
        group.acked += 1;
        group.unsent.add(record);
        if group.unsent.records == 1 {
            group.acked_at = Instant::now();
            self.to_ack.push_back(record.block.group);
        }
        self.unsent.add(record);
        if self.unsent.records == 1 || self.is_crowded() {
            self.wake.notify_one();
        }
    }

    /// The session of a settlement has ended. The redelivery of the record gets the outcome if it arrives here.
    fn outlived(&mut self, record: &Delivery, settlement: Settlement) {
        match self.unconfirmed.get_mut(&record.identity()) {
            Some(unconfirmed) if unconfirmed.record == *record => unconfirmed.settlement = Some(settlement),
            _ => self.stale += 1,
        }
    }

    fn hold(&mut self, record: &Delivery, outcome: Outcome) {
        if let (Some(scope), Outcome::Retry) = (record.scope(), outcome) {
            // After a lost lease the record may be settled elsewhere: nothing of the next lease is taken back.
            let last = self.lost_shards.get(&record.block.shard).filter(|last| record.block.group <= **last);
            let end = last.map_or(u64::MAX, |last| last + 1);
            let hold = Hold { record: record.clone(), barrier: 0, accepted: None, end };
            self.held.entry(scope).or_default().insert(record.key(), hold);
        }
    }

    /// Whether the acknowledgements that are not sent use up half of what may be in flight.
    fn is_crowded(&self) -> bool {
        self.unsent.records * 2 >= self.max_in_flight || self.unsent.bytes * 2 >= self.max_in_flight_bytes
    }

    // --- The stream ---

    /// Takes what has arrived. Returns the events for the app.
    pub(crate) fn receive(&mut self, frames: Vec<Frame>, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        for frame in frames {
            match frame {
                Frame::Records(records) => self.take_records(records, now),
                Frame::Barrier(barrier) => {
                    self.barriers_seen = self.barriers_seen.max(barrier);
                    self.resolve();
                }
                Frame::Event(event) => {
                    self.take_event(&event, now);
                    events.push(event);
                }
            }
        }
        events
    }

    fn send(&self, item: Item) {
        let _ = self.hand_out.send(item); // The app has dropped the consumer: it needs nothing more.
    }

    fn take_records(&mut self, records: Records, now: Instant) {
        let group = self.group_of(&records, now);
        let shard = self.shard_of(&records.shard_id);
        let block = Arc::new(Block { records, shard, group, barriers: self.barriers_seen, ordering: self.ordering });
        let is_again = block.records.entries.iter().any(|entry| entry.attempt > 1);
        if is_again || self.lost_shards.contains_key(&shard) {
            self.take_redeliveries(&block);
        }
        if let Some(earlier) = &mut self.earlier {
            block.deliveries().for_each(|record| earlier.add(record));
            self.earlier.take_if(|earlier| earlier.is_large(self.max_in_flight, self.max_in_flight_bytes));
        }
        if let Some(group) = self.groups.get_mut(&group) {
            group.count += block.len();
            group.open += block.len();
            group.blocks.push(block.clone());
        }
        if !self.unconfirmed.is_empty() {
            block.deliveries().for_each(|record| self.adopt(&record));
        }
        self.send(Item::Records(block));
    }

    fn take_redeliveries(&mut self, block: &Arc<Block>) {
        let mut earlier = self.earlier.take().unwrap_or_else(|| self.collect_earlier());
        for redelivery in block.deliveries() {
            if redelivery.entry().attempt > 1 {
                self.replace(&mut earlier, &redelivery);
            }
            if let Some(record) = earlier.delivery(&redelivery) {
                self.end_hold(record, &redelivery);
                self.keep(record);
            }
        }
        self.earlier = Some(earlier);
    }

    fn collect_earlier(&mut self) -> Earlier {
        self.forget_groups();
        let retried = self.held.values().flat_map(HashMap::values).map(|hold| hold.record.clone());
        let decided = self.urgent.iter().map(|settled| settled.record.clone());
        let sent = self.pending.iter().flat_map(Request::deliveries);
        let open = self.groups.values().flat_map(Group::deliveries);
        Earlier::new(retried.chain(decided).chain(sent).chain(open).collect())
    }

    /// Drops records that the app has not begun, from the position of a redelivery on. The sidecar delivers a scope in
    /// order: it took them back, and redelivers them after this one.
    fn replace(&mut self, earlier: &mut Earlier, redelivery: &Delivery) {
        while let Some(record) = earlier.take_back(redelivery) {
            if let Some(group) = self.groups.get_mut(&record.block.group) {
                group.open -= usize::from(record.change(State::Waiting, State::Gone));
            }
        }
    }

    /// The retry of the record takes back nothing from this redelivery on. If it arrives before the barrier, an ack
    /// deadline or a lease had ended.
    fn end_hold(&mut self, record: &Delivery, redelivery: &Delivery) {
        let holds = record.scope().and_then(|scope| self.held.get_mut(&scope));
        if let Some(hold) = holds.and_then(|holds| holds.get_mut(&record.key())) {
            hold.end = hold.end.min(redelivery.block.group);
        }
    }

    /// Keeps a record that is redelivered in the same session, if the app has it, or if its outcome is not confirmed.
    fn keep(&mut self, record: &Delivery) {
        let (since, settlement) = match self.groups.get_mut(&record.block.group) {
            Some(group) if record.is(State::Begun) => {
                group.open -= 1;
                (Some(group.since(record)), None)
            }
            Some(group) if record.is(State::Acked) => {
                group.acked -= 1; // The batch is not acknowledged as a whole.
                (None, Some(Settlement::ACK))
            }
            _ => (None, self.unconfirmed_outcome(record)),
        };
        if since.is_some() || settlement.is_some() {
            self.unconfirmed.insert(record.identity(), Unconfirmed { record: record.clone(), since, settlement });
        }
    }

    /// The outcome of a record that is not sent, or has no answer. None if it is a retry that was sent: that may have
    /// caused the redelivery, which the app gets.
    fn unconfirmed_outcome(&mut self, record: &Delivery) -> Option<Settlement> {
        let Some(at) = self.urgent.iter().position(|settled| settled.record == *record) else {
            return self.pending.as_ref()?.settlement(record).filter(|settlement| settlement.outcome != Outcome::Retry);
        };
        if let Some(holds) = record.scope().and_then(|scope| self.held.get_mut(&scope)) {
            holds.remove(&record.key()); // The retry of the redelivery holds the scope.
        }
        self.urgent.remove(at).map(|settled| settled.settlement)
    }

    /// If an earlier delivery of the record is kept, its outcome settles this one.
    fn adopt(&mut self, redelivery: &Delivery) {
        let Some(earlier) = self.unconfirmed.remove(&redelivery.identity()) else { return };
        earlier.record.redelivered(redelivery.clone());
        match earlier.settlement {
            None => {
                redelivery.set(State::Begun);
                let group = self.groups.get_mut(&redelivery.block.group);
                if let Some((group, since)) = group.zip(earlier.since) {
                    group.adopted.push((redelivery.clone(), since));
                }
            }
            Some(settlement) => {
                redelivery.set(settlement.outcome.state());
                self.decided(redelivery, settlement);
            }
        }
    }

    /// The number of the group of these records.
    fn group_of(&mut self, records: &Records, now: Instant) -> u64 {
        if let Some(number) = self.current {
            if self.groups.get(&number).is_some_and(|group| group.batch_id == records.batch_id) {
                return number;
            }
        }
        self.close_group();
        let group = Group {
            batch_id: records.batch_id.clone(),
            shard: self.shard_of(&records.shard_id),
            since: now,
            blocks: Vec::new(),
            count: 0,
            open: 0,
            acked: 0,
            unsent: Amount::default(),
            acked_at: now,
            adopted: Vec::new(),
            whole: false,
        };
        if let Some(first) = records.entries.first().filter(|first| !first.redriven) {
            let head = (records.text(first.sequence_number).into(), first.sub_sequence_number);
            self.heads.insert(group.shard, head);
        }
        self.groups_begun += 1;
        self.groups.insert(self.groups_begun, group);
        self.current = Some(self.groups_begun);
        self.groups_begun
    }

    fn shard_of(&mut self, shard_id: &str) -> u32 {
        if let Some(shard) = self.shards.get(shard_id) {
            return *shard;
        }
        let shard = u32::try_from(self.shards.len()).expect("a stream has fewer shards");
        self.shards.insert(shard_id.into(), shard);
        shard
    }

    fn close_group(&mut self) {
        if let Some(group) = self.current.take().and_then(|number| self.groups.get_mut(&number)) {
            group.whole = true;
        }
    }

    fn take_event(&mut self, event: &Event, now: Instant) {
        match event {
            Event::Session { max_in_flight, max_in_flight_bytes, ack_deadline, heartbeat, .. } => {
                self.opened();
                self.max_in_flight = *max_in_flight as usize;
                self.max_in_flight_bytes = *max_in_flight_bytes;
                self.ack_deadline = *ack_deadline;
                self.heartbeat = *heartbeat;
                self.extend_at = Some(now + self.ack_deadline / 3);
            }
            Event::LeaseLost { shard_id } => {
                let shard = self.shard_of(shard_id);
                self.lost(shard);
            }
            Event::Ended { reason } if reason == "taken_over" => self.session_open = false,
            _ => {}
        }
    }

    /// The lease of a shard is lost.
    fn lost(&mut self, shard: u32) {
        self.lost_shards.insert(shard, self.groups_begun);
        self.earlier = None;
        let groups = self.groups.values_mut().filter(|group| group.shard == shard);
        groups.for_each(|group| group.take_back(|_| true));
        let held = self.held.iter_mut().filter(|(scope, _)| scope.shard == shard);
        for hold in held.flat_map(|(_, holds)| holds.values_mut()) {
            hold.end = hold.end.min(self.groups_begun + 1);
        }
    }

    /// A new session: settlements of the earlier one are stale, and its records are redelivered.
    fn opened(&mut self) {
        self.disconnected();
        self.forget_settled();
        self.keep_unconfirmed();
        self.groups.clear();
        self.lost_shards.clear();
        self.earlier = None;
        self.to_ack.clear();
        self.unsent = Amount::default();
        self.extensions.clear();
        self.barriers_seen = 0;
        self.barriers_sent = 0;
        self.session_open = true;
        self.wake.notify_one();
        for (scope, _) in std::mem::take(&mut self.held) {
            self.send(Item::Resolved(scope));
        }
    }

    /// Forgets outcomes that the sidecar has: the session delivered later records of the shard. Dead letters have no
    /// order: their outcomes are kept for one session.
    fn forget_settled(&mut self) {
        let heads = std::mem::take(&mut self.heads);
        self.unconfirmed.retain(|(shard, _, _, redriven), Unconfirmed { record, settlement, .. }| {
            let head = heads.get(shard).map(|(number, sub)| (number.len(), number.as_str(), *sub));
            settlement.is_none() || !*redriven && head.is_none_or(|head| head <= record.position())
        });
    }

    /// Keeps the records that the app has, and those whose outcome the sidecar has not confirmed.
    fn keep_unconfirmed(&mut self) {
        let unconfirmed = |record, since, settlement| Unconfirmed { record, since, settlement };
        let pending = self.pending.take().into_iter().flat_map(Request::settlements);
        let decided = pending.chain(self.urgent.drain(..));
        let mut kept: Vec<_> =
            decided.map(|Settled { record, settlement }| unconfirmed(record, None, Some(settlement))).collect();
        // Later: these may be redeliveries of the records whose retry got no answer.
        for group in self.groups.values() {
            let begun = group.deliveries().filter(|record| record.is(State::Begun));
            kept.extend(begun.map(|record| unconfirmed(record.clone(), Some(group.since(&record)), None)));
            let acked = group.deliveries().filter(|record| record.is(State::Acked));
            kept.extend(acked.map(|record| unconfirmed(record, None, Some(Settlement::ACK))));
        }
        for unconfirmed in kept {
            self.unconfirmed.insert(unconfirmed.record.identity(), unconfirmed);
        }
    }

    /// The connection of the stream has ended. The session accepts settlements until the next one begins. The last
    /// batch is never whole: its id also names records that did not arrive.
    pub(crate) fn disconnected(&mut self) {
        self.current = None;
        self.groups.values_mut().for_each(|group| group.take_back(|_| true));
    }

    // --- What has to be sent ---

    /// The next settle request that is due: its number and its body. Its fate is reported by `answered`, `refused` or
    /// `unanswered`. `everything`: also what may wait.
    pub(crate) fn request(&mut self, now: Instant, everything: bool) -> Option<(u64, Vec<u8>)> {
        if !self.session_open {
            return None;
        }
        if self.pending.is_some() && !everything && self.retry_at.is_some_and(|at| now < at) {
            return None;
        }
        if self.pending.is_none() {
            self.pending = self.next_request(now, everything);
        }
        self.pending.as_ref().map(|request| (request.number, request.body.clone()))
    }

    fn next_request(&mut self, now: Instant, everything: bool) -> Option<Request> {
        self.requests += 1;
        let mut request = Request { number: self.requests, ..Request::default() };
        self.add_urgent(&mut request);
        // Not in one request: a refusal of a dead letter must not take acknowledgements along.
        if request.items == 0 && (everything || self.acks_are_due(now)) {
            self.add_acks(&mut request, now, everything);
        }
        if request.items == 0 {
            self.add_extensions(&mut request, now);
        }
        if request.items == 0 {
            return None;
        }
        request.finish();
        Some(request)
    }

    fn acks_are_due(&self, now: Instant) -> bool {
        self.is_crowded() || self.acks_due_at().is_some_and(|at| now >= at)
    }

    fn acks_due_at(&self) -> Option<Instant> {
        let group = self.groups.get(self.to_ack.front()?)?;
        Some(group.acked_at + self.ack_interval)
    }

    fn add_urgent(&mut self, request: &mut Request) {
        while request.room() > 0 {
            let Some(settled) = self.urgent.pop_front() else { return };
            request.add_record(&settled.record, &settled.settlement);
            self.add_barrier(request, &settled.record);
            request.settled.push(settled);
        }
    }

    fn add_barrier(&mut self, request: &mut Request, record: &Delivery) {
        let holds = record.scope().and_then(|scope| self.held.get_mut(&scope));
        let Some(hold) = holds.and_then(|holds| holds.get_mut(&record.key())) else { return };
        if request.barrier == 0 {
            self.barriers_sent += 1;
            request.barrier = self.barriers_sent;
        }
        hold.barrier = request.barrier;
    }

    /// Batches of which all was acknowledged go out as one item. Of the others those records that have waited.
    fn add_acks(&mut self, request: &mut Request, now: Instant, everything: bool) {
        let everything = everything || self.is_crowded();
        for number in std::mem::take(&mut self.to_ack) {
            let Some(group) = self.groups.get_mut(&number) else { continue };
            let is_due = everything || now >= group.acked_at + self.ack_interval;
            let before = group.unsent;
            if group.is_acked() && request.room() > 0 {
                request.add_batch(&group.batch_id, Outcome::Ack, 0);
                group.unsent = Amount::default();
                request.acked.append(&mut group.blocks);
            } else if is_due {
                group.unsent = add_acked_records(request, group);
            }
            self.unsent.records -= before.records - group.unsent.records;
            self.unsent.bytes -= before.bytes - group.unsent.bytes;
            if group.unsent.records > 0 {
                self.to_ack.push_back(number);
            }
        }
        self.forget_groups();
    }

    fn forget_groups(&mut self) {
        self.groups.retain(|_, group| !group.whole || group.open > 0 || group.unsent.records > 0);
    }

    /// Extends all that the app has, when it is due, and what it asked for.
    fn add_extensions(&mut self, request: &mut Request, now: Instant) {
        while request.room() > 0 {
            let Some(Settled { record, settlement }) = self.extensions.pop_front() else { break };
            if record.is(State::Begun) && self.groups.contains_key(&record.block.group) {
                request.add_record(&record, &settlement);
            }
        }
        if self.extend_at.is_none_or(|at| now < at) {
            return;
        }
        self.extend_at = Some(now + self.ack_deadline / 3);
        self.forget_groups();
        let groups = &self.groups;
        let is_open = |shard: u32, last: u64| groups.range(..=last).any(|(_, group)| group.shard == shard);
        self.lost_shards.retain(|shard, last| is_open(*shard, *last));
        let delay_ms = self.ack_deadline.as_millis().try_into().unwrap_or(u64::MAX);
        for group in self.groups.values().filter(|group| group.open > 0) {
            self.extend_group(request, group, now, delay_ms);
        }
    }

    /// One item extends the group, unless that extended a record that the app has for too long.
    fn extend_group(&self, request: &mut Request, group: &Group, now: Instant, delay_ms: u64) {
        let is_over = |since: Instant| now.duration_since(since) >= self.max_processing;
        if is_over(group.since) || request.room() == 0 {
            return;
        }
        let is_overdue = |(record, since): &&(Delivery, Instant)| is_over(*since) && record.is(State::Begun);
        let overdue: Vec<&Delivery> = group.adopted.iter().filter(is_overdue).map(|(record, _)| record).collect();
        if overdue.is_empty() {
            request.add_batch(&group.batch_id, Outcome::Extend, delay_ms);
            return;
        }
        let is_open = |record: &Delivery| record.is(State::Waiting) || record.is(State::Begun);
        let settlement = Settlement { outcome: Outcome::Extend, delay_ms, reason: String::new() };
        let due = group.deliveries().filter(|record| is_open(record) && !overdue.contains(&record));
        due.take(request.room()).for_each(|record| request.add_record(&record, &settlement));
    }

    /// When `request` has to be called again, if nothing happens before.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        if !self.session_open {
            return None;
        }
        if self.pending.is_some() {
            return self.retry_at;
        }
        self.acks_due_at().into_iter().chain(self.extend_at).min()
    }

    // --- Answers ---

    /// The sidecar has judged each settlement. Returns the events for the app.
    pub(crate) fn answered(&mut self, number: u64, mut answer: Answer) -> Vec<Event> {
        let Some(request) = self.take_pending(number) else { return Vec::new() };
        if request.settled.is_empty() && request.acked.is_empty() {
            return Vec::new(); // Failures of an extension are of no interest.
        }
        // An earlier copy of the retry was accepted, or the ack deadline or the lease had ended.
        answer.failed.retain(|failure| !(failure.is_late() && request.retries(&failure.ack_id)));
        let refused: HashMap<&str, &Failure> =
            answer.failed.iter().map(|failure| (failure.ack_id.as_str(), failure)).collect();
        self.judge_holds(request.barrier, |record| match refused.get(record.ack_id()) {
            Some(failure) if failure.is_unknown() => None,
            failure => Some(failure.is_none()),
        });
        self.failed += answer.failed.len() as u64;
        let failures = answer.failed.into_iter();
        failures.map(|Failure { ack_id, reason, message }| Event::SettleFailed { ack_id, reason, message }).collect()
    }

    /// The session of the whole request has ended. The next one frees the scopes of its retries.
    pub(crate) fn refused(&mut self, number: u64) {
        let Some(request) = self.take_pending(number) else { return };
        self.stale += request.settlements().count() as u64;
    }

    /// The sidecar refuses the request for good.
    pub(crate) fn forbidden(&mut self, number: u64) {
        self.take_pending(number);
    }

    /// The request is sent again, after `ack_interval` or `retry_after`.
    pub(crate) fn unanswered(&mut self, now: Instant, retry_after: Duration) {
        self.retry_at = Some(now + self.ack_interval.max(retry_after.min(RETRY_AFTER_MAX)));
    }

    /// The request, unless another session has begun since it was sent.
    fn take_pending(&mut self, number: u64) -> Option<Request> {
        self.retry_at = None;
        self.pending.take_if(|request| request.number == number)
    }

    /// What is to be settled, by position, as if the sidecar had confirmed it. For the fake sidecar.
    pub(crate) fn confirm(&mut self, now: Instant) -> Vec<Settled> {
        let mut settled = Vec::new();
        while let Some(request) = self.next_request(now, true) {
            self.barriers_seen = self.barriers_sent;
            self.judge_holds(request.barrier, |_| Some(true));
            settled.extend(request.settlements());
        }
        settled.sort_by(|left, right| left.record.position().cmp(&right.record.position()));
        settled
    }

    /// Records that a retry took back, each once. For the fake sidecar.
    pub(crate) fn taken_back(&self) -> Vec<Delivery> {
        let records = self.groups.values().flat_map(Group::deliveries);
        records.filter(|record| record.change(State::Gone, State::Settled)).collect()
    }

    /// Takes the answers about the retries of a request. None: the hold stays until the next session.
    fn judge_holds(&mut self, barrier: u64, is_accepted: impl Fn(&Delivery) -> Option<bool>) {
        if barrier > 0 {
            let holds = self.held.values_mut().flat_map(HashMap::values_mut);
            for hold in holds.filter(|hold| hold.barrier == barrier) {
                hold.accepted = is_accepted(&hold.record);
            }
            self.resolve();
        }
    }

    /// Ends the scopes whose retries are all resolved.
    fn resolve(&mut self) {
        let is_over = |holds: &HashMap<_, Hold>| holds.values().all(|hold| hold.is_resolved(self.barriers_seen));
        let over = self.held.iter().filter(|(_, holds)| is_over(holds));
        let scopes: Vec<Scope> = over.map(|(scope, _)| *scope).collect();
        for scope in scopes {
            let holds = self.held.remove(&scope).unwrap_or_default();
            self.take_back(scope, &holds);
            self.send(Item::Resolved(scope));
        }
    }

    /// Records that came before the barrier of an accepted retry are redelivered behind the retried record.
    fn take_back(&mut self, scope: Scope, holds: &HashMap<DeliveryKey, Hold>) {
        let is_taken = |record: &Delivery| {
            record.scope() == Some(scope)
                && record.is(State::Waiting)
                && holds.values().any(|hold| hold.takes_back(record))
        };
        let groups = self.groups.values_mut().filter(|group| group.shard == scope.shard);
        groups.for_each(|group| group.take_back(is_taken));
    }
}

/// Adds the acknowledged records of a group one by one. Returns those that are left: the request is full.
fn add_acked_records(request: &mut Request, group: &Group) -> Amount {
    let mut left = Amount::default();
    for record in group.deliveries().filter(|record| record.is(State::Acked)) {
        if request.room() == 0 {
            left.add(&record);
            continue;
        }
        request.add_record(&record, &Settlement::ACK);
        record.set(State::Settled);
        request.settled.push(Settled { record, settlement: Settlement::ACK });
    }
    left
}
