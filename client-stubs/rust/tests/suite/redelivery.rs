// SPDX-License-Identifier: Apache-2.0
//! Records that are delivered again, in a later session or in the same one.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use kinesis_sidecar::{Consumer, Error, Ordering, Record};
use tokio::sync::Notify;

use crate::client::{builder, consumer, next, numbers, server_of, take, Events};
use crate::scripted::{
    first, lease_lost, of_shard, record, refuse, session, session_with, unknown_event, Script, Sent, Server,
};
use crate::support::{wait_until, within, PATIENCE};

#[tokio::test]
async fn outcome_of_a_running_handler_settles_the_redelivery() {
    let again = vec![session(), record(1, 2, "b2"), record(2, 1, "b2")];
    let server = Server::start([Script::Stream(vec![session(), first(1)]), Script::Stream(again)]).await;
    let mut consumer = builder(&server).ack_interval(PATIENCE).build().unwrap();
    let kept = next(&mut consumer).await;
    server.hang_up();
    let second = next(&mut consumer).await;
    assert_eq!(second.sequence_number(), "2");
    kept.drop(); // The iteration has acknowledged it.
    second.ack();
    consumer.close().await;
    let mut outcomes = server.outcomes();
    outcomes.sort();
    assert_eq!(outcomes, ["a1.2 ack", "a2.1 ack"]);
}

#[tokio::test]
async fn record_is_kept_over_several_reconnects() {
    let server = server_of(vec![session(), first(1)]).await;
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    let kept = next(&mut consumer).await;
    for number in 2..=3 {
        server.add_stream(vec![session()]); // The second session ends before the redelivery.
        server.hang_up();
        events.session(number).await;
    }
    server.write(record(1, 3, "b3"));
    server.write(record(2, 1, "b3"));
    kept.drop();
    wait_until("the redelivery is dropped", || server.outcomes() == ["a1.3 drop"]).await;
    assert_eq!(take(&mut consumer, 1).await, numbers(&[("2", 1)]));
}

#[tokio::test]
async fn outcome_that_was_not_confirmed_settles_the_redelivery() {
    let again = vec![session(), record(1, 2, "b2"), record(2, 1, "b2")];
    let server = Server::start([Script::Stream(vec![session(), first(1)]), Script::Stream(again)]).await;
    for _ in 0..3 {
        server.answer_settle(refuse(503));
    }
    let mut consumer = consumer(&server);
    next(&mut consumer).await.drop();
    wait_until("the settlement is refused for now", || !server.settles().is_empty()).await;
    server.hang_up();
    assert_eq!(take(&mut consumer, 1).await, numbers(&[("2", 1)]));
    wait_until("the redelivery is dropped", || server.outcomes().contains(&"a1.2 drop".into())).await;
}

/// A first session whose records have outcomes that the sidecar does not confirm, and the sessions after it.
struct Sessions {
    server: Server,
    events: Events,
    consumer: Consumer,
    count: usize,
}

impl Sessions {
    async fn start(record: Vec<u8>, settle: fn(&Record)) -> Self {
        let server = server_of(vec![session(), record]).await;
        for _ in 0..1000 {
            server.answer_settle(refuse(503));
        }
        let events = Events::default();
        let mut consumer = events.consumer(&server);
        settle(&next(&mut consumer).await);
        wait_until("the settlement is refused for now", || !server.settles().is_empty()).await;
        Sessions { server, events, consumer, count: 1 }
    }

    async fn next(&mut self, records: &[Vec<u8>]) {
        self.count += 1;
        self.server.add_stream([&[session()], records].concat());
        self.server.hang_up();
        self.events.session(self.count).await;
    }

    async fn take(&mut self, count: usize) -> Vec<(String, u32)> {
        take(&mut self.consumer, count).await
    }
}

#[tokio::test]
async fn outcome_that_two_sessions_did_not_confirm_settles_the_redelivery() {
    for (settle, outcome) in [(Record::ack as fn(&Record), "ack"), (Record::drop, "drop")] {
        for between in [vec![], vec![record(1, 2, "b2")]] {
            let mut sessions = Sessions::start(first(1), settle).await;
            sessions.next(&between).await;
            if !between.is_empty() {
                let settled = format!("a1.2 {outcome}");
                wait_until("the redelivery is settled", || sessions.server.outcomes().contains(&settled)).await;
            }
            sessions.next(&[record(1, 3, "b3"), record(2, 1, "b3")]).await;
            sessions.server.accept_settles();
            assert_eq!(sessions.take(1).await, numbers(&[("2", 1)]));
            let settled = format!("a1.3 {outcome}");
            wait_until("the second redelivery is settled", || sessions.server.outcomes().contains(&settled)).await;
        }
    }
}

#[tokio::test]
async fn record_that_is_decided_in_a_silent_session_is_settled_in_the_next() {
    let server = server_of(vec![session(), first(1)]).await;
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    let kept = next(&mut consumer).await;
    server.add_stream(vec![session()]);
    server.hang_up();
    events.session(2).await;
    kept.drop();
    server.add_stream(vec![session(), record(1, 2, "b2"), record(2, 1, "b2")]);
    server.hang_up();
    assert_eq!(take(&mut consumer, 1).await, numbers(&[("2", 1)]));
    wait_until("the redelivery is dropped", || server.outcomes() == ["a1.2 drop"]).await;
    assert_eq!(consumer.stale(), 0);
}

#[tokio::test]
async fn record_without_an_outcome_is_kept_when_a_session_delivered_later_records() {
    let server = server_of(vec![session(), first(1)]).await;
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    let kept = within(consumer.next_batch(1, PATIENCE)).await.unwrap().unwrap();
    server.add_stream(vec![session(), record(2, 1, "b2")]);
    server.hang_up();
    events.session(2).await;
    server.add_stream(vec![session(), record(1, 2, "b3")]);
    server.hang_up();
    events.session(3).await;
    server.write(unknown_event());
    events.unknown().await;
    kept[0].drop();
    wait_until("the redelivery is dropped", || server.outcomes() == ["a1.2 drop"]).await;
}

#[tokio::test]
async fn redriven_record_is_handed_out_though_its_first_outcome_was_not_confirmed() {
    let mut sessions = Sessions::start(first(1), |record| record.dead_letter("")).await;
    sessions.next(&[Sent { redriven: true, ..Sent::new("1", 2, "b2") }.frame()]).await;
    assert!(next(&mut sessions.consumer).await.redriven());
}

#[tokio::test]
async fn outcome_is_forgotten_when_a_session_has_ended_that_delivered_later_records() {
    let mut sessions = Sessions::start(first(1), Record::drop).await;
    sessions.next(&[record(2, 1, "b2")]).await;
    assert_eq!(sessions.take(1).await, numbers(&[("2", 1)]));
    sessions.next(&[record(1, 2, "b3")]).await;
    assert_eq!(sessions.take(1).await, numbers(&[("1", 2)]));
}

#[tokio::test]
async fn outcome_is_kept_when_the_last_batch_of_a_session_began_before_it() {
    let mut sessions = Sessions::start(first(5), Record::drop).await;
    sessions.next(&[record(10, 1, "b2"), record(4, 1, "b3"), record(6, 1, "b3")]).await;
    assert_eq!(sessions.take(1).await, numbers(&[("10", 1)]));
    sessions.next(&[record(5, 2, "b4"), record(7, 1, "b4")]).await;
    assert_eq!(sessions.take(1).await, numbers(&[("7", 1)]));
}

#[tokio::test]
async fn outcome_is_kept_when_a_session_delivered_only_dead_letters() {
    let mut sessions = Sessions::start(first(1), Record::drop).await;
    sessions.next(&[Sent { redriven: true, ..Sent::new("2", 2, "b2") }.frame()]).await;
    assert!(next(&mut sessions.consumer).await.redriven());
    sessions.next(&[record(1, 2, "b3"), record(3, 1, "b3")]).await;
    assert_eq!(sessions.take(1).await, numbers(&[("3", 1)]));
}

#[tokio::test]
async fn outcome_of_a_dead_letter_is_forgotten_when_the_next_session_has_ended() {
    let redriven = |attempt, batch| Sent { redriven: true, ..Sent::new("1", attempt, batch) }.frame();
    let mut sessions = Sessions::start(redriven(1, "b1"), Record::drop).await;
    sessions.next(&[]).await;
    sessions.next(&[redriven(2, "b2")]).await;
    assert_eq!(sessions.take(1).await, numbers(&[("1", 2)]));
}

#[tokio::test]
async fn record_that_the_app_has_is_not_handed_out_again_after_a_retry() {
    let server = server_of(vec![session(), first(1), first(2), first(3)]).await;
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    let batch = within(consumer.next_batch(3, PATIENCE)).await.unwrap().unwrap();
    batch[0].retry("");
    wait_until("the retry is sent", || !server.settles().is_empty()).await;
    for number in 1..=3 {
        server.write(record(number, 2, "b2"));
    }
    server.write(record(4, 1, "b3"));
    server.write(unknown_event());
    events.unknown().await;
    batch[1].drop();
    let again = within(consumer.next_batch(2, PATIENCE)).await.unwrap().unwrap(); // It acknowledges record 3.
    assert_eq!(again.iter().map(Record::sequence_number).collect::<Vec<_>>(), ["1", "4"]);
    wait_until("the others are settled", || server.outcomes().len() == 3).await;
    assert_eq!(server.outcomes(), ["a1.1 retry", "a2.2 drop", "a3.2 ack"]);
}

/// An ack deadline has passed. The app has record 1.
#[tokio::test]
async fn redelivery_replaces_the_records_that_wait() {
    let of = |number: u64, attempt, batch| Sent { lane: number % 2, ..Sent::new(number.to_string(), attempt, batch) };
    let expected = [
        (Ordering::Shard, numbers(&[("3", 2), ("5", 2)])),
        (Ordering::Key, numbers(&[("2", 1), ("4", 1), ("3", 2), ("5", 2)])),
        (Ordering::None, numbers(&[("2", 1), ("3", 1), ("4", 1), ("5", 1), ("3", 2), ("5", 2)])),
    ];
    for (ordering, expected) in expected {
        let records = (1..=5).map(|number| of(number, 1, "b1").frame());
        let server = server_of([session()].into_iter().chain(records).collect()).await;
        let events = Events::default();
        let mut consumer = events.builder(&server).ordering(ordering).build().unwrap();
        next(&mut consumer).await;
        if ordering == Ordering::Shard {
            take(&mut consumer, 1).await;
        }
        for number in [3, 5] {
            server.write(of(number, 2, "b2").frame());
        }
        server.write(unknown_event());
        events.unknown().await;
        assert_eq!(take(&mut consumer, expected.len()).await, expected);
    }
}

#[tokio::test]
async fn redelivery_of_a_record_that_the_app_has_replaces_the_later_ones() {
    let server = server_of(vec![session(), first(1), first(2), first(3)]).await;
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    let kept = next(&mut consumer).await;
    server.write(record(1, 2, "b2"));
    server.write(unknown_event());
    events.unknown().await;
    server.write(record(2, 2, "b3"));
    server.write(record(3, 2, "b3"));
    kept.drop();
    assert_eq!(take(&mut consumer, 2).await, numbers(&[("2", 2), ("3", 2)]));
    wait_until("the redelivery is dropped", || server.outcomes().contains(&"a1.2 drop".into())).await;
}

#[tokio::test]
async fn only_the_redelivery_of_a_record_is_acknowledged() {
    let server = server_of(vec![session(), first(1), first(2)]).await;
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    let batch = within(consumer.next_batch(2, PATIENCE)).await.unwrap().unwrap();
    server.write(record(2, 2, "b2"));
    server.write(unknown_event());
    events.unknown().await;
    batch.ack();
    consumer.close().await;
    assert_eq!(server.outcomes(), ["a1.1 ack", "a2.2 ack"]);
}

/// The app settles record 1. No settle request gets an answer until all of `frames` was taken.
async fn settle_before(first: &[Vec<u8>], settle: fn(&Record), frames: &[Vec<u8>]) -> (Server, Consumer) {
    let server = server_of([&[session()], first].concat()).await;
    for _ in 0..1000 {
        server.answer_settle(refuse(503));
    }
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    settle(&next(&mut consumer).await);
    wait_until("the outcome is sent", || !server.settles().is_empty()).await;
    for frame in frames {
        server.write(frame.clone());
    }
    server.write(unknown_event());
    events.unknown().await;
    server.accept_settles();
    (server, consumer)
}

#[tokio::test]
async fn outcome_without_an_answer_settles_the_redelivery() {
    type Settle = fn(&Record);
    let dead_letter = |record: &Record| record.dead_letter("");
    let outcomes: [(Settle, &str); 3] = [(Record::ack, "ack"), (Record::drop, "drop"), (dead_letter, "dead_letter")];
    for (settle, outcome) in outcomes {
        let again = [record(1, 2, "b2"), record(2, 1, "b2")];
        let (server, mut consumer) = settle_before(&[first(1)], settle, &again).await;
        assert_eq!(take(&mut consumer, 1).await, numbers(&[("2", 1)]));
        let settled = format!("a1.2 {outcome}");
        wait_until("the redelivery is settled", || server.outcomes().contains(&settled)).await;
    }
}

#[tokio::test]
async fn acknowledgement_of_a_batch_without_an_answer_settles_the_redelivery() {
    let (batch, again) = ([first(1), of_shard(7, "other", "b2")], [record(1, 2, "b3"), record(2, 1, "b3")]);
    let (server, mut consumer) = settle_before(&batch, Record::ack, &again).await;
    assert_eq!(server.outcomes()[0], "b1 ack");
    assert_eq!(take(&mut consumer, 2).await, numbers(&[("7", 1), ("2", 1)]));
    wait_until("the redelivery is settled", || server.outcomes().contains(&"a1.2 ack".into())).await;
}

#[tokio::test]
async fn acknowledgement_that_is_not_sent_settles_the_redelivery() {
    let server = server_of(vec![session(), first(1), first(2)]).await;
    let events = Events::default();
    let mut consumer = events.builder(&server).ack_interval(PATIENCE).build().unwrap();
    for _ in 0..2 {
        next(&mut consumer).await.ack();
    }
    for frame in [record(1, 2, "b2"), record(3, 1, "b2"), unknown_event()] {
        server.write(frame);
    }
    events.unknown().await;
    assert_eq!(take(&mut consumer, 1).await, numbers(&[("3", 1)]));
    consumer.close().await;
    assert_eq!(server.outcomes(), ["a2.1 ack", "a1.2 ack"]);
}

/// The retry waits for the answer to the request before.
#[tokio::test]
async fn retry_that_is_not_sent_retries_the_redelivery() {
    let server = server_of(vec![session(), first(1), of_shard(7, "other", "b0")]).await;
    for _ in 0..1000 {
        server.answer_settle(refuse(503));
    }
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    let batch = within(consumer.next_batch(2, PATIENCE)).await.unwrap().unwrap();
    batch[1].drop();
    wait_until("the drop is sent", || !server.settles().is_empty()).await;
    batch[0].retry("");
    for frame in [record(1, 2, "b2"), record(2, 1, "b2"), unknown_event()] {
        server.write(frame);
    }
    events.unknown().await;
    server.accept_settles();
    let is_retry = |outcome: &String| outcome.ends_with("retry");
    wait_until("the retry is sent", || server.outcomes().iter().any(is_retry)).await;
    server.write(record(1, 3, "b3"));
    server.write(record(2, 2, "b3"));
    assert_eq!(take(&mut consumer, 2).await, numbers(&[("1", 3), ("2", 2)]));
    assert_eq!(server.outcomes().into_iter().filter(is_retry).collect::<Vec<_>>(), ["a1.2 retry"]);
}

#[tokio::test]
async fn redelivery_that_the_app_has_is_kept_when_its_retry_got_no_answer() {
    let server = server_of(vec![session(), first(1)]).await;
    for _ in 0..1000 {
        server.answer_settle(refuse(503));
    }
    let events = Events::default();
    let mut consumer = events.builder(&server).ordering(Ordering::None).build().unwrap();
    next(&mut consumer).await.retry("");
    wait_until("the retry is sent", || !server.settles().is_empty()).await;
    server.write(record(1, 2, "b2"));
    let kept = next(&mut consumer).await;
    server.add_stream(vec![session(), record(1, 3, "b3"), record(2, 1, "b3")]);
    server.hang_up();
    events.session(2).await;
    server.accept_settles();
    kept.drop();
    assert_eq!(take(&mut consumer, 1).await, numbers(&[("2", 1)]));
    wait_until("the redelivery is dropped", || server.outcomes().contains(&"a1.3 drop".into())).await;
    assert!(!server.outcomes().contains(&"a1.3 retry".into()));
}

#[tokio::test]
async fn record_of_a_running_handler_is_not_handled_again() {
    let server = server_of(vec![session(), first(1)]).await;
    let (calls, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, released) = (calls.clone(), release.clone());
    let mut consumer = builder(&server).concurrency(2).ordering(Ordering::None).build().unwrap();
    let stopper = consumer.stopper();
    let running = tokio::spawn(async move {
        let handle = move |record: Record| {
            let (counted, released) = (counted.clone(), released.clone());
            async move {
                counted.fetch_add(1, Relaxed);
                if record.sequence_number() == "1" {
                    released.notified().await;
                }
                Ok::<_, Error>(())
            }
        };
        consumer.run(handle).await
    });
    wait_until("the handler runs", || calls.load(Relaxed) == 1).await;
    server.write(record(1, 2, "b2"));
    server.write(record(2, 1, "b3"));
    wait_until("the second record is settled", || server.outcomes() == ["a2.1 ack"]).await;
    release.notify_one();
    wait_until("the redelivery is settled", || server.outcomes().contains(&"b2 ack".into())).await;
    assert_eq!(calls.load(Relaxed), 2);
    stopper.stop();
    within(running).await.unwrap().unwrap();
}

#[tokio::test]
async fn record_that_the_app_has_is_not_handed_out_again_after_a_lost_lease() {
    let server = server_of(vec![session(), first(1)]).await;
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    let kept = next(&mut consumer).await;
    server.write(lease_lost("shardId-000000000000"));
    server.write(Sent { epoch: 2, ..Sent::new("1", 1, "b2") }.frame());
    server.write(record(2, 1, "b3"));
    server.write(unknown_event());
    events.unknown().await;
    kept.ack();
    assert_eq!(take(&mut consumer, 1).await, numbers(&[("2", 1)]));
    wait_until("the redelivery is settled", || server.outcomes() == ["b2 ack"]).await;
}

#[tokio::test]
async fn redelivered_batch_is_not_extended_any_more() {
    let server = server_of(vec![session_with(300, 10_000), first(1)]).await;
    let mut consumer = consumer(&server);
    let kept = next(&mut consumer).await;
    server.write(record(1, 2, "b2"));
    server.write(record(2, 1, "b3"));
    let is_extended = |from: usize, batch: &str| server.items()[from..].iter().any(|item| item["batch_id"] == batch);
    wait_until("the redelivery is extended", || is_extended(0, "b2")).await;
    let from = server.items().len();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(is_extended(from, "b2") && !is_extended(from, "b1"), "{:?}", server.items());
    kept.drop();
    wait_until("the redelivery is dropped", || server.outcomes() == ["a1.2 drop"]).await;
}

/// Its future was dropped while it waited for more records.
#[tokio::test]
async fn batch_that_is_not_full_drops_records_whose_lease_or_session_has_ended() {
    for is_lease in [true, false] {
        let server = server_of(vec![session(), first(1), first(2)]).await;
        let events = Events::default();
        let mut consumer = events.consumer(&server);
        assert!(tokio::time::timeout(Duration::from_millis(200), consumer.next_batch(3, PATIENCE)).await.is_err());
        if is_lease {
            server.write(lease_lost("shardId-000000000000"));
        } else {
            server.add_stream(vec![session()]);
            server.hang_up();
            events.session(2).await;
        }
        server.write(of_shard(9, "other", "b2"));
        server.write(unknown_event());
        events.unknown().await;
        let batch = within(consumer.next_batch(1, PATIENCE)).await.unwrap().unwrap();
        assert_eq!(batch.iter().map(Record::sequence_number).collect::<Vec<_>>(), ["9"]);
    }
}
