// SPDX-License-Identifier: Apache-2.0
export { Consumer, type ConsumerOptions, type Ordering } from "./consumer.js";
export { SessionTakenOver, SidecarError } from "./errors.js";
export type { ConsumerEvent, ControlEvent, SessionEvent } from "./events.js";
export type { Handler } from "./handlers.js";
export type { BatchOptions, RunOptions } from "./reader.js";
export { Batch, KinesisRecord, type Outcome, type RecordObject, type RetryOptions } from "./record.js";
export { APPLIED_TABLE, applyOnce, type TransactionClient } from "./apply-once.js";
