// SPDX-License-Identifier: Apache-2.0
//! Retries, and the records behind them.

use std::time::Duration;

use kinesis_sidecar::{Event, Ordering};
use serde_json::{json, Value};

use crate::client::{builder, consumer, next, numbers, server_of, take, Events};
use crate::scripted::{
    answer, barrier_event, failed, first, lease_lost, of_shard, record, refuse, session, unknown_event, Answer, Sent,
};
use crate::support::{wait_until, within, PATIENCE};

#[tokio::test]
async fn records_behind_a_retry_are_handed_out_behind_its_redelivery() {
    let server = server_of(vec![session(), first(1), first(2), first(3)]).await;
    let mut consumer = consumer(&server);
    next(&mut consumer).await.retry("not yet");
    wait_until("the retry is sent", || !server.settles().is_empty()).await;
    for number in 1..=3 {
        server.write(record(number, 2, "b2"));
    }
    assert_eq!(take(&mut consumer, 3).await, numbers(&[("1", 2), ("2", 2), ("3", 2)]));
    let expected =
        json!({"settlements": [{"ack_id": "a1.1", "outcome": "retry", "reason": "not yet"}], "barrier": "1"});
    assert_eq!(server.settles()[0].0, expected);
}

/// It took nothing back. SETTLED: another delivery of the record was settled.
#[tokio::test]
async fn records_behind_a_refused_retry_are_handed_out() {
    for reason in ["MALFORMED", "SETTLED"] {
        let server = server_of(vec![session(), first(1), first(2), first(3)]).await;
        server.answer_settle(failed("a1.1", reason));
        let events = Events::default();
        let mut consumer = events.consumer(&server);
        next(&mut consumer).await.retry("not yet");
        assert_eq!(take(&mut consumer, 2).await, numbers(&[("2", 1), ("3", 1)]));
        assert_eq!(consumer.failed(), 1);
        let is_reported = |event: &Event| matches!(event, Event::SettleFailed { reason: told, .. } if told == reason);
        wait_until("the app gets the refusal", || events.all().iter().any(is_reported)).await;
    }
}

/// The sidecar was restarted. The barrier may be the one that it wrote before.
#[tokio::test]
async fn retry_of_an_unknown_id_waits_for_the_next_session() {
    for has_barrier in [false, true] {
        let server = server_of(vec![session(), first(1), first(2)]).await;
        server.answer_settle(Answer { has_barrier, ..failed("a1.1", "UNKNOWN") });
        let mut consumer = consumer(&server);
        next(&mut consumer).await.retry("");
        wait_until("the refusal is counted", || consumer.failed() == 1).await;
        assert!(tokio::time::timeout(Duration::from_millis(200), consumer.next()).await.is_err());
        server.add_stream(vec![session(), record(1, 1, "b2"), record(2, 1, "b2")]);
        server.hang_up();
        assert_eq!(take(&mut consumer, 2).await, numbers(&[("1", 1), ("2", 1)]));
    }
}

#[tokio::test]
async fn retry_of_an_ended_session_waits_for_the_next() {
    for status in [409, 410] {
        let server = server_of(vec![session(), first(1), first(2)]).await;
        server.answer_settle(refuse(status));
        let mut consumer = consumer(&server);
        next(&mut consumer).await.retry("");
        wait_until("the settlement is stale", || consumer.stale() == 1).await;
        assert!(tokio::time::timeout(Duration::from_millis(200), consumer.next()).await.is_err());
        server.add_stream(vec![session(), record(1, 2, "b2"), record(2, 2, "b2")]);
        server.hang_up();
        assert_eq!(take(&mut consumer, 2).await, numbers(&[("1", 2), ("2", 2)]));
    }
}

/// The ack deadline has passed: both records are redelivered.
#[tokio::test]
async fn retry_that_is_expired_waits_for_the_redelivery() {
    let server = server_of(vec![session(), first(1), first(2)]).await;
    server.answer_settle(Answer { has_barrier: false, ..failed("a1.1", "EXPIRED") });
    let mut consumer = consumer(&server);
    next(&mut consumer).await.retry("");
    wait_until("the retry is sent", || !server.settles().is_empty()).await;
    assert!(tokio::time::timeout(Duration::from_millis(200), consumer.next()).await.is_err());
    server.write(record(1, 2, "b2"));
    server.write(record(2, 2, "b2"));
    server.write(barrier_event("1"));
    assert_eq!(take(&mut consumer, 2).await, numbers(&[("1", 2), ("2", 2)]));
    assert_eq!(consumer.failed(), 0);
}

/// The retry of a request is accepted, and its barrier does not come by itself.
fn accepted() -> Answer {
    Answer { has_barrier: false, ..answer(200, json!({"ok": 1, "failed": []})) }
}

#[tokio::test]
async fn records_behind_a_retry_wait_for_the_barrier() {
    let server = server_of(vec![session(), first(1), first(2)]).await;
    server.answer_settle(accepted());
    let mut consumer = consumer(&server);
    next(&mut consumer).await.retry("");
    wait_until("the retry is sent", || !server.settles().is_empty()).await;
    server.write(first(3)); // Delivered before the sidecar took the retry.
    assert!(tokio::time::timeout(Duration::from_millis(200), consumer.next()).await.is_err());
    server.write(barrier_event("1"));
    for number in 1..=3 {
        server.write(record(number, 2, "b2"));
    }
    assert_eq!(take(&mut consumer, 3).await, numbers(&[("1", 2), ("2", 2), ("3", 2)]));
}

#[tokio::test]
async fn redeliveries_before_the_answer_of_a_retry_are_handed_out() {
    let server = server_of(vec![session(), first(1), first(2)]).await;
    server.answer_settle(Answer { delay: Duration::from_millis(300), ..accepted() });
    let mut consumer = consumer(&server);
    next(&mut consumer).await.retry("");
    wait_until("the retry is sent", || !server.settles().is_empty()).await;
    server.write(barrier_event("1"));
    server.write(record(1, 2, "b2"));
    server.write(record(2, 2, "b2"));
    assert_eq!(take(&mut consumer, 2).await, numbers(&[("1", 2), ("2", 2)]));
}

#[tokio::test]
async fn batch_is_retried_from_its_end() {
    let server = server_of(vec![session(), first(1), first(2)]).await;
    let mut consumer = consumer(&server);
    within(consumer.next_batch(2, PATIENCE)).await.unwrap().unwrap().retry("");
    wait_until("both are retried", || server.outcomes().len() == 2).await;
    assert_eq!(server.outcomes(), ["a2.1 retry", "a1.1 retry"]);
}

#[tokio::test]
async fn retry_by_key_holds_and_takes_back_its_lane() {
    let of = |number: &str, attempt, lane| Sent { lane, ..Sent::new(number, attempt, "b1") }.frame();
    let server = server_of(vec![session(), of("1", 1, 5), of("2", 1, 6), of("3", 1, 5), of("4", 1, 6)]).await;
    server.answer_settle(accepted());
    let mut consumer = builder(&server).ordering(Ordering::Key).build().unwrap();
    next(&mut consumer).await.retry("");
    assert_eq!(take(&mut consumer, 1).await, numbers(&[("2", 1)]));
    wait_until("the retry is sent", || !server.settles().is_empty()).await;
    server.write(barrier_event("1"));
    server.write(of("1", 2, 5));
    server.write(of("3", 2, 5));
    assert_eq!(take(&mut consumer, 3).await, numbers(&[("4", 1), ("1", 2), ("3", 2)]));
}

#[tokio::test]
async fn retry_leaves_the_redelivery_of_an_earlier_record() {
    let server = server_of(vec![session(), first(2)]).await;
    server.answer_settle(accepted());
    let mut consumer = consumer(&server);
    next(&mut consumer).await.retry("");
    wait_until("the retry is sent", || !server.settles().is_empty()).await;
    server.write(record(1, 2, "b2"));
    server.write(barrier_event("1"));
    server.write(record(2, 2, "b3"));
    assert_eq!(take(&mut consumer, 2).await, numbers(&[("1", 2), ("2", 2)]));
}

#[tokio::test]
async fn redriven_records_continue_while_a_retry_waits() {
    let redriven = Sent { redriven: true, ..Sent::new("2", 1, "b2") };
    let server = server_of(vec![session(), first(1), redriven.frame()]).await;
    server.answer_settle(accepted());
    let mut consumer = consumer(&server);
    next(&mut consumer).await.retry("");
    assert!(next(&mut consumer).await.redriven());
}

#[tokio::test]
async fn other_shards_continue_while_a_retry_waits() {
    let server = server_of(vec![session(), first(1), of_shard(2, "other", "b2")]).await;
    server.answer_settle(refuse(503));
    let mut consumer = consumer(&server);
    next(&mut consumer).await.retry("");
    assert_eq!(next(&mut consumer).await.shard_id(), "other");
}

#[tokio::test]
async fn sequence_numbers_of_the_service_are_ordered() {
    let of = |last: u32, attempt, batch| {
        Sent::new(format!("4968058912170683472591166892084611005313158058320959{last}"), attempt, batch).frame()
    };
    let server = server_of(vec![session(), of(8978, 1, "b1"), of(8979, 1, "b1")]).await;
    let mut consumer = consumer(&server);
    next(&mut consumer).await.retry("");
    wait_until("the retry is sent", || !server.settles().is_empty()).await;
    server.write(of(8978, 2, "b2"));
    server.write(of(8979, 2, "b2"));
    assert_eq!(take(&mut consumer, 2).await.into_iter().map(|(_, attempt)| attempt).collect::<Vec<_>>(), [2, 2]);
}

/// The server closes the connection without an answer.
fn lost(has_barrier: bool) -> Answer {
    Answer { has_barrier, ..answer(0, Value::Null) }
}

/// The sidecar refuses the second copy of a retry, because it has redelivered the records. `is_taken`: by the first
/// copy, and not after the ack deadline. `is_kept`: the connection had an earlier request.
async fn retry_is_repeated(is_taken: bool, is_kept: bool, reason: &str) {
    let server = server_of(vec![session(), of_shard(9, "other", "b0"), first(1), first(2)]).await;
    let events = Events::default();
    let mut consumer = events.builder(&server).ack_interval(Duration::from_millis(500)).build().unwrap();
    let other = next(&mut consumer).await;
    if is_kept {
        other.drop();
        wait_until("the other record is dropped", || !server.settles().is_empty()).await;
    }
    let before = server.settles().len();
    server.answer_settle(lost(is_taken));
    server.answer_settle(Answer { delay: Duration::from_millis(300), ..failed("a1.1", reason) });
    next(&mut consumer).await.retry("");
    wait_until("the retry is sent", || server.settles().len() > before).await;
    server.write(record(1, 2, "b2"));
    server.write(record(2, 2, "b2"));
    assert_eq!(take(&mut consumer, 2).await, numbers(&[("1", 2), ("2", 2)]));
    assert_eq!(consumer.failed(), 0);
    assert!(!events.all().iter().any(|event| matches!(event, Event::SettleFailed { .. })));
}

#[tokio::test]
async fn refusal_of_a_repeated_retry_takes_the_later_records_back() {
    for reason in ["EXPIRED", "FENCED"] {
        retry_is_repeated(true, false, reason).await;
    }
}

#[tokio::test]
async fn refusal_of_a_retry_that_a_kept_connection_repeated_takes_the_later_records_back() {
    retry_is_repeated(true, true, "EXPIRED").await;
}

#[tokio::test]
async fn refusal_of_a_repeated_retry_leaves_what_is_behind_the_redelivery() {
    for is_kept in [false, true] {
        retry_is_repeated(false, is_kept, "EXPIRED").await;
    }
}

#[tokio::test]
async fn other_refusals_of_a_repeated_request_are_reported() {
    let server = server_of(vec![session(), first(1)]).await;
    server.answer_settle(lost(true));
    server.answer_settle(failed("a1.1", "UNKNOWN"));
    let mut consumer = consumer(&server);
    next(&mut consumer).await.retry("");
    wait_until("the refusal is counted", || consumer.failed() == 1).await;
}

#[tokio::test]
async fn retry_takes_back_no_record_of_the_next_lease_epoch() {
    let server = server_of(vec![session(), first(1), first(2)]).await;
    server.answer_settle(Answer { delay: Duration::from_millis(300), ..failed("a1.1", "FENCED") });
    let mut consumer = consumer(&server);
    next(&mut consumer).await.retry("");
    wait_until("the retry is sent", || !server.settles().is_empty()).await;
    server.write(lease_lost("shardId-000000000000"));
    server.write(Sent { epoch: 2, ..Sent::new("2", 1, "b2") }.frame());
    assert_eq!(next(&mut consumer).await.epoch(), 2);
}

/// The app has record 1 when its lease is lost. Another sidecar has settled the record.
#[tokio::test]
async fn retry_after_a_lost_lease_takes_nothing_of_the_next_lease_back() {
    let server = server_of(vec![session(), first(1)]).await;
    server.answer_settle(failed("a1.1", "FENCED"));
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    let kept = next(&mut consumer).await;
    server.write(lease_lost("shardId-000000000000"));
    server.write(Sent { epoch: 2, ..Sent::new("2", 1, "b2") }.frame());
    server.write(unknown_event());
    events.unknown().await;
    kept.retry("");
    assert_eq!(next(&mut consumer).await.epoch(), 2);
    assert_eq!(consumer.failed(), 0);
}
