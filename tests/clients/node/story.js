// SPDX-License-Identifier: Apache-2.0
// What story.py tells, in JavaScript: what is held, what is settled when and how, and the diary.
import fs from "node:fs";

const WINDOW = 200;
const RETRY_MOST_MS = 30;
export const MAX_IN_FLIGHT = 2 * WINDOW;
export const HEARTBEAT_MS = 100;
export const CLIENT_ID = "scenario";
export const RACE_BATCHES = 16;
export const RACE_IN_FLIGHT = 100000;

// A small generator: that of JavaScript takes no seed.
function chanceOf(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

function tell(event, more) {
  fs.writeSync(1, JSON.stringify({ event, ...more }) + "\n");
}

export class Story {
  held = new Map(); // "shard sequence" -> {shard, sequence, ackId}
  pending = new Map(); // request -> the keys that it settles for good
  done = new Set();
  unsure = new Set(); // Settled for good in a stream that ended before the answer.
  request = 0;
  hungUp = false;

  constructor(seed, count, retries, letters) {
    this.below = chanceOf(Number(seed));
    this.count = Number(count);
    this.retries = Number(retries);
    this.letters = Number(letters);
  }

  opened() {
    tell("opened");
  }

  record(shard, sequence, data, attempt, ackId) {
    tell("record", { shard, sequence, data: Buffer.from(data).toString("base64"), attempt });
    const key = `${shard} ${sequence}`;
    this.unsure.delete(key);
    if (!this.done.has(key) && ![...this.pending.values()].some((keys) => keys.has(key)))
      this.held.set(key, { shard, sequence, ackId });
  }

  // What is to be settled now: {request, items: [{ackId, outcome, delayMs}]}, or null.
  due(silence) {
    if (this.held.size === 0 || (!silence && this.held.size < WINDOW)) return null;
    const keys = this.sample(silence ? this.held.size : this.held.size >> 1);
    const final = new Set();
    const retried = new Map();
    this.request++;
    const items = keys.map((key) => {
      const { shard, sequence, ackId } = this.held.get(key);
      const outcome = this.outcome();
      tell("settle", { request: this.request, shard, sequence, outcome });
      this.held.delete(key);
      if (outcome !== "retry") final.add(key);
      else if (!retried.has(shard) || BigInt(sequence) < retried.get(shard)) retried.set(shard, BigInt(sequence));
      return { ackId, outcome, delayMs: outcome === "retry" ? 1 + this.below(RETRY_MOST_MS) : 0 };
    });
    for (const [key, { shard, sequence }] of this.held)
      if (retried.has(shard) && BigInt(sequence) > retried.get(shard)) this.held.delete(key);
    this.pending.set(this.request, final);
    return { request: this.request, items };
  }

  sample(most) {
    const keys = [...this.held.keys()];
    for (let at = 0; at < most; at++) {
      const other = at + this.below(keys.length - at);
      [keys[at], keys[other]] = [keys[other], keys[at]];
    }
    return keys.slice(0, most);
  }

  outcome() {
    const drawn = this.below(1000);
    if (drawn < this.retries) return "retry";
    return drawn < this.retries + this.letters ? "dead_letter" : "ack";
  }

  settled(request, ok, failed, positions) {
    tell("settled", { request, ok, failed, positions });
    for (const key of this.pending.get(request)) this.done.add(key);
    this.pending.delete(request);
  }

  hangsUp() {
    if (this.hungUp || this.done.size < this.count / 2 || this.held.size === 0) return false;
    this.hungUp = true;
    tell("disconnected");
    this.held.clear();
    for (const keys of this.pending.values()) for (const key of keys) this.unsure.add(key);
    this.pending.clear();
    return true;
  }

  isOver(silence) {
    if (this.held.size > 0 || this.pending.size > 0) return false;
    if (this.done.size + this.unsure.size < this.count || (this.unsure.size > 0 && !silence)) return false;
    tell("finished");
    return true;
  }
}
