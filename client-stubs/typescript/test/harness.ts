// SPDX-License-Identifier: Apache-2.0
// A scripted sidecar for each test of a file, and consumers of it.
import { afterEach, beforeEach } from "node:test";
import { Consumer, type ConsumerEvent, type ConsumerOptions } from "kinesis-sidecar";
import { ScriptedSidecar } from "./scripted.js";

export let sidecar: ScriptedSidecar;
export let events: ConsumerEvent[];
export let consumers: Consumer[];

beforeEach(async () => {
    sidecar = await new ScriptedSidecar().start();
    events = [];
    consumers = [];
});

afterEach(async () => {
    await Promise.all(consumers.map((consumer) => consumer.close()));
    sidecar.stop();
});

export function consumerOf(options: ConsumerOptions = {}): Consumer {
    const onEvent = (event: ConsumerEvent) => void events.push(event);
    const consumer = new Consumer("me", { url: sidecar.url, ackIntervalMs: 5, onEvent, ...options });
    consumers.push(consumer);
    return consumer;
}

/** Runs a consumer that keeps the numbers of its records. */
export function collect(consumer: Consumer): { seen: number[]; done: Promise<void> } {
    const seen: number[] = [];
    const done = consumer.run((record) => void seen.push(record.json<{ n: number }>().n), { signals: false });
    return { seen, done };
}
