// SPDX-License-Identifier: Apache-2.0
//! A consumer and a server that misbehaves.

use std::time::{Duration, Instant};

use kinesis_sidecar::{Builder, Consumer, Error, Event, Ordering, Record};
use serde_json::{json, Value};

use crate::client::{builder, consumer, next, numbers, server_of, take, Events};
use crate::scripted::{
    answer, barrier_event, failed, first, large_session, lease_lost, of_shard, record, refuse, session, session_with,
    taken_over, unknown_event, Answer, Script, Sent, Server,
};
use crate::support::{wait_until, within, Folder, PATIENCE};

#[tokio::test]
async fn whole_batch_is_acknowledged_by_one_item() {
    let server = server_of(vec![session(), first(1), first(2), record(3, 1, "b2")]).await;
    let mut consumer = consumer(&server);
    take(&mut consumer, 3).await;
    wait_until("the batch is acknowledged", || !server.outcomes().is_empty()).await;
    assert_eq!(server.outcomes(), ["b1 ack"]);
    consumer.close().await;
    assert_eq!(server.deleted(), ["/v1/sessions/orders"]);
}

#[tokio::test]
async fn records_of_an_open_batch_are_acknowledged_by_their_own_ids() {
    let server = server_of(vec![session(), first(1), first(2)]).await;
    let mut consumer = consumer(&server);
    take(&mut consumer, 2).await;
    consumer.close().await;
    assert_eq!(server.outcomes(), ["a1.1 ack"]); // The loop was left at the second one.
}

#[tokio::test]
async fn event_between_the_records_of_a_batch_does_not_end_it() {
    for event in [unknown_event(), barrier_event("1")] {
        let server = server_of(vec![session(), first(1), event, first(2)]).await;
        let mut consumer = consumer(&server);
        take(&mut consumer, 2).await;
        consumer.close().await;
        assert_eq!(server.outcomes(), ["a1.1 ack"]);
    }
}

#[tokio::test]
async fn first_outcome_counts() {
    let server = server_of(vec![session(), first(1)]).await;
    let mut consumer = consumer(&server);
    let record = next(&mut consumer).await;
    record.drop();
    record.ack();
    record.retry("");
    consumer.close().await;
    assert_eq!(server.outcomes(), ["a1.1 drop"]);
}

#[tokio::test]
async fn dropped_consumer_acknowledges_and_closes_in_the_background() {
    let server = server_of(vec![session(), first(1), first(2)]).await;
    let mut consumer = consumer(&server);
    take(&mut consumer, 2).await;
    drop(consumer);
    wait_until("the session is closed", || !server.deleted().is_empty()).await;
    assert_eq!(server.outcomes(), ["a1.1 ack"]);
}

#[tokio::test]
async fn refused_stream_is_an_error() {
    for status in [400, 401, 403, 404] {
        let server = Server::start([Script::Refuse(refuse(status))]).await;
        match within(consumer(&server).next()).await {
            Err(Error::Sidecar(error)) => {
                assert_eq!(
                    (error.status, error.code.as_str(), error.detail.as_str()),
                    (status, "some-code", "a sentence")
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn temporary_refusal_is_tried_again() {
    for status in [409, 429, 500, 503] {
        let server = Server::start([Script::Refuse(refuse(status)), Script::Stream(vec![session(), first(1)])]).await;
        let events = Events::default();
        take(&mut events.consumer(&server), 1).await;
        assert!(events.disconnected()[0].0.starts_with(&status.to_string()), "{:?}", events.all());
    }
}

#[tokio::test]
async fn retry_after_is_heeded() {
    let refusal = Answer { headers: "Retry-After: 1\r\n", ..refuse(503) };
    let server = Server::start([Script::Refuse(refusal), Script::Stream(vec![session(), first(1)])]).await;
    let events = Events::default();
    take(&mut events.consumer(&server), 1).await;
    assert!(events.disconnected()[0].1 >= Duration::from_secs(1));
}

#[tokio::test]
async fn missing_sidecar_is_waited_for() {
    let server = server_of(vec![session(), first(1)]).await;
    let folder = Folder::new();
    let token = folder.path("token");
    let events = Events::default();
    let told = events.0.clone();
    let on_event = move |event| told.lock().unwrap().push(event);
    // A token file that does not exist yet: no request can be sent.
    let mut consumer = builder(&server).token_file(&token).on_event(on_event).build().unwrap();
    let reading = tokio::spawn(async move { take(&mut consumer, 1).await });
    wait_until("two attempts have failed", || events.disconnected().len() >= 2).await;
    std::fs::write(&token, "a-token").unwrap();
    assert_eq!(within(reading).await.unwrap(), numbers(&[("1", 1)]));
}

#[tokio::test]
async fn broken_frame_drops_the_connection() {
    let too_long = vec![0xFF, 0xFF, 0xFF, 0xFF, 0x0F];
    let damaged_length = vec![0x80, 0x80, 0x80, 0x80, 0x80, 0x80];
    let no_message = vec![3, 0x12, 0xFF, 0xFF];
    for (broken, reason) in [(too_long, "33554432"), (damaged_length, "damaged"), (no_message, "")] {
        let again = vec![session(), record(1, 2, "b2"), record(2, 1, "b2")];
        let server = Server::start([Script::Stream(vec![session(), first(1), broken]), Script::Stream(again)]).await;
        let events = Events::default();
        let mut consumer = events.consumer(&server);
        // The app gets the first record before or after the connection is lost, and once.
        let taken: Vec<String> = take(&mut consumer, 2).await.into_iter().map(|(number, _)| number).collect();
        assert_eq!(taken, ["1", "2"]);
        assert!(events.disconnected()[0].0.contains(reason), "{:?}", events.all());
    }
}

#[tokio::test]
async fn dropped_connection_is_made_again() {
    let server = server_of(vec![session(), first(1), first(2)]).await;
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    take(&mut consumer, 1).await;
    server.hang_up();
    wait_until("the connection is lost", || !events.disconnected().is_empty()).await;
    server.add_stream(vec![session(), record(1, 2, "b2"), record(2, 2, "b2")]);
    assert_eq!(take(&mut consumer, 1).await, numbers(&[("2", 2)]));
}

#[tokio::test]
async fn batch_that_the_connection_cut_is_not_acknowledged_as_a_whole() {
    let server = server_of(vec![session(), first(1)]).await;
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    let record = next(&mut consumer).await;
    server.hang_up();
    wait_until("the connection is lost", || !events.disconnected().is_empty()).await;
    record.ack();
    wait_until("the record is acknowledged", || !server.outcomes().is_empty()).await;
    assert_eq!(server.outcomes(), ["a1.1 ack"]);
}

#[tokio::test]
async fn unknown_event_is_passed_on() {
    let server = server_of(vec![session(), unknown_event(), first(1)]).await;
    let events = Events::default();
    take(&mut events.consumer(&server), 1).await;
    assert!(events.all().contains(&Event::Unknown));
}

#[tokio::test]
async fn large_record_is_delivered() {
    let data = vec![b'x'; 10 << 20];
    let large = Sent { data: data.clone(), ..Sent::new("1", 1, "b1") };
    let server = server_of(vec![session(), large.frame()]).await;
    assert_eq!(next(&mut consumer(&server)).await.data(), &data);
}

#[tokio::test]
async fn missed_heartbeats_end_the_connection() {
    let server =
        Server::start([Script::Stream(vec![session_with(60_000, 100)]), Script::Stream(vec![session(), first(1)])])
            .await;
    let events = Events::default();
    take(&mut events.consumer(&server), 1).await;
    assert_eq!(events.disconnected()[0].0, "no heartbeat");
}

#[tokio::test]
async fn take_over_is_an_error() {
    let server = server_of(vec![session(), taken_over()]).await;
    let mut consumer = consumer(&server);
    assert_eq!(within(consumer.next()).await.unwrap_err(), Error::SessionTakenOver { client_id: "orders".into() });
    assert!(within(consumer.next()).await.unwrap().is_none());
    consumer.close().await;
    assert_eq!(server.deleted(), Vec::<String>::new());
}

#[tokio::test]
async fn settlements_of_an_ended_session_are_counted() {
    for status in [409, 410] {
        let server = server_of(vec![session(), first(1), first(2)]).await;
        server.answer_settle(refuse(status));
        let mut consumer = consumer(&server);
        take(&mut consumer, 2).await;
        wait_until("the settlement is stale", || consumer.stale() == 1).await;
    }
}

#[tokio::test]
async fn settlements_that_are_not_answered_are_sent_again() {
    let server = server_of(vec![session(), first(1), first(2)]).await;
    server.answer_settle(refuse(503));
    server.answer_settle(refuse(429));
    let mut consumer = consumer(&server);
    take(&mut consumer, 2).await;
    wait_until("it is sent again", || server.settles().len() >= 3).await;
    assert_eq!(server.outcomes()[..3], ["a1.1 ack", "a1.1 ack", "a1.1 ack"]);
}

#[tokio::test]
async fn retry_after_of_a_settle_request_is_heeded() {
    let server = server_of(vec![session(), first(1)]).await;
    server.answer_settle(Answer { headers: "Retry-After: 1\r\n", ..refuse(503) });
    let mut consumer = consumer(&server);
    next(&mut consumer).await.drop();
    wait_until("it is refused", || !server.settles().is_empty()).await;
    let refused_at = Instant::now();
    wait_until("it is sent again", || server.settles().len() == 2).await;
    assert!(refused_at.elapsed() > Duration::from_millis(900));
}

#[tokio::test]
async fn acknowledgements_leave_when_half_of_the_records_or_bytes_wait() {
    for (count, data) in [(501, "{}".to_string()), (2, "x".repeat(9 << 20))] {
        let records = (1..=count)
            .map(|number| Sent { data: data.clone().into(), ..Sent::new(number.to_string(), 1, "b1") }.frame());
        let server = server_of([session()].into_iter().chain(records).collect()).await;
        let mut consumer = builder(&server).ack_interval(PATIENCE * 2).build().unwrap();
        take(&mut consumer, count).await;
        wait_until("acknowledgements are sent", || !server.outcomes().is_empty()).await;
    }
}

#[tokio::test]
async fn settle_request_has_at_most_1000_items() {
    let records = (1..=2501).map(first);
    let server = server_of([large_session()].into_iter().chain(records).collect()).await;
    let mut consumer = builder(&server).ack_interval(PATIENCE).build().unwrap();
    take(&mut consumer, 2501).await;
    consumer.close().await;
    let sizes: Vec<usize> =
        server.settles().iter().map(|(body, _)| body["settlements"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [1000, 1000, 500]);
}

#[tokio::test]
async fn slow_answer_does_not_stop_the_stream() {
    let server = server_of(vec![session(), first(1)]).await;
    server.answer_settle(Answer { delay: PATIENCE * 2, ..answer(200, json!({})) });
    let mut consumer = consumer(&server);
    next(&mut consumer).await.drop();
    wait_until("the settlement is sent", || !server.settles().is_empty()).await;
    server.write(record(2, 1, "b2"));
    assert_eq!(take(&mut consumer, 1).await, numbers(&[("2", 1)]));
}

#[tokio::test]
async fn refused_item_is_reported() {
    let server = server_of(vec![session(), first(1)]).await;
    server.answer_settle(failed("a1.1", "EXPIRED"));
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    next(&mut consumer).await.drop();
    wait_until("the refusal is counted", || consumer.failed() == 1).await;
    let failure = Event::SettleFailed { ack_id: "a1.1".into(), reason: "EXPIRED".into(), message: "too late".into() };
    wait_until("the refusal is reported", || events.all().contains(&failure)).await;
}

#[tokio::test]
async fn refused_settle_request_is_an_error() {
    let server = server_of(vec![session(), first(1)]).await;
    server.answer_settle(refuse(401));
    let mut consumer = consumer(&server);
    next(&mut consumer).await.drop();
    let error = within(consumer.next()).await.unwrap_err();
    assert_eq!(error.to_string(), "401 a sentence");
}

#[tokio::test]
async fn refused_dead_letter_takes_no_acknowledgement_along() {
    let server = server_of(vec![session(), first(1), record(2, 1, "b2")]).await;
    server.answer_settle(refuse(400));
    let mut consumer = builder(&server).ack_interval(PATIENCE).build().unwrap();
    take(&mut consumer, 1).await;
    next(&mut consumer).await.dead_letter("no");
    assert_eq!(within(consumer.next()).await.unwrap_err().to_string(), "400 a sentence");
    assert_eq!(server.outcomes(), ["a2.1 dead_letter", "b1 ack"]);
    assert_eq!(server.settles().len(), 2);
    assert_eq!(server.deleted().len(), 1);
}

#[tokio::test]
async fn refused_settle_request_at_the_end_of_a_run_is_an_error() {
    let server = server_of(vec![session(), first(1)]).await;
    server.answer_settle(refuse(401));
    let mut consumer = consumer(&server);
    let stopper = consumer.stopper();
    let result = within(consumer.run(move |_| {
        stopper.stop();
        async { Ok::<_, Error>(()) }
    }))
    .await;
    assert_eq!(result.unwrap_err().to_string(), "401 a sentence");
}

#[tokio::test]
async fn token_file_is_read_for_each_request() {
    let folder = Folder::new();
    let path = folder.path("token");
    std::fs::write(&path, "first\n").unwrap();
    let server = server_of(vec![session(), first(1)]).await;
    let mut consumer = builder(&server).token_file(&path).build().unwrap();
    let record = next(&mut consumer).await;
    std::fs::write(&path, "second\n").unwrap();
    record.drop();
    wait_until("the record is settled", || !server.settles().is_empty()).await;
    assert!(server.opened()[0].contains("Authorization: Bearer first\r\n"));
    assert!(server.settles()[0].1.contains("Authorization: Bearer second\r\n"));
}

#[tokio::test]
async fn lost_lease_takes_its_records() {
    let server = server_of(vec![session(), first(1), first(2), of_shard(3, "other", "b2")]).await;
    let events = Events::default();
    let mut consumer = events.consumer(&server);
    take(&mut consumer, 1).await;
    let lost = Event::LeaseLost { shard_id: "shardId-000000000000".into() };
    server.write(lease_lost("shardId-000000000000"));
    wait_until("the lease is lost", || events.all().contains(&lost)).await;
    assert_eq!(next(&mut consumer).await.shard_id(), "other");
}

fn extensions(server: &Server) -> Vec<Value> {
    server.items().into_iter().filter(|item| item["outcome"] == "extend").collect()
}

#[tokio::test]
async fn records_of_the_app_are_extended() {
    let server = server_of(vec![session_with(300, 10_000), first(1), first(2)]).await;
    let mut consumer = consumer(&server);
    take(&mut consumer, 1).await;
    wait_until("the batch is extended", || extensions(&server).len() >= 2).await;
    assert_eq!(extensions(&server)[0], json!({"batch_id": "b1", "outcome": "extend", "delay_ms": 300}));
}

#[tokio::test]
async fn extension_ends_with_max_processing() {
    let server = server_of(vec![session_with(150, 10_000), first(1)]).await;
    let mut consumer = builder(&server).max_processing(Duration::from_millis(400)).build().unwrap();
    take(&mut consumer, 1).await;
    server.write(record(2, 1, "b2"));
    wait_until("the second batch is extended", || extensions(&server).iter().any(|item| item["batch_id"] == "b2"))
        .await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let before = extensions(&server).len();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(extensions(&server).len(), before);
}

#[tokio::test]
async fn redelivery_does_not_begin_max_processing_again() {
    let server = server_of(vec![session_with(150, 10_000), first(1)]).await;
    let mut consumer = builder(&server).max_processing(Duration::from_millis(400)).build().unwrap();
    take(&mut consumer, 1).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    server.write(record(1, 2, "b2"));
    server.write(record(2, 1, "b2"));
    let extended = |name: &str, id: &str| extensions(&server).iter().any(|item| item[name] == id);
    wait_until("the other record is extended", || extended("ack_id", "a2.1")).await;
    assert!(!extended("ack_id", "a1.2") && !extended("batch_id", "b2"));
}

#[tokio::test]
async fn app_extends_a_record() {
    let server = server_of(vec![session(), first(1)]).await;
    let mut consumer = consumer(&server);
    next(&mut consumer).await.extend(Duration::from_secs(7));
    wait_until("it is extended", || !server.items().is_empty()).await;
    assert_eq!(server.items()[0], json!({"ack_id": "a1.1", "outcome": "extend", "delay_ms": 7000}));
}

#[tokio::test]
async fn reason_is_text_that_the_sidecar_takes() {
    let server = server_of(vec![session(), first(1)]).await;
    let mut consumer = consumer(&server);
    next(&mut consumer).await.dead_letter(&("\0".to_string() + &"ä".repeat(1000)));
    consumer.close().await;
    assert_eq!(server.items()[0]["reason"], "?".to_string() + &"ä".repeat(499));
}

#[tokio::test]
async fn failure_of_a_handler_is_a_retry() {
    let not_json = Sent { data: b"{".to_vec(), ..Sent::new("1", 1, "b1") };
    let frames = [not_json.frame(), of_shard(2, "other", "b2")];
    for concurrency in [1, 4] {
        let server = server_of([vec![session()], frames.to_vec()].concat()).await;
        let mut consumer = builder(&server).concurrency(concurrency).build().unwrap();
        let stopper = consumer.stopper();
        let running = tokio::spawn(async move {
            consumer
                .run(|record: Record| async move {
                    record.json::<Value>()?;
                    assert!(record.sequence_number() != "2", "the handler panics");
                    Ok::<_, serde_json::Error>(())
                })
                .await
        });
        wait_until("both are retried", || server.outcomes().len() == 2).await;
        stopper.stop();
        within(running).await.unwrap().unwrap();
        let mut reasons: Vec<_> =
            server.items().iter().map(|item| item["reason"].as_str().unwrap().to_string()).collect();
        reasons.sort();
        assert_eq!(reasons, ["EOF while parsing an object at line 1 column 1", "panic: the handler panics"]);
    }
}

#[tokio::test]
async fn panic_of_on_event_ends_the_consumer() {
    let server = server_of(vec![session()]).await;
    let mut consumer = builder(&server).on_event(|_| panic!("no")).build().unwrap();
    assert_eq!(within(consumer.next()).await.unwrap_err(), Error::EventHandlerPanicked);
}

#[tokio::test]
async fn dropped_future_loses_no_record() {
    let server = server_of(vec![session()]).await;
    let mut consumer = consumer(&server);
    for _ in 0..3 {
        let _ = tokio::time::timeout(Duration::from_millis(1), consumer.next_batch(10, Duration::from_secs(1))).await;
    }
    wait_until("the stream is open", || !server.opened().is_empty()).await;
    server.write(first(1));
    server.write(first(2));
    let batch = within(consumer.next_batch(2, PATIENCE)).await.unwrap().unwrap();
    assert_eq!(batch.len(), 2);
}

#[tokio::test]
async fn session_is_asked_for_with_the_options() {
    let server = server_of(vec![session(), first(1)]).await;
    let builder = builder(&server).max_in_flight(5).concurrency(4).shards(["a", "b/c"]).subscription("sub name");
    let mut consumer = builder.build().unwrap();
    take(&mut consumer, 1).await;
    let target =
        "/v1/records/stream?client_id=orders&max_in_flight=5&max_in_flight_bytes=16777216&ack_deadline_ms=60000\
                  &ordering=key&lanes=64&shards=a%2Cb%2Fc&subscription=sub%20name";
    assert!(server.opened()[0].starts_with(&format!("GET {target} HTTP/1.1\r\n")), "{}", server.opened()[0]);
    assert!(server.opened()[0].contains("Accept: application/x-protobuf\r\n"));
}

#[tokio::test]
async fn stream_is_asked_for_the_records_that_the_consumer_wants() {
    type Configure = fn(Builder) -> Builder;
    let cases: [(Configure, &str); 4] = [
        (|builder| builder.share("0.05").salt("v2"), "ordering=key&lanes=64&share=0.05&salt=v2"),
        (|builder| builder.share("0.5").ordering(Ordering::Key).lanes(8), "ordering=key&lanes=8&share=0.5"),
        (
            |builder| builder.filter(r#"{"data":{"a":["ä +&"]}}"#),
            "ordering=shard&filter=%7B%22data%22%3A%7B%22a%22%3A%5B%22%C3%A4%20%2B%26%22%5D%7D%7D",
        ),
        (|builder| builder, "ordering=shard"),
    ];
    for (configure, wanted) in cases {
        let server = server_of(vec![session(), first(1)]).await;
        take(&mut configure(builder(&server)).build().unwrap(), 1).await;
        let target = server.opened()[0].split(' ').nth(1).unwrap().to_string();
        assert!(target.ends_with(&format!("&ack_deadline_ms=60000&{wanted}")), "{target}");
    }
}

#[test]
fn bad_option_is_refused() {
    for url in ["ftp://x", "http://", "unix:relative", "http://127.0.0.1:1/path", "http://127.0.0.1:x", "http://[::1"] {
        let error = Consumer::builder("orders").url(url).build().err().expect(url).to_string();
        assert!(error.contains("http://HOST:PORT") || error.contains("absolute"), "{error}");
    }
    for client_id in ["", "a b", &"x".repeat(65)] {
        let error = Consumer::builder(client_id).build().err().expect(client_id).to_string();
        assert!(error.starts_with("client_id must be"), "{error}");
    }
    assert!(Consumer::builder("orders").url("http://x").concurrency(0).build().is_err());
    for url in ["http://localhost:8990", "http://[::1]:8990/", "http://127.0.0.1", "unix:/run/api.sock"] {
        assert!(Consumer::builder("orders").url(url).build().is_ok(), "{url}");
    }
}
